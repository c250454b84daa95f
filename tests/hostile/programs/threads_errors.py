"""Errors of kernels in several threads and in parallel loops: each thread gets its own, and the kernel works on."""

# expect: ok
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import tirlower as tl
from tirlower.script import parse

kernel = tl.build(
    parse("""
def f(X: T.Buffer(("n",), "int32"), A: T.Buffer((100,), "int32"), B: T.Buffer(("n",), "int32")):
    for i in T.parallel(n):
        B[i] = A[X[i]]
""")
)
A = np.arange(100, dtype="int32") * 3


def work(seed):
    random = np.random.default_rng(seed)
    for turn in range(30):
        X, B = random.integers(0, 100, 200, "int32"), np.zeros(200, "int32")
        if turn % 3 == 1:
            X[137] = 1000 + seed
            try:
                kernel(X, A, B)
            except IndexError as error:
                assert str(1000 + seed) in str(error), error
                continue
            raise AssertionError(seed)
        kernel(X, A, B)
        assert (B == X * 3).all()
    return True


with ThreadPoolExecutor(6) as pool:
    assert all(pool.map(work, range(6)))
