"""Statements.

``AllocBuffer``, ``AllocConst``, ``DeclBuffer`` and ``Bind`` declare: their scope is the rest of the ``Seq`` they stand
in. A Seq inside a Seq is a scope of its own; one that declares nothing is flattened into the outer one.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import numpy as np

from tirlower.diagnostics import Span, WellFormedError
from tirlower.ir.buffer import _STORE, Buffer, BufferRegion, IterKind, IterVar, MatchBufferRegion, Range, iter_type_of
from tirlower.ir.dtype import BOOL, Array, DataType
from tirlower.ir.expr import (
    Broadcast,
    Expr,
    FloatImm,
    IntImm,
    StringImm,
    Var,
    access_dtype,
    as_expr,
    as_exprs,
    is_const_int,
)
from tirlower.ir.node import REQUIRED, Node, attrs, binds, buffer_use, child, data, disjoint_base, hint, node
from tirlower.ir.node import data as plain

__all__ = [
    "AllocBuffer",
    "AllocConst",
    "Assert",
    "AttrStmt",
    "Bind",
    "Block",
    "BlockIter",
    "BufferStore",
    "DeclBuffer",
    "Evaluate",
    "For",
    "ForKind",
    "IfThenElse",
    "Seq",
    "Stmt",
    "While",
    "declares",
    "is_no_op",
    "normalize_attr",
    "normalize_attrs",
    "seq",
    "stmt_list",
    "stmt_seq",
]


_PLAIN: dict[str, Callable[[float | str], object]] = {"bool": bool, "int32": int, "float32": float}


def normalize_attr(value: object) -> object:
    """An attribute value in its normal form, under which equal values compare equal.

    bool, int32 and float32 constants become Python's bool, int and float, strings str, lists tuples; constants of
    other types, expressions, buffers and other objects stay.
    """
    if isinstance(value, (IntImm, FloatImm, StringImm)):
        plain = str if isinstance(value, StringImm) else _PLAIN.get(str(value.dtype))
        return value if plain is None else plain(value.value)
    if isinstance(value, (list, tuple)):
        return tuple(normalize_attr(v) for v in value)
    if isinstance(value, Mapping):
        return {str(k): normalize_attr(v) for k, v in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    return value


def normalize_attrs(value: Mapping[str, object] | None) -> dict[str, object]:
    """A mapping of annotations in normal form (a copy)."""
    return {str(k): normalize_attr(v) for k, v in value.items()} if value else {}


T = TypeVar("T")


def _tuple_or_none(values: Iterable[T] | None) -> tuple[T, ...]:
    return None if values is None else tuple(values)  # type: ignore[return-value]  # None is left only in the parser


@node
@disjoint_base
class Stmt(Node):
    """Base of all statements."""

    span: Span | None = hint(default=None, kw_only=True)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {self.span}>" if self.span else f"<{type(self).__name__}>"


class ForKind(enum.Enum):
    """How the iterations of a loop are executed."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    VECTORIZED = "vectorized"
    UNROLLED = "unroll"
    THREAD_BINDING = "thread_binding"

    @classmethod
    def of(cls, value: ForKind | str) -> ForKind:
        """The kind by its name (``unrolled`` too). Raises :class:`WellFormedError` for the name of none."""
        if isinstance(value, ForKind):
            return value
        try:
            return cls("unroll" if value == "unrolled" else value)
        except ValueError:
            raise WellFormedError(
                f"there is no kind {value!r} of a loop", help=f"the kinds are {', '.join(kind.value for kind in cls)}"
            ) from None


def _flatten(stmts: Iterable[Stmt]) -> tuple[Stmt, ...]:
    flat: list[Stmt] = []
    for stmt in stmts:
        if stmt.__class__ is Seq and not declares(stmt):
            flat += stmt.stmts
        else:
            flat.append(stmt)
    return tuple(flat)


@node
class Seq(Stmt):
    """Statements in order; what one of them declares is in scope in those after it."""

    stmts: tuple[Stmt, ...] = child(convert=_flatten)

    @property
    def seq(self) -> tuple[Stmt, ...]:
        """The statements, in TIR's word."""
        return self.stmts


