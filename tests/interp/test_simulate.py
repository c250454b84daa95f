from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.transforms.threads.device_programs import PROGRAMS, module
from tirlower.diagnostics import ArgumentValueError, InterpreterError, UnboundError
from tirlower.interp.simulate import device_limits
from tirlower.ir import IRModule
from tirlower.ir.expr import Call, IntImm
from tirlower.ir.functor import Mutator
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import AnnotateDeviceRegions, LowerDeviceKernelLaunch, Sequential, SplitHostDevice

SEEDS = range(4)


def _reverse(line: str = "T.tvm_storage_sync('shared')", threads: int = 32) -> tl.PrimFunc:
    return parse(f"""
@T.prim_func
def reverse(A: T.Buffer(({threads},), "int32"), B: T.Buffer(({threads},), "int32")):
    for tx in T.thread_binding({threads}, thread="threadIdx.x"):
        s = T.alloc_buffer(({threads},), "int32", scope="shared")
        s[tx] = A[tx]
        {line}
        B[tx] = s[{threads - 1} - tx]
""")


def _run(func: tl.PrimFunc, threads: int = 32, **options: object) -> np.ndarray:
    a, b = np.arange(threads, dtype=np.int32), np.zeros(threads, np.int32)
    tl.simulate(func, a, b, **options)
    return b


@pytest.mark.parametrize("seed", [None, *SEEDS])
def test_a_kernel_in_any_order(seed: int | None) -> None:
    assert _run(_reverse(), seed=seed).tolist() == list(range(32))[::-1]


def test_results_of_several_seeds_agree() -> None:
    assert _run(_reverse(), seeds=SEEDS).tolist() == list(range(32))[::-1]


def test_what_depends_on_the_order_is_refused() -> None:
    @T.prim_func
    def tickets(N: T.Buffer((1,), "int32"), B: T.Buffer((16,), "int32")):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            B[tx] = T.atomic_add(T.address_of(N[0]), 1)

    with pytest.raises(InterpreterError, match=r"argument 1 depends on the order of threads: .*with seed"):
        tl.simulate(tickets, np.zeros(1, np.int32), np.zeros(16, np.int32), seeds=SEEDS)


def test_a_float_sum_may_differ_by_its_rounding() -> None:
    @T.prim_func
    def total(A: T.Buffer((64,), "float32"), B: T.Buffer((1,), "float32")):
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            T.evaluate(T.atomic_add(T.address_of(B[0]), A[tx]))

    a = np.random.default_rng(0).standard_normal(64).astype(np.float32) ** 2
    with pytest.raises(InterpreterError, match="depends on the order"):
        tl.simulate(total, a, np.zeros(1, np.float32), seeds=range(8))
    b = np.zeros(1, np.float32)
    tl.simulate(total, a, b, seeds=range(8), rtol=1e-5)
    np.testing.assert_allclose(b[0], a.sum(dtype=np.float64), rtol=1e-5)


