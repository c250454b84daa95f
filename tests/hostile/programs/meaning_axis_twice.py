"""An axis under a name that the block has."""

# expect: ScriptError

from tirlower.script import tir as T


@T.prim_func
def copy(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        with T.block("copy"):
            v = T.axis.spatial(8, i)
            v = T.axis.spatial(8, j)
            B[v, v] = A[v, v]
