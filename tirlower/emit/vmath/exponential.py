"""exp and its kin: exp, exp2, exp10, expm1, sigmoid, tanh, sinh, cosh.

All rest on Cody and Waite's reduction ``x = n*ln2 + r`` with ``|r| <= ln2/2`` (Software Manual for the Elementary
Functions, 1980) and a minimax polynomial in ``r``. ``n`` is found by adding ``k.round``, whose unit is 1: the sum's low
bits are ``n`` in two's complement.
"""

from __future__ import annotations

import math
from typing import Final

from tirlower.emit.llvm_text import DOUBLE, FLOAT
from tirlower.emit.vmath import coefficients as C
from tirlower.emit.vmath.algebra import Formula, V

__all__ = [
    "LN2_HI",
    "LN2_LO",
    "cosh",
    "exp",
    "exp2",
    "exp2_near",
    "exp2_of_sum",
    "exp10",
    "expm1",
    "integer_of",
    "sigmoid",
    "sinh",
    "tanh",
]

_LOG2E: Final = math.log2(math.e)
# ln2 in two positive parts; the first is so short that its product with an exponent is exact without FMA too
LN2_HI: Final = {FLOAT: 0.693145751953125, DOUBLE: 0.6931471805592082}
LN2_LO: Final = {FLOAT: 1.4286068203094173e-06, DOUBLE: 7.371002565167799e-13}
# the nearest number to ln2 and what it lacks; a product with it is exact inside an FMA only
_LN2: Final = {FLOAT: 0.6931471824645996, DOUBLE: 0.6931471805599453}
_LN2_TAIL: Final = {FLOAT: -1.904654299957768e-09, DOUBLE: 2.3190468138462996e-17}
_LOG2_10: Final = math.log2(10.0)
_LG2_HI: Final = {FLOAT: 0.30078125, DOUBLE: 0.301029995663157}
_LG2_LO: Final = {FLOAT: 0.0002487456639811952, DOUBLE: 8.241712586023572e-13}

_EXP: Final = {FLOAT: C.EXP_F32, DOUBLE: C.EXP_F64}
_EXP2: Final = {FLOAT: C.EXP2_F32, DOUBLE: C.EXP2_F64}
_EXP10: Final = {FLOAT: C.EXP10_F32, DOUBLE: C.EXP10_F64}
_EXPM1: Final = {FLOAT: C.EXPM1_F32, DOUBLE: C.EXPM1_F64}

# where results are 0 below and infinite above
_EXP_RANGE: Final = {FLOAT: (-105.0, 90.0), DOUBLE: (-750.0, 711.0)}
_EXP2_RANGE: Final = {FLOAT: (-151.0, 129.0), DOUBLE: (-1077.0, 1025.0)}
_EXP10_RANGE: Final = {FLOAT: (-46.0, 39.0), DOUBLE: (-325.0, 309.0)}
_EXPM1_RANGE: Final = {FLOAT: (-18.0, 89.0), DOUBLE: (-38.0, 710.0)}
_COSH_LIMIT: Final = {FLOAT: 89.5, DOUBLE: 710.48}
# from here on tanh rounds to 1
_TANH_LIMIT: Final = {FLOAT: 10.0, DOUBLE: 20.0}
# in float32: up to here the polynomial, which rises faster than it rounds
_TANH_FAR: Final = 0.55


def integer_of(k: Formula, rounded: V) -> V:
    """The integer in the low bits of ``x + k.round``."""
    return rounded.bits() - k.round_bits


def _scaled(k: Formula, e: V, rounded: V, n: V, gone: V | None) -> V:
    """``e * 2**n``, 0 where that is too small for its type (``gone``).

    0 times a power is exact. The product would be a subnormal number that is rounded to 0, which takes a processor a hundred cycles;
    and the logits that a mask leaves out are -1e9, or infinite.
    """
    held = e if gone is None or not k.slow_subnormals else k.select(gone, 0.0, e)
    return k.scale(held, integer_of(k, rounded), n)


