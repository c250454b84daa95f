"""Sums and products held in a name or an element wrap in their own type, as NumPy's do."""

# expect: ok
# parts: 4
import sys

import numpy as np

import tirlower as tl
from tirlower.script import parse

random = np.random.default_rng(11)
for dtype in ("int8", "uint32", "uint16", "int64", "uint8", "int32", "int16", "uint64")[int(sys.argv[1]) :: 4]:
    info = np.iinfo(dtype)
    kernel = tl.build(
        parse(f"""
def f(A: T.Buffer(("n",), "{dtype}"), O: T.Buffer((4,), "{dtype}")):
    total: T.{dtype} = 0
    product: T.{dtype} = 1
    for i in range(n):
        total += A[i]
        product *= A[i]
        O[2] += A[i]
        O[3] -= A[i] * A[i]
    O[0] = total
    O[1] = product
""")
    )
    for n in (0, 1, 7, 103):
        A = random.integers(info.min, info.max, n, dtype, endpoint=True) | np.array(1, dtype)
        O = np.zeros(4, dtype)
        kernel(A, O)
        values = [int(v) for v in A]
        product = 1
        for v in values:
            product = product * v % 2**64
        expected = [sum(values), product, sum(values), -sum(v * v for v in values)]
        assert [int(v) % 2**info.bits for v in O] == [v % 2**info.bits for v in expected], (dtype, n)
