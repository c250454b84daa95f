"""Expressions: the nodes, their types, and the operators on them.

Constructors build exactly the node asked for and never fold; the operators (``a + b``, ``a[i]``) and
``tirlower.ir.build`` fold as documented there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol, SupportsInt, TypeAlias

import numpy as np

from tirlower.diagnostics import Span, TirError, WellFormedError
from tirlower.ir.dtype import BOOL, HANDLE, INT32, INT64, VOID, DataType, PointerType, round_float, wrap_int
from tirlower.ir.node import Node, attrs, binds, buffer_use, child, data, disjoint_base, hint, node
from tirlower.ir.op import GlobalVar, Op

if TYPE_CHECKING:
    from tirlower.ir.buffer import Buffer

__all__ = [
    "EQ", "GE", "GT", "LE", "LT", "NE", "Add", "And", "BinaryOp", "Broadcast", "BufferLoad", "Call", "Cast",
    "CompareOp", "Div", "Expr", "ExprLike", "FloatImm", "FloorDiv", "FloorMod", "IntImm", "Let", "Max", "Min", "Mod", "Mul",
    "Not", "Or", "Ramp", "Select", "Shuffle", "StringImm", "Sub", "Var", "as_expr", "as_exprs", "const_like",
    "is_const_int",
]  # fmt: skip


class StandsForExpr(Protocol):
    """What stands for an expression where one is asked for, as an ``IterVar`` does for its variable."""

    def as_expr(self) -> Expr:
        """The expression."""


ExprLike: TypeAlias = "Expr | StandsForExpr | int | float | str | np.generic[object]"
"""What :func:`as_expr` makes an expression of."""


@node
@disjoint_base
class Expr(Node):
    """Base of all expressions: each has a ``dtype`` and may carry the span it came from.

    ``==`` and ``!=`` compare identity; use ``T.EQ``/``T.NE`` to build comparisons. ``bool(expr)`` raises.
    """

    computed_slots = ("dtype",)
    cache_slots = ("digest",)
    span: Span | None = hint(default=None, kw_only=True)

    if TYPE_CHECKING:
        # Properties to the type checker, so that they are no arguments of the constructors; slots at run time.
        @property
        def dtype(self) -> DataType:
            """The type of the value."""

        @dtype.setter
        def dtype(self, value: DataType) -> None: ...

        @property
        def digest(self) -> bytes | None:
            """The structural digest, filled in on demand."""

        @digest.setter
        def digest(self, value: bytes | None) -> None: ...

        def children(self) -> Sequence[Expr]:
            """The operands: expressions have no other children."""

    def __bool__(self) -> NoReturn:
        raise TirError(
            f"the truth of an expression is not known when the program is built: {self}",
            help="use T.if_then_else or T.Select, or write the condition inside a prim_func",
        )

    def __add__(self, other: ExprLike) -> Expr:
        return _build.add(self, other)

    def __radd__(self, other: ExprLike) -> Expr:
        return _build.add(other, self)

    def __sub__(self, other: ExprLike) -> Expr:
        return _build.sub(self, other)

    def __rsub__(self, other: ExprLike) -> Expr:
        return _build.sub(other, self)

    def __mul__(self, other: ExprLike) -> Expr:
        return _build.mul(self, other)

    def __rmul__(self, other: ExprLike) -> Expr:
        return _build.mul(other, self)

    def __truediv__(self, other: ExprLike) -> Expr:
        return _build.true_div(self, other)

    def __rtruediv__(self, other: ExprLike) -> Expr:
        return _build.true_div(other, self)

    def __floordiv__(self, other: ExprLike) -> Expr:
        return _build.floordiv(self, other)

    def __rfloordiv__(self, other: ExprLike) -> Expr:
        return _build.floordiv(other, self)

    def __mod__(self, other: ExprLike) -> Expr:
        return _build.floormod(self, other)

    def __rmod__(self, other: ExprLike) -> Expr:
        return _build.floormod(other, self)

    def __neg__(self) -> Expr:
        return _build.neg(self)

    def __pos__(self) -> Expr:
        return self

    def __invert__(self) -> Expr:
        return _build.bitwise_not(self)

    def __lshift__(self, other: ExprLike) -> Expr:
        return _build.shift_left(self, other)

    def __rlshift__(self, other: ExprLike) -> Expr:
        return _build.shift_left(other, self)

    def __rshift__(self, other: ExprLike) -> Expr:
        return _build.shift_right(self, other)

    def __rrshift__(self, other: ExprLike) -> Expr:
        return _build.shift_right(other, self)

    def __and__(self, other: ExprLike) -> Expr:
        return _build.bitwise_and(self, other)

    def __rand__(self, other: ExprLike) -> Expr:
        return _build.bitwise_and(other, self)

    def __or__(self, other: ExprLike) -> Expr:
        return _build.bitwise_or(self, other)

    def __ror__(self, other: ExprLike) -> Expr:
        return _build.bitwise_or(other, self)

    def __xor__(self, other: ExprLike) -> Expr:
        return _build.bitwise_xor(self, other)

    def __rxor__(self, other: ExprLike) -> Expr:
        return _build.bitwise_xor(other, self)

    def __lt__(self, other: ExprLike) -> Expr:
        return _build.lt(self, other)

    def __le__(self, other: ExprLike) -> Expr:
        return _build.le(self, other)

    def __gt__(self, other: ExprLike) -> Expr:
        return _build.gt(self, other)

    def __ge__(self, other: ExprLike) -> Expr:
        return _build.ge(self, other)

    def equal(self, other: ExprLike) -> Expr:
        """The comparison ``self == other``, which ``==`` does not build."""
        return _build.eq(self, other)

    def astype(self, dtype: str, span: Span | None = None) -> Expr:
        """The expression converted to a dtype (folds constants)."""
        return _build.cast(dtype, self, span=span)


def _dtype(value: object) -> DataType:
    return value if value.__class__ is DataType else DataType(value)


def as_expr(value: object) -> Expr:
    """An expression from an expression, a Python or NumPy number, or a string.

    An int is int32, or int64 when it does not fit; a float is float32, or float64 when it is too large for that; a bool
    is bool; a NumPy number keeps its dtype. Raises :class:`TirError` for anything else.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, int):
        if value.__class__ is bool:
            return IntImm(BOOL, int(value))
        return IntImm(INT32 if -(2**31) <= value < 2**31 else INT64 if value < 2**63 else DataType("uint64"), value)
    if isinstance(value, float) and not isinstance(value, np.generic):  # np.float64 is a float with a dtype
        # From there on a finite number would round to infinity in float32.
        large = 3.4028235677973366e38 <= abs(value) < math.inf
        return FloatImm(DataType("float64" if large else "float32"), value)
    if isinstance(value, str):
        return StringImm(value)
    expr_of = getattr(value, "as_expr", None)
    if expr_of is not None:
        made = expr_of()
        if isinstance(made, Expr):
            return made
    dtype = getattr(value, "dtype", None)
    item = getattr(value, "item", None)
    if dtype is not None and item is not None and getattr(value, "shape", None) == ():
        return const(item(), str(dtype))
    raise TirError(f"expected an expression or a number, got {type(value).__name__} {value!r}")


