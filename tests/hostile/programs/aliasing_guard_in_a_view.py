"""The store that ends what a condition said goes through a view of the other parameter, in a loop that runs later."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def f(P: T.Buffer((16,), "int32"), Q: T.Buffer((16,), "int32"), A: T.Buffer((16,), "int32")):
    V = T.decl_buffer((4, 4), "int32", data=Q.data)
    for i in range(4):
        k: T.let[T.int32] = P[i]
        if k >= 0 and k < 16 and P[i + 4] >= 0 and P[i + 4] < 16:
            for j in range(4):
                V[j, i] = 1 << 28
            A[k] = A[P[i + 4]] + 1


kernel = tl.build(f)
a = np.zeros(16, "int32")
p = np.arange(16, dtype="int32")
kernel(p, np.zeros(16, "int32"), a)
assert a[:4].tolist() == [1, 1, 1, 1], a
try:
    kernel(p, p, a)
except IndexError as error:
    assert str(1 << 28) in str(error)
else:
    raise AssertionError("P[4] was 2**28")
