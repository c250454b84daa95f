"""A sum that reads the accumulator of another, in one loop that keeps partial results."""

# expect: LegalityError
import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def f(A: T.Buffer((4096,), "int32"), X: T.Buffer((4096,), "int32"), C: T.Buffer((1,), "int32")):
    for k in T.parallel(4096, annotations={"tir.reduction": True}):
        X[k] += A[k]
        C[0] += X[4095 - k]


tl.build(f)
