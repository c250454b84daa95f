"""Right sides come before any target: of names, of elements, of both."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def swaps(A: T.Buffer((6,), "int32"), n: T.int32):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    A[0], A[1] = A[1], A[0]
    A[2], A[3], A[4] = A[4], A[2], A[3]
    a, A[5] = A[5], a
    A[0] += a


x = np.array([1, 2, 3, 4, 5, 1000], "int32")
tl.build(swaps)(x, 10)
assert x.tolist() == [1002, 1, 5, 3, 4, 55], x
