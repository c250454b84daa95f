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
from tirlower.transforms import LowerThreadAllreduce

PASS = LowerThreadAllreduce()
REDUCERS = {
    "sum": ("lambda x, y: x + y", "0", np.sum),
    "prod": ("lambda x, y: x * y", "1", np.prod),
    "min": ("lambda x, y: T.min(x, y)", "100", np.min),
    "max": ("lambda x, y: T.max(x, y)", "-100", np.max),
}


def over_x(ny: int, nx: int, dtype: str = "int32", how: str = "sum", condition: str = "True", target: str = "cuda"):
    fn, unit, _ = REDUCERS[how]
    return parse(f"""
@T.prim_func
def reduce(A: T.Buffer((2, {ny}, {nx}), "{dtype}"), B: T.Buffer((2, {ny}, {nx}), "{dtype}")):
    T.func_attr({{"target": T.target("{target}")}})
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for ty in T.thread_binding({ny}, thread="threadIdx.y"):
            for tx in T.thread_binding({nx}, thread="threadIdx.x"):
                total = T.alloc_buffer((1,), "{dtype}", scope="local")
                with T.attr(T.comm_reducer({fn}, [T.Cast("{dtype}", {unit})]), "reduce_scope", 0):
                    T.tvm_thread_allreduce(T.uint32(1), A[bx, ty, tx], {condition}, total[0], tx)
                B[bx, ty, tx] = total[0]
""")


def data(*shape: int, dtype: str = "int32") -> np.ndarray:
    return np.random.default_rng(3).integers(1, 4, shape).astype(dtype)


def run_all_orders(before: PrimFunc, after: PrimFunc, *args: Any) -> list[np.ndarray]:
    """What the program before leaves; the one after leaves it in any order, without races."""
    want = [np.copy(a) for a in args]
    interpret(before, *want)
    for seed in (None, 0, 1):
        got = [np.copy(a) for a in args]
        interpret(after, *got, seed=seed, races=seed is None)
        for x, y in zip(want, got, strict=True):
            np.testing.assert_array_equal(x, y)
    return want


@pytest.mark.parametrize(
    ("ny", "nx", "shuffles"),
    [
        (1, 32, True), (4, 8, True), (3, 8, True), (2, 16, True), (1, 64, True), (2, 64, True), (1, 96, True),
        (1, 24, True), (1, 7, True), (2, 24, False), (1, 48, False), (3, 5, False), (2, 2, True), (1, 256, True),
    ],
)  # fmt: skip
@pytest.mark.by_day
def test_block_sizes(ny: int, nx: int, shuffles: bool) -> None:
    before = over_x(ny, nx)
    after = check(PASS, before, inputs=[])
    text = after.script()
    assert ("tvm_warp_shuffle" in text) == shuffles
    assert "allreduce" not in text and "reduce_scope" in text
    a = data(2, ny, nx)
    _, b = run_all_orders(before, after, a, np.zeros_like(a))
    np.testing.assert_array_equal(b, np.broadcast_to(a.sum(2, keepdims=True), a.shape))


@pytest.mark.parametrize("how", REDUCERS)
@pytest.mark.parametrize("nx", [16, 12, 48])
def test_reducers(how: str, nx: int) -> None:
    before = over_x(1, nx, how=how)
    after = check(PASS, before, inputs=[])
    a = data(2, 1, nx)
    a[:, :, 5:] = np.minimum(a[:, :, 5:], 1 if how == "prod" else 9)
    _, b = run_all_orders(before, after, a, np.zeros_like(a))
    np.testing.assert_array_equal(b[:, :, 0], REDUCERS[how][2](a, axis=2))


@pytest.mark.parametrize(
    ("dtype", "target", "shuffles"),
    [
        ("float16", "cuda", True), ("float32", "nvptx", True), ("float64", "cuda", True), ("int64", "cuda", True),
        ("int8", "cuda", False), ("int64", "rocm", False), ("int32", "opencl", False), ("uint32", "cuda", True),
    ],
)  # fmt: skip
def test_types_and_targets(dtype: str, target: str, shuffles: bool) -> None:
    before = over_x(1, 32, dtype, target=target)
    after = check(PASS, before, inputs=[])
    assert ("tvm_warp_shuffle" in after.script()) == shuffles
    a = np.ones((2, 1, 32), dtype) * np.arange(32).astype(dtype) % 5
    run_all_orders(before, after, a.astype(dtype), np.zeros_like(a, dtype))


