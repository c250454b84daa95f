from __future__ import annotations

import threading

import numpy as np
import pytest

from tirlower.diagnostics import InterpreterError
from tirlower.interp import interpret
from tirlower.script import parse
from tirlower.script import tir as T

SEEDS = range(6)


def _reverse(with_barrier: bool):
    @T.prim_func
    def bare(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            s = T.alloc_buffer((16,), "int32", scope="shared")
            s[tx] = A[tx]
            B[tx] = s[15 - tx]

    @T.prim_func
    def ordered(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            s = T.alloc_buffer((16,), "int32", scope="shared")
            s[tx] = A[tx]
            T.evaluate(T.tvm_storage_sync("shared"))
            B[tx] = s[15 - tx]

    return ordered if with_barrier else bare


@pytest.mark.parametrize("seed", SEEDS)
def test_a_barrier_orders_every_interleaving(seed: int) -> None:
    a, b = np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
    interpret(_reverse(True), a, b, seed=seed)
    assert b.tolist() == a[::-1].tolist()


def test_a_missing_barrier_is_seen() -> None:
    a, b = np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
    interpret(_reverse(False), a, b)  # lockstep hides it
    assert b.tolist() == a[::-1].tolist()
    with pytest.raises(InterpreterError, match="before it is written"):
        interpret(_reverse(False), a, b, seed=0)


def test_one_seed_is_one_order() -> None:
    @T.prim_func
    def last(B: T.Buffer((1,), "int32")):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            B[0] = tx

    def run(seed: int) -> int:
        b = np.zeros(1, np.int32)
        interpret(last, b, seed=seed)
        return int(b[0])

    found = [run(seed) for seed in range(8)]
    assert found == [run(seed) for seed in range(8)]
    assert len(set(found)) > 1


@pytest.mark.parametrize("seed", SEEDS)
def test_two_axes_loops_and_shuffles(seed: int) -> None:
    @T.prim_func
    def kernel(A: T.Buffer((2, 4, 8), "int32"), B: T.Buffer((2, 4, 8), "int32")):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for ty in T.thread_binding(4, thread="threadIdx.y"):
                for tx in T.thread_binding(8, thread="threadIdx.x"):
                    s = T.alloc_buffer((4, 8), "int32", scope="shared")
                    for i in range(3):
                        if ty < 2 or i > 0:
                            s[ty, tx] = A[bx, ty, tx] + i
                        else:
                            s[ty, tx] = T.tvm_warp_shuffle(T.uint32(0xFFFF0000), A[bx, ty, tx], 0, 8, 32)
                        T.evaluate(T.tvm_storage_sync("shared"))
                        B[bx, ty, tx] = B[bx, ty, tx] + s[3 - ty, 7 - tx]
                        T.evaluate(T.tvm_storage_sync("shared"))

    a = np.random.default_rng(1).integers(0, 99, (2, 4, 8)).astype(np.int32)
    one, two = np.zeros_like(a), np.zeros_like(a)
    interpret(kernel, a, one)
    interpret(kernel, a, two, seed=seed)
    np.testing.assert_array_equal(one, two)


def test_a_divergent_barrier() -> None:
    @T.prim_func
    def kernel(B: T.Buffer((8,), "int32")):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            if tx < 3:
                T.evaluate(T.tvm_storage_sync("shared"))
            B[tx] = tx

    with pytest.raises(InterpreterError, match="reached by 3 of the 8 threads"):
        interpret(kernel, np.zeros(8, np.int32), seed=1)


def test_threads_that_return() -> None:
    @T.prim_func
    def kernel(B: T.Buffer((8,), "int32")):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            if tx >= 5:
                T.evaluate(T.thread_return())
            T.evaluate(T.tvm_storage_sync("shared"))
            B[tx] = tx + 1

    b = np.zeros(8, np.int32)
    interpret(kernel, b, seed=3)
    assert b.tolist() == [1, 2, 3, 4, 5, 0, 0, 0]


def test_a_reduction_and_a_while_loop() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((32,), "int32"), B: T.Buffer((1,), "int32")):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            s = T.alloc_buffer((32,), "int32", scope="shared")
            step = T.alloc_buffer((1,), "int32", scope="local")
            step[0] = 16
            s[tx] = A[tx]
            while step[0] > 0:
                T.evaluate(T.tvm_storage_sync("shared"))
                if tx < step[0]:
                    s[tx] = s[tx] + s[tx + step[0]]
                step[0] = step[0] // 2
            if tx == 0:
                B[0] = s[0]

    a = np.arange(32, dtype=np.int32)
    for seed in SEEDS:
        b = np.zeros(1, np.int32)
        interpret(kernel, a, b, seed=seed, races=True)
        assert b[0] == a.sum()


def test_an_error_in_one_thread_ends_them_all() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((8,), "int32"), B: T.Buffer((4,), "int32")):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            T.evaluate(T.tvm_storage_sync("shared"))
            B[tx] = A[tx]

    with pytest.raises(IndexError, match="out of bounds"):
        interpret(kernel, np.zeros(8, np.int32), np.zeros(4, np.int32), seed=2)


