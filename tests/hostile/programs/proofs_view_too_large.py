"""A view that states more than there is, written far behind the array."""

# expect: IndexError
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    V = T.Buffer((400000000,), "int32", data=A.data)
    for i in range(400000000):
        V[399999999 - i] = i


tl.build(f)(np.zeros(8, "int32"))
