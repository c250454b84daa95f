"""Operations element by element, operands broadcast as NumPy has it: a table of names and what they make of elements.

Dtypes follow NumPy: operands are converted to their common dtype, a mathematical function of integers gives the float that
holds them, a comparison bool. What NumPy refuses (the negative of a bool, the bits of a float) is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, TypeAlias

from tirlower.graph.core.nodes import TensorType
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.compute import Formal, broadcast, compute, greater, lesser
from tirlower.graph.ops.generic import Generic
from tirlower.graph.ops.registry import common_dtype, op
from tirlower.ir import Expr, build
from tirlower.ir.constants import const
from tirlower.ir.dtype import BOOL, FLOAT64, DataType

__all__ = ["as_float", "call", "floats"]

Unary: TypeAlias = "Callable[[Expr], Expr]"
Binary: TypeAlias = "Callable[[Expr, Expr], Expr]"


class Rule(Protocol):
    """From the name of an operation and its operands the dtype in which it is computed."""

    def __call__(self, name: str, *operands: Formal) -> DataType:
        """The dtype. Raises :class:`GraphError` for operands that the operation does not take."""


class Intrinsic(Protocol):
    """A function of elements of the operands."""

    def __call__(self, *args: Expr) -> Expr:
        """The element of the result."""


# The dtypes in which operations are computed


def as_float(dtype: DataType) -> DataType:
    """The float that holds the values of a dtype, as NumPy's mathematical functions take it.

    >>> [str(as_float(DataType(d))) for d in ("bool", "int16", "int32", "float32")]
    ['float16', 'float32', 'float64', 'float32']
    """
    return dtype if dtype.is_float else common_dtype(TensorType((), dtype), TensorType((), DataType("float16")))


def floats(name: str, *operands: Formal) -> DataType:
    """The common dtype of operands that must be floats. Raises :class:`GraphError` naming one that is none."""
    for x in operands:
        if not x.dtype.is_float:
            raise GraphError(f"{name} takes floats, got {x.name} of {x.dtype!s}", help="convert it with astype")
    return common_dtype(*operands)


def _any(name: str, *operands: Formal) -> DataType:
    return common_dtype(*operands)


def _float(name: str, *operands: Formal) -> DataType:
    return as_float(common_dtype(*operands))


def _quotient(name: str, *operands: Formal) -> DataType:
    found = common_dtype(*operands)
    return found if found.is_float else FLOAT64


def _number(name: str, *operands: Formal) -> DataType:
    found = common_dtype(*operands)
    if found.is_bool:
        raise GraphError(
            f"{name} takes numbers, got {', '.join(x.name for x in operands)} of bool",
            help="use a logical operation, or convert it with astype",
        )
    return found


def _small(name: str, *operands: Formal) -> DataType:
    found = common_dtype(*operands)
    return DataType("int8") if found.is_bool else found


_CAST: Final = 'cast the operands to one dtype of integers: x.astype("int64")'


def _bits(name: str, *operands: Formal) -> DataType:
    for x in operands:
        if not x.dtype.is_integral:
            raise GraphError(f"{name} takes integers or bool, got {x.name} of {x.dtype!s}", help=_CAST)
    common = common_dtype(*operands)
    if not common.is_integral:  # of int64 and uint64, as NumPy has it
        several = " and ".join(f"{x.name} of {x.dtype!s}" for x in operands)
        raise GraphError(f"{name} takes integers, and {several} are {common!s} together", help=_CAST)
    return common


def _shifted(name: str, *operands: Formal) -> DataType:
    found = _bits(name, *operands)
    return DataType("int8") if found.is_bool else found


def _truth(name: str, *operands: Formal) -> DataType:
    return BOOL


# What they make of elements


def call(name: str) -> Intrinsic:
    """The call of an intrinsic."""

    def made(*args: Expr) -> Expr:
        return build.call(f"tir.{name}", *args)

    return made


def _unary(floats: Unary, integers: Unary) -> Unary:
    """A body for each kind of dtype; bools are integers."""
    return lambda x: (floats if x.dtype.is_float else integers)(x)


def _binary(numbers: Binary, bools: Binary) -> Binary:
    """A body for numbers and one for bools."""
    return lambda a, b: (bools if a.dtype.is_bool else numbers)(a, b)


def _same(x: Expr) -> Expr:
    return x


def _zero(x: Expr) -> Expr:
    return const(0, x.dtype)


def _one(x: Expr) -> Expr:
    return const(1, x.dtype)


def _guarded(divide: Binary) -> Binary:
    """A division that gives 0 where an integer is divided by 0, as NumPy's does."""

    def body(a: Expr, b: Expr) -> Expr:
        if a.dtype.is_float:
            return divide(a, b)
        return build.if_then_else(build.eq(b, _zero(b)), _zero(a), divide(a, b))

    return body


