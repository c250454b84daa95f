from __future__ import annotations

import pytest

from tests.checking import check
from tirlower.script import tir as T
from tirlower.transforms import ConvertForLoopsToSerial


def test_a_parallel_loop_becomes_serial() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        for i in T.parallel(8):
            A[i] = i

    @T.prim_func
    def expected(A: T.Buffer((8,), "int32")):
        for i in range(8):
            A[i] = i

    check(ConvertForLoopsToSerial(), before, expected)


def test_at_every_depth() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4, 4), "float64")):
        for i in T.parallel(4):
            for j in T.parallel(4):
                if i < j:
                    for k in T.parallel(4):
                        A[i, j, k] = T.float64(1)

    assert "parallel" not in check(ConvertForLoopsToSerial(), before).script()


def test_other_kinds_stay() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4), "int32"), n: T.int32):
        for i in range(n):
            for j in T.vectorized(4):
                A[i % 4, j] = i
            for j in T.unroll(4):
                A[i % 4, j] = A[i % 4, j] + i

    check(ConvertForLoopsToSerial(), before, before)


def test_thread_loops_stay() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4), "int32")):
        for b in T.thread_binding(4, thread="blockIdx.x"):
            for t in T.thread_binding(4, thread="threadIdx.x"):
                for k in T.parallel(1):
                    A[b, t] = b + t + k

    after = check(ConvertForLoopsToSerial(), before)
    assert after.script().count("thread_binding") == 2 and "parallel" not in after.script()


def test_ranges_and_annotations_stay() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), n: T.int32):
        for i in T.parallel(3, 8, annotations={"key": 5}):
            A[i] = n

    @T.prim_func
    def expected(A: T.Buffer((8,), "int32"), n: T.int32):
        for i in T.serial(3, 8, annotations={"key": 5}):
            A[i] = n

    check(ConvertForLoopsToSerial(), before, expected)


@pytest.mark.parametrize("extent", [0, 1, 7])
def test_symbolic_and_short_extents(extent: int) -> None:
    @T.prim_func
    def before(a: T.handle, n: T.int32):
        m = T.int32()
        A = T.match_buffer(a, (m,), "int16")
        for i in T.parallel(m):
            for _k in T.parallel(extent):
                A[i] = A[i] + T.int16(1)

    assert "parallel" not in check(ConvertForLoopsToSerial(), before).script()


def test_inside_blocks_and_their_init() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4), "int32"), B: T.Buffer((4,), "int32")):
        for i in T.parallel(4):
            for k in range(4):
                with T.block("sum"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        for u in T.parallel(1):
                            B[vi + u] = 0
                    for u in T.parallel(1):
                        B[vi + u] = B[vi + u] + A[vi, vk]

    assert "parallel" not in check(ConvertForLoopsToSerial(), before).script()


def test_while_attributes_and_views() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        V = T.decl_buffer((2, 4), "int32", data=A.data)
        A[0] = 0
        while A[0] < 3:
            with T.attr(0, "pragma_note", 1):
                for i in T.parallel(4):
                    V[1, i] = V[1, i] + 1
            A[0] = A[0] + 1

    assert "parallel" not in check(ConvertForLoopsToSerial(), before).script()
