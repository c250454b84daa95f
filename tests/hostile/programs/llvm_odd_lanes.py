"""Vectors of lane counts that are no power of two, with gathers, conditions, casts and reductions over them."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

for n in (3, 5, 7, 13, 24, 48, 63, 65, 100, 127, 129, 255, 257, 1000):
    kernel = tl.build(
        parse(
            f"""
@T.prim_func
def f(A: T.Buffer(({n},), "float32"), B: T.Buffer(({n},), "int8"), C: T.Buffer(({n},), "float64"),
      I: T.Buffer(({n},), "int32"), M: T.Buffer(({n},), "bool"), N: T.Buffer(({n},), "bool"), D: T.Buffer(({n},), "int8"), S: T.Buffer((1,), "float32")):
    S[0] = T.float32(0)
    for i in T.vectorized({n}):
        if M[i]:
            C[i] = T.Cast("float64", A[I[i]]) * T.float64(0.5)
        else:
            C[i] = T.Cast("float64", B[{n} - 1 - i])
        D[i] = T.Select(A[i] > T.float32(2), B[i], T.Cast("int8", A[i]))
        N[i] = A[i] > T.float32(0)
    for i in T.vectorized({n}, annotations={{"tir.reduction": True}}):
        S[0] = S[0] + A[i]
"""
        )
    )
    rng = np.random.default_rng(n)
    a = rng.integers(-9, 9, n).astype("float32")
    b = rng.integers(-9, 9, n).astype("int8")
    c = np.zeros(n)
    index = rng.permutation(n).astype("int32")
    m = rng.integers(0, 2, n).astype(bool)
    s = np.zeros(1, "float32")
    want_c = np.where(m, a[index] * 0.5, b[::-1])
    want_b = np.where(a > 2, b, a.astype("int8"))
    positive, d = np.zeros(n, bool), np.zeros(n, "int8")
    kernel(a, b, c, index, m, positive, d, s)
    assert (positive == (a > 0)).all() and s[0] == a.sum(), n
    assert (d == want_b).all() and (c == want_c).all(), n
