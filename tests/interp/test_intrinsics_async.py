"""Asynchronous copies: what a wait brings, what a missing wait shows, barrier objects and their phases."""

from __future__ import annotations

import numpy as np
import pytest

from tirlower.diagnostics import InterpreterError, UnboundError
from tirlower.interp import interpret
from tirlower.script import parse

SEEDS = [None, 0, 1, 2]


def copy_kernel(*lines, barrier=True, predicate=""):
    """Each of 16 threads copies 16 bytes; then each reads what another has copied."""
    waits = "".join(f"        {line}\n" for line in lines)
    sync = '        T.tvm_storage_sync("shared")\n' if barrier else ""
    return parse(f"""
@T.prim_func
def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for tx in T.thread_binding(16, thread="threadIdx.x"):
        s = T.alloc_buffer((64,), "float32", scope="shared")
        T.ptx_cp_async("float32", s.data, tx * 4, A.data, tx * 4, 16{predicate})
{waits}{sync}        for i in range(4):
            B[tx * 4 + i] = s[63 - tx * 4 - i]
""")


A = np.arange(64, dtype=np.float32)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_copy_that_is_waited_for(seed):
    b = np.zeros(64, np.float32)
    interpret(copy_kernel("T.ptx_commit_group()", "T.ptx_wait_group(0)"), A, b, seed=seed, races=True)
    np.testing.assert_array_equal(b, A[::-1])


def test_the_predicate_makes_zeros():
    b = np.ones(64, np.float32)
    interpret(copy_kernel("T.ptx_commit_group()", "T.ptx_wait_group(0)", predicate=", tx < 3"), A, b)
    np.testing.assert_array_equal(b[::-1], np.where(np.arange(64) < 12, A, 0))


@pytest.mark.parametrize(
    "lines", [(), ("T.ptx_commit_group()",), ("T.ptx_wait_group(0)",), ("T.ptx_commit_group()", "T.ptx_wait_group(1)")]
)
def test_a_missing_wait_reads_what_was_there(lines):
    with pytest.raises(UnboundError, match="read before it is written"):
        interpret(copy_kernel(*lines), A, np.zeros(64, np.float32))


@pytest.mark.parametrize("lines", [(), ("T.ptx_commit_group()", "T.ptx_wait_group(1)")])
def test_a_missing_wait_is_a_race(lines):
    with pytest.raises(InterpreterError, match=r"data race on 's'.*asynchronous copy"):
        interpret(copy_kernel(*lines), A, np.zeros(64, np.float32), races=True)


def test_a_missing_barrier_behind_the_wait_is_a_race():
    kernel = copy_kernel("T.ptx_commit_group()", "T.ptx_wait_group(0)", barrier=False)
    with pytest.raises(InterpreterError, match="data race on 's'"):
        interpret(kernel, A, np.zeros(64, np.float32), races=True)


def test_some_seed_copies_early_and_some_late():
    kernel = parse("""
@T.prim_func
def kernel(A: T.Buffer((4,), "float32"), B: T.Buffer((32,), "float32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        s = T.alloc_buffer((128,), "float32", scope="shared")
        for i in range(4):
            s[tx * 4 + i] = -1.0
        T.ptx_cp_async("float32", s.data, tx * 4, A.data, 0, 16)
        T.ptx_commit_group()
        B[tx] = s[tx * 4]
        T.ptx_wait_group(0)
""")
    seen = set()
    for seed in range(4):
        b = np.zeros(32, np.float32)
        interpret(kernel, np.full(4, 7, np.float32), b, seed=seed)
        seen |= set(b.tolist())
    assert seen == {-1.0, 7.0}


PIPELINE = """
@T.prim_func
def kernel(A: T.Buffer((8, 64), "float32"), B: T.Buffer((64,), "float32")):
    for tx in T.thread_binding(16, thread="threadIdx.x"):
        s = T.alloc_buffer((STAGES, 64), "float32", scope="shared")
        acc = T.alloc_buffer((4,), "float32", scope="local")
        for i in range(4):
            acc[i] = 0.0
        for k in range(STAGES - 1):
            T.ptx_cp_async("float32", s.data, k * 64 + tx * 4, A.data, k * 64 + tx * 4, 16)
            T.ptx_commit_group()
        for k in range(8):
            T.ptx_wait_group(WAIT)
            T.tvm_storage_sync("shared")
            if k + STAGES - 1 < 8:
                T.ptx_cp_async("float32", s.data, (k + STAGES - 1) % STAGES * 64 + tx * 4,
                               A.data, (k + STAGES - 1) * 64 + tx * 4, 16)
            T.ptx_commit_group()
            for i in range(4):
                acc[i] = acc[i] * 2.0 + s[k % STAGES, 63 - tx * 4 - i]
        for i in range(4):
            B[tx * 4 + i] = acc[i]
"""


