from __future__ import annotations

import numpy as np
import pytest

from tests.checking import check
from tirlower.diagnostics import TransformError
from tirlower.interp import interpret
from tirlower.ir import PrimFunc
from tirlower.script import parse
from tirlower.transforms import (
    FlattenBuffer,
    InferFragment,
    LowerAutoCopy,
    LowerOpaqueBlock,
    MergeSharedMemoryAllocations,
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


def matmul(warps: int, left: str = "a[i, j] = sa[WARP * 16 + i, j]", right: str = "b[i, j] = sb[i, j]", out: str = "C[WARP * 16 + i, j] = c[i, j]") -> PrimFunc:  # fmt: skip
    """C = A @ B by warps of 16 rows each, all copies marked."""
    rows = warps * 16
    text = f"""
@T.prim_func
def f(A: T.Buffer(({rows}, 32), "float16"), B: T.Buffer((32, 48), "float16"), C: T.Buffer(({rows}, 48), "float32")):
    for ty in T.thread_binding({warps}, thread="threadIdx.y"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            sa = T.alloc_buffer(({rows}, 32), "float16", scope="shared")
            sb = T.alloc_buffer((32, 48), "float16", scope="shared")
            a = T.alloc_buffer((16, 32), "float16", scope="wmma.matrix_a")
            b = T.alloc_buffer((32, 48), "float16", scope="wmma.matrix_b")
            c = T.alloc_buffer((16, 48), "float32", scope="wmma.accumulator")
            for j in range(3):
                T.tvm_fill_fragment(c.data, 16, 16, 16, j, T.float32(0))
            with T.block("sa"):
                T.block_attr({{"auto_copy": 1, "vector_bytes": 16}})
                for i, j in T.grid({rows}, 32):
                    sa[i, j] = A[i, j]
            with T.block("sb"):
                T.block_attr({{"auto_copy": 1, "vector_bytes": 16}})
                for i, j in T.grid(32, 48):
                    sb[i, j] = B[i, j]
            with T.block("a"):
                T.block_attr({{"auto_copy": 1}})
                for i, j in T.grid(16, 32):
                    {left}
            with T.block("b"):
                T.block_attr({{"auto_copy": 1}})
                for j, i in T.grid(48, 32):
                    {right}
            for j, k in T.grid(3, 2):
                T.tvm_mma_sync(c.data, j, a.data, k, b.data, k * 3 + j, c.data, j)
            with T.block("c"):
                T.block_attr({{"auto_copy": 1, "vector_bytes": 16}})
                for i, j in T.grid(16, 48):
                    {out}
"""
    return parse(text.replace("WARP", "ty"))


def product(func: PrimFunc, warps: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    a = rng.integers(-4, 5, (warps * 16, 32)).astype(np.float16)
    b = rng.integers(-4, 5, (32, 48)).astype(np.float16)
    c = np.zeros((warps * 16, 48), np.float32)
    interpret(func, a, b, c, seed=seed, races=True)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("warps", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_a_product_through_fragments(warps: int) -> None:
    after = LowerAutoCopy()(matmul(warps))
    text = after.script()
    assert text.count("tvm_load_matrix_sync") == 2 and text.count("tvm_store_matrix_sync") == 1
    flat = Sequential(FLAT)(after)
    product(flat, warps)
    product(Sequential([InferFragment(), MergeSharedMemoryAllocations()])(flat), warps)


def test_a_fragment_alone_round_trips() -> None:
    """One fragment lies in its memory as the elements do: before and after compute the same."""
    before = parse("""
@T.prim_func
def f(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        s = T.alloc_buffer((16, 16), "float32", scope="shared")
        c = T.alloc_buffer((16, 16), "float32", scope="wmma.accumulator")
        with T.block("s"):
            T.block_attr({"auto_copy": 1, "vector_bytes": 16})
            for i, j in T.grid(16, 16):
                s[i, j] = A[i, j]
        T.tvm_storage_sync("shared")
        with T.block("c"):
            T.block_attr({"auto_copy": 1})
            for i, j in T.grid(16, 16):
                c[i, j] = s[i, j]
        with T.block("back"):
            T.block_attr({"auto_copy": 1, "vector_bytes": 8})
            for i, j in T.grid(16, 16):
                B[i, j] = c[i, j]
""")
    after = check(LowerAutoCopy(), before, execute=False)
    flat = Sequential(FLAT)(after)
    a, b = np.random.default_rng(0).random((2, 16, 16)).astype(np.float32)
    for seed in range(2):
        interpret(flat, a, b, seed=seed, races=True)
        np.testing.assert_array_equal(a, b)


def test_columns_side_by_side_are_loaded_as_such() -> None:
    """The left matrix is transposed in shared memory; what is read is a transposed tile of it."""
    before = parse("""
@T.prim_func
def f(A: T.Buffer((32, 16), "float32"), B: T.Buffer((16, 32), "float32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        s = T.alloc_buffer((32, 16), "float32", scope="shared.dyn")
        c = T.alloc_buffer((16, 32), "float32", scope="wmma.accumulator")
        with T.block("s"):
            T.block_attr({"auto_copy": 1, "vector_bytes": 16})
            for i, j in T.grid(32, 16):
                s[i, j] = A[i, j]
        with T.block("c"):
            T.block_attr({"auto_copy": 1})
            for i, j in T.grid(16, 32):
                c[i, j] = s[j, i]
        with T.block("back"):
            T.block_attr({"auto_copy": 1, "vector_bytes": 8})
            for i, j in T.grid(16, 32):
                B[i, j] = c[i, j]
""")
    after = LowerAutoCopy()(before)
    assert '"col_major"' in after.script() and '"row_major"' in after.script()
    flat = Sequential(FLAT)(after)
    a, b = np.random.default_rng(0).random((32, 16)).astype(np.float32), np.zeros((16, 32), np.float32)
    interpret(flat, a, b, seed=2, races=True)
    np.testing.assert_array_equal(b, a.T)


def test_strips_of_more_rows_and_a_part_of_a_matrix() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((48, 32), "float32"), B: T.Buffer((64, 40), "float32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        s = T.alloc_buffer((48, 32), "float32", scope="shared")
        c = T.alloc_buffer((48, 32), "float32", scope="wmma.accumulator")
        with T.block("s"):
            T.block_attr({"auto_copy": 1, "vector_bytes": 16, "padding": 8})
            for i, j in T.grid(48, 32):
                s[i, j] = A[i, j]
        with T.block("c"):
            T.block_attr({"auto_copy": 1})
            for i, j in T.grid(48, 32):
                c[i, j] = s[i, j]
        with T.block("back"):
            T.block_attr({"auto_copy": 1, "vector_bytes": 16})
            for j, i in T.grid(16, 32):
                B[i + 7, j + 3] = c[16 + i, 16 + j]
""")
    after = LowerAutoCopy()(before)
    assert "s = T.alloc_buffer((48, 40)" in after.script() and ', 40, "row_major")' in after.script()
    flat = Sequential(FLAT)(after)
    a, b = np.random.default_rng(0).random((48, 32)).astype(np.float32), np.zeros((64, 40), np.float32)
    want = b.copy()
    want[7:39, 3:19] = a[16:48, 16:32]
    interpret(flat, a, b, seed=3, races=True)
    np.testing.assert_array_equal(b, want)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("a[i, j] = sa[ty * 16 + i, j]", "a[i, j] = sa[ty * 16 + i, j] if False else A[i, j]", "copied from 'global' memory"),
        ("T.grid(16, 48)", "T.grid(16, 40)", "no loop of a multiple of 16 runs along dimension 1 of 'c'"),
        ("b[i, j] = sb[i, j]", "b[i, j] = sb[i, 0]", "neither rows nor columns of a tile lie side by side in 'sb'"),
        ("sa[ty * 16 + i, j]", "sa[ty * 16 + i, (j + tx) % 32]", "depends on 'tx'"),
        ("C[ty * 16 + i, j] = c[i, j]", "C[ty * 16 + i, j] = c[i, j] + c[i, 0]", "not computed from one element of 'c'"),
        ("a[i, j] = sa[ty * 16 + i, j]", "a[i, j] = sa[ty * 16 + i, j] * T.float16(2)", "computes with the elements of a fragment"),
        ("C[ty * 16 + i, j] = c[i, j]", "if i < j:\n                        C[ty * 16 + i, j] = c[i, j]", "under conditions"),
        ("= c[i, j]", "= c[i, (j + 8) % 48]", "no loop of a multiple of 16"),
        ("T.thread_binding(32", "T.thread_binding(24", "no whole warps"),
        ("with T.block(\"a\")", "if tx < 8:\n             with T.block(\"a\")", "may pass it differently"),
    ],
)  # fmt: skip
def test_errors_by_name(old: str, new: str, message: str) -> None:
    new = new.replace("sa[ty * 16 + i, j] if False else ", "")
    text = matmul(1 if "whole warps" in message else 2).script()
    old = old.replace('T.block("a")', 'T.block("a")')
    if "may pass" in message:
        head, tail = text.split('            with T.block("a"):\n')
        body, rest = tail.split('            with T.block("b"):\n')
        body = "".join(f"    {line}\n" for line in body.splitlines())
        text = f'{head}            if tx < 8:\n                with T.block("a"):\n{body}            with T.block("b"):\n{rest}'
    else:
        lines = text.replace("for i, j in T.grid(16, 48)", "for i, j in T.grid(16, 48)")
        assert old in lines, (old, lines)
        # Regions are inferred again.
        text = "\n".join(x for x in lines.replace(old, new).splitlines() if "T.reads" not in x and "T.writes" not in x)
    with pytest.raises(TransformError, match=message):
        LowerAutoCopy()(parse(text))


@pytest.mark.parametrize("warps", [1, 2])
def test_an_elementwise_operand_is_added_on_the_way_to_global_memory(warps: int) -> None:
    out = 'C[WARP * 16 + i, j] = c[i, j] * T.float32(2) + T.Cast("float32", A[WARP * 16 + i, 3])'
    flat = Sequential(FLAT)(LowerAutoCopy()(matmul(warps, out=out)))
    rng = np.random.default_rng(warps)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((warps * 16, 32), (32, 48)))
    c = np.zeros((warps * 16, 48), np.float32)
    interpret(flat, a, b, c, seed=1, races=True)
    wide = a.astype(np.float32)
    np.testing.assert_array_equal(c, wide @ b.astype(np.float32) * 2 + wide[:, 3:4])


def test_rows_from_which_tiles_are_loaded_become_longer() -> None:
    """Rows of 64 bytes put the chunks of 8 rows, which are read at a time, into 2 groups of banks; those of 80 into 8."""
    text = LowerAutoCopy()(matmul(2)).script()
    assert 'sa = T.alloc_buffer((32, 40), "float16", scope="shared")' in text
