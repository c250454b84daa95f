"""The rules that a function or module keeps: ``verify_well_formed``.

The rules of scope are those of :mod:`tirlower.ir.binding`. On top of them:

- every variable and every declared buffer is defined once, in the whole module; the one exception is that the thread
  loops of one tag in a function share one variable (virtual threads may), and so do attributes over one axis;
- a buffer that is declared is used only where its declaration is in scope; nothing is used outside its allocation;
- the layout of a buffer does not change while the buffer lives: it reads no memory;
- a block's iterators are bound, to values of their own type that do not mention them, and its reads and writes are
  stated; a block with iterators uses those, not the loop variables around it;
- types agree: of iterators, conditions, constants, lane-by-lane calls, returned values, calls between functions;
- calls of other functions of the module find them, with the arguments that they take;
- two functions of a module do not export one name for one target.
"""

from __future__ import annotations

from typing import NoReturn

from tirlower.diagnostics import Label, Span, TirError, WellFormedError, nearest_name
from tirlower.ir.binding import ScopeWalker
from tirlower.ir.buffer import Buffer, IterVar, MatchBufferRegion
from tirlower.ir.changes import changing_part
from tirlower.ir.dtype import BOOL, VOID, DataType, PointerType
from tirlower.ir.expr import Call, Expr, Let, Var
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.node import Node
from tirlower.ir.op import GlobalVar, Op
from tirlower.ir.stmt import AllocBuffer, AllocConst, AttrStmt, Block, BlockIter, DeclBuffer, For, ForKind, Stmt

__all__ = ["verify_well_formed"]

THREAD_KEYS = ("thread_extent", "virtual_thread")
"""The attributes that give a thread axis its extent."""
_SHOWN_LINES = 6  # of the printed IR, where a node has no span
_KINDS: dict[type, str] = {
    AllocBuffer: "allocation",
    AllocConst: "constant",
    DeclBuffer: "declaration",
    MatchBufferRegion: "matched region",
}


class _Module:
    """What the functions of one module have in common while it is verified."""

    def __init__(self, functions: dict[str, PrimFunc]) -> None:
        self.functions = functions
        self.defined: dict[object, tuple[Node, str]] = {}
        self.calls: list[tuple[str, Call, Stmt | None]] = []
        self.returned: dict[str, set[DataType]] = {}


