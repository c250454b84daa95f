"""InlinePrivateFunctions: calls of private functions are replaced by their bodies."""

from __future__ import annotations

from collections.abc import Mapping

from tirlower.analysis.call_graph import CallGraph, calls_of
from tirlower.analysis.purity import side_effect
from tirlower.analysis.undefined import undefined_vars
from tirlower.diagnostics import TransformError
from tirlower.ir.expr import Call, Expr, Let, Var
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.functor import Mutator, substitute
from tirlower.ir.op import GlobalVar, Op, Purity
from tirlower.ir.query import has, statements
from tirlower.ir.refresh import copy_var, refresh_binders
from tirlower.ir.splice import returns
from tirlower.ir.stmt import Bind, Block, Evaluate, Seq, Stmt, seq
from tirlower.machine.target import Target
from tirlower.rewrite.base import ModulePass
from tirlower.rewrite.context import PassContext

__all__ = ["InlinePrivateFunctions"]

_RET = Op.get("tir.ret")


def _statements(body: Stmt) -> list[Stmt]:
    return list(body.stmts) if isinstance(body, Seq) else [body]


class _Body:
    """An inlinable function: its statements, the value it returns at its end, and where each parameter is used first."""

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.stmts = _statements(func.body)
        self.result: Expr | None = None
        last = self.stmts[-1] if self.stmts else None
        if isinstance(last, Evaluate) and isinstance(last.value, Call) and last.value.op is _RET:
            self.stmts.pop()
            self.result = last.value.args[0] if last.value.args else None
        self.first_use: dict[Var, int] = {}
        for index, stmt in enumerate([*self.stmts, *([] if self.result is None else [Evaluate(self.result)])]):
            for var in undefined_vars(stmt):
                self.first_use.setdefault(var, index)

    @property
    def is_value(self) -> bool:
        """Whether it only computes: bindings that write nothing, then a returned value."""
        if self.result is None or not all(isinstance(s, Bind) for s in self.stmts):
            return False
        values = [self.result, *[s.value for s in self.stmts if isinstance(s, Bind)]]
        return all(side_effect(value) <= Purity.READS for value in values)


def _has_let(expr: Expr) -> bool:
    return has(Let, expr)


class _Inliner(Mutator):
    """Inlines the calls in the body of one function."""

    def __init__(self, bodies: Mapping[str, _Body], caller: PrimFunc) -> None:
        self.bodies = bodies
        self.target = _target(caller)
        self.inlined: set[str] = set()

    def callee(self, op: Expr) -> tuple[str, _Body] | None:
        """The body to put in place of a call, when there is one for the caller's target."""
        if not isinstance(op, Call) or not isinstance(op.op, GlobalVar):
            return None
        body = self.bodies.get(op.op.name)
        if body is None or _target(body.func) != self.target:
            return None
        _check_arguments(op, body.func)
        return op.op.name, body

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        found = self.callee(op.value)
        if found is None:
            return op.with_(value=self.visit(op.value))
        self.inlined.add(found[0])
        assert isinstance(op.value, Call)
        return _as_statement(found[1], [self.visit(arg) for arg in op.value.args])

    def visit_Call(self, op: Call) -> Expr:
        found = self.callee(op)
        if found is None or not found[1].is_value:
            return op
        made = _as_expression(found[1], op.args)
        if made is None:
            return op
        self.inlined.add(found[0])
        return made


def _target(func: PrimFunc) -> Target | None:
    found = func.attrs.get("target")
    return None if found is None else Target(found)


def _check_arguments(op: Call, func: PrimFunc) -> None:
    assert isinstance(op.op, GlobalVar)
    kinds = [str(arg.dtype) for arg in op.args]
    wanted = [str(param.dtype) for param in func.params]
    if kinds != wanted:
        raise TransformError(
            f"{op.op.name!r} takes ({', '.join(wanted)}), the call passes ({', '.join(kinds)})",
            span=op.span,
            help="pass one argument of the parameter's dtype for each parameter",
        )


