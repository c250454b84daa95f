"""A scalar outside a parallel loop that all iterations assign: neither serial nor a reduction in silence."""

# expect: LegalityError

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def compact(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    at = 0
    for i in T.parallel(64):
        if A[i] > 0:
            B[at] = A[i]
            at += 1


tl.build(compact)