def _exp_within(k: Formula, x: V, gone: V) -> V:
    """``e**x`` for ``x`` that neither the product with log2(e) nor the exponent arithmetic overflows; 0 where it is ``gone``."""
    t = k.fma(x, _LOG2E, k.round)
    n = t - k.round
    r = k.fma(n, -LN2_LO[k.elem], k.fma(n, -LN2_HI[k.elem], x))
    e = k.fma(r * r, k.horner(r, _EXP[k.elem]), r) + 1.0
    return _scaled(k, e, t, n, gone)


def exp(k: Formula, x: V) -> V:
    """``e**x``.

    At most 1.02 ulp, in float64 1.05 ulp.
    """
    low, high = _EXP_RANGE[k.elem]
    return _exp_within(k, k.clamp(x, low, high), x < low)


def exp2(k: Formula, x: V) -> V:
    """``2**x``.

    At most 1.1 ulp, in float64 1.1 ulp.
    """
    low, high = _EXP2_RANGE[k.elem]
    return exp2_of_sum(k, k.clamp(x, low, high), gone=x < low)


def exp2_of_sum(k: Formula, p: V, rest: V | None = None, gone: V | None = None) -> V:
    """``2**(p + rest)`` for ``p`` within a little more than the range of exponents, and a small rest; 0 where it is ``gone``."""
    t = p + k.round
    n = t - k.round
    r = p - n
    if rest is not None:
        r = r + rest
    return _scaled(k, k.fma(r, k.horner(r, _EXP2[k.elem]), 1.0), t, n, gone)


def exp2_near(k: Formula, x: V) -> V:
    """``2**x`` where that is a normal number, or NaN."""
    t = x + (k.round + k.bias)
    r = x - (t - (k.round + k.bias))
    return k.fma(r, k.horner(r, _EXP2[k.elem]), 1.0) * (t.bits() << k.mantissa).as_float()


def exp10(k: Formula, x: V) -> V:
    """``10**x``.

    At most 1.2 ulp, in float64 1.2 ulp.
    """
    low, high = _EXP10_RANGE[k.elem]
    gone, x = x < low, k.clamp(x, low, high)
    t = k.fma(x, _LOG2_10, k.round)
    n = t - k.round
    r = k.fma(n, -_LG2_LO[k.elem], k.fma(n, -_LG2_HI[k.elem], x))
    first, *more = _EXP10[k.elem]
    if k.fma_ok:
        y = k.fma(r, k.horner(r, (first, *more)), 1.0)
    else:  # 2*r is exact: what the rest rounds away counts for little
        y = (r * k.horner(r, (first - 2.0, *more)) + (r + r)) + 1.0
    return _scaled(k, y, t, n, gone)


def _scaled_expm1(k: Formula, x: V, shift: int, negative: bool = False) -> V:
    """``(e**x - 1) / 2**shift`` for ``x`` from -80 to where that overflows with ``shift`` 2; ``negative`` if ``x`` may be so.

    ``e**x - 1 = 2**n * (e**r - 1) + (2**n - 1)``. The reduced ``r`` and ``2**n * r + (2**n - 1)`` are exact where they
    matter for positive ``x``, so that only adding the rest of the polynomial rounds. For negative ``x``, where the result
    hardly rises in the end, nothing rounds but the last addition, so that it never falls.
    """
    t = k.fma(x, _LOG2E, k.round)
    n = t - k.round
    tail = -_LN2_TAIL[k.elem]
    first = k.fused(n, -_LN2[k.elem], x)
    r = k.fma(n, tail, first)
    rest = k.fma(n, tail, r * r * k.horner(r, _EXPM1[k.elem]))
    w = k.pow2(integer_of(k, t) - shift)
    base = w - 2.0**-shift
    y = k.fma(w, rest, k.fma(w, first, base))
    return k.select(x < 0.0, k.fma(w, first + rest, base), y) if negative else y


def _over_one_plus(k: Formula, a: V, z: V) -> V:
    """``a / (1 + z)`` for ``z >= 0`` and ``a`` equal to ``z`` or 1, as if ``1 + z`` had not been rounded."""
    y = k.reciprocal(z + 1.0)
    q = a * y
    return k.fma(k.fused(-q, z, a - q), y, q)


