"""pow, and the roots: sqrt, rsqrt, hypot."""

from __future__ import annotations

import math
from typing import Final

from tirlower.emit.llvm_text import DOUBLE, FLOAT
from tirlower.emit.vmath import coefficients as C
from tirlower.emit.vmath.algebra import Formula, V
from tirlower.emit.vmath.exponential import exp2_of_sum

__all__ = ["hypot", "pow", "rsqrt", "sqrt"]

_LOG2E: Final = {
    FLOAT: (1.4426950216293335, 1.925963033500011e-08),
    DOUBLE: (1.4426950408889634, 2.0355273740931033e-17),
}
# -log2(e)/2 in two float64
_HALF_LOG2E: Final = (-0.7213475204444817, -1.0177636870465517e-17)
_HEAD: Final = {FLOAT: C.POW_HEAD_F32, DOUBLE: C.POW_HEAD_F64}
_TAIL: Final = {FLOAT: C.POW_TAIL_F32, DOUBLE: C.POW_TAIL_F64}
#: where the intervals of the table begin: the bits of 1 - 2**-7
_START: Final = {FLOAT: 0x3F7E0000, DOUBLE: 0x3FEFC00000000000}
_LEAST_NORMAL: Final = {FLOAT: 2.0**-126, DOUBLE: 2.0**-1022}
# powers of two outside of the first are 0 or infinite; up to the second they are normal numbers
_SATURATED: Final = {FLOAT: (-151.0, 160.0), DOUBLE: (-1077.0, 1200.0)}
_USUAL: Final = {FLOAT: 126.0, DOUBLE: 1022.0}


def _slope(k: Formula, r: V) -> tuple[V, V]:
    """``log2(1 + r) / r`` as the sum of two numbers."""
    high, low = _LOG2E[k.elem]
    if k.elem == FLOAT:
        bend = k.horner(r, C.POW_LOG2_F32)
        slope = k.fused(r, bend, high)
        return slope, k.fused(r, bend, high - slope) + low
    # ten bits more are needed here, so the next coefficient is a sum of two as well
    b = k.estrin(r, C.POW_LOG2_F64)
    bend = k.fused(r, b, _HALF_LOG2E[0])
    bend_low = k.fused(r, b, _HALF_LOG2E[0] - bend) + _HALF_LOG2E[1]
    product = r * bend
    product_low = k.fma(r, bend_low, k.fused(r, bend, -product))
    slope = product + high
    return slope, ((high - slope) + product) + (product_low + low)


def _log2_times(k: Formula, x: V, y: V, exponent: V | None = None) -> tuple[V, V]:
    """``y * (log2(x) + exponent)`` for normal ``x > 0`` as the sum of two numbers.

    ``y`` and the last exponential make 100 times as much (in float64 700 times) of the logarithm's error: a table of 32
    reciprocals makes ``r`` small, and all terms that count are sums of two numbers.
    """
    bits = x.bits()
    i = bits - _START[k.elem]
    index = i.shr(k.mantissa - 5)
    m = (bits - (i & (-1 << k.mantissa))).as_float()
    e = k.exponent_to_float(i)
    if exponent is not None:
        e = e + exponent
    r = k.fused(m, k.lookup("reciprocal", C.POW_RECIPROCAL, index), -1.0)
    slope, slope_low = _slope(k, r)
    main = r * slope
    low = k.fma(r, slope_low, k.fused(r, slope, -main)) + k.lookup("log2_tail", _TAIL[k.elem], index)
    whole = e + k.lookup("log2_head", _HEAD[k.elem], index)
    high = whole + main
    low = ((whole - high) + main) + low
    p = y * high
    return p, k.fma(y, low, k.fused(y, high, -p))


def pow(k: Formula, x: V, y: V) -> V:
    """``x ** y`` with C's special cases (float64 without FMA: the C library's).

    Lanes whose base is not positive, normal and finite, and those that overflow or underflow, take a branch.

    At most 1.6 ulp, in float64 1 ulp.
    """
    if k.elem == DOUBLE and not k.fma_ok:
        return k.intrinsic("pow", x, y)
    p, rest = _log2_times(k, x, y)
    normal = k.below(x.bits() - (1 << k.mantissa), 2 * k.bias << k.mantissa)
    usual = normal & (k.abs(p) < _USUAL[k.elem])
    z = exp2_of_sum(k, p, rest, ~usual)
    return k.rarely(~usual, [z], lambda: [k.outlined("pow.special", _any_pow, x, y)])[0]


def _any_pow(k: Formula, x: V, y: V) -> V:
    """``x ** y`` for every pair of arguments."""
    a, b = k.abs(x), k.abs(y)
    edge = a.eq(0.0) | a.eq(math.inf)
    small = a < _LEAST_NORMAL[k.elem]
    normal = k.select(edge, 1.0, k.select(small, a * 2.0**k.mantissa, a))
    p, rest = _log2_times(k, normal, y, k.select(small, k.f(-k.mantissa), 0.0))
    # a rest that belongs to an overflow may be NaN
    low, high = _SATURATED[k.elem]
    gone = p < low  # 0, which is not to be computed as a subnormal number
    z = exp2_of_sum(k, k.select(gone, 0.0, k.minimum(p, high)), k.select((p > low) & (p < high), rest, 0.0))
    z = k.select(gone, 0.0, z)
    z = k.select(edge, k.select(a.eq(0.0) ^ (y < 0.0), k.f(0.0), math.inf), z)
    # a sum with 2**mantissa has no fraction, and an odd one has its lowest bit set
    unit = 2.0**k.mantissa
    rounded = k.select(b < unit, b + unit, b)
    whole = (b >= unit) | (rounded - unit).eq(b)
    odd = whole & (b < 2.0 * unit) & (rounded.bits() & 1).ne(0)
    z = k.select(odd & (x.bits() < 0), -z, z)
    z = k.select(~whole & (x < 0.0) & (x > -math.inf), math.nan, z)
    z = k.select(k.unordered(x, y), math.nan, z)
    return k.select(x.eq(1.0) | y.eq(0.0) | (x.eq(-1.0) & b.eq(math.inf)), 1.0, z)


def sqrt(k: Formula, x: V) -> V:
    """The square root, correctly rounded.

    At most 0.5 ulp, in float64 0.5 ulp.
    """
    return k.sqrt(x)


def rsqrt(k: Formula, x: V) -> V:
    """``1 / sqrt(x)``.

    At most 1.5 ulp, in float64 1.5 ulp.
    """
    return 1.0 / k.sqrt(x)


def hypot(k: Formula, x: V, y: V) -> V:
    """``sqrt(x*x + y*y)`` without overflow or underflow on the way; infinite where one argument is, even beside NaN.

    At most 0.51 ulp, in float64 1.2 ulp.
    """
    a, b = k.abs(x), k.abs(y)
    if k.elem == FLOAT:
        wide_a, wide_b = a.to(DOUBLE), b.to(DOUBLE)
        z = k.sqrt(wide_a * wide_a + wide_b * wide_b).to(FLOAT)
    else:
        large = (a > 2.0**500) | (b > 2.0**500)
        small = (a < 2.0**-450) & (b < 2.0**-450)
        down = k.select(large, k.f(2.0**-600), k.select(small, k.f(2.0**600), 1.0))
        up = k.select(large, k.f(2.0**600), k.select(small, k.f(2.0**-600), 1.0))
        a_scaled, b_scaled = a * down, b * down
        z = k.sqrt(k.fma(a_scaled, a_scaled, b_scaled * b_scaled)) * up
    return k.select(a.eq(math.inf) | b.eq(math.inf), math.inf, z)
