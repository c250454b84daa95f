"""Two arrays are swapped through a third; one of them, or all, may be the same."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def swap(A: T.Buffer((50,), "int32"), B: T.Buffer((50,), "int32"), X: T.Buffer((50,), "int32")):
    for i in T.parallel(50):
        X[i] = A[i]
        A[i] = B[i]
        B[i] = X[i]


kernel = tl.build(swap)
for names in ("abx", "aax", "aba", "abb", "aaa"):
    arrays = {"a": np.arange(50, dtype="int32"), "b": np.arange(50, dtype="int32") * 7 + 1, "x": np.zeros(50, "int32")}
    right = {name: array.copy() for name, array in arrays.items()}
    kernel(*(arrays[name] for name in names))
    one, two, spare = (right[name] for name in names)
    for i in range(50):
        spare[i] = one[i]
        one[i] = two[i]
        two[i] = spare[i]
    assert all(np.array_equal(arrays[name], right[name]) for name in arrays), names
