from __future__ import annotations

import numpy as np
import pytest

from tests.checking import check
from tirlower.diagnostics import TransformError
from tirlower.ir import AllocBuffer, Mutator, PrimFunc, Var, decl_buffer, pre_order_visit
from tirlower.rewrite.storage.check import verify_storage
from tirlower.rewrite.storage.plan import constant_bytes
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import LowerOpaqueBlock, PassContext
from tirlower.transforms.memory.storage_rewrite import StorageRewrite, storage_report

REWRITE = StorageRewrite()


def allocations(func: PrimFunc) -> list[tuple]:
    """The allocated buffers: name, extents, dtype."""
    found = []

    def look(op) -> None:
        if isinstance(op, AllocBuffer):
            shape = tuple(getattr(e, "value", str(e)) for e in op.buffer.shape)
            found.append((op.buffer.name, *shape, str(op.buffer.dtype)))

    pre_order_visit(func.body, look)
    return found


def rewritten(func: PrimFunc, **options) -> list[tuple]:
    """Check the pass and its plan on a function, and give what is allocated in the end."""
    after = check(REWRITE, func, **options)
    verify_storage(func, after)
    return allocations(after)


def test_buffers_that_are_not_live_together_share() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), D: T.Buffer((16,), "float32")):
        B = T.alloc_buffer((16,), "float32")
        C = T.alloc_buffer((16,), "float32")
        E = T.alloc_buffer((16,), "float32")
        for i in range(16):
            B[i] = A[15 - i]
        for i in range(16):
            C[i] = B[15 - i] + T.float32(1)
        for i in range(16):
            E[i] = C[15 - i] * T.float32(2)
        for i in range(16):
            D[i] = E[i]

    @T.prim_func
    def expected(A: T.Buffer((16,), "float32"), D: T.Buffer((16,), "float32")):
        B = T.alloc_buffer((16,), "float32")
        C = T.alloc_buffer((16,), "float32")
        E = T.decl_buffer((16,), "float32", data=B.data)
        for i in range(16):
            B[i] = A[15 - i]
        for i in range(16):
            C[i] = B[15 - i] + T.float32(1)
        for i in range(16):
            E[i] = C[15 - i] * T.float32(2)
        for i in range(16):
            D[i] = E[i]

    after = check(REWRITE, before, expected)
    verify_storage(before, after)
    report = storage_report(before)
    assert (report.before, report.after, report.lower_bound) == (192, 128, 128)
    assert REWRITE.reports["before"] == storage_report(after)  # of the last run, on what is left


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


def test_allocations_leave_loops_and_share_inside_them() -> None:
    @T.prim_func
    def before(A: T.Buffer((5, 8), "int16")):
        for i in range(5):
            while A[i, 0] < 3:
                A[i, 0] = A[i, 0] + T.int16(5)
                B = T.alloc_buffer((8,), "int16")
                for j in range(8):
                    B[j] = A[i, j]
                for j in range(8):
                    A[i, j] = B[7 - j]
            C = T.alloc_buffer((8,), "int16")
            for j in range(8):
                C[j] = A[i, j]
            for j in range(8):
                A[i, j] = C[j] + T.int16(1)

    after = check(REWRITE, before)
    verify_storage(before, after)
    assert allocations(after) == [("B", 8, "int16")] and isinstance(after.body.stmts[0], AllocBuffer)


def test_memory_stays_inside_loops_that_run_side_by_side() -> None:
    @T.prim_func
    def before(A: T.Buffer((6, 8), "float32")):
        for i in T.parallel(6):
            for r in range(2):
                B = T.alloc_buffer((8,), "float32")
                for j in range(8):
                    B[j] = A[i, j] + T.float32(1)
                for j in range(8):
                    A[i, j] = B[7 - j]
        for i in T.vectorized(6):
            C = T.alloc_buffer((2,), "float32")
            C[0] = A[i, 0]
            A[i, 0] = C[0] + T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((6, 8), "float32")):
        for i in T.parallel(6):
            B = T.alloc_buffer((8,), "float32")
            for r in range(2):
                for j in range(8):
                    B[j] = A[i, j] + T.float32(1)
                for j in range(8):
                    A[i, j] = B[7 - j]
        for i in T.vectorized(6):
            C = T.alloc_buffer((2,), "float32")
            C[0] = A[i, 0]
            A[i, 0] = C[0] + T.float32(1)

    check(REWRITE, before, expected)


