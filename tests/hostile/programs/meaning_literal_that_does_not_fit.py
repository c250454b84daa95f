"""A literal that a float16 cannot hold is not stored as infinity."""

# expect: ScriptError

from tirlower.script import tir as T


@T.prim_func
def fill(A: T.Buffer((8,), "float16")):
    for i in range(8):
        A[i] = 1e6
