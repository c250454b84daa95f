"""In a build every pass takes arithmetic on data to wrap: programs of which the pass named was wrong where it did not."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import TransformError
from tirlower.interp import interpret, simulate
from tirlower.ir import IRModule, PrimFunc
from tirlower.rewrite.scalar_overflow import building
from tirlower.script import tir as T
from tirlower.transforms import LiftThreadBinding, RenormalizeSplitPattern, UnifyThreadBinding

LAST = 2**31 - 1
GPU = "nvptx -arch=sm_80"


def lowered(func: PrimFunc) -> IRModule:
    return tl.lower(func, target=tl.Target(GPU))


def test_the_offset_of_a_matched_region() -> None:
    @T.prim_func
    def passed(n: T.int32, A: T.Buffer((64,), "float32"), B: T.Buffer((1,), "int32")):
        with T.block("b"):
            T.reads(A[0:64])
            T.writes(B[0])
            off = T.int32()
            S = T.match_buffer(A[n * 4 // 2 : n * 4 // 2 + 4], (4,), elem_offset=off, offset_factor=1)
            B[0] = off

    @T.prim_func
    def loaded(X: T.Buffer((1,), "int32"), A: T.Buffer((64,), "float32"), B: T.Buffer((1,), "int32")):
        n: T.int32 = X[0]
        with T.block("b"):
            T.reads(A[0:64])
            T.writes(B[0])
            off = T.int32()
            S = T.match_buffer(A[n * 4 // 2 : n * 4 // 2 + 4], (4,), elem_offset=off, offset_factor=1)
            B[0] = off

    found = np.zeros(1, "int32")
    tl.build(passed, schedule="none")(2**30 + 1, np.zeros(64, "float32"), found)
    assert found[0] == 2
    found[0] = 0
    tl.build(loaded, schedule="none")(np.array([2**30 + 1], "int32"), np.zeros(64, "float32"), found)
    assert found[0] == 2


def test_a_matched_region_drops_no_dimension_that_may_have_two_elements() -> None:
    @T.prim_func
    def drops(n: T.int32, A: T.Buffer((64, 4), "float32"), B: T.Buffer((4,), "float32")):
        with T.block("b"):
            T.reads(A[0:64, 0:4])
            T.writes(B[0:4])
            S = T.match_buffer(A[0 : T.Select(n + 1 > n, 1, 2), 0:4], (4,))
            for j in range(4):
                B[j] = S[j]

    with pytest.raises(TransformError, match="drops dimension 0"):
        tl.build(drops, schedule="none")


def test_thread_loops_of_different_extents() -> None:
    @T.prim_func
    def differ(n: T.int32, A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for _bx in T.thread_binding(1, thread="blockIdx.x"):
            for tx in T.thread_binding(T.Select(n + 1 > n, 4, 8), thread="threadIdx.x"):
                B[tx] = A[tx]
            for tx in T.thread_binding(4, thread="threadIdx.x"):
                B[tx + 16] = A[tx]

    with pytest.raises(TransformError, match="has the extents"):
        lowered(differ)
    for one in (LiftThreadBinding(), UnifyThreadBinding()):
        mod = IRModule({"differ": differ})
        with building(mod), pytest.raises(TransformError, match="has the extents"):
            one(mod)


def test_whether_a_reduction_of_threads_runs() -> None:
    @T.prim_func
    def wraps(n: T.int32, A: T.Buffer((64,), "float32"), B: T.Buffer((1,), "float32")):
        for _bx in T.thread_binding(1, thread="blockIdx.x"):
            for k in T.thread_binding(32, thread="threadIdx.x"):
                with T.block("B"):
                    vk = T.axis.reduce(32, k)
                    T.where(n + k < 16)
                    T.reads(A[vk])
                    T.writes(B[0])
                    with T.init():
                        B[0] = T.float32(0)
                    B[0] = B[0] + A[vk]

    with pytest.raises(TransformError, match="is not known"):
        lowered(wraps)


@pytest.mark.parametrize("n", [0, 5])
def test_a_reduction_of_threads_that_does_not_run_writes_nothing(n: int) -> None:
    @T.prim_func
    def some(n: T.int32, A: T.Buffer((32,), "float32"), B: T.Buffer((1,), "float32")):
        for _bx in T.thread_binding(1, thread="blockIdx.x"):
            for k in T.thread_binding(32, thread="threadIdx.x"):
                with T.block("B"):
                    vk = T.axis.reduce(32, k)
                    T.where(k < n)
                    T.reads(A[vk])
                    T.writes(B[0])
                    with T.init():
                        B[0] = T.float32(0)
                    B[0] = B[0] + A[vk]

    found = np.full(1, 7, "float32")
    simulate(lowered(some), n, np.arange(32, dtype="float32"), found)
    assert found[0] == (sum(range(n)) if n else 7)


def test_the_extent_of_a_scheduled_loop() -> None:
    @T.prim_func
    def some(n: T.int32, A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(T.Select(n + 1 > n, 4, 8)):
            B[i] = A[i]

    mod = lowered(some)
    assert "if i_fused_2 * 262144 + i_fused_0 * 1024 + i_fused_1 < T.Select(n + 1 > n, 4, 8)" in mod.script()


def test_a_copy_in_vectors() -> None:
    @T.prim_func
    def copy(n: T.int32, A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        with T.block("copy"):
            T.reads(A[0:64])
            T.writes(B[0:64])
            T.block_attr({"auto_copy": 1, "vector_bytes": 16})
            for i in range(T.Select(n + 1 > n, 4, 9)):
                B[i] = A[i]

    kernel = tl.build(copy, schedule="none")
    for n, count in ((0, 4), (LAST, 9)):
        source, found = np.arange(1, 65, dtype="float32"), np.zeros(64, "float32")
        kernel(n, source, found)
        assert found.tolist() == [*source[:count], *[0] * (64 - count)]


def test_a_rolling_buffer_whose_parts_may_not_meet() -> None:
    @T.prim_func
    def roll(n: T.int32, A: T.Buffer((64,), "float32"), B: T.Buffer((10,), "float32")):
        for i in range(10):
            R = T.alloc_buffer((64,), "float32")
            with T.attr(R.data, "rolling_buffer_scope", True):
                for k in range(3):
                    R[n * 4 // 4 - n + i + k] = A[i + k] * T.float32(2)
            B[i] = R[i] + R[i + 2]

    with pytest.raises(TransformError, match="cannot be a rolling buffer"):
        tl.build(roll, schedule="none")


def test_a_let_of_data() -> None:
    @T.prim_func
    def lets(n: T.int32, A: T.Buffer((1,), "int32"), B: T.Buffer((2,), "int32")):
        x = T.int32()
        B[0] = T.Let(x * 4 // 2, where={x: A[0]})
        y = T.int32()
        B[1] = T.Let(T.Select(y + 1 > y, 5, 6), where={y: n})

    found = np.zeros(2, "int32")
    tl.build(lets, schedule="none")(LAST, np.array([2**30 + 1], "int32"), found)
    assert found.tolist() == [2, 6]


def test_divisions_of_loaded_values_are_not_renormalized() -> None:
    @T.prim_func
    def divides(A: T.Buffer((2,), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(2):
            B[i] = (A[i] * 6 + i) // 4
            if A[i] + 1 < 17:
                B[2 + i] = (i * 6 + i % 4) // 2

    after = RenormalizeSplitPattern()(divides)
    assert isinstance(after, PrimFunc) and "i * 3" in after.script()
    source = np.array([LAST, 2**30 + 7], "int32")
    results = []
    for func in (divides, after):
        results.append(np.zeros(4, "int32"))
        interpret(func, source, results[-1])
    assert results[0].tolist() == results[1].tolist()


@T.prim_func
def corner(n: T.int32, m: T.int32, A: T.Buffer((4, 4), "int32")):
    for i, j in T.grid(n, m):
        if i < 4 and j < 4:
            A[i, j] = A[i, j] + 1


def test_two_negative_extents_make_no_iterations() -> None:
    func = tl.lower(corner, target=tl.Target("nvptx -arch=sm_80 -max_num_threads=1"))
    for n, m in ((-2, -2), (3, 2), (0, 5), (-1, 4)):
        found, want = np.zeros((4, 4), "int32"), np.zeros((4, 4), "int32")
        simulate(func, n, m, found)
        interpret(corner, n, m, want)
        assert found.tolist() == want.tolist()


@pytest.mark.parametrize(("n", "m"), [(2**16, 2**16), (LAST, 1), (1, LAST), (LAST, LAST)])
def test_a_fused_index_beyond_its_type_is_refused(n: int, m: int) -> None:
    with pytest.raises(OverflowError, match=r"the loops over i, j have .* which int32 cannot count together"):
        simulate(lowered(corner), n, m, np.zeros((4, 4), "int32"))


def test_extents_read_on_the_device_are_fused_in_int64() -> None:
    @T.prim_func
    def read(N: T.Buffer((1,), "int32"), A: T.Buffer((4,), "int32")):
        for i in range(N[0]):
            if i < 4:
                A[i] = 1

    assert "T.int64" in lowered(read).script()


@T.prim_func
def passed_on(x: T.int32, A: T.Buffer(("n",), "int32"), B: T.Buffer((3,), "int32")):
    for bx in T.thread_binding(1, thread="blockIdx.x"):
        for tx in T.thread_binding(1, thread="threadIdx.x"):
            B[bx + tx] = T.Select(x + 1 > x, 5, 6)
            B[1] = x * 4 // 2
            B[2] = T.Select(n + 1 > n, 7, 8)


def test_a_kernel_split_off_a_function_knows_which_parameters_are_data() -> None:
    mod = lowered(passed_on)
    kernel = mod["passed_on_kernel"]
    assert isinstance(kernel, PrimFunc)
    assert [kernel.params[at].name for at in kernel.attrs["tir.data_params"]] == ["x"]
    found = np.zeros(3, "int32")
    simulate(mod, LAST, np.zeros(4, "int32"), found)
    assert found.tolist() == [6, -2, 7]
    with tl.PassContext(config={"tir.scalar_overflow": "none"}):
        assert "tir.data_params" not in lowered(passed_on)["passed_on_kernel"].attrs


def test_machine_code_of_a_kernel_wraps_where_its_parameters_are_data() -> None:
    @T.prim_func
    def stores(x: T.int32, A: T.Buffer(("n",), "int32"), B: T.Buffer((64,), "int32")):
        for _bx in T.thread_binding(1, thread="blockIdx.x"):
            for _tx in T.thread_binding(1, thread="threadIdx.x"):
                if x * 2 + 4 >= 0 and x * 2 + 4 < 64:
                    B[x * 2 + 4] = 1
                if n * 2 + 4 < 64:
                    B[n * 2 + 4] = 1

    # A subscript of data is computed in its type, then widened; one of sizes where addresses are.
    code = tl.build(stores, target=tl.Target(GPU), schedule="none").source("llvm")
    assert "sext i32 %x to" not in code and "sext i32 %n to" in code
    with tl.PassContext(config={"tir.scalar_overflow": "none"}):
        assert "sext i32 %x to" in tl.build(stores, target=tl.Target(GPU), schedule="none").source("llvm")
