"""Arrays of the host given to a kernel for a GPU, with and without one there: an error in words, never a crash."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

kernel = tl.build(
    parse("""
def f(A: T.Buffer((64,), "int32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            A[bx * 32 + tx] = tx
"""),
    "nvptx -arch=sm_80",
)
A = np.full(64, 7, "int32")
for args in ((A,), (A[:3],), (A.astype("float64"),), (None,), (), (A, A)):
    try:
        kernel(*args)
    except (tl.TirError, TypeError, ValueError) as error:
        assert len(str(error)) > 20
    else:
        raise AssertionError(args)
assert (A == 7).all() and ".target sm_80" in kernel.source("ptx")
