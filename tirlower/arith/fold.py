"""Folding: operations on constants whose result is exact."""

from __future__ import annotations

import math
from collections.abc import Callable

from tirlower import ir
from tirlower.ir import BOOL, DataType, Expr, FloatImm, IntImm, wrap_int
from tirlower.ir.integers import EXACT, operation
from tirlower.ir.op import Op

__all__ = ["LOG2_LIMITS", "fold_call", "fold_float", "holds_values_of"]


def fold_float(kind: type[Expr], a: Expr, b: Expr) -> Expr | None:
    """An operation on two float constants, where it rounds as the operation itself does; else None."""
    if a.__class__ is not FloatImm or b.__class__ is not FloatImm or a.dtype.is_custom:
        return None
    if kind in (ir.Min, ir.Max) and (a.value != a.value or b.value != b.value or a.value == b.value):
        return None
    if kind in (ir.Add, ir.Sub, ir.Mul, ir.Min, ir.Max):
        # float32 and narrower: the exact float64 sum or product of two rounds as the operation itself does.
        value: float = EXACT[kind](a.value, b.value)
    elif kind is ir.Div and b.value != 0:
        value = a.value / b.value
    else:
        return None
    return FloatImm(a.dtype, value)


def holds_values_of(wide: DataType, narrow: DataType) -> bool:
    """Whether every value of one integer type is a value of another."""
    return bool(wide.min_value <= narrow.min_value and narrow.max_value <= wide.max_value)


_FLOAT_CALLS: dict[str, Callable[[float], float]] = {
    "tir.floor": math.floor,
    "tir.ceil": math.ceil,
    "tir.trunc": math.trunc,
    "tir.fabs": abs,
    "tir.nearbyint": round,
    "tir.round": lambda value: math.trunc(value) + int(math.copysign(abs(math.fmod(value, 1.0)) >= 0.5, value)),
}
_FLOAT_TESTS: dict[str, Callable[[float], bool]] = {
    "tir.isnan": math.isnan,
    "tir.isinf": math.isinf,
    "tir.isfinite": math.isfinite,
}


_LOG2 = Op.get("tir.log2")
LOG2_LIMITS = {32: 1 << 16, 64: 1 << 40}
"""By the bits of a float: up to which integer the logarithm, however it is rounded, has the right integer above it."""


def fold_call(op: Op, args: tuple[Expr, ...], dtype: DataType | None) -> Expr | None:
    """A call of constants whose result is exact, or None."""
    if op.name == "tir.ceil" and args and args[0].__class__ is ir.Call and args[0].op is _LOG2:
        inner = args[0].args[0]
        if inner.__class__ is FloatImm and inner.value.is_integer() and inner.dtype.is_float:
            if 1 <= inner.value <= LOG2_LIMITS.get(inner.dtype.bits, 0):
                return FloatImm(inner.dtype, float((int(inner.value) - 1).bit_length()))
    if not args or args[0].__class__ not in (IntImm, FloatImm):
        return None
    first = args[0]
    if len(args) == 2 and first.__class__ is IntImm and args[1].__class__ is IntImm:
        whole = operation(op.name, first.dtype)
        try:
            value = None if whole is None else whole(first.value, args[1].value)
        except ArithmeticError:
            return None
        index = first.dtype.is_int and first.dtype.bits in (32, 64)
        if value is None or (index and wrap_int(value, first.dtype) != value):
            return None  # an index past its type is no number of it
        return IntImm(first.dtype, wrap_int(value, first.dtype))
    if first.__class__ is IntImm:
        bits = first.dtype.bits
        pattern = first.value & ((1 << bits) - 1)
        if op.name == "tir.popcount":
            return IntImm(first.dtype, wrap_int(pattern.bit_count(), first.dtype))
        if op.name == "tir.clz" and dtype is not None:
            return IntImm(dtype, bits - pattern.bit_length())
        if op.name == "tir.bitwise_not" and not first.dtype.is_bool:
            return IntImm(first.dtype, wrap_int(~first.value, first.dtype))
        return None
    if op.name in _FLOAT_TESTS and not first.dtype.is_custom:
        return IntImm(BOOL, int(_FLOAT_TESTS[op.name](first.value)))
    if op.name == "tir.log2" and 0 < first.value < math.inf and not first.dtype.is_custom:
        fraction, exponent = math.frexp(first.value)
        return FloatImm(first.dtype, float(exponent - 1)) if fraction == 0.5 else None  # a power of two
    if op.name == "tir.sqrt" and 0 < first.value < math.inf and not first.dtype.is_custom:
        return FloatImm(first.dtype, math.sqrt(first.value))  # float64's root rounds to that of narrower types
    exact = _FLOAT_CALLS.get(op.name)
    if exact is None or not math.isfinite(first.value) or first.value == 0 or first.dtype.is_custom:
        return None
    rounded = exact(first.value)
    # -0.5 rounds up to -0.0, which an int cannot say.
    return FloatImm(first.dtype, math.copysign(float(rounded), first.value) if rounded == 0 else float(rounded))
