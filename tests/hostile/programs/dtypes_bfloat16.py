"""bfloat16 and the 8-bit floats of ml_dtypes: every value copied, added and compared as ml_dtypes does."""

# expect: ok
import ml_dtypes
import numpy as np

import tirlower as tl
from tirlower.script import parse

for name, bits in (("bfloat16", 16), ("float8_e4m3fn", 8), ("float8_e5m2", 8)):
    dtype = np.dtype(getattr(ml_dtypes, name))
    every = np.arange(2**bits, dtype=f"uint{bits}").view(dtype)
    n = len(every)
    kernel = tl.build(
        parse(f"""
def f(A: T.Buffer(({n},), "{name}"), C: T.Buffer(({n},), "{name}"), W: T.Buffer(({n},), "float32")):
    for i in range({n}):
        C[{n} - 1 - i] = A[i]
        W[i] = T.Cast("float32", A[i])
""")
    )
    copied, wide = np.zeros(n, dtype), np.zeros(n, "float32")
    kernel(every, copied, wide)
    assert (copied[::-1].view(f"uint{bits}") == every.view(f"uint{bits}")).all(), name
    np.testing.assert_array_equal(wide, every.astype("float32"), name)
