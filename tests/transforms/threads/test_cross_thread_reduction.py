from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check
from tirlower.diagnostics import TransformError
from tirlower.interp import interpret
from tirlower.ir import PrimFunc
from tirlower.script import parse
from tirlower.transforms import (
    ConvertBlocksToOpaque,
    LowerCrossThreadReduction,
    LowerOpaqueBlock,
    LowerThreadAllreduce,
    PlanAndUpdateBufferAllocationLocation,
    ThreadSync,
)

PASS = LowerCrossThreadReduction()
HOW = {
    "sum": ("0", "B[vi] + {x}", np.sum),
    "prod": ("1", "{x} * B[vi]", np.prod),
    "min": ("1000", "T.min(B[vi], {x})", np.min),
    "max": ("-1000", "T.max({x}, B[vi])", np.max),
}


def rows(loops: str, vi: str, vk: str, how: str = "sum", n: int = 4, m: int = 64, dtype: str = "int32", where: str = "",
         params: str = "", scope: str = "") -> PrimFunc:  # fmt: skip
    """A reduction of the rows of A under some loops."""
    unit, update, _ = HOW[how]
    lines = loops.splitlines()
    depth = len(lines)
    head = "".join("    " * (n_ + 1) + line + "\n" for n_, line in enumerate(lines))
    body = [
        'with T.block("B"):',
        f"    vi = T.axis.spatial({n}, {vi})",
        f"    vk = T.axis.reduce({m}, {vk})",
        *([f"    T.where({where})"] if where else []),
        "    T.reads(A[vi, vk])",
        "    T.writes(B[vi])",
        "    with T.init():",
        f'        B[vi] = T.Cast("{dtype}", {unit})',
        f"    B[vi] = {update.format(x='A[vi, vk]')}",
    ]
    text = f'@T.prim_func\ndef rows(A: T.Buffer(({n}, {m}), "{dtype}"), B: T.Buffer(({n},), "{dtype}"){params}):\n'
    return parse(text + head + "".join("    " * (depth + 1) + line + "\n" for line in body))


def runs(func: PrimFunc, *args: Any) -> list[np.ndarray]:
    """What it leaves: as it is, and lowered on, in several orders of the threads."""
    first = [np.copy(a) for a in args]
    interpret(func, *first)
    with tl.Target("nvptx"):
        low = func
        steps = (
            PlanAndUpdateBufferAllocationLocation(), ConvertBlocksToOpaque(), LowerOpaqueBlock(), ThreadSync("shared"),
            LowerThreadAllreduce(),
        )  # fmt: skip
        for step in steps:
            low = step(low)
    for seed in (None, 0, 1):
        again = [np.copy(a) for a in args]
        interpret(low, *again, seed=seed, races=seed is None)
        for x, y in zip(first, again, strict=True):
            np.testing.assert_array_equal(x, y)
    return first


def data(n: int = 4, m: int = 64) -> np.ndarray:
    return np.random.default_rng(2).integers(1, 4, (n, m)).astype(np.int32)


@pytest.mark.parametrize("how", HOW)
def test_without_a_loop_of_its_own(how: str) -> None:
    m = 64 if how != "prod" else 16
    func = rows(
        'for i in T.thread_binding(4, thread="blockIdx.x"):\n'
        f'for k in T.thread_binding({m}, thread="threadIdx.x"):', "i", "k", how, m=m,
    )  # fmt: skip
    after = check(PASS, func, execute=False)
    assert "in_thread" not in after.script()
    a = data(m=m)
    _, b = runs(after, a, np.zeros(4, np.int32))
    np.testing.assert_array_equal(b, HOW[how][2](a, axis=1))


@pytest.mark.parametrize("order", ["ko k1", "k1 ko"])
def test_with_a_loop_in_each_thread(order: str) -> None:
    loops = {"ko": "for ko in range(4):", "k1": 'for k1 in T.thread_binding(16, thread="threadIdx.x"):'}
    func = rows(
        'for i in T.thread_binding(4, thread="blockIdx.x"):\n' + "\n".join(loops[name] for name in order.split()),
        "i", "ko * 16 + k1",
    )  # fmt: skip
    after = check(PASS, func, execute=False)
    text = after.script()
    assert text.index("B_in_thread_init") < text.index("for ko") < text.index("B_cross_thread") < text.index("k1 == 0")
    a = data()
    _, b = runs(after, a, np.zeros(4, np.int32))
    np.testing.assert_array_equal(b, a.sum(1))


