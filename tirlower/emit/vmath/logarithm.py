"""The logarithms: log, log2, log10, log1p.

``x = m * 2**e`` with ``m`` in [3/4, 3/2) and ``f = m - 1`` (exact); a polynomial gives ``log(1+f) - f``, and the parts are
added from the smallest to ``e*ln2``.
"""

from __future__ import annotations

import math
from typing import Final

from tirlower.emit.llvm_text import DOUBLE, FLOAT
from tirlower.emit.vmath import coefficients as C
from tirlower.emit.vmath.algebra import Formula, V
from tirlower.emit.vmath.exponential import LN2_HI, LN2_LO

__all__ = ["log", "log1p", "log2", "log10", "log_one_plus"]

# log2(e), log10(e): the nearest numbers and what they lack; log10(2): a short part, so that e times it is exact, and the rest
_LOG2E: Final = {
    FLOAT: (1.4426950216293335, 1.925963033500011e-08),
    DOUBLE: (1.4426950408889634, 2.0355273740931033e-17),
}
_LOG10E: Final = {
    FLOAT: (0.4342944920063019, -1.0103049952192578e-08),
    DOUBLE: (0.4342944819032518, 1.098319650216765e-17),
}
_LG2_HI: Final = {FLOAT: 0.30078125, DOUBLE: 0.301029995663157}
_LG2_LO: Final = {FLOAT: 0.0002487456639811952, DOUBLE: 8.241712586023572e-13}

_THREE_QUARTERS: Final = {FLOAT: 0x3F400000, DOUBLE: 0x3FE8000000000000}
_LEAST_NORMAL: Final = {FLOAT: 2.0**-126, DOUBLE: 2.0**-1022}
#: getmant: the interval [3/4, 3/2); the sign of zero dropped, NaN for negative numbers
_GETMANT: Final = 0b1111


def _split(k: Formula, x: V) -> tuple[V, V]:
    """``m - 1`` and ``e``; AVX-512's instructions also give the right infinities and NaN for every special ``x``."""
    m = k.full_width(x, "getmant", immediate=_GETMANT)
    if m is not None:
        e, below = k.full_width(x, "getexp"), k.full_width(m, "getexp")
        if e is not None and below is not None:
            return m - 1.0, e - below
    small = x < _LEAST_NORMAL[k.elem]
    start = _THREE_QUARTERS[k.elem]
    i = k.select(small, x * 2.0**k.mantissa, x).bits() - start
    m = ((i & ((1 << k.mantissa) - 1)) + start).as_float()
    return m - 1.0, k.exponent_to_float(i) - k.select(small, k.f(k.mantissa), 0.0)


def _special(k: Formula, x: V, y: V) -> V:
    """``y`` with the logarithms of 0, negative numbers, infinity and NaN put in."""
    if k.has_full_width(x.type.scalar):
        return y
    y = k.select(x < math.inf, y, x)
    return k.select(x <= 0.0, k.select(x.eq(0.0), k.f(-math.inf), math.nan), y)


def _tail(k: Formula, f: V) -> V:
    """``log(1+f) - f``: ``-f*f/2 + f**3 * q(f)`` in float32; fdlibm's shorter series in ``f/(2+f)`` in float64."""
    u = f * f
    if k.elem == FLOAT:
        return k.fma(u * f, k.horner(f, C.LOG_F32), u * -0.5)
    s = f / (f + 2.0)
    z = s * s
    half = u * 0.5
    return k.fma(s, k.fma(z, k.horner(z, C.LOG_F64), half), -half)


def _log(k: Formula, f: V, e: V, rest: V | None = None) -> V:
    tail = _tail(k, f)
    if rest is not None:
        tail = tail + rest
    return k.fma(e, LN2_HI[k.elem], k.fma(e, LN2_LO[k.elem], tail) + f)


def log(k: Formula, x: V) -> V:
    """The natural logarithm.

    At most 0.95 ulp, in float64 0.95 ulp.
    """
    f, e = _split(k, x)
    return _special(k, x, _log(k, f, e))


def log2(k: Formula, x: V) -> V:
    """The logarithm to base 2.

    At most 1.7 ulp, in float64 1.6 ulp.
    """
    f, e = _split(k, x)
    high, low = _LOG2E[k.elem]
    tail = k.fma(f, low, _tail(k, f) * high)
    # e = -1 takes off a bit of f*log2(e), so what product and sum round away is kept (an infinite e leaves nothing)
    product = f * high
    main = e + product
    lost = ((e - main) + product) + k.fused(f, high, -product)
    return _special(k, x, main + (k.select(k.abs(main) < math.inf, lost, 0.0) + tail))


def log10(k: Formula, x: V) -> V:
    """The logarithm to base 10.

    At most 1.6 ulp, in float64 1.45 ulp.
    """
    f, e = _split(k, x)
    high, low = _LOG10E[k.elem]
    tail = k.fma(f, low, k.fma(e, _LG2_LO[k.elem], _tail(k, f) * high))
    return _special(k, x, k.fma(e, _LG2_HI[k.elem], k.fused(f, high, tail)))


def log1p(k: Formula, x: V) -> V:
    """``log(1 + x)``, to full precision near 0: what ``1 + x`` rounds away is added to ``f``.

    At most 0.95 ulp, in float64 0.95 ulp.
    """
    u = x + 1.0
    b = u - 1.0
    lost = (1.0 - (u - b)) + (x - b)
    f, e = _split(k, u)
    # 2**-e, or 2**-100 where the lost part no longer counts
    power = k.select(e < 100.0, e, 100.0)
    back = ((k.round + k.bias - power).bits() << k.mantissa).as_float()
    y = _log(k, k.fma(lost, back, f), e)
    y = k.select(x < math.inf, y, x)
    y = k.select(x <= -1.0, k.select(x.eq(-1.0), k.f(-math.inf), math.nan), y)
    return k.select(k.abs(x) < k.epsilon, x, y)


def log_one_plus(k: Formula, high: V, low: V, more: V | None = None) -> V:
    """``log(1 + high + low) + more*ln2`` for ``high >= 0`` and a ``low`` that it does not show, at most 1 where ``high > 2**99``.

    What neither ``1 + high`` nor the mantissa shows is carried to the end: the error is that of :func:`log` and the sum's.
    """
    u = high + 1.0
    b = u - 1.0
    lost = ((1.0 - (u - b)) + (high - b)) + low
    f, e = _split(k, u)
    power = k.select(e < 100.0, e, 100.0)
    back = ((k.round + k.bias - power).bits() << k.mantissa).as_float()
    g = k.fma(lost, back, f)
    rest = k.fma(lost, back, f - g)
    return _log(k, g, e if more is None else e + more, k.fma(-rest, g, rest))
