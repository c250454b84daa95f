"""A block whose init forgets, in an iteration of another loop, what the carried reduction has added so far."""

# expect: LegalityError
import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def f(A: T.Buffer((4, 8), "float32"), C: T.Buffer((2,), "float32")):
    for k in T.parallel(8, annotations={"tir.reduction": True}):
        for i in range(4):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi // 2] = T.float32(0)
                C[vi // 2] += A[vi, vk]


tl.build(f)
