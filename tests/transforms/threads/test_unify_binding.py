from __future__ import annotations

import numpy as np
import pytest

from tests.checking import check
from tirlower.diagnostics import TransformError
from tirlower.interp import interpret
from tirlower.ir import For, ForKind, pre_order_visit
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import UnifyThreadBinding


def axes(func) -> list[str]:
    """The tags of the thread loops, outermost first."""
    found: list[str] = []

    def look(op):
        if isinstance(op, For) and op.kind is ForKind.THREAD_BINDING:
            found.append(op.thread_tag)

    pre_order_visit(func.body, look)
    return found


def test_a_canonical_kernel_comes_back_as_it_is() -> None:
    @T.prim_func
    def add(A: T.Buffer((100,), "float32"), B: T.Buffer((100,), "float32")):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                if bx * 32 + tx < 100:
                    B[bx * 32 + tx] = A[bx * 32 + tx] + T.float32(1)

    check(UnifyThreadBinding(), add, add)


def test_sibling_loops_of_an_axis_become_one_around_shared_memory() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 16), "int16"), B: T.Buffer((4, 16), "int16")):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            tile = T.alloc_buffer((16,), "int16", scope="shared")
            for tx in T.thread_binding(16, thread="threadIdx.x"):
                tile[tx] = A[bx, tx]
            T.evaluate(T.tvm_storage_sync("shared"))
            for ty in T.thread_binding(16, thread="threadIdx.x"):
                B[bx, ty] = tile[15 - ty]

    @T.prim_func
    def expected(A: T.Buffer((4, 16), "int16"), B: T.Buffer((4, 16), "int16")):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for tx in T.thread_binding(16, thread="threadIdx.x"):
                tile = T.alloc_buffer((16,), "int16", scope="shared")
                tile[tx] = A[bx, tx]
                T.evaluate(T.tvm_storage_sync("shared"))
                B[bx, tx] = tile[15 - tx]

    check(UnifyThreadBinding(), before, expected)


def test_tiled_loop_with_barriers_inside_a_serial_loop() -> None:
    @T.prim_func
    def before(A: T.Buffer((2, 48), "float32"), B: T.Buffer((2, 16), "float32")):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            tile = T.alloc_buffer((16,), "float32", scope="shared")
            for k in range(3):
                for tx in T.thread_binding(16, thread="threadIdx.x"):
                    tile[tx] = A[bx, k * 16 + tx]
                T.evaluate(T.tvm_storage_sync("shared"))
                for tx in T.thread_binding(16, thread="threadIdx.x"):
                    if k == 0:
                        B[bx, tx] = T.float32(0)
                    B[bx, tx] = B[bx, tx] + tile[(tx + 5) % 16]
                T.evaluate(T.tvm_storage_sync("shared"))

    after = check(UnifyThreadBinding(), before)
    assert axes(after) == ["blockIdx.x", "threadIdx.x"]


def test_an_axis_inside_itself_is_the_same_thread() -> None:
    @T.prim_func
    def before(A: T.Buffer((8, 8), "int32")):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            for k in range(2):
                for ty in T.thread_binding(8, thread="threadIdx.x"):
                    A[tx, ty] = A[tx, ty] + k + 1

    @T.prim_func
    def expected(A: T.Buffer((8, 8), "int32")):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            for k in range(2):
                A[tx, tx] = A[tx, tx] + k + 1

    check(UnifyThreadBinding(), before, expected)


def test_symbolic_extents_and_two_kernels() -> None:
    @T.prim_func
    def before(A: T.Buffer(("n", "m"), "float32"), B: T.Buffer(("n",), "float32")):
        for bx in T.thread_binding(n, thread="blockIdx.x"):
            for k in range(2):
                for tx in T.thread_binding(m, thread="threadIdx.x"):
                    A[bx, tx] = A[bx, tx] + T.float32(k)
                for tx in T.thread_binding(m * 1, thread="threadIdx.x"):
                    A[bx, tx] = A[bx, tx] * T.float32(2)
        for bx in T.thread_binding((n + 3) // 4, thread="blockIdx.x"):
            for tx in T.thread_binding(4, thread="threadIdx.x"):
                if bx * 4 + tx < n:
                    B[bx * 4 + tx] = A[bx * 4 + tx, 0]

    after = check(UnifyThreadBinding(), before)
    assert axes(after) == ["blockIdx.x", "threadIdx.x"] * 2


def test_minimums_that_are_not_zero() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        for tx in T.thread_binding(2, 10, thread="threadIdx.x"):
            A[tx] = tx
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for tx in T.thread_binding(3, 11, thread="threadIdx.x"):
                B[tx - 3 + bx * 8] = tx
            for tx in T.thread_binding(8, 16, thread="threadIdx.x"):
                B[tx - 8 + bx * 8] = B[tx - 8 + bx * 8] * tx

    after = check(UnifyThreadBinding(), before)
    assert axes(after) == ["threadIdx.x", "blockIdx.x", "threadIdx.x"]


def test_annotations_stay_on_unit_loops() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 8), "uint8")):
        for bx in T.thread_binding(4, thread="blockIdx.x", annotations={"a": 1}):
            for tx in T.thread_binding(8, thread="threadIdx.x", annotations={"b": "two"}):
                A[bx, tx] = A[bx, tx] + T.uint8(1)

    @T.prim_func
    def expected(A: T.Buffer((4, 8), "uint8")):
        for bx in T.thread_binding(4, thread="blockIdx.x", annotations={"a": 1}):
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                for v in T.serial(1, annotations={"b": "two"}):
                    A[bx, tx] = A[bx, tx] + T.uint8(1)

    check(UnifyThreadBinding(), before, expected)