def as_exprs(values: Iterable[object]) -> tuple[Expr, ...]:
    """Each as an expression."""
    return tuple([v if isinstance(v, Expr) else as_expr(v) for v in values])


def const(value: int | float | bool, dtype: DataType | str | None = None, span: Span | None = None) -> Expr:
    """A constant of a dtype: wrapped to an integer's width, rounded to a float's; a vector dtype broadcasts.

    Without a dtype: int32 or int64, float32, bool.
    """
    if dtype is None:
        return as_expr(value).with_(span=span)
    kind = _dtype(dtype)
    if kind.is_vector:
        return Broadcast(const(value, kind.element, span), kind.lanes if not kind.scalable else vscale(kind.lanes))
    if kind.is_integral:
        if isinstance(value, float) and not value.is_integer():
            value = math.trunc(value)
        return IntImm(kind, int(bool(value)) if kind.is_bool else wrap_int(int(value), kind), span=span)
    if kind.is_float or kind.is_custom:
        return FloatImm(kind, float(value), span=span)
    if kind.is_handle:
        return _build.reinterpret("handle", IntImm(DataType("uint64"), int(value)))
    raise TirError(f"no constant of dtype {kind!s}")


def vscale(lanes: int) -> Expr:
    """``vscale() * lanes`` as a number of scalable lanes."""
    call = Call(Op.get("tir.vscale"), (), INT32)
    return call if lanes == 1 else Mul(call, IntImm(INT32, lanes))