def test_spatial_threads_beside() -> None:
    func = rows(
        'for i in T.thread_binding(4, thread="threadIdx.y"):\n'
        'for k in T.thread_binding(8, thread="threadIdx.x"):\nfor ki in range(8):', "i", "k * 8 + ki",
    )  # fmt: skip
    a = data()
    _, b = runs(check(PASS, func, execute=False), a, np.zeros(4, np.int32))
    np.testing.assert_array_equal(b, a.sum(1))


def test_two_thread_axes_reduce() -> None:
    func = rows(
        'for i in range(4):\nfor k0 in T.thread_binding(4, thread="threadIdx.y"):\n'
        'for k1 in T.thread_binding(16, thread="threadIdx.x"):', "i", "k0 * 16 + k1",
    )  # fmt: skip
    after = check(PASS, func, execute=False)
    assert "k0 == 0 and k1 == 0" in after.script()
    a = data()
    _, b = runs(after, a, np.zeros(4, np.int32))
    np.testing.assert_array_equal(b, a.sum(1))


@pytest.mark.parametrize("m", [1, 7, 50, 61])
def test_predicates_of_the_reduction(m: int) -> None:
    func = rows(
        'for i in T.thread_binding(4, thread="blockIdx.x"):\nfor ko in range(4):\n'
        'for k in T.thread_binding(16, thread="threadIdx.x"):', "i", "ko * 16 + k", m=m, where=f"ko * 16 + k < {m}",
    )  # fmt: skip
    after = check(PASS, func, execute=False)
    a = data(m=m)
    _, b = runs(after, a, np.zeros(4, np.int32))
    np.testing.assert_array_equal(b, a.sum(1))


def test_predicates_of_both_kinds_and_of_the_rows() -> None:
    func = rows(
        'for i in T.thread_binding(8, thread="blockIdx.x"):\nfor k in T.thread_binding(16, thread="threadIdx.x"):',
        "i", "k", m=16, where="i < 4 and k < 13",
    )  # fmt: skip
    after = check(PASS, func, execute=False)
    assert "i < 4" in after.script().split("B_write_back")[1]
    a = data(m=16)
    _, b = runs(after, a, np.full(4, 9, np.int32))
    np.testing.assert_array_equal(b, a[:, :13].sum(1))


def test_a_triangle_and_one_that_is_refused() -> None:
    loops = 'for i in T.thread_binding(4, thread="blockIdx.x"):\nfor k in T.thread_binding(16, thread="threadIdx.x"):'
    a = data(m=16)
    func = rows(loops, "i", "k", m=16, where="k <= i")
    _, b = runs(check(PASS, func, execute=False), a, np.zeros(4, np.int32))
    np.testing.assert_array_equal(b, np.tril(a).sum(1))
    with pytest.raises(TransformError, match="whether any iteration"):
        PASS(rows(loops, "i", "k", m=16, where="k + i >= 17"))


def test_a_symbolic_length() -> None:
    func = rows(
        'for i in range(4):\nfor ko in range(n):\nfor k in T.thread_binding(8, thread="threadIdx.x"):',
        "i", "ko * 8 + k", params=", n: T.int32",
    )  # fmt: skip
    after = check(PASS, func, execute=False)
    a = data()
    for n in (0, 1, 3):
        _, b, _ = runs(after, a, np.full(4, 5, np.int32), n)
        np.testing.assert_array_equal(b, a[:, : 8 * n].sum(1) if n else np.full(4, 5))


def test_argmax() -> None:
    func = parse("""
@T.prim_func
def argmax(A: T.Buffer((3, 40), "float32"), I: T.Buffer((3,), "int32"), V: T.Buffer((3,), "float32")):
    for i in T.thread_binding(3, thread="blockIdx.x"):
        for ko in range(5):
            for k in T.thread_binding(8, thread="threadIdx.x"):
                with T.block("argmax"):
                    vi = T.axis.spatial(3, i)
                    vk = T.axis.reduce(40, ko * 8 + k)
                    T.reads(A[vi, vk])
                    T.writes(I[vi], V[vi])
                    with T.init():
                        I[vi] = -1
                        V[vi] = T.float32(-1000)
                    new_i: T.let[T.int32] = T.Select(V[vi] >= A[vi, vk], I[vi], vk)
                    new_v: T.let[T.float32] = T.Select(V[vi] >= A[vi, vk], V[vi], A[vi, vk])
                    I[vi] = new_i
                    V[vi] = new_v
""")
    after = check(PASS, func, execute=False)
    assert "T.uint32(2)" in after.script()
    a = np.random.default_rng(0).permutation(120).reshape(3, 40).astype(np.float32)
    _, i, v = runs(after, a, np.zeros(3, np.int32), np.zeros(3, np.float32))
    np.testing.assert_array_equal(i, a.argmax(1))
    np.testing.assert_array_equal(v, a.max(1))


