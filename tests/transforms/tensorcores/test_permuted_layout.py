from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.checking import check, random_arguments
from tirlower.diagnostics import TransformError
from tirlower.interp import interpret
from tirlower.ir import BufferStore, PrimFunc, pre_order_visit
from tirlower.script import parse
from tirlower.transforms import (
    ConvertSSA,
    FlattenBuffer,
    InjectPermutedLayout,
    InjectPTXAsyncCopy,
    InjectSoftwarePipeline,
    LowerOpaqueBlock,
    Sequential,
    Simplify,
    ThreadSync,
    VectorizeLoop,
)


def kernel(copy: str, use: str, shape: str = "64, 64", dtype: str = "float16", scope: str = "shared", rest: str = "") -> PrimFunc:  # fmt: skip
    """A kernel of 32 threads: a marked block that fills ``s``, and one that reads it."""

    def body(text: str) -> str:
        return "\n".join(f"            {line}" for line in text.splitlines())

    return parse(f"""
@T.prim_func
def f(A: T.Buffer((64, 64), "{dtype}"), B: T.Buffer((64, 64), "{dtype}"), n: T.int32):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        s = T.alloc_buffer(({shape}), "{dtype}", scope="{scope}")
        with T.block("copy"):
            T.block_attr({{"permuted_layout": 1}})
{body(copy)}
        T.tvm_storage_sync("{scope}")
{rest}
        with T.block("use"):
            {"T.reads(s[0:64, 0:64])" if "data" in use or "ptr" in use else ""}
            {"T.writes(B[0:64, 0:64])" if "data" in use or "ptr" in use else ""}
            T.block_attr({{"permuted_layout": 1}})
{body(use)}
""")


def alike(before: PrimFunc, after: PrimFunc, inputs: list[list[Any]] | None = None) -> None:
    rng = np.random.default_rng(2)
    for seed in range(2):
        first = random_arguments(before, rng)
        second = [a.copy() if isinstance(a, np.ndarray) else a for a in first]
        interpret(before, *first)
        interpret(after, *second, seed=seed, races=True)
        for x, y in zip(first, second, strict=True):
            np.testing.assert_array_equal(x, y)


def permuted(*args: str, **options: str) -> PrimFunc:
    before = kernel(*args, **options)
    after = check(InjectPermutedLayout(), before)
    text = after.script()
    assert "permuted_layout" not in text and "bitwise_xor" in text
    alike(before, after)
    return after


ROWS = "for r, k in T.grid(2, 64):\n    s[tx * 2 + r, k] = A[tx * 2 + r, k]"
COLUMNS = "for r, k in T.grid(2, 64):\n    B[tx * 2 + r, k] = s[k, tx * 2 + r]"


@pytest.mark.parametrize("dtype", ["float16", "int8", "float32", "bool"])
@pytest.mark.parametrize("scope", ["shared", "shared.dyn"])
@pytest.mark.by_day
def test_scalars_of_any_type(dtype: str, scope: str) -> None:
    permuted(ROWS, COLUMNS, dtype=dtype, scope=scope)


def test_vectors_stay_contiguous() -> None:
    copy = "for r in range(2):\n    for k in range(8):\n        for v in T.vectorized(8):\n            s[tx * 2 + r, k * 8 + v] = A[tx * 2 + r, k * 8 + v]"
    after = permuted(copy, COLUMNS)
    vector = Sequential([LowerOpaqueBlock(), FlattenBuffer(), VectorizeLoop(), Simplify()])(after)
    alike(after, vector)
    stores: list[BufferStore] = []
    pre_order_visit(vector.body, lambda op: stores.append(op) if isinstance(op, BufferStore) else None)
    assert type(stores[0].indices[0]).__name__ == "Ramp"


