"""The error function."""

from __future__ import annotations

from typing import Final

from tirlower.emit.llvm_text import DOUBLE, FLOAT
from tirlower.emit.vmath import coefficients as C
from tirlower.emit.vmath.algebra import Formula, V
from tirlower.emit.vmath.exponential import exp2_near

__all__ = ["erf"]

_NEAR: Final = {FLOAT: C.ERF_F32, DOUBLE: C.ERF_F64}
_FAR: Final = {FLOAT: C.ERFC_F32, DOUBLE: C.ERFC_F64}
# from here on erf rounds to 1
_LIMIT: Final = {FLOAT: 4.0, DOUBLE: 6.0}


def erf(k: Formula, x: V) -> V:
    """The error function: an odd polynomial below 1, and ``1 - 2**q(|x|)`` from there to where it rounds to 1.

    At most 1.25 ulp, in float64 1.5 ulp.
    """
    a = k.minimum(k.abs(x), _LIMIT[k.elem])
    if k.elem == FLOAT and not k.fma_ok:  # terms that cancel: rounded twice each they would make results fall
        wide = x.to(DOUBLE)
        near = (wide * k.horner(wide * wide, _NEAR[FLOAT]) + wide).to(FLOAT)
        q = k.horner(a.to(DOUBLE), _FAR[FLOAT]).to(FLOAT)
    else:
        near = k.fma(x, k.horner(x * x, _NEAR[k.elem]), x)
        q = k.horner(a, _FAR[k.elem])
    far = k.copysign(1.0 - exp2_near(k, q), x)
    return k.select(a < 1.0, near, far)
