"""Threads of several blocks that write one element: the simulator says which two race, and where."""

# expect: InterpreterError
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def f(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            B[(tx + 1) % 32] = A[bx * 32 + tx]


A, B = np.arange(64, dtype="int32"), np.zeros(64, "int32")
tl.simulate(f, A, B)
