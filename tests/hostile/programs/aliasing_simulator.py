"""Threads of a GPU on arrays that share bytes: the simulator says that they race."""

# expect: InterpreterError
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def f(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            B[bx * 32 + tx] = A[bx * 32 + tx] + 1


memory = np.arange(70, dtype="int32")
tl.simulate(f, memory[:64], memory[:64])
assert memory[:64].tolist() == list(range(1, 65))
tl.simulate(f, memory[:3].repeat(22)[:64], memory[:64])
tl.simulate(f, memory[:64], memory[5:69])
