from __future__ import annotations

import numpy as np
import pytest

from tirlower.diagnostics import InterpreterError
from tirlower.interp import interpret
from tirlower.script import tir as T


def test_fragments_compute_a_product_once_per_warp():
    @T.prim_func
    def kernel(A: T.Buffer((16, 16), "float16"), B: T.Buffer((16, 16), "float16"), C: T.Buffer((16, 16), "float32")):
        for _tx in T.thread_binding(32, thread="threadIdx.x"):
            a = T.alloc_buffer((16, 16), "float16", scope="wmma.matrix_a")
            b = T.alloc_buffer((16, 16), "float16", scope="wmma.matrix_b")
            c = T.alloc_buffer((16, 16), "float32", scope="wmma.accumulator")
            T.evaluate(T.tvm_fill_fragment(c.data, 16, 16, 16, 0, T.float32(1)))
            T.evaluate(T.tvm_load_matrix_sync(a.data, 16, 16, 16, 0, T.address_of(A[0, 0]), 16, "row_major"))
            T.evaluate(T.tvm_load_matrix_sync(b.data, 16, 16, 16, 0, T.address_of(B[0, 0]), 16, "col_major"))
            for _k in range(2):
                T.evaluate(T.tvm_mma_sync(c.data, 0, a.data, 0, b.data, 0, c.data, 0))
            T.evaluate(T.tvm_store_matrix_sync(c.data, 16, 16, 16, 0, T.address_of(C[0, 0]), 16, "row_major"))

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (16, 16)).astype(np.float16) for _ in range(2))
    c = np.zeros((16, 16), np.float32)
    interpret(kernel, a, b, c)
    np.testing.assert_array_equal(c, 1 + 2 * (a.astype(np.float32) @ b.astype(np.float32).T))


def test_a_fragment_without_contents():
    @T.prim_func
    def kernel(C: T.Buffer((16, 16), "float32")):
        a = T.alloc_buffer((16, 16), "float16", scope="wmma.matrix_a")
        c = T.alloc_buffer((16, 16), "float32", scope="wmma.accumulator")
        T.evaluate(T.tvm_mma_sync(c.data, 0, a.data, 0, a.data, 0, c.data, 0))

    with pytest.raises(InterpreterError, match="fragment 0 of 'a' is used before it is filled"):
        interpret(kernel, np.zeros((16, 16), np.float32))


def test_asynchronous_copies():
    @T.prim_func
    def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            s = T.alloc_buffer((64,), "float32", scope="shared")
            T.evaluate(T.ptx_cp_async("float32", s.data, tx * 4, A.data, tx * 4, 16))
            T.evaluate(T.ptx_commit_group())
            T.evaluate(T.ptx_wait_group(0))
            T.evaluate(T.tvm_storage_sync("shared"))
            for i in range(4):
                B[tx * 4 + i] = s[63 - tx * 4 - i]

    a, b = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    interpret(kernel, a, b)
    np.testing.assert_array_equal(b, a[::-1])
