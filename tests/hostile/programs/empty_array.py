"""An array without elements: nothing runs, nothing is touched."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def double(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        B[i] = A[i] * 2.0


empty = np.zeros(0, "float32")
tl.build(double)(empty, empty.copy())
