"""A vectorized loop of a negative extent runs no lane, and nothing in front of the array."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def fill(n: T.int32, m: T.int64, A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "int8")):
    for i in T.vectorized(n):
        if i < 64:
            A[i] = 7.0
    for j in T.vectorized(m - 3):
        if j < 64:
            B[j] = T.int8(5)


@T.prim_func
def shifted(n: T.int32, A: T.Buffer((64,), "float32")):
    for i in T.vectorized(8, n):
        if i < 64:
            A[i] = 7.0


kernel, other = tl.build(fill), tl.build(shifted)
for n in (-(2**31), -33, -17, -1, 0, 1, 15, 16, 17, 64):
    memory, bytes_ = np.arange(128, dtype="float32"), np.arange(128, dtype="int8")
    wanted, wanted_bytes = memory.copy(), bytes_.copy()
    wanted[64 : 64 + max(n, 0)] = 7
    wanted_bytes[64 : 64 + max(n - 3, 0)] = 5
    kernel(n, n, memory[64:], bytes_[64:])
    assert (memory == wanted).all() and (bytes_ == wanted_bytes).all(), n
    memory = np.arange(128, dtype="float32")
    wanted = memory.copy()
    wanted[64 + 8 : 64 + max(n, 8)] = 7
    other(n, memory[64:])
    assert (memory == wanted).all(), n