@pytest.mark.parametrize("nx", [8, 20, 64])
def test_predicates_and_values_that_may_not_be_read(nx: int) -> None:
    text = over_x(1, nx, condition="tx < 6").script().replace("A[bx, ty, tx]", "A[bx, ty, tx * 2]", 1)
    before = parse(text.replace(f"A: T.Buffer((2, 1, {nx})", "A: T.Buffer((2, 1, 12)"))
    after = check(PASS, before, inputs=[])
    a = data(2, 1, 12)
    _, b = run_all_orders(before, after, a, np.zeros((2, 1, nx), np.int32))
    np.testing.assert_array_equal(b[:, 0, 0], a[:, 0, ::2].sum(1))


@pytest.mark.parametrize("nx", [16, 64, 12, 48])
def test_several_values_at_once(nx: int) -> None:
    before = parse(f"""
@T.prim_func
def argmax(A: T.Buffer(({nx},), "int32"), V: T.Buffer((1,), "int32"), I: T.Buffer((1,), "int64")):
    T.func_attr({{"target": T.target("cuda")}})
    for tx in T.thread_binding({nx}, thread="threadIdx.x"):
        v = T.alloc_buffer((1,), "int32", scope="local")
        i = T.alloc_buffer((1,), "int64", scope="local")
        with T.attr(T.comm_reducer(lambda i0, v0, i1, v1: (
            T.Select(v0 > v1 or (v0 == v1 and i0 < i1), i0, i1), T.Select(v0 > v1, v0, v1)),
            [T.int64(-1), T.int32(-1000)]), "reduce_scope", 0):
            T.tvm_thread_allreduce(T.uint32(2), T.Cast("int64", tx), A[tx], True, i[0], v[0], tx)
        if tx == 0:
            V[0] = v[0]
            I[0] = i[0]
""")
    after = check(PASS, before, inputs=[])
    a = np.random.default_rng(5).permutation(nx).astype(np.int32)
    _, v, i = run_all_orders(before, after, a, np.zeros(1, np.int32), np.zeros(1, np.int64))
    assert v[0] == a.max() and i[0] == a.argmax()


def over_y(ny: int, nx: int) -> PrimFunc:
    text = over_x(ny, nx).script()
    return parse(text.replace("total[0], tx)", "total[0], ty)"))


@pytest.mark.parametrize(("ny", "nx"), [(4, 8), (5, 3), (32, 1), (8, 1)])
def test_over_the_slower_axis(ny: int, nx: int) -> None:
    before = over_y(ny, nx)
    after = check(PASS, before, inputs=[])
    assert ("tvm_warp_shuffle" in after.script()) == (nx == 1)
    a = data(2, ny, nx)
    _, b = run_all_orders(before, after, a, np.zeros_like(a))
    np.testing.assert_array_equal(b[:, 0], a.sum(1))


def test_over_two_axes() -> None:
    before = parse(over_x(4, 12).script().replace("total[0], tx)", "total[0], ty, tx)"))
    after = check(PASS, before, inputs=[])
    a = data(2, 4, 12)
    _, b = run_all_orders(before, after, a, np.zeros_like(a))
    assert (b == a.sum((1, 2))[:, None, None]).all()


