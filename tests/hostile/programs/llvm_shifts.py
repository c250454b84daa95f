"""Shifts by amounts outside of the type's width: no abort, all bits out, scalar and in vectors."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

amounts = np.array([0, 1, 7, 8, 31, 32, 33, 63, 64, 100, 127], "int64")
n = len(amounts)
for dtype in ("int8", "uint8", "int32", "uint32", "int64", "uint64"):
    bits = np.iinfo(dtype).bits
    kernel = tl.build(
        parse(
            f'@T.prim_func\ndef f(S: T.Buffer(({n},), "int64"), L: T.Buffer(({n},), "{dtype}"), R: T.Buffer(({n},), "{dtype}"), x: T.{dtype}):\n'
            f"    for i in T.vectorized({n}):\n"
            f'        L[i] = T.shift_left(x, T.Cast("{dtype}", S[i]))\n'
            f"    for i in range({n}):\n"
            f'        R[i] = T.shift_right(x, T.Cast("{dtype}", S[i]))\n'
        )
    )
    for x in (77, np.iinfo(dtype).max, np.iinfo(dtype).min):
        left, right = np.zeros(n, dtype), np.zeros(n, dtype)
        kernel(amounts, left, right, x)
        for s, got_left, got_right in zip(amounts.tolist(), left, right, strict=True):
            want_left = (x << s) % (1 << bits) if s < bits else 0
            assert int(got_left) % (1 << bits) == want_left, (dtype, x, s, got_left)
            assert int(got_right) == x >> min(s, 200), (dtype, x, s, got_right)
