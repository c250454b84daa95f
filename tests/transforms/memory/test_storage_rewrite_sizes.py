"""Buffers of different dtypes and sizes in one memory: bytes, symbolic extents, alignment, and sizes from inside loops."""

from __future__ import annotations

import numpy as np
import pytest

from tests.checking import check
from tests.transforms.memory.storage import REWRITE, allocations, rewritten
from tirlower.ir import Var, decl_buffer
from tirlower.rewrite.storage.check import verify_storage
from tirlower.rewrite.storage.plan import constant_bytes
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms.memory.storage_rewrite import StorageRewrite, storage_report


def test_different_dtypes_share_bytes() -> None:
    @T.prim_func
    def before(A: T.Buffer((10,), "float64"), F: T.Buffer((10,), "bool")):
        B = T.alloc_buffer((20,), "int8")
        C = T.alloc_buffer((10,), "float64")
        D = T.alloc_buffer((7,), "float16x4")
        E = T.alloc_buffer((10,), "bool")
        for i in range(20):
            B[i] = T.Cast("int8", i)
        for i in range(10):
            A[i] = A[i] + T.Cast("float64", B[19 - i])
        for i in range(10):
            C[i] = A[9 - i]
        for i in range(10):
            A[i] = C[i]
        for i in range(7):
            D[i] = T.Broadcast(T.Cast("float16", A[i]), 4)
        for i in range(7):
            A[i] = T.Cast("float64", T.Shuffle([D[i]], [2]))
        for i in range(10):
            E[i] = F[9 - i]
        for i in range(10):
            F[i] = not E[i]

    # 80 bytes for all, in the element type with the most lanes.
    assert rewritten(before) == [("B", 10, "float16x4")]
    assert storage_report(before).after == storage_report(before).lower_bound == 80


def test_sizes_more_than_sixteenfold_apart_do_not_share() -> None:
    @T.prim_func
    def before(A: T.Buffer((400,), "int32")):
        B = T.alloc_buffer((4,), "int32")
        C = T.alloc_buffer((400,), "int32")
        D = T.alloc_buffer((60,), "int32")
        E = T.alloc_buffer((1,), "int32")
        for i in range(4):
            B[i] = A[3 - i]
        for i in range(4):
            A[i] = B[i]
        for i in range(400):
            C[i] = A[399 - i]
        for i in range(400):
            A[i] = C[i]
        E[0] = A[0]
        for i in range(60):
            D[i] = A[i + 1] + E[0]
        for i in range(60):
            A[i] = D[59 - i]

    # The third takes the larger of the two that are free; a register's worth stays by itself.
    assert rewritten(before) == [("B", 4, "int32"), ("C", 400, "int32"), ("E", 1, "int32")]


def test_symbolic_extents_share_where_they_are_known() -> None:
    @T.prim_func
    def before(A: T.Buffer(("n", "m"), "float32")):
        for i in range(n):
            k: T.int32 = m + 1
            B = T.alloc_buffer((m,), "float32")
            C = T.alloc_buffer((k,), "float32")
            D = T.alloc_buffer((n,), "float32")
            for j in range(m):
                B[j] = A[i, j]
            for j in range(m):
                A[i, j] = B[m - 1 - j]
            for j in range(m):
                C[j + 1] = A[i, j]
            for j in range(m):
                A[i, j] = C[j + 1]
            D[i] = T.float32(1)
            for j in range(m):
                A[i, j] = A[i, j] + D[i]

    after = check(REWRITE, before, sizes=(1, 2, 5))
    verify_storage(before, after)
    # B and D share at the top; k is known only behind its binding.
    assert allocations(after) == [("B", "T.max(m, n)", "float32"), ("C", "k", "float32")]


def test_extents_that_might_be_negative_stay_behind_their_condition() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), n: T.int32):
        for i in range(2):
            if n > 2:
                B = T.alloc_buffer((n - 2,), "int32")
                B[0] = A[i]
                A[i + 1] = B[0]

    inputs = [(np.arange(8, dtype="int32"), n) for n in (0, 2, 3, 5)]
    check(REWRITE, before, before, inputs=inputs)


def test_alignment_is_the_largest() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32", align=64)
        C = T.alloc_buffer((8,), "int32", align=256)
        for i in range(8):
            B[i] = A[7 - i]
        for i in range(8):
            A[i] = B[i]
        for i in range(8):
            C[i] = A[7 - i]
        for i in range(8):
            A[i] = C[i]

    after = check(REWRITE, before)
    assert allocations(after) == [("B", 8, "int32")] and after.body.stmts[0].buffer.align == 256