def expm1(k: Formula, x: V) -> V:
    """``e**x - 1``, to full precision near 0.

    At most 1.25 ulp, in float64 1.25 ulp.
    """
    y = _scaled_expm1(k, k.clamp(x, *_EXPM1_RANGE[k.elem]), 1, negative=True)
    # Halving loses a bit of a subnormal number, and the sum above the sign of -0.
    return k.select(k.abs(x) < k.epsilon, x, y + y)


def tanh(k: Formula, x: V) -> V:
    """The hyperbolic tangent.

    At most 1.75 ulp, in float64 1.75 ulp.
    """
    a = k.minimum(k.abs(x), _TANH_LIMIT[k.elem])
    t = k.fma(a, 2.0 * _LOG2E, k.round + k.bias)
    n = t - (k.round + k.bias)
    w = (t.bits() << k.mantissa).as_float()
    return k.copysign(_rising_tanh(k, a, n, w) if k.elem == FLOAT else _tanh_f64(k, a, n, w), x)


def _rising_tanh(k: Formula, a: V, n: V, w: V) -> V:
    """``tanh(a)`` for ``a >= 0``, without falls: an odd polynomial, and further on ``1 - 2 / (e**(2a) + 1)``, whose steps rise."""
    u = a * a
    near = k.fma(a * u, k.horner(u, C.TANH_F32), a)
    r = k.fma(n, -LN2_LO[FLOAT], k.fma(n, -LN2_HI[FLOAT], a + a))
    s = k.fma(r * r, k.horner(r, C.EXP_F32), r)
    far = 1.0 - k.divide(k.f(2.0), k.fma(w, s, w + 1.0))
    return k.select(a > _TANH_FAR, far, near)


def _tanh_f64(k: Formula, a: V, n: V, w: V) -> V:
    """``u / (u + 1)`` with ``u = (e**(2a) - 1) / 2``."""
    # As in _scaled_expm1, in h = r/2; what ln2 lacks does not count, since large u matter less and less.
    h = k.fused(n, -0.5 * _LN2[DOUBLE], a)
    rest = h * h * k.horner(h, C.TANH_F64)
    u = k.fma(w, rest, k.fma(w, h, k.fma(w, 0.5, -0.5)))
    return _over_one_plus(k, u, u)


def sigmoid(k: Formula, x: V) -> V:
    """``1 / (1 + e**-x)``; as ``e**x / (1 + e**x)`` for negative ``x``, where the result may be subnormal.

    At most 1.55 ulp, in float64 1.5 ulp. For positive ``x`` no ``z`` below ``e**-64`` matters, and none is subnormal.
    """
    low, _ = _EXP_RANGE[k.elem]
    z = _exp_within(k, k.maximum(-k.abs(x), low), (x > 64.0) | (x < low))
    return _over_one_plus(k, k.select(x >= 0.0, 1.0, z), z)


def sinh(k: Formula, x: V) -> V:
    """The hyperbolic sine: ``(E + E / (E + 1)) / 2`` with ``E = e**|x| - 1``, a sum without cancellation.

    At most 2 ulp, in float64 1.9 ulp.
    """
    a = k.abs(x)
    u = _scaled_expm1(k, k.minimum(a, _COSH_LIMIT[k.elem]), 2)
    y = u + _over_one_plus(k, u, k.minimum(u * 4.0, 2.0**100))
    return k.copysign(k.select(a < k.epsilon, a, y + y), x)


def cosh(k: Formula, x: V) -> V:
    """The hyperbolic cosine: ``2c + 1/(8c)`` with ``c = e**|x| / 4``.

    At most 1.65 ulp, in float64 1.7 ulp.
    """
    c = _scaled_expm1(k, k.minimum(k.abs(x), _COSH_LIMIT[k.elem]), 2) + 0.25
    y = c + 0.0625 / k.minimum(c, 2.0**100)
    return y + y
