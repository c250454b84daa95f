"""fmod, exact."""

from __future__ import annotations

import math
from typing import Final

from tirlower.emit.llvm_text import DOUBLE, FLOAT
from tirlower.emit.vmath.algebra import Formula, V

__all__ = ["fmod"]

_LEAST_NORMAL: Final = {FLOAT: 2.0**-126, DOUBLE: 2.0**-1022}


def _field(k: Formula, x: V) -> V:
    """The exponent of ``x > 0`` as in its bits, below 1 for subnormal numbers."""
    small = x < _LEAST_NORMAL[k.elem]
    field = k.select(small, x * 2.0**k.mantissa, x).bits().shr(k.mantissa)
    return k.select(small, field - k.mantissa, field)


def fmod(k: Formula, x: V, y: V) -> V:
    """The remainder of the truncated quotient, with the sign of ``x``; NaN for an infinite ``x`` and for ``y = 0``.

    A round takes off as many bits of the quotient as a float holds: of ``r / (|y| * 2**n)`` the nearest integer, whose
    product an FMA subtracts exactly. Quotients below 2**52 (float32: 2**23) need one, any at most 42 (12).

    At most 0 ulp, in float64 0 ulp.
    """
    a, b = k.abs(x), k.abs(y)
    meaning = (a < math.inf) & (b > 0.0)
    first = k.select(meaning, a, 0.0)
    builder = k.b
    before, loop, end = builder.block, builder.function.block("loop"), builder.function.block("end")
    least = _field(k, b)
    builder.cond_br(k.any(first >= b), loop, end)

    builder.position_at_end(loop)
    phi = builder.phi(first.type, "rest", [(first.value, before)])
    r = V(k, phi)
    n = _field(k, r) - least - (k.mantissa - 1)
    n = k.select(n > 0, n, 0)
    half = n.sar(1)
    d = b * k.pow2(half) * k.pow2(n - half)
    unit = 2.0**k.mantissa
    q = (r / d + unit) - unit
    less = k.fused(-q, d, r)
    less = k.select(less < 0.0, less + d, less)
    less = k.select(r < b, r, less)
    after = builder.block
    phi.add(less.value, after)
    builder.cond_br(k.any(less >= b), loop, end)

    builder.position_at_end(end)
    found = V(k, builder.phi(first.type, "found", [(first.value, before), (less.value, after)]))
    return k.copysign(k.select(meaning, found, math.nan), x)