@node
class For(Stmt):
    """``for loop_var in kind(min, min + extent): body``; runs zero times when extent <= 0.

    ``thread_tag`` names the thread axis of a loop of kind THREAD_BINDING (``threadIdx.x``, ``vthread`` …).
    """

    loop_var: Var = binds()
    min: Expr = child(convert=as_expr)
    extent: Expr = child(convert=as_expr)
    kind: ForKind = data(default=ForKind.SERIAL, convert=ForKind.of)
    thread_tag: str | None = data(default=None, convert=lambda t: t or None)
    annotations: dict[str, object] = attrs(default=None, convert=normalize_attrs)
    body: Stmt = child(default=REQUIRED)

    @property
    def thread_binding(self) -> IterVar | None:
        """The thread axis of a loop over threads, as TIR has it: its range, the loop's variable, its tag; else None."""
        if self.thread_tag is None:
            return None
        return IterVar(Range(self.min, self.extent), self.loop_var, "ThreadIndex", self.thread_tag)

    def check(self) -> None:
        """The bounds have the variable's integer dtype; a thread loop has a tag."""
        dtype = self.loop_var.dtype
        if not dtype.is_integral or dtype.is_vector:
            raise WellFormedError(
                f"the loop variable {self.loop_var.name!r} is an integer, got {dtype!s}", span=self.span
            )
        for name in ("min", "extent"):
            bound = getattr(self, name)
            if bound.dtype is not dtype:
                if not isinstance(bound, IntImm):
                    raise WellFormedError(
                        f"the {name} of loop {self.loop_var.name!r} has dtype {bound.dtype!s}, the variable {dtype!s}",
                        span=self.span,
                    )
                setattr(self, name, IntImm(dtype, bound.value))
        if (self.kind is ForKind.THREAD_BINDING) != (self.thread_tag is not None):
            raise WellFormedError(
                f"loop {self.loop_var.name!r}: a thread_binding loop has a thread tag, and only such a loop",
                span=self.span,
            )


@node
class While(Stmt):
    """``while condition: body``."""

    condition: Expr = child(convert=as_expr)
    body: Stmt = child()

    def check(self) -> None:
        """The condition is a scalar bool."""
        _need_condition(self.condition, self.span)


@node
class IfThenElse(Stmt):
    """``if condition: then_case else: else_case``."""

    condition: Expr = child(convert=as_expr)
    then_case: Stmt = child()
    else_case: Stmt | None = child(default=None)

    def check(self) -> None:
        """The condition is a scalar bool."""
        _need_condition(self.condition, self.span)


def _need_condition(condition: Expr, span: Span | None) -> None:
    if condition.dtype is not BOOL:
        raise WellFormedError(f"a condition is a scalar bool, got {condition.dtype!s}: {condition}", span=span)


@node
class BufferStore(Stmt):
    """``buffer[indices] = value``; a predicate of the index's lanes masks the lanes that are written."""

    buffer: Buffer = buffer_use()
    value: Expr = child(convert=as_expr)
    indices: tuple[Expr, ...] = child(convert=as_exprs)
    predicate: Expr | None = child(default=None)

    def check(self) -> None:
        """The value has the access's dtype (a scalar is broadcast)."""
        wanted = access_dtype(self.buffer, self.indices, self.predicate, self.span)
        have = self.value.dtype
        if have is not wanted:
            if have.is_scalar and wanted.is_vector and not wanted.scalable and have is wanted.element:
                self.value = Broadcast(self.value, wanted.lanes, span=self.value.span)
                return
            raise WellFormedError(
                f"a store to buffer {self.buffer.name!r} takes {wanted!s}, got {have!s}: {self.value}",
                span=self.span,
                help=f"convert the value with T.Cast({str(wanted)!r}, …)",
            )


_STORE.append(BufferStore)


@node
class Bind(Stmt):
    """``var = value``: a variable for the rest of the Seq."""

    declares = True
    var: Var = binds()
    value: Expr = child(convert=as_expr)

    def check(self) -> None:
        """The value has the variable's dtype."""
        if self.var.dtype is not self.value.dtype:
            raise WellFormedError(
                f"the variable {self.var.name!r} has dtype {self.var.dtype!s}, its value {self.value.dtype!s}: {self.value}",
                span=self.span,
            )


