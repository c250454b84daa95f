"""Extents that wrap, of loops that unrolling looks at, and unsigned sums in conditions, near the ends of their types."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def below(x: T.int32, O: T.Buffer((4,), "int32")):
    for i in range(1, T.min(T.int32(-2147483648) - x, 3)):
        O[i] = i + 5


@T.prim_func
def loaded(X: T.Buffer((1,), "int32"), O: T.Buffer((4,), "int32")):
    for i in range(1, T.min(T.int32(2147483647) + X[0], 3)):
        O[i] = i + 5


@T.prim_func
def unsigned(X: T.Buffer((1,), "uint64"), O: T.Buffer((4,), "int32")):
    if 3 + X[0] >= 3:
        O[1] = 6
    if X[0] + T.uint64(9223372036854775807) >= T.uint64(9223372036854775807):
        O[2] = 7
    if T.Cast("int64", X[0]) >= T.int64(0):
        O[3] = 8


def near(kernel, first, stop):
    out = np.zeros(4, "int32")
    kernel(first, out)
    want = [i + 5 if 1 <= i < min(stop, 3) else 0 for i in range(4)]
    assert out.tolist() == want, (first, out, want)


def wrapped(value):
    return (value + 2**31) % 2**32 - 2**31


values = [10, 5, 1, 0, -1, -5, 2**31 - 1, -(2**31)]
kernels = [tl.build(f) for f in (below, loaded, unsigned)]
for x in values:
    near(kernels[0], x, wrapped(-(2**31) - x))
    near(kernels[1], np.array([x], "int32"), wrapped(2**31 - 1 + x))
for x in (0, 5, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 3, 2**64 - 4, 2**64 - 1):
    out = np.zeros(4, "int32")
    kernels[2](np.array([x], "uint64"), out)
    most = 2**63 - 1
    assert out.tolist() == [0, 6 * ((x + 3) % 2**64 >= 3), 7 * ((x + most) % 2**64 >= most), 8 * (x < 2**63)], (x, out)