def _annotations(given: Mapping[str, object] | None) -> dict[str, object]:
    return dict(given) if given else {}


def const_like(value: int | float, like: Expr) -> Expr:
    """A constant of another expression's dtype."""
    return const(value, like.dtype)


def is_const_int(expr: object, value: int | None = None) -> bool:
    """Whether an expression is an integer constant (of that value, when given); a broadcast of one counts."""
    if expr.__class__ is Broadcast:
        expr = expr.value
    return expr.__class__ is IntImm and (value is None or expr.value == value)


@node
class Var(Expr):
    """A variable. Its identity is its own: two variables of one name are different.

    ``type`` is a data type or a :class:`PointerType`; ``nonneg`` states that it is at least 0 (a size).
    """

    name: str = hint(convert=str)
    type: DataType | PointerType = data(default=INT32, convert=lambda t: t if isinstance(t, PointerType) else _dtype(t))
    nonneg: bool = data(default=False)

    @property
    def name_hint(self) -> str:
        """The name, in TIR's word."""
        return self.name

    @property
    def type_annotation(self) -> DataType | PointerType:
        """The type, in TIR's word."""
        return self.type

    def check(self) -> None:
        """Set the dtype: a pointer is a handle."""
        kind = self.type
        self.dtype = HANDLE if kind.__class__ is PointerType else kind  # type: ignore[assignment]


@node
class IntImm(Expr):
    """An integer (or bool) constant. Raises when the value is outside the dtype's range.

    It is a number where Python asks for one, and equal to that number; two constants are compared by identity, as all nodes.

    >>> extent = IntImm("int32", 3)
    >>> extent == 3, list(range(extent)), extent == IntImm("int32", 3)
    (True, [0, 1, 2], False)
    """

    dtype: DataType = data(convert=_dtype)
    value: int = data(convert=int)

    def __int__(self) -> int:
        return self.value

    __index__ = __int__

    def __bool__(self) -> bool:  # type: ignore[override]  # of a constant it is known
        return self.value != 0

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, int) and self.value == other)

    __hash__ = Expr.__hash__

    def check(self) -> None:
        """Refuse values outside the dtype."""
        dtype = self.dtype
        bits = dtype.bits
        if dtype.is_int:
            fits = -(1 << (bits - 1)) <= self.value < (1 << (bits - 1))
        elif dtype.is_uint or dtype.is_bool:
            fits = 0 <= self.value < (1 << bits)
        else:
            raise WellFormedError(f"an integer constant cannot have dtype {dtype!s}")
        if not fits or dtype.is_vector:
            raise WellFormedError(
                f"the value {self.value} does not fit in {dtype!s}",
                help=f"{dtype!s} holds {dtype.min_value} to {dtype.max_value}"
                if not dtype.is_vector
                else "use Broadcast",
            )


@node
class FloatImm(Expr):
    """A floating-point constant; the value is rounded to the dtype. ``float`` gives it."""

    dtype: DataType = data(convert=_dtype)
    value: float = data(convert=float)

    def __float__(self) -> float:
        return self.value

    def check(self) -> None:
        """Round to the dtype."""
        dtype = self.dtype
        if dtype.is_custom:
            return
        if not dtype.is_float or dtype.is_vector:
            raise WellFormedError(f"a float constant cannot have dtype {dtype!s}")
        if dtype.bits != 64:
            self.value = round_float(self.value, dtype)


@node
class StringImm(Expr):
    """A string constant."""

    value: str = data()

    def check(self) -> None:
        """A string is a handle."""
        self.dtype = HANDLE


@node
class Cast(Expr):
    """A conversion of value to a dtype: floats truncate to integers, integers wrap, anything nonzero is true."""

    dtype: DataType = data(convert=_dtype)
    value: Expr = child(convert=as_expr)

    def check(self) -> None:
        """Lanes stay."""
        if self.dtype.lanes != self.value.dtype.lanes or self.dtype.scalable != self.value.dtype.scalable:
            raise WellFormedError(f"a cast keeps the lanes: {self.value.dtype!s} to {self.dtype!s}", span=self.span)


