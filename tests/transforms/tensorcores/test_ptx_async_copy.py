from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.checking import check, random_arguments
from tirlower.diagnostics import TransformError
from tirlower.interp import interpret
from tirlower.ir import Call, PrimFunc, pre_order_visit
from tirlower.machine.target import Target
from tirlower.script import parse
from tirlower.transforms import (
    FlattenBuffer,
    InjectPTXAsyncCopy,
    InjectSoftwarePipeline,
    LowerOpaqueBlock,
    MergeSharedMemoryAllocations,
    Sequential,
    Simplify,
    ThreadSync,
    UnrollLoop,
    VectorizeLoop,
)


def calls(func: PrimFunc, name: str) -> list[Call]:
    found: list[Call] = []
    pre_order_visit(
        func.body, lambda op: found.append(op) if isinstance(op, Call) and op.op.name == f"tir.{name}" else None
    )
    return found


def sizes(func: PrimFunc) -> list[int]:
    return [call.args[4].value for call in calls(func, "ptx_cp_async")]


def kernel(copy: str, dtype: str = "float16", scope: str = "shared", read: str = "s[127 - tx * 8 - i]", count: str = "0") -> PrimFunc:  # fmt: skip
    """A kernel of 16 threads that copies into ``s`` and stores what ``read`` gives."""
    lines = "\n".join(f"                {line}" for line in copy.splitlines())
    return parse(f"""
@T.prim_func
def f(A: T.Buffer((256,), "{dtype}"), B: T.Buffer((128,), "{dtype}"), n: T.int32):
    for tx in T.thread_binding(16, thread="threadIdx.x"):
        s = T.alloc_buffer((256,), "{dtype}", scope="{scope}")
        t = T.alloc_buffer((256,), "{dtype}", scope="{scope}")
        for i in range(16):
            s[tx * 16 + i] = T.{dtype}(1)
            t[tx * 16 + i] = T.{dtype}(1)
        T.tvm_storage_sync("{scope}")
        with T.attr(0, "async_commit_queue_scope", 0):
            with T.attr(0, "async_scope", 1):
{lines}
        with T.attr(0, "async_wait_queue_scope", 0):
            with T.attr(0, "async_wait_inflight_count", {count}):
                T.tvm_storage_sync("{scope}")
                for i in range(8):
                    B[tx * 8 + i] = {read} + t[255 - tx * 8 - i]
""")


def lowered(copy: str, **options: Any) -> PrimFunc:
    before = kernel(copy, **options)
    after = check(InjectPTXAsyncCopy(), before)
    assert "async" not in after.script().replace("cp_async", "")
    alike(before, after)
    return after


def alike(before: PrimFunc, after: PrimFunc, count: int = 3, sizes: tuple[int, ...] = (1, 2, 3, 5, 8, 13)) -> None:
    """Also with threads in any order, and without races."""
    rng = np.random.default_rng(7)
    for seed in range(count):
        first = random_arguments(before, rng, sizes)
        second = [a.copy() if isinstance(a, np.ndarray) else a for a in first]
        interpret(before, *first)
        interpret(after, *second, seed=seed, races=True)
        for x, y in zip(first, second, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    ("dtype", "lanes", "expected"),
    [("float16", 8, [16]), ("float16", 4, [8]), ("float16", 2, [4]), ("float32", 1, [4]), ("float32", 4, [16]),
     ("int8", 4, [4]), ("float64", 1, [8]), ("float64", 2, [16]), ("float32", 8, [16, 16]), ("bfloat16", 8, [16]),
     ("int32", 3, [4, 4, 4])],
)  # fmt: skip
def test_sizes_and_types(dtype: str, lanes: int, expected: list[int]) -> None:
    at = f"tx * {lanes}"
    run = at if lanes == 1 else f"{at}:{at} + {lanes}"
    read = f"s[(15 - tx) * {lanes}]"
    assert sizes(lowered(f"s[{run}] = A[{run}]", dtype=dtype, read=read)) == expected


