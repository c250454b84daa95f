"""Sums, products, negations, absolute values and shifts of what is passed wrap before they are compared."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def branches(x: T.int32, y: T.int32, O: T.Buffer((10,), "int32")):
    for i in range(10):
        O[i] = 0
    if x + 10 < 26:
        O[0] = 1
    if x * 4 // 4 == x:
        O[1] = 1
    if -x < 0:
        O[2] = 1
    if T.abs(x) >= 0:
        O[3] = 1
    if (x << 3) // 8 == x:
        O[4] = 1
    if x - y < 0:
        O[5] = 1
    if x + y < y:
        O[6] = 1
    if x // -1 > 0:
        O[7] = 1
    if T.Cast("int16", x) + T.int16(1) > T.int16(0):
        O[8] = 1
    z: T.int32 = x + 1
    if z > x:
        O[9] = 1


def expected(x: int, y: int) -> list[int]:
    with np.errstate(all="ignore"):
        a, b = np.array([x], "int32"), np.array([y], "int32")
        four, eight = np.array([4], "int32"), np.array([8], "int32")
        tests = (
            a + np.int32(10) < 26,
            a * four // 4 == a,
            -a < 0,
            np.abs(a) >= 0,
            a * eight // 8 == a,
            a - b < 0,
            a + b < b,
            np.where(a == -(2**31), a, -a) > 0,
            a.astype("int16") + np.int16(1) > 0,
            a + np.int32(1) > a,
        )
    return [int(test[0]) for test in tests]


kernel = tl.build(branches)
ends = [-(2**31), -(2**31) + 1, -(2**30), -32768, -7, -1, 0, 1, 7, 15, 16, 32767, 2**28, 2**29, 2**30, 2**31 - 11]
ends += [2**31 - 10, 2**31 - 2, 2**31 - 1]
for x in ends:
    for y in ends:
        out = np.zeros(10, "int32")
        kernel(x, y, out)
        assert out.tolist() == expected(x, y), (x, y, out.tolist(), expected(x, y))
        seen = np.zeros(10, "int32")
        tl.interpret(branches, x, y, seen)
        assert seen.tolist() == out.tolist(), (x, y)
