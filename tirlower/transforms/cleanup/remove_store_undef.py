"""RemoveStoreUndef: stores of undefined values go away."""

from __future__ import annotations

from typing import NoReturn

from tirlower.analysis.purity import side_effect
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.expr import BufferLoad, Call, Expr, Let, Select, Var, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Dispatch, Mutator, fold
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import each, nodes
from tirlower.ir.refresh import refresh_binders
from tirlower.ir.splice import as_scope
from tirlower.ir.stmt import Bind, BufferStore, For, IfThenElse, Seq, Stmt, is_no_op, seq
from tirlower.rewrite.base import Fact, FuncPass
from tirlower.rewrite.context import PassContext
from tirlower.transforms.cleanup.remove_no_op import RemoveNoOp

__all__ = ["RemoveStoreUndef"]

_UNDEF = Op.get("tir.undef")
_IF = Op.get("tir.if_then_else")

Defined = tuple[Expr, list[Expr]]
"""A value without undefined parts, and the conditions under which it is the value."""


class _Remover(Dispatch[Expr, Defined | None], Mutator):
    def __init__(self) -> None:
        # Variables whose value is undefined.
        self.undefined: set[Var] = set()

    def visit_expr(self, root: Expr) -> Expr:
        """Nothing but stores and bindings may use an undefined value."""
        if self._mentions(root):
            raise _left_over(root)
        return root

    def _mentions(self, root: Expr) -> bool:
        return any((op.__class__ is Call and op.op is _UNDEF) or op in self.undefined for op in nodes(root))

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        for index in op.indices:
            if self._mentions(index):
                raise _in_index(op.buffer.name, index, op)
        if op.predicate is not None:
            self.visit_expr(op.predicate)
        if not self._mentions(op.value):
            return op
        _only_reads(op.value, f"a store to {op.buffer.name!r}", op)
        found = self._defined(op.value)
        if found is None:
            return seq()
        value, conditions = found
        store = op.with_(value=value)
        return IfThenElse(build.all_of(*conditions), store, span=op.span) if conditions else store

    def visit_Bind(self, op: Bind) -> Stmt:
        if not self._mentions(op.value):
            return op
        _only_reads(op.value, f"the binding of {op.var.name!r}", op)
        found = self._defined(op.value)
        if found is None:
            self.undefined.add(op.var)
            return seq()
        value, conditions = found
        if conditions:
            # Elsewhere any value will do.
            value = build.if_then_else(build.all_of(*conditions), value, const(0, value.dtype))
        return op.with_(value=value)

    def visit_Seq(self, op: Seq) -> Stmt:
        done = [self.visit(stmt) for stmt in op.stmts]
        if all(a is b for a, b in zip(done, op.stmts, strict=True)):
            return op
        kept = [new for new, old in zip(done, op.stmts, strict=True) if new is old or not is_no_op(new)]
        return as_scope(kept[0]) if len(kept) == 1 else Seq(tuple(kept), span=op.span) if kept else seq()

    def visit_For(self, op: For) -> Stmt:
        self.visit_expr(op.min)
        self.visit_expr(op.extent)
        return op.with_(body=self.visit(op.body))

    def _defined(self, op: Expr) -> Defined | None:
        """The defined part of a value; None where all of it is undefined, as is what is computed from it."""
        if not self._mentions(op):
            return op, []
        return self.dispatch(op)

    def on_BufferLoad(self, op: BufferLoad) -> NoReturn:
        index = next((i for i in op.indices if self._mentions(i)), op.predicate)
        raise _in_index(op.buffer.name, index, op)

    def on_Var(self, op: Var) -> None:
        return None

    def on_Call(self, op: Call) -> Defined | None:
        if op.op is _UNDEF:
            return None
        return self._choice(op) if op.op is _IF else self.otherwise(op)

    def on_Select(self, op: Select) -> Defined | None:
        if not self._mentions(op.condition):
            yes, no = self._defined(op.true_value), self._defined(op.false_value)
            if yes is None or no is None:
                return yes or no  # any value will do in the other lanes
        return self.otherwise(op)

    def otherwise(self, op: Expr) -> Defined | None:
        """An operation is defined where all its operands are."""
        parts: list[Expr] = []
        conditions: list[Expr] = []
        for child in op.children():
            found = self._defined(child)
            if found is None:
                return None
            parts.append(found[0])
            conditions += found[1]
        values = iter(parts)
        return fold(op.map_children(lambda _: next(values))), conditions

    def on_Let(self, op: Let) -> Defined | None:
        value = self._defined(op.value)
        if value is None:
            self.undefined.add(op.var)
            return self._defined(op.body)
        body = self._defined(op.body)
        if body is None:
            return None
        # The conditions of the body may use the variable, which ends with the expression.
        conditions = [*value[1], *[refresh_binders(Let(op.var, value[0], c)) for c in body[1]]]
        return Let(op.var, value[0], body[0], span=op.span), conditions

    def _choice(self, op: Call) -> Defined | None:
        condition, *arms = op.args
        if self._mentions(condition):
            return None
        yes, no = self._defined(arms[0]), self._defined(arms[1])
        if yes is None and no is None:
            return None
        if no is None and yes is not None:
            return yes[0], [condition, *yes[1]]
        if yes is None and no is not None:
            return no[0], [build.logical_not(condition), *no[1]]
        assert yes is not None and no is not None
        conditions = [
            build.if_then_else(condition, build.all_of(*yes[1]), build.all_of(*no[1]))
            for _ in range(bool(yes[1] or no[1]))
        ]
        return op.with_(args=(condition, yes[0], no[0])), conditions