def _sign(x: Expr) -> Expr:
    below = _zero(x) if x.dtype.is_uint else build.select(x < 0, const(-1, x.dtype), x)
    return build.select(x > 0, _one(x), below)


def _left(a: Expr, b: Expr) -> Expr:
    return _within(b, build.shift_left(a, b), _zero(a))


def _right(a: Expr, b: Expr) -> Expr:
    gone = _zero(a) if a.dtype.is_uint else build.select(a < 0, const(-1, a.dtype), _zero(a))
    return _within(b, build.shift_right(a, b), gone)


def _within(b: Expr, shifted: Expr, gone: Expr) -> Expr:
    """A shift by less than the width; by more no bit is left."""
    inside = build.all_of(build.ge(b, _zero(b)), build.lt(b, const(b.dtype.bits, b.dtype)))
    return build.if_then_else(inside, shifted, gone)


def _log_add(a: Expr, b: Expr) -> Expr:
    """Of two equal infinities the difference is no number."""
    far = build.call("tir.log1p", build.call("tir.exp", build.sub(_zero(a), build.abs_(a - b))))
    return build.select(build.eq(a, b), a + const(0.6931471805599453, a.dtype), greater(a, b) + far)


def _false(x: Expr) -> Expr:
    return const(False, BOOL)


def _true(x: Expr) -> Expr:
    return const(True, BOOL)


def _negative(x: Expr) -> Expr:
    return build.neg(x) if x.dtype.is_float else build.sub(_zero(x), x)


def _rounding(name: str) -> Unary:
    return _unary(call(name), _same)


class Row(NamedTuple):
    """An operation on one operand."""

    name: str
    doc: str
    rule: Rule
    body: Unary


class BinaryRow(NamedTuple):
    """An operation on two operands, which are broadcast."""

    name: str
    doc: str
    rule: Rule
    body: Binary
    commutative: bool = False


