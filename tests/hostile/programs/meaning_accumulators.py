"""Sums, products and maxima in scalars, nested, beside each other and reset: each as Python computes it."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def table(A: T.Buffer((6, 7), "float32"), B: T.Buffer((6, 3), "float32"), C: T.Buffer((1,), "float32")):
    everything = 0.0
    for i in range(6):
        total = 0.0
        product = 1.0
        best = A[i, 0]
        for k in range(7):
            total += A[i, k]
            product *= A[i, k]
            if A[i, k] > best:
                best = A[i, k]
        B[i, 0] = total
        B[i, 1] = product
        B[i, 2] = best
        everything += total
    C[0] = everything


a = np.random.default_rng(1).integers(1, 4, (6, 7)).astype("float32")
b, c = np.zeros((6, 3), "float32"), np.zeros(1, "float32")
tl.build(table)(a, b, c)
np.testing.assert_array_equal(b, np.stack([a.sum(1), a.prod(1), a.max(1)], 1))
assert c[0] == a.sum()