def test_threads_and_scopes_do_not_mix() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 32), "float32")):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                for r in range(2):
                    S = T.alloc_buffer((64,), "float32", scope="shared")
                    L = T.alloc_buffer((64,), "float32", scope="local")
                    M = T.alloc_buffer((64,), "float32", scope="local")
                    R = T.alloc_buffer((64,), "float32", scope="shared")
                    S[tx] = A[bx, tx]
                    L[0] = S[tx] + T.float32(1)
                    M[1] = L[0] + T.float32(2)
                    R[tx + 1] = M[1]
                    A[bx, tx] = R[tx + 1]

    after = check(REWRITE, before, samples=1)
    verify_storage(before, after)
    # The two shared buffers share; local memory is registers.
    assert allocations(after) == [("S", 64, "float32"), ("L", 64, "float32"), ("M", 64, "float32")]
    assert after.body.body.kind.value == "thread_binding"
    assert [type(s).__name__ for s in after.body.body.body.stmts] == ["AllocBuffer"] * 3 + ["For"]


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


def test_branches_are_alternatives() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        C = T.alloc_buffer((8,), "int32")
        if A[0] < 0:
            for i in range(8):
                B[i] = A[7 - i]
            for i in range(8):
                A[i] = B[i]
        else:
            for i in range(8):
                C[i] = A[7 - i] + 1
            for i in range(8):
                A[i] = C[i]

    assert rewritten(before) == [("B", 8, "int32")]


def test_what_a_loop_carries_is_live_all_along() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        C = T.alloc_buffer((8,), "int32")
        for i in range(8):
            B[i] = A[i]
        for r in range(3):
            for i in range(8):
                A[i] = B[7 - i] + r
            for i in range(8):
                C[i] = A[7 - i]
            for i in range(8):
                A[i] = C[i]

    assert len(rewritten(before)) == 2


