"""Asynchronous copies whose shared memory is wanted for something else: it is kept, and races are seen."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.diagnostics import TirError
from tirlower.script import parse

TEXT = """
@T.prim_func
def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for bx in T.thread_binding(1, thread="blockIdx.x"):
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            S = T.alloc_buffer((64,), "float32", scope="shared")
            W = T.alloc_buffer((64,), "float32", scope="shared")
            with T.attr(0, "async_scope", 1):
                S[tx] = A[tx]
            T.evaluate(T.ptx_commit_group())
            {middle}
"""
USES = {
    "waited": (
        "T.evaluate(T.ptx_wait_group(0))\n            T.tvm_storage_sync('shared')\n            B[tx] = S[63 - tx]",
        True,
    ),
    "other memory meanwhile": (
        "W[tx] = A[63 - tx]\n            T.evaluate(T.ptx_wait_group(0))\n            T.tvm_storage_sync('shared')\n"
        "            B[tx] = S[63 - tx] + W[63 - tx] * T.float32(0)",
        True,
    ),
}
for name, (middle, good) in USES.items():
    try:
        func = parse(TEXT.format(middle=middle))
    except TirError as error:
        raise SystemExit(f"{name}: {error}") from error
    A, B = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    tl.simulate(func, A, B)
    np.testing.assert_array_equal(B, A[::-1], name)
    kernel = tl.build(func, target="nvptx -arch=sm_80")
    assert ".entry" in kernel.source("ptx")
    lowered = tl.lower(func, "nvptx -arch=sm_80")
    assert lowered.script()
