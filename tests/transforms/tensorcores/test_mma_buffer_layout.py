from __future__ import annotations

import numpy as np
import pytest

from tests.checking import check
from tirlower.diagnostics import TransformError
from tirlower.interp import interpret
from tirlower.ir import AllocBuffer, PrimFunc, pre_order_visit
from tirlower.script import parse
from tirlower.transforms import (
    FlattenBuffer,
    InjectSoftwarePipeline,
    LowerOpaqueBlock,
    Sequential,
    Simplify,
    TransformMmaBufferLayout,
)

PASS = TransformMmaBufferLayout()
AT = "r * 8 + tx // 4, k * 8 + tx % 4 * 2 + e"


def accumulators(rows: int, cols: int, dtype: str = "float32", body: str = "") -> PrimFunc:
    """A warp adds 1 to a matrix that it holds, element by element."""
    return parse(f"""
@T.prim_func
def f(A: T.Buffer(({rows}, {cols}), "{dtype}"), B: T.Buffer(({rows}, {cols}), "{dtype}"), n: T.int32):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        c = T.alloc_buffer(({rows}, {cols}), "{dtype}", scope="m16n8k8.matrixC")
        for r, k, e in T.grid({rows // 8}, {cols // 8}, 2):
            c[{AT}] = A[{AT}]
        {body or f"for r, k, e in T.grid({rows // 8}, {cols // 8}, 2):"}
            c[{AT}] = c[{AT}] + T.{dtype}(1)
        for r, k, e in T.grid({rows // 8}, {cols // 8}, 2):
            B[{AT}] = c[{AT}]
""")


def shapes(func: PrimFunc) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    pre_order_visit(
        func.body,
        lambda op: found.append(tuple(e.value for e in op.buffer.shape)) if isinstance(op, AllocBuffer) else None,
    )
    return found


