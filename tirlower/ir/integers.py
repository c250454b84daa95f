"""What operations make of integers: the one table, of Python's numbers and of NumPy's vectors of int64 alike.

A value is exact: a number of any size, before the type of the operation keeps it. :func:`kept`, :func:`wrapped` and
:func:`within` say what becomes of one that leaves its type. What has no value (a quotient by zero, a shift by more than
there is, numbers of a vector beyond :data:`LIMIT`) raises an ArithmeticError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from tirlower.ir import expr as ir
from tirlower.ir.dtype import DataType, wrap_int
from tirlower.ir.expr import Call, Expr

__all__ = [
    "EXACT", "LIMIT", "SHIFTS", "Compute", "Value", "Word", "exact", "kept", "magnitude", "operation", "truncdiv", "truncmod", "within",
    "word_of", "wrapped",
]  # fmt: skip

LIMIT: Final = 1 << 62
"""What the numbers of a vector stay below, so that sums of two are numbers of 64 bits."""

Value: TypeAlias = Any
"""A number, or a vector of int64."""
Compute: TypeAlias = Callable[..., Value]
Word: TypeAlias = "type[Expr] | str"
"""A class of nodes, or the name of an operation that is called."""
_Vector: Final = np.ndarray


def magnitude(value: Value) -> int:
    """How far a number, or the farthest of a vector, is from 0; 0 of none."""
    if value.__class__ is not _Vector:
        return abs(int(value))
    return max(abs(int(value.max())), abs(int(value.min()))) if value.size else 0


def _need(reach: int) -> None:
    if reach >= LIMIT:
        raise OverflowError(f"the numbers of a vector reach {reach}, beyond 2**62")


def _product(a: Value, b: Value) -> Value:
    if a.__class__ is _Vector or b.__class__ is _Vector:
        _need(magnitude(a) * magnitude(b))
    return a * b


def _shift_left(a: Value, b: Value) -> Value:
    if a.__class__ is _Vector or b.__class__ is _Vector:
        _need(magnitude(a) << magnitude(b))
    return a << b


def _divisor(a: Value, b: Value) -> Value:
    """The divisor, which NumPy would let be 0."""
    if a.__class__ is _Vector or b.__class__ is _Vector:
        _need(magnitude(b))
        if not (b.all() if b.__class__ is _Vector else b):
            raise ZeroDivisionError("division by zero")
    return b


def truncdiv(a: Value, b: Value) -> Value:
    """The quotient rounded toward zero."""
    quotient = a // _divisor(a, b)
    return quotient + ((quotient < 0) & (quotient * b != a))


def truncmod(a: Value, b: Value) -> Value:
    """The remainder of :func:`truncdiv`."""
    return a - truncdiv(a, b) * b


def _value(part: Value) -> Value:
    """An operand that is chosen: where it is the reason why there is no value, that is raised."""
    if isinstance(part, ArithmeticError):
        raise part
    return part


def _chosen(condition: Value, a: Value, b: Value) -> Value:
    if _value(condition).__class__ is _Vector:
        return np.where(condition, _value(a), _value(b))
    return _value(a if condition else b)


EXACT: Final[dict[Word, Compute]] = {
    ir.Add: lambda a, b: a + b,
    ir.Sub: lambda a, b: a - b,
    ir.Mul: _product,
    ir.Div: truncdiv,
    ir.Mod: truncmod,
    ir.FloorDiv: lambda a, b: a // _divisor(a, b),
    ir.FloorMod: lambda a, b: a % _divisor(a, b),
    ir.Min: lambda a, b: np.minimum(a, b) if a.__class__ is _Vector or b.__class__ is _Vector else min(a, b),
    ir.Max: lambda a, b: np.maximum(a, b) if a.__class__ is _Vector or b.__class__ is _Vector else max(a, b),
    ir.EQ: lambda a, b: a == b,
    ir.NE: lambda a, b: a != b,
    ir.LT: lambda a, b: a < b,
    ir.LE: lambda a, b: a <= b,
    ir.GT: lambda a, b: a > b,
    ir.GE: lambda a, b: a >= b,
    # What decides is asked alone: the other operand may have no value.
    ir.And: lambda a, b: _chosen(a, b, 0),
    ir.Or: lambda a, b: _chosen(a, 1, b),
    ir.Not: lambda a: 1 - a,
    ir.Select: _chosen,
    ir.Cast: lambda a: a,
    "tir.if_then_else": _chosen,
    "tir.likely": lambda a: a,
    "tir.bitwise_and": lambda a, b: a & b,
    "tir.bitwise_or": lambda a, b: a | b,
    "tir.bitwise_xor": lambda a, b: a ^ b,
    "tir.bitwise_not": lambda a: ~a,
    "tir.shift_left": _shift_left,
    "tir.shift_right": lambda a, b: a >> b,
}
"""What each operation makes of the values of its operands."""

CHOICES: Final = frozenset((ir.And, ir.Or, ir.Select, "tir.if_then_else"))
"""The operations that take an ArithmeticError as an operand too: what has no value counts where it is chosen."""

SHIFTS: Final = frozenset(("tir.shift_left", "tir.shift_right"))


def word_of(op: Expr) -> Word:
    """By what the table knows an operation."""
    return getattr(op.op, "name", "") if isinstance(op, Call) else op.__class__


def operation(word: Word, dtype: DataType) -> Compute | None:
    """What an operation of a type computes, exactly; None for one that the table has not, or not of scalar integers.

    >>> shift = operation("tir.shift_left", DataType("int8"))
    >>> shift(3, 7)
    384
    """
    compute = EXACT.get(word)
    if compute is None or not dtype.is_integral or not dtype.is_scalar:
        return None
    if word is ir.Cast and dtype.is_bool:
        return lambda a: a != 0
    if word in SHIFTS:
        return _shift(compute, dtype.bits)
    return compute


def _shift(compute: Compute, bits: int) -> Compute:
    def shift(a: Value, b: Value) -> Value:
        if not np.all((b >= 0) & (b < bits)):
            raise OverflowError(f"a shift is by 0 to {bits - 1} bits, got {b}")
        return compute(a, b)

    return shift


# What becomes of a value that leaves its type


def kept(op: Expr, value: Value) -> Value:
    """It stays what it is, as if types had no ends."""
    if value.__class__ is _Vector:
        _need(magnitude(value))
    return value


def wrapped(op: Expr, value: Value) -> Value:
    """It keeps its last bits."""
    dtype = op.dtype
    if value.__class__ is not _Vector:
        return wrap_int(value, dtype)
    if dtype.bits >= LIMIT.bit_length():
        if not dtype.is_int and np.any(value < 0):
            raise OverflowError(f"a value of {dtype} is no number of 64 bits with a sign")
        return kept(op, value)
    least = -(1 << (dtype.bits - 1)) if dtype.is_int else 0
    return (value - least) % (1 << dtype.bits) + least


def within(op: Expr, value: Value) -> Value:
    """It is refused, with an OverflowError."""
    if not op.dtype.min_value <= value <= op.dtype.max_value:
        raise OverflowError(f"{op} = {value} does not fit {op.dtype}")
    return value


def exact(word: Word, *values: Value) -> Value:
    """The exact value of an operation; None where an operand has none (None), or the operation."""
    if any(value is None for value in values):
        return None
    try:
        return EXACT[word](*values)
    except ArithmeticError:
        return None