class _Verifier(ScopeWalker):
    """Verifies one function; raises at the first rule that is broken."""

    def __init__(self, name: str, func: PrimFunc, module: _Module) -> None:
        super().__init__()
        self.name = name
        self.func = func
        self.module = module
        self.undeclared: dict[Buffer, Node] = {}
        self.tags: dict[str, Var] = {}
        self.loops: list[tuple[Var, Block | None]] = []
        self.blocks: list[Block] = []
        self.ret_op = Op.get("tir.ret")

    # Errors

    def fail(
        self, message: str, site: object, help: str, notes: tuple[str, ...] = (), first: object = None
    ) -> NoReturn:
        """Raise at a node: its span, or that of the statement around it, or else the printed IR."""
        span = _span_of(site) or _span_of(self.stmt)
        labels = [Label(span)] if span is not None else []
        facts = [f"in function {self.name!r}", *notes]
        if span is None:
            facts.append(f"at:\n{_printed(self.stmt if isinstance(self.stmt, Stmt) else site)}")
        if first is not None:
            earlier = _span_of(first)
            if earlier is not None:
                labels.append(Label(earlier, "first defined here", primary=False))
            else:
                facts.append(f"first defined at:\n{_printed(first)}")
        raise WellFormedError(message, origin="verify_well_formed", labels=labels, notes=facts, help=help)

    # Definitions and uses

    def on_define(self, item: Var | Buffer, site: Node) -> None:
        known = self.module.defined.get(item)
        if known is not None and not _one_thread_axis(site, known[0], known[1] == self.name):
            earlier, function = known
            kind = "buffer" if isinstance(item, Buffer) else "variable"
            across = () if function == self.name else (f"it is defined in function {function!r} too",)
            if isinstance(earlier, For) and isinstance(site, For) and ForKind.THREAD_BINDING in (
                earlier.kind, site.kind
            ):  # fmt: skip
                across = (*across, f"thread tags {earlier.thread_tag!r} and {site.thread_tag!r}")
            self.fail(
                f"the {kind} {item.name!r} is defined twice",
                site,
                "give each definition a variable of its own: refresh_binders on a copied body, or ConvertSSA",
                across,
                first=earlier,
            )
        if isinstance(item, Buffer) and item in self.undeclared:
            self.fail(
                f"the buffer {item.name!r} is used before its declaration",
                self.undeclared[item],
                "move the declaration in front of the first use",
            )
        self.module.defined.setdefault(item, (site, self.name))

    def on_missing(self, item: Var | Buffer, site: Node, through: Buffer | None = None) -> None:
        of = f" of buffer {through.name!r}" if through is not None and through is not item else ""
        known = self.module.defined.get(item)
        if known is None:
            self.fail(
                f"the variable {item.name!r}{of} is used, but nothing defines it",
                site,
                "make it a parameter or a symbolic dimension of a parameter buffer, or bind it before its use",
            )
        earlier, function = known
        where = f"it belongs to function {function!r}" if function != self.name else "its scope has ended there"
        if isinstance(earlier, (AllocBuffer, AllocConst)) and through is not None:
            self.fail(
                f"the buffer {through.name!r} is used outside the scope of its allocation",
                site,
                "move the allocation out, in front of the first use",
                (where,),
                first=earlier,
            )
        self.fail(
            f"the variable {item.name!r}{of} is used outside its scope",
            site,
            "move the use into the scope, or the definition out of it",
            (where,),
            first=earlier,
        )

    def on_undeclared(self, buffer: Buffer, site: Node) -> None:
        known = self.module.defined.get(buffer)
        if known is not None:
            what = _KINDS.get(type(known[0]), "definition")
            self.fail(
                f"the buffer {buffer.name!r} is used outside the scope of its {what}",
                site,
                f"move the {what} out, in front of the first use",
                first=known[0],
            )
        self.undeclared.setdefault(buffer, site)

    # Loops and blocks

    def visit_loop(self, op: For) -> None:
        if op.kind is ForKind.THREAD_BINDING and op.thread_tag is not None:
            tag = op.thread_tag
            known = self.tags.setdefault(tag, op.loop_var)
            # Nested virtual threads have variables of their own.
            if known is not op.loop_var and not tag.startswith("vthread") and known.dtype is op.loop_var.dtype:
                self.fail(
                    f"the loops over {tag} have different variables, {known.name!r} and {op.loop_var.name!r}",
                    op,
                    "use one variable for all loops of a thread axis; ConvertSSA brings them together",
                )
        super().visit_loop(op)

    def visit_attr(self, op: AttrStmt) -> None:
        axis = op.node
        if not isinstance(axis, IterVar) or op.key not in THREAD_KEYS or axis.var in self.visible:
            super().visit_attr(op)
            return
        # A thread axis that is given as an attribute defines its variable, as a thread loop does.
        self.push()
        self.define(axis.var, op)
        super().visit_attr(op)
        self.pop()

    def enter_loop(self, op: For) -> None:
        if op.kind is not ForKind.THREAD_BINDING:
            self.loops.append((op.loop_var, self.blocks[-1] if self.blocks else None))

    def leave_loop(self, op: For) -> None:
        if op.kind is not ForKind.THREAD_BINDING:
            self.loops.pop()
            self.watched.pop(op.loop_var, None)

    def visit_block(self, op: Block) -> None:
        name = op.name
        for field in ("reads", "writes"):
            if getattr(op, field) is None:
                self.fail(
                    f"the {field} of block {name!r} are not stated",
                    op,
                    f"state them with T.{field}(…); the parser infers them where no access is opaque",
                )
        if op.predicate.dtype is not BOOL:
            self.fail(f"the predicate of block {name!r} has dtype {op.predicate.dtype!s}", op, "it is a scalar bool")
        for it in op.iters:
            self._check_iter(op, it)
        super().visit_block(op)

    def _check_iter(self, op: Block, it: BlockIter) -> None:
        kind, value = it.var.dtype, it.value
        if value is None:
            self.fail(
                f"the iterator {it.var.name!r} of block {op.name!r} has no binding",
                it,
                "bind it to a value in terms of the loop variables",
            )
        if it.domain.min.dtype is not kind or it.domain.extent.dtype is not kind or value.dtype is not kind:
            self.fail(
                f"the iterator {it.var.name!r} of block {op.name!r} has dtype {kind!s}, its domain "
                f"{it.domain.extent.dtype!s} and its binding {value.dtype!s}",
                it,
                "give all three one integer dtype",
            )

    def enter_block(self, op: Block) -> None:
        if op.iters:
            # From here on, the loops around are seen through the iterators.
            for var, _ in self.loops:
                self.watched.setdefault(var, len(self.blocks))
            self.blocks.append(op)

    def leave_block(self, op: Block) -> None:
        if op.iters:
            self.blocks.pop()
            depth = len(self.blocks)
            for var, _ in self.loops:
                if self.watched.get(var) == depth:
                    del self.watched[var]

    def on_watched(self, var: Var, site: Node) -> None:
        self.fail(
            f"the block {self.blocks[-1].name!r} uses the loop variable {var.name!r} of a loop around it",
            site,
            "bind the value to an iterator of the block, and use the iterator",
        )

    # Types

    def on_stmt(self, stmt: object, field: str, owner: Node) -> None:
        if not isinstance(stmt, Stmt):
            self.fail(
                f"the {field} of a {type(owner).__name__} is a statement, got {type(stmt).__name__}",
                owner,
                "wrap an expression in Evaluate",
            )

    def define_buffer(self, buffer: Buffer, site: Node) -> None:
        part = changing_part(buffer)
        if part is not None:
            self.fail(
                f"the layout of buffer {buffer.name!r} reads memory: {part}",
                site,
                "bind the value in front of the buffer: what is found in memory may change while the buffer lives",
            )
        super().define_buffer(buffer, site)

    def visit_declaration(self, op: AllocConst | DeclBuffer) -> None:
        if isinstance(op, AllocConst):
            dtype = op.buffer.dtype
            if dtype.is_scalar and not dtype.is_custom and not dtype.is_bool and op.data.dtype != dtype.numpy:
                self.fail(
                    f"the constant of buffer {op.buffer.name!r} has dtype {op.data.dtype}, the buffer {dtype!s}",
                    op,
                    "convert the array with astype",
                )
        super().visit_declaration(op)

    def on_call(self, call: Call) -> None:
        op = call.op
        if isinstance(op, GlobalVar):
            self.module.calls.append((self.name, call, self.stmt))
        elif op is self.ret_op:
            self._check_return(call)
        elif op.infer is not None and op.elementwise:
            wanted = op.infer(call.args)
            if wanted is not call.dtype:
                self.fail(
                    f"a call of {op.name} on {_types(call.args)} has dtype {wanted!s}, not {call.dtype!s}",
                    call,
                    "convert the arguments or the result with T.Cast",
                )

    def _check_return(self, call: Call) -> None:
        have = call.args[0].dtype if call.args else VOID
        wanted = self.func.ret_type
        dtype = DataType("handle") if isinstance(wanted, PointerType) else wanted
        self.module.returned.setdefault(self.name, set()).add(have)
        # A function that states no type may return anything.
        if dtype is not VOID and have is not dtype:
            self.fail(
                f"function {self.name!r} returns {dtype!s}, here it returns {have!s}",
                call,
                "convert the value with T.Cast, or state the other type after `->`",
            )

    # Calls between functions

    def check_call(self, call: Call, stmt: Stmt | None) -> None:
        """A call of a function of the module: it exists, and takes these arguments."""
        self.stmt = stmt
        assert isinstance(call.op, GlobalVar)
        name = call.op.name
        functions = self.module.functions
        callee = functions.get(name)
        if callee is None:
            near = nearest_name(name, functions)
            known = ", ".join(functions)
            self.fail(
                f"a call of {name!r}, which is no function of the module",
                call,
                f"did you mean {near!r}?" if near else f"the module has {known}; another library's is a call_extern",
            )
        if len(call.args) != len(callee.params):
            self.fail(
                f"function {name!r} takes {len(callee.params)} arguments, the call has {len(call.args)}",
                call,
                f"its parameters are {', '.join(p.name for p in callee.params) or 'none'}",
            )
        for param, arg in zip(callee.params, call.args, strict=True):
            if not _fits(param, arg):
                self.fail(
                    f"the parameter {param.name!r} of function {name!r} is {_type_text(param)}, "
                    f"the argument is {_type_text(arg)}: {arg}",
                    call,
                    "convert the argument with T.Cast, or pass the data of another buffer",
                )
        result = DataType("handle") if isinstance(callee.ret_type, PointerType) else callee.ret_type
        allowed = {result} if result is not VOID else {VOID, *self.module.returned.get(name, ())}
        if call.dtype not in allowed:
            self.fail(
                f"function {name!r} returns {result!s}, the call has dtype {call.dtype!s}",
                call,
                "give the call the dtype that the function returns",
            )


