"""sin, cos and tan.

The argument is reduced by Cody and Waite's method with pi/2 in three parts, of which an FMA makes the first subtraction
exact (without one: float32 goes through float64, float64 has exact products). Arguments beyond :data:`_LIMIT` take a branch that is skipped when no
lane needs it: :mod:`tirlower.emit.vmath.payne_hanek`.
"""

from __future__ import annotations

import math
from typing import Final

from tirlower.emit.llvm_text import DOUBLE, FLOAT, I32
from tirlower.emit.vmath import coefficients as C
from tirlower.emit.vmath.algebra import Formula, V
from tirlower.emit.vmath.payne_hanek import angle, turns

__all__ = ["cos", "sin", "tan"]

_ROUND64: Final = 1.5 * 2.0**52
_LIMIT: Final = {FLOAT: 2.0**17, DOUBLE: 2.0**30}

# pi/2 in three numbers, and in two of float64 whose first has 30 bits
_PIO2: Final = {
    FLOAT: (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    DOUBLE: (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
}
_PIO2_64: Final = (1.570796325802803, 9.920935796805404e-10)

_SIN: Final = {FLOAT: C.SIN_F32, DOUBLE: C.SIN_F64}
_COS: Final = {FLOAT: C.COS_F32, DOUBLE: C.COS_F64}
_TAN: Final = {FLOAT: C.TAN_F32, DOUBLE: C.TAN_F64}


def _reduce_near(k: Formula, a: V, low: bool) -> list[V]:
    """``a = n*pi/2 + r`` with ``|r| <= pi/4``, for ``0 <= a <= _LIMIT``: ``r`` and ``n`` (in the low bits of integers).

    With ``low`` also what ``r`` lacks by its rounding.
    """
    if k.elem == FLOAT and not k.fma_ok:
        wide = a.to(DOUBLE)
        t = wide * (2.0 / math.pi) + _ROUND64
        n = t - _ROUND64
        high, rest = _narrow(wide - n * _PIO2_64[0] - n * _PIO2_64[1])
        return [high, t.bits().to(I32), rest][: 3 if low else 2]
    p0, p1, p2 = _PIO2[k.elem]
    t = k.fma(a, 2.0 / math.pi, k.round)
    n = t - k.round
    # The first difference is exact: below 1, and a multiple of a unit of numbers around 1/2.
    if not k.fma_ok:
        product, product_low = k.product(n, k.f(p0))
        first = (a - product) - product_low
    else:
        first = k.fused(n, -p0, a)
        if not low:
            return [k.fma(n, -p2, k.fused(n, -p1, first)), t.bits()]
    product, product_low = k.product(n, k.f(-p1))
    second = first + product
    back = second - first
    lost = (first - (second - back)) + (product - back)
    rest = k.fma(n, -p2, product_low + lost)
    r = second + rest
    return [r, t.bits(), (second - r) + rest][: 3 if low else 2]


def _reduce_far(k: Formula, a: V, low: bool) -> list[V]:
    """The same for ``a`` beyond the limit; ``r`` is NaN for infinity."""
    if k.elem == DOUBLE:
        main, rest64, quarters = angle(k, a)
        return [main + (a - a), quarters, rest64][: 3 if low else 2]
    turn = turns(k, a)
    n = (turn + (1 << 61)).shr(62)
    rest = (turn - (n << 62)).to_float() * (2.0 * math.pi / 2.0**64)
    r, tail = _narrow(rest)
    return [r + (a - a), n.to(I32), tail][: 3 if low else 2]


def _narrow(x: V) -> tuple[V, V]:
    """A float64 as the sum of two float32."""
    high = x.to(FLOAT)
    return high, (x - high.to(DOUBLE)).to(FLOAT)


def _reduce(k: Formula, a: V, low: bool) -> list[V]:
    near = _reduce_near(k, a, low)
    if k.fast:
        return near
    return k.rarely(a > _LIMIT[k.elem], near, lambda: _reduce_far(k, a, low))


def _sine(k: Formula, a: V, quadrant: int) -> V:
    """``sin(a + quadrant*pi/2)`` for ``a >= 0``."""
    r, n = _reduce(k, a, low=False)
    if quadrant:
        n = n + quadrant
    u = r * r
    sine = k.fma(u * r, k.horner(u, _SIN[k.elem]), r)
    cosine = k.fma(u * u, k.horner(u, _COS[k.elem]), k.fma(u, -0.5, 1.0))
    y = k.select((n & 1).ne(0), cosine, sine)
    return (y.bits() ^ ((n & 2) << (k.sign_bit - 1))).as_float()


def sin(k: Formula, x: V) -> V:
    """The sine of an angle in radians, of any size.

    At most 1.65 ulp, in float64 1.65 ulp.
    """
    y = _sine(k, k.abs(x), 0)
    return (y.bits() ^ (x.bits() & (-1 << k.sign_bit))).as_float()


def cos(k: Formula, x: V) -> V:
    """The cosine of an angle in radians, of any size.

    At most 1.65 ulp, in float64 1.65 ulp.
    """
    return _sine(k, k.abs(x), 1)


def tan(k: Formula, x: V) -> V:
    """The tangent of an angle in radians, of any size: ``tan(r)`` or ``-1/tan(r)`` by the quadrant.

    At most 1.7 ulp, in float64 1.3 ulp.
    """
    r, n, low = _reduce(k, k.abs(x), low=True)
    u = r * r
    rest = k.fma(u * r, k.horner(u, _TAN[k.elem]), low * (u + 1.0))
    y = r + rest
    lost = (r - y) + rest
    odd = (n & 1).ne(0)
    q = k.divide(k.select(odd, k.f(-1.0), y), k.select(odd, y, 1.0))
    q = k.select(odd, k.fma(q * q, lost, q), q)
    return (q.bits() ^ (x.bits() & (-1 << k.sign_bit))).as_float()
