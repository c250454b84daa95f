"""A float for an integer variable would be cut."""

# expect: ScriptError

from tirlower.script import tir as T


@T.prim_func
def mean(A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "int32")):
    count: T.int32 = 0
    for i in range(8):
        count = count + A[i]
    B[0] = count
