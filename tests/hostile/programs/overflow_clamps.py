"""Indices clamped by T.min and T.max between bounds that are passed: outside only where the bounds are."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

kernel = tl.build(
    parse("""
def f(x: T.int32, lo: T.int32, hi: T.int32, A: T.Buffer(("n",), "int32"), O: T.Buffer((3,), "int32")):
    O[0] = A[T.min(T.max(x, 0), n - 1)]
    O[1] = A[T.max(T.min(x + 1, n - 1), 0)]
    O[2] = A[T.min(T.max(x, lo), hi)]
""")
)
A = np.arange(11, dtype="int32") * 13 - 40
ENDS = [-(2**31), -12, -1, 0, 4, 10, 11, 2**31 - 1]
for x in ENDS:
    for lo in ENDS:
        for hi in ENDS:
            above = x + 1 if x < 2**31 - 1 else -(2**31)
            at = [min(max(x, 0), 10), max(min(above, 10), 0), min(max(x, lo), hi)]
            O = np.full(3, -9, "int32")
            try:
                kernel(x, lo, hi, A, O)
                assert O.tolist() == [int(A[i]) for i in at] and at[2] >= 0, (x, lo, hi, O)
            except IndexError:
                assert not 0 <= at[2] < 11, (x, lo, hi)
