from __future__ import annotations

import pytest

from tests.checking import check
from tirlower.diagnostics import TransformError
from tirlower.script import tir as T
from tirlower.transforms import LiftThreadBinding


def test_one_loop_stays() -> None:
    @T.prim_func
    def add(A: T.Buffer((100,), "float32"), B: T.Buffer((100,), "float32")):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for k in range(1):
                for tx in T.thread_binding(32, thread="threadIdx.x"):
                    if bx * 32 + tx < 100:
                        B[bx * 32 + tx] = A[bx * 32 + tx] + T.float32(k)

    check(LiftThreadBinding(), add, add)


def test_to_the_common_loop_with_shared_memory_and_barriers() -> None:
    @T.prim_func
    def before(A: T.Buffer((2, 48), "float16"), B: T.Buffer((2, 16), "float16")):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            tile = T.alloc_buffer((16,), "float16", scope="shared")
            for k in range(3):
                for tx in T.thread_binding(16, thread="threadIdx.x"):
                    tile[tx] = A[bx, k * 16 + tx]
                T.evaluate(T.tvm_storage_sync("shared"))
                for j in range(2):
                    for ty in T.thread_binding(16, thread="threadIdx.x"):
                        B[bx, ty] = B[bx, ty] + tile[(ty + j) % 16]
                T.evaluate(T.tvm_storage_sync("shared"))

    @T.prim_func
    def expected(A: T.Buffer((2, 48), "float16"), B: T.Buffer((2, 16), "float16")):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            tile = T.alloc_buffer((16,), "float16", scope="shared")
            for k in range(3):
                for tx in T.thread_binding(16, thread="threadIdx.x"):
                    tile[tx] = A[bx, k * 16 + tx]
                    T.evaluate(T.tvm_storage_sync("shared"))
                    for j in range(2):
                        B[bx, tx] = B[bx, tx] + tile[(tx + j) % 16]
                    T.evaluate(T.tvm_storage_sync("shared"))

    check(LiftThreadBinding(), before, expected)


def test_two_axes_to_one_loop_keep_their_order() -> None:
    @T.prim_func
    def before(A: T.Buffer((2, 4, 8), "int32"), B: T.Buffer((2, 4, 8), "int32")):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for ty in T.thread_binding(4, thread="threadIdx.y"):
                for tx in T.thread_binding(8, thread="threadIdx.x"):
                    B[bx, ty, tx] = A[bx, ty, tx] * 3
            for ty in T.thread_binding(4, thread="threadIdx.y"):
                for tx in T.thread_binding(8, thread="threadIdx.x"):
                    A[bx, ty, tx] = B[bx, ty, tx] - bx

    @T.prim_func
    def expected(A: T.Buffer((2, 4, 8), "int32"), B: T.Buffer((2, 4, 8), "int32")):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for ty in T.thread_binding(4, thread="threadIdx.y"):
                for tx in T.thread_binding(8, thread="threadIdx.x"):
                    B[bx, ty, tx] = A[bx, ty, tx] * 3
                    A[bx, ty, tx] = B[bx, ty, tx] - bx

    check(LiftThreadBinding(), before, expected)


def test_an_axis_inside_itself_with_minimums() -> None:
    @T.prim_func
    def before(A: T.Buffer((12, 12), "int32")):
        for tx in T.thread_binding(2, 10, thread="threadIdx.x"):
            for k in range(2):
                for ty in T.thread_binding(4, 12, thread="threadIdx.x"):
                    A[tx, ty] = A[tx, ty] + k + 1

    @T.prim_func
    def expected(A: T.Buffer((12, 12), "int32")):
        for tx in T.thread_binding(2, 10, thread="threadIdx.x"):
            for k in range(2):
                # the axis has one variable: the inner loop's value is what the body sees
                A[tx + 2, tx + 2] = A[tx + 2, tx + 2] + k + 1

    check(LiftThreadBinding(), before, expected)


def test_symbolic_extents_siblings_with_minimums() -> None:
    @T.prim_func
    def before(A: T.Buffer(("n", "m"), "float64")):
        for bx in T.thread_binding(n, thread="blockIdx.x"):
            for tx in T.thread_binding(m, thread="threadIdx.x"):
                A[bx, tx] = A[bx, tx] + T.float64(1)
            for tx in T.thread_binding(5, m + 5, thread="threadIdx.x"):
                A[bx, tx - 5] = A[bx, tx - 5] * T.float64(2)

    after = check(LiftThreadBinding(), before)
    assert after.script().count("thread_binding") == 2


