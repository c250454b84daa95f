"""NaN, infinities and what is too large, converted to integers: saturated, scalar and in vectors, as the page says."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

values = np.array(
    [np.nan, np.inf, -np.inf, 1e30, -1e30, 3.99, -3.99, -0.0, 2147483648.0, -2147483904.0, 300.0], "float32"
)
n = len(values)
for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"):
    kernel = tl.build(
        parse(
            f'@T.prim_func\ndef f(A: T.Buffer(({n},), "float32"), B: T.Buffer(({n},), "{dtype}"), C: T.Buffer(({n},), "{dtype}")):\n'
            f'    for i in range({n}):\n        B[i] = T.Cast("{dtype}", A[i])\n'
            f'    for i in T.vectorized({n}):\n        C[i] = T.Cast("{dtype}", A[i])\n'
        )
    )
    b, c = np.zeros(n, dtype), np.zeros(n, dtype)
    kernel(values, b, c)
    limits = np.iinfo(dtype)
    want = [
        0 if x != x else int(max(limits.min, min(limits.max, x if abs(x) == np.inf else int(x))))
        for x in map(float, values)
    ]
    assert b.tolist() == want and c.tolist() == want, (dtype, b, want)
