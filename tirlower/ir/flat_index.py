"""Offsets of elements: indices and extents as one number, and quotients put together with their remainders again."""

from __future__ import annotations

from tirlower.ir import build
from tirlower.ir.expr import Add, Expr, FloorDiv, FloorMod, IntImm, Var

__all__ = ["continued", "shape_key"]


def shape_key(expr: Expr) -> object:
    """A key under which structurally equal index terms meet."""
    if isinstance(expr, Var):
        return id(expr)
    if isinstance(expr, IntImm):
        return (expr.dtype, expr.value)
    return (type(expr).__name__, *[shape_key(c) if isinstance(c, Expr) else id(c) for c in expr.children()])


def continued(high: Expr, extent: Expr, low: Expr) -> Expr:
    """``high * extent + low``; ``x`` where ``high`` ends in ``x // extent`` and ``low`` is ``x % extent``.

    >>> x = Var("x")
    >>> print(continued(continued(x // 64, build.int32(8), x % 64 // 8), build.int32(8), x % 8))
    x
    """
    rest, last = (high.a, high.b) if high.__class__ is Add else (None, high)
    merged = _merged(last, extent, low)
    if merged is None:
        return build.add(build.mul(high, extent), low)
    return merged if rest is None else continued(rest, extent, merged)


def _merged(high: Expr, extent: Expr, low: Expr) -> Expr | None:
    """``high * extent + low`` as one digit, where ``low`` continues ``high``."""
    if low.__class__ is FloorDiv and low.a.__class__ is FloorMod:
        base, modulus, lower = low.a.a, low.a.b, low.b
    elif low.__class__ is FloorMod:
        base, modulus, lower = low.a, low.b, None
    else:
        return None
    if lower is None:
        fits = shape_key(modulus) == shape_key(extent)
    else:
        fits = (
            isinstance(lower, IntImm)
            and isinstance(extent, IntImm)
            and isinstance(modulus, IntImm)
            and 0 < lower.value * extent.value == modulus.value
        )
    if not fits or high.__class__ is not FloorDiv or shape_key(high.b) != shape_key(modulus):
        return None
    whole = high.a
    if shape_key(whole) != shape_key(base):
        # the digit above may be cut off itself: x % 64 // 8, x % 8
        if whole.__class__ is not FloorMod or shape_key(whole.a) != shape_key(base):
            return None
        if not (isinstance(whole.b, IntImm) and isinstance(modulus, IntImm)) or whole.b.value % modulus.value:
            return None
    return whole if lower is None else build.floordiv(whole, lower)
