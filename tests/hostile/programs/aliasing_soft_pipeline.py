"""A software pipeline, a double buffer: nothing is read ahead of the store that may change it."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def f(A: T.Buffer((16, 4), "int32"), C: T.Buffer((16, 4), "int32")):
    for i in T.serial(16, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}):
        with T.block("pipe"):
            vi = T.axis.spatial(16, i)
            L = T.alloc_buffer((16, 4), "int32")
            with T.block("load"):
                T.reads(A[vi, 0:4])
                T.writes(L[vi, 0:4])
                for j in range(4):
                    L[vi, j] = A[vi, j]
            with T.block("use"):
                T.reads(L[vi, 0:4])
                T.writes(C[vi, 0:4])
                for j in range(4):
                    C[vi, j] = L[vi, j] * 3 + 1


kernel = tl.build(f)
for shift in (0, 1, 2, -1, 20):
    memory = np.arange(5, 165, dtype="int32").reshape(40, 4)
    right = memory.copy()
    a, c = right[2:18], right[2 + shift : 18 + shift]
    for i in range(16):
        c[i] = a[i].copy() * 3 + 1
    kernel(memory[2:18], memory[2 + shift : 18 + shift])
    assert np.array_equal(memory, right), shift