def test_results_in_local_memory_are_written_by_all() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    s = T.alloc_buffer((1,), "float32", scope="local")
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        with T.block("s"):
            vk = T.axis.reduce(32, tx)
            T.reads(A[vk])
            T.writes(s[0])
            with T.init():
                s[0] = T.float32(0)
            s[0] = s[0] + A[vk]
""")
    after = check(PASS, func, execute=False)
    assert "T.where" not in after.script()


def test_left_alone() -> None:
    serial = rows("for i in range(4):\nfor k in range(64):", "i", "k")
    assert PASS(serial) is serial
    spatial = rows('for i in T.thread_binding(4, thread="threadIdx.x"):\nfor k in range(64):', "i", "k")
    assert PASS(spatial) is spatial


def test_errors() -> None:
    inner = rows('for k in T.thread_binding(64, thread="threadIdx.x"):\nfor i in range(4):', "i", "k")
    with pytest.raises(TransformError, match="not the innermost"):
        PASS(inner)
    mixed = rows('for i in range(2):\nfor k in T.thread_binding(64, thread="threadIdx.x"):', "i * 2 + k // 32", "k")
    with pytest.raises(TransformError, match="is not a reduction"):
        PASS(mixed)
    blocks = rows('for i in range(4):\nfor k0 in T.thread_binding(2, thread="blockIdx.x"):\n'
                  'for k in T.thread_binding(32, thread="threadIdx.x"):', "i", "k0 * 32 + k")  # fmt: skip
    with pytest.raises(TransformError, match="cannot reduce together"):
        PASS(blocks)
    loops = 'for i in range(4):\nfor k in T.thread_binding(64, thread="threadIdx.x"):'
    text = rows(loops, "i", "k").script()
    with pytest.raises(TransformError, match="starts from"):
        PASS(parse(text.replace('B[vi] = T.Cast("int32", 0)', "B[vi] = 5")))
    with pytest.raises(TransformError, match="no reduction"):
        PASS(parse(text.replace("B[vi] + A[vi, vk]", "B[vi] - A[vi, vk]")))
    with pytest.raises(TransformError, match="no reduction"):
        PASS(parse(text.replace("B[vi] + A[vi, vk]", "B[vi] * 2 + B[vi]")))


def whole(func: PrimFunc) -> PrimFunc:
    """Lowered, and what is made of it, with its threads in any order."""
    return check(PASS, func, execute=False)


def test_form_with_a_loop_of_its_own() -> None:
    func = rows(
        'for i, ko in T.grid(4, 2):\nfor k1 in T.thread_binding(32, thread="threadIdx.x"):', "i", "ko * 32 + k1"
    )
    expected = parse("""
@T.prim_func
def rows(A: T.Buffer((4, 64), "int32"), B: T.Buffer((4,), "int32")):
    cross = T.alloc_buffer((1,), "int32", strides=(1,), scope="local")
    inner = T.alloc_buffer((1,), "int32", strides=(1,), scope="local")
    for i in range(4):
        for k1 in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("B_in_thread_init"):
                T.reads()
                T.writes(inner[0])
                inner[0] = T.Cast("int32", 0)
            for ko in range(2):
                with T.block("B_in_thread"):
                    vi = T.axis.spatial(4, i)
                    vk = T.axis.reduce(64, ko * 32 + k1)
                    T.reads(A[vi, vk])
                    T.writes(inner[0])
                    inner[0] = inner[0] + A[vi, vk]
            with T.block("B_cross_thread"):
                T.reads(inner[0])
                T.writes(cross[0])
                T.attr(
                    T.comm_reducer(lambda x, y: x + y, [T.Cast("int32", 0)]),
                    "reduce_scope",
                    T.reinterpret("handle", T.uint64(0)),
                )
                T.tvm_thread_allreduce(T.uint32(1), inner[0], T.bool(True), cross[0], k1)
            with T.block("B_write_back"):
                vi = T.axis.spatial(4, i)
                T.where(k1 == 0)
                T.reads(cross[0])
                T.writes(B[vi])
                B[vi] = cross[0]