def test_vector_indices() -> None:
    for lanes in (4, 8):
        at = f"T.Ramp(k * {lanes}, 1, {lanes})"
        copy = f"for r, k in T.grid(2, {64 // lanes}):\n    s[tx * 2 + r, {at}] = A[tx * 2 + r, {at}]"
        after = permuted(copy, COLUMNS)
        assert "T.Ramp(T" not in after.script() or lanes == 4
    across = "for r, k in T.grid(2, 4):\n    s[tx * 2 + r, T.Ramp(k, 4, 16)] = A[tx * 2 + r, T.Ramp(k, 4, 16)]"
    permuted(across, COLUMNS)
    wide = permuted(across.replace("tx * 2 + r,", 'T.Cast("int64", tx * 2 + r),'), COLUMNS)
    stores: list[BufferStore] = []
    pre_order_visit(wide.body, lambda op: stores.append(op) if isinstance(op, BufferStore) else None)
    assert [str(index.dtype) for index in stores[0].indices] == ["int64", "int32x16"]


def physical(func: PrimFunc, columns: int) -> np.ndarray:
    """Where each element (row, column) is stored, found by running a program whose indices are those of the store."""
    stores: list[BufferStore] = []
    pre_order_visit(func.body, lambda op: stores.append(op) if isinstance(op, BufferStore) else None)
    row, column = (str(index) for index in stores[0].indices)
    probe = parse(f"""
@T.prim_func
def where(P: T.Buffer((64, {columns}), "int32")):
    for tx in range(64):
        for k in range({columns}):
            P[{row}, k] = {column}
""")
    found = np.zeros((64, columns), np.int32)
    interpret(probe, found)
    return found