@node
class BinaryOp(Expr):
    """Base of the arithmetic operations on two operands of one dtype."""

    a: Expr = child(convert=as_expr)
    b: Expr = child(convert=as_expr)

    def check(self) -> None:
        """Both operands have one dtype, which is the result's."""
        dtype = self.a.dtype
        if dtype is not self.b.dtype:
            _mismatch(self)
        self.dtype = dtype


@node
class CompareOp(Expr):
    """Base of the comparisons; the result is bool with the operands' lanes."""

    a: Expr = child(convert=as_expr)
    b: Expr = child(convert=as_expr)

    def check(self) -> None:
        """Both operands have one dtype; the result is bool."""
        dtype = self.a.dtype
        if dtype is not self.b.dtype:
            _mismatch(self)
        self.dtype = BOOL if dtype.lanes == 1 and not dtype.scalable else BOOL.with_lanes(dtype.lanes, dtype.scalable)


def _mismatch(expr: BinaryOp | CompareOp) -> NoReturn:
    name = type(expr).__name__
    raise WellFormedError(
        f"{name} needs operands of one dtype, got {expr.a.dtype!s} and {expr.b.dtype!s}: {expr.a} and {expr.b}",
        span=expr.span,
        help="convert one of them with T.Cast, or use the operator, which converts",
    )


@node
class Add(BinaryOp):
    """``a + b``; integers wrap."""


@node
class Sub(BinaryOp):
    """``a - b``; integers wrap."""


@node
class Mul(BinaryOp):
    """``a * b``; integers wrap."""


@node
class Div(BinaryOp):
    """Division: of floats, or of integers truncating toward zero (C)."""


@node
class Mod(BinaryOp):
    """Remainder of the truncating division: it has the sign of ``a``."""


@node
class FloorDiv(BinaryOp):
    """Division rounding toward minus infinity (Python's ``//``)."""


@node
class FloorMod(BinaryOp):
    """Remainder of the flooring division: it has the sign of ``b`` (Python's ``%``)."""


@node
class Min(BinaryOp):
    """The smaller of two; a NaN operand gives the other operand or NaN as LLVM's ``minnum`` does."""


@node
class Max(BinaryOp):
    """The larger of two."""


@node
class EQ(CompareOp):
    """``a == b``."""


@node
class NE(CompareOp):
    """``a != b``."""


@node
class LT(CompareOp):
    """``a < b``."""


@node
class LE(CompareOp):
    """``a <= b``."""


@node
class GT(CompareOp):
    """``a > b``."""


@node
class GE(CompareOp):
    """``a >= b``."""


@node
class And(Expr):
    """Logical and; a scalar one evaluates ``b`` only where ``a`` is true."""

    a: Expr = child(convert=as_expr)
    b: Expr = child(convert=as_expr)

    def check(self) -> None:
        """Both are bool."""
        _check_bool(self, self.a, self.b)


@node
class Or(Expr):
    """Logical or; a scalar one evaluates ``b`` only where ``a`` is false."""

    a: Expr = child(convert=as_expr)
    b: Expr = child(convert=as_expr)

    def check(self) -> None:
        """Both are bool."""
        _check_bool(self, self.a, self.b)


Binary: TypeAlias = BinaryOp | CompareOp | And | Or
"""What has exactly the operands ``a`` and ``b``."""


@node
class Not(Expr):
    """Logical negation."""

    a: Expr = child(convert=as_expr)

    def check(self) -> None:
        """The operand is bool."""
        _check_bool(self, self.a, self.a)


def _check_bool(expr: Expr, a: Expr, b: Expr) -> None:
    if not a.dtype.is_bool or a.dtype is not b.dtype:
        raise WellFormedError(
            f"{type(expr).__name__} needs bool operands, got {a.dtype!s} and {b.dtype!s}: {a} and {b}",
            span=expr.span,
            help="compare with zero, or cast to bool",
        )
    expr.dtype = a.dtype


