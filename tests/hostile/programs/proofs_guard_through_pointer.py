"""A guard on a value that is then changed through another name of its memory."""

# expect: IndexError
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def f(A: T.Buffer((16,), "int32"), X: T.Buffer((1,), "int32")):
    q = T.bind(X.data)
    V = T.Buffer((1,), "int32", data=q)
    if X[0] >= 0 and X[0] < 16:
        V[0] = 500000000
        A[X[0]] = 1


tl.build(f)(np.zeros(16, "int32"), np.zeros(1, "int32"))