def _one_thread_axis(site: Node, earlier: Node, same_function: bool) -> bool:
    """Whether two definitions are of one thread axis of a function, whose loops or attributes share their variable."""
    tag = _thread_tag(site)
    return same_function and bool(tag) and tag == _thread_tag(earlier)


def _thread_tag(site: Node) -> str | None:
    if isinstance(site, AttrStmt) and isinstance(site.node, IterVar):
        return site.node.thread_tag
    return site.thread_tag if isinstance(site, For) else None


def _fits(param: Var, arg: Expr) -> bool:
    if param.dtype is not arg.dtype:
        return False
    have, want = getattr(arg, "type", None), param.type
    if isinstance(have, PointerType) and isinstance(want, PointerType) and VOID not in (have.element, want.element):
        return have.element is want.element
    return True


def _type_text(expr: Expr) -> str:
    kind = getattr(expr, "type", expr.dtype)
    return f"a pointer to {kind.element!s}" if isinstance(kind, PointerType) else str(kind)


def _types(args: tuple[Expr, ...]) -> str:
    return ", ".join(str(arg.dtype) for arg in args)


def _span_of(site: object) -> Span | None:
    span = getattr(site, "span", None)
    if span is None and isinstance(site, Let):
        span = _span_of(site.var)
    return span


