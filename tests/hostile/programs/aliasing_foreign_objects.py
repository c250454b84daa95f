"""Memory that comes twice under different objects: an array and a memoryview of it, DLPack, a ctypes array."""

# expect: ok
import ctypes

import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def f(A: T.Buffer(("n",), "int32"), B: T.Buffer(("n",), "int32")):
    for i in T.parallel(n):
        B[i] = A[i] * 2 + 1


class Exported:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: object) -> object:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


kernel = tl.build(f)
right = np.arange(1, 41, dtype="int32")
for i in range(39):
    right[i + 1] = np.int64(right[i]) * 2 + 1 if right[i] < 2**30 else (int(right[i]) * 2 + 1 + 2**31) % 2**32 - 2**31
for turn in range(20):
    memory = np.arange(1, 41, dtype="int32")
    pairs = [
        (memory[:-1], memoryview(memory)[1:]),
        (Exported(memory[:-1]), memory[1:]),
        (memoryview(memory)[:-1], Exported(memory[1:])),
    ]
    kernel(*pairs[turn % 3])
    assert np.array_equal(memory, right), (turn, memory, right)
raw = (ctypes.c_int32 * 40)(*range(1, 41))
kernel(np.frombuffer(raw, "int32")[:-1], np.frombuffer(raw, "int32")[1:])
assert list(raw) == right.tolist()