def test_kept_pointers_keep_their_memory_in_use() -> None:
    @T.prim_func
    def kept(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        C = T.alloc_buffer((8,), "int32")
        for i in range(8):
            B[i] = A[i]
        p: T.handle("int32") = T.address_of(B[2])
        V = T.decl_buffer((4,), "int32", data=p)
        for i in range(8):
            C[i] = A[7 - i]
        for i in range(8):
            A[i] = C[i]
        A[0] = V[1]

    @T.prim_func
    def passed(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        C = T.alloc_buffer((8,), "int32")
        for i in range(8):
            B[i] = A[i]
        T.evaluate(T.call_extern("handle", "memset", B.access_ptr("rw"), 0, 8))
        for i in range(8):
            A[i] = B[7 - i]
        T.evaluate(T.call_extern("handle", "memset", C.data, 0, 32))
        for i in range(8):
            A[i] = A[i] + C[i]

    assert len(rewritten(kept)) == 2
    assert len(rewritten(passed)) == 1


def test_views_count_as_their_memory() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        B = T.alloc_buffer((16,), "int32")
        V = T.decl_buffer((4, 4), "int32", data=B.data)
        C = T.alloc_buffer((16,), "int32")
        W = T.decl_buffer((32,), "int16", data=C.data)
        for i in range(16):
            B[i] = A[i]
        for i, j in T.grid(4, 4):
            A[i * 4 + j] = V[j, i]
        for i in range(32):
            W[i] = T.Cast("int16", A[i // 2])
        for i in range(16):
            A[i] = C[15 - i]

    after = check(REWRITE, before)
    verify_storage(before, after)
    assert allocations(after) == [("B", 16, "int32")]
    assert after.script().count("data=B.data") == 3


def test_unused_memory_and_its_views_go() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        B = T.alloc_buffer((16,), "int32")
        V = T.decl_buffer((4, 4), "int32", data=B.data)
        for i in range(4):
            C = T.alloc_buffer((2,), "int32")
            A[i] = i

    @T.prim_func
    def expected(A: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = i

    check(REWRITE, before, expected)


def test_conditions_annotations_and_separated_axes() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4), "int32")):
        for r in range(2):
            B = T.alloc_buffer((4, 4), "int32", axis_separators=[1])
            C = T.alloc_buffer((4, 4), "int32", axis_separators=[1])
            D = T.alloc_buffer((4, 4), "int32", axis_separators=[1])
            for i, j in T.grid(4, 4):
                B[i, j] = A[i, j] + 1
            for i, j in T.grid(4, 4):
                C[i, j] = B[i, j] * 2
            for i, j in T.grid(4, 4):
                A[i, j] = C[j, i]
            for i, j in T.grid(4, 4):
                D[i, j] = A[j, i]
            for i, j in T.grid(4, 4):
                A[i, j] = D[i, j]

    # In place is right in any layout; sharing memory of several axes is not tried.
    assert rewritten(before) == [("B", 4, 4, "int32"), ("D", 4, 4, "int32")]


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


def test_blocks_are_refused() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        with T.block():
            T.reads()
            T.writes(A[0:4])
            B = T.alloc_buffer((4,), "int32")
            for i in range(4):
                B[i] = i
            for i in range(4):
                A[i] = B[i]

    with pytest.raises(TransformError, match="run LowerOpaqueBlock before StorageRewrite"):
        REWRITE(before)
    assert rewritten(LowerOpaqueBlock()(before)) == [("B", 4, "int32")]


def merged(func: PrimFunc) -> PrimFunc:
    """The function with all of its allocations in the memory of the first: wrong where two are live at once."""
    first = next(s for s in func.body.stmts if isinstance(s, AllocBuffer)).buffer

    class Merge(Mutator):
        def visit_AllocBuffer(self, op: AllocBuffer):
            return op if op.buffer is first else T_decl(op)

        def map_buffer(self, buffer):
            return moved.get(buffer, buffer)

    from tirlower.ir import DeclBuffer

    moved = {}

    def look(op) -> None:
        if isinstance(op, AllocBuffer) and op.buffer is not first:
            moved[op.buffer] = op.buffer.with_(data=first.data)

    def T_decl(op: AllocBuffer):
        return DeclBuffer(moved[op.buffer])

    pre_order_visit(func.body, look)
    return func.with_body(Merge().visit(func.body))


def test_the_checker_finds_overlaps() -> None:
    @T.prim_func
    def live_together(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        C = T.alloc_buffer((8,), "int32")
        for i in range(8):
            B[i] = A[i]
        for i in range(8):
            C[i] = A[7 - i]
        for i in range(8):
            A[i] = B[i]

    @T.prim_func
    def carried(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        C = T.alloc_buffer((8,), "int32")
        B[0] = 1
        for i in range(8):
            A[i] = B[0]
            C[0] = A[i]
            A[i] = C[0]

    @T.prim_func
    def wrong_in_place(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        C = T.alloc_buffer((8,), "int32")
        for i in range(8):
            B[i] = A[i]
        for i in range(8):
            C[i // 2] = B[i // 2] + 1
        for i in range(8):
            A[i] = C[i // 2]

    @T.prim_func
    def one_branch(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        C = T.alloc_buffer((8,), "int32")
        B[0] = 1
        if A[0] > 0:
            C[1] = 2
            A[1] = C[1]
        A[0] = B[0]

    @T.prim_func
    def through_a_pointer(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        C = T.alloc_buffer((8,), "int32")
        B[0] = 1
        p: T.handle("int32") = T.address_of(B[0])
        C[0] = 2
        A[0] = C[0]
        T.evaluate(T.call_extern("handle", "memset", p, 0, 4))

    for func in (live_together, carried, wrong_in_place, one_branch, through_a_pointer):
        verify_storage(func, REWRITE(func))
        with pytest.raises(TransformError, match="mistake of StorageRewrite"):
            verify_storage(func, merged(func))


def test_the_checker_measures_memory() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((4,), "int32")
        C = T.alloc_buffer((8,), "int32")
        B[0] = 1
        A[0] = B[0]
        C[7] = 2
        A[1] = C[7]

    with pytest.raises(TransformError, match="needs 32 bytes, its memory 'B' has 16"):
        verify_storage(before, merged(before))


def test_validate_mode_runs_the_checker() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        C = T.alloc_buffer((8,), "int32")
        for i in range(8):
            B[i] = A[i]
        for i in range(8):
            C[i] = B[i] + 1
        for i in range(8):
            A[i] = C[i]

    with PassContext(validate=True):
        assert len(allocations(StorageRewrite()(before))) == 1


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


def test_shared_memory_stays_apart_where_it_is_asked_for() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((64,), "float32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        s = T.alloc_buffer((64,), "float32", scope="shared")
        s[tx] = A[tx]
        A[tx] = s[tx] * T.float32(2)
        t = T.alloc_buffer((64,), "float32", scope="shared")
        t[tx] = A[tx] + T.float32(1)
        A[tx] = t[tx]
""")
    apart = StorageRewrite(keep_shared_apart=True)(func).script()
    assert apart.count('scope="shared"') == 2 and StorageRewrite()(func).script().count('scope="shared"') == 1
    check(StorageRewrite(keep_shared_apart=True), func)


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