# ---------------------------------------------------------------- waits, polls and deadlocks

HANDOVER = """
@T.prim_func
def handover(B: T.Buffer((32,), "int32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        s = T.alloc_buffer((32,), "int32", scope="shared")
        T.create_barriers(1)
        if tx == 0:
            T.ptx_init_barrier_thread_count(0, 32)
        T.tvm_storage_sync("shared")
        if tx < 32:
            T.ptx_wait_barrier(0, 0)
            B[tx] = s[31 - tx]
        else:
            s[tx - 32] = tx
            ARRIVE
"""


@pytest.mark.parametrize("seed", [None, *SEEDS])
def test_warps_that_wait_let_others_run(seed: int | None) -> None:
    b = np.zeros(32, np.int32)
    interpret(parse(HANDOVER.replace("ARRIVE", "T.ptx_arrive_barrier(0)")), b, seed=seed, races=True)
    assert b.tolist() == list(range(63, 31, -1))


@pytest.mark.parametrize("seed", [None, 1])
def test_a_wait_for_what_never_comes(seed: int | None) -> None:
    with pytest.raises(InterpreterError, match=r"deadlock: .* 32 wait for a phase of a barrier object") as caught:
        interpret(parse(HANDOVER.replace("ARRIVE", "T.evaluate(0)")), np.zeros(32, np.int32), seed=seed)
    assert "0 of 32 arrivals have come" in str(caught.value)
    assert "T.ptx_wait_barrier(0, 0)" in str(caught.value)


def test_a_barrier_for_which_some_can_never_come() -> None:
    text = HANDOVER.replace("ARRIVE", 'T.tvm_storage_sync("shared")')
    with pytest.raises(InterpreterError, match=r"deadlock: .*32 wait at a barrier|reached by 32 of the 64"):
        interpret(parse(text), np.zeros(32, np.int32))


POLLING = """
@T.prim_func
def chain(F: T.Buffer((1,), "int32"), B: T.Buffer((8,), "int32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        turn = T.alloc_buffer((1,), "int32", scope="local")
        turn[0] = -1
        while turn[0] != ORDER:
            turn[0] = T.atomic_add(T.address_of(F[0]), 0, "acquire")
        B[turn[0]] = tx
        T.evaluate(T.atomic_add(T.address_of(F[0]), 1, "release"))
"""


@pytest.mark.parametrize("seed", [None, *SEEDS])
def test_threads_that_poll_take_turns(seed: int | None) -> None:
    b = np.zeros(8, np.int32)
    interpret(parse(POLLING.replace("ORDER", "7 - tx")), np.zeros(1, np.int32), b, seed=seed, races=True)
    assert b.tolist() == list(range(8))[::-1]


def test_threads_that_poll_for_ever() -> None:
    with pytest.raises(InterpreterError, match=r"deadlock: .*7 poll memory"):
        interpret(parse(POLLING.replace("ORDER", "tx * 2")), np.zeros(1, np.int32), np.zeros(8, np.int32))


def test_no_thread_of_python_is_left() -> None:
    before = threading.active_count()
    interpret(_reverse(True), np.arange(16, dtype=np.int32), np.zeros(16, np.int32), seed=1)
    with pytest.raises(InterpreterError):
        interpret(_reverse(False), np.arange(16, dtype=np.int32), np.zeros(16, np.int32), seed=0)
    assert threading.active_count() == before
