"""asin, acos, atan and atan2.

atan takes ``1/x`` beyond 1 in float32. In float64, where that would need 22 coefficients, the angle of a point of the
first quadrant is that of one of five rays and a rest of at most 7/16 (the intervals are fdlibm's), all with one division.
"""

from __future__ import annotations

import math
from typing import Final

from tirlower.emit.llvm_text import DOUBLE, FLOAT
from tirlower.emit.vmath import coefficients as C
from tirlower.emit.vmath.algebra import Formula, V

__all__ = ["acos", "asin", "atan", "atan2"]

# pi/2 and pi: the nearest numbers and what they lack
_PIO2: Final = {
    FLOAT: (1.5707963705062866, -4.371138828673793e-08),
    DOUBLE: (1.5707963267948966, 6.123233995736766e-17),
}
_PI: Final = {
    FLOAT: (3.1415927410125732, -8.742277657347586e-08),
    DOUBLE: (3.141592653589793, 1.2246467991473532e-16),
}
_ASIN: Final = {FLOAT: C.ASIN_F32, DOUBLE: C.ASIN_F64}
#: from which ratio on a ray is taken, its slope, and its angle in two numbers; then the vertical one
_RAYS: Final = (
    (7 / 16, 0.5, 0.4636476090008061, 2.2698777452961687e-17),
    (11 / 16, 1.0, 0.7853981633974483, 3.061616997868383e-17),
    (19 / 16, 1.5, 0.982793723247329, 1.3903311031230998e-17),
)
_STEEP: Final = 39 / 16


def _asin_parts(k: Formula, a: V) -> tuple[V, V, V]:
    """Whether ``a > 1/2``, and ``asin(s)`` as ``s + rest`` for ``s = a``, or where ``a > 1/2`` ``s = sqrt((1-a)/2)``."""
    large = a > 0.5
    z = k.select(large, k.fma(a, -0.5, 0.5), a * a)
    s = k.select(large, k.sqrt(z), a)
    return large, s, s * z * k.horner(z, _ASIN[k.elem])


def asin(k: Formula, x: V) -> V:
    """The arc sine in [-pi/2, pi/2]; beyond 1/2 by ``asin(a) = pi/2 - 2*asin(sqrt((1-a)/2))``.

    At most 1.25 ulp, in float64 1.15 ulp.
    """
    large, s, rest = _asin_parts(k, k.abs(x))
    high, low = _PIO2[k.elem]
    # what the first difference rounds away is kept: for results below 1 it is worth a unit of the last place
    main = k.fma(s, -2.0, high)
    lost = k.fma(s, -2.0, high - main)
    mirrored = main + (lost - k.fma(rest, 2.0, -low))
    return k.copysign(k.select(large, mirrored, s + rest), x)


def acos(k: Formula, x: V) -> V:
    """The arc cosine in [0, pi], by the same two cases as :func:`asin`.

    At most 1.25 ulp, in float64 1.2 ulp.
    """
    large, s, rest = _asin_parts(k, k.abs(x))
    (half, half_low), (high, low) = _PIO2[k.elem], _PI[k.elem]
    negative = x < 0.0
    double = s + rest
    double = double + double
    below = k.fma(s, -2.0, high) - k.fma(rest, 2.0, -low)
    s, rest = k.copysign(s, x), k.copysign(rest, x)
    middle = half - (s + (rest - half_low))
    return k.select(large, k.select(negative, below, double), middle)


def _atan_within(k: Formula, r: V) -> tuple[V, V]:
    """``atan(r)`` for ``0 <= r <= 1`` as a sum."""
    u = r * r
    return r, u * r * k.horner(u, C.ATAN_F32)