@node
class AllocBuffer(Stmt):
    """New memory for a buffer, for the rest of the Seq; where the condition is false, none is needed."""

    declares = True
    buffer: Buffer = binds()
    condition: Expr = child(default=True, convert=as_expr)
    annotations: dict[str, object] = attrs(default=None, convert=normalize_attrs)

    @property
    def buffer_var(self) -> Var:
        """The pointer to the memory, in TIR's word."""
        return self.buffer.data

    @property
    def extents(self) -> tuple[Expr, ...]:
        """The extents of the buffer, in TIR's word."""
        return self.buffer.shape

    @property
    def dtype(self) -> DataType:
        """The type of the elements."""
        return self.buffer.dtype


@node
class AllocConst(Stmt):
    """A constant array: ``data`` is a NumPy array of the buffer's shape and dtype."""

    declares = True
    buffer: Buffer = binds()
    data: Array = plain(convert=np.asarray)
    annotations: dict[str, object] = attrs(default=None, convert=normalize_attrs)

    def check(self) -> None:
        """The array has the buffer's extents."""
        shape = tuple(e.value if isinstance(e, IntImm) else None for e in self.buffer.shape)
        if None in shape or int(np.prod(shape, dtype=np.int64)) != self.data.size:  # type: ignore[arg-type]
            raise WellFormedError(
                f"the constant of buffer {self.buffer.name!r} has shape {self.data.shape}, the buffer {shape}",
                span=self.span,
            )


@node
class DeclBuffer(Stmt):
    """A name for a view of another buffer's data, for the rest of the Seq."""

    declares = True
    buffer: Buffer = binds()


@node
class Evaluate(Stmt):
    """Evaluate an expression for its effects."""

    value: Expr = child(convert=as_expr)


@node
class Assert(Stmt):
    """Stop with the message when the condition is false."""

    condition: Expr = child(convert=as_expr)
    message: Expr = child(convert=as_expr)

    def check(self) -> None:
        """The condition is a scalar bool."""
        _need_condition(self.condition, self.span)


@node
class AttrStmt(Stmt):
    """An attribute of a region that is neither a loop nor a block.

    ``node`` is what the attribute is about: a variable, a buffer, an IterVar, a string, a number or None.
    """

    node: object = attrs(convert=normalize_attr)
    key: str = data()
    value: Expr = child(convert=as_expr)
    body: Stmt = child()

    @property
    def attr_key(self) -> str:
        """The key, in TIR's word."""
        return self.key


@node
@disjoint_base
class BlockIter(Node):
    """An iterator of a block: its variable, domain, kind, and the value it is bound to."""

    declares = True
    var: Var = binds()
    domain: Range = child()
    kind: IterKind = data(convert=IterKind)
    value: Expr | None = child(default=None, convert=lambda v: None if v is None else as_expr(v))
    span: Span | None = hint(default=None, kw_only=True)

    @property
    def dom(self) -> Range:
        """The domain, in TIR's word."""
        return self.domain

    @property
    def iter_type(self) -> int:
        """TIR's number of the kind: ``IterVar.CommReduce`` for a reduction."""
        return iter_type_of(self.kind.value)

    @property
    def thread_tag(self) -> str:
        """Empty: a block's iterator is no thread axis."""
        return ""


