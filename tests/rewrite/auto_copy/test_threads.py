from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.checking import check, random_arguments
from tirlower.diagnostics import TransformError
from tirlower.interp import interpret
from tirlower.ir import PrimFunc
from tirlower.script import parse
from tirlower.transforms import (
    FlattenBuffer,
    InjectPermutedLayout,
    InjectPTXAsyncCopy,
    InjectSoftwarePipeline,
    LowerAutoCopy,
    LowerOpaqueBlock,
    Sequential,
    Simplify,
    ThreadSync,
    VectorizeLoop,
)

FLAT = [
    LowerOpaqueBlock(),
    FlattenBuffer(),
    VectorizeLoop(),
    Simplify(),
    ThreadSync("shared"),
    ThreadSync("shared.dyn"),
]
VEC = '"auto_copy": 1, "vector_bytes": 16'


def lowered(before: PrimFunc, sizes: tuple[int, ...] = (1, 2, 3, 5, 8)) -> PrimFunc:
    """The pass, then all that makes a kernel of it, run without races in several orders of the threads."""
    after = check(LowerAutoCopy(), before, sizes=sizes)
    assert "auto_copy" not in after.script() and "vector_bytes" not in after.script()
    flat = Sequential(FLAT)(after)
    rng = np.random.default_rng(4)
    for seed in range(3):
        first = random_arguments(before, rng, sizes)
        second = [a.copy() if isinstance(a, np.ndarray) else a for a in first]
        interpret(before, *first)
        interpret(flat, *second, seed=seed, races=True)
        for x, y in zip(first, second, strict=True):
            np.testing.assert_array_equal(x, y)
    return after


def through(rows: Any, cols: Any, notes: str = VEC, dtype: str = "float32", threads: int = 32, target: str = "B[i, j] = s[i, j]",
            scope: str = "shared", more: str = "", shape: str = "") -> PrimFunc:  # fmt: skip
    """A tile copied into shared memory and out of it."""
    shape = shape or f"({rows}, {cols})"
    return parse(f"""
@T.prim_func
def f(A: T.Buffer(({rows}, {cols}), "{dtype}"), B: T.Buffer({shape}, "{dtype}")):
    for tx in T.thread_binding({threads}, thread="threadIdx.x"):
        s = T.alloc_buffer(({rows}, {cols}), "{dtype}", scope="{scope}")
        with T.block("load"):
            T.block_attr({{{notes}}})
            for i, j in T.grid({rows}, {cols}):
                s[i, j] = A[i, j]
{more}
        with T.block("store"):
            T.block_attr({{{notes}}})
            for i, j in T.grid({rows}, {cols}):
                {target}
""")


@pytest.mark.parametrize(("dtype", "lanes"), [("float32", 4), ("float16", 8), ("int8", 16), ("float64", 2)])
@pytest.mark.parametrize("scope", ["shared", "shared.dyn"])
@pytest.mark.by_day
def test_types_and_scopes(dtype: str, lanes: int, scope: str) -> None:
    after = lowered(through(16, 32, dtype=dtype, scope=scope))
    assert after.script().count(f"T.vectorized({lanes})") == 2


@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (7, 13), (16, 1), (3, 20), (64, 6)])
@pytest.mark.parametrize("threads", [1, 6, 32])
def test_sizes_that_threads_do_not_divide(rows: int, cols: int, threads: int) -> None:
    after = lowered(through(rows, cols, threads=threads))
    if threads == 32 and cols % 2:
        assert "vectorized" not in after.script()


