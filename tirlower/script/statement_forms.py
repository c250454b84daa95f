"""Statement forms beside loops, blocks and buffers: bindings, attributes, threads, assertions, calls for effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tirlower.diagnostics import TirError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, Index, IterVar, Range
from tirlower.ir.dtype import INT32, DataType
from tirlower.ir.expr import Expr, ExprLike, Var, as_expr
from tirlower.ir.stmt import Assert, AttrStmt, Evaluate, IfThenElse, Stmt
from tirlower.script.builder import Builder
from tirlower.script.forms import Frame, Let, LetAnnotation, MetaVar
from tirlower.script.scope import active

__all__ = [
    "Assert_", "Else", "If", "LetStmt", "Seq_", "Then", "assume", "attr", "bind", "buffer_store", "env_thread", "evaluate",
    "func_attr", "iter_var", "launch_thread", "let", "meta_var", "range_", "ret",
]  # fmt: skip

THREAD_KEYS = ("thread_extent", "virtual_thread")
"""The attribute keys that make a thread loop."""


def evaluate(value: object) -> None:
    """Evaluate an expression for its effects."""
    builder = active("T.evaluate")
    if isinstance(value, Stmt):
        builder.emit(value)
    elif value is not None:
        builder.emit(Evaluate(as_expr(value)))


def ret(value: ExprLike | None = None) -> Expr:
    """Return from the function, with a value or without."""
    return build.call("tir.ret") if value is None else build.call("tir.ret", value)


def assume(condition: ExprLike) -> Expr:
    """State a fact: where it is false, the program has no meaning."""
    return build.call("tir.assume", build.as_bool(condition))


def func_attr(attrs: Mapping[str, object]) -> None:
    """Attributes of the function."""
    func = active("T.func_attr").need_function("T.func_attr")
    if not isinstance(attrs, Mapping):
        raise TirError(f"T.func_attr takes a dictionary, got {type(attrs).__name__}")
    func.attrs.update(attrs)


def buffer_store(
    buffer: Buffer, value: ExprLike, indices: Index | Sequence[Index], predicate: ExprLike | None = None
) -> None:
    """``buffer[indices] = value``, with a mask of the lanes that are written."""
    if not isinstance(buffer, Buffer):
        raise TirError(f"T.buffer_store takes a buffer first, got {type(buffer).__name__}")
    listed = list(indices) if isinstance(indices, (list, tuple)) else [indices]
    active("T.buffer_store").store(buffer, listed, value, predicate)


def meta_var(value: object) -> MetaVar:
    """A name for the expression itself: ``x = T.meta_var(e)`` binds nothing in the program."""
    return MetaVar(value)


class _LetForm:
    """``T.let[T.int32]`` annotates a scalar; ``x = T.let(value)`` binds one."""

    def __call__(self, value: object, type_annotation: object = None, *, var: Var | None = None) -> Frame:
        """A binding of a value."""
        return Let(value, type_annotation, var=var)

    def __getitem__(self, kind: object) -> LetAnnotation:
        """The annotation."""
        return LetAnnotation(kind)

    def __repr__(self) -> str:
        return "T.let"


let = _LetForm()


def LetStmt(value: object, type_annotation: object = None, *, var: Var | None = None) -> Frame:
    """Bind a value to ``var``, or to the name it is assigned to, for the rest of the scope (or of the ``with``)."""
    return Let(value, type_annotation, var=var)


def bind(value: object, type_annotation: object = None, *, var: Var | None = None) -> Frame:
    """Bind a value: the newer name of ``T.LetStmt``."""
    return Let(value, type_annotation, var=var)


class _AssertFrame(Frame):
    __slots__ = ("condition", "message")
    what = "T.Assert"

    def __init__(self, condition: ExprLike, message: object) -> None:
        super().__init__()
        self.condition = condition
        self.message = message

    def enter(self, builder: Builder, name: str | None) -> None:
        message = self.message
        if not isinstance(message, (str, Expr)):
            raise TirError(f"the message of an assertion is a string, got {type(message).__name__}")
        builder.emit(Assert(build.as_bool(self.condition), as_expr(message)), self.span)


def Assert_(condition: ExprLike, message: object = "") -> Frame:
    """Stop with a message when the condition is false."""
    if isinstance(message, (list, tuple)):
        message = "".join(str(getattr(m, "value", m)) for m in message)
    return _AssertFrame(condition, message)


class _AttrFrame(Frame):
    __slots__ = ("key", "node", "value")
    what = "T.attr"

    def __init__(self, node: object, key: str, value: ExprLike) -> None:
        super().__init__()
        self.node = node
        self.key = key
        self.value = value

    def enter(self, builder: Builder, name: str | None) -> object:
        node, key = self.node, self.key
        if not isinstance(key, str):
            raise TirError(f"the key of T.attr is a string, got {type(key).__name__}")
        if key in THREAD_KEYS and isinstance(node, IterVar):
            if not node.thread_tag and key == "thread_extent":
                raise TirError(f"T.attr(…, 'thread_extent', …) needs a thread axis, {node.var.name!r} has no tag")
            builder.thread_loop(node.var, node.thread_tag or "vthread", self.value)
            return node.var
        value = as_expr(self.value)
        span = builder.here()
        builder.enclose_rest(lambda body: AttrStmt(node, key, value, body, span=span))
        return None


def attr(node: object, attr_key: str, value: ExprLike) -> Frame:
    """An attribute of a region: the rest of the scope, or the body of the ``with``.

    ``thread_extent`` and ``virtual_thread`` of an ``T.iter_var`` make a thread loop.
    """
    return _AttrFrame(node, attr_key, value)


class _SeqFrame(Frame):
    __slots__ = ()
    what = "T.Seq"
    only_with = True

    def begin(self, builder: Builder, name: str | None) -> None:
        builder.open()

    def end(self, builder: Builder) -> None:
        builder.emit(builder.close_seq(), self.span)


def Seq_() -> Frame:
    """``with T.Seq():`` a scope of its own for what is declared in it, and exactly that node, also of one statement."""
    return _SeqFrame()


class _LaunchFrame(Frame):
    __slots__ = ("extent", "thread")
    what = "T.launch_thread"

    def __init__(self, thread: IterVar | str, extent: ExprLike) -> None:
        super().__init__()
        self.thread = thread
        self.extent = extent

    def enter(self, builder: Builder, name: str | None) -> object:
        thread, extent = self.thread, self.extent
        if isinstance(thread, str):
            dtype = as_expr(extent).dtype
            var = builder.thread_var(str(thread), dtype, name or "")
            builder.thread_loop(var, str(thread), extent)
            return var
        if not isinstance(thread, IterVar) or not thread.thread_tag:
            raise TirError(f"T.launch_thread takes a thread tag or a T.env_thread, got {thread!r}")
        builder.thread_loop(thread.var, thread.thread_tag, extent)
        return thread.var


def launch_thread(thread: IterVar | str, extent: ExprLike) -> Frame:
    """A loop over the threads of an axis: the rest of the scope, or the body of the ``with``."""
    return _LaunchFrame(thread, extent)


class _EnvThreadFrame(Frame):
    __slots__ = ("dtype", "tag")
    what = "T.env_thread"

    def __init__(self, tag: str, dtype: DataType) -> None:
        super().__init__()
        self.tag = tag
        self.dtype = dtype

    def enter(self, builder: Builder, name: str | None) -> object:
        return IterVar(None, builder.thread_var(self.tag, self.dtype, name or ""), "ThreadIndex", self.tag)


def env_thread(thread_tag: str, dtype: str = "int32") -> Frame:
    """The thread axis of a tag, to be given its extent by ``T.launch_thread`` or ``T.attr``."""
    return _EnvThreadFrame(str(thread_tag), DataType(str(dtype)))


def range_(begin: ExprLike, end: ExprLike | None = None, *, extent: ExprLike | None = None) -> Range:
    """``T.Range(begin, end)``: the integers from begin up to, not including, end; one argument is the end.

    ``T.Range(begin, extent=n)`` states how many there are.
    """
    if extent is not None:
        return Range(*build.match_types(*build.operands(begin, extent)))
    if end is None:
        begin, end = 0, begin
    start, stop = build.match_types(*build.operands(begin, end))
    return Range(start, build.sub(stop, start))


def iter_var(
    var: Var | IterVar | str,
    dom: Range | tuple[ExprLike, ...] | list[ExprLike] | ExprLike | None = None,
    iter_type: str = "DataPar",
    thread_tag: str = "",
) -> IterVar:
    """An iteration variable with its domain (a Range, a pair, or None), kind and thread tag."""
    if isinstance(var, str):
        var = Var(str(var), INT32)
    if isinstance(var, IterVar):
        var = var.var
    if not isinstance(var, Var):
        raise TirError(f"T.iter_var takes a variable or its name, got {type(var).__name__}")
    if isinstance(dom, (tuple, list)):
        dom = range_(*dom)
    elif dom is not None and not isinstance(dom, Range):
        dom = range_(dom)
    return IterVar(dom, var, str(iter_type), str(thread_tag))


class _IfFrame(Frame):
    __slots__ = ("arms", "condition")
    what = "T.If"

    @property
    def runs(self) -> str:
        """One of its arms does."""
        return "arms"

    def __init__(self, condition: ExprLike) -> None:
        super().__init__()
        self.condition = build.as_bool(condition)
        self.arms: dict[str, Stmt] = {}

    def begin(self, builder: Builder, name: str | None) -> None:
        builder.open()
        if builder.flow is not None:
            builder.flow.scope.emits = False
        builder.ifs.append(self.arms)

    def end(self, builder: Builder) -> None:
        if builder.close_seq().stmts:
            raise TirError("T.If holds T.Then and T.Else, and no statement beside them", span=self.span)
        builder.ifs.pop()
        if "then" not in self.arms:
            raise TirError("T.If needs a `with T.Then():`", span=self.span)
        made = IfThenElse(self.condition, self.arms["then"], self.arms.get("else"), span=self.span)
        builder.emit(made)


class _ArmFrame(Frame):
    __slots__ = ("arm",)

    @property
    def runs(self) -> str:
        """Under the condition of its ``T.If``, or where that is false."""
        return "arm"

    def __init__(self, arm: str) -> None:
        super().__init__()
        self.arm = arm

    def begin(self, builder: Builder, name: str | None) -> None:
        if not builder.ifs:
            raise TirError(f"T.{self.arm.capitalize()} stands inside `with T.If(…):`")
        builder.open()

    def end(self, builder: Builder) -> None:
        builder.ifs[-1][self.arm] = builder.close()


def If(condition: ExprLike) -> Frame:
    """``with T.If(c):`` around ``with T.Then():`` and ``with T.Else():``."""
    return _IfFrame(condition)


def Then() -> Frame:
    """The arm of ``T.If`` for a true condition."""
    return _ArmFrame("then")


def Else() -> Frame:
    """The arm of ``T.If`` for a false condition."""
    return _ArmFrame("else")


def leave_loop(what: str) -> Stmt:
    """``break`` or ``continue``."""
    return Evaluate(build.call(f"tir.{what}_loop"))
