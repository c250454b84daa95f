"""Float literals beside integers are as exact as what they are stored to; none becomes infinity."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def literals(n: T.int32, D: T.Buffer((4,), "float64"), S: T.Buffer((1,), "float32"), H: T.Buffer((1,), "float16")):
    D[0] = n * 0.1
    D[1] = (n + 0.7) / 3
    D[2] = -(n * 0.3) if n > 2 else 0.1
    big = 1e300
    D[3] = big * n
    S[0] = n * 0.1
    H[0] = n * 0.1


@T.prim_func
def all_double(A: T.Buffer((2,), "float64"), n: T.int64):
    tenth = 0.1
    A[0] = tenth + n
    A[1] = T.exp(0.1) * T.max(n, 0.3)


d, s, h = np.zeros(4), np.zeros(1, "float32"), np.zeros(1, "float16")
tl.build(literals)(3, d, s, h)
assert d.tolist() == [3 * 0.1, 3.7 / 3, -(3 * 0.3), 3e300], d
assert s[0] == np.float32(3) * np.float32(0.1) and h[0] == np.float16(np.float32(3) * np.float32(0.1))
a = np.zeros(2)
tl.build(all_double)(a, 2)
assert a[0] == 2.1 and abs(a[1] - np.exp(0.1) * 2) < 1e-15, a