def test_returned_arrays_are_those_of_the_first_run() -> None:
    @T.prim_func
    def double(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            B[tx] = A[tx] * 2

    out = tl.simulate(double, np.arange(8, dtype=np.int32), outputs=["B"], seeds=SEEDS)
    assert out.tolist() == [2 * i for i in range(8)]


def test_races_can_be_let_pass() -> None:
    with pytest.raises(InterpreterError, match="data race on 's'"):
        _run(_reverse("T.evaluate(0)"))
    assert _run(_reverse("T.evaluate(0)"), races=False).tolist() == list(range(32))[::-1]


def test_shared_memory_starts_unwritten_in_every_block() -> None:
    @T.prim_func
    def kernel(B: T.Buffer((4,), "int32")):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for tx in T.thread_binding(1, thread="threadIdx.x"):
                s = T.alloc_buffer((1,), "int32", scope="shared")
                if bx == 0:
                    s[0] = 1
                B[bx] = s[0]

    for seed in (None, 1):
        with pytest.raises(UnboundError, match=r"s\[0\] is read before it is written"):
            tl.simulate(kernel, np.zeros(4, np.int32), seed=seed)


def test_blocks_come_in_the_order_of_the_seed() -> None:
    @T.prim_func
    def last(B: T.Buffer((1,), "int32")):
        for bx in T.thread_binding(16, thread="blockIdx.x"):
            for tx in T.thread_binding(1, thread="threadIdx.x"):
                B[0] = bx

    found = set()
    for seed in range(8):
        b = np.zeros(1, np.int32)
        tl.simulate(last, b, seed=seed, races=False)
        found.add(int(b[0]))
    assert len(found) > 1


# ---------------------------------------------------------------- limits


def test_more_threads_than_a_block_can_have() -> None:
    assert _run(_reverse(threads=1024), 1024).tolist() == list(range(1024))[::-1]
    with pytest.raises(InterpreterError, match="a block has 1025 threads, and the device runs at most 1024"):
        _run(_reverse(threads=1025), 1025)


def _shared(count: int, scope: str) -> tl.PrimFunc:
    return parse(f"""
@T.prim_func
def kernel(B: T.Buffer((8,), "int32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        s = T.alloc_buffer(({count},), "int32", scope="{scope}")
        t = T.alloc_buffer((256,), "int32", scope="{scope}")
        s[tx] = tx
        t[tx] = tx
        B[tx] = s[tx] + t[tx]
""")


@pytest.mark.parametrize(
    ("scope", "arch", "words"), [("shared", "sm_90a", 12288), ("shared.dyn", "sm_75", 16384), ("shared.dyn", "sm_90a", 58112)]
)  # fmt: skip
def test_more_shared_memory_than_a_block_can_have(scope: str, arch: str, words: int) -> None:
    target = f"nvptx -arch={arch}"
    tl.simulate(_shared(words - 256, scope), np.zeros(8, np.int32), target=target)
    with pytest.raises(InterpreterError, match=rf"a block has {4 * words + 4} bytes of .*memory, and the device"):
        tl.simulate(_shared(words - 255, scope), np.zeros(8, np.int32), target=target)
    tl.simulate(_shared(words - 255, scope), np.zeros(8, np.int32))  # no target, no limit


def test_the_limits_of_the_functions_own_target() -> None:
    func = _shared(13000, "shared").with_attr({"target": tl.Target("nvptx -arch=sm_80", host="llvm")})
    with pytest.raises(InterpreterError, match="static shared memory"):
        tl.simulate(func, np.zeros(8, np.int32))


def test_limits_by_architecture() -> None:
    assert device_limits(None).shared_bytes is None
    assert device_limits("nvptx -arch=sm_80").shared_bytes == 163 << 10
    assert device_limits("nvptx").shared_bytes == 48 << 10
    assert device_limits("nvptx -arch=sm_80 -max_threads_per_block=512").threads == 512


# ---------------------------------------------------------------- host code with launches


def _launching(name: str) -> IRModule:
    return Sequential([AnnotateDeviceRegions(), SplitHostDevice(), LowerDeviceKernelLaunch()])(module(name))


def _arguments(name: str) -> list[object]:
    rng = np.random.default_rng(5)
    if name == "symbolic":
        return [rng.standard_normal((10, 6)), np.zeros(10), 0.5]
    shapes = {
        "vector_add": ("float32", (100,), 3),
        "reverse_tiles": ("int16", (4, 16), 2),
        "several": ("int32", (24,), 2),
    }
    kind, shape, count = shapes.get(name, ("float16", (2, 8), 2))
    return [rng.integers(0, 50, shape).astype(kind) for _ in range(count)] + ([3] if name == "several" else [])


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_host_code_and_its_kernels(name: str) -> None:
    one, two = _arguments(name), _arguments(name)
    tl.simulate(PROGRAMS[name], *one, seeds=range(2))
    tl.simulate(_launching(name), *two, name="main", seeds=range(2))
    for x, y in zip(one, two, strict=True):
        np.testing.assert_array_equal(x, y)


class _SmallerGrid(Mutator):
    def visit_Call(self, op: Call) -> Call:
        if op.op.name != "tir.tvm_call_packed":
            return op
        return op.with_(args=(*op.args[:-2], IntImm("int32", 3), op.args[-1]))


def test_a_launch_of_other_extents_than_the_kernels() -> None:
    lowered = _launching("vector_add")
    wrong = lowered.with_functions({"main": lowered["main"].with_body(_SmallerGrid().visit(lowered["main"].body))})
    wrong = IRModule({**dict(lowered.items()), **dict(wrong.items())})
    with pytest.raises(InterpreterError, match=r"runs over 4 values of blockIdx.x, and was launched with 3"):
        tl.simulate(wrong, *_arguments("vector_add"), name="main")


def test_a_seed_is_an_int() -> None:
    with pytest.raises(ArgumentValueError, match="a seed is an int"):
        _run(_reverse(), seeds=["x"])
