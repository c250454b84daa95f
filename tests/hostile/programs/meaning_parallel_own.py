"""Each iteration of a parallel loop, and each lane, has its own scalars."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def polynomial(A: T.Buffer((256, 9), "float32"), X: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
    for i in T.parallel(256):
        power = 1.0
        acc = 0.0
        for k in range(9):
            acc += A[i, k] * power
            power *= X[i]
        B[i] = acc


@T.prim_func
def lanes(X: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    for i in T.vectorized(64):
        v = X[i]
        bits = 0
        while v != 0:
            if v % 2 == 1:
                bits += 1
            v = v // 2
        if bits > 4:
            bits = -bits
        B[i] = bits


rng = np.random.default_rng(5)
a, x = rng.integers(-3, 4, (256, 9)).astype("float32"), rng.integers(-2, 3, 256).astype("float32")
b = np.zeros(256, "float32")
for _ in range(5):
    tl.build(polynomial)(a, x, b)
    np.testing.assert_array_equal(b, (a * x[:, None] ** np.arange(9)).sum(1))
v, c = rng.integers(0, 2**20, 64, dtype="int32"), np.zeros(64, "int32")
tl.build(lanes)(v, c)
ones = np.array([bin(n).count("1") for n in v])
np.testing.assert_array_equal(c, np.where(ones > 4, -ones, ones))
