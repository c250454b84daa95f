"""Differences of unsigned values below 0 wrap to large numbers, in conditions, subscripts and extents."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

A = np.arange(20, dtype="int64") * 5 - 3
for bits in (8, 16, 32, 64):
    kernel = tl.build(
        parse(f"""
def f(u: T.uint{bits}, v: T.uint{bits}, A: T.Buffer((20,), "int64"), O: T.Buffer((3,), "int64")):
    if u - v < T.uint{bits}(20):
        O[0] = A[T.Cast("int64", u - v)]
    if u - v >= T.uint{bits}(0):
        O[1] = 1
    if u >= v:
        if u - v < T.uint{bits}(20):
            O[2] = A[T.Cast("int64", u) - T.Cast("int64", v)]
""")
    )
    top = 2**bits - 1
    for u in (0, 1, 5, 19, 20, top - 1, top):
        for v in (0, 1, 5, 19, 20, top - 1, top):
            d = (u - v) % 2**bits
            expected = [int(A[d]) if d < 20 else -9, 1, int(A[u - v]) if u >= v and d < 20 else -9]
            O = np.full(3, -9, "int64")
            kernel(u, v, A, O)
            assert O.tolist() == expected, (bits, u, v, O.tolist(), expected)
