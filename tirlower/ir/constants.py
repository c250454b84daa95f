"""``const``: a constant that a user writes, which must be a value of its type."""

from __future__ import annotations

import math

from tirlower.diagnostics import Span, WellFormedError
from tirlower.ir import expr
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Expr, FloatImm, IntImm

__all__ = ["const"]


def const(value: int | float | bool, dtype: DataType | str | None = None, span: Span | None = None) -> Expr:
    """A constant of a dtype, rounded to a float's precision; a vector dtype broadcasts.

    Without a dtype: int32 or int64, float32, bool. Raises :class:`WellFormedError` for a value that the dtype does not
    hold: an integer outside its range, a number with a fraction (or NaN, or an infinity) as an integer, a finite number
    that a float type rounds to none. What wraps or rounds on purpose is a conversion: ``const(300).astype("uint8")``.

    >>> const(200, "uint8").value
    200
    >>> const(300, "uint8")
    Traceback (most recent call last):
        ...
    tirlower.diagnostics.WellFormedError: error: the value 300 does not fit in uint8
      = help: uint8 holds 0 to 255; convert for what wraps or rounds: const(value).astype('uint8')
    """
    kind = None if dtype is None else DataType(dtype).element
    if kind is not None and kind.is_integral and not kind.is_bool:
        whole = not isinstance(value, float) or (math.isfinite(value) and value.is_integer())
        if not whole or not kind.min_value <= int(value) <= kind.max_value:
            raise _misfit(value, kind, span)
    if kind is not None and kind.is_bool and value not in (0, 1):
        raise _misfit(value, kind, span)
    if kind is not None and kind.is_float and kind.bits < 8 and not kind.holds(value):
        raise _misfit(value, kind, span)
    made = expr.const(value, dtype, span)
    inner = made.value if not isinstance(made, (IntImm, FloatImm)) and hasattr(made, "value") else made
    if isinstance(inner, FloatImm) and math.isfinite(value) and not math.isfinite(inner.value):
        raise _misfit(value, inner.dtype, span)
    return made


def _misfit(value: int | float | bool, kind: DataType, span: Span | None) -> WellFormedError:
    help = f"convert for what wraps or rounds: const(value).astype('{kind!s}')"
    if kind.is_integral and not kind.is_bool:
        help = f"{kind!s} holds {kind.min_value} to {kind.max_value}; {help}"
    return WellFormedError(f"the value {value} does not fit in {kind!s}", span=span, help=help)
