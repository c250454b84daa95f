"""Parsing, building and calling in a thread with a stack of 512 KiB: it works, or raises what can be caught."""

# expect: ok
import threading

import numpy as np

import tirlower as tl
from tirlower.script import parse

threading.stack_size(512 << 10)
seen = []


def work():
    func = parse("""
def f(A: T.Buffer((40, 40), "float32"), B: T.Buffer((40, 40), "float32")):
    W = T.alloc_buffer((40, 40), "float32")
    for i, j in T.grid(40, 40):
        W[i, j] = A[j, i] + 1.0
    for i, j in T.grid(40, 40):
        B[i, j] = W[i, j] * 2.0
""")
    A, B = np.arange(1600, dtype="float32").reshape(40, 40), np.zeros((40, 40), "float32")
    tl.build(func)(A, B)
    np.testing.assert_array_equal(B, (A.T + 1) * 2)
    seen.append("small")
    terms = " + ".join(f"A[{k % 40}, {k % 7}]" for k in range(300))
    deep = parse(f'def g(A: T.Buffer((40, 40), "float32"), B: T.Buffer((1,), "float32")):\n    B[0] = {terms}\n')
    total = np.zeros(1, "float32")
    tl.build(deep)(A, total)
    assert total[0] == sum(A[k % 40, k % 7] for k in range(300))
    seen.append("deep")


thread = threading.Thread(target=work)
thread.start()
thread.join()
assert seen == ["small", "deep"], seen