@node
class Select(Expr):
    """``true_value`` where the condition holds, else ``false_value``; both are evaluated."""

    condition: Expr = child(convert=as_expr)
    true_value: Expr = child(convert=as_expr)
    false_value: Expr = child(convert=as_expr)

    def check(self) -> None:
        """The condition is bool, scalar or with the values' lanes; the values have one dtype."""
        cond, kind = self.condition.dtype, self.true_value.dtype
        if not cond.is_bool or (cond.lanes != 1 and cond.lanes != kind.lanes):
            raise WellFormedError(
                f"Select needs a bool condition with 1 or {kind.lanes} lanes, got {cond!s}", span=self.span
            )
        if kind is not self.false_value.dtype:
            raise WellFormedError(
                f"Select needs values of one dtype, got {kind!s} and {self.false_value.dtype!s}", span=self.span
            )
        self.dtype = kind


@node
class BufferLoad(Expr):
    """``buffer[indices]``; only the last index may be a vector, a predicate has its lanes."""

    buffer: Buffer = buffer_use()
    indices: tuple[Expr, ...] = child(convert=as_exprs)
    predicate: Expr | None = child(default=None)

    def check(self) -> None:
        """The lanes are index lanes times buffer lanes."""
        self.dtype = access_dtype(self.buffer, self.indices, self.predicate, self.span)


def access_dtype(
    buffer: Buffer, indices: tuple[Expr, ...], predicate: Expr | None = None, span: Span | None = None
) -> DataType:
    """The dtype of an access, after checking rank, index types and the predicate's lanes."""
    try:
        rank = len(buffer.shape)
    except AttributeError:
        raise WellFormedError(f"an access is of a Buffer, got {buffer!r}", span=span) from None
    if len(indices) != rank:
        raise WellFormedError(
            f"buffer {buffer.name!r} has {rank} dimensions, the access has {len(indices)} indices",
            span=span,
        )
    for index in indices[:-1]:
        if index.dtype.lanes != 1 or index.dtype.scalable:
            raise WellFormedError(
                f"only the last index of an access may be a vector: {buffer.name}[{', '.join(map(str, indices))}]",
                span=span,
            )
    element = buffer.dtype
    if not indices:
        return element
    last = indices[-1].dtype
    for index in indices:
        if not index.dtype.is_integral:
            raise WellFormedError(
                f"an index is an integer, got {index.dtype!s}: {buffer.name}[{', '.join(map(str, indices))}]", span=span
            )
    if predicate is not None and (
        not predicate.dtype.is_bool or predicate.dtype.lanes != last.lanes or predicate.dtype.scalable != last.scalable
    ):
        raise WellFormedError(
            f"the predicate of an access to {buffer.name!r} needs {last.lanes} bool lanes, got {predicate.dtype!s}",
            span=span,
        )
    if last.lanes == 1 and not last.scalable:
        return element
    return element.with_lanes(element.lanes * last.lanes, element.scalable or last.scalable)


def _lanes(value: Expr | SupportsInt) -> int | Expr:
    if value.__class__ is int:
        return value
    if isinstance(value, Expr):
        if isinstance(value, Mul) and isinstance(value.a, IntImm) and not isinstance(value.b, IntImm):
            return Mul(value.b, value.a, span=value.span)  # the one form of a number of scalable lanes
        return value.value if isinstance(value, IntImm) else value
    if isinstance(value, str):
        raise TirError(f"the number of lanes is an integer, got {value!r}")
    return int(value)


def _vector_of(element: DataType, lanes: int | Expr, what: Expr) -> DataType:
    if element.is_vector and isinstance(what, Ramp):
        raise WellFormedError(f"a ramp's base is a scalar, got {element!s}", span=what.span)
    if isinstance(lanes, int):
        if lanes < 1:
            raise WellFormedError(f"a vector has at least one lane, got {lanes}", span=what.span)
        return element.with_lanes(lanes * element.lanes)
    factor = 1
    call: Expr = lanes
    if isinstance(call, Mul):
        if isinstance(call.a, IntImm):
            factor, call = call.a.value, call.b
        elif isinstance(call.b, IntImm):
            factor, call = call.b.value, call.a
    if isinstance(call, Call) and call.op is Op.find("tir.vscale"):
        return element.with_lanes(factor * element.lanes, scalable=True)
    raise WellFormedError(f"lanes are a constant or a multiple of T.vscale(), got {lanes}", span=what.span)


