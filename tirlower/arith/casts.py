"""Casts simplified: of constants, of casts, of ramps by their parts, of comparisons that are numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tirlower import ir
from tirlower.arith.bounds import is_index_type
from tirlower.arith.fold import holds_values_of
from tirlower.ir import Broadcast, Cast, DataType, Expr, FloatImm, IntImm, Ramp, build
from tirlower.ir.expr import Binary

if TYPE_CHECKING:
    from tirlower.arith.rewrite import Rewriter

__all__ = ["simplify_cast"]


def simplify_cast(rewriter: Rewriter, dtype: DataType, value: Expr, op: Cast | None) -> Expr:
    """A cast of a simplified value; ``op`` is the node that it comes from, if there is one."""
    if value.dtype is dtype:
        return value
    if value.__class__ is IntImm or value.__class__ is FloatImm or value.__class__ is Broadcast:
        new = build.cast(dtype, value, span=rewriter.span)
        if new.__class__ is not Cast:
            return new
    if value.__class__ is Cast and not rewriter.any_impure((value,)):
        inner = value.value
        source, middle = inner.dtype, value.dtype
        # A middle type that holds every value of the source adds nothing.
        if source.is_integral and middle.is_integral and dtype.is_integral and holds_values_of(middle, source):
            return simplify_cast(rewriter, dtype, inner, None)
        if source.is_integral and middle.is_integral and dtype.is_integral and not dtype.is_bool:
            # Both truncate: only the low bits count.
            if not middle.is_bool and dtype.bits <= middle.bits:
                return simplify_cast(rewriter, dtype, inner, None)
    if value.__class__ is Ramp and _converts_parts(rewriter, dtype, value):
        element = dtype.element
        return rewriter.make_ramp(
            simplify_cast(rewriter, element, value.base, None),
            simplify_cast(rewriter, element, value.stride, None),
            value.lanes,
        )
    if value.__class__ is ir.LT or value.__class__ is ir.NE:
        some = _whether_any(rewriter, dtype, value)
        if some is not None:
            return some
    if op is not None and op.value is value:
        return op
    return rewriter.mark(Cast(dtype, value, span=rewriter.span), value)


def _whether_any(rewriter: Rewriter, dtype: DataType, value: Binary) -> Expr | None:
    """``0 < x`` as a number, for an ``x`` that is not negative: at most 1 of it, which is arithmetic."""
    x, zero = (value.b, value.a) if value.__class__ is ir.LT else (value.a, value.b)
    if zero.__class__ is not IntImm or zero.value != 0 or x.dtype is not dtype or not is_index_type(dtype):
        return None
    return rewriter.binary(ir.Min, x, IntImm(dtype, 1)) if _is_natural(rewriter, x) else None


def _is_natural(rewriter: Rewriter, x: Expr) -> bool:
    """Whether a value is certainly not negative; a divisor that may not be negative is positive."""
    if x.__class__ is ir.FloorMod and rewriter.bound(x.b)[0] >= 0:
        return True
    return rewriter.bound(x)[0] >= 0


def _converts_parts(rewriter: Rewriter, dtype: DataType, value: Ramp) -> bool:
    """Whether a ramp can be converted by its parts: base, stride and every lane, as exact numbers, are values of
    both types."""
    if not dtype.is_integral or not isinstance(value.lanes, int):
        return False
    bounds = rewriter.analyzer.bounds
    (low, high), (least, most) = bounds.of(value.base), bounds.of(value.stride)
    last = value.lanes - 1
    ends = (low, high, low + min(least * last, 0), high + max(most * last, 0), least, most)
    exact = is_index_type(value.base.dtype) and not rewriter.analyzer.wraps_around(value)
    kinds = [dtype.element] if exact else [dtype.element, value.dtype.element]
    return all(kind.min_value <= min(ends) and max(ends) <= kind.max_value for kind in kinds)