def test_elements_of_less_than_4_bytes_stay() -> None:
    after = lowered("s[tx] = A[tx]", read="s[15 - tx]")
    assert not calls(after, "ptx_cp_async") and not calls(after, "ptx_wait_group") and "attr" not in after.script()


def test_predicates() -> None:
    after = lowered("s[tx * 8:tx * 8 + 8] = T.if_then_else(tx < n, A[tx * 8:tx * 8 + 8], T.Broadcast(T.float16(0), 8))")
    (call,) = calls(after, "ptx_cp_async")
    assert str(call.args[5]) == "tx < n"
    both = "T.if_then_else(tx > 2, T.if_then_else(tx < n, A[tx], T.float32(0)), T.float32(0))"
    assert sizes(lowered(f"s[tx] = {both}", dtype="float32", read="s[15 - tx]")) == [4]
    assert sizes(lowered("s[tx] = T.Select(n < 4, A[tx + 3], 0)", dtype="int32", read="s[15 - tx]")) == [4]


def test_an_element_is_not_touched_where_the_predicate_fails() -> None:
    after = InjectPTXAsyncCopy()(
        kernel("s[tx] = T.if_then_else(tx + n < 256, A[tx + n], 0)", dtype="int32", read="s[15 - tx]")
    )
    a, b = np.arange(256, dtype=np.int32), np.zeros(128, np.int32)
    interpret(after, a, b, 10_000, races=True)
    assert b[0] == 1 and sizes(after) == [4]


@pytest.mark.parametrize(
    "copy",
    [
        "s[tx] = T.if_then_else(tx < n, A[tx], T.float32(1))",  # another value than zero
        "s[tx] = T.if_then_else(tx < n, A[tx], T.float32(-0.0))",  # whose bits are not 0
        "s[tx] = A[tx] * T.float32(2)",
        "s[tx] = t[tx]",
        "s[T.Ramp(tx * 4, 2, 2)] = A[T.Ramp(tx * 4, 2, 2)]",
        "s[tx * 2:tx * 2 + 2] = A[T.Ramp(tx * 2 + 1, -1, 2)]",
    ],
)
def test_other_values_stay(copy: str) -> None:
    after = lowered(copy, dtype="float32", read="s[(15 - tx) * 2]")
    assert not calls(after, "ptx_cp_async")


def test_alignment_is_proved() -> None:
    assert sizes(lowered("s[tx * 8:tx * 8 + 8] = A[tx * 8 + 4:tx * 8 + 4 + 8]")) == [8, 8]
    assert sizes(lowered("s[tx * 8:tx * 8 + 8] = A[tx * 8 + 2:tx * 8 + 2 + 8]")) == [4, 4, 4, 4]
    assert sizes(lowered("s[tx * 8:tx * 8 + 8] = A[tx * 8 + 1:tx * 8 + 1 + 8]")) == []
    assert sizes(lowered("s[tx * 8 + 4:tx * 8 + 4 + 8] = A[tx * 8:tx * 8 + 8]", read="s[131 - tx * 8 - i]")) == [8, 8]
    after = lowered("s[tx * 4:tx * 4 + 4] = A[tx * n:tx * n + 4]", dtype="float32", read="s[(15 - tx) * 4]")
    assert sizes(after) == [4] * 4


