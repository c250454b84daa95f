"""Strided views of one memory: interleaved ones share nothing, crossing ones do, whichever way they go."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def f(A: T.Buffer(("n",), "int32", strides=("s",)), B: T.Buffer(("n",), "int32", strides=("t",))):
    for i in T.parallel(n):
        B[i] = A[i] * 5 + i


VIEWS = [
    (slice(0, 40, 2), slice(1, 41, 2)),
    (slice(0, 40, 2), slice(2, 42, 2)),
    (slice(0, 60, 3), slice(1, 41, 2)),
    (slice(0, 20, 1), slice(19, None, -1)),
    (slice(39, None, -2), slice(0, 40, 2)),
    (slice(5, 25), slice(5, 25)),
    (slice(5, 25), slice(4, 44, 2)),
]
kernel = tl.build(f)
for a, b in VIEWS:
    for _ in range(10):
        memory = np.arange(3, 83, dtype="int32")
        right = memory.copy()
        for i in range(20):
            right[b][i] = right[a][i] * 5 + i
        kernel(memory[a][:20], memory[b][:20])
        assert np.array_equal(memory, right), (a, b)
