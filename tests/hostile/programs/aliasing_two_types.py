"""One memory as two types: as bytes and as numbers, as parts of numbers, as floats and their bits."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def digits(A: T.Buffer((6,), "uint32"), B: T.Buffer((24,), "uint8")):
    for i in T.parallel(24):
        B[i] = T.Cast("uint8", A[i // 4] % T.uint32(251))


@T.prim_func
def bits(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "float32")):
    for i in T.vectorized(8):
        B[i] = B[i] + 1
        C[i] = A[i] * 2.0


kernel = tl.build(digits)
memory = np.random.default_rng(3).integers(0, 256, 48).astype("uint8")
for start in (0, 3, 16, 17):
    got, right = memory.copy(), memory.copy()
    numbers = right[:24].view("uint32")
    for i in range(24):
        right[start + i : start + i + 1] = np.uint8(numbers[i // 4] % 251)
    kernel(got[:24].view("uint32"), got[start : start + 24])
    assert np.array_equal(got, right), start

both = tl.build(bits)
data = np.arange(1, 9, dtype="float32")
right = (data.view("int32") + 1).view("float32") * np.float32(2)
out = np.zeros(8, "float32")
both(data, data.view("int32"), out)
assert np.array_equal(out, right)
