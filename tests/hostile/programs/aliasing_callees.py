"""Functions called with one array twice, with parts of one array, with an array of their caller's own."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import ir as I
from tirlower.script import tir as T


@I.ir_module
class Module:
    @T.prim_func(private=True)
    def push(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (8,), "int32")
        B = T.match_buffer(b, (8,), "int32")
        for i in T.parallel(7):
            B[i + 1] = A[i] + 1

    @T.prim_func(private=True)
    def twice(a: T.handle):
        A = T.match_buffer(a, (8,), "int32")
        Module.push(A.data, A.data)

    @T.prim_func
    def f(A: T.Buffer((24,), "int32"), B: T.Buffer((8,), "int32")):
        T.func_attr({"global_symbol": "f"})
        L = T.alloc_buffer((8,), "int32")
        for i in range(8):
            L[i] = 100 + i
        Module.push(T.address_of(A[0]), T.address_of(A[0]))
        Module.push(T.address_of(A[8]), T.address_of(A[12]))
        Module.push(T.address_of(A[0]), T.address_of(A[16]))
        Module.push(A.data, B.data)
        Module.push(L.data, L.data)
        Module.twice(L.data)
        for i in range(4):
            B[i] = B[i] + L[i * 2 + 1]


def push(a: np.ndarray, b: np.ndarray) -> None:
    for i in range(7):
        b[i + 1] = a[i] + 1


def right(a: np.ndarray, b: np.ndarray) -> None:
    own = np.arange(100, 108, dtype="int32")
    push(a[:8], a[:8])
    push(a[8:16], a[12:20])
    push(a[:8], a[16:])
    push(a[:8], b)
    push(own, own)
    push(own, own)
    for i in range(4):
        b[i] += own[i * 2 + 1]


kernel = tl.build(Module)["f"]
for at in (40, 0, 3, 8, 16):
    memory = np.arange(5, 60, dtype="int32")
    expected = memory.copy()
    right(expected[:24], expected[at : at + 8])
    for _ in range(20):
        got = memory.copy()
        kernel(got[:24], got[at : at + 8])
        assert np.array_equal(got, expected), at
