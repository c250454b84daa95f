"""Slice assignments and vectorized loops of tens of thousands of elements, in types of all widths."""

# expect: ok
import time

import numpy as np

import tirlower as tl
from tirlower.script import parse

start = time.perf_counter()
for n in (60000, 65536, 100003):
    for dtype in ("float32", "int8", "float64", "float16"):
        kernel = tl.build(
            parse(
                f'@T.prim_func\ndef f(A: T.Buffer(({n},), "{dtype}"), B: T.Buffer(({n},), "{dtype}")):\n'
                f"    B[0:{n}] = A[0:{n}] + B[0:{n}]\n"
                f"    for i in T.vectorized({n}):\n        B[i] = B[i] * A[{n} - 1 - i]\n"
                f"    A[0:{n - 1}] = A[1:{n}]\n    A[1:{n}] = A[0:{n - 1}]\n"
            )
        )
        a = (np.arange(n) % 7).astype(dtype)
        b = (np.arange(n) % 5).astype(dtype)
        want_b = (a + b) * a[::-1]
        want_a = a.copy()
        want_a[:-1] = a[1:]
        want_a[1:] = want_a[:-1].copy()
        kernel(a, b)
        assert (a == want_a).all() and (b == want_b).all(), (n, dtype)
assert time.perf_counter() - start < 25
