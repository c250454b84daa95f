"""A loop that may run 0 times leaves its name without a value."""

# expect: ScriptError

from tirlower.script import tir as T


@T.prim_func
def last(A: T.Buffer(("n",), "int32"), B: T.Buffer((1,), "int32")):
    for i in range(n):
        v = A[i]
    B[0] = v
