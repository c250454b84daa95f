"""Eight threads call one kernel at once, each on its own arrays and sizes, with parallel loops inside."""

# expect: ok
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import tirlower as tl
from tirlower.script import parse

kernel = tl.build(
    parse("""
def f(by: T.int32, A: T.Buffer(("n",), "int32"), B: T.Buffer(("n",), "int32")):
    W = T.alloc_buffer((64,), "int32")
    for k in range(64):
        W[k] = k * by
    for i in T.parallel(n):
        B[i] = A[i] + W[i % 64]
""")
)


def work(seed):
    for turn in range(60):
        n = 100 + seed * 37 + turn
        A, B = np.arange(n, dtype="int32") * seed, np.zeros(n, "int32")
        kernel(turn, A, B)
        np.testing.assert_array_equal(B, A + np.arange(n) % 64 * turn)
    return seed


with ThreadPoolExecutor(8) as pool:
    assert list(pool.map(work, range(8))) == list(range(8))
