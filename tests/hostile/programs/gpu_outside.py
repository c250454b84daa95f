"""Threads past the end of an array, by a launch that is too wide: IndexError, and nothing is written outside."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

for store in ("A[bx * 32 + tx]", "A[bx * 32 + tx - 1]", "A[X[tx]]"):
    func = parse(f"""
def f(X: T.Buffer((32,), "int32"), A: T.Buffer((60,), "int32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            if bx == 1:
                {store} = 1
""")
    memory = np.full(160, 7, "int32")
    try:
        tl.simulate(func, np.full(32, 2**31 - 1, "int32"), memory[50:110])
    except (IndexError, tl.InterpreterError):
        pass
    else:
        raise AssertionError(store)
    assert (memory[:50] == 7).all() and (memory[110:] == 7).all()
