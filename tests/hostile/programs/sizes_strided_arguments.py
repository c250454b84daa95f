"""Arrays that are columns, reversed, every third element, of Fortran's order, of step 0: right, or refused with a reason."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

dense = tl.build(
    parse("""
def f(A: T.Buffer(("n",), "int32"), B: T.Buffer(("n",), "int32")):
    for i in range(n):
        B[i] = A[i] * 2 + i
""")
)
whole = np.arange(60, dtype="int32") * 7 - 50
for A in (whole[::3], whole[::-1], whole.reshape(6, 10)[:, 4], np.broadcast_to(whole[5:6], (9,)), whole[5:17]):
    B = np.zeros(len(A), "int32")
    try:
        dense(A, B)
        assert A.strides == (4,)
    except ValueError as error:
        assert "A" in str(error) and A.strides != (4,), error
        assert not B.any()
    dense(np.ascontiguousarray(A), B)
    np.testing.assert_array_equal(B, A * 2 + np.arange(len(A)))
strided = tl.build(
    parse("""
def g(A: T.Buffer(("n", "m"), "int32", strides=("s", "t")), B: T.Buffer(("n", "m"), "int32")):
    for i, j in T.grid(n, m):
        B[i, j] = A[i, j] - j
""")
)
table = whole.reshape(6, 10)
for A in (table, table.T, table[::2, 1::3], np.asfortranarray(table)):
    B = np.zeros(A.shape, "int32")
    strided(A, B)
    np.testing.assert_array_equal(B, A - np.arange(A.shape[1]))
