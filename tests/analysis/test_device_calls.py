"""ThreadSync beside copies that go on by themselves, barrier objects and calls of a warp."""

from __future__ import annotations

import numpy as np
import pytest

from tests.checking import roundtrips
from tirlower.diagnostics import InterpreterError, TransformError
from tirlower.interp import interpret
from tirlower.ir import PrimFunc
from tirlower.script import parse
from tirlower.transforms import ThreadSync

SYNC = 'T.tvm_storage_sync("shared")'


def kernel(body: str, dtype: str = "int32") -> PrimFunc:
    """A kernel of 64 threads over A and B, with shared s and t and a local l."""
    head = f"""
@T.prim_func
def kernel(A: T.Buffer((512,), "{dtype}"), B: T.Buffer((64,), "{dtype}")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        s = T.alloc_buffer((192,), "{dtype}", scope="shared")
        t = T.alloc_buffer((64,), "{dtype}", scope="shared")
        l = T.alloc_buffer((8,), "{dtype}", scope="local")
        l[0] = T.Cast("{dtype}", 0)
"""
    return parse(head + "".join(f"        {line}\n" for line in body.strip("\n").splitlines()))


def copy(stage: str, step: str) -> str:
    return f'T.ptx_cp_async("int32", s.data, {stage} * 64 + tx, A.data, {step} * 64 + tx, 4)'


