"""A loop that starts near the greatest int32 would count past it, and the condition on its variable would fail to hold."""

# expect: IndexError
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def window(x: T.int32, A: T.Buffer((64,), "int32"), O: T.Buffer((10,), "int32")):
    if x >= 0:
        for i in range(x, x + 10):
            if i < 64:
                O[i - x] = A[i]


kernel = tl.build(window)
out = np.zeros(10, "int32")
data = np.arange(64, dtype="int32") * 5 + 1
kernel(60, data, out)
assert out.tolist() == [301, 306, 311, 316, 0, 0, 0, 0, 0, 0]
kernel(2**31 - 11, data, out)
kernel(2**31 - 10, data, out)
assert out.tolist() == [301, 306, 311, 316, 0, 0, 0, 0, 0, 0]
kernel(2**31 - 5, data, out)
