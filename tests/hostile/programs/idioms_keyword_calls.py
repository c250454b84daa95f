"""Defaults, keywords, outputs that calls do not pass, NumPy scalars and bools as arguments: as of a Python function."""

# expect: ok
import inspect

import numpy as np

import tirlower as tl
from tirlower.script import parse

kernel = tl.build(
    parse("""
def scale(A: T.Buffer(("n",), "float64"), B: T.Buffer(("n",), "float64"), by: T.float64 = 2.5, plus: T.int32 = -3):
    for i in range(n):
        B[i] = A[i] * by + T.Cast("float64", plus)
"""),
    outputs=["B"],
)
A = np.arange(6) / 4
for args, named, by, plus in [
    ((A,), {}, 2.5, -3),
    ((A, 1.5), {}, 1.5, -3),
    ((A, 2), {"plus": 7}, 2.0, 7),
    ((), {"plus": np.int16(4), "A": A}, 2.5, 4),
    ((A, np.float32(0.5), True), {}, 0.5, 1),
]:
    np.testing.assert_array_equal(kernel(*args, **named), A * by + plus)
assert list(inspect.signature(kernel).parameters) == ["A", "by", "plus"]
assert kernel.__name__ == "scale" and kernel.__doc__ == "scale(A, by, plus)"
try:
    kernel(A, 1.0, by=2.0)
except TypeError:
    pass
else:
    raise AssertionError("by was given twice")
