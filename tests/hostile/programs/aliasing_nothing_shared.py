"""What looks like overlap and is none: empty arrays, neighbours, arrays that are only read, arrays that a call makes."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def f(
    A: T.Buffer(("n",), "float64"),
    B: T.Buffer(("n",), "float64"),
    M: T.Buffer(("m",), "float64"),
    C: T.Buffer(("n",), "float64"),
):
    T.func_attr({"tir.noalias": True})
    for i in T.parallel(n):
        C[i] = A[i] - B[i] / 2.0
    for i in range(m):
        M[i] = M[i] + 1.0


kernel = tl.build(f)
memory = np.arange(30.0)
kernel(memory[:10], memory[:10], memory[10:20], memory[20:])
assert np.array_equal(memory[20:], np.arange(10.0) / 2) and np.array_equal(memory[10:20], np.arange(11.0, 21.0))
kernel(memory[:10], memory[5:15], memory[10:10], memory[20:])
assert np.array_equal(memory[20:], np.arange(10.0) - memory[5:15] / 2)
kernel(memory[3:3], memory[4:4], memory[:6], memory[2:2])
assert memory[0] == 1.0 and memory[5] == 6.0
(made,) = [tl.build(f, outputs=["C"])(memory[6:10], memory[6:10], memory[0:0])]
assert np.array_equal(made, memory[6:10] / 2)
