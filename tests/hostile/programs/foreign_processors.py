"""Code for processors that may not be this one: it runs where the machine has what it needs, and is refused elsewhere."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def f(A: T.Buffer((64,), "float32"), H: T.Buffer((64,), "float16")):
    for i in T.vectorized(64):
        H[i] = T.Cast("float16", A[i] * T.float32(2))
    for i in T.vectorized(64):
        A[i] = T.exp(A[i]) + T.float32(1)


refused = 0
for options in ("-mcpu=x86-64", "-mcpu=x86-64-v3", "-mcpu=x86-64-v4", "-mcpu=znver5", "-mcpu=graniterapids",
                "-mcpu=x86-64-v2 -mattr=+avx512f,+avx512vl", "-mattr=+avx512fp16", "-mattr=+fma4,+xop", "-mattr=+amx-tile"):  # fmt: skip
    for kernel in (tl.build(f, f"llvm {options}"), tl.jit(f, target=f"llvm {options}")):
        a, h = np.zeros(64, "float32"), np.ones(64, "float16")
        try:
            kernel(a, h)
        except tl.CodegenError as error:
            assert "this machine has no" in str(error) and (a == 0).all() and (h == 1).all()
            assert kernel.source("asm")
            refused += 1
        else:
            assert (a == 2).all() and (h == 0).all()
# No machine has both AMD's fma4 and Intel's matrix tiles.
assert refused >= 2, refused