def _as_statement(body: _Body, args: list[Expr]) -> Stmt:
    """A copy of a body on these arguments, for its effects.

    Values that read memory, and addresses, are bound: the former before anything else runs, the latter before their
    first use.
    """
    vmap: dict[Var, Expr] = {}
    heads: list[Stmt] = []
    later: dict[int, list[Stmt]] = {}
    for param, arg in zip(body.func.params, args, strict=True):
        effect = side_effect(arg)
        if isinstance(arg, Var) or (not param.dtype.is_handle and effect is Purity.PURE and not _has_let(arg)):
            vmap[param] = arg
            continue
        first = body.first_use.get(param)
        if first is None and effect <= Purity.READS:
            continue
        vmap[param] = local = copy_var(param)
        bind = Bind(local, arg, span=arg.span)
        if effect is Purity.PURE and first is not None:
            later.setdefault(first, []).append(bind)
        else:
            heads.append(bind)
    # One copy of everything, so that what the statements declare is renamed in all of them alike.
    rest = list(body.stmts)
    if body.result is not None and side_effect(body.result) > Purity.READS:
        rest.append(Evaluate(body.result, span=body.result.span))
    elif len(body.stmts) in later:
        del later[len(body.stmts)]
    copied = _statements(substitute(refresh_binders(_sequence(rest)), vmap))
    made: list[Stmt] = []
    for index, stmt in enumerate(copied):
        made += later.get(index, [])
        made.append(stmt)
    return seq(Seq((*heads, *made))) if heads or made else seq()


def _sequence(stmts: list[Stmt]) -> Stmt:
    return Seq(tuple(stmts))


def _as_expression(body: _Body, args: tuple[Expr, ...]) -> Expr | None:
    """A copy of a body that only computes, as one expression; None where an address would need a variable."""
    vmap: dict[Var, Expr] = {}
    bound: list[tuple[Var, Expr]] = []
    for param, arg in zip(body.func.params, args, strict=True):
        if isinstance(arg, Var):
            vmap[param] = arg
        elif param.dtype.is_handle:
            return None
        else:
            local = copy_var(param)
            vmap[param] = local
            bound.append((local, arg))
    assert body.result is not None
    copied = _statements(substitute(refresh_binders(_sequence([*body.stmts, Evaluate(body.result)])), vmap))
    last = copied.pop()
    assert isinstance(last, Evaluate)
    made = last.value
    for stmt in reversed(copied):
        assert isinstance(stmt, Bind)
        made = Let(stmt.var, stmt.value, made)
    for var, value in reversed(bound):
        # A constant, or a value that is named once, needs no name.
        made = substitute(made, {var: value}) if value.is_leaf else Let(var, value, made)
    return made


class InlinePrivateFunctions(ModulePass):
    """Calls of private functions become their bodies; a function whose every call was inlined is removed.

    Inlined are functions without ``global_symbol``, not recursive, without buffer parameters (pointers and scalars
    only) and blocks, that return at their end or not at all, where caller and callee have the same target. A call that
    is a statement becomes the callee's statements in a scope of their own: pure arguments stand in place of scalar
    parameters, others and addresses are bound. A call for its value becomes an expression where the callee only binds
    values and returns one. What a callee calls is inlined first, so the text may grow as calls multiply.

    Needs nothing. Raises :class:`TransformError` for a call whose arguments are not those that the callee takes.

    >>> from tirlower.script import parse
    >>> print(InlinePrivateFunctions()(parse('''
    ... @I.ir_module
    ... class Module:
    ...     @T.prim_func
    ...     def main(A: T.Buffer((8,), "float32")):
    ...         for i in range(4):
    ...             Module.clear(T.address_of(A[i * 2]), 2)
    ...     @T.prim_func(private=True)
    ...     def clear(p: T.handle("float32"), n: T.int32):
    ...         P = T.decl_buffer((n,), "float32", data=p)
    ...         for j in range(n):
    ...             P[j] = T.float32(0)
    ... '''))["main"].script())
    @T.prim_func
    def main(A: T.Buffer((8,), "float32")):
        for i in range(4):
            p: T.handle("float32") = T.address_of(A[i * 2])
            P = T.decl_buffer((2,), data=p)
            for j in range(2):
                P[j] = T.float32(0)
    """

    name = "tir.InlinePrivateFunctions"

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Inline the private functions of a module."""
        graph = CallGraph(mod)
        done: dict[str, PrimFunc] = {}
        bodies: dict[str, _Body] = {}
        inlined: set[str] = set()
        for name in graph.order:
            func = mod[name]
            worker = _Inliner(bodies, func)
            done[name] = func = func.with_body(worker.visit(func.body)) if bodies and graph.callees[name] else func
            inlined |= worker.inlined
            if name not in graph.recursive and _is_inlinable(func):
                body = _Body(func)
                if not any(returns(stmt) for stmt in body.stmts):
                    bodies[name] = body
        if not inlined:
            return mod
        kept: set[str] = set()
        called: set[str] = set()
        for name in reversed(graph.order):  # callers first
            if name in inlined and name not in called:
                continue
            kept.add(name)
            called.update(graph.key_of(call) or "" for call in calls_of(done[name]))
        return mod.with_functions({name: done[name] for name in mod if name in kept})


def _is_inlinable(func: PrimFunc) -> bool:
    if "global_symbol" in func.attrs or func.buffer_map:
        return False
    return not any(isinstance(op, Block) for op in statements(func.body))
