from __future__ import annotations

import numpy as np
import pytest

from tirlower.diagnostics import InterpreterError
from tirlower.interp import interpret
from tirlower.script import parse
from tirlower.script import tir as T


def test_elementwise_kernel():
    @T.prim_func
    def kernel(A: T.Buffer((100,), "float32"), B: T.Buffer((100,), "float32")):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                if bx * 32 + tx < 100:
                    B[bx * 32 + tx] = A[bx * 32 + tx] + 1.0

    a, b = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    interpret(kernel, a, b)
    np.testing.assert_array_equal(b, a + 1)


def test_shared_memory_is_one_for_a_block_and_fresh_for_each():
    @T.prim_func
    def reverse(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for ty in T.thread_binding(2, thread="threadIdx.y"):
                for tx in T.thread_binding(8, thread="threadIdx.x"):
                    tile = T.alloc_buffer((16,), "int32", scope="shared")
                    mine = T.alloc_buffer((1,), "int32", scope="local")
                    mine[0] = A[bx * 16 + ty * 8 + tx]
                    tile[ty * 8 + tx] = mine[0] * 2
                    T.evaluate(T.tvm_storage_sync("shared"))
                    B[bx * 16 + ty * 8 + tx] = tile[15 - ty * 8 - tx]

    a, b = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    interpret(reverse, a, b)
    np.testing.assert_array_equal(b.reshape(4, 16), a.reshape(4, 16)[:, ::-1] * 2)


def test_virtual_threads_share_what_lies_outside_them():
    @T.prim_func
    def kernel(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        for _bx in T.thread_binding(1, thread="blockIdx.x"):
            tile = T.alloc_buffer((16,), "int32", scope="shared")
            for vx in T.thread_binding(2, thread="vthread.x"):
                for tx in T.thread_binding(8, thread="threadIdx.x"):
                    own = T.alloc_buffer((8,), "int32", scope="shared")
                    tile[vx * 8 + tx] = A[vx * 8 + tx]
                    own[tx] = vx
                    T.evaluate(T.tvm_storage_sync("shared"))
                    B[vx * 8 + tx] = tile[15 - vx * 8 - tx] + own[7 - tx] * 100

    a, b = np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
    interpret(kernel, a, b)
    assert b.tolist() == [15 - i + (i // 8) * 100 for i in range(16)]


def test_a_barrier_that_some_threads_miss():
    @T.prim_func
    def kernel(B: T.Buffer((8,), "int32")):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            if tx < 3:
                T.evaluate(T.tvm_storage_sync("shared"))
            B[tx] = tx

    with pytest.raises(InterpreterError, match="reached by 3 of the 8 threads"):
        interpret(kernel, np.zeros(8, np.int32))


def test_threads_that_return_do_not_count():
    @T.prim_func
    def kernel(B: T.Buffer((8,), "int32")):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            if tx >= 5:
                T.evaluate(T.thread_return())
            T.evaluate(T.tvm_storage_sync("shared"))
            B[tx] = tx + 1

    b = np.zeros(8, np.int32)
    interpret(kernel, b)
    assert b.tolist() == [1, 2, 3, 4, 5, 0, 0, 0]


def test_sibling_and_nested_loops_of_one_axis():
    @T.prim_func
    def kernel(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for _bx in T.thread_binding(1, thread="blockIdx.x"):
            t = T.alloc_buffer((8,), "int32", scope="shared")
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                t[tx] = A[tx]
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                B[tx] = t[7 - tx]

    a, b = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    interpret(kernel, a, b)
    assert b.tolist() == a[::-1].tolist()


def test_warp_shuffles():
    @T.prim_func
    def kernel(
        A: T.Buffer((64,), "int32"),
        S: T.Buffer((64,), "int32"),
        D: T.Buffer((64,), "int32"),
        X: T.Buffer((64,), "int32"),
    ):
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            mask: T.let[T.uint32] = T.tvm_warp_activemask()
            S[tx] = A[tx] + T.tvm_warp_shuffle_down(mask, A[tx], 4, 32, 32)
            D[tx] = T.tvm_warp_shuffle_up(mask, A[tx], 1, 8, 32)
            X[tx] = T.tvm_warp_shuffle(mask, A[tx], 3, 16, 32)

    a = np.random.default_rng(0).integers(0, 100, 64).astype(np.int32)
    s, d, x = (np.zeros(64, np.int32) for _ in range(3))
    interpret(kernel, a, s, d, x)
    for i in range(64):
        assert s[i] == a[i] + (a[i + 4] if i % 32 < 28 else a[i])
        assert d[i] == (a[i - 1] if i % 8 else a[i])
        assert x[i] == a[i // 16 * 16 + 3]


def test_butterfly_reduction_in_a_loop():
    @T.prim_func
    def kernel(A: T.Buffer((32,), "int32"), B: T.Buffer((1,), "int32")):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            acc = T.alloc_buffer((1,), "int32", scope="local")
            acc[0] = A[tx]
            for step in range(5):
                acc[0] = acc[0] + T.tvm_warp_shuffle_down(T.uint32(4294967295), acc[0], T.shift_left(1, step), 32, 32)
            if tx == 0:
                B[0] = acc[0]

    a, b = np.arange(32, dtype=np.int32) ** 2, np.zeros(1, np.int32)
    interpret(kernel, a, b)
    assert b[0] == a.sum()


def test_a_shuffle_with_an_absent_lane():
    @T.prim_func
    def kernel(A: T.Buffer((8,), "int32")):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            if tx < 4:
                A[tx] = T.tvm_warp_shuffle(T.tvm_warp_activemask(), A[tx], 6, 32, 32)

    with pytest.raises(InterpreterError, match="lane 0 shuffles with lane 6"):
        interpret(kernel, np.zeros(8, np.int32))


def test_allreduce_over_an_axis():
    @T.prim_func
    def kernel(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
        for ty in T.thread_binding(4, thread="threadIdx.y"):
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                total = T.alloc_buffer((1,), "float32", scope="local")
                with T.attr(
                    T.comm_reducer(lambda x, y: x + y, [T.float32(0)]),
                    "reduce_scope",
                    T.reinterpret("handle", T.uint64(0)),
                ):
                    T.tvm_thread_allreduce(T.uint32(1), A[ty, tx], tx < 6, total[0], tx)
                if tx == 0:
                    B[ty] = total[0]

    a, b = np.arange(32, dtype=np.float32).reshape(4, 8), np.zeros(4, np.float32)
    interpret(kernel, a, b)
    assert b.tolist() == a[:, :6].sum(1).tolist()


def test_atomics():
    @T.prim_func
    def histogram(A: T.Buffer((32,), "int32"), H: T.Buffer((4,), "int32"), M: T.Buffer((1,), "int32")):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            T.evaluate(T.atomic_add(T.address_of(H[A[tx] % 4]), 1))
            T.evaluate(T.atomic_max(T.address_of(M[0]), A[tx]))

    a = np.random.default_rng(0).integers(0, 50, 32).astype(np.int32)
    h, m = np.zeros(4, np.int32), np.zeros(1, np.int32)
    interpret(histogram, a, h, m)
    assert h.tolist() == np.bincount(a % 4, minlength=4).tolist() and m[0] == a.max()


def test_out_of_bounds_names_the_thread():
    @T.prim_func
    def kernel(A: T.Buffer((100,), "float32")):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                A[bx * 32 + tx] = 0.0

    with pytest.raises(Exception, match="index 100 of dimension 0") as error:
        interpret(kernel, np.zeros(100, np.float32))
    assert "bx = 3, tx = 4" in str(error.value)


# ---------------------------------------------------------------- exchange, votes, barriers of lanes


@pytest.mark.parametrize("seed", [None, 1])
def test_shuffles_by_exclusive_or(seed):
    @T.prim_func
    def kernel(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32")):
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            B[tx] = T.tvm_warp_shuffle_xor(T.uint32(0xFFFFFFFF), A[tx], 5, 32, 32)
            C[tx] = T.tvm_warp_shuffle_xor(T.uint32(0xFFFFFFFF), A[tx], 8, 8, 32)

    a = np.random.default_rng(0).integers(0, 100, 64).astype(np.int32)
    b, c = np.zeros(64, np.int32), np.zeros(64, np.int32)
    interpret(kernel, a, b, c, seed=seed)
    assert b.tolist() == [a[i ^ 5] for i in range(64)]
    # Beyond its segment of 8 a lane reads earlier lanes, and its own value instead of later ones.
    assert c.tolist() == [a[i ^ 8] if i & 8 else a[i] for i in range(64)]


@pytest.mark.parametrize("seed", [None, 1])
def test_a_butterfly_sum(seed):
    @T.prim_func
    def kernel(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            acc = T.alloc_buffer((1,), "float32", scope="local")
            acc[0] = A[tx]
            for step in range(5):
                acc[0] = acc[0] + T.tvm_warp_shuffle_xor(T.uint32(0xFFFFFFFF), acc[0], T.shift_left(1, step), 32, 32)
            B[tx] = acc[0]

    a, b = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    interpret(kernel, a, b, seed=seed)
    assert (b == a.sum()).all()


@pytest.mark.parametrize("seed", [None, 1])
def test_votes(seed):
    @T.prim_func
    def kernel(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "uint32"), C: T.Buffer((64, 2), "bool")):
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            B[tx] = T.ptx_vote_ballot(T.uint32(0xFFFFFFFF), A[tx] > 4)
            if tx % 2 == 0:
                C[tx, 0] = T.ptx_vote_any(T.uint32(0x55555555), A[tx] > 8)
                C[tx, 1] = T.ptx_vote_all(T.uint32(0x55555555), A[tx] > 0)
            else:
                C[tx, 0] = T.ptx_vote_any(T.uint32(0xAAAAAAAA), A[tx] > 8)
                C[tx, 1] = T.ptx_vote_all(T.uint32(0xAAAAAAAA), A[tx] > 0)

    for draw in range(4):
        a = np.random.default_rng(draw).integers(draw // 2, 9 + draw % 2, 64).astype(np.int32)
        b, c = np.zeros(64, np.uint32), np.zeros((64, 2), bool)
        interpret(kernel, a, b, c, seed=seed)
        for i in range(64):
            warp = a[i // 32 * 32 :][:32]
            assert b[i] == sum(1 << lane for lane in range(32) if warp[lane] > 4)
            assert c[i].tolist() == [(warp[i % 2 :: 2] > 8).any(), (warp[i % 2 :: 2] > 0).all()]


def _vote(mask: str, threads: int = 32, condition: str = "True") -> np.ndarray:
    kernel = parse(f"""
@T.prim_func
def kernel(B: T.Buffer(({threads},), "uint32")):
    for tx in T.thread_binding({threads}, thread="threadIdx.x"):
        if {condition}:
            B[tx] = T.ptx_vote_ballot(T.uint32({mask}), True)
""")
    b = np.zeros(threads, np.uint32)
    interpret(kernel, b)
    return b


def test_a_mask_may_name_lanes_that_the_block_does_not_have():
    assert _vote("0xFFFFFFFF", 8).tolist() == [255] * 8


def test_a_vote_that_a_named_lane_does_not_make():
    with pytest.raises(InterpreterError, match="lane 4 does not take part"):
        _vote("0xFFFFFFFF", condition="tx < 4")


def test_a_vote_outside_of_its_mask():
    with pytest.raises(InterpreterError, match="lane 4 makes a vote with the mask 0xf, which does not name it"):
        _vote("0xF")


SYNC = """
@T.prim_func
def kernel(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        s = T.alloc_buffer((64,), "int32", scope="shared")
        s[tx] = A[tx]
        T.ptx_syncwarp(T.uint32(0xFFFFFFFF))
        B[tx] = s[PARTNER]
"""


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_lanes_of_a_warp_meet(seed):
    a, b = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    interpret(parse(SYNC.replace("PARTNER", "tx // 32 * 32 + 31 - tx % 32")), a, b, seed=seed, races=True)
    assert b.tolist() == [i // 32 * 32 + 31 - i % 32 for i in range(64)]


def test_other_warps_do_not():
    with pytest.raises(InterpreterError, match="data race on 's'"):
        interpret(parse(SYNC.replace("PARTNER", "63 - tx")), np.zeros(64, np.int32), np.zeros(64, np.int32), races=True)


@pytest.mark.parametrize("how", [{}, {"seed": 0}, {"seed": 3}, {"races": True}])
def test_memory_of_threads_is_their_own_wherever_it_is_allocated(how):
    @T.prim_func
    def kernel(A: T.Buffer((2, 8), "int32"), B: T.Buffer((2, 8), "int32"), C: T.Buffer((2,), "int32")):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            mine = T.alloc_buffer((2,), "int32", scope="local")
            mine[1] = 5
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                mine[0] = A[bx, tx]
            mine[1] = 7
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                T.evaluate(T.tvm_storage_sync("shared"))
                B[bx, tx] = mine[0] * 10 + mine[1]
            C[bx] = mine[0]

    a = np.arange(16, dtype=np.int32).reshape(2, 8)
    b, c = np.zeros_like(a), np.zeros(2, np.int32)
    interpret(kernel, a, b, c, **how)
    np.testing.assert_array_equal(b, a * 10 + 7)
    np.testing.assert_array_equal(c, a[:, 0])


def test_lanes_around_threads_share_the_memory_of_each_thread():
    @T.prim_func
    def kernel(A: T.Buffer((2, 4), "int32")):
        mine = T.alloc_buffer((2, 4), "int32", scope="local")
        for lane in T.vectorized(2):
            for tx in T.thread_binding(4, thread="threadIdx.x"):
                mine[lane, tx] = lane * 10 + tx
                A[lane, tx] = mine[lane, tx]

    a = np.zeros((2, 4), np.int32)
    interpret(kernel, a)
    np.testing.assert_array_equal(a, [[0, 1, 2, 3], [10, 11, 12, 13]])
