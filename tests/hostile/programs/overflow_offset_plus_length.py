"""A guard written with an addition that wraps: 2**31 - 1 + 1 is negative, and the access would be far outside."""

# expect: IndexError
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def first(off: T.int32, length: T.int32, A: T.Buffer((16,), "float32"), O: T.Buffer((1,), "float32")):
    if off >= 0 and length >= 1 and off + length <= 16:
        O[0] = A[off]


kernel = tl.build(first)
out = np.zeros(1, "float32")
kernel(3, 4, np.arange(16, dtype="float32"), out)
assert out[0] == 3
kernel(2**31 - 1, 1, np.arange(16, dtype="float32"), out)
