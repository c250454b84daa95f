"""A reduction with partial results whose accumulator is one of the elements that it sums."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def total(A: T.Buffer((1000,), "int32"), S: T.Buffer((1,), "int32")):
    for i in T.parallel(1000, annotations={"tir.reduction": True}):
        S[0] = S[0] + A[i]


@T.prim_func
def lanes(A: T.Buffer((64,), "int32"), S: T.Buffer((1,), "int32")):
    for i in T.vectorized(64, annotations={"tir.reduction": True}):
        S[0] = S[0] + A[i]


for func, n in ((total, 1000), (lanes, 64)):
    kernel = tl.build(func)
    for at in (0, 1, n // 2, n - 1):
        for _ in range(20):
            memory = np.arange(1, n + 1, dtype="int32")
            right = memory.astype("int64").copy()
            for i in range(n):
                right[at] += right[i]
            kernel(memory, memory[at : at + 1])
            assert memory[at] == np.int32(right[at] & 0xFFFFFFFF if right[at] < 2**31 else right[at]), (func.name, at)
    apart = np.zeros(1, "int32")
    kernel(np.arange(n, dtype="int32"), apart)
    assert apart[0] == n * (n - 1) // 2
