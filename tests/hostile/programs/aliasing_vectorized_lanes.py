"""Lanes in step on shifted arrays: each statement for all lanes, its loads before its store, whatever the length."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

TEXT = """
@T.prim_func
def f(A: T.Buffer(({n},), "int32"), B: T.Buffer(({n},), "int32"), C: T.Buffer(({n},), "int32")):
    for i in T.vectorized({n}):
        B[i] = A[i] + 1
        C[i] = B[i] * 2 - A[i]
"""

for n in (3, 16, 48, 1000):
    for size in (n, '"n"'):
        text = TEXT.format(n=size).replace('vectorized("n")', "vectorized(n)")
        kernel = tl.build(parse(text))
        for b, c in ((1, 2), (-1, 3), (0, 1), (0, 0), (2, 2), (n + 9, 1)):
            memory = np.arange(7, 2 * n + 60, dtype="int32")
            right = memory.copy()
            x, y, z = right[5 : 5 + n], right[5 + b : 5 + b + n], right[5 + c : 5 + c + n]
            y[:] = x.copy() + 1
            z[:] = y.copy() * 2 - x.copy()
            kernel(memory[5 : 5 + n], memory[5 + b : 5 + b + n], memory[5 + c : 5 + c + n])
            assert np.array_equal(memory, right), (n, size, b, c)
