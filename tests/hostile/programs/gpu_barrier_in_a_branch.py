"""A barrier that some threads of a block never reach: the simulator says so instead of waiting for ever."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

for condition in ("tx < 16", "A[tx] > 20"):
    func = parse(f"""
def f(A: T.Buffer((32,), "int32")):
    for bx in T.thread_binding(1, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            if {condition}:
                T.tvm_storage_sync("shared")
            A[tx] = A[tx] + 1
""")
    try:
        tl.simulate(func, np.arange(32, dtype="int32"))
    except tl.TirError as error:
        assert "barrier" in str(error) or "sync" in str(error), error
    else:
        raise AssertionError(condition)