# The body, the fewest barriers, and B from A in rows of 64.
PIPELINES = {
    "one copy": (
        f"{copy('0', '0')}\nT.ptx_commit_group()\nT.ptx_wait_group(0)\nB[tx] = s[63 - tx]",
        1, lambda a: a[0, ::-1],
    ),
    "a copy and a wait in a loop": (
        f"for k in range(3):\n    {copy('0', 'k')}\n    T.ptx_commit_group()\n    T.ptx_wait_group(0)\n"
        "    l[0] = l[0] + s[63 - tx]\nB[tx] = l[0]",
        2, lambda a: a[:3].sum(0)[::-1],  # behind the wait, and before the next copy overwrites
    ),
    "waited for before the next is sent": (
        f"{copy('0', '0')}\nT.ptx_commit_group()\nfor k in range(3):\n    T.ptx_wait_group(0)\n    {copy('(k + 1) % 2', '(k + 1)')}\n"
        "    T.ptx_commit_group()\n    l[0] = l[0] + s[k % 2 * 64 + 63 - tx]\nB[tx] = l[0]",
        1, lambda a: a[:3].sum(0)[::-1],  # behind the wait: the other stage was read an iteration ago
    ),
    "three stages": (
        f"{copy('0', '0')}\nT.ptx_commit_group()\n{copy('1', '1')}\nT.ptx_commit_group()\nfor k in range(4):\n"
        f"    T.ptx_wait_group(1)\n    l[0] = l[0] + s[k % 3 * 64 + 63 - tx]\n    {copy('(k + 2) % 3', '(k + 2)')}\n"
        "    T.ptx_commit_group()\nB[tx] = l[0]",
        1, lambda a: a[:4].sum(0)[::-1],
    ),
    "a barrier before the wait is too early": (
        f"{copy('0', '0')}\nT.ptx_commit_group()\nt[tx] = A[64 + tx]\n{SYNC}\nl[0] = t[63 - tx]\nT.ptx_wait_group(0)\n"
        "B[tx] = l[0] + s[63 - tx]",
        2, lambda a: a[0, ::-1] + a[1, ::-1],
    ),
    "a barrier of its own behind the wait": (
        f"{copy('0', '0')}\nT.ptx_commit_group()\nT.ptx_wait_group(0)\nl[0] = l[0] + 1\n{SYNC}\nB[tx] = l[0] + s[63 - tx]",
        1, lambda a: a[0, ::-1] + 1,
    ),
    "swizzled stages": (
        f"{copy('0', '0').replace('+ tx, A', '+ tx // 8 * 8 + T.bitwise_xor(tx % 8, tx // 8), A')}\nT.ptx_commit_group()\n"
        "for k in range(3):\n    T.ptx_wait_group(0)\n    l[0] = l[0] + s[k % 2 * 64 + tx % 8 * 8 + T.bitwise_xor(tx // 8, tx % 8)]\n"
        f"    {copy('(k + 1) % 2', '(k + 1)').replace('+ tx, A', '+ tx // 8 * 8 + T.bitwise_xor(tx % 8, tx // 8), A')}\n"
        "    T.ptx_commit_group()\nB[tx] = l[0]",
        1, lambda a: a[:3].sum(0).reshape(8, 8).T.reshape(64),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PIPELINES)
def test_copies_are_handed_on_behind_waits(name: str) -> None:
    body, barriers, expected = PIPELINES[name]
    after = ThreadSync("shared")(kernel(body))
    assert after.script().count(SYNC) == barriers, after.script()
    assert ThreadSync("shared")(after) is after
    roundtrips(after)
    a = np.random.default_rng(1).integers(-50, 50, 512).astype(np.int32)
    for seed in (None, 1, 2):
        b = np.zeros(64, np.int32)
        interpret(after, a.copy(), b, seed=seed, races=True)
        np.testing.assert_array_equal(b, expected(a.reshape(8, 64)))


@pytest.mark.parametrize("name", PIPELINES)
def test_no_barrier_can_be_left_out(name: str) -> None:
    lines = ThreadSync("shared")(kernel(PIPELINES[name][0])).script().splitlines()
    for at, line in enumerate(lines):
        if SYNC in line:
            less = parse("\n".join(lines[:at] + lines[at + 1 :]))
            with pytest.raises(InterpreterError, match="race"):
                interpret(less, np.zeros(512, np.int32), np.zeros(64, np.int32), races=True)


TMA = 'T.ptx_cp_async_bulk("float16", s.data, 0, A.data, {at}, 256, 0)'


def test_bulk_copies_are_left_to_their_barrier_object() -> None:
    func = kernel(f"""
T.create_barriers(1)
if tx == 0:
    T.ptx_init_barrier_thread_count(0, 1)
T.tvm_storage_sync("shared")
if tx == 0:
    T.ptx_arrive_barrier_expect_tx(0, 256)
    {TMA.format(at=0)}
T.ptx_wait_barrier(0, 0)
B[tx] = s[63 - tx]
""", "float16")  # fmt: skip
    assert ThreadSync("shared")(func) is func


DIVERGENT = """
s[tx] = A[tx]
if tx < 32:
    s[64 + tx] = A[tx]
    WAIT
    l[0] = s[64 + 31 - tx]
else:
    l[0] = T.Cast("int32", 1)
B[tx] = l[0] + s[63 - tx]
"""


def test_waits_for_barrier_objects_order_threads_that_go_ways_of_their_own() -> None:
    """Inside of the condition the object's wait counts; behind it, it does not: half of the threads did not wait."""
    after = ThreadSync("shared")(kernel(DIVERGENT.replace("WAIT", "T.ptx_wait_barrier(0, 0)")))
    text = after.script()
    assert text.count(SYNC) == 1
    assert text.index("else:") < text.index(SYNC) < text.index("B[tx] =")
    with pytest.raises(TransformError, match="threads may pass differently"):
        ThreadSync("shared")(kernel(DIVERGENT.replace("WAIT", "l[1] = 0")))


def test_threads_that_all_wait_for_an_object_still_get_barriers() -> None:
    after = ThreadSync("shared")(kernel("s[tx] = A[tx]\nT.ptx_wait_barrier(0, 0)\nB[tx] = s[63 - tx]"))
    assert after.script().count(SYNC) == 1


def test_stores_from_shared_memory() -> None:
    """The tile is complete before one thread sends it, and sent before it is filled again."""
    store = 'T.ptx_cp_async_bulk_tensor_store("int32", B.data, s.data, 0, 0, 1, 0, 64, 64)'
    func = kernel(f"""
for k in range(2):
    s[tx] = A[tx] + k
    if tx == 0:
        {store}
        T.ptx_bulk_commit_group()
        T.ptx_bulk_wait_group(0)
""")  # fmt: skip
    assert ThreadSync("shared")(func).script().count(SYNC) == 2


def test_matrix_rows_of_other_stages() -> None:
    """A barrier between fill and read; none between the read of one stage and the fill of the next."""
    body = """
for k in range(4):
    s[k % 2 * 64 + tx] = A[tx]
    T.ptx_ldmatrix("float16", False, 1, ".b16", l.data, 0, s.data, k % 2 * 64 + tx % 8 * 8)
"""
    after = ThreadSync("shared")(kernel(body, "float16"))
    assert after.script().count(SYNC) == 1


def test_a_warps_own_barrier_counts_for_its_memory() -> None:
    text = """
@T.prim_func
def shift(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        w = T.alloc_buffer((32,), "int32", scope="warp")
        w[tx % 32] = A[tx]
        T.ptx_syncwarp(T.uint32(MASK))
        B[tx] = w[31 - tx % 32]
"""
    whole = parse(text.replace("MASK", "4294967295"))
    assert ThreadSync("warp")(whole) is whole
    part = ThreadSync("warp")(parse(text.replace("MASK", "65535")))
    assert part.script().count('T.tvm_storage_sync("warp")') == 1


@pytest.mark.parametrize("op", ["add", "max", "and", "or", "xor"])
def test_atomics_of_one_element_need_no_barrier(op: str) -> None:
    func = kernel(
        f"T.evaluate(T.atomic_{op}(T.address_of(s[0]), tx))\nT.evaluate(T.atomic_{op}(T.address_of(s[0]), 3))"
    )
    assert ThreadSync("shared")(func) is func


@pytest.mark.parametrize("bound", [False, True])
def test_swizzled_stages_need_one_barrier_for_each_iteration(bound: bool) -> None:
    """What a load of matrices reads is known, also where its place is bound to variables before."""
    row, column = "tx % 16 * 32", "T.bitwise_xor(tx // 16, tx // 2 % 4)"
    lets = f"row: T.int32 = {row}\n            column: T.int32 = {column}" if bound else "T.evaluate(0)"
    place = "row + column * 8" if bound else f"{row} + {column} * 8"
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((4, 512), "float16"), B: T.Buffer((4, 32, 8), "float16")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        s = T.alloc_buffer((1024,), "float16", scope="shared")
        r = T.alloc_buffer((8,), "float16", scope="local")
        for i in range(16):
            s[i * 32 + tx] = A[0, i * 32 + tx]
        for t in range(3):
            {lets}
            for i in range(2):
                for v in T.vectorized(8):
                    s[(t + 1) % 2 * 512 + i * 256 + tx // 4 * 32 + T.bitwise_xor(tx % 4, tx // 8) * 8 + v] = A[t + 1, i * 256 + tx * 8 + v]
            T.ptx_ldmatrix("float16", False, 4, ".b16", r.data, 0, s.data, t % 2 * 512 + {place})
            for i in range(8):
                B[t, tx, i] = r[i]
""")
    after = ThreadSync("shared")(func)
    assert after.script().count("tvm_storage_sync") == 1
    a = np.random.default_rng(0).random((4, 512)).astype(np.float16)
    results = []
    for how in ({}, {"races": True}, {"seed": 1}):
        b = np.zeros((4, 32, 8), np.float16)
        interpret(after, a, b, **how)
        results.append(b)
    assert all((b == results[0]).all() for b in results)
