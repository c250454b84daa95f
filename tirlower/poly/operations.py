"""What integer operations that are not affine compute, of numbers and of vectors of int64 alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tirlower import ir
from tirlower.ir import Call, DataType, Expr, Op
from tirlower.poly.forms import Compute

__all__ = ["operands_of", "operation_of"]

_LIMIT = 1 << 62


def _wrapped(value: Any, dtype: DataType) -> Any:
    """A value as its type keeps it: the last bits, as NumPy does."""
    if dtype.bits >= 64:
        return value
    least = -(1 << (dtype.bits - 1)) if dtype.is_int else 0
    return (value - least) % (1 << dtype.bits) + least


def _truncated(a: Any, b: Any) -> Any:
    quotient = a // b
    return quotient + ((quotient < 0) & (quotient * b != a))


def _divided(divide: Callable[[Any, Any], Any]) -> Compute:
    return lambda a, b: divide(a, b) if np.all(b != 0) else None


def _greatest(value: Any) -> int:
    """The greatest magnitude of a number or vector; 0 of none."""
    return int(np.max(np.abs(value), initial=0))


def _shifted_left(a: Any, b: Any) -> Any:
    if np.any(b < 0) or np.any(b > 62) or _greatest(a) << _greatest(b) >= _LIMIT:
        return None
    return a << b


def _product(a: Any, b: Any) -> Any:
    return a * b if _greatest(a) * _greatest(b) < _LIMIT else None


_CALLS: dict[str, Compute] = {
    "tir.bitwise_and": lambda a, b: a & b,
    "tir.bitwise_or": lambda a, b: a | b,
    "tir.bitwise_xor": lambda a, b: a ^ b,
    "tir.bitwise_not": lambda a: ~a,
    "tir.shift_left": _shifted_left,
    "tir.shift_right": lambda a, b: a >> b if np.all(b >= 0) and np.all(b <= 62) else None,
}
_NODES: dict[type, Compute] = {
    ir.Add: lambda a, b: a + b,
    ir.Sub: lambda a, b: a - b,
    ir.Mul: _product,
    ir.Div: _divided(_truncated),
    ir.Mod: _divided(lambda a, b: a - b * _truncated(a, b)),
    ir.FloorDiv: _divided(lambda a, b: a // b),
    ir.FloorMod: _divided(lambda a, b: a % b),
    ir.Cast: lambda a: a,
}


def operands_of(op: Any) -> tuple[Expr, ...]:
    """The integers that an operation takes."""
    return op.args if isinstance(op, Call) else tuple(op.children())


def operation_of(op: Any) -> Compute | None:
    """What an operation computes of its operands: None for one that is not known, or not of scalar integers.

    >>> from tirlower.ir import Var, build
    >>> found = operation_of(build.call("tir.bitwise_xor", Var("i"), 1, dtype="int32"))
    >>> found(-2, 1), operation_of(build.cast("int8", Var("i")))(200)
    (-1, -56)
    """
    compute = _NODES.get(op.__class__)
    if isinstance(op, Call) and isinstance(op.op, Op):
        compute = _CALLS.get(op.op.name)
    dtype = op.dtype
    if compute is None or not dtype.is_integral or not dtype.is_scalar or dtype.is_bool:
        return None
    if not all(x.dtype.is_integral and x.dtype.is_scalar and not x.dtype.is_bool for x in operands_of(op)):
        return None
    apply = compute

    def wrapped(*values: Any) -> Any:
        if any(_greatest(value) >= _LIMIT for value in values):
            return None
        result = apply(*values)
        return None if result is None else _wrapped(result, dtype)

    return wrapped
