"""`A = B` on buffers copies nothing, so it says so."""

# expect: ScriptError

from tirlower.script import tir as T


@T.prim_func
def copy(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    B = A