def test_conflicting_extents() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), n: T.int32):
        for bx in T.thread_binding(1, thread="blockIdx.x"):
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                A[tx] = bx
            for tx in T.thread_binding(4, thread="threadIdx.x"):
                A[tx] = n

    with pytest.raises(TransformError, match=r"threadIdx\.x has the extents 8 and 4 in one kernel") as error:
        UnifyThreadBinding()(before)
    assert error.value.help
    text = before.script().replace("T.thread_binding(4", "T.thread_binding(n")
    with pytest.raises(TransformError, match="extents 8 and n"):
        UnifyThreadBinding()(parse(text))


def test_work_that_counts_stays_outside() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 8), "int32"), N: T.Buffer((4,), "int32")):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            N[bx] = N[bx] + 1
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                for ty in T.thread_binding(8, thread="threadIdx.x"):
                    A[bx, ty] = A[bx, tx] + 1

    @T.prim_func
    def expected(A: T.Buffer((4, 8), "int32"), N: T.Buffer((4,), "int32")):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            N[bx] = N[bx] + 1
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                A[bx, tx] = A[bx, tx] + 1

    check(UnifyThreadBinding(), before, expected)


def test_work_that_writes_the_same_again_may_be_repeated() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 8), "int32"), B: T.Buffer((4,), "int32")):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            s = T.alloc_buffer((1,), "int32", scope="shared")
            s[0] = B[bx] * 2
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                A[bx, tx] = A[bx, tx] + s[0]

    assert axes(check(UnifyThreadBinding(), before)) == ["blockIdx.x", "threadIdx.x"]
    assert isinstance(UnifyThreadBinding()(before).body.body, For)


def test_virtual_threads_and_extents_that_depend_on_the_place() -> None:
    @T.prim_func
    def virtual(A: T.Buffer((2, 4, 8), "int32")):
        for v in T.thread_binding(2, thread="vthread.x"):
            for w in T.thread_binding(4, thread="vthread.x"):
                for tx in T.thread_binding(8, thread="threadIdx.x"):
                    A[v, w, tx] = A[v, w, tx] + v * 10 + w

    check(UnifyThreadBinding(), virtual, virtual)

    @T.prim_func
    def growing(A: T.Buffer((4,), "int32")):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for k in range(4):
                for tx in T.thread_binding(k + 1, thread="threadIdx.x"):
                    A[tx] = A[tx] + bx

    check(UnifyThreadBinding(), growing, growing)

    @T.prim_func
    def read(A: T.Buffer((2, 8), "int32"), N: T.Buffer((2,), "int32")):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for k in range(3):
                for tx in T.thread_binding(N[bx], thread="threadIdx.x"):
                    A[bx, tx] = A[bx, tx] + k
                    if tx == 0:
                        N[bx] = k + 2

    check(UnifyThreadBinding(), read, read, inputs=[[np.zeros((2, 8), "int32"), np.array([7, 1], "int32")]])


def test_blocks_with_regions_and_axes_of_different_widths() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
        with T.block("root"):
            T.reads()
            T.writes()
            for bx in T.thread_binding(4, thread="blockIdx.x"):
                for k in range(1):
                    for tx in T.thread_binding(8, thread="threadIdx.x"):
                        with T.block("b"):
                            T.reads(A[bx, tx])
                            T.writes(B[bx, tx])
                            B[bx, tx] = A[bx, tx] + T.float32(1)
                for tx in T.thread_binding(T.int64(8), thread="threadIdx.x"):
                    with T.block("c"):
                        T.reads(B[bx, tx])
                        T.writes(B[bx, tx])
                        B[bx, tx] = B[bx, tx] * T.float32(2)

    after = check(UnifyThreadBinding(), before)
    assert axes(after) == ["blockIdx.x", "threadIdx.x"]
    rng = np.random.default_rng(1)
    a, b = rng.random((4, 8), np.float32), np.zeros((4, 8), np.float32)
    interpret(after, a, b)
    np.testing.assert_array_equal(b, (a + 1) * 2)


def test_virtual_threads_stay_in_front_of_the_threads() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 2, 8), "int32")):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for v in T.thread_binding(2, thread="vthread.x"):
                for tx in T.thread_binding(8, thread="threadIdx.x"):
                    A[bx, v, tx] = A[bx, v, tx] + 1
                for ty in T.thread_binding(8, thread="threadIdx.x"):
                    A[bx, v, ty] = A[bx, v, ty] * 2

    @T.prim_func
    def expected(A: T.Buffer((4, 2, 8), "int32")):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for v in T.thread_binding(2, thread="vthread.x"):
                for tx in T.thread_binding(8, thread="threadIdx.x"):
                    A[bx, v, tx] = A[bx, v, tx] + 1
                    A[bx, v, tx] = A[bx, v, tx] * 2

    check(UnifyThreadBinding(), before, expected)