def test_equal_annotations_go_along_and_others_stay() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        for bx in T.thread_binding(1, thread="blockIdx.x"):
            for tx in T.thread_binding(8, thread="threadIdx.x", annotations={"a": 1}):
                A[tx] = A[tx] + bx
            for tx in T.thread_binding(8, thread="threadIdx.x", annotations={"a": 1}):
                A[tx] = A[tx] * 2

    after = check(LiftThreadBinding(), before)
    assert after.body.body.annotations == {"a": 1} and after.script().count('"a"') == 1

    @T.prim_func
    def different(A: T.Buffer((8,), "int32")):
        for bx in T.thread_binding(1, thread="blockIdx.x"):
            for tx in T.thread_binding(8, thread="threadIdx.x", annotations={"a": 1}):
                A[tx] = A[tx] + bx
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                A[tx] = A[tx] * 2

    @T.prim_func
    def expected(A: T.Buffer((8,), "int32")):
        for bx in T.thread_binding(1, thread="blockIdx.x"):
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                for u in T.serial(1, annotations={"a": 1}):
                    A[tx] = A[tx] + bx
                A[tx] = A[tx] * 2

    check(LiftThreadBinding(), different, expected)


def test_different_extents() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        for bx in T.thread_binding(1, thread="blockIdx.x"):
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                A[tx] = bx
            for tx in T.thread_binding(7, thread="threadIdx.x"):
                A[tx] = 1

    with pytest.raises(TransformError, match=r"threadIdx\.x has the extents 8 and 7"):
        LiftThreadBinding()(before)


def test_work_that_counts_between_the_loops() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 8), "int32"), N: T.Buffer((4,), "int32")):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                A[bx, tx] = A[bx, tx] + 1
            N[bx] = N[bx] + 1
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                A[bx, tx] = A[bx, tx] + N[bx]

    check(LiftThreadBinding(), before, before)


def test_work_outside_the_common_loop_does_not_matter() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 8), "int32"), N: T.Buffer((4,), "int32")):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            N[bx] = N[bx] + 1
            for k in range(2):
                if k < N[bx]:
                    for tx in T.thread_binding(8, thread="threadIdx.x"):
                        A[bx, tx] = A[bx, tx] + k
                for tx in T.thread_binding(8, thread="threadIdx.x"):
                    A[bx, tx] = A[bx, tx] * 2

    after = check(LiftThreadBinding(), before)
    assert after.script().count("thread_binding") == 2


def test_extents_that_depend_on_the_common_loop_and_two_kernels() -> None:
    @T.prim_func
    def before(A: T.Buffer((6,), "int32"), B: T.Buffer((6,), "int32")):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for k in range(5):
                for tx in T.thread_binding(k + 1, thread="threadIdx.x"):
                    A[tx] = A[tx] + bx
                for tx in T.thread_binding(1 + k, thread="threadIdx.x"):
                    A[tx] = A[tx] * 2
        for bx in T.thread_binding(3, thread="blockIdx.x"):
            for tx in T.thread_binding(2, thread="threadIdx.x"):
                B[bx * 2 + tx] = A[bx * 2 + tx]

    after = check(LiftThreadBinding(), before)
    assert after.script().count("thread_binding") == 4


def test_extents_that_depend_on_an_axis_inside_the_common_loop() -> None:
    @T.prim_func
    def before(A: T.Buffer((3, 4), "int32")):
        for bx in T.thread_binding(1, thread="blockIdx.x"):
            for k in range(2):
                for ty in T.thread_binding(3, thread="threadIdx.y"):
                    for tx in T.thread_binding(ty + 1, thread="threadIdx.x"):
                        A[ty, tx] = A[ty, tx] + k
                for ty in T.thread_binding(3, thread="threadIdx.y"):
                    for tx in T.thread_binding(ty + 1, thread="threadIdx.x"):
                        A[ty, tx] = A[ty, tx] * 2 + bx

    after = check(LiftThreadBinding(), before)
    assert after.script().count("threadIdx.y") == 1 and after.script().count("threadIdx.x") == 1


def test_a_common_loop_that_goes_itself() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 6), "int32")):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for tx in T.thread_binding(0, 4, thread="threadIdx.x"):
                for k in range(2):
                    for ux in T.thread_binding(0, 4, thread="threadIdx.x"):
                        for ty in T.thread_binding(0, 6, thread="threadIdx.y"):
                            A[ux, ty] = A[ux, ty] + k
                        for ty in T.thread_binding(0, 6, thread="threadIdx.y"):
                            A[ux, ty] = A[ux, ty] * 3 + bx

    @T.prim_func
    def expected(A: T.Buffer((4, 6), "int32")):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for tx in T.thread_binding(0, 4, thread="threadIdx.x"):
                for k in range(2):
                    for ty in T.thread_binding(0, 6, thread="threadIdx.y"):
                        A[tx, ty] = A[tx, ty] + k
                        A[tx, ty] = A[tx, ty] * 3 + bx

    check(LiftThreadBinding(), before, expected)
