"""What the nodes and intrinsics of expressions do to arrays of NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from tirlower.ir.dtype import Array, NumpyDType

__all__ = ["BINARY", "UNARY", "computed", "truncated"]

Unary: TypeAlias = "Callable[[Array], object]"
Binary: TypeAlias = "Callable[[Array, Array], object]"


def computed(name: str, args: list[Array]) -> Array | None:
    """The values of a node or an intrinsic by its name; None where there is none. Narrow floats are computed in float32.

    >>> computed("tir.sqrt", [np.float32([4, 9])]).tolist()
    [2.0, 3.0]
    """
    kind = args[0].dtype
    narrow = name.startswith("tir.") and kind.kind not in "iub" and kind.itemsize < 4
    given = [a.astype(np.float32) for a in args] if narrow else args
    if len(given) == 1 and name in UNARY:
        made = np.asarray(UNARY[name](given[0]))
    elif len(given) == 2 and name in BINARY:
        made = np.asarray(BINARY[name](given[0], given[1]))
    else:
        return None
    return made.astype(kind) if narrow and made.dtype == np.float32 else made


def truncated(value: Array, kind: NumpyDType) -> Array:
    """Floats as integers: out of range the nearest one, NaN is 0. NumPy itself gives what the processor does then.

    >>> truncated(np.asarray([1.9, -1.9, 300, -np.inf, np.nan]), np.dtype("int8")).tolist()
    [1, -1, 127, -128, 0]
    """
    low, high = (int(n) for n in (np.iinfo(kind.name).min, np.iinfo(kind.name).max))
    wide = np.trunc(value.astype(np.float64))
    below, above = np.less(wide, float(low)), np.greater_equal(wide, float(high + 1))
    outside = below | above | np.isnan(wide)
    if not outside.any():
        return wide.astype(kind)
    inside = np.where(outside, 0, wide).astype(kind)
    return np.where(above, np.asarray(high, kind), np.where(below, np.asarray(low, kind), inside))


def _divided(a: Array, b: Array) -> object:
    """A quotient; of integers truncated, whatever stands for one by 0."""
    if a.dtype.kind not in "iu":
        return np.divide(a, b)
    whole = np.where(np.equal(b, 0), 1, b).astype(b.dtype)
    return np.floor_divide(np.subtract(a, np.fmod(a, whole)), whole)


def _sigmoid(x: Array) -> object:
    small = np.exp(np.negative(np.abs(x)))
    return np.divide(np.where(np.signbit(x), small, 1), np.add(1, small)).astype(x.dtype)


_ERF = np.frompyfunc(math.erf, 1, 1)


def _erf(x: Array) -> object:
    return np.asarray(_ERF(x.astype(np.float64))).astype(x.dtype)


def _power(x: Array, y: Array) -> object:
    return np.power(x, np.maximum(y, 0) if y.dtype.kind in "iu" else y)


def _shift(function: Binary) -> Binary:
    return lambda a, b: function(a, np.clip(b, 0, a.dtype.itemsize * 8 - 1).astype(b.dtype))


BINARY: dict[str, Binary] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": _divided,
    "Mod": np.fmod,
    "FloorDiv": np.floor_divide,
    "FloorMod": np.remainder,
    "Min": np.fmin,
    "Max": np.fmax,
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "And": np.logical_and,
    "Or": np.logical_or,
    "tir.pow": _power,
    "tir.atan2": np.arctan2,
    "tir.hypot": np.hypot,
    "tir.copysign": np.copysign,
    "tir.fmod": np.fmod,
    "tir.bitwise_and": np.bitwise_and,
    "tir.bitwise_or": np.bitwise_or,
    "tir.bitwise_xor": np.bitwise_xor,
    "tir.shift_left": _shift(np.left_shift),
    "tir.shift_right": _shift(np.right_shift),
}
"""The nodes and intrinsics of two operands by name."""

UNARY: dict[str, Unary] = {
    "Not": np.logical_not,
    "tir.exp": np.exp,
    "tir.exp2": np.exp2,
    "tir.expm1": np.expm1,
    "tir.log": np.log,
    "tir.log1p": np.log1p,
    "tir.log2": np.log2,
    "tir.log10": np.log10,
    "tir.sqrt": np.sqrt,
    "tir.rsqrt": lambda x: np.divide(1, np.sqrt(x)),
    "tir.sin": np.sin,
    "tir.cos": np.cos,
    "tir.tan": np.tan,
    "tir.asin": np.arcsin,
    "tir.acos": np.arccos,
    "tir.atan": np.arctan,
    "tir.sinh": np.sinh,
    "tir.cosh": np.cosh,
    "tir.tanh": np.tanh,
    "tir.asinh": np.arcsinh,
    "tir.acosh": np.arccosh,
    "tir.atanh": np.arctanh,
    "tir.erf": _erf,
    "tir.sigmoid": _sigmoid,
    "tir.fabs": np.abs,
    "tir.floor": np.floor,
    "tir.ceil": np.ceil,
    "tir.trunc": np.trunc,
    "tir.nearbyint": np.rint,
    "tir.isnan": np.isnan,
    "tir.isinf": np.isinf,
    "tir.isfinite": np.isfinite,
    "tir.bitwise_not": np.bitwise_not,
    "tir.likely": lambda x: x,
}
"""The nodes and intrinsics of one operand by name."""
