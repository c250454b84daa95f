"""Lanes whose condition and loop bounds are in memory that the lanes store to."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def f(A: T.Buffer(("n",), "int32"), B: T.Buffer(("n",), "int32")):
    for i in T.vectorized(n):
        if A[i] % 2 == 0:
            B[i] = i - A[i]
            B[i] = A[i] + 1
        else:
            B[i] = A[(i + 1) % n]
        for k in range(A[i] % 3):
            B[i] = B[i] + A[(i + k) % n]


def lanes(a: np.ndarray, b: np.ndarray) -> None:
    n = len(a)
    yes = [i for i in range(n) if a[i] % 2 == 0]
    no = [i for i in range(n) if i not in yes]
    for i, value in [(i, i - a[i]) for i in yes]:
        b[i] = value
    for i, value in [(i, a[i] + 1) for i in yes]:
        b[i] = value
    for i, value in [(i, a[(i + 1) % n]) for i in no]:
        b[i] = value
    bounds = [int(a[i] % 3) for i in range(n)]
    for k in range(3):
        for i, value in [(i, b[i] + a[(i + k) % n]) for i in range(n) if k < bounds[i]]:
            b[i] = value


kernel = tl.build(f)
rng = np.random.default_rng(4)
for n in (5, 16, 37):
    for shift in (0, 1, -1, 3, 40):
        memory = rng.integers(0, 50, 2 * n + 90).astype("int32")
        right = memory.copy()
        lanes(right[4 : 4 + n], right[4 + shift : 4 + shift + n])
        kernel(memory[4 : 4 + n], memory[4 + shift : 4 + shift + n])
        assert np.array_equal(memory, right), (n, shift)