""")
    after = check(PASS, func, expected, execute=False)
    a = data()
    for seed in (None, 0):
        b = np.zeros(4, np.int32)
        interpret(after, a, b, seed=seed, races=seed is None)
        np.testing.assert_array_equal(b, a.sum(1))


TILED = """
@T.prim_func
def tiled(A: T.Buffer((3, 64), "int32"), B: T.Buffer((3,), "int32")):
    s = T.alloc_buffer((3, 64), "int32", scope="{scope}")
    for i in T.thread_binding(3, thread="blockIdx.x"):
{loops}
            for q in range(16):
                with T.block("s"):
                    vi = T.axis.spatial(3, i)
                    vk = T.axis.spatial(64, k0 * 16 + q)
                    T.reads(A[vi, vk])
                    T.writes(s[vi, vk])
                    s[vi, vk] = A[vi, vk] * 2
{inner}
                with T.block("sum"):
                    vi = T.axis.spatial(3, i)
                    vk = T.axis.reduce(64, k0 * 16 + {index})
                    T.reads(s[vi, vk])
                    T.writes(B[vi])
                    with T.init():
                        B[vi] = 0
                    B[vi] = B[vi] + s[vi, vk]
"""


@pytest.mark.parametrize("outside", [True, False])
def test_other_statements_stand_before_the_block(outside: bool) -> None:
    thread = '{pad}for tx in T.thread_binding(8, thread="threadIdx.x"):'
    if outside:
        loops = thread.format(pad=" " * 6) + "\n        for k0 in range(4):"
        inner, index = "            for k1 in range(2):", "k1 * 8 + tx"
    else:
        loops, inner, index = "        for k0 in range(4):", thread.format(pad=" " * 12).replace("(8,", "(16,"), "tx"
    func = parse(TILED.format(scope="local", loops=loops, inner=inner, index=index))
    text = whole(func).script()
    assert text.index("sum_in_thread_init") < text.index("for k0") < text.index("sum_cross_thread")
    a = data(3)
    _, b = runs(PASS(func), a, np.zeros(3, np.int32))
    np.testing.assert_array_equal(b, 2 * a.sum(1))


def test_what_several_threads_cannot_do_stays_with_one() -> None:
    text = TILED.format(
        scope="shared", loops="        for k0 in range(4):",
        inner='            for tx in T.thread_binding(16, thread="threadIdx.x"):', index="tx",
    )  # fmt: skip
    counts = text.replace("s[vi, vk] = A[vi, vk] * 2", "s[vi, vk] = s[vi, vk] + A[vi, vk] * 2").replace(
        "T.reads(A[vi, vk])", "T.reads(A[vi, vk], s[vi, vk])"
    )
    PASS(parse(text))
    with pytest.raises(TransformError, match="by each of its threads"):
        PASS(parse(counts))


BROADCAST = """
@T.prim_func
def f(A: T.Buffer((4, 32), "int32"), B: T.Buffer((4,), "int32")):
    t = T.alloc_buffer((4,), "int32", scope="local")
    u = T.alloc_buffer((4,), "int32", scope="local")
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for k in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(A[vi, vk])
                T.writes(t[vi])
                with T.init():
                    t[vi] = 0
                t[vi] = t[vi] + A[vi, vk]
        with T.block("mine"):
            vi = T.axis.spatial(4, i)
            T.reads(t[vi])
            T.writes(u[vi])
            u[vi] = t[vi] * 3
        for j in range(2):
            with T.block("all"):
                vi = T.axis.spatial(4, i)
                T.where(j == 1)
                T.reads(t[vi])
                T.writes(B[vi])
                B[vi] = B[vi] + t[vi]