@node
class Ramp(Expr):
    """The vector ``base, base + stride, …, base + (lanes - 1) * stride``; lanes may be a multiple of vscale."""

    base: Expr = child(convert=as_expr)
    stride: Expr = child(convert=as_expr)
    lanes: int | Expr = data(convert=_lanes)

    def check(self) -> None:
        """Base and stride have one scalar dtype."""
        if self.base.dtype is not self.stride.dtype:
            raise WellFormedError(
                f"Ramp needs base and stride of one dtype, got {self.base.dtype!s} and {self.stride.dtype!s}",
                span=self.span,
            )
        self.dtype = _vector_of(self.base.dtype, self.lanes, self)


@node
class Broadcast(Expr):
    """A value repeated in every lane; a vector is repeated whole."""

    value: Expr = child(convert=as_expr)
    lanes: int | Expr = data(convert=_lanes)

    def check(self) -> None:
        """Lanes multiply."""
        self.dtype = _vector_of(self.value.dtype, self.lanes, self)


@node
class Shuffle(Expr):
    """Lanes picked by constant indices from the concatenation of vectors."""

    vectors: tuple[Expr, ...] = child(convert=as_exprs)
    indices: tuple[Expr, ...] = child(convert=as_exprs)

    def check(self) -> None:
        """The vectors share an element type; the indices are constants in range."""
        if not self.vectors or not self.indices:
            raise WellFormedError("Shuffle needs at least one vector and one index", span=self.span)
        element = self.vectors[0].dtype.element
        total = 0
        for vector in self.vectors:
            if vector.dtype.element is not element:
                raise WellFormedError(
                    f"Shuffle needs vectors of one element type, got {element!s} and {vector.dtype!s}", span=self.span
                )
            total += vector.dtype.lanes
        for index in self.indices:
            if isinstance(index, IntImm) and not 0 <= index.value < total:
                raise WellFormedError(f"Shuffle index {index.value} is outside its {total} lanes", span=self.span)
        self.dtype = element.with_lanes(len(self.indices))


@node
class Let(Expr):
    """``body`` with ``var`` bound to ``value``."""

    var: Var = binds()
    value: Expr = child(convert=as_expr)
    body: Expr = child(convert=as_expr)

    def check(self) -> None:
        """The value has the variable's dtype."""
        if self.var.dtype is not self.value.dtype:
            raise WellFormedError(
                f"the variable {self.var.name!r} has dtype {self.var.dtype!s}, its value {self.value.dtype!s}",
                span=self.span,
            )
        self.dtype = self.body.dtype


def _callee(value: object) -> Op | GlobalVar:
    """What is called: an operation, its name (``"tir.exp"``), or a function of the module."""
    if value.__class__ is Op or isinstance(value, GlobalVar):
        return value
    if not isinstance(value, str):
        raise TirError(f"a call names an operation or a function of the module, not {type(value).__name__} {value!r}")
    found = Op.find(value)
    if found is None and not value.startswith("tir."):
        raise TirError(
            f"{value!r} is no operation", help="the order is Call(op, args, dtype); TIR writes the type first"
        )
    return found or Op.get(value)


@node
class Call(Expr):
    """A call of an operation, or of a function of the module; an operation may be given by its name, ``"tir.exp"``."""

    op: Op | GlobalVar = data(convert=_callee)
    args: tuple[Expr, ...] = child(convert=as_exprs)
    dtype: DataType = data(default=VOID, convert=_dtype)
    annotations: dict[str, object] = attrs(default=None, kw_only=True, convert=_annotations)

    def check(self) -> None:
        """The operation takes that many arguments."""
        op = self.op
        if op.__class__ is Op:
            least, most = op.arity
            if len(self.args) < least or (most is not None and len(self.args) > most):
                wanted = str(least) if most == least else f"at least {least}" if most is None else f"{least} to {most}"
                raise WellFormedError(f"{op.name} takes {wanted} arguments, got {len(self.args)}", span=self.span)


# The operators live in `build`, which needs the classes above: the import closes the circle once, here.
from tirlower.ir import build as _build  # noqa: E402
