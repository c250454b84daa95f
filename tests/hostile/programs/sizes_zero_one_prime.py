"""Kernels of a symbolic size at 0, 1, primes and powers of two and their neighbours: sums, shifts, transposes."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

copy = tl.build(
    parse("""
def f(A: T.Buffer(("n", "m"), "float32"), B: T.Buffer(("m", "n"), "float32"), S: T.Buffer(("n",), "float32")):
    for i in range(n):
        S[i] = 1.0
        for j in T.vectorized(m):
            B[j, i] = A[i, j] * 2.0
        for j in range(m):
            S[i] += A[i, j]
""")
)
shift = tl.build(
    parse("""
def g(A: T.Buffer(("n",), "int32"), B: T.Buffer(("n",), "int32")):
    for i in T.parallel(n - 1):
        B[i + 1] = A[i] - i
""")
)
for n in (0, 1, 2, 3, 5, 7, 8, 13, 31, 32, 97, 257):
    for m in (0, 1, 2, 7, 16, 17, 101):
        A = (np.arange(n * m, dtype="float32") % 23 - 7).reshape(n, m)
        B, S = np.zeros((m, n), "float32"), np.zeros(n, "float32")
        copy(A, B, S)
        np.testing.assert_array_equal(B, A.T * 2)
        np.testing.assert_array_equal(S, A.sum(1) + 1)
    X, Y = np.arange(n, dtype="int32") * 7, np.full(n, -3, "int32")
    shift(X, Y)
    np.testing.assert_array_equal(Y[1:], X[:-1] - np.arange(max(n - 1, 0)))
    assert n == 0 or Y[0] == -3