UNARY = (
    Row("positive", "The value itself.", _number, _same),
    Row("identity", "The value itself, of any dtype.", _any, _same),
    Row("negative", "The negative; of unsigned integers modulo their range.", _number, _negative),
    Row("abs", "The absolute value; of the least integer itself.", _any, build.abs_),
    Row("sign", "-1, 0 or 1; NaN of NaN.", _number, _sign),
    Row("square", "The product with itself.", _small, lambda x: build.mul(x, x)),
    Row("reciprocal", "1 divided by it.", floats, lambda x: build.true_div(_one(x), x)),
    Row("floor", "The greatest integer that is not above it.", _any, _rounding("floor")),
    Row("ceil", "The least integer that is not below it.", _any, _rounding("ceil")),
    Row("trunc", "The integer nearest to it toward zero.", _any, _rounding("trunc")),
    Row("round", "The nearest integer; halves go to the even one.", _any, _rounding("nearbyint")),
    Row("isnan", "Whether it is NaN.", _any, _unary(call("isnan"), _false)),
    Row("isfinite", "Whether it is neither infinite nor NaN.", _any, _unary(call("isfinite"), _true)),
    Row("logical_not", "Whether it is zero.", _truth, build.logical_not),
    Row("bitwise_invert", "Each bit turned.", _bits, build.bitwise_not),
    Row("exp", "The exponential.", _float, call("exp")),
    Row("exp2", "2 to its power.", _float, call("exp2")),
    Row("expm1", "The exponential less 1, exact near 0.", _float, call("expm1")),
    Row("log", "The natural logarithm.", _float, call("log")),
    Row("log1p", "The natural logarithm of 1 and it, exact near 0.", _float, call("log1p")),
    Row("log2", "The logarithm to base 2.", _float, call("log2")),
    Row("log10", "The logarithm to base 10.", _float, call("log10")),
    Row("sqrt", "The square root.", _float, call("sqrt")),
    Row("rsqrt", "1 divided by the square root.", _float, call("rsqrt")),
    Row("sin", "The sine.", _float, call("sin")),
    Row("cos", "The cosine.", _float, call("cos")),
    Row("tan", "The tangent.", _float, call("tan")),
    Row("asin", "The inverse sine.", _float, call("asin")),
    Row("acos", "The inverse cosine.", _float, call("acos")),
    Row("atan", "The inverse tangent.", _float, call("atan")),
    Row("sinh", "The hyperbolic sine.", _float, call("sinh")),
    Row("cosh", "The hyperbolic cosine.", _float, call("cosh")),
    Row("tanh", "The hyperbolic tangent.", _float, call("tanh")),
    Row("asinh", "The inverse hyperbolic sine.", _float, call("asinh")),
    Row("acosh", "The inverse hyperbolic cosine.", _float, call("acosh")),
    Row("atanh", "The inverse hyperbolic tangent.", _float, call("atanh")),
    Row("erf", "The error function.", floats, call("erf")),
    Row("sigmoid", "1 / (1 + exp(-x)).", floats, call("sigmoid")),
)

BINARY = (
    BinaryRow("add", "Sum; of bools whether one is true.", _any, _binary(build.add, build.logical_or), True),
    BinaryRow("subtract", "Difference.", _number, build.sub),
    BinaryRow("multiply", "Product; of bools whether both are.", _any, _binary(build.mul, build.logical_and), True),
    BinaryRow("divide", "Quotient, a float: float64 of integers.", _quotient, build.true_div),
    BinaryRow("floor_divide", "Quotient rounded down; of integers by 0 it is 0.", _small, _guarded(build.floordiv)),
    BinaryRow(
        "remainder", "Remainder with the divisor's sign; of integers by 0 it is 0.", _small, _guarded(build.floormod)
    ),
    BinaryRow(
        "fmod", "Remainder with the dividend's sign; of integers by 0 it is 0.", _small, _guarded(build.truncmod)
    ),
    BinaryRow("power", "The first to the power of the second; integers wrap.", _small, call("pow")),
    BinaryRow("maximum", "The greater one; NaN if one is NaN.", _any, greater, True),
    BinaryRow("minimum", "The lesser one; NaN if one is NaN.", _any, lesser, True),
    BinaryRow("atan2", "The angle of the point (b, a).", _float, call("atan2")),
    BinaryRow("hypot", "The length of the vector (a, b).", _float, call("hypot"), True),
    BinaryRow("copysign", "The first with the second's sign.", _float, call("copysign")),
    BinaryRow("logaddexp", "The logarithm of the sum of exponentials.", _float, _log_add, True),
    BinaryRow("equal", "Whether they are equal.", _any, build.eq, True),
    BinaryRow("not_equal", "Whether they differ.", _any, build.ne, True),
    BinaryRow("less", "Whether the first is below the second.", _any, build.lt),
    BinaryRow("less_equal", "Whether the first is not above the second.", _any, build.le),
    BinaryRow("greater", "Whether the first is above the second.", _any, build.gt),
    BinaryRow("greater_equal", "Whether the first is not below the second.", _any, build.ge),
    BinaryRow("logical_and", "Whether both are nonzero.", _truth, build.logical_and, True),
    BinaryRow("logical_or", "Whether one is nonzero.", _truth, build.logical_or, True),
    BinaryRow("logical_xor", "Whether exactly one is nonzero.", _truth, build.ne, True),
    BinaryRow("bitwise_and", "The bits that both have.", _bits, build.bitwise_and, True),
    BinaryRow("bitwise_or", "The bits that one has.", _bits, build.bitwise_or, True),
    BinaryRow("bitwise_xor", "The bits that exactly one has.", _bits, build.bitwise_xor, True),
    BinaryRow("bitwise_left_shift", "Bits shifted up; 0 from the width on.", _shifted, _left),
    BinaryRow("bitwise_right_shift", "Bits shifted down, the sign kept.", _shifted, _right),
)


