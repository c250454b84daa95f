"""A vector of 60,000 lanes given to an intrinsic that needs all of them at once."""

# expect: TransformError
import tirlower as tl
from tirlower.script import parse

tl.build(
    parse("""
@T.prim_func
def f(A: T.Buffer((60000,), "float32"), B: T.Buffer((1,), "float32")):
    B[0] = T.call_llvm_pure_intrin("float32", "llvm.vector.reduce.fadd", T.float32(0), A[0:60000])
""")
)
