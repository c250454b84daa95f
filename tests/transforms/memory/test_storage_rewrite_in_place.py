"""Statements that write where they read, element by element, and those that must not."""

from __future__ import annotations

from tests.transforms.memory.storage import rewritten
from tirlower.script import tir as T
from tirlower.transforms import PassContext
from tirlower.transforms.memory.storage_rewrite import storage_report


def test_elementwise_chains_work_in_place() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 8), "int32")):
        B = T.alloc_buffer((4, 8), "int32")
        C = T.alloc_buffer((4, 8), "int32")
        D = T.alloc_buffer((4, 8), "int32")
        for i, j in T.grid(4, 8):
            B[i, j] = A[i, j] + 1
        for i, j in T.grid(4, 8):
            C[i, j] = B[i, j] * B[i, j]
        for i in range(4):
            if i < 3:
                for j in range(8):
                    D[i, j] = T.if_then_else(j < 7, C[i, j], 0)
        for i, j in T.grid(3, 8):
            A[i, j] = D[i, j]

    assert rewritten(before) == [("B", 4, 8, "int32")]
    assert storage_report(before).lower_bound == storage_report(before).after == 128


def test_what_another_iteration_reads_is_not_overwritten() -> None:
    @T.prim_func
    def one_element(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        C = T.alloc_buffer((8,), "int32")
        for i in range(8):
            B[i] = A[i]
        for i in range(8):
            C[0] = B[0] + i
        A[0] = C[0]

    @T.prim_func
    def shifted(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        C = T.alloc_buffer((8,), "int32")
        for i in range(8):
            B[i] = A[i]
        for i in range(7):
            C[i] = B[i + 1]
        for i in range(7):
            A[i] = C[i]

    @T.prim_func
    def overlapping_vectors(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        C = T.alloc_buffer((8,), "int32")
        for i in range(8):
            B[i] = A[i]
        for i in range(5):
            C[T.Ramp(i, 1, 4)] = B[T.Ramp(i, 1, 4)] + T.Broadcast(1, 4)
        for i in range(8):
            A[i] = C[i]

    @T.prim_func
    def stored_twice(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        C = T.alloc_buffer((8,), "int32")
        for i in range(8):
            B[i] = A[i]
        for i in range(8):
            C[i] = B[i] + 1
            C[i] = B[i] * 2
        for i in range(8):
            A[i] = C[i]

    @T.prim_func
    def folded_index(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        C = T.alloc_buffer((8,), "int32")
        for i in range(8):
            B[i] = A[i]
        for i in range(16):
            C[i % 8] = B[i % 8] + 1
        for i in range(8):
            A[i] = C[i]

    for func in (one_element, shifted, overlapping_vectors, stored_twice, folded_index):
        assert len(rewritten(func)) == 2, func.name


def test_sums_indirection_pointers_and_other_buffers_are_not_in_place() -> None:
    @T.prim_func
    def reduction(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        C = T.alloc_buffer((8,), "int32")
        for i in range(8):
            B[i] = A[i]
            C[i] = 0
        for i in range(8):
            C[i] = C[i] + B[i]
        for i in range(8):
            A[i] = C[i]

    @T.prim_func
    def indirect(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        C = T.alloc_buffer((8,), "int32")
        for i in range(8):
            B[i] = i
        for i in range(8):
            C[i] = A[B[i]]
        for i in range(8):
            A[i] = C[i]

    @T.prim_func
    def pointer(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        C = T.alloc_buffer((8,), "int32")
        for i in range(8):
            B[i] = i
        for i in range(8):
            C[i] = B[i] + T.atomic_add(T.address_of(B[7 - i]), 1)
        for i in range(8):
            A[i] = C[i]

    for func in (reduction, indirect, pointer):
        assert len(rewritten(func)) == 2, func.name


def test_merging_of_shared_memory_leaves_in_place_alone() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        C = T.alloc_buffer((8,), "int32")
        D = T.alloc_buffer((8,), "int32")
        for i in range(8):
            B[i] = A[i]
        for i in range(8):
            C[i] = B[i] + 1
        for i in range(8):
            A[i] = C[7 - i]
        for i in range(8):
            D[i] = A[7 - i]
        for i in range(8):
            A[i] = D[i]

    assert len(rewritten(before)) == 1
    with PassContext(config={"tir.merge_static_smem": True}):
        assert len(rewritten(before)) == 2


def test_what_one_call_reads_and_writes_does_not_share() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        C = T.alloc_buffer((8,), "int32")
        for i in range(8):
            B[i] = A[i]
        T.evaluate(T.call_extern("handle", "memcpy", C.data, B.data, 32))
        for i in range(8):
            A[i] = C[7 - i]

    assert len(rewritten(before)) == 2


def test_a_store_before_the_one_that_reads_is_not_in_place() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        C = T.alloc_buffer((8,), "int32")
        for i in range(8):
            B[i] = A[i]
        for i in range(8):
            C[i] = 100 + i
            C[i] = B[i] * 2
        for i in range(8):
            A[i] = C[7 - i]

    assert len(rewritten(before)) == 2


def test_sums_into_one_element_are_not_in_place() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((2,), "int32")
        C = T.alloc_buffer((2,), "int32")
        for i in range(2):
            B[i] = A[i]
        for i, j in T.grid(2, 3):
            C[i] = B[i] * 2 + j
        for i in range(2):
            A[i] = C[1 - i]

    assert len(rewritten(before)) == 2
