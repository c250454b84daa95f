"""Moves of 8 x 8 matrices between shared memory and the lanes of a warp."""

from __future__ import annotations

import numpy as np
import pytest

from tirlower.diagnostics import InterpreterError, UnboundError
from tirlower.interp import interpret
from tirlower.script import parse


def load_kernel(num, trans):
    return parse(f"""
@T.prim_func
def kernel(A: T.Buffer(({8 * num}, 8), "float16"), R: T.Buffer((32, {2 * num}), "float16")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        s = T.alloc_buffer(({8 * num}, 16), "float16", scope="shared")
        r = T.alloc_buffer(({2 * num + 2},), "float16", scope="local")
        for j in range({num}):
            for i in range(2):
                s[j * 8 + tx // 4, (tx % 4) * 2 + i] = A[j * 8 + tx // 4, (tx % 4) * 2 + i]
        T.tvm_storage_sync("shared")
        T.ptx_ldmatrix("float16", {trans}, {num}, ".b16", r.data, 2, s.data, (tx % {8 * num}) * 16)
        for i in range({2 * num}):
            R[tx, i] = r[i + 2]
""")


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("num", [1, 2, 4])
def test_each_lane_gets_its_elements(num, trans, seed):
    a = np.arange(64 * num).reshape(8 * num, 8).astype(np.float16)
    r = np.zeros((32, 2 * num), np.float16)
    interpret(load_kernel(num, trans), a, r, seed=seed, races=True)
    for lane in range(32):
        for j in range(num):
            part = a[8 * j : 8 * j + 8]
            part = part.T if trans else part
            assert r[lane, 2 * j : 2 * j + 2].tolist() == part[lane // 4, 2 * (lane % 4) :][:2].tolist()


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("num", [1, 2, 4])
def test_a_store_undoes_a_load(num, trans):
    kernel = parse(f"""
@T.prim_func
def kernel(A: T.Buffer(({8 * num}, 8), "float16"), B: T.Buffer(({8 * num}, 8), "float16")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        r = T.alloc_buffer(({2 * num},), "float16", scope="local")
        T.ptx_ldmatrix("float16", {trans}, {num}, ".b16", r.data, 0, A.data, (tx % {8 * num}) * 8)
        T.ptx_stmatrix("float16", {trans}, {num}, ".b16", B.data, (tx % {8 * num}) * 8, r.data, 0)
""")
    a = np.random.default_rng(0).standard_normal((8 * num, 8)).astype(np.float16)
    b = np.zeros_like(a)
    interpret(kernel, a, b, races=True)
    np.testing.assert_array_equal(a, b)


def test_a_missing_barrier_before_a_load_is_a_race():
    kernel = parse(load_kernel(1, False).script().replace('        T.tvm_storage_sync("shared")\n', ""))
    with pytest.raises(InterpreterError, match="data race on 's'"):
        interpret(kernel, np.zeros((8, 8), np.float16), np.zeros((32, 2), np.float16), races=True)


def test_fill_and_store_make_a_matrix():
    kernel = parse("""
@T.prim_func
def kernel(C: T.Buffer((20, 24), "float32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        c = T.alloc_buffer((10,), "float32", scope="local")
        T.mma_fill("float32", 8, c.data, 2)
        for i in range(8):
            c[2 + i] = c[2 + i] + T.Cast("float32", tx * 8 + i)
        T.mma_store("float32", 16, 16, C.access_ptr("w", offset=24), c.data, 2, 24)
""")
    c = np.full((20, 24), -1, np.float32)
    interpret(kernel, c, races=True)
    want = np.full((20, 24), -1, np.float32)
    # Two fragments of 16 x 8: rows by lane // 4, pairs of columns by lane % 4.
    for lane in range(32):
        for i in range(8):
            half, row, column = i // 4, lane // 4 + (8 if i % 4 >= 2 else 0), lane % 4 * 2 + i % 2
            want[1 + row, 8 * half + column] = lane * 8 + i
    np.testing.assert_array_equal(c, want)


WRONG = {
    "a row that is not aligned": ("s.data, tx * 8 + 1", "4", "no multiple of 16"),
    "three matrices": ("s.data, tx * 8", "3", "1, 2 or 4 matrices"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_a_device_refuses(name):
    address, num, message = WRONG[name]
    kernel = parse(f"""
@T.prim_func
def kernel(s: T.Buffer((512,), "float16")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        r = T.alloc_buffer((8,), "float16", scope="local")
        T.ptx_ldmatrix("float16", False, {num}, ".b16", r.data, 0, {address})
""")
    with pytest.raises(InterpreterError, match=message):
        interpret(kernel, np.zeros(512, np.float16))


def test_unwritten_rows_stay_unwritten_in_registers():
    kernel = parse(
        """
@T.prim_func
def kernel(R: T.Buffer((32,), "float16")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        s = T.alloc_buffer((64,), "float16", scope="shared")
        r = T.alloc_buffer((2,), "float16", scope="local")
        if tx < 8:
            s[tx] = T.float16(1)
        T.tvm_storage_sync("shared")
        T.ptx_ldmatrix("float16", False, 1, ".b16", r.data, 0, s.data, (tx % 8) * 8)
        if tx < READ:
            R[tx] = r[1]
""".replace("READ", "4")
    )
    r = np.zeros(32, np.float16)
    interpret(kernel, r)
    assert r.tolist() == [1] * 4 + [0] * 28
    with pytest.raises(UnboundError, match="read before it is written"):
        interpret(parse(kernel.script().replace("if tx < 4", "if tx < 5")), r)


def test_a_row_that_a_lane_names_is_read_by_others():
    # Each of 8 lanes writes the row that it names itself; the lanes that get its elements are others.
    kernel = parse(
        """
@T.prim_func
def kernel(R: T.Buffer((32, 2), "float16")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        s = T.alloc_buffer((64,), "float16", scope="shared")
        if tx < 8:
            for i in range(8):
                s[tx * 8 + i] = T.Cast("float16", tx)
        SYNC
        T.ptx_ldmatrix("float16", False, 1, ".b16", R.data, tx * 2, s.data, (tx % 8) * 8)
""".replace("SYNC", "T.ptx_syncwarp(T.uint32(0xFFFFFFFF))")
    )
    r = np.zeros((32, 2), np.float16)
    interpret(kernel, r, races=True)
    assert (r == np.arange(32)[:, None] // 4).all()
    bare = parse(kernel.script().replace("        T.ptx_syncwarp(T.uint32(4294967295))\n", ""))
    with pytest.raises(InterpreterError, match="data race on 's'"):
        interpret(bare, r, races=True)


GEMM = """
@T.prim_func
def gemm(A: T.Buffer((32, 64), "float16"), B: T.Buffer((64, 16), "float16"), C: T.Buffer((32, 16), "float32")):
    for ty in T.thread_binding(2, thread="threadIdx.y"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            sa = T.alloc_buffer((2, 32, 16), "float16", scope="shared")
            sb = T.alloc_buffer((2, 16, 16), "float16", scope="shared")
            a = T.alloc_buffer((8,), "float16", scope="local")
            b = T.alloc_buffer((8,), "float16", scope="local")
            c = T.alloc_buffer((8,), "float32", scope="local")
            T.mma_fill("float32", 8, c.data, 0)
            for k in range(5):
                if k < 4:
                    T.ptx_cp_async("float16", sa.data, k % 2 * 512 + ty * 256 + tx * 8,
                                   A.data, (ty * 16 + tx // 2) * 64 + k * 16 + tx % 2 * 8, 16)
                    if ty == 0:
                        T.ptx_cp_async("float16", sb.data, k % 2 * 256 + tx * 8,
                                       B.data, (k * 16 + tx // 2) * 16 + tx % 2 * 8, 16)
                T.ptx_commit_group()
                if k > 0:
                    T.ptx_wait_group(1)
                    T.tvm_storage_sync("shared")
                    T.ptx_ldmatrix("float16", False, 4, ".b16", a.data, 0,
                                   sa.data, (k - 1) % 2 * 512 + (ty * 16 + tx % 16) * 16 + tx // 16 * 8)
                    T.ptx_ldmatrix("float16", True, 4, ".b16", b.data, 0,
                                   sb.data, (k - 1) % 2 * 256 + tx % 16 * 16 + tx // 16 * 8)
                    for j in range(2):
                        T.ptx_mma("float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", a.data, 0, b.data, j * 4,
                                  c.data, j * 4, False)
                    T.tvm_storage_sync("shared")
            T.mma_store("float32", 16, 16, C.access_ptr("w", offset=ty * 256), c.data, 0, 16)
"""


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_a_product_through_copies_fragments_and_stores(seed):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-8, 9, (32, 64)).astype(np.float16), rng.integers(-8, 9, (64, 16)).astype(np.float16)
    c = np.zeros((32, 16), np.float32)
    interpret(parse(GEMM), a, b, c, seed=seed, races=True)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def test_the_product_without_its_last_barrier_is_a_race():
    text = GEMM.replace(
        'c.data, j * 4, False)\n                    T.tvm_storage_sync("shared")\n', "c.data, j * 4, False)\n"
    )
    assert text != GEMM
    rng = np.random.default_rng(0)
    arrays = [
        rng.random(shape).astype(kind)
        for shape, kind in (((32, 64), "float16"), ((64, 16), "float16"), ((32, 16), "float32"))
    ]
    with pytest.raises(InterpreterError, match=r"data race on 's[ab]'"):
        interpret(parse(text), *arrays, races=True)
