"""All the passes for tensor cores, one after another: from marked blocks to a kernel of instructions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tirlower.interp import interpret
from tirlower.ir import PrimFunc
from tirlower.script import parse
from tirlower.transforms import (
    CommonSubexprElimTIR,
    FlattenBuffer,
    InferFragment,
    InjectPermutedLayout,
    InjectPTXAsyncCopy,
    InjectSoftwarePipeline,
    LowerAutoCopy,
    LowerOpaqueBlock,
    ManifestSharedMemoryLocalStage,
    MergeSharedMemoryAllocations,
    Sequential,
    Simplify,
    StorageRewrite,
    ThreadSync,
    TransformMmaBufferLayout,
    UnrollLoop,
    VectorizeLoop,
)

STEPS = Sequential(
    [
        ManifestSharedMemoryLocalStage(),
        LowerAutoCopy(),
        Simplify(),
        InjectPermutedLayout(),
        InjectSoftwarePipeline(),
        TransformMmaBufferLayout(),
        LowerOpaqueBlock(),
        FlattenBuffer(),
        VectorizeLoop(),
        StorageRewrite(),
        UnrollLoop(),
        Simplify(),
        CommonSubexprElimTIR(),
        ThreadSync("shared"),
        ThreadSync("shared.dyn"),
        InferFragment(),
        InjectPTXAsyncCopy(),
        MergeSharedMemoryAllocations(),
        Simplify(),
    ]
)


def matmul(steps: int, notes: str, copies: str, scope: str) -> PrimFunc:
    """C = A @ B of 32 by 32 by ``32 * steps``, one warp to 16 rows; ``notes`` stand on the loop over the steps."""
    depth = steps * 32
    return parse(f"""
@T.prim_func
def f(A: T.Buffer((32, {depth}), "float16"), B: T.Buffer(({depth}, 32), "float16"), C: T.Buffer((32, 32), "float32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            a = T.alloc_buffer((8,), "float16", scope="local")
            b = T.alloc_buffer((4,), "float16", scope="local")
            c = T.alloc_buffer((16, 32), "float32", scope="m16n8k8.matrixC")
            for n, r, e in T.grid(4, 2, 2):
                c[r * 8 + tx // 4, n * 8 + tx % 4 * 2 + e] = T.float32(0)
            for t in T.serial({steps}, annotations={{{notes}}}):
                with T.block("step"):
                    T.reads(A[bx * 16:bx * 16 + 16, t * 32:t * 32 + 32], B[t * 32:t * 32 + 32, 0:32], c[0:16, 0:32])
                    T.writes(c[0:16, 0:32])
                    sa = T.alloc_buffer((16, 32), "float16", scope="{scope}")
                    sb = T.alloc_buffer((32, 32), "float16", scope="{scope}")
                    with T.block("sa"):
                        T.block_attr({{"auto_copy": 1, {copies}}})
                        for i, j in T.grid(16, 32):
                            sa[i, j] = A[bx * 16 + i, t * 32 + j]
                    with T.block("sb"):
                        T.block_attr({{"auto_copy": 1, {copies}}})
                        for i, j in T.grid(32, 32):
                            sb[i, j] = B[t * 32 + i, j]
                    with T.block("mma"):
                        T.reads(sa[0:16, 0:32], sb[0:32, 0:32], c[0:16, 0:32])
                        T.writes(c[0:16, 0:32])
                        T.block_attr({{{copies}}})
                        for k in range(2):
                            T.ptx_ldmatrix("float16", T.bool(False), 4, ".b16", a.data, 0,
                                           sa.access_ptr("r", offset=k * 16), tx % 16 * 32 + tx // 16 * 8)
                            for n in range(4):
                                T.ptx_ldmatrix("float16", T.bool(True), 2, ".b16", b.data, 0,
                                               sb.access_ptr("r", offset=k * 512 + n * 8), tx % 16 * 32)
                                T.ptx_mma("float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", a.data, 0,
                                          b.data, 0, c.data, n * 4, T.bool(False))
            for n, r, e in T.grid(4, 2, 2):
                C[bx * 16 + r * 8 + tx // 4, n * 8 + tx % 4 * 2 + e] = c[r * 8 + tx // 4, n * 8 + tx % 4 * 2 + e]
""")


PLAIN = ""
STAGED = '"software_pipeline_stage": [0, 0, 1], "software_pipeline_order": [0, 1, 2]'
ASYNC = (
    '"software_pipeline_stage": [0, 0, 2], "software_pipeline_order": [0, 1, 2], "software_pipeline_async_stages": [0]'
)


@pytest.mark.parametrize(
    ("notes", "copies", "asynchronous"),
    [
        (PLAIN, '"vector_bytes": 16', False),
        (STAGED, '"vector_bytes": 16, "permuted_layout": 1', False),
        (ASYNC, '"vector_bytes": 16, "permuted_layout": 1', True),
        (ASYNC, '"vector_bytes": 4', True),
        (ASYNC, '"vector_bytes": 2', False),
    ],
)
@pytest.mark.parametrize("scope", ["shared", "shared.dyn"])
@pytest.mark.by_day
def test_a_product_from_marked_copies(notes: str, copies: str, asynchronous: bool, scope: str) -> None:
    before = matmul(3, notes, copies, scope)
    after = STEPS(before)
    text = after.script()
    assert ("ptx_cp_async" in text) == asynchronous and "async_" not in text.replace("cp_async", "")
    assert ("bitwise_xor" in text) == ("permuted" in copies) and "m16n8k8.matrix" not in text
    _check(after, 3)


@pytest.mark.parametrize("steps", [1, 2])
def test_a_loop_shorter_than_its_pipeline(steps: int) -> None:
    _check(STEPS(matmul(steps, ASYNC, '"vector_bytes": 16, "permuted_layout": 1', "shared.dyn")), steps)


def _check(func: PrimFunc, steps: int) -> None:
    rng = np.random.default_rng(steps)
    a = rng.integers(-4, 5, (32, steps * 32)).astype(np.float16)
    b = rng.integers(-4, 5, (steps * 32, 32)).astype(np.float16)
    want: Any = a.astype(np.float32) @ b.astype(np.float32)
    c = np.zeros((32, 32), np.float32)
    interpret(func, a, b, c, seed=steps, races=True)
    np.testing.assert_array_equal(c, want)
