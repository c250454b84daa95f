"""T.min, T.max and comparisons chosen by hand on NaN and zeros of both signs: native and interpreter agree bit for bit."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

for dtype in ("float32", "float64"):
    func = parse(f"""
def f(A: T.Buffer(("n",), "{dtype}"), B: T.Buffer(("n",), "{dtype}"), O: T.Buffer((4, "n"), "{dtype}")):
    for i in range(n):
        O[0, i] = T.min(A[i], B[i])
        O[1, i] = T.max(A[i], B[i])
        O[2, i] = A[i] if A[i] < B[i] else B[i]
        O[3, i] = T.Select(not (A[i] >= B[i]), A[i], B[i])
""")
    ends = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.5]
    A = np.array([x for x in ends for _ in ends] * 3, dtype)
    B = np.array([y for _ in ends for y in ends] * 3, dtype)
    native, seen = np.zeros((4, len(A)), dtype), np.zeros((4, len(A)), dtype)
    tl.build(func)(A, B, native)
    tl.interpret(func, A, B, seen)
    np.testing.assert_array_equal(native, seen)
    np.testing.assert_array_equal(native[2], np.where(A < B, A, B))
    np.testing.assert_array_equal(native[3], np.where(~(A >= B), A, B))
