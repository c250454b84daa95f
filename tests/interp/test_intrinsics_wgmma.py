"""Products of a warpgroup against NumPy, with operands that tile loads bring."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tirlower.diagnostics import InterpreterError, UnboundError
from tirlower.interp import interpret
from tirlower.interp.intrinsics_mma import as_tf32
from tirlower.interp.mma_layouts import wgmma_accumulator
from tirlower.script import parse

KERNEL = """
@T.prim_func
def kernel(A: T.Buffer((64, K), "DTYPE"), B: T.Buffer((N, K), "DTYPE"), C: T.Buffer((64, N), "SUMS")):
    for tx in T.thread_binding(128, thread="threadIdx.x"):
        a = T.alloc_buffer((64, ROW), "DTYPE", scope="shared")
        b = T.alloc_buffer((N, ROW), "DTYPE", scope="shared")
        c = T.alloc_buffer((HALF,), "SUMS", scope="local")
        T.create_barriers(1)
        if tx == 0:
            T.ptx_init_barrier_thread_count(0, 1)
            T.ptx_fence_barrier_init()
        T.tvm_storage_sync("shared")
        for t in range(K // ROW):
            if tx == 0:
                T.ptx_arrive_barrier_expect_tx(0, (64 + N) * SWIZZLE)
                T.ptx_cp_async_bulk_tensor("DTYPE", a.data, 0, A.data, SWIZZLE, 0, 2, 0, t * ROW, 64, ROW, 64, K, K)
                T.ptx_cp_async_bulk_tensor("DTYPE", b.data, 0, B.data, SWIZZLE, 0, 2, 0, t * ROW, N, ROW, N, K, K)
            T.ptx_wait_barrier(0, t % 2)
            T.ptx_wgmma_fence()
            for s in range(ROW // STEP):
                T.ptx_wgmma("SUMS", "m64nNkSTEP", "NAME", "NAME", c.data, 0, a.data, s * STEP, b.data, s * STEP,
                            SWIZZLE, t + s > 0, False, False)
            T.ptx_wgmma_commit_group()
            T.ptx_wgmma_wait_group(0)
            T.tvm_storage_sync("shared")
        for i in range(HALF):
            C[tx // 32 * 16 + tx % 32 // 4 + i // 2 % 2 * 8, i // 4 * 8 + tx % 4 * 2 + i % 2] = c[i]
"""
TYPES = {
    "fp16": ("float16", np.float16, "float32"), "bf16": ("bfloat16", ml_dtypes.bfloat16, "float32"),
    "tf32": ("float32", np.float32, "float32"), "e4m3": ("float8_e4m3fn", ml_dtypes.float8_e4m3fn, "float32"),
    "int8": ("int8", np.int8, "int32"),
}  # fmt: skip


def wgmma_text(name, n, k, swizzle):
    dtype, kind, sums = TYPES[name]
    size = np.dtype(kind).itemsize
    values = {
        "NAME": name, "DTYPE": dtype, "SUMS": sums, "HALF": n // 2, "ROW": swizzle // size, "SWIZZLE": swizzle,
        "STEP": 32 // size,
    }  # fmt: skip
    text = KERNEL.replace("m64nNk", f"m64n{n}k")
    for key, value in values.items():
        text = text.replace(key, str(value))
    return (
        text.replace("(N,", f"({n},")
        .replace(" N)", f" {n})")
        .replace("+ N)", f"+ {n})")
        .replace(" N, ", f" {n}, ")
        .replace("K", str(k))
    )


def multiply(text, name, n, k, **options):
    _, kind, sums = TYPES[name]
    rng = np.random.default_rng(0)
    a, b = (
        rng.integers(-128, 128, shape).astype(kind) if name == "int8" else rng.uniform(-2, 2, shape).astype(kind)
        for shape in ((64, k), (n, k))
    )
    c = np.zeros((64, n), sums)
    interpret(parse(text), a, b, c, **options)
    wide = np.int64 if name == "int8" else np.float64
    if name == "tf32":
        a, b = as_tf32(a), as_tf32(b)
    return c, a.astype(wide) @ b.astype(wide).T


CASES = [
    ("fp16", 8, 32, 32), ("fp16", 24, 64, 64), ("fp16", 128, 128, 128), ("bf16", 16, 64, 128), ("tf32", 16, 32, 128),
    ("e4m3", 16, 128, 128), ("int8", 8, 64, 64), ("fp16", 256, 64, 128),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_a_product_is_numpys(case):
    made, want = multiply(wgmma_text(*case), *case[:3])
    np.testing.assert_allclose(made, want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("seed", [0, 1])
def test_under_seeds_and_watched(seed):
    made, want = multiply(wgmma_text("fp16", 8, 32, 32), "fp16", 8, 32, seed=seed, races=True)
    np.testing.assert_allclose(made, want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("n", [8, 64, 256])
def test_every_sum_is_held_once(n):
    made = wgmma_accumulator(n)
    held = set(zip(made.rows.ravel().tolist(), made.columns.ravel().tolist(), strict=True))
    assert len(held) == made.rows.size == 64 * n


@pytest.mark.parametrize("line", ["T.ptx_wgmma_wait_group(0)", "T.ptx_wgmma_commit_group()"])
def test_a_missing_wait_reads_unwritten_sums(line):
    text = wgmma_text("fp16", 8, 32, 32).replace(f"            {line}\n", "")
    with pytest.raises(UnboundError, match="c\\[0\\] is read before it is written"):
        multiply(text, "fp16", 8, 32)


def test_shared_memory_that_is_overwritten_before_the_wait():
    text = (
        wgmma_text("fp16", 8, 64, 32)
        .replace("            T.ptx_wgmma_wait_group(0)\n", "            T.ptx_wgmma_wait_group(1)\n")
        .replace("        for i in range(4):\n", "        T.ptx_wgmma_wait_group(0)\n        for i in range(4):\n")
    )
    made, want = multiply(text, "fp16", 8, 64)
    assert not np.allclose(made, want)
    with pytest.raises(InterpreterError, match=r"data race on '[ab]'.*product of a warpgroup"):
        multiply(text, "fp16", 8, 64, races=True)


def test_operands_along_the_rows_of_memory():
    kernel = parse("""
@T.prim_func
def kernel(A: T.Buffer((16, 64), "float16"), B: T.Buffer((16, 64), "float16"), C: T.Buffer((64, 64), "float32")):
    for tx in T.thread_binding(128, thread="threadIdx.x"):
        a = T.alloc_buffer((16, 64), "float16", scope="shared")
        b = T.alloc_buffer((16, 64), "float16", scope="shared")
        c = T.alloc_buffer((32,), "float32", scope="local")
        T.create_barriers(1)
        if tx == 0:
            T.ptx_init_barrier_thread_count(0, 1)
        T.tvm_storage_sync("shared")
        if tx == 0:
            T.ptx_arrive_barrier_expect_tx(0, 4096)
            T.ptx_cp_async_bulk_tensor("float16", a.data, 0, A.data, 128, 0, 2, 0, 0, 16, 64, 16, 64, 64)
            T.ptx_cp_async_bulk_tensor("float16", b.data, 0, B.data, 128, 0, 2, 0, 0, 16, 64, 16, 64, 64)
        T.ptx_wait_barrier(0)
        T.ptx_wgmma_fence()
        T.ptx_wgmma("float32", "m64n64k16", "fp16", "fp16", c.data, 0, a.data, 0, b.data, 0, 128, False, True, True)
        T.ptx_wgmma_commit_group()
        T.ptx_wgmma_wait_group(0)
        for i in range(32):
            C[tx // 32 * 16 + tx % 32 // 4 + i // 2 % 2 * 8, i // 4 * 8 + tx % 4 * 2 + i % 2] = c[i]
""")
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-2, 2, (16, 64)).astype(np.float16) for _ in range(2))
    c = np.zeros((64, 64), np.float32)
    interpret(kernel, a, b, c)
    np.testing.assert_allclose(c, a.astype(np.float64).T @ b.astype(np.float64), rtol=1e-5, atol=1e-4)


WRONG = {
    "k": (("m64n8k16", "m64n8k32"), "no product m64n8k32"),
    "n": (("m64n8k16", "m64n12k16"), "no product m64n12k16"),
    "float32 in full": (('"fp16", "fp16"', '"fp32", "fp32"'), "no product m64n8k16 of fp32"),
    "a part of the warpgroup": (("binding(128", "binding(96"), "made by 96 of the 128 threads"),
    "no swizzle": (("32, t + s > 0", "0, t + s > 0"), "a swizzle of 32, 64 or 128 bytes, got 0"),
    "different operands": (("a.data, s * 16", "a.data, tx // 64"), "name different operands"),
}


def test_integers_have_fewer_shapes():
    with pytest.raises(InterpreterError, match="no product m64n40k32 of int8"):
        multiply(wgmma_text("int8", 40, 32, 32), "int8", 40, 32)


@pytest.mark.parametrize("name", WRONG)
def test_what_has_no_meaning(name):
    (old, new), message = WRONG[name]
    text = wgmma_text("fp16", 8, 32, 32)
    assert old in text
    with pytest.raises(InterpreterError, match=message):
        multiply(text.replace(old, new), "fp16", 8, 32)
