"""A race in the iterations that do not end early."""

# expect: LegalityError
import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def f(A: T.Buffer((64,), "int32")):
    for i in T.parallel(63):
        if i % 2 == 0:
            T.continue_loop()
        A[i // 4] = i


tl.build(f)