@node
class Block(Stmt):
    """A unit of computation with its iterators, regions, initialisation and annotations.

    ``reads`` and ``writes`` may be None where they are not stated (well-formed only inside the parser).
    Allocations that head the body are in scope in ``init`` too, and in ``match_buffers`` where one of these is about
    them.
    """

    name: str = hint()
    iters: tuple[BlockIter, ...] = child(convert=tuple)
    predicate: Expr = child(default=True, convert=lambda p: as_expr(True if p is None else p))
    reads: tuple[BufferRegion, ...] = child(default=(), convert=_tuple_or_none)
    writes: tuple[BufferRegion, ...] = child(default=(), convert=_tuple_or_none)
    init: Stmt | None = child(default=None)
    match_buffers: tuple[MatchBufferRegion, ...] = child(default=(), convert=lambda v: tuple(v or ()))
    annotations: dict[str, object] = attrs(default=None, convert=normalize_attrs)
    body: Stmt = child(default=REQUIRED)

    @property
    def name_hint(self) -> str:
        """The name, in TIR's word."""
        return self.name

    @property
    def iter_vars(self) -> tuple[BlockIter, ...]:
        """The iterators, in TIR's word."""
        return self.iters

    @property
    def iter_values(self) -> tuple[Expr | None, ...]:
        """What the iterators are bound to, in TIR's word."""
        return tuple(it.value for it in self.iters)

    @property
    def block(self) -> Block:
        """Itself: where TIR has a realization around its block, here is one node."""
        return self

    @property
    def alloc_buffers(self) -> tuple[Buffer, ...]:
        """The buffers allocated at the head of the body."""
        stmts = self.body.stmts if isinstance(self.body, Seq) else (self.body,)
        found = []
        for stmt in stmts:
            if not isinstance(stmt, AllocBuffer):
                break
            found.append(stmt.buffer)
        return tuple(found)

    @property
    def matches_own(self) -> bool:
        """Whether a region of a buffer allocated at the head of the body is matched: the allocations come first then."""
        if not self.match_buffers:
            return False
        own = {buffer.data for buffer in self.alloc_buffers}
        return any(match.source.buffer.data in own for match in self.match_buffers)


DECLARATIONS: tuple[type[Stmt], ...] = (Bind, AllocBuffer, AllocConst, DeclBuffer)


def declares(stmt: Stmt) -> bool:
    """Whether a Seq declares something itself (so that it is a scope)."""
    return isinstance(stmt, Seq) and any(isinstance(s, DECLARATIONS) for s in stmt.stmts)


def is_no_op(stmt: Stmt | None) -> bool:
    """Whether a statement is nothing: None, an evaluation of a constant, or an empty Seq."""
    if stmt is None:
        return True
    if isinstance(stmt, Evaluate):
        return isinstance(stmt.value, (IntImm, FloatImm, StringImm))
    return isinstance(stmt, Seq) and all(is_no_op(s) for s in stmt.stmts)


def seq(*stmts: Stmt | Iterable[Stmt | None] | None) -> Stmt:
    """Statements in order as one: no-ops are dropped, a single one stands alone, none is ``Evaluate(0)``.

    Declarations that end a list stay: their scope is simply empty.
    """
    flat: list[Stmt] = []
    for item in stmts:
        if item is None:
            continue
        for stmt in (item,) if isinstance(item, Stmt) else item:
            if stmt is not None and not is_no_op(stmt):
                flat.append(stmt)
    if not flat:
        return Evaluate(IntImm("int32", 0))  # type: ignore[arg-type]
    if len(flat) == 1:
        return flat[0]
    return Seq(tuple(flat))


def stmt_seq(*args: Stmt | Expr) -> Stmt:
    """Statements in order, as TIR's ``stmt_seq``: an expression is evaluated, and nothing is left out.

    >>> from tirlower.ir import Var
    >>> [type(stmt).__name__ for stmt in stmt_seq(Var("x"), Evaluate(Var("y"))).stmts]
    ['Evaluate', 'Evaluate']
    """
    stmts = [arg if isinstance(arg, Stmt) else Evaluate(arg) for arg in args]
    return stmts[0] if len(stmts) == 1 else Seq(tuple(stmts))


def stmt_list(stmt: Stmt) -> list[Stmt]:
    """The statements of a sequence, of those inside it too; any other one alone.

    >>> len(stmt_list(stmt_seq(stmt_seq(Evaluate(1), Evaluate(2)), Evaluate(3))))
    3
    """
    if not isinstance(stmt, Seq):
        return [stmt]
    return [inner for part in stmt.stmts for inner in stmt_list(part)]


def true_condition(expr: Expr) -> bool:
    """Whether a predicate is the constant true."""
    return is_const_int(expr, 1)
