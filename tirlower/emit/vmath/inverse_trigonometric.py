"""asin, acos, atan and atan2 in float32 (float64 goes to the C library)."""

from __future__ import annotations

import math
from typing import Final

from tirlower.emit.vmath import coefficients as C
from tirlower.emit.vmath.algebra import Kernel, V

__all__ = ["acos", "asin", "atan", "atan2"]

# pi/2 and pi: the nearest float32 and what they lack
_PIO2: Final = (1.5707963705062866, -4.371138828673793e-08)
_PI: Final = (3.1415927410125732, -8.742277657347586e-08)


def _asin_parts(k: Kernel, a: V) -> tuple[V, V, V]:
    """Whether ``a > 1/2``, and ``asin(s)`` as ``s + rest`` for ``s = a``, or where ``a > 1/2`` ``s = sqrt((1-a)/2)``."""
    large = a > 0.5
    z = k.select(large, k.fma(a, -0.5, 0.5), a * a)
    s = k.select(large, k.sqrt(z), a)
    return large, s, s * z * k.horner(z, C.ASIN_F32)


def asin(k: Kernel, x: V) -> V:
    """The arc sine in [-pi/2, pi/2]; beyond 1/2 by ``asin(a) = pi/2 - 2*asin(sqrt((1-a)/2))``.

    At most 1.25 ulp.
    """
    large, s, rest = _asin_parts(k, k.abs(x))
    # what the first difference rounds away is kept: for results below 1 it is worth a unit of the last place
    main = k.fma(s, -2.0, _PIO2[0])
    lost = k.fma(s, -2.0, _PIO2[0] - main)
    mirrored = main + (lost - k.fma(rest, 2.0, -_PIO2[1]))
    return k.copysign(k.select(large, mirrored, s + rest), x)


def acos(k: Kernel, x: V) -> V:
    """The arc cosine in [0, pi], by the same two cases as :func:`asin`.

    At most 1.25 ulp.
    """
    large, s, rest = _asin_parts(k, k.abs(x))
    negative = x < 0.0
    double = s + rest
    double = double + double
    below = k.fma(s, -2.0, _PI[0]) - k.fma(rest, 2.0, -_PI[1])
    s, rest = k.copysign(s, x), k.copysign(rest, x)
    middle = _PIO2[0] - (s + (rest - _PIO2[1]))
    return k.select(large, k.select(negative, below, double), middle)


def _atan_within(k: Kernel, r: V) -> tuple[V, V]:
    """``atan(r)`` for ``0 <= r <= 1`` as a sum."""
    u = r * r
    return r, u * r * k.horner(u, C.ATAN_F32)


def atan(k: Kernel, x: V) -> V:
    """The arc tangent in [-pi/2, pi/2].

    At most 1.25 ulp.
    """
    a = k.abs(x)
    large = a > 1.0
    r, rest = _atan_within(k, k.select(large, 1.0 / a, a))
    return k.copysign(k.select(large, _PIO2[0] - (r + (rest - _PIO2[1])), r + rest), x)


def atan2(k: Kernel, y: V, x: V) -> V:
    """The angle of the point ``(x, y)`` in [-pi, pi], with C's special cases.

    At most 1.7 ulp.
    """
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
    base = k.select(steep, k.f(_PIO2[0]), k.select(left, k.f(_PI[0]), 0.0))
    base_low = k.select(steep, k.f(_PIO2[1]), k.select(left, k.f(_PI[1]), 0.0))
    r, rest = k.select(flip, -r, r), k.select(flip, -rest, rest)
    angle = base + (r + (rest + base_low))
    return k.copysign(k.select(k.unordered(x, y), math.nan, angle), y)
