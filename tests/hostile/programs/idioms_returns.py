"""Early returns, returns out of nested loops, and the last of several: the value that Python's function gives."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

find = tl.build(
    parse("""
def find(x: T.int32, A: T.Buffer(("n", "m"), "int32")) -> T.int32:
    for i in range(n):
        for j in range(m):
            if A[i, j] == x:
                return i * 100 + j
    return -1
""")
)
sign = tl.build(
    parse("""
def sign(x: T.float64) -> T.int32:
    if x > 0.0:
        return 1
    if x < 0.0:
        return -1
    return 0
""")
)
A = np.random.default_rng(4).permutation(63).astype("int32").reshape(7, 9)
for x in (-1, *range(0, 70, 3)):
    where = np.argwhere(A == x)
    assert find(x, A) == (int(where[0][0] * 100 + where[0][1]) if len(where) else -1), x
assert find(0, np.zeros((0, 3), "int32")) == -1
assert [sign(x) for x in (3.5, -2e-308, 0.0, -0.0, float("inf"), float("nan"))] == [1, -1, 0, 0, 1, 0]
