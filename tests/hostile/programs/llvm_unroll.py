"""Unrolled loops of very many iterations, alone and nested."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

kernel = tl.build(
    parse("""
@T.prim_func
def f(A: T.Buffer((100000,), "int32"), B: T.Buffer((200, 300), "int32")):
    for i in T.unroll(100000):
        A[i] = A[i] * 3 + i
    for i in T.unroll(200):
        for j in T.unroll(300):
            B[i, j] = B[i, j] + i * j
""")
)
a, b = np.arange(100000, dtype="int32") % 10, np.ones((200, 300), "int32")
want = a * 3 + np.arange(100000)
kernel(a, b)
assert (a == want).all() and (b == 1 + np.arange(200)[:, None] * np.arange(300)).all()
