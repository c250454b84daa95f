"""A sum over a parallel and a vectorized loop without the annotation that allows it."""

# expect: LegalityError

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def total(A: T.Buffer((64,), "float32"), B: T.Buffer((1,), "float32")):
    s = 0.0
    for i in T.vectorized(64):
        s += A[i]
    B[0] = s


tl.build(total)