def test_symbolic_rows() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer(("n",), "float32"), B: T.Buffer((64,), "float32")):
    for tx in T.thread_binding(16, thread="threadIdx.x"):
        s = T.alloc_buffer((64,), "float32", scope="shared.dyn")
        for k in range(n // 16):
            T.tvm_storage_sync("shared.dyn")
            with T.attr(0, "async_scope", 1):
                s[k % 4 * 16 + tx] = A[k * 16 + tx]
            T.ptx_commit_group("void")
            T.ptx_wait_group("void", 0)
            T.tvm_storage_sync("shared.dyn")
            B[k % 4 * 16 + tx] = s[k % 4 * 16 + 15 - tx] * T.float32(2)
""")
    args = [[np.arange(n * 16, dtype=np.float32), np.zeros(64, np.float32)] for n in (0, 1, 3, 7)]
    after = check(InjectPTXAsyncCopy(), before, inputs=args)
    assert sizes(after) == [4]


def test_loops_that_write_an_element_once() -> None:
    assert sizes(lowered("for k in range(2):\n    s[k * 64 + tx * 4:k * 64 + tx * 4 + 4] = A[k * 64 + tx * 4:k * 64 + tx * 4 + 4]")) == [8]  # fmt: skip
    assert sizes(lowered("for k in range(3, 5):\n    for j in range(1):\n        s[k * 16 + tx] = A[k * 20 + tx]",
                         dtype="int32", read="s[79 - tx]")) == [4]  # fmt: skip
    backward = "for k in range(2):\n    s[16 - k * 16 + tx] = A[k * 16 + tx]"
    assert sizes(lowered(backward, dtype="int32", read="s[31 - tx]")) == [4]
    # The same element in each iteration: the last one counts, which no instruction would see to.
    for again in ("s[tx] = A[k * 16 + tx]", "s[k // 2 * 16 + tx] = A[k * 16 + tx]"):
        after = lowered(f"for k in range(4):\n    {again}", dtype="int32", read="s[15 - tx]")
        assert sizes(after) == []


def test_what_else_a_scope_does_with_a_copy() -> None:
    one = "s[tx] = A[tx]"
    kept = {"dtype": "int32", "read": "s[15 - tx]"}
    assert sizes(lowered(f"{one}\nt[tx] = A[tx + 16]", **kept)) == [4, 4]
    assert sizes(lowered(f"{one}\ns[tx + 16] = A[tx + 1]", **kept)) == [4, 4]
    assert sizes(lowered(f"{one}\ns[tx] = A[tx + 1]", **kept)) == []
    assert sizes(lowered(f"{one}\ns[tx] = s[tx] + 1", **kept)) == []
    assert sizes(lowered(f"{one}\nt[tx] = A[tx + 16]\nt[tx] = t[tx] * s[tx]", **kept)) == []
    assert sizes(lowered(f"{one}\nA[tx] = 3", **kept)) == []
    assert sizes(lowered(f"{one}\nif tx < n:\n    t[tx] = A[tx + 16]\nelse:\n    t[tx] = 5", **kept)) == [4]
    assert sizes(lowered(f"if s[tx] > 0:\n    {one}", **kept)) == []
    assert sizes(lowered("k = T.alloc_buffer((1,), 'int32', scope='local')\nk[0] = tx\nwhile k[0] < 33:\n"
                         "    s[k[0]] = A[k[0]]\n    k[0] = k[0] + 16", **kept)) == []  # fmt: skip


def test_the_count_of_a_wait_is_a_constant() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), n: T.int32):
    for tx in T.thread_binding(16, thread="threadIdx.x"):
        s = T.alloc_buffer((64,), "int32", scope="shared")
        for k in range(4):
            with T.attr(0, "async_commit_queue_scope", 1):
                with T.attr(0, "async_scope", 1):
                    s[k * 16 + tx] = A[k * 16 + tx]
        for k in range(3):
            with T.attr(0, "async_wait_queue_scope", 1):
                with T.attr(0, "async_wait_inflight_count", 3 - k):
                    T.tvm_storage_sync("shared")
                    B[k * 16 + tx] = s[k * 16 + 15 - tx]
        with T.attr(0, "async_wait_queue_scope", 1):
            with T.attr(0, "async_wait_inflight_count", n - n):
                T.tvm_storage_sync("shared")
                B[48 + tx] = s[63 - tx]
""")
    after = check(InjectPTXAsyncCopy(), before)
    assert [call.args[0].value for call in calls(after, "ptx_wait_group")] == [1, 0]
    alike(before, after)
    unrolled = Sequential([UnrollLoop(auto_max_extent=4), InjectPTXAsyncCopy()])(before)
    assert [call.args[0].value for call in calls(unrolled, "ptx_wait_group")] == [3, 2, 1, 0]
    alike(before, unrolled)


