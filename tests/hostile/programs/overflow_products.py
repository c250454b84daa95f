"""Products that wrap in a condition and in a subscript: the branch is NumPy's, an access outside raises IndexError."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

A = np.arange(16, dtype="int32") * 7 + 1
ENDS = [-(2**31), -46341, -3, -1, 0, 1, 2, 3, 5, 46340, 46341, 65536, 2**16 + 1, 2**30, 2**31 - 1]
kernel = tl.build(
    parse("""
def f(n: T.int32, m: T.int32, A: T.Buffer((16,), "int32"), O: T.Buffer((3,), "int32")):
    if n * m >= 0 and n * m < 16:
        O[0] = A[n * m]
    if n >= 0 and m >= 0 and n * m * m < 16:
        O[1] = 5
    if n >= 0 and m >= 1 and n * m < 16:
        O[2] = A[n]
""")
)
raised = 0
for n in ENDS:
    for m in ENDS:
        x, y = np.int32(n), np.int32(m)
        with np.errstate(over="ignore"):
            product, cube = int(x * y), int(x * y * y)
        expected = [-9, -9, -9]
        if 0 <= product < 16:
            expected[0] = int(A[product])
        if n >= 0 and m >= 0 and cube < 16:
            expected[1] = 5
        outside = n >= 0 and m >= 1 and product < 16 and n >= 16
        if n >= 0 and m >= 1 and product < 16 and not outside:
            expected[2] = int(A[n])
        O = np.full(3, -9, "int32")
        try:
            kernel(n, m, A, O)
            assert not outside, (n, m)
            assert O.tolist() == expected, (n, m, O, expected)
        except IndexError:
            assert outside, (n, m)
            raised += 1
assert raised > 3
