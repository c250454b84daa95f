"""StorageRewrite: which buffers share memory, where allocations go, and the checker of the plan."""

from __future__ import annotations

import pytest

from tests.checking import check
from tests.transforms.memory.storage import REWRITE, allocations, rewritten
from tirlower.diagnostics import TransformError
from tirlower.ir import AllocBuffer, Mutator, PrimFunc, pre_order_visit
from tirlower.rewrite.storage.check import verify_storage
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import LowerOpaqueBlock, PassContext
from tirlower.transforms.memory.storage_rewrite import StorageRewrite, storage_report


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