def pipelined(stages, wait, seed=None, races=False):
    a, b = np.random.default_rng(0).integers(0, 9, (8, 64)).astype(np.float32), np.zeros(64, np.float32)
    interpret(parse(PIPELINE.replace("STAGES", str(stages)).replace("WAIT", str(wait))), a, b, seed=seed, races=races)
    want = np.zeros(64, np.float32)
    for row in a:
        want = want * 2 + row[::-1]
    return b, want


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_a_pipeline_of_stages(stages, seed):
    np.testing.assert_array_equal(*pipelined(stages, stages - 2, seed, races=True))


@pytest.mark.parametrize("stages", [2, 3])
def test_a_pipeline_that_waits_for_too_little(stages):
    with pytest.raises((UnboundError, AssertionError)):
        np.testing.assert_array_equal(*pipelined(stages, stages - 1))
    with pytest.raises(InterpreterError, match="data race on 's'"):
        pipelined(stages, stages - 1, races=True)


def test_a_copy_reads_its_source_as_late_as_it_may():
    kernel = parse("""
@T.prim_func
def kernel(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for _tx in T.thread_binding(1, thread="threadIdx.x"):
        s = T.alloc_buffer((4,), "float32", scope="shared")
        T.ptx_cp_async("float32", s.data, 0, A.data, 0, 16)
        T.ptx_commit_group()
        A[1] = 5.0
        T.ptx_wait_group(0)
        for i in range(4):
            B[i] = s[i]
""")
    b = np.zeros(4, np.float32)
    interpret(kernel, np.ones(4, np.float32), b)
    assert b.tolist() == [1, 5, 1, 1]
    with pytest.raises(InterpreterError, match="data race on 'A'"):
        interpret(kernel, np.ones(4, np.float32), b, races=True)


