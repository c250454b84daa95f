"""Code that nothing reaches: behind returns, breaks, endless conditions that are false, and loops that never run."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

kernel = tl.build(
    parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32"), n: T.int32) -> T.int32:
    while T.bool(False):
        A[0] = 99
    for i in range(0):
        A[1] = 99 // (i - i)
    for i in range(8):
        if i == 3:
            break
            A[2] = 99
        A[i] = A[i] + 1
        continue
        A[i] = 99
    for i in range(5, 2):
        A[i] = 99
    if n > 0:
        return A[0]
        A[3] = 99
    else:
        return A[7]
    A[4] = 99
    while T.bool(True):
        A[5] = 99
""")
)
a = np.arange(8, dtype="int32")
assert kernel(a, 1) == 1 and a.tolist() == [1, 2, 3, 3, 4, 5, 6, 7]
assert kernel(a, 0) == 7 and a.tolist() == [2, 3, 4, 3, 4, 5, 6, 7]