@pytest.mark.parametrize("nx", [8, 48, 64])
def test_in_a_loop_the_memory_is_used_again(nx: int) -> None:
    before = parse(f"""
@T.prim_func
def rows(A: T.Buffer((5, {nx}), "int32"), B: T.Buffer((5, {nx}), "int32")):
    T.func_attr({{"target": T.target("cuda")}})
    for tx in T.thread_binding({nx}, thread="threadIdx.x"):
        for i in range(2, 5):
            total = T.alloc_buffer((1,), "int32", scope="local")
            with T.attr(T.comm_reducer(lambda x, y: x + y, [0]), "reduce_scope", 0):
                T.tvm_thread_allreduce(T.uint32(1), A[i, tx], True, total[0], tx)
            B[i, tx] = total[0]
""")
    after = check(PASS, before, inputs=[])
    a = data(5, nx)
    _, b = run_all_orders(before, after, a, np.zeros_like(a))
    np.testing.assert_array_equal(b[2:, 0], a[2:].sum(1))


def test_one_thread_only() -> None:
    before = over_x(3, 1)
    after = check(PASS, before, inputs=[])
    assert "shared" not in after.script() and "shuffle" not in after.script()
    a = data(2, 3, 1)
    _, b = run_all_orders(before, after, a, np.zeros_like(a))
    np.testing.assert_array_equal(a, b)


def test_two_reductions_in_sequence() -> None:
    before = parse("""
@T.prim_func
def softmax_parts(A: T.Buffer((48,), "float32"), M: T.Buffer((48,), "float32"), S: T.Buffer((48,), "float32")):
    T.func_attr({"target": T.target("cuda")})
    for tx in T.thread_binding(48, thread="threadIdx.x"):
        m = T.alloc_buffer((1,), "float32", scope="local")
        s = T.alloc_buffer((1,), "float32", scope="local")
        with T.attr(T.comm_reducer(lambda x, y: T.max(x, y), [T.float32(-1000)]), "reduce_scope", 0):
            T.tvm_thread_allreduce(T.uint32(1), A[tx], True, m[0], tx)
        with T.attr(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), "reduce_scope", 0):
            T.tvm_thread_allreduce(T.uint32(1), A[tx] - m[0], True, s[0], tx)
        M[tx] = m[0]
        S[tx] = s[0]
""")
    after = check(PASS, before, inputs=[])
    a = np.arange(48, dtype=np.float32)
    _, m, s = run_all_orders(before, after, a, np.zeros_like(a), np.zeros_like(a))
    assert (m == 47).all() and (s == (a - 47).sum()).all()


TWO_STAGES = """
                red = T.alloc_buffer((2,), scope="shared")
                with T.attr(red.data, "volatile_scope", 1):
                    with T.attr(T.comm_reducer(lambda x, y: x + y, [T.Cast("float32", 0)]), "reduce_scope", 0):
                        b1 = T.alloc_buffer((1,), scope="local")
                        m1 = T.alloc_buffer((1,), "uint32", scope="local")
                        t1 = T.alloc_buffer((1,), scope="local")
                        b0 = T.alloc_buffer((1,), scope="local")
                        m0 = T.alloc_buffer((1,), "uint32", scope="local")
                        t0 = T.alloc_buffer((1,), scope="local")
                        staging = T.alloc_buffer((6,), scope="shared")
                        b0[0] = A[bx, ty, tx]
                        m0[0] = T.tvm_warp_activemask()
{first}
                        if tx % 32 == 0:
                            staging[ty * 3 + tx // 32] = b0[0]
                        T.tvm_storage_sync("shared")
                        if tx < 3:
                            b1[0] = staging[ty * 3 + tx]
                        m1[0] = T.tvm_warp_activemask()
                        t1[0] = T.tvm_warp_shuffle_down(m1[0], b1[0], 2, 32, 32)
                        if tx + 2 < 3:
                            b1[0] = b1[0] + t1[0]
                        t1[0] = T.tvm_warp_shuffle_down(m1[0], b1[0], 1, 32, 32)
                        b1[0] = b1[0] + t1[0]
                        if tx == 0:
                            red[ty] = b1[0]
                        T.tvm_storage_sync("shared")
                    B[bx, ty, tx] = red[ty]
"""


