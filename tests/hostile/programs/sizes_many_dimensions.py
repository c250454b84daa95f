"""Buffers of no, one and eleven dimensions, and elements addressed by all of them."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

scalar = tl.build(
    parse("""
def f(A: T.Buffer((), "int32"), B: T.Buffer((), "int32")):
    B[()] = A[()] * 3
""")
)
A, B = np.array(14, "int32"), np.array(0, "int32")
scalar(A, B)
assert B == 42
names = [f"i{k}" for k in range(11)]
shape = [2, 1, 3, 1, 2, 2, 1, 2, 1, 3, 2]
many = tl.build(
    parse(f"""
def g(A: T.Buffer({tuple(shape)}, "int32"), B: T.Buffer({tuple(reversed(shape))}, "int32")):
    for {", ".join(names)} in T.grid({", ".join(map(str, shape))}):
        B[{", ".join(reversed(names))}] = A[{", ".join(names)}] - i0
""")
)
A = np.random.default_rng(3).integers(-99, 99, shape, "int32")
B = np.zeros(shape[::-1], "int32")
many(A, B)
np.testing.assert_array_equal(B, (A - np.arange(2).reshape(2, *[1] * 10)).transpose())
