"""The type of a scalar is that of what it is given, not of the literal that it begins with."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def sums(
    A: T.Buffer((300,), "uint8"),
    D: T.Buffer((300,), "float64"),
    W: T.Buffer((1,), "uint8"),
    F: T.Buffer((2,), "float64"),
    L: T.Buffer((1,), "int64"),
):
    narrow = 0
    wide: T.int64 = 0
    exact = 0
    single: T.float32 = 0
    for i in range(300):
        narrow += A[i]
        wide += A[i]
        exact += D[i]
        single += D[i]
    W[0] = narrow
    L[0] = wide
    F[0] = exact
    F[1] = single


rng = np.random.default_rng(6)
a, d = rng.integers(0, 256, 300, dtype="uint8"), rng.random(300)
w, f, long = np.zeros(1, "uint8"), np.zeros(2), np.zeros(1, "int64")
tl.build(sums)(a, d, w, f, long)
single = np.float32(0)
exact = 0.0
for value in d:
    single = np.float32(np.float64(single) + value)
    exact += value
assert w[0] == a.sum() % 256 and long[0] == a.sum()
assert f[0] == exact and f[1] == single
