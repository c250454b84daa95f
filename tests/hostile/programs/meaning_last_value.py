"""What a name holds after a loop that runs, and after loops that may not."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def last(A: T.Buffer((5,), "int32"), B: T.Buffer((4,), "int32"), n: T.int32):
    for i in range(5):
        v = A[i]
    B[0] = v + i
    w = -1
    for i in range(n):
        w = A[i]
    B[1] = w
    x = 5
    for x in range(2, 4):
        pass
    B[2] = x
    if n > 2:
        y = 10
    else:
        y = n
    B[3] = y


a, b = np.array([4, 8, 15, 16, 23], "int32"), np.zeros(4, "int32")
kernel = tl.build(last)
for n, want in ((0, [27, -1, 3, 0]), (2, [27, 8, 3, 2]), (3, [27, 15, 3, 10])):
    kernel(a, b, n)
    assert b.tolist() == want, (n, b)