PIPELINE = """
@T.prim_func
def f(a: T.handle, b: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 64), "float32")
    B = T.match_buffer(b, (n, 64), "float32")
    C = T.match_buffer(c, (n, 64), "float32")
    for tx in T.thread_binding(16, thread="threadIdx.x"):
        for i in T.serial(n, annotations={"software_pipeline_stage": STAGES, "software_pipeline_order": ORDER,
                                          "software_pipeline_async_stages": ASYNC}):
            with T.block("b"):
                T.reads(A[i, 0:64], B[i, 0:64])
                T.writes(C[i, 0:64])
                S = T.alloc_buffer((64,), "float32", scope="SCOPE")
                R = T.alloc_buffer((64,), "float32", scope="SCOPE")
                with T.block("a"):
                    for v in T.vectorized(4):
                        S[tx * 4 + v] = T.if_then_else(i % 3 < 2, A[i, tx * 4 + v], T.float32(0))
                with T.block("b"):
                    for v in T.vectorized(4):
                        R[tx * 4 + v] = B[i, tx * 4 + v]
                with T.block("use"):
                    for v in range(4):
                        C[i, tx * 4 + v] = S[63 - tx * 4 - v] * R[tx * 4 + v] + R[63 - tx * 4 - v]
"""


@pytest.mark.parametrize(
    ("stages", "order", "asynchronous"),
    [([0, 0, 3], [0, 1, 2], [0]), ([0, 1, 3], [0, 1, 2], [0, 1]), ([0, 0, 2], [1, 2, 0], [0]),
     ([0, 1, 2], [1, 2, 0], [0]), ([0, 0, 1], [0, 2, 1], [0])],
)  # fmt: skip
@pytest.mark.parametrize("extent", ["n", "5", "1"])
@pytest.mark.by_day
def test_from_a_pipeline_to_instructions(stages: Any, order: Any, asynchronous: Any, extent: str) -> None:
    scope = "shared" if extent == "n" else "shared.dyn"
    text = PIPELINE.replace("STAGES", str(stages)).replace("ORDER", str(order)).replace("ASYNC", str(asynchronous))
    text = text.replace("SCOPE", scope).replace("T.serial(n,", f"T.serial({extent},")
    if extent != "n":
        text = text.replace("    n = T.int32()\n", "").replace("(n, 64)", f"({extent}, 64)")
    before = parse(text)
    steps = [InjectSoftwarePipeline(), LowerOpaqueBlock(), FlattenBuffer(), VectorizeLoop(), UnrollLoop(), Simplify()]
    steps += [ThreadSync("shared"), ThreadSync("shared.dyn"), InjectPTXAsyncCopy()]
    after = Sequential(steps)(before)
    assert "async_" not in after.script().replace("cp_async", "")
    commits, waits = calls(after, "ptx_commit_group"), calls(after, "ptx_wait_group")
    assert calls(after, "ptx_cp_async") and commits and waits
    lengths = (0, 1, 2, 3, 7) if extent == "n" else (int(extent),)
    rng = np.random.default_rng(1)
    for length in lengths:
        a, b = (rng.integers(-9, 9, (length, 64)).astype(np.float32) for _ in range(2))
        masked = np.where(np.arange(length)[:, None] % 3 < 2, a, 0)
        want = masked[:, ::-1] * b + b[:, ::-1]
        for seed in range(2):
            got = np.zeros_like(a)
            interpret(after, a, b, got, seed=seed, races=True)
            np.testing.assert_array_equal(got, want)