def test_symbolic_sizes() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer(("n", 8), "float32"), B: T.Buffer(("n", 8), "float32")):
    for bx in T.thread_binding((n + 3) // 4, thread="blockIdx.x"):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            s = T.alloc_buffer((4, 8), "float32", scope="shared")
            with T.block("load"):
                T.reads(A[bx * 4:bx * 4 + 4, 0:8])
                T.writes(s[0:4, 0:8])
                T.block_attr({"auto_copy": 1, "vector_bytes": 16})
                for i, j in T.grid(4, 8):
                    if bx * 4 + i < n:
                        s[i, j] = A[bx * 4 + i, j]
            with T.block("store"):
                T.reads(s[0:4, 0:8])
                T.writes(B[bx * 4:bx * 4 + 4, 0:8])
                T.block_attr({"auto_copy": 1, "vector_bytes": 8})
                for i, j in T.grid(T.min(n - bx * 4, 4), 8):
                    B[bx * 4 + i, j] = s[i, j]
""")
    text = lowered(before).script()
    assert "T.vectorized(4)" in text and "T.vectorized(2)" in text


def test_neighbouring_threads_copy_neighbours_of_global_memory() -> None:
    after = lowered(through(16, 32, target="B[j, i] = s[i, j]", shape="(32, 16)"))
    assert "B[turn * 2 + tx // 16, tx % 16]" in after.script()
    before = parse("""
@T.prim_func
def f(A: T.Buffer((16, 8), "float32"), B: T.Buffer((8, 16), "float32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        with T.block("transpose"):
            T.block_attr({"auto_copy": 1, "vector_bytes": 16})
            for j, i in T.grid(8, 16):
                B[j, i] = A[15 - i, j]
""")
    assert "B[turn // 2, turn % 2 * 8 + tx]" in lowered(before).script()


def test_padding_takes_conflicts_away() -> None:
    """Threads along a column of 32 words a row all meet in one bank; with longer rows they do not."""
    after = lowered(through(32, 32, target="B[j, i] = s[i, j]", notes='"auto_copy": 1'))
    assert "s = T.alloc_buffer((32, 33)" in after.script()
    # Rows stay aligned for vectors.
    after = lowered(through(32, 32, target="B[j, i] = s[i, j]"))
    assert "s = T.alloc_buffer((32, 36)" in after.script()
    # Nothing to gain.
    assert "s = T.alloc_buffer((16, 32)" in lowered(through(16, 32)).script()
    assert "s = T.alloc_buffer((32, 32)" in lowered(through(32, 32, notes=VEC + ', "padding": 0')).script()
    assert "s = T.alloc_buffer((32, 40)" in lowered(through(32, 32, notes=VEC + ', "padding": 8')).script()


def test_rows_used_through_pointers_are_not_padded() -> None:
    more = '        T.evaluate(T.call_extern("int32", "abs", T.int32(0), T.address_of(s[0, 0])))'
    transposed = {"target": "B[j, i] = s[i, j]", "notes": '"auto_copy": 1'}
    func = LowerAutoCopy()(through(32, 32, more=more, **transposed))
    assert "s = T.alloc_buffer((32, 32)" in func.script()
    transposed["notes"] += ', "padding": 4'
    with pytest.raises(TransformError, match="'s' cannot be padded by 4 elements: it is used through a pointer"):
        LowerAutoCopy()(through(32, 32, more=more, **transposed))
    with pytest.raises(TransformError, match="padding is a number, not negative, got -1"):
        LowerAutoCopy()(through(32, 32, notes=VEC + ', "padding": -1'))


def test_swizzled_instead_of_padded() -> None:
    notes = VEC + ', "permuted_layout": 1'
    before = through(64, 64, notes=notes, dtype="float16", target="B[j, i] = s[i, j]")
    after = LowerAutoCopy()(before)
    assert "s = T.alloc_buffer((64, 64)" in after.script()
    flat = Sequential([InjectPermutedLayout(), *FLAT])(after)
    assert "bitwise_xor" in flat.script()
    a, b = np.random.default_rng(0).random((64, 64)).astype(np.float16), np.zeros((64, 64), np.float16)
    interpret(flat, a, b, seed=1, races=True)
    np.testing.assert_array_equal(b, a.T)


def test_a_local_stage() -> None:
    after = lowered(through(16, 32, notes=VEC + ', "local_stage": 1'))
    text = after.script()
    assert 's_local = T.alloc_buffer((4, 4), scope="local")' in text.replace('"float32", ', "")
    assert text.index("s_local[turn, lane] = A[") < text.index("= s_local[")
    # Less than one turn, and under a condition.
    small = through(3, 4, notes=VEC + ', "local_stage": 1', threads=32)
    text = small.script().replace("s[i, j] = A[i, j]", "if i + j < 5:\n                    s[i, j] = A[i, j]")
    text = text.replace(
        'with T.block("load"):',
        'for z in range(12):\n            s[z // 4, z % 4] = T.float32(0)\n        with T.block("load"):',
        1,
    )
    LowerAutoCopy()(small)
    zeroed = parse(
        text.replace(
            "for z in range(12):\n            s[z // 4, z % 4] = T.float32(0)",
            "if tx < 12:\n            s[tx // 4, tx % 4] = T.float32(0)",
        )
    )
    assert "if " in lowered(zeroed).script()


def test_threads_along_several_axes() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((4, 8, 12), "int32"), B: T.Buffer((4, 8, 12), "int32")):
    for tz in T.thread_binding(2, thread="threadIdx.z"):
        for tx in T.thread_binding(3, thread="threadIdx.x"):
            for ty in T.thread_binding(4, thread="threadIdx.y"):
                s = T.alloc_buffer((4, 8, 12), "int32", scope="shared")
                with T.block("load"):
                    T.block_attr({"auto_copy": 1, "vector_bytes": 8})
                    for i, j, k in T.grid(4, 8, 12):
                        s[i, j, k] = A[i, j, k]
                with T.block("store"):
                    T.block_attr({"auto_copy": 1, "vector_bytes": 8})
                    for i, j, k in T.grid(2, 8, 12):
                        B[tz * 2 + i, j, k] = s[tz * 2 + i, 7 - j, k]
""")
    text = lowered(before).script()
    # All threads share the first copy; those with one tz share the second.
    load, store = (next(line for line in text.splitlines() if f" {side}" in line) for side in ("s[turn", "B[tz"))
    assert "tz" in load and "B[tz * 2 + turn" in store


def test_loops_that_do_not_start_at_0_and_a_fused_one() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((100,), "float32"), B: T.Buffer((8, 8), "float32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        s = T.alloc_buffer((8, 8), "float32", scope="shared")
        with T.block("load"):
            T.block_attr({"auto_copy": 1, "vector_bytes": 16})
            for f in range(4, 68):
                s[(f - 4) // 8, (f - 4) % 8] = A[f + 8]
        with T.block("store"):
            T.block_attr({"auto_copy": 1, "vector_bytes": 16})
            for i, j in T.grid(8, 8):
                B[7 - i, j] = s[i, j]
""")
    text = lowered(before).script()
    assert text.count("T.vectorized(4)") == 2 and "turn" in text


def test_conversions() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((8, 16), "float16"), B: T.Buffer((8, 16), "float32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        s = T.alloc_buffer((8, 16), "float32", scope="shared")
        with T.block("load"):
            T.block_attr({"auto_copy": 1, "vector_bytes": 8})
            for i, j in T.grid(8, 16):
                s[i, j] = T.Cast("float32", A[i, j])
        for i in range(16):
            B[tx, i] = s[tx, 15 - i]
""")
    assert "T.vectorized(4)" in lowered(before).script()


@pytest.mark.parametrize(
    "copy",
    [
        "for i in range(8):\n                    s[i * tx % 8, 0] = A[i, 0]",  # each thread another one
        "for i in range(8):\n                    s[i // 2, 0] = A[i, 0]",  # an element twice
        "for i in range(8):\n                  for j in range(i + 1):\n                    s[i, j] = A[i, j]",
        "for i, j in T.grid(8, 8):\n                    s[i, k[0] + j] = A[i, j]",
    ],
)
def test_copies_that_cannot_be_shared_stay(copy: str) -> None:
    before = parse(
        f"""
@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        s = T.alloc_buffer((8, 9), "float32", scope="local" if False else "shared")
        k = T.alloc_buffer((1,), "int32", scope="local")
        k[0] = tx % 2
        if tx == 3:
            with T.block("load"):
                T.reads(A[0:8, 0:8])
                T.writes(s[0:8, 0:9])
                T.block_attr({{"auto_copy": 1, "vector_bytes": 16}})
                {copy}
        B[tx, 0] = A[tx, 0]
""".replace('"local" if False else "shared"', '"shared"')
    )
    after = check(LowerAutoCopy(), before)
    assert "turn" not in after.script()


def test_under_a_condition_that_threads_pass_differently_each_makes_all() -> None:
    text = through(8, 8).script()
    where = text.replace(
        '        with T.block("load"):', '        with T.block("load"):\n            T.where(tx < 3)', 1
    )
    load, store = LowerAutoCopy()(parse(where)).script().split('"store"')
    assert "vectorized(4)" in load and "tx //" not in load and "tx //" in store


def test_registers_are_each_threads_own() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        r = T.alloc_buffer((8, 8), "float32", scope="local")
        with T.block("load"):
            T.block_attr({"auto_copy": 1, "vector_bytes": 16})
            for i, j in T.grid(8, 8):
                r[i, j] = A[i, j]
        for i in range(8):
            B[tx, i] = r[i, tx]
""")
    assert "turn" not in lowered(before).script()


def test_into_an_asynchronous_pipeline() -> None:
    """Two copies become cp.async, two iterations ahead of what uses them."""
    before = parse("""
@T.prim_func
def f(A: T.Buffer((6, 16, 32), "float16"), B: T.Buffer((6, 16, 32), "float16")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        for k in T.serial(6, annotations={"software_pipeline_stage": [0, 2], "software_pipeline_order": [0, 1],
                                          "software_pipeline_async_stages": [0]}):
            with T.block("step"):
                s = T.alloc_buffer((16, 32), "float16", scope="shared")
                with T.block("load"):
                    T.block_attr({"auto_copy": 1, "vector_bytes": 16})
                    for i, j in T.grid(16, 32):
                        s[i, j] = A[k, i, j]
                with T.block("store"):
                    T.block_attr({"auto_copy": 1, "vector_bytes": 4})
                    for i, j in T.grid(16, 32):
                        B[k, i, j] = s[15 - i, 31 - j]
""")
    steps = [LowerAutoCopy(), InjectSoftwarePipeline(), *FLAT, InjectPTXAsyncCopy()]
    after = Sequential(steps)(before)
    assert "ptx_cp_async" in after.script() and ", 16)" in after.script()
    a, b = np.random.default_rng(0).random((6, 16, 32)).astype(np.float16), np.zeros((6, 16, 32), np.float16)
    for seed in range(2):
        interpret(after, a, b, seed=seed, races=True)
        np.testing.assert_array_equal(b, a[:, ::-1, ::-1])


def test_a_number_of_threads_that_is_not_known() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32")):
    for tx in T.thread_binding(n, thread="threadIdx.x"):
        with T.block("all"):
            T.block_attr({"auto_copy": 1})
            for i in range(n):
                B[i] = A[i]
""")
    with pytest.raises(TransformError, match=r"along threadIdx\.x is no constant"):
        LowerAutoCopy()(func)