def test_form_of_two_stages() -> None:
    """The results of the warps of a group are reduced by its first lanes, and handed to all through shared memory."""
    before = over_x(2, 96, "float32").script()
    steps = [
        f"                        t0[0] = T.tvm_warp_shuffle_down(m0[0], b0[0], {n}, 32, 32)\n"
        "                        b0[0] = b0[0] + t0[0]"
        for n in (16, 8, 4, 2, 1)
    ]
    head = before[: before.index("                total = T.alloc_buffer")]
    check(PASS, parse(before), parse(head + TWO_STAGES.format(first="\n".join(steps))), inputs=[])


def test_results_that_threads_change_have_one_barrier() -> None:
    """They are in memory of each thread: the warps make the second stage each for itself."""
    text = over_x(1, 128).script()
    before = parse(
        text.replace("                B[bx", "                total[0] = total[0] * 2 + tx\n                B[bx")
    )
    after = check(PASS, before, inputs=[])
    text = after.script()
    assert text.count("tvm_storage_sync") == 1 and "volatile_scope" not in text
    assert text.count("tvm_warp_shuffle_down") == 5 + 2
    a = data(2, 1, 128)
    _, b = run_all_orders(before, after, a, np.zeros_like(a))
    np.testing.assert_array_equal(b, 2 * a.sum(2, keepdims=True) + np.arange(128))


@pytest.mark.parametrize("changed", [True, False])
@pytest.mark.parametrize(("ny", "nx"), [(1, 128), (2, 96), (2, 18), (1, 48)])
@pytest.mark.by_day
def test_results_of_loops_do_not_overtake_each_other(ny: int, nx: int, changed: bool) -> None:
    more = "total[0] = total[0] + tx\n                    " if changed else ""
    before = parse(f"""
@T.prim_func
def f(A: T.Buffer((4, {ny}, {nx}), "int32"), B: T.Buffer((4, {ny}, {nx}), "int32")):
    T.func_attr({{"target": T.target("cuda")}})
    for ty in T.thread_binding({ny}, thread="threadIdx.y"):
        total = T.alloc_buffer((1,), "int32", scope="local")
        for tx in T.thread_binding({nx}, thread="threadIdx.x"):
            for i in range(2):
                for j in range(2):
                    with T.attr(T.comm_reducer(lambda x, y: x + y, [0]), "reduce_scope", 0):
                        T.tvm_thread_allreduce(T.uint32(1), A[i * 2 + j, ty, tx], True, total[0], tx)
                    {more}B[i * 2 + j, ty, tx] = total[0]
""")
    after = check(PASS, before, inputs=[])
    a = data(4, ny, nx)
    _, b = run_all_orders(before, after, a, np.zeros_like(a))
    np.testing.assert_array_equal(b, a.sum(2, keepdims=True) + (np.arange(nx) if changed else np.zeros(nx, np.int32)))


def test_nothing_to_do() -> None:
    func = parse("@T.prim_func\ndef f(A: T.Buffer((8,), 'int32')):\n    for i in range(8):\n        A[i] = i\n")
    assert PASS(func) is func


def test_errors() -> None:
    text = over_x(2, 8).script()
    with pytest.raises(TransformError, match="no target"):
        PASS(parse("\n".join(line for line in text.splitlines() if "func_attr" not in line)))
    with tl.Target("nvptx"):
        PASS(parse("\n".join(line for line in text.splitlines() if "func_attr" not in line)))
    with pytest.raises(TransformError, match="no thread index"):
        PASS(parse(text.replace("total[0], tx)", "total[0], bx)")))
    with pytest.raises(TransformError, match="not constant"):
        PASS(parse(text.replace("T.thread_binding(2, thread=\"threadIdx.y\")", "T.thread_binding(n, thread=\"threadIdx.y\")")
                   .replace("def reduce(", "def reduce(n: T.int32, ")))  # fmt: skip
    with pytest.raises(TransformError, match="no reducer"):
        PASS(parse(text.replace('"reduce_scope"', '"another_scope"')))
    with pytest.raises(TransformError, match="reducer of 1"):
        PASS(parse(text.replace("T.uint32(1), A[bx, ty, tx]", "T.uint32(2), A[bx, ty, tx], 1").replace("total[0], tx)", "total[0], total[0], tx)")))  # fmt: skip