def test_without_threads_or_for_a_host() -> None:
    func = kernel("s[tx] = A[tx]", dtype="int32", read="s[15 - tx]")
    host = func.with_attr("target", Target("llvm"))
    assert InjectPTXAsyncCopy()(host) is host
    assert sizes(InjectPTXAsyncCopy()(func.with_attr("target", Target("cuda", host="llvm")))) == [4]
    serial = parse(func.script().replace('T.thread_binding(16, thread="threadIdx.x")', "range(16)"))
    assert InjectPTXAsyncCopy()(serial) is serial


def test_a_wait_without_a_count_is_an_error() -> None:
    text = kernel("s[tx] = A[tx]", dtype="int32", read="s[15 - tx]").script()
    broken = parse(text.replace('T.attr(0, "async_wait_inflight_count", 0)', 'T.attr(0, "other", 0)'))
    with pytest.raises(TransformError, match="does not say for how many groups"):
        InjectPTXAsyncCopy()(broken)


def test_views_with_another_pointer_type_and_an_offset() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((128,), "float16"), B: T.Buffer((64,), "float16")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        s = T.alloc_buffer((256,), "uint8", scope="shared")
        v = T.decl_buffer((64,), "float16", data=s.data, elem_offset=64, scope="shared")
        w = T.decl_buffer((64,), "float16", data=A.data, elem_offset=32)
        with T.attr(0, "async_scope", 1):
            v[tx * 8:tx * 8 + 8] = w[tx * 8:tx * 8 + 8]
        T.ptx_commit_group("void")
        T.ptx_wait_group("void", 0)
        T.tvm_storage_sync("shared")
        B[tx * 8:tx * 8 + 8] = v[56 - tx * 8:56 - tx * 8 + 8]
""")
    after = check(InjectPTXAsyncCopy(), before)
    (call,) = calls(after, "ptx_cp_async")
    assert str(call.args[1]) == "(tx * 8 + 64) * 2" and str(call.args[3]) == "tx * 8 + 32"
    alike(before, after)


def test_merged_shared_memory() -> None:
    before = kernel(
        "s[tx * 8:tx * 8 + 8] = A[tx * 8:tx * 8 + 8]\nt[tx * 4:tx * 4 + 4] = A[tx * 4:tx * 4 + 4]", scope="shared.dyn"
    )
    alike(before, Sequential([InjectPTXAsyncCopy(), MergeSharedMemoryAllocations()])(before))


def test_indices_that_were_bound_before() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((256,), "float16"), B: T.Buffer((256,), "float16")):
    for tx in T.thread_binding(16, thread="threadIdx.x"):
        s = T.alloc_buffer((256,), "float16", scope="shared")
        at: T.let[T.int32] = tx * 8
        with T.attr(0, "async_scope", 1):
            for k in range(2):
                here: T.let[T.int32] = k * 128 + at
                s[here:here + 8] = A[here:here + 8]
        T.ptx_commit_group("void")
        T.ptx_wait_group("void", 0)
        T.tvm_storage_sync("shared")
        for k in range(16):
            B[at * 2 + k] = s[255 - at * 2 - k]
""")
    after = check(InjectPTXAsyncCopy(), before)
    assert sizes(after) == [16]
    alike(before, after)


@pytest.mark.parametrize("waits", [True, False])
def test_what_stands_behind_the_wait_in_a_scope_is_as_outside(waits: bool) -> None:
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        s = T.alloc_buffer((128,), "float32", scope="shared")
        T.attr("default", "async_scope", 1)
        s[tx * 4:tx * 4 + 4] = A[tx * 4:tx * 4 + 4]
        T.ptx_commit_group(dtype="")
        T.ptx_wait_group({0 if waits else 1}, dtype="")
        for i in range(4):
            B[tx * 4 + i] = s[tx * 4 + i] * T.float32(2)
""")
    after = InjectPTXAsyncCopy()(func)
    assert sizes(after) == ([16] if waits else [])
    a, b = np.random.default_rng(0).random(128, np.float32), np.zeros(128, np.float32)
    interpret(after, a, b)
    np.testing.assert_array_equal(b, a * 2)
