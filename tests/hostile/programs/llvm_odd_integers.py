"""Integers of 3, 24 and 48 bits as local values and arrays, scalar and in vectors of odd lengths."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

for bits in (2, 3, 5, 12, 24, 31, 33, 48, 63):
    for lanes in (1, 7, 48):
        kernel = tl.build(
            parse(
                f'@T.prim_func\ndef f(A: T.Buffer(({lanes},), "int64"), B: T.Buffer(({lanes},), "int64")):\n'
                f'    L = T.alloc_buffer(({lanes},), "int{bits}", scope="local")\n'
                f"    for i in T.vectorized({lanes}):\n"
                f'        L[i] = T.Cast("int{bits}", A[i]) * T.Cast("int{bits}", A[i])\n'
                f'        B[i] = T.Cast("int64", L[i])\n'
            )
        )
        a, b = np.arange(lanes) * 3 - 5, np.zeros(lanes, "int64")
        kernel(a, b)
        half = 1 << (bits - 1)
        want = [((int(x) * int(x) + half) % (1 << bits)) - half for x in a]
        assert b.tolist() == want, (bits, lanes, b, want)
