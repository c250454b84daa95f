"""Buffers whose elements are vectors of 60,000 lanes: refused, not an abort inside LLVM."""

# expect: TransformError
import tirlower as tl
from tirlower.script import parse

tl.build(
    parse("""
@T.prim_func
def f(A: T.Buffer((4,), "float32")):
    L = T.alloc_buffer((2,), "float32x60000")
    L[0] = T.Broadcast(A[0], 60000)
    L[1] = L[0] + L[0]
    A[1] = T.Shuffle([L[1]], [7])
""")
)
