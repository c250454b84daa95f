"""A name that only one arm of a branch assigns."""

# expect: ScriptError

from tirlower.script import tir as T


@T.prim_func
def pick(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    for i in range(4):
        if A[i] > 0:
            v = A[i]
        B[i] = v