def _printed(node: object) -> str:
    """The first lines of a node in the script, to show where something is."""
    if isinstance(node, PrimFunc):
        return f"    the parameters of {node.name!r}"
    if isinstance(node, BlockIter):
        return f"    iterator {node.var.name!r}"
    if isinstance(node, MatchBufferRegion):
        return f"    matched buffer {node.buffer.name!r}"
    lines = str(node).splitlines()
    shown = [f"    {line}" for line in lines[:_SHOWN_LINES]]
    return "\n".join(shown + (["    ..."] if len(lines) > _SHOWN_LINES else []))


def _verify(functions: dict[str, PrimFunc], whole: bool) -> None:
    module = _Module(functions)
    verifiers: dict[str, _Verifier] = {}
    exported: dict[tuple[str, str], str] = {}
    for name, func in functions.items():
        verifier = verifiers[name] = _Verifier(name, func, module)
        verifier.walk(func)
        symbol = func.attrs.get("global_symbol")
        if symbol is not None:
            # Code for two targets does not meet: a host function and a kernel may have one name.
            other = exported.setdefault((str(symbol), str(func.attrs.get("target", ""))), name)
            if other != name:
                verifier.fail(
                    f"the functions {other!r} and {name!r} export one name, {symbol!r}",
                    func,
                    "give each its own global_symbol, or make one of them private",
                )
    if whole:
        for name, call, stmt in module.calls:
            verifiers[name].check_call(call, stmt)


def verify_well_formed(obj: PrimFunc | IRModule, assert_mode: bool = True) -> bool:
    """Whether a function or a module keeps the rules of the IR (the module's docstring lists them).

    With ``assert_mode`` the first broken rule raises :class:`~tirlower.diagnostics.WellFormedError`, which names the
    place (the span, or the printed IR), what is wrong there, and what to do; without, the result is False. Calls
    between functions are checked in modules only. Raises :class:`TirError` for any other object.

    >>> from tirlower.ir import Evaluate, PrimFunc, Var
    >>> x = Var("x")
    >>> verify_well_formed(PrimFunc((x,), {}, "void", {}, Evaluate(x)))
    True
    >>> verify_well_formed(PrimFunc((), {}, "void", {}, Evaluate(x)), assert_mode=False)
    False
    """
    if isinstance(obj, PrimFunc):
        functions, whole = {obj.name: obj}, False
    elif isinstance(obj, IRModule):
        functions, whole = obj.functions, True
    else:
        raise TirError(
            f"verify_well_formed takes a PrimFunc or an IRModule, got {type(obj).__name__}",
            help="put a statement into a PrimFunc",
        )
    if assert_mode:
        _verify(functions, whole)
        return True
    try:
        _verify(functions, whole)
    except WellFormedError:
        return False
    return True