def test_form_within_one_warp() -> None:
    """The result is where the shuffles work; the reducer's attribute stays."""
    before = over_x(4, 8, "float32").script()
    expected = (
        before[: before.index("                with T.attr(")]
        + """                with T.attr(T.comm_reducer(lambda x, y: x + y, [T.Cast("float32", 0)]), "reduce_scope", 0):
                    mask = T.alloc_buffer((1,), "uint32", scope="local")
                    t = T.alloc_buffer((1,), scope="local")
                    total[0] = A[bx, ty, tx]
                    mask[0] = T.tvm_warp_activemask()
                    t[0] = T.tvm_warp_shuffle_down(mask[0], total[0], 4, 32, 32)
                    total[0] = total[0] + t[0]
                    t[0] = T.tvm_warp_shuffle_down(mask[0], total[0], 2, 32, 32)
                    total[0] = total[0] + t[0]
                    t[0] = T.tvm_warp_shuffle_down(mask[0], total[0], 1, 32, 32)
                    total[0] = total[0] + t[0]
                    total[0] = T.tvm_warp_shuffle(mask[0], total[0], 8 * ty, 32, 32)
                B[bx, ty, tx] = total[0]
"""
    )
    check(PASS, parse(before), parse(expected), inputs=[])


@pytest.mark.parametrize("where", ["B[bx, ty, tx]", "total[0] of two"])
def test_results_elsewhere_get_a_register(where: str) -> None:
    """In memory of all, or in one element of several, the steps would be seen, or undo each other."""
    text = over_x(1, 32).script()
    if where == "B[bx, ty, tx]":
        text = text.replace("T.bool(True), total[0], tx)", "T.bool(True), B[bx, ty, tx], tx)").replace("B[bx, ty, tx] = total[0]", "total[0] = 0")  # fmt: skip
    else:
        text = text.replace('T.alloc_buffer((1,), "int32"', 'T.alloc_buffer((2,), "int32"')
    before = parse(text)
    after = check(PASS, before, inputs=[])
    assert after.script().count("red_buf0 = T.alloc_buffer((1,)") == 1
    a = data(2, 1, 32)
    _, b = run_all_orders(before, after, a, np.zeros_like(a))
    np.testing.assert_array_equal(b, np.broadcast_to(a.sum(2, keepdims=True), a.shape))


def test_a_condition_selects_a_value_that_is_at_hand() -> None:
    unconditional = over_x(1, 32).script().replace("A[bx, ty, tx], T.bool", "tx * 3, T.bool")
    assert "Select" not in check(PASS, parse(unconditional), inputs=[]).script()
    text = over_x(1, 32).script().replace("with T.attr(", "mine = T.alloc_buffer((1,), \"int32\", scope=\"local\")\n                mine[0] = A[bx, ty, tx]\n                with T.attr(")  # fmt: skip
    before = parse(text.replace("A[bx, ty, tx], T.bool(True)", "mine[0], tx < 7"))
    after = check(PASS, before, inputs=[])
    assert "T.Select(tx < 7, mine[0], T.Cast" in after.script()
    a = data(2, 1, 32)
    _, b = run_all_orders(before, after, a, np.zeros_like(a))
    np.testing.assert_array_equal(b, np.broadcast_to(a[:, :, :7].sum(2, keepdims=True), a.shape))


@pytest.mark.parametrize(("ny", "nx"), [(1, 32), (1, 64), (2, 8), (1, 7), (1, 256)])
def test_shuffles_of_a_target_without_a_mask(ny: int, nx: int) -> None:
    before = over_x(ny, nx, target="apple/m1-gpu")
    after = check(PASS, before, inputs=[])
    text = after.script()
    assert "tvm_warp_shuffle(0, " in text or "tvm_warp_shuffle_down(0, " in text
    assert "mask" not in text
    a = data(2, ny, nx)
    _, b = run_all_orders(before, after, a, np.zeros_like(a))
    np.testing.assert_array_equal(b, np.broadcast_to(a.sum(2, keepdims=True), a.shape))