@pytest.mark.parametrize(("rows", "cols"), [(16, 8), (16, 16), (32, 8), (64, 40)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_accumulators(rows: int, cols: int, dtype: str) -> None:
    after = check(PASS, accumulators(rows, cols, dtype))
    assert shapes(after) == [(rows // 16, cols // 8, 2, 2)] and 'scope="local"' in after.script()
    flat = Sequential([FlattenBuffer(), Simplify()])(after)
    assert shapes(flat) == [(rows * cols // 32,)]
    a = np.arange(rows * cols).reshape(rows, cols).astype(dtype)
    b = np.zeros_like(a)
    interpret(flat, a, b, 0, seed=1, races=True)
    np.testing.assert_array_equal(b, a + 1)


def test_the_elements_of_a_thread() -> None:
    """Each element is in the register of the thread that the instruction gives it to, and in no other's."""
    where: dict[tuple[int, tuple[int, ...]], tuple[int, int]] = {}
    for i in range(32):
        for j in range(16):
            lane = i % 8 * 4 + j % 8 // 2
            register = (i // 16, j // 8, i // 8 % 2, j % 2)
            assert where.setdefault((lane, register), (i, j)) == (i, j)
    assert len(where) == 32 * 16
    after = PASS(accumulators(32, 16))
    assert "c[r // 2, k, r % 2, e]" in after.script()


def test_dynamic_loops_and_conditions() -> None:
    body = "for r, k, e in T.grid(T.min(n, 2), 2, 2):"
    func = accumulators(16, 16, body=body)
    after = check(PASS, func, sizes=(0, 1, 2, 5))
    assert "c[0, k, r, e]" in after.script()


def test_matrices_with_dimensions_in_front() -> None:
    before = parse("""
@T.prim_func
def f(B: T.Buffer((3, 16, 8), "float32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        c = T.alloc_buffer((3, 16, 8), "float32", scope="m16n8k8.matrixC")
        for s, r, e in T.grid(3, 2, 2):
            c[s, r * 8 + tx // 4, tx % 4 * 2 + e] = T.Cast("float32", s * 100 + r)
        for s, r, e in T.grid(3, 2, 2):
            B[2 - s, r * 8 + tx // 4, tx % 4 * 2 + e] = c[s, r * 8 + tx // 4, tx % 4 * 2 + e]
""")
    assert shapes(check(PASS, before)) == [(3, 1, 1, 2, 2)]


PRODUCT = """
@T.prim_func
def f(A: T.Buffer((16, 8), "float16"), B: T.Buffer((8, 8), "float16"), C: T.Buffer((16, 8), "float32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        with T.block("root"):
            T.reads(A[0:16, 0:8], B[0:8, 0:8])
            T.writes(C[0:16, 0:8])
            a = T.alloc_buffer((32, 8), "float16", scope="m16n8k8.matrixA")
            b = T.alloc_buffer((8, 32), "float16", scope="m16n8k8.matrixB")
            c = T.alloc_buffer((16, 8), "float32", scope="m16n8k8.matrixC")
            sa = T.alloc_buffer((16, 8), "float16", scope="shared")
            sb = T.alloc_buffer((8, 8), "float16", scope="shared")
            for i in range(4):
                sa[tx // 2, tx % 2 * 4 + i] = A[tx // 2, tx % 2 * 4 + i]
            for i in range(2):
                sb[tx // 4, tx % 4 * 2 + i] = B[tx // 4, tx % 4 * 2 + i]
            T.tvm_storage_sync("shared")
            with T.block("init"):
                T.reads()
                T.writes(c[0:16, 0:8])
                for r, e in T.grid(2, 2):
                    c[r * 8 + tx // 4, tx % 4 * 2 + e] = T.float32(0)
            T.ptx_ldmatrix("float16", T.bool(False), 2, ".b16", a.data, 0, sa.data, tx % 16 * 8)
            T.ptx_ldmatrix("float16", T.bool(True), 1, ".b16", b.data, 0, sb.data, tx % 8 * 8)
            T.ptx_mma("float32", "m16n8k8", "row", "col", "fp16", "fp16", "fp32", a.data, 0, b.data, 0, c.data, 0,
                      T.bool(False))
            for r, e in T.grid(2, 2):
                C[r * 8 + tx // 4, tx % 4 * 2 + e] = c[r * 8 + tx // 4, tx % 4 * 2 + e]
"""


def test_a_product() -> None:
    """Pointers count registers, so that only the reshaped program computes the product."""
    after = PASS(parse(PRODUCT))
    assert shapes(after)[:3] == [(1, 1, 4, 2), (1, 1, 4, 2), (1, 1, 2, 2)]
    assert "T.writes(c[0, 0, 0:2, 0:2])" in after.script()
    flat = Sequential([LowerOpaqueBlock(), FlattenBuffer(), Simplify()])(after)
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (16, 8)).astype(np.float16), rng.integers(-4, 5, (8, 8)).astype(np.float16)
    c = np.zeros((16, 8), np.float32)
    for seed in range(2):
        interpret(flat, a, b, c, seed=seed, races=True)
        np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def test_before_a_pipeline_makes_versions() -> None:
    text = PRODUCT.replace("C: T.Buffer((16, 8)", "C: T.Buffer((5, 16, 8)")
    before = parse("""
@T.prim_func
def f(A: T.Buffer((5, 16, 8), "float32"), B: T.Buffer((5, 16, 8), "float32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        for t in T.serial(5, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}):
            with T.block("step"):
                T.reads(A[t, 0:16, 0:8])
                T.writes(B[t, 0:16, 0:8])
                c = T.alloc_buffer((16, 8), "float32", scope="m16n8k8.matrixC")
                for r, e in T.grid(2, 2):
                    c[r * 8 + tx // 4, tx % 4 * 2 + e] = A[t, r * 8 + tx // 4, tx % 4 * 2 + e]
                for r, e in T.grid(2, 2):
                    B[t, r * 8 + tx // 4, tx % 4 * 2 + e] = c[r * 8 + tx // 4, tx % 4 * 2 + e]
""")
    assert "matrixA" in text
    after = InjectSoftwarePipeline()(PASS(before))
    assert (2, 1, 1, 2, 2) in shapes(after)
    a, b = np.random.default_rng(0).random((2, 5, 16, 8)).astype(np.float32)
    interpret(after, a, b, races=True)
    np.testing.assert_array_equal(a, b)


def test_other_buffers_stay() -> None:
    func = parse(accumulators(16, 8).script().replace("m16n8k8.matrixC", "local"))
    check(PASS, func, func)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("c = T.alloc_buffer((16, 8)", "c = T.alloc_buffer((24, 8)", "24 by 8 is not made of tiles of 16 by 8"),
        ("c = T.alloc_buffer((16, 8)", "c = T.alloc_buffer((16, 12)", "16 by 12 is not made of tiles of 16 by 8"),
        ('"m16n8k8.matrixC"', '"m16n8k8.matrixA"', "16 by 8 is not made of tiles of 32 by 8"),
        ('"m16n8k8.matrixC"', '"m16n8k8.matrixB"', "tiles of 8 by 32"),
        ("c = T.alloc_buffer((16, 8), scope=\"m16n8k8.matrixC\")", "c = T.alloc_buffer((32, 8), scope=\"m16n8k8.matrixA\")", "its elements are accessed by indices"),
        ("        for r, k, e", "        d = T.decl_buffer((128,), \"float32\", data=c.data, scope=\"m16n8k8.matrixC\")\n        for r, k, e", "it is a view of such a matrix"),
    ],
)  # fmt: skip
def test_errors_by_name(old: str, new: str, message: str) -> None:
    text = accumulators(16, 8).script()
    assert old in text or "r, e" in text
    with pytest.raises(TransformError, match=message):
        PASS(parse(text.replace(old, new, 1)))