def _angle_of_ray(k: Formula, y: V, x: V) -> tuple[V, V, V, V]:
    """The angle of ``(x, y)`` in the first quadrant, in float64, as ``ray + (r + (rest + ray_low))``.

    ``y`` may be infinite; neither may be both or none of 0, nor so large or small that ``y + 2*x`` or ``x/2`` are inexact.
    """
    slope, ray, low = k.f(0.0), k.f(0.0), k.f(0.0)
    for bound, found, angle, angle_low in _RAYS:
        above = y > x * bound
        slope, ray, low = k.select(above, found, slope), k.select(above, angle, ray), k.select(above, angle_low, low)
    steep = y > x * _STEEP
    high, high_low = _PIO2[DOUBLE]
    ray, low = k.select(steep, high, ray), k.select(steep, high_low, low)
    r = k.select(steep, -x, k.fma(-slope, x, y)) / k.select(steep, y, k.fma(slope, y, x))
    u = r * r
    return ray, low, r, u * r * k.horner(u, C.ATAN_F64)


def atan(k: Formula, x: V) -> V:
    """The arc tangent in [-pi/2, pi/2].

    At most 1.3 ulp, in float64 0.9 ulp.
    """
    a = k.abs(x)
    if k.elem == DOUBLE:
        ray, low, r, rest = _angle_of_ray(k, a, k.f(1.0))
        return k.copysign(ray + (r + (rest + low)), x)
    high, low32 = _PIO2[FLOAT]
    large = a > 1.0
    r, rest = _atan_within(k, k.select(large, 1.0 / a, a))
    return k.copysign(k.select(large, high - (r + (rest - low32)), r + rest), x)


def atan2(k: Formula, y: V, x: V) -> V:
    """The angle of the point ``(x, y)`` in [-pi, pi], with C's special cases.

    At most 1.7 ulp, in float64 1.55 ulp.
    """
    angle = _atan2_f64(k, y, x) if k.elem == DOUBLE else _atan2_f32(k, y, x)
    return k.copysign(k.select(k.unordered(x, y), math.nan, angle), y)


def _atan2_f32(k: Formula, y: V, x: V) -> V:
    a, b = k.abs(x), k.abs(y)
    steep = b > a
    low, high = k.select(steep, a, b), k.select(steep, b, a)
    ratio = low / high
    # 0/0 and inf/inf: the angle of an axis or a diagonal
    ratio = k.select(high.eq(0.0), 0.0, k.select(low.eq(math.inf), 1.0, ratio))
    r, rest = _atan_within(k, ratio)
    left = x.bits() < 0
    # angle = base + sign * atan(ratio)
    flip = left ^ steep
    base = k.select(steep, k.f(_PIO2[FLOAT][0]), k.select(left, k.f(_PI[FLOAT][0]), 0.0))
    base_low = k.select(steep, k.f(_PIO2[FLOAT][1]), k.select(left, k.f(_PI[FLOAT][1]), 0.0))
    r, rest = k.select(flip, -r, r), k.select(flip, -rest, rest)
    return base + (r + (rest + base_low))


def _atan2_f64(k: Formula, y: V, x: V) -> V:
    a, b = k.abs(x), k.abs(y)
    most = k.select(b > a, b, a)

    def repair() -> list[V]:
        """Both scaled alike; infinities are 1 beside 0, and two zeros lie on the axis."""
        infinite = most.eq(math.inf)
        factor = k.select(most > 1.0, k.f(2.0**-100), 2.0**200)
        whole = [k.select(infinite, k.select(v.eq(math.inf), k.f(1.0), 0.0), v * factor) for v in (b, a)]
        return [whole[0], k.select(most.eq(0.0), 1.0, whole[1])]

    usual = (most > 2.0**-800) & (most < 2.0**1000)
    b, a = k.rarely(~usual, [b, a], repair)
    ray, ray_low, r, rest = _angle_of_ray(k, b, a)
    # pi - angle, where x is negative: what the difference of pi and the ray rounds away is kept
    left = x.bits() < 0
    high, low = _PI[DOUBLE]
    mirrored = high - ray
    mirrored_low = ((high - mirrored) - ray) + (low - ray_low)
    ray, ray_low = k.select(left, mirrored, ray), k.select(left, mirrored_low, ray_low)
    r, rest = k.select(left, -r, r), k.select(left, -rest, rest)
    return ray + (r + (rest + ray_low))