REFUSED = {
    "a size": ("s.data, 0, A.data, 0, 12", "4, 8 or 16 bytes, got 12"),
    "an unaligned target": ("s.data, 1, A.data, 0, 16", "byte 4 of 's', which is no multiple of 16"),
    "an unaligned source": ("s.data, 0, A.data, 1, 8", "byte 4 of 'A', which is no multiple of 8"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_device_refuses(name):
    text, message = REFUSED[name]
    kernel = parse(f"""
@T.prim_func
def kernel(A: T.Buffer((8,), "float32")):
    for _tx in T.thread_binding(1, thread="threadIdx.x"):
        s = T.alloc_buffer((8,), "float32", scope="shared")
        T.ptx_cp_async("float32", {text})
""")
    with pytest.raises(InterpreterError, match=message):
        interpret(kernel, np.zeros(8, np.float32))


# ---------------------------------------------------------------- barrier objects

PRODUCER = """
@T.prim_func
def kernel(A: T.Buffer((6, 32), "float32"), B: T.Buffer((32,), "float32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        s = T.alloc_buffer((2, 32), "float32", scope="shared")
        T.create_barriers(4)
        if tx == 0:
            for i in range(2):
                T.ptx_init_barrier_thread_count(i, 1)
                T.ptx_init_barrier_thread_count(2 + i, 32)
            T.ptx_fence_barrier_init()
        T.tvm_storage_sync("shared")
        if tx < 32:
            if tx == 0:
                for k in range(6):
                    T.ptx_wait_barrier(2 + k % 2, FREE)
                    T.ptx_arrive_barrier_expect_tx(k % 2, 128)
                    T.ptx_cp_async_bulk("float32", s.data, k % 2 * 32, A.data, k * 32, 128, k % 2)
        else:
            acc = T.alloc_buffer((1,), "float32", scope="local")
            acc[0] = 0.0
            for k in range(6):
                T.ptx_wait_barrier(k % 2, k // 2 % 2)
                acc[0] = acc[0] * 2.0 + s[k % 2, tx - 32]
                T.ptx_arrive_barrier(2 + k % 2)
            B[tx - 32] = acc[0]
"""


def specialized(text, seed=None, races=False):
    a, b = np.random.default_rng(0).integers(0, 9, (6, 32)).astype(np.float32), np.zeros(32, np.float32)
    interpret(parse(text), a, b, seed=seed, races=races)
    want = np.zeros(32, np.float32)
    for row in a:
        want = want * 2 + row
    return b, want


@pytest.mark.parametrize("seed", SEEDS)
def test_a_producer_and_consumers(seed):
    text = PRODUCER.replace("FREE", "(k // 2 + 1) % 2")
    np.testing.assert_array_equal(*specialized(text, seed, races=True))


def test_a_producer_that_does_not_wait_for_consumers():
    text = PRODUCER.replace("                    T.ptx_wait_barrier(2 + k % 2, FREE)\n", "")
    with pytest.raises(InterpreterError, match=r"data race on 's'|more than the expected 1 arrivals"):
        specialized(text, races=True)


def test_consumers_that_do_not_wait():
    text = PRODUCER.replace("FREE", "(k // 2 + 1) % 2").replace(
        "                T.ptx_wait_barrier(k % 2, k // 2 % 2)\n", ""
    )
    with pytest.raises(InterpreterError, match="data race on 's'"):
        specialized(text, races=True)
    with pytest.raises(UnboundError):
        specialized(text)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_wait_that_never_ends(seed):
    text = PRODUCER.replace("FREE", "k // 2 % 2")
    with pytest.raises(InterpreterError, match="can go on") as error:
        specialized(text, seed)
    assert "is not complete: 0 of" in str(error.value)


def barrier_kernel(*lines, threads=4, count=1):
    body = "".join(f"        {line}\n" for line in lines)
    return parse(f"""
@T.prim_func
def kernel(B: T.Buffer(({threads},), "int32")):
    for tx in T.thread_binding({threads}, thread="threadIdx.x"):
        T.create_barriers(2)
        if tx == 0:
            T.ptx_init_barrier_thread_count(0, {count})
        T.tvm_storage_sync("shared")
{body}        B[tx] = 1
""")


@pytest.mark.parametrize("seed", SEEDS)
def test_arrivals_complete_a_phase(seed):
    b = np.zeros(4, np.int32)
    lines = ("T.ptx_arrive_barrier(0)", "T.ptx_wait_barrier(0)", "T.ptx_arrive_barrier(0)", "T.ptx_wait_barrier(0, 1)")
    interpret(barrier_kernel(*lines, count=4), b, seed=seed)
    assert b.tolist() == [1] * 4


def test_a_fresh_barrier_is_past_the_odd_phase():
    b = np.zeros(4, np.int32)
    interpret(barrier_kernel("T.ptx_wait_barrier(0, 1)"), b)
    assert b.tolist() == [1] * 4


STUCK = {
    "nobody arrives": (("T.ptx_wait_barrier(0)",), "0 of 3 arrivals have come"),
    "too few arrive": (("if tx < 2:", "    T.ptx_arrive_barrier(0)", "T.ptx_wait_barrier(0)"), "2 of 3 arrivals"),
    "bytes do not come": (
        ("if tx < 3:", "    T.ptx_arrive_barrier_expect_tx(0, 16)", "T.ptx_wait_barrier(0)"),
        "3 of 3 arrivals have come, 48 bytes that were announced have not",
    ),
    "not initialised": (("T.ptx_arrive_barrier(1)",), "barrier 1 is used before ptx_init_barrier_thread_count"),
    "not created": (("T.ptx_arrive_barrier(2)",), "there is no barrier 2: create_barriers made 2"),
    "initialised in use": (
        ("T.ptx_arrive_barrier(0)", "if tx == 3:", "    T.ptx_init_barrier_thread_count(0, 3)"), "initialised again",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STUCK)
def test_barriers_that_cannot_be(name):
    lines, message = STUCK[name]
    with pytest.raises(InterpreterError, match=message):
        interpret(barrier_kernel(*lines, count=3), np.zeros(4, np.int32))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_barrier_that_waits_for_copies(seed):
    kernel = copy_kernel(
        "T.create_barriers(1)",
        "if tx == 0:",
        "    T.ptx_init_barrier_thread_count(0, 16)",
        'T.tvm_storage_sync("shared")',
        "T.ptx_cp_async_barrier(0)",
        "T.ptx_arrive_barrier(0)",
        "T.ptx_wait_barrier(0)",
        barrier=False,
    )
    b = np.zeros(64, np.float32)
    interpret(kernel, A, b, seed=seed, races=True)
    np.testing.assert_array_equal(b, A[::-1])


def test_a_barrier_that_does_not_wait_for_copies():
    kernel = copy_kernel(
        "T.create_barriers(1)",
        "if tx == 0:",
        "    T.ptx_init_barrier_thread_count(0, 16)",
        'T.tvm_storage_sync("shared")',
        "T.ptx_arrive_barrier(0)",
        "T.ptx_wait_barrier(0)",
        barrier=False,
    )
    with pytest.raises(UnboundError):
        interpret(kernel, A, np.zeros(64, np.float32))
    with pytest.raises(InterpreterError, match=r"data race on 's'.*asynchronous copy"):
        interpret(kernel, A, np.zeros(64, np.float32), races=True)
