"""Parallel loops of fewer, as many and more iterations than threads, nested in loops that run 0 times, and nested."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

func = parse("""
def f(times: T.int32, A: T.Buffer(("n", "m"), "int64")):
    for t in range(times):
        for i in T.parallel(n):
            for j in T.parallel(m):
                A[i, j] += T.Cast("int64", i * 1000 + j + t)
""")
for threads in (1, 2, 3, 7):
    kernel = tl.build(func, f"llvm -num-threads={threads}")
    for n in (0, 1, 2, 3, 5, 64):
        for m in (1, 3):
            for times in (-1, 0, 1, 3):
                A = np.zeros((n, m), "int64")
                kernel(times, A)
                runs = max(times, 0)
                one = np.arange(n)[:, None] * 1000 + np.arange(m)
                np.testing.assert_array_equal(A, one * runs + sum(range(runs)))
