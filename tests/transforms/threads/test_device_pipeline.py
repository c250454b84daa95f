"""The passes of the device one after another: from loops to launches, and under threads that run in any order."""

from __future__ import annotations

import numpy as np
import pytest

from tests.checking import executes_alike, random_arguments
from tests.transforms.threads.device_programs import PROGRAMS, module
from tirlower.interp import interpret
from tirlower.ir import IRModule, PrimFunc
from tirlower.ir.verify import verify_well_formed
from tirlower.machine.target import Target
from tirlower.script import tir as T
from tirlower.transforms import (
    AnnotateDeviceRegions,
    BindTarget,
    ConvertBlocksToOpaque,
    ConvertSSA,
    DefaultGPUSchedule,
    LiftThreadBinding,
    LowerDeviceKernelLaunch,
    LowerInitBlock,
    LowerOpaqueBlock,
    PassContext,
    Sequential,
    Simplify,
    SplitHostDevice,
    UnifyThreadBinding,
    VerifyMemory,
)

TARGET = Target("cuda", host="llvm", max_num_threads=8)
STEPS = Sequential(
    [
        BindTarget(TARGET),
        DefaultGPUSchedule(),
        LowerInitBlock(),
        ConvertBlocksToOpaque(),
        LiftThreadBinding(),
        UnifyThreadBinding(),
        LowerOpaqueBlock(),
        Simplify(),
        VerifyMemory(),
        AnnotateDeviceRegions(),
        SplitHostDevice(),
        LowerDeviceKernelLaunch(),
    ]
)


@T.prim_func
def softmax(A: T.Buffer(("n", 12), "float32"), B: T.Buffer(("n", 12), "float32")):
    top = T.alloc_buffer((n,), "float32")
    total = T.alloc_buffer((n,), "float32")
    for i, k in T.grid(n, 12):
        with T.block("top"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                top[vi] = T.float32(-1e30)
            top[vi] = T.max(top[vi], A[vi, vk])
    for i, k in T.grid(n, 12):
        with T.block("total"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                total[vi] = T.float32(0)
            total[vi] = total[vi] + T.exp(A[vi, vk] - top[vi])
    for i, j in T.grid(n, 12):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.exp(A[vi, vj] - top[vi]) / total[vi]


@T.prim_func
def convolution(A: T.Buffer((9, 9), "int32"), W: T.Buffer((3, 3), "int32"), B: T.Buffer((7, 7), "int32"), k: T.int32):
    for i, j, r, s in T.grid(7, 7, 3, 3):
        with T.block("conv"):
            vi, vj, vr, vs = T.axis.remap("SSRR", [i, j, r, s])
            with T.init():
                B[vi, vj] = 0
            B[vi, vj] = B[vi, vj] + A[vi + vr, vj + vs] * W[vr, vs]
    if k > 2:
        for i in range(7):
            for j in range(i + 1):
                B[i, j] = B[i, j] * k


@T.prim_func
def heat(A: T.Buffer((2, 20), "float64"), steps: T.int32):
    for t in range(steps):
        for i in range(18):
            A[(t + 1) % 2, i + 1] = (A[t % 2, i] + A[t % 2, i + 2]) * T.float64(0.5)


@pytest.mark.parametrize("func", [softmax, convolution, heat], ids=["softmax", "convolution", "heat"])
def test_from_loops_to_launches(func: PrimFunc) -> None:
    before = IRModule({"main": func.with_attr("global_symbol", "main")})
    after = STEPS(before)
    verify_well_formed(after)
    assert "thread_binding" not in after["main"].script() and len(after) >= 2
    executes_alike(before, after)
    assert ConvertSSA()(after) is after


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_threads_in_any_order_without_races(name: str) -> None:
    before = module(name)
    steps = Sequential([LiftThreadBinding(), UnifyThreadBinding(), AnnotateDeviceRegions(), SplitHostDevice()])
    after = LowerDeviceKernelLaunch()(steps(before))
    rng = np.random.default_rng(3)
    for seed in range(3):
        first = random_arguments(before["main"], rng)
        second = [a.copy() if isinstance(a, np.ndarray) else a for a in first]
        interpret(before, *first)
        interpret(after, *second, name="main", seed=seed, races=True)
        for x, y in zip(first, second, strict=True):
            np.testing.assert_array_equal(x, y)


def test_each_pass_is_validated_in_the_interpreter() -> None:
    with PassContext(validate=True):
        after = STEPS(IRModule({"main": softmax.with_attr("global_symbol", "main")}))
    assert len(after) == 4