"""


def test_results_that_each_thread_has_are_used_for_all_by_one() -> None:
    after = whole(parse(BROADCAST))
    text = after.script()
    assert "T.where(k == 0 and j == 1)" in text
    assert text.count("thread_binding(32") == 2  # the block that writes memory of a thread is done by every thread
    a = data(m=32)
    _, b = runs(after, a, np.ones(4, np.int32))
    np.testing.assert_array_equal(b, 1 + a.sum(1))


def test_results_are_in_the_order_of_their_bindings() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((4, 32), "float32"), I: T.Buffer((4,), "int32"), M: T.Buffer((4,), "float32")):
    for i in range(4):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("argmin"):
                vi, vk = T.axis.remap("SR", [i, tx])
                T.reads(A[vi, vk])
                T.writes(I[vi], M[vi])
                with T.init():
                    M[vi] = T.float32(1e30)
                    I[vi] = -1
                v_i: T.int32 = T.Select(M[vi] <= A[vi, vk], I[vi], vk)
                v_m: T.float32 = T.Select(M[vi] <= A[vi, vk], M[vi], A[vi, vk])
                M[vi] = v_m
                I[vi] = v_i
""")
    after = whole(func)
    assert (
        "T.comm_reducer(lambda x0, x1, y0, y1: (T.Select(x1 <= y1, x0, y0), T.Select(x1 <= y1, x1, y1)), [-1,"
        in after.script()
    )
    a = np.random.default_rng(0).permutation(128).reshape(4, 32).astype(np.float32)
    _, i, m = runs(after, a, np.zeros(4, np.int32), np.zeros(4, np.float32))
    np.testing.assert_array_equal(i, a.argmin(1))
    np.testing.assert_array_equal(m, a.min(1))


def test_nothing_follows_the_block_and_only_threads_of_a_block_reduce() -> None:
    text = rows('for i in range(4):\nfor k in T.thread_binding(64, thread="threadIdx.x"):', "i", "k").script()
    tail = """            with T.block("after"):
                vi, vk = T.axis.remap("SS", [i, k])
                T.reads(A[vi, vk])
                T.writes(A[vi, vk])
                A[vi, vk] = A[vi, vk] + 1
"""
    with pytest.raises(TransformError, match="not the last one"):
        PASS(parse(text + "\n" + tail))
    only = rows('for i in range(4):\nfor k in T.thread_binding(64, thread="blockIdx.x"):', "i", "k")
    with pytest.raises(TransformError, match="cannot reduce together"):
        PASS(only)


@pytest.mark.parametrize("cols", [32, 96])
@pytest.mark.parametrize(
    ("start", "update", "terms"),
    [
        ("-99", "T.max(M[vi], A[vi, vk])", (-500, -100)),
        ("-99", "T.min(M[vi], A[vi, vk])", (-50, 50)),
        ("7", "T.min(M[vi], A[vi, vk])", (8, 50)),
    ],
)
def test_a_start_that_counts_is_not_lost(start: str, update: str, terms: tuple[int, int], cols: int) -> None:
    """With one iteration a thread, too: what a maximum starts from may be more than all terms."""
    func = parse(f"""@T.prim_func
def extreme(A: T.Buffer((3, {cols}), "int32"), M: T.Buffer((3,), "int32")):
    for i in T.thread_binding(3, thread="blockIdx.x"):
        for ko in range({cols // 32}):
            for ki in T.thread_binding(32, thread="threadIdx.x"):
                with T.block("M"):
                    vi = T.axis.spatial(3, i)
                    vk = T.axis.reduce({cols}, ko * 32 + ki)
                    with T.init():
                        M[vi] = {start}
                    M[vi] = {update}
""")
    a = np.random.default_rng(cols).integers(*terms, (3, cols)).astype(np.int32)
    got = np.zeros(3, np.int32)
    tl.simulate(tl.lower(func, "nvptx -arch=sm_80"), a, got)
    fold = np.maximum if "max" in update else np.minimum
    np.testing.assert_array_equal(got, fold.reduce(np.c_[np.full(3, int(start)), a], axis=1))


def test_a_greatest_of_infinities_is_what_it_starts_from() -> None:
    """T.min_value is the least finite number: rows of minus infinity alone, as masks leave them, have it."""
    func = parse("""@T.prim_func
def top(A: T.Buffer((2, 32), "float32"), M: T.Buffer((2,), "float32")):
    for i in T.thread_binding(2, thread="blockIdx.x"):
        for k in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("M"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    M[vi] = T.min_value("float32")
                M[vi] = T.max(M[vi], A[vi, vk])
""")
    a = np.full((2, 32), -np.inf, np.float32)
    got = np.zeros(2, np.float32)
    tl.simulate(tl.lower(func, "nvptx -arch=sm_80"), a, got)
    assert (got == np.finfo(np.float32).min).all()