@pytest.mark.parametrize("columns", [64, 128, 32, 96])
def test_the_layout(columns: int) -> None:
    func = InjectPermutedLayout()(
        parse(f"""
@T.prim_func
def f(A: T.Buffer((64, {columns}), "float16"), B: T.Buffer((64, {columns}), "float16")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        s = T.alloc_buffer((64, {columns}), "float16", scope="shared")
        with T.block("copy"):
            T.block_attr({{"permuted_layout": "yes"}})
            for k in range({columns}):
                s[tx, k] = A[tx, k]
            for k in range({columns}):
                B[tx, k] = s[tx, k]
""")
    )
    found = physical(func, columns)
    rows, cols = np.indices((64, columns))
    by = rows % 8 if columns % 64 == 0 else rows % 8 // 2
    np.testing.assert_array_equal(found, ((cols // 8) ^ by) * 8 + cols % 8)
    assert all(sorted(line) == list(range(columns)) for line in found.tolist())
    # The chunks at one place of 8 rows, of 16 bytes in 128 bytes of banks, are in different banks.
    banks = (np.arange(8) * columns + found[:8, 8]) // 8 % 8
    assert len(set(banks.tolist())) == 8
    a, b = np.random.default_rng(0).random((2, 64, columns)).astype(np.float16)
    interpret(func, a, b, races=True)
    np.testing.assert_array_equal(a, b)


LDMATRIX = """
@T.prim_func
def f(A: T.Buffer((64, 64), "float16"), B: T.Buffer((16, 32, 8), "float16")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        s = T.alloc_buffer((SHAPE), "float16", scope="shared")
        r = T.alloc_buffer((8,), "float16", scope="local")
        with T.block("copy"):
            T.block_attr({"permuted_layout": 1})
            for i in range(2):
                for k in range(8):
                    COPY
        T.tvm_storage_sync("shared")
        for m, k in T.grid(4, 4):
            with T.block("load"):
                T.reads(s[FULL])
                T.writes(B[m * 4 + k, tx, 0:8])
                T.block_attr({"permuted_layout": 1})
                T.ptx_ldmatrix("float16", T.bool(TRANS), 4, ".b16", r.data, 0, POINTER)
                for i in range(8):
                    B[m * 4 + k, tx, i] = r[i]
"""
ROW = "m * 1024 + k * 16 + tx % 16 * 64 + tx // 16 * 8"


@pytest.mark.parametrize("trans", ["False", "True"])
@pytest.mark.parametrize(
    "pointer",
    [f"s.data, {ROW}", f's.access_ptr("r", offset={ROW}), 0', 's.access_ptr("r", offset=m * 1024 + k * 16), tx % 16 * 64 + tx // 16 * 8'],
)  # fmt: skip
@pytest.mark.parametrize("shape", ["64, 64", "16, 4, 64"])
def test_ldmatrix(trans: str, pointer: str, shape: str) -> None:
    three = shape.count(",") == 2
    at = "(tx * 2 + i) // 4, (tx * 2 + i) % 4, k * 8 + v" if three else "tx * 2 + i, k * 8 + v"
    copy = f"for v in T.vectorized(8):\n                        s[{at}] = A[tx * 2 + i, k * 8 + v]"
    text = LDMATRIX.replace("TRANS", trans).replace("POINTER", pointer).replace("SHAPE", shape).replace("COPY", copy)
    text = text.replace("FULL", "0:16, 0:4, 0:64" if three else "0:64, 0:64")
    plain = parse(text)
    after = InjectPermutedLayout()(plain)
    assert after.script().count("bitwise_xor") == 2
    a, b = np.random.default_rng(0).random((64, 64)).astype(np.float16), np.zeros((16, 32, 8), np.float16)
    interpret(after, a, b, races=True, seed=1)
    # Lane l has elements (l // 4, l % 4 * 2 + e) of matrix m; the matrices are the quarters of a 16 by 16 tile.
    lanes = np.arange(32)
    for m in range(4):
        for k in range(4):
            for i in range(8):
                row, col = lanes // 4, lanes % 4 * 2 + i % 2
                if trans == "True":
                    row, col = col, row
                row, col = row + (i // 2 % 2) * 8, col + (i // 4) * 8
                np.testing.assert_array_equal(b[m * 4 + k, :, i], a[m * 16 + row, k * 16 + col])


def test_from_an_asynchronous_pipeline_to_ldmatrix() -> None:
    """Swizzled tiles, copied by cp.async two iterations ahead."""
    before = parse("""
@T.prim_func
def f(A: T.Buffer((5, 16, 64), "float16"), B: T.Buffer((5, 4, 32, 8), "float16")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        for t in T.serial(5, annotations={"software_pipeline_stage": [0, 2], "software_pipeline_order": [0, 1],
                                          "software_pipeline_async_stages": [0]}):
            with T.block("step"):
                s = T.alloc_buffer((16, 64), "float16", scope="shared.dyn")
                with T.block("copy"):
                    T.block_attr({"permuted_layout": 1})
                    for k in range(4):
                        for v in T.vectorized(8):
                            s[k * 4 + tx // 8, tx % 8 * 8 + v] = A[t, k * 4 + tx // 8, tx % 8 * 8 + v]
                with T.block("load"):
                    T.reads(s[0:16, 0:64])
                    T.writes(B[t, 0:4, tx, 0:8])
                    T.block_attr({"permuted_layout": 1})
                    r = T.alloc_buffer((8,), "float16", scope="local")
                    for k in range(4):
                        T.ptx_ldmatrix("float16", T.bool(False), 4, ".b16", r.data, 0,
                                       s.access_ptr("r", offset=k * 16), tx % 16 * 64 + tx // 16 * 8)
                        for i in range(8):
                            B[t, k, tx, i] = r[i]
""")
    steps = [InjectPermutedLayout(), InjectSoftwarePipeline(), LowerOpaqueBlock(), FlattenBuffer(), VectorizeLoop()]
    steps += [Simplify(), ThreadSync("shared"), ThreadSync("shared.dyn"), InjectPTXAsyncCopy(), ConvertSSA()]
    after = Sequential(steps)(before)
    text = after.script()
    assert "ptx_cp_async" in text and "ptx_wait_group" in text and "async_" not in text.replace("cp_async", "")
    a = np.random.default_rng(0).random((5, 16, 64)).astype(np.float16)
    b, want = np.zeros((2, 5, 4, 32, 8), np.float16)
    interpret(before, a, want)
    for seed in range(2):
        interpret(after, a, b, seed=seed, races=True)
        np.testing.assert_array_equal(b, want)


def test_no_annotation_no_change() -> None:
    for value in ("0", '""'):
        func = parse(kernel(ROWS, COLUMNS).script().replace('"permuted_layout": 1', f'"permuted_layout": {value}'))
        after = InjectPermutedLayout()(func)
        assert "bitwise_xor" not in after.script()
    func = parse(kernel(ROWS, COLUMNS).script().replace('T.block_attr({"permuted_layout": 1})', ""))
    assert InjectPermutedLayout()(func) is func


def test_other_memory_is_not_touched() -> None:
    copy = (
        "r = T.alloc_buffer((1, 64), 'float16', scope='local')\nq = T.alloc_buffer((64,), 'float16', scope='shared')\n"
    )
    copy += "for k in range(64):\n    r[0, k] = A[tx, k]\nq[tx] = r[0, 3]\n" + ROWS
    after = permuted(copy, COLUMNS)
    assert "r[0, k] = A[tx, k]" in after.script() and "q[tx] = r[0, 3]" in after.script()


def test_regions_cover_what_is_accessed_afterwards() -> None:
    after = permuted(ROWS, COLUMNS)
    assert "T.writes(s[tx * 2:tx * 2 + 2, 0:64])" in after.script()


@pytest.mark.parametrize(
    ("shape", "copy", "use", "rest", "message"),
    [
        ("64, 80", ROWS, COLUMNS, "", "no multiple of 32"),
        ("65, 96", ROWS, COLUMNS, "", "not even in number"),
        ("64, 64", ROWS, COLUMNS, "        s[tx, 0] = T.float16(0)", "outside the blocks marked"),
        ("64, 64", ROWS, "T.mma_store('float16', 16, 16, s.access_ptr('w'), r.data, 0, 64)", "        r = T.alloc_buffer((8,), 'float16', scope='local')", "goes to tir.mma_store"),
        ("64, 64", ROWS, "T.ptx_ldmatrix('float16', T.bool(False), 4, '.b16', r.data, 0, s.data, tx * n)", "        r = T.alloc_buffer((8,), 'float16', scope='local')", "not known to be a multiple of 8"),
        ("64, 64", ROWS, "v = T.decl_buffer((4096,), 'float16', data=s.data, scope='shared')\nB[0, tx] = v[tx]", "", "accessed as 'v'"),
        ("64, 64", ROWS, "T.evaluate(T.call_extern('int32', 'abs', T.address_of(s[tx, 0])))", "", "goes to tir.address_of"),
    ],
)  # fmt: skip
def test_errors_by_name(shape: str, copy: str, use: str, rest: str, message: str) -> None:
    with pytest.raises(TransformError, match=message) as caught:
        InjectPermutedLayout()(kernel(copy, use, shape, rest=rest))
    assert "'s'" in str(caught.value)


def test_elements_that_ldmatrix_would_tear_apart() -> None:
    use = "T.ptx_ldmatrix('int8', T.bool(False), 4, '.b16', r.data, 0, s.data, tx * 64)"
    func = kernel(ROWS, use, dtype="int8", rest="        r = T.alloc_buffer((16,), 'int8', scope='local')")
    with pytest.raises(TransformError, match="16 bytes, more than 8 elements"):
        InjectPermutedLayout()(func)


def test_a_strange_annotation() -> None:
    func = parse(kernel(ROWS, COLUMNS).script().replace('"permuted_layout": 1', '"permuted_layout": [1, 2]'))
    with pytest.raises(TransformError, match="is a number or a string"):
        InjectPermutedLayout()(func)


def test_strides_that_are_those_of_the_shape() -> None:
    def func(strides: str) -> PrimFunc:
        return parse(f"""
@T.prim_func
def f(A: T.Buffer((64, 64), "float16"), B: T.Buffer((64, 64), "float16")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        s = T.alloc_buffer((2, 32, 64), "float16", {strides}scope="shared")
        with T.block("use"):
            T.reads(s[0:2, 0:32, 0:64])
            T.writes(B[0:64, 0:64])
            T.block_attr({{"permuted_layout": 1}})
            T.ptx_ldmatrix("float16", False, 4, ".b16", B.data, 0, s.access_ptr("r"), 64 * (tx % 16) + 8 * (tx // 16))
""")

    plain = check(InjectPermutedLayout(), func(""), execute=False)
    stated = check(InjectPermutedLayout(), func("strides=(2048, 64, 1), "), execute=False)
    text = stated.script().replace("strides=(2048, 64, 1), ", "")
    assert text == plain.script()
    for strides in ("strides=(2112, 66, 1), ", "strides=(4096, 64, 1), "):
        with pytest.raises(TransformError, match="strides or an offset, but is accessed through a pointer"):
            InjectPermutedLayout()(func(strides))
