"""Calls that threads make together stay in one branch; the interpreter and this table agree on which they are."""

from __future__ import annotations

import numpy as np
import pytest

from tirlower.interp import interpret
from tirlower.interp.expressions import INTRINSICS
from tirlower.ir import Op
from tirlower.ir.intrinsics.collective import COLLECTIVE
from tirlower.script import parse
from tirlower.transforms import HoistExpression, LoopPartition
from tirlower.transforms.loops.hoist import HoistedConditionals

KERNEL = """
@T.prim_func
def kernel(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        for k in range(4):
            if T.likely(tx < 5):
                A[tx] = A[tx] + k
            B[tx] = B[tx] + T.tvm_warp_shuffle_xor(T.uint32(0xFFFFFFFF), A[tx], 1, 32, 32)
"""


@pytest.mark.parametrize("options", [None, {"hoisted_conditionals": HoistedConditionals.All}])
def test_threads_that_shuffle_are_not_parted(options):
    before = parse(KERNEL)
    after = LoopPartition()(before) if options is None else HoistExpression(**options)(before)
    results = []
    for func in (before, after):
        a, b = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
        interpret(func, a, b)
        results.append((a, b))
    np.testing.assert_array_equal(results[0], results[1])
    assert after.script().count("tvm_warp_shuffle_xor") == 1


def test_what_the_interpreter_makes_together_is_in_the_table():
    made = set()
    for op, builder in INTRINSICS.items():
        names = builder.__code__.co_names
        if {"collective", "together", "_once_per_warp"} & set(names):
            made.add(op)
    assert len(made) > 15
    assert made == COLLECTIVE - {Op.get("tir.tvm_bmma_sync"), Op.get("tir.ptx_mma_sp"), *_PER_THREAD}


_PER_THREAD = {
    Op.get(f"tir.{name}")
    for name in (
        "ptx_wgmma_fence", "ptx_wgmma_commit_group", "ptx_wgmma_wait_group", "tvm_global_barrier_kinit",
    )
}  # fmt: skip
