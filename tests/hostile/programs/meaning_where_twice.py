"""Two predicates of a block."""

# expect: ScriptError

from tirlower.script import tir as T


@T.prim_func
def copy(A: T.Buffer((10,), "float32"), B: T.Buffer((10,), "float32")):
    for i in range(16):
        with T.block("copy"):
            v = T.axis.spatial(10, i)
            T.where(i < 10)
            T.where(i < 5)
            B[v] = A[v]
