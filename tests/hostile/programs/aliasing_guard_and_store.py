"""A condition on P[i] is no proof for A[P[i]] once Q, which may be P, has been stored to."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def f(
    P: T.Buffer(("n",), "int32"),
    Q: T.Buffer(("n",), "int32"),
    A: T.Buffer(("n",), "int32"),
    O: T.Buffer(("n",), "int32"),
):
    for i in range(n):
        if 0 <= P[i] and P[i] < n:
            Q[i] = 1_000_000_000 - i
            O[i] = A[P[i]]


kernel = tl.build(f)
a = np.arange(8, dtype="int32") * 3
p, q, o = np.array([7, 6, 5, 4, -1, 8, 1, 0], "int32"), np.full(8, -2, "int32"), np.full(8, -1, "int32")
kernel(p, q, a, o)
assert o.tolist() == [21, 18, 15, 12, -1, -1, 3, 0], o
assert q.tolist() == [10**9, 10**9 - 1, 10**9 - 2, 10**9 - 3, -2, -2, 10**9 - 6, 10**9 - 7], q
for shift in (0, 1, -1, 3):
    memory = np.array([5, 3, 2, 6, 1, 0, 4, 7, 3, 1, 2, 6], "int32")
    right, expected = memory.copy(), np.full(8, -1, "int32")
    one, two = right[1:9], right[1 + shift : 9 + shift]
    wild = False
    for i in range(8):
        if 0 <= one[i] < 8:
            two[i] = 1_000_000_000 - i
            if not 0 <= one[i] < 8:
                wild = True
                break
            expected[i] = a[one[i]]
    o[:] = -1
    try:
        kernel(memory[1:9], memory[1 + shift : 9 + shift], a, o)
    except IndexError as error:
        assert wild and "A[1000000000]" in str(error), (shift, error)
    else:
        assert not wild
    assert np.array_equal(memory, right) and np.array_equal(o, expected), shift
