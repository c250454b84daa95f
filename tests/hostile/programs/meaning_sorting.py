"""An insertion sort with a moving position, and a bubble sort by swaps of neighbours."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def insertion(A: T.Buffer((12,), "int32")):
    for i in range(1, 12):
        value = A[i]
        j = i - 1
        while j >= 0:
            if A[j] <= value:
                break
            A[j + 1] = A[j]
            j -= 1
        A[j + 1] = value


@T.prim_func
def bubble(A: T.Buffer((12,), "int32")):
    moved = True
    while moved:
        moved = False
        for k in range(11):
            if A[k] > A[k + 1]:
                A[k], A[k + 1] = A[k + 1], A[k]
                moved = True


a = np.random.default_rng(3).permutation(12).astype("int32") - 4
for func in (insertion, bubble):
    x = a.copy()
    tl.build(func)(x)
    np.testing.assert_array_equal(x, np.sort(a))