def test_vector_access_gives_vector_memory() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
        for r in range(2):
            B = T.alloc_buffer((16,), "float32")
            for i in range(4):
                B[T.Ramp(i * 4, 1, 4)] = A[T.Ramp(i * 4, 1, 4)]
            for i in range(4):
                C[T.Ramp(i * 4, 1, 4)] = B[T.Ramp(12 - i * 4, 1, 4)]

    assert rewritten(before) == [("B", 4, "float32x4")]


@pytest.mark.parametrize(("first", "second"), [("float32", "float64"), ("float64", "float32"), ("int8", "int32")])
def test_symbolic_sizes_of_different_dtypes_do_not_share(first: str, second: str) -> None:
    @T.prim_func
    def before(A: T.Buffer(("n",), "int32")):
        B = T.alloc_buffer((n,), first)
        C = T.alloc_buffer((n,), second)
        for i in range(n):
            B[i] = T.Cast(first, A[i])
        for i in range(n):
            A[i] = T.Cast("int32", B[n - 1 - i]) + 1
        for i in range(n):
            C[i] = T.Cast(second, A[i])
        for i in range(n):
            A[i] = T.Cast("int32", C[n - 1 - i]) * 2

    assert rewritten(before, sizes=(0, 1, 7)) == [("B", "n", first), ("C", "n", second)]


def test_the_bytes_of_an_allocation_reach_to_its_last_element() -> None:
    assert constant_bytes(decl_buffer((3, 5), "int16")) == 30
    assert constant_bytes(decl_buffer((3, 5), "float32x4", elem_offset=2)) == 17 * 16
    assert constant_bytes(decl_buffer((3, Var("n")), "int8")) is None
    for shape, strides in (((2, 3), (1, 9)), ((4, 3), (2, 20)), ((3, 4), (8, 1)), ((1, 7), (40, 3)), ((0, 7), (7, 1))):
        last = sum((extent - 1) * step for extent, step in zip(shape, strides, strict=True))
        # Whole rows too: what fills them up belongs to the buffer.
        count = max(last + 1, shape[0] * strides[0]) if 0 not in shape else 0
        assert constant_bytes(decl_buffer(shape, "int32", strides=strides)) == 4 * count


@pytest.mark.parametrize("kind", ["serial", "parallel", "unroll"])
def test_a_size_that_is_one_inside_a_loop_leaves_a_while(kind: str) -> None:
    before = parse(f"""
@T.prim_func
def f(C: T.Buffer((64,), "float32"), n: T.int32):
    for i in T.{kind}(n):
        k = T.alloc_buffer((1,), "int32")
        k[0] = 0
        while k[0] < 3:
            A = T.alloc_buffer((n,), "float32")
            A[0] = C[i] + T.float32(2)
            C[i] = A[0]
            k[0] = k[0] + 1
""")
    inputs = [[np.zeros(64, "float32"), n] for n in (-5, 0, 1, 7)]
    after = check(StorageRewrite(), before, inputs=inputs)
    lines = after.script().split("\n")
    at = {word: next(n for n, line in enumerate(lines) if word in line) for word in ("for i", "A = T.alloc", "while")}
    # n is a size wherever the loop runs, and nothing is known of it in front.
    assert at["for i"] < at["A = T.alloc"] < at["while"]


def test_a_size_of_a_parameter_leaves_a_while() -> None:
    @T.prim_func
    def before(A: T.Buffer((1,), "int32"), C: T.Buffer(("n",), "int32")):
        while A[0] < 10:
            B = T.alloc_buffer((n,), "int32")
            B[0] = A[0] + C[0]
            A[0] = B[0]

    @T.prim_func
    def expected(A: T.Buffer((1,), "int32"), C: T.Buffer(("n",), "int32")):
        B = T.alloc_buffer((n,), "int32")
        while A[0] < 10:
            B[0] = A[0] + C[0]
            A[0] = B[0]

    check(
        StorageRewrite(),
        before,
        expected,
        inputs=[[np.array([start], "int32"), np.array([3, 7], "int32")] for start in (3, 10)],
    )


def test_a_size_of_which_nothing_is_known_stays_in_a_while() -> None:
    @T.prim_func
    def before(A: T.Buffer((1,), "int32"), n: T.int32):
        while A[0] < 10:
            B = T.alloc_buffer((n,), "int32")
            B[0] = A[0] + 1
            A[0] = B[0]

    check(StorageRewrite(), before, before, inputs=[[np.array([3], "int32"), 4], [np.array([10], "int32"), -4]])