def _define_unary(row: Row) -> None:
    @op(row.name, row.doc)
    def define(x: Formal) -> Generic:
        dtype = row.rule(row.name, x)
        return compute(x.shape, lambda *i: row.body(_to(dtype, x[i])))


def _define_binary(row: BinaryRow) -> None:
    @op(row.name, row.doc, commutative=row.commutative)
    def define(a: Formal, b: Formal) -> Generic:
        dtype = row.rule(row.name, a, b)
        shape = broadcast(a.shape, b.shape)
        return compute(shape, lambda *i: row.body(_to(dtype, a.at(*i)), _to(dtype, b.at(*i))))


def _to(dtype: DataType, value: Expr) -> Expr:
    """Converted: to bool what is not zero."""
    return build.as_bool(value) if dtype.is_bool else value.astype(dtype)


for _row in UNARY:
    _define_unary(_row)
for _pair in BINARY:
    _define_binary(_pair)


@op("isinf")
def isinf(x: Formal, *, negative: bool = True, positive: bool = True) -> Generic:
    """Whether it is infinite, of either sign or of the one that is asked for."""

    def element(x: Expr) -> Expr:
        if not x.dtype.is_float:
            return const(False, BOOL)
        if negative and positive:
            return build.call("tir.isinf", x)
        above = [build.eq(x, const(float("inf"), x.dtype))] if positive else []
        below = [build.eq(x, const(float("-inf"), x.dtype))] if negative else []
        return build.any_of(*above, *below)

    return compute(x.shape, lambda *i: element(x[i]))


@op("where")
def where(condition: Formal, a: Formal, b: Formal) -> Generic:
    """The second where the first is nonzero, else the third."""
    dtype = common_dtype(a, b)
    shape = broadcast(condition.shape, a.shape, b.shape)
    return compute(shape, lambda *i: build.select(condition.at(*i), a.at(*i).astype(dtype), b.at(*i).astype(dtype)))


@op("clip")
def clip(x: Formal, lo: Formal | None = None, hi: Formal | None = None) -> Generic:
    """The value, at least ``lo`` and at most ``hi``; a bound may be left out. NaN stays NaN."""
    bounds = [bound for bound in (lo, hi) if bound is not None]
    dtype = common_dtype(x, *bounds)

    def element(*i: Expr) -> Expr:
        value = x.at(*i).astype(dtype)
        if lo is not None:
            value = greater(value, lo.at(*i).astype(dtype))
        return value if hi is None else lesser(value, hi.at(*i).astype(dtype))

    return compute(broadcast(x.shape, *[bound.shape for bound in bounds]), element)


@op("cast")
def cast(x: Formal, *, dtype: str) -> Generic:
    """Converted to a dtype: floats are truncated and kept in range (NaN is 0), integers wrap, nonzero is true."""
    kind = DataType(dtype)
    return compute(x.shape, lambda *i: _to(kind, x[i]))
