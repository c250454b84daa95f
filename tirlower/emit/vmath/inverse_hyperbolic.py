"""asinh, acosh and atanh: the logarithm of ``1 + t`` for a ``t`` that is a sum of two numbers.

Where the argument is so large that only ``log(2x)`` is left, ``t`` is ``x - 1``.
"""

from __future__ import annotations

import math
from typing import Final

from tirlower.emit.llvm_text import DOUBLE, FLOAT
from tirlower.emit.vmath.algebra import Formula, V
from tirlower.emit.vmath.logarithm import log_one_plus

__all__ = ["acosh", "asinh", "atanh"]

#: from here on asinh(x) and acosh(x) round as log(2x)
_LARGE: Final = {FLOAT: 2.0**14, DOUBLE: 2.0**30}


def _root(k: Formula, t: V, term: V) -> tuple[V, V]:
    """``sqrt(t*t + term)`` as a sum of two numbers; the low one may be NaN at 0."""
    square, square_low = k.product(t, t)
    q = square + term
    b = q - square
    lost = ((square - (q - b)) + (term - b)) + square_low
    s = k.sqrt(q)
    back, back_low = k.product(s, s)
    return s, (((q - back) - back_low) + lost) * (0.5 / s)


def asinh(k: Formula, x: V) -> V:
    """The inverse hyperbolic sine, ``log(1 + (|x| + (sqrt(x*x + 1) - 1)))`` with the sign of ``x``.

    At most 1.05 ulp, in float64 1.05 ulp.
    """
    a = k.abs(x)
    large = a > _LARGE[k.elem]
    t = k.minimum(a, _LARGE[k.elem])
    s, s_low = _root(k, t, k.f(1.0))
    w = s - 1.0
    w_low = ((s - w) - 1.0) + s_low
    sum = t + w
    low = (w - (sum - t)) + w_low
    y = log_one_plus(k, k.select(large, a, sum), k.select(large, -1.0, low), k.select(large, k.f(1.0), 0.0))
    y = k.select(a < math.inf, y, a)
    return k.copysign(k.select(a < k.epsilon, a, y), x)


def acosh(k: Formula, x: V) -> V:
    """The inverse hyperbolic cosine, ``log(1 + (t + sqrt(t*t + 2*t)))`` with ``t = x - 1``; NaN below 1.

    At most 1.05 ulp, in float64 1.05 ulp.
    """
    large = x > _LARGE[k.elem]
    t = k.minimum(x, _LARGE[k.elem]) - 1.0
    s, s_low = _root(k, t, t + t)
    sum = s + t
    low = (t - (sum - s)) + k.select(t > 0.0, s_low, 0.0)
    y = log_one_plus(k, k.select(large, x, sum), k.select(large, -1.0, low), k.select(large, k.f(1.0), 0.0))
    y = k.select(x < math.inf, y, x)
    return k.select(x < 1.0, math.nan, y)


def atanh(k: Formula, x: V) -> V:
    """The inverse hyperbolic tangent, half of ``log(1 + 2|x|/(1-|x|))``; infinite at 1, NaN beyond.

    At most 1.05 ulp, in float64 1.05 ulp.
    """
    a = k.abs(x)
    d = 1.0 - a
    d_low = (1.0 - d) - a
    double = a + a
    inverse = 1.0 / d
    quotient = double * inverse
    back, back_low = k.product(quotient, d)
    low = (((double - back) - back_low) - quotient * d_low) * inverse
    y = log_one_plus(k, quotient, low) * 0.5
    y = k.select(a < 1.0, y, k.select(a.eq(1.0), k.f(math.inf), math.nan))
    return k.copysign(k.select(a < k.epsilon, a, y), x)
