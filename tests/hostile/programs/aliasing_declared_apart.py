"""A function that declares its arrays apart is never run with arrays that overlap, in place or not."""

# expect: ArgumentError
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def f(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    T.func_attr({"tir.noalias": True})
    for i in T.parallel(16):
        C[i] = A[i] + 1


kernel = tl.build(f)
memory = np.arange(20, dtype="int32")
before = memory.copy()
for arrays in ((memory[:16], memory[1:17]), (memory[:16], memory[4:20]), (memory[:16], memory[:16])):
    try:
        kernel(*arrays)
    except tl.ArgumentError:
        assert np.array_equal(memory, before)
    else:
        raise AssertionError("it ran")
kernel(A=memory[:16], C=memory[4:])
