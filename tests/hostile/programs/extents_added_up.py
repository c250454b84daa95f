"""Ranges whose difference wraps, however the script adds it up, run as Python's ranges do: not at all."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

LEAST = -(2**31)
CASES = [
    ("range(2, k - 1)", LEAST + 1, []),
    ("range(2, k - 1)", 7, [2, 3, 4, 5]),
    ("T.parallel(3, k - 1)", LEAST + 2, []),
    ("T.vectorized(1, k - 2)", LEAST + 2, []),
    ("T.vectorized(1, k - 2)", 6, [1, 2, 3]),
    ("range(m, k - 1)", LEAST + 3, []),
    ("range(m, k - 1)", 7, [4, 5]),
    ("range(m + 1, k + 1)", LEAST + 2, []),
    ("range(m + 1, k + 1)", 6, [5, 6]),
    ("range(2 * m - 5, k - m)", LEAST + 6, []),
    ("range(2 * m - 5, k - m)", 9, [3, 4]),
    ("range(2, T.min(k, 6) - 1)", LEAST + 1, []),
]

for loop, k, expected in CASES:
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((8,), "int32"), k: T.int32, m: T.int32):
    for i in {loop}:
        A[i] = i + 10
""")
    want = np.zeros(8, np.int32)
    want[expected] = np.array(expected) + 10
    for run in (tl.build(func), lambda *args, func=func: tl.interpret(func, *args)):
        out = np.zeros(8, np.int32)
        run(out, k, 4)
        assert (out == want).all(), (loop, k, out)
