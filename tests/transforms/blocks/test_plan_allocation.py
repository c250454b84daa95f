from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check
from tirlower.diagnostics import TransformError
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import LowerInitBlock, PlanAndUpdateBufferAllocationLocation

PLAN = PlanAndUpdateBufferAllocationLocation()


def test_an_allocation_moves_into_the_common_loop() -> None:
    @T.prim_func
    def before(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        B = T.alloc_buffer((16, 16), "float32")
        for i in range(16):
            for j in range(16):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] + T.float32(1)
            for j in range(16):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] * T.float32(2)

    @T.prim_func
    def expected(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        for i in range(16):
            with T.block():
                T.reads(A[i, 0:16])
                T.writes(C[i, 0:16])
                B = T.alloc_buffer((16, 16), "float32")
                for j in range(16):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        T.reads(A[vi, vj])
                        T.writes(B[vi, vj])
                        B[vi, vj] = A[vi, vj] + T.float32(1)
                for j in range(16):
                    with T.block("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        T.reads(B[vi, vj])
                        T.writes(C[vi, vj])
                        C[vi, vj] = B[vi, vj] * T.float32(2)

    check(PLAN, before, expected)


def test_a_reduction_keeps_its_buffer_outside_the_loops_that_carry_it() -> None:
    @T.prim_func
    def before(A: T.Buffer((6, 8), "float32"), C: T.Buffer((6,), "float32")):
        B = T.alloc_buffer((6,), "float32")
        for i in range(6):
            for k in range(8):
                with T.block("B"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + A[vi, vk]
            with T.block("C"):
                vi = T.axis.spatial(6, i)
                C[vi] = B[vi]

    after = check(PLAN, LowerInitBlock()(before))
    lines = [line.strip() for line in after.script().splitlines()]
    assert (
        lines.index("for i in range(6):") < lines.index("B = T.alloc_buffer((6,))") < lines.index("for k in range(8):")
    )


def test_an_opaque_iterator_carries_values_over_its_loop() -> None:
    @T.prim_func
    def before(A: T.Buffer((8, 8, 8), "int32"), B: T.Buffer((8, 8, 8), "int32")):
        C = T.alloc_buffer((8, 8, 8), dtype="int32")
        for i in T.serial(8):
            for j in T.serial(8):
                for k in T.serial(8):
                    with T.block("b0"):
                        vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                        C[vi, vj, vk] = A[vi, vj, vk] + 1
                for k in T.serial(8):
                    with T.block("b1"):
                        vi, vk = T.axis.remap("SS", [i, k])
                        vj = T.axis.opaque(8, j)
                        B[vi, vj, vk] = C[vi, vj, vk] + T.if_then_else(vj > 0, C[vi, vj - 1, vk], 0)

    after = check(PLAN, before, samples=1)
    lines = [line.strip() for line in after.script().splitlines()]
    place = next(n for n, line in enumerate(lines) if line.startswith("C = T.alloc_buffer"))
    assert lines.index("for i in range(8):") < place < lines.index("for j in range(8):")


def test_values_carried_by_plain_statements_stay_outside() -> None:
    @T.prim_func
    def before(A: T.Buffer((5,), "int32"), C: T.Buffer((5,), "int32")):
        B = T.alloc_buffer((1,), "int32")
        for i in range(5):
            with T.block("step"):
                T.reads(A[i], B[0])
                T.writes(B[0], C[i])
                if i == 0:
                    B[0] = 0
                B[0] = B[0] + A[i]
                C[i] = B[0]

    check(PLAN, before, before)


def test_a_buffer_stored_first_in_each_iteration_moves_in() -> None:
    @T.prim_func
    def before(A: T.Buffer((5,), "int32"), C: T.Buffer((5,), "int32")):
        B = T.alloc_buffer((1,), "int32")
        for i in range(5):
            with T.block("step"):
                T.reads(A[i])
                T.writes(B[0], C[i])
                B[0] = A[i]
                C[i] = B[0] * 2

    after = check(PLAN, before)
    lines = [line.strip() for line in after.script().splitlines()]
    assert (
        lines.index("for i in range(5):")
        < lines.index('with T.block("step"):')
        < lines.index('B = T.alloc_buffer((1,), "int32")')
    )


def test_an_unused_buffer_is_dropped() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        _B = T.alloc_buffer((4,), "int32")
        for i in range(4):
            with T.block("A"):
                vi = T.axis.spatial(4, i)
                A[vi] = vi

    assert "alloc" not in check(PLAN, before).script()


def test_opaque_access_and_matched_regions_count() -> None:
    @T.prim_func
    def before(A: T.Buffer((8, 4), "float32")):
        B = T.alloc_buffer((8, 4), "float32")
        for i in range(8):
            with T.block("fill"):
                v = T.axis.spatial(8, i)
                T.reads()
                T.writes(B[v, 0:4])
                T.evaluate(T.call_extern("void", "memset", T.address_of(B[v, 0]), 0, 16))
            with T.block("copy"):
                v = T.axis.spatial(8, i)
                T.reads(B[v, 0:4])
                T.writes(A[v, 0:4])
                S = T.match_buffer(B[v, 0:4], (4,), offset_factor=1)
                for j in range(4):
                    A[v, j] = S[j] + T.float32(1)

    after = check(PLAN, before)
    lines = [line.strip() for line in after.script().splitlines()]
    assert lines.index("for i in range(8):") < lines.index("B = T.alloc_buffer((8, 4))")


def test_the_allocation_stays_where_its_shape_is_known() -> None:
    @T.prim_func
    def before(A: T.Buffer((6,), "int32")):
        for i in range(6):
            with T.block("outer"):
                v = T.axis.spatial(6, i)
                T.reads()
                T.writes(A[v])
                C = T.alloc_buffer((v + 1,), "int32")
                for k in range(v + 1):
                    with T.block("fill"):
                        w = T.axis.spatial(v + 1, k)
                        T.reads()
                        T.writes(C[w])
                        C[w] = w
                A[v] = C[v]

    check(PLAN, before, before)


def test_a_view_counts_for_the_buffer_that_it_views() -> None:
    @T.prim_func
    def before(A: T.Buffer((6, 4), "int32")):
        B = T.alloc_buffer((4,), "int32")
        for i in range(6):
            with T.block("outer"):
                v = T.axis.spatial(6, i)
                T.reads()
                T.writes(A[v, 0:4])
                V = T.decl_buffer((2, 2), "int32", data=B.data)
                for j in range(4):
                    B[j] = v + j
                for j in range(4):
                    A[v, j] = V[j // 2, j % 2]

    check(PLAN, before)


def test_symbolic_sizes_sequential_loops_and_several_dtypes() -> None:
    @T.prim_func
    def before(A: T.Buffer(("n", 3), "float16"), C: T.Buffer(("n",), "float32")):
        B = T.alloc_buffer((n, 3), "float32")
        D = T.alloc_buffer((n,), "bool")
        for i in range(n):
            for j in range(3):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = T.Cast("float32", A[vi, vj])
            with T.block("D"):
                vi = T.axis.spatial(n, i)
                D[vi] = B[vi, 0] < B[vi, 1]
        for i in range(n):
            with T.block("C"):
                vi = T.axis.spatial(n, i)
                C[vi] = T.if_then_else(D[vi], T.float32(1), T.float32(2))

    after = check(PLAN, before, sizes=(0, 1, 5))
    lines = [line.strip() for line in after.script().splitlines()]
    first = lines.index("for i in range(n):")
    assert lines.index('D = T.alloc_buffer((n,), "bool")') < first < lines.index("B = T.alloc_buffer((n, 3))")


def test_a_view_outside_the_loop_keeps_its_allocation_there() -> None:
    @T.prim_func
    def before(A: T.Buffer((6, 4), "int32")):
        with T.block("root"):
            T.reads(A[0:6, 0:4])
            T.writes(A[0:6, 0:4])
            B = T.alloc_buffer((4,), "int32")
            V = T.decl_buffer((2, 2), "int32", data=B.data)
            for i in range(6):
                with T.block("outer"):
                    v = T.axis.spatial(6, i)
                    T.reads()
                    T.writes(A[v, 0:4])
                    for j in range(4):
                        V[j // 2, j % 2] = v + j
                    for j in range(4):
                        A[v, j] = V[1 - j // 2, j % 2]

    check(PLAN, before, before)


def test_a_view_that_nothing_accesses_still_names_memory() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        with T.block("root"):
            T.reads(A[0:4])
            T.writes(A[0:4])
            B = T.alloc_buffer((4,), "int32")
            for i in range(4):
                V = T.decl_buffer((2, 2), "int32", data=B.data)
                A[i] = A[i] + 1

    after = check(PLAN, before)
    assert "B = T.alloc_buffer((4,)" in after.script()


def test_values_carried_through_a_view_stay_outside() -> None:
    @T.prim_func
    def before(C: T.Buffer((3,), "int32")):
        with T.block("root"):
            T.reads(C[0:3])
            T.writes(C[0:3])
            B = T.alloc_buffer((1,), "int32")
            for t in range(3):
                V = T.decl_buffer((1,), "int32", data=B.data)
                if t == 0:
                    V[0] = 5
                V[0] = V[0] + 1
                C[t] = V[0]

    check(PLAN, before, before)


def test_values_carried_through_a_matched_region_stay_outside() -> None:
    @T.prim_func
    def before(C: T.Buffer((3,), "int16")):
        with T.block("root"):
            T.reads(C[0:3])
            T.writes(C[0:3])
            B = T.alloc_buffer((4,), "int16")
            for t in range(3):
                with T.block("step"):
                    T.reads()
                    T.writes(C[t])
                    S = T.match_buffer(B[1:3], (2,), "int16", offset_factor=1)
                    if t == 0:
                        S[1] = T.int16(5)
                    S[1] = S[1] + T.int16(2)
                    C[t] = S[1]

    after = check(PLAN, before)
    lines = [line.strip() for line in after.script().splitlines()]
    assert lines.index('B = T.alloc_buffer((4,), "int16")') < lines.index("for t in range(3):")


def test_values_carried_behind_a_pointer_stay_outside() -> None:
    @T.prim_func
    def before(C: T.Buffer((4,), "int32")):
        with T.block("root"):
            T.reads(C[0:4])
            T.writes(C[0:4])
            B = T.alloc_buffer((4,), "int32")
            for t in range(4):
                B[t] = t * t
                T.evaluate(T.call_extern("handle", "memcpy", C.data, B.access_ptr("r"), t * 4 + 4))

    check(PLAN, before, before)


def test_behind_the_address_of_a_stored_element_others_may_be_carried() -> None:
    @T.prim_func
    def before(C: T.Buffer((4,), "int32")):
        with T.block("root"):
            T.reads(C[0:4])
            T.writes(C[0:4])
            B = T.alloc_buffer((4,), "int32")
            for t in range(4):
                B[t] = t * t
                B[0] = 7
                T.evaluate(T.call_extern("handle", "memcpy", C.data, T.address_of(B[0]), t * 4 + 4))

    check(PLAN, before, before)


def test_a_loop_that_may_not_run_stores_nothing_for_sure() -> None:
    @T.prim_func
    def before(C: T.Buffer((3,), "int32")):
        with T.block("root"):
            T.reads(C[0:3])
            T.writes(C[0:3])
            B = T.alloc_buffer((1,), "int32")
            for t in range(3):
                for j in range(1 - t):
                    B[0] = t + 5
                C[t] = B[0]

    check(PLAN, before, before)


def test_a_loop_that_is_left_early_stores_nothing_for_sure() -> None:
    @T.prim_func
    def before(C: T.Buffer((3,), "int32")):
        with T.block("root"):
            T.reads(C[0:3])
            T.writes(C[0:3])
            B = T.alloc_buffer((1,), "int32")
            for t in range(3):
                for j in range(2):
                    if t + j > 1:
                        break
                    B[0] = t + 5
                C[t] = B[0]

    check(PLAN, before, before)


def test_an_index_that_is_loaded_may_be_another_one_later() -> None:
    @T.prim_func
    def before(P: T.Buffer((2,), "int32"), C: T.Buffer((3,), "int32")):
        with T.block("root"):
            T.reads(P[0:2], C[0:3])
            T.writes(P[0:2], C[0:3])
            B = T.alloc_buffer((2,), "int32")
            B[1] = 3
            for t in range(3):
                P[0] = 0
                B[P[0]] = t
                P[0] = 1
                B[P[0]] = B[P[0]] + 1
                C[t] = B[0]

    check(PLAN, before)


def test_what_a_symbolic_loop_stores_and_reads_in_one_iteration_moves_in() -> None:
    @T.prim_func
    def before(A: T.Buffer(("n",), "float64"), C: T.Buffer(("n",), "float64")):
        with T.block("root"):
            T.reads(A[0:n], C[0:n])
            T.writes(A[0:n], C[0:n])
            B = T.alloc_buffer((n,), "float64")
            for i in range(n):
                B[i] = A[i] * T.float64(2)
                C[i] = B[i] + B[i]

    after = check(PLAN, before, sizes=(0, 1, 5))
    lines = [line.strip() for line in after.script().splitlines()]
    assert lines.index("for i in range(n):") < lines.index('B = T.alloc_buffer((n,), "float64")')


def test_regions_of_views_stay_in_the_blocks_that_state_them() -> None:
    @T.prim_func
    def before(A: T.Buffer((6, 4), "int32")):
        V = T.decl_buffer((24,), "int32", data=A.data)
        for i in range(6):
            with T.block("inner"):
                v = T.axis.spatial(6, i)
                T.reads(V[v * 4])
                T.writes(V[v * 4])
                V[v * 4] = V[v * 4] + 1

    check(PLAN, before, before)


def test_the_shape_names_an_inner_iterator_of_the_scope_it_stands_in() -> None:
    @T.prim_func
    def before(A: T.Buffer((5, 6), "int32")):
        for i in range(2, 5):
            with T.block("rows"):
                v = T.axis.spatial(5, i)
                T.reads()
                T.writes(A[v, 0:6])
                for j in range(6):
                    with T.block("cells"):
                        w = T.axis.spatial(6, j)
                        T.reads()
                        T.writes(A[v, w])
                        C = T.alloc_buffer((w + 1,), "int32")
                        for k in range(w + 1):
                            C[k] = v * k
                        A[v, w] = C[w]

    check(PLAN, before)


def test_a_block_with_an_init_is_refused() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), B: T.Buffer((1,), "int32")):
        for k in range(4):
            with T.block("B"):
                v = T.axis.reduce(4, k)
                with T.init():
                    B[0] = 0
                B[0] += A[v]

    with pytest.raises(TransformError, match="run LowerInitBlock before"):
        PLAN(before)


def test_a_function_without_blocks_comes_back_as_it_is() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        for i in range(4):
            B = T.alloc_buffer((1,), "int32")
            B[0] = i
            A[i] = B[0]

    check(PLAN, before, before)


def test_memory_outside_a_grid_stays_inside_the_block_that_its_shape_names() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 3), "int32")):
        with T.block("root"):
            T.reads()
            T.writes(A[0:4, 0:3])
            for b in T.thread_binding(4, thread="blockIdx.x"):
                with T.block("outer"):
                    v = T.axis.spatial(4, b)
                    T.reads()
                    T.writes(A[v, 0:3])
                    C = T.alloc_buffer((v + 1,), "int32")
                    for j in range(3):
                        C[v] = v + j
                        A[v, j] = C[v] * 2

    after = check(PLAN, before)
    lines = [line.strip() for line in after.script().splitlines()]
    assert lines.index('with T.block("outer"):') < lines.index('C = T.alloc_buffer((v + 1,), "int32")')


def test_an_allocation_in_the_middle_that_nothing_names_is_dropped():
    func = parse("""
def f(A: T.Buffer((4,), "int32")):
    for i in range(4):
        if i > 2:
            D = T.alloc_buffer((3, 5), "int32")
            A[i] = 2
        E = T.alloc_buffer((2,), "int32")
        V = T.decl_buffer((2,), "int32", data=E.data)
        A[i] = A[i] + 1
""")
    text = PlanAndUpdateBufferAllocationLocation()(func).script()
    assert "D =" not in text and "E =" in text and "V =" in text
    tl.build(func, schedule="none")


def test_an_allocation_comes_before_the_region_of_it_that_its_block_matches() -> None:
    @T.prim_func
    def before(A: T.Buffer((8, 4), "float32"), C: T.Buffer((8, 4), "float32")):
        B = T.alloc_buffer((8, 4), "float32")
        for i in range(8):
            with T.block("outer"):
                vi = T.axis.spatial(8, i)
                T.reads(A[vi, 0:4])
                T.writes(C[vi, 0:4])
                row = T.match_buffer(B[vi, 0:4], (4,), offset_factor=1)
                for j in range(4):
                    with T.block("B"):
                        vj = T.axis.spatial(4, j)
                        row[vj] = A[vi, 3 - vj] + T.float32(1)
                for j in range(4):
                    with T.block("C"):
                        vj = T.axis.spatial(4, j)
                        element = T.match_buffer(row[vj], (), offset_factor=1)
                        C[vi, vj] = element[()] * T.float32(2)

    @T.prim_func
    def expected(A: T.Buffer((8, 4), "float32"), C: T.Buffer((8, 4), "float32")):
        for i in range(8):
            with T.block("outer"):
                vi = T.axis.spatial(8, i)
                T.reads(A[vi, 0:4])
                T.writes(C[vi, 0:4])
                B = T.alloc_buffer((8, 4), "float32")
                row = T.match_buffer(B[vi, 0:4], (4,), offset_factor=1)
                for j in range(4):
                    with T.block("B"):
                        vj = T.axis.spatial(4, j)
                        row[vj] = A[vi, 3 - vj] + T.float32(1)
                for j in range(4):
                    with T.block("C"):
                        vj = T.axis.spatial(4, j)
                        element = T.match_buffer(row[vj], (), offset_factor=1)
                        C[vi, vj] = element[()] * T.float32(2)

    after = check(PLAN, before, expected)
    for later in ("ConvertSSA", "ConvertBlocksToOpaque", "CompactBufferAllocation", "LowerMatchBuffer"):
        after = check(getattr(tl.transforms, later)(), after)
    assert "B = T.alloc_buffer((1, 4))" in after.script()
    tl.build(before, schedule="none")


def test_global_memory_is_allocated_outside_the_grid() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,), "float32")
        S = T.alloc_buffer((8,), "float32", scope="shared")
        for b in T.thread_binding(2, thread="blockIdx.x"):
            for t in T.thread_binding(4, thread="threadIdx.x"):
                with T.block("B"):
                    v = T.axis.spatial(8, b * 4 + t)
                    S[v] = A[v]
                    B[v] = S[v]
                with T.block("A"):
                    v = T.axis.spatial(8, b * 4 + t)
                    A[v] = B[v] * T.float32(2)

    lines = check(PLAN, before).script().splitlines()
    grid = next(n for n, line in enumerate(lines) if "blockIdx" in line)
    assert next(n for n, line in enumerate(lines) if "B = T.alloc_buffer" in line) < grid
    assert next(n for n, line in enumerate(lines) if "S = T.alloc_buffer" in line) > grid


@pytest.mark.parametrize(("size", "back"), [(4, 1), (4, 3), (8, 2), (3, 1), (2, 1)])
def test_iterators_that_are_called_spatial_may_carry_values(size: int, back: int) -> None:
    @T.prim_func
    def ring(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        R = T.alloc_buffer((size,), "int32")
        for i in range(16):
            with T.block("write"):
                v = T.axis.spatial(16, i)
                R[v % size] = A[v]
            with T.block("read"):
                v = T.axis.spatial(16, i)
                B[v] = T.if_then_else(v >= back, R[(v + size - back) % size], 0)

    after = check(PLAN, ring)
    lines = [line.strip() for line in after.script().splitlines()]
    assert lines.index(f'R = T.alloc_buffer(({size},), "int32")') < lines.index("for i in range(16):")
    a, b = np.arange(1, 17, dtype="int32"), np.empty(16, "int32")
    tl.build(ring, schedule="none")(a, b)
    np.testing.assert_array_equal(b, [0] * back + list(range(1, 17 - back)))