def _only_reads(value: Expr, what: str, site: Stmt) -> None:
    if side_effect(value) > Purity.READS:
        raise TransformError(
            f"the undefined value of {what} has effects of its own: {value}",
            span=site.span,
            help="evaluate what has an effect in a statement of its own",
        )


def _in_index(name: str, index: Expr | None, site: Expr | Stmt) -> TransformError:
    return TransformError(
        f"T.undef() is used in an index of buffer {name!r}: {index}",
        span=site.span,
        help="an undefined value can only be stored; give the index a value",
    )


def _left_over(root: Expr) -> TransformError:
    for load in each(BufferLoad, root):
        if any(call.op is _UNDEF for call in each(Call, *load.indices)):
            return _in_index(load.buffer.name, load, root)
    return TransformError(
        f"T.undef() is left over where a value is needed: {root}",
        span=root.span,
        help="an undefined value can only be stored to a buffer, or bound to a variable that is stored",
    )


class RemoveStoreUndef(FuncPass):
    """Stores of ``T.undef()``, or of what is computed from it, are removed.

    A binding of an undefined value goes too, as do the stores that use it. Where only one arm of an ``if_then_else`` is
    undefined, the store of the other one stays under its condition; of a ``Select`` the defined value is stored. An
    undefined arm in a bound value becomes 0. What that leaves without effect, such as a loop that is empty now, goes as
    well (RemoveNoOp, whose options apply); a function without undefined values stays as it is.

    Needs nothing. Raises :class:`TransformError` for an undefined value in an index, in a value with effects, or left
    over anywhere else: in a condition, a bound, an argument. After TIR's pass of the name.

    >>> from tirlower.script import parse
    >>> print(RemoveStoreUndef()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((16,), "int32"), B: T.Buffer((14,), "int32")):
    ...     A[15] = T.undef(dtype="int32") + 1
    ...     for i in range(16):
    ...         A[i] = T.if_then_else(i < 14, B[i], T.undef(dtype="int32"))
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((16,), "int32"), B: T.Buffer((14,), "int32")):
        for i in range(16):
            if i < 14:
                A[i] = B[i]
    """

    name = "tir.RemoveStoreUndef"
    needs = (Fact.SINGLE_STATEMENTS,)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Remove the undefined stores of a function."""
        after = func.with_body(_Remover().visit(func.body))
        return after if after is func else RemoveNoOp().under(ctx).transform(after, ctx)
