"""A scalar of the host that GPU threads would all assign."""

# expect: ScriptError

from tirlower.script import tir as T


@T.prim_func
def total(A: T.Buffer((64,), "float32"), B: T.Buffer((1,), "float32")):
    s = 0.0
    for bx in T.thread_binding(2, "blockIdx.x"):
        for tx in T.thread_binding(32, "threadIdx.x"):
            s += A[bx * 32 + tx]
    B[0] = s
