"""Narrowing conversions change values: of passed and loaded ones, of loop variables, in vectors with falling lanes."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def falling(A: T.Buffer((512,), "int32"), B: T.Buffer((8,), "int32")):
    for i in T.vectorized(4):
        B[i] = A[T.Cast("int32", T.Cast("uint8", 4 - i))]
    for i in T.vectorized(4):
        B[i + 4] = A[T.Cast("int32", T.Cast("uint8", 1 - i))]


@T.prim_func
def bytes_of(x: T.int32, A: T.Buffer((256,), "int32"), B: T.Buffer((3,), "int32")):
    B[0] = A[T.Cast("uint8", x)]
    if T.Cast("int8", x) >= T.int8(0):
        B[1] = A[T.Cast("int8", x)]
    if T.Cast("int32", T.Cast("int16", x)) == x and x >= 0 and x < 256:
        B[2] = A[x]


@T.prim_func
def of_a_loop(n: T.int32, A: T.Buffer((256,), "int32"), B: T.Buffer((1,), "int32")):
    for i in range(n):
        B[0] = B[0] + A[T.Cast("int32", T.Cast("uint8", i * 3))]


data, out = np.arange(512, dtype="int32") * 7 + 2, np.zeros(8, "int32")
tl.build(falling)(data, out)
assert out.tolist() == [data[at % 256] for at in (4, 3, 2, 1, 1, 0, -1, -2)]
table = np.arange(256, dtype="int32") * 5 + 1
kernel, loop = tl.build(bytes_of), tl.build(of_a_loop)
for x in (-(2**31), -32769, -32768, -129, -128, -1, 0, 1, 127, 128, 255, 256, 300, 32767, 32768, 65536 + 3, 2**31 - 1):
    got = np.full(3, -7, "int32")
    kernel(x, table, got)
    byte = (x + 128) % 256 - 128
    assert got.tolist() == [table[x % 256], table[byte] if byte >= 0 else -7, table[x] if 0 <= x < 256 else -7], x
total = np.zeros(1, "int32")
loop(700, table, total)
assert total[0] == sum(int(table[i * 3 % 256]) for i in range(700))
