from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check
from tirlower.analysis.compaction_check import verify_compaction
from tirlower.diagnostics import TirError, TransformError
from tirlower.ir import AllocBuffer, BufferLoad, Mutator, PrimFunc, build, pre_order_visit
from tirlower.ir.query import each
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import ConvertBlocksToOpaque, PassContext, PlanAndUpdateBufferAllocationLocation
from tirlower.transforms.memory.compact_buffer import CompactBufferAllocation

COMPACT = CompactBufferAllocation()


def allocations(func: PrimFunc) -> dict[str, tuple]:
    """The allocated buffers with their extents."""
    found = {}

    def look(op) -> None:
        if isinstance(op, AllocBuffer):
            found[op.buffer.name] = tuple(getattr(e, "value", str(e)) for e in op.buffer.shape)

    pre_order_visit(func.body, look)
    return found


def compacted(func: PrimFunc, *, strict: bool = True, **options) -> dict[str, tuple]:
    """Check the pass on a function, its certificate included, and give the new shapes."""
    after = check(CompactBufferAllocation(is_strict=strict), func, **options)
    verify_compaction(func, after)
    return allocations(after)


def test_a_row_remains_of_a_matrix() -> None:
    @T.prim_func
    def before(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        for i in range(16):
            with T.block():
                T.reads(A[i, 0:16])
                T.writes(C[i, 0:16])
                B = T.alloc_buffer((16, 16), "float32")
                for j in range(16):
                    with T.block():
                        T.reads(A[i, j])
                        T.writes(B[i, j])
                        B[i, j] = A[i, j] + T.float32(1)
                for j in range(16):
                    with T.block():
                        T.reads(B[i, j])
                        T.writes(C[i, j])
                        C[i, j] = B[i, j] * T.float32(2)

    @T.prim_func
    def expected(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        for i in range(16):
            with T.block():
                T.reads(A[i, 0:16])
                T.writes(C[i, 0:16])
                B = T.alloc_buffer((1, 16), "float32")
                for j in range(16):
                    with T.block():
                        T.reads(A[i, j])
                        T.writes(B[0, j])
                        B[0, j] = A[i, j] + T.float32(1)
                for j in range(16):
                    with T.block():
                        T.reads(B[0, j])
                        T.writes(C[i, j])
                        C[i, j] = B[0, j] * T.float32(2)

    check(COMPACT, before, expected)


def test_symbolic_extents_and_a_halo() -> None:
    @T.prim_func
    def before(A: T.Buffer(("n", "m"), "float32"), C: T.Buffer(("n", "m"), "float32")):
        for i in range(n):
            B = T.alloc_buffer((n, m + 8), "float32")
            for j in range(m + 2):
                B[i, j + 3] = T.if_then_else(j >= 1 and j < m + 1, A[i, j - 1], T.float32(0))
            for j in range(m):
                C[i, j] = B[i, j + 3] + B[i, j + 4] + B[i, j + 5]

    @T.prim_func
    def expected(A: T.Buffer(("n", "m"), "float32"), C: T.Buffer(("n", "m"), "float32")):
        for i in range(n):
            B = T.alloc_buffer((1, m + 2), "float32")
            for j in range(m + 2):
                B[0, j] = T.if_then_else(j >= 1 and j < m + 1, A[i, j - 1], T.float32(0))
            for j in range(m):
                C[i, j] = B[0, j] + B[0, j + 1] + B[0, j + 2]

    check(COMPACT, before, expected)


def test_a_triangular_loop_keeps_what_index_and_bound_have_in_common() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        B = T.alloc_buffer((64,), "int32")
        for i in range(8):
            for j in range(i + 1):
                B[i - j + 20] = i
        for i in range(8):
            A[i] = B[i + 20]

    assert compacted(before) == {"B": (8,)}


def test_conditions_on_sums_of_loops_narrow_the_region() -> None:
    @T.prim_func
    def before(A: T.Buffer((60,), "int32"), C: T.Buffer((60,), "int32")):
        B = T.alloc_buffer((64,), "int32")
        for i, j in T.grid(8, 8):
            with T.block():
                T.where(i * 8 + j < 60)
                T.reads(A[i * 8 + j])
                T.writes(B[i * 8 + j])
                B[i * 8 + j] = A[i * 8 + j]
        for i, j in T.grid(8, 8):
            if T.likely(i * 8 + j < 60):
                C[i * 8 + j] = B[i * 8 + j] + 1

    assert compacted(before) == {"B": (60,)}


def test_divisions_follow_the_iteration_map() -> None:
    @T.prim_func
    def before(A: T.Buffer((32,), "int32"), C: T.Buffer((32,), "int32")):
        for o in range(4):
            B = T.alloc_buffer((8, 16), "int32")
            for i, j in T.grid(2, 4):
                B[o * 2 + (i * 4 + j) // 4, (i * 4 + j) % 4 + 2] = A[o * 8 + i * 4 + j]
            for f in range(8):
                C[o * 8 + f] = B[o * 2 + f // 4, f % 4 + 2]

    assert compacted(before) == {"B": (2, 4)}


def test_non_zero_minimums_reversed_indices_and_strided_ones() -> None:
    @T.prim_func
    def before(A: T.Buffer((40,), "int16"), C: T.Buffer((40,), "int16")):
        B = T.alloc_buffer((40,), "int16")
        D = T.alloc_buffer((40,), "int16")
        for i in T.serial(3, 10):
            B[30 - i * 2] = A[i]
            D[i * 3 + 1] = A[i]
        for i in T.serial(3, 10):
            C[i] = B[30 - i * 2] + D[i * 3 + 1]

    assert compacted(before) == {"B": (13,), "D": (19,)}


def test_vector_lanes_count() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
        for i in range(4):
            B = T.alloc_buffer((64,), "float32")
            B[T.Ramp(i * 8 + 7, -1, 8)] = A[T.Ramp(i * 8, 1, 8)]
            C[T.Ramp(i * 8, 1, 8)] = B[T.Ramp(i * 8, 1, 8)] + B[T.Broadcast(i * 8 + 2, 8)]

    assert compacted(before) == {"B": (8,)}


def test_an_extent_that_depends_on_an_outer_loop_takes_its_greatest_value() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), n: T.int32, D: T.Buffer(("m",), "int32")):
        for i in range(8):
            B = T.alloc_buffer((16,), "int32")
            for j in range(i + 1):
                B[j] = j
            A[i] = B[i]
        for i in range(m):
            E = T.alloc_buffer((m + 4,), "int32")
            for j in range(m - i):
                E[i + j] = j
            D[i] = E[i]

    inputs = [(np.zeros(16, "int32"), 3, np.zeros(size, "int32")) for size in (0, 1, 5)]
    assert compacted(before, inputs=inputs) == {"B": (8,), "E": ("m",)}


def test_strict_never_grows_and_clips() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), K: T.Buffer((12,), "bool")):
        B = T.alloc_buffer((8,), "int32")
        for i in range(12):
            # The guard reads memory, so that it says nothing about i: the accesses outside do not happen.
            if K[i]:
                B[i - 2] = i
        for i in range(8):
            A[i] = B[i]

    inputs = [(np.zeros(8, "int32"), np.array([False] * 2 + [True] * 8 + [False] * 2))]
    assert compacted(before, inputs=inputs) == {"B": (8,)}
    after = CompactBufferAllocation(is_strict=False)(before)
    assert allocations(after) == {"B": (12,)}
    check(CompactBufferAllocation(False), before, after, inputs=inputs)


def test_non_strict_repairs_a_buffer_that_is_too_small() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((4,), "int32")
        for i in range(-2, 6):
            B[i] = i * i
        for i in range(8):
            A[i] = B[i - 2]

    @T.prim_func
    def expected(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        for i in range(-2, 6):
            B[i + 2] = i * i
        for i in range(8):
            A[i] = B[i]

    check(CompactBufferAllocation(is_strict=False), before, expected, execute=False)
    check(CompactBufferAllocation(is_strict=False), expected, expected)
    with PassContext(config={"tir.CompactBufferAllocation": {"is_strict": False}}):
        assert allocations(COMPACT(before)) == {"B": (8,)}
    assert allocations(COMPACT(before)) == {"B": (4,)}


def test_views_pointers_and_addresses_keep_the_shape() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
        B = T.alloc_buffer((16,), "int32")
        V = T.decl_buffer((4, 4), "int32", data=B.data)
        D = T.alloc_buffer((16,), "int32")
        E = T.alloc_buffer((16,), "int32")
        F = T.alloc_buffer((16,), "int32")
        for i in range(4):
            B[i] = A[i]
            D[i] = A[i]
            E[i + 1] = A[i]
            F[i + 1] = A[i]
        T.evaluate(T.call_extern("handle", "memset", D.access_ptr("w"), 0, 4))
        T.evaluate(T.call_extern("handle", "memset", T.address_of(E[2]), 0, 4))
        for i in range(4):
            C[i] = V[0, i] + D[i] + E[i + 1] + F[i + 1]

    assert compacted(before) == {"B": (16,), "D": (16,), "E": (16,), "F": (4,)}


def test_matched_regions_are_accesses_and_move_along() -> None:
    @T.prim_func
    def before(A: T.Buffer((16, 16), "float32")):
        for i in range(4):
            B = T.alloc_buffer((16, 16), "float32")
            for j in range(4):
                with T.block():
                    T.reads()
                    T.writes(B[i * 4 + j, 4:8])
                    S = T.match_buffer(B[i * 4 + j, 4:8], (4,), "float32", offset_factor=1)
                    for k in range(4):
                        S[k] = T.float32(3)
            for j, k in T.grid(4, 4):
                A[i * 4 + j, k] = B[i * 4 + j, k + 4]

    after = check(COMPACT, before)
    assert allocations(after) == {"B": (4, 4)} and "T.match_buffer(B[j, 0:4]" in after.script()


def test_alignment_annotations_pad_the_new_strides() -> None:
    @T.prim_func
    def before(A: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32")):
        for i in range(4):
            with T.block():
                T.reads(A[i * 16 : i * 16 + 16, 0:64])
                T.writes(C[i * 16 : i * 16 + 16, 0:64])
                B = T.alloc_buffer((64, 64), "float32")
                for j, k in T.grid(16, 64):
                    with T.block():
                        T.reads(A[i * 16 + j, k])
                        T.writes(B[i * 16 + j, k])
                        T.block_attr({"buffer_dim_align": [[0, 0, 32, 8]]})
                        B[i * 16 + j, k] = A[i * 16 + j, k]
                for j, k in T.grid(16, 64):
                    C[i * 16 + j, k] = B[i * 16 + j, k]

    after = check(COMPACT, before, samples=1)
    assert allocations(after) == {"B": (16, 64)} and "strides=(72, 1)" in after.script()


def test_stated_strides_stay() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 8), "int32")):
        B = T.alloc_buffer((16, 16), "int32", strides=[19, 1])
        for i, j in T.grid(4, 8):
            B[i + 3, j + 5] = i + j
        for i, j in T.grid(4, 8):
            A[i, j] = B[i + 3, j + 5]

    after = check(COMPACT, before)
    assert allocations(after) == {"B": (4, 8)} and "strides=(19, 1)" in after.script()


def test_threads_relax_by_the_rank_of_the_scope() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 32), "float32"), C: T.Buffer((4, 32), "float32")):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                S = T.alloc_buffer((4, 32), "float32", scope="shared")
                L = T.alloc_buffer((4, 32), "float32", scope="local")
                S[bx, tx] = A[bx, tx]
                L[bx, tx] = S[bx, tx] + T.float32(1)
                C[bx, tx] = L[bx, tx]

    assert compacted(before, samples=1) == {"S": (1, 32), "L": (1, 1)}


def test_bindings_indirection_and_bounds_from_conditions() -> None:
    @T.prim_func
    def before(I: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((32,), "int32")
        D = T.alloc_buffer((32,), "int32")
        for i in range(8):
            x: T.int32 = i * 2 + 4
            B[x] = i
            C[i] = B[x]
        for k in range(16):
            D[k + 8] = k
        for i in range(8):
            y: T.int32 = I[i]
            if y >= 8 and y < 24:
                C[i] = C[i] + D[y]
        while C[0] < 5:
            C[0] = C[0] + 1 + D[9]

    assert compacted(before) == {"B": (15,), "D": (16,)}


def test_empty_loops_count_as_nothing() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        D = T.alloc_buffer((8,), "int32")
        for i in range(0):
            B[i + 6] = 0
            D[i + 7] = 1
        for i in range(1):
            B[2] = 1
        A[0] = B[2]

    assert compacted(before) == {"B": (1,), "D": (8,)}


def test_what_may_be_negative_is_not_allocated_so() -> None:
    @T.prim_func
    def before(A: T.Buffer(("n",), "int32")):
        B = T.alloc_buffer((n,), "int32")
        for i in range(n - 4):
            B[i + 2] = i
        for i in range(n - 4):
            A[i + 2] = B[i + 2]

    assert compacted(before, sizes=(0, 1, 4, 9)) == {"B": ("T.max(n - 4, 0)",)}


def test_min_extents_of_tiles() -> None:
    @T.prim_func
    def before(A: T.Buffer((30,), "int32"), C: T.Buffer((30,), "int32")):
        for o in range(4):
            B = T.alloc_buffer((40,), "int32")
            for i in range(T.min(8, 30 - o * 8)):
                B[o * 8 + i] = A[o * 8 + i]
            for i in range(T.min(8, 30 - o * 8)):
                C[o * 8 + i] = B[o * 8 + i]

    assert compacted(before) == {"B": (8,)}


def test_unchanged_functions_come_back_as_they_are() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "bool"), s: T.Buffer((), "int32")):
        B = T.alloc_buffer((8,), "bool")
        S = T.alloc_buffer((), "int32")
        S[()] = 1
        for i in range(8):
            B[i] = not A[i]
        for i in range(8):
            A[i] = B[i]
        s[()] = S[()]

    check(COMPACT, before, before)


def test_an_allocation_without_access_is_reported() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        A[0] = 1

    with pytest.raises(TransformError, match="'B' is allocated, but nothing accesses it"):
        COMPACT(before)


def test_blocks_with_iterators_are_refused() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi]
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi]

    with pytest.raises(TransformError, match="run ConvertBlocksToOpaque before"):
        COMPACT(before)
    placed = ConvertBlocksToOpaque()(PlanAndUpdateBufferAllocationLocation()(before))
    assert compacted(placed) == {"B": (1,)}


def test_the_certificate_refuses_a_shape_that_is_too_small() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        B = T.alloc_buffer((16,), "int32")
        for i in range(10):
            B[i + 3] = i
        for i in range(10):
            A[i] = B[i + 3]

    class Wrong(Mutator):
        def __init__(self, old, new) -> None:
            self.old, self.new = old, new

        def map_buffer(self, buffer):
            return self.new if buffer is self.old else buffer

    after = COMPACT(before)
    verify_compaction(before, after)
    alloc = after.body.stmts[0]
    for extent in (9, 1):
        small = alloc.buffer.with_(shape=(extent,))
        wrong = after.with_body(Wrong(alloc.buffer, small).visit(after.body))
        with pytest.raises(TransformError, match=f"which has {extent} elements"):
            verify_compaction(before, wrong)

    class Shifted(Mutator):
        def visit_BufferLoad(self, op: BufferLoad):
            return op.with_(indices=tuple(build.sub(i, 1) for i in op.indices))

    with pytest.raises(TransformError, match="accessed at index -1"):
        verify_compaction(before, after.with_body(Shifted().visit(after.body)))


def test_validate_mode_runs_the_certificate() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        B = T.alloc_buffer((32,), "int32")
        for i in range(16):
            B[i + 3] = i
        for i in range(16):
            A[i] = B[i + 3]

    with PassContext(validate=True):
        assert allocations(COMPACT(before)) == {"B": (16,)}


def explicit(read: str = "", write: str = "") -> PrimFunc:
    """A block that reads rows 2 to 5 of B through an index it loads, and says so."""
    return parse(f"""
@T.prim_func
def f(A: T.Buffer((16, 4), "int32"), K: T.Buffer((4,), "int32"), C: T.Buffer((4, 4), "int32")):
    with T.block():
        T.reads(A[0:16, 0:4], K[0:4])
        T.writes(C[0:4, 0:4])
        B = T.alloc_buffer((16, 4), "int32")
        for i, j in T.grid(4, 4):
            with T.block():
                T.reads(A[i, j])
                T.writes(B[2:6, j])
                T.block_attr({{{write}}})
                B[i + 2, j] = A[i, j]
        for i, j in T.grid(4, 4):
            with T.block():
                T.reads(K[i], B[2:6, j])
                T.writes(C[i, j])
                T.block_attr({{{read}}})
                C[i, j] = B[K[i] + 2, j]
""")


def test_stated_regions_count_in_place_of_accesses() -> None:
    rng = np.random.default_rng(0)
    args = [rng.integers(-9, 9, (16, 4)).astype("int32"), np.array([3, 0, 2, 1], "int32"), np.zeros((4, 4), "int32")]
    assert allocations(check(COMPACT, explicit(), inputs=[args]))["B"] == (16, 4)
    read = explicit('"explicit_read_region": [1]')
    assert allocations(check(COMPACT, read, inputs=[args]))["B"] == (4, 4)
    both = explicit('"explicit_read_region": [1]', '"explicit_write_region": [0]')
    assert allocations(check(COMPACT, both, inputs=[args]))["B"] == (4, 4)
    # A region that is stated larger than what is accessed keeps the buffer larger.
    wide = parse(both.script().replace("T.writes(B[2:6, j])", "T.writes(B[1:8, j])"))
    assert allocations(check(COMPACT, wide, inputs=[args]))["B"] == (7, 4)
    # The other region of the block is no statement about B.
    assert allocations(check(COMPACT, explicit('"explicit_read_region": [0]'), inputs=[args]))["B"] == (16, 4)


def test_a_stated_region_that_does_not_exist() -> None:
    for wrong in ("[2]", "[-1]", '"B"'):
        with pytest.raises(TransformError, match="names regions by their positions, 0 to 1"):
            COMPACT(explicit(f'"explicit_read_region": {wrong}'))


def test_an_extent_keeps_its_dtype_whatever_that_of_the_indices() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), m: T.int64):
        B = T.alloc_buffer((64,), "float32")
        for i in range(T.min(m, T.int64(60))):
            B[i + T.int64(2)] = A[i]
        for i in range(T.min(m, T.int64(60))):
            A[i] = B[i + T.int64(2)] * T.float32(2)

    # A second run does not see through the casts that the first one put in.
    inputs = [(np.arange(64, dtype="float32"), m) for m in (0, 1, 7, 99)]
    after = check(COMPACT, before, idempotent=False, inputs=inputs)
    shapes = []
    pre_order_visit(after.body, lambda op: shapes.append(op.buffer.shape) if isinstance(op, AllocBuffer) else None)
    assert [[str(extent.dtype) for extent in shape] for shape in shapes] == [["int32"]]


def test_padding_of_shared_rows_stays_where_it_is_asked_for() -> None:
    func = parse("""
@T.prim_func
def transpose(A: T.Buffer((32, 32), "float32"), B: T.Buffer((32, 32), "float32")):
    for ty in T.thread_binding(4, thread="threadIdx.y"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            tile = T.alloc_buffer((32, 33), "float32", scope="shared")
            wide = T.alloc_buffer((32, 96), "float32", scope="shared")
            own = T.alloc_buffer((8, 9), "float32", scope="local")
            for p in range(8):
                tile[p * 4 + ty, tx] = A[p * 4 + ty, tx]
                wide[p * 4 + ty, tx] = A[p * 4 + ty, tx]
                own[p, 0] = A[p, tx]
            T.tvm_storage_sync("shared")
            for p in range(8):
                B[p * 4 + ty, tx] = tile[tx, p * 4 + ty] + wide[p * 4 + ty, tx] + own[p, 0]
""")
    kept = CompactBufferAllocation(keep_padding=True)(func).script()
    assert "tile = T.alloc_buffer((32, 33)" in kept
    # Not padding: more than the banks, and what only one thread reads.
    assert "wide = T.alloc_buffer((32, 32)" in kept and "own = T.alloc_buffer((8, 1)" in kept
    assert "tile = T.alloc_buffer((32, 32)" in CompactBufferAllocation()(func).script()
    check(CompactBufferAllocation(keep_padding=True), func)


@pytest.mark.parametrize(
    "body",
    ["if 0 <= n and n < 3:\n        c[n] = 9", 'assert 0 <= n and n < 3, "no"\n    c[n] = 9'],
    ids=["under a condition", "behind an assertion"],
)
def test_what_a_condition_says_does_not_hold_where_the_buffer_is_allocated(body: str) -> None:
    before = parse(f"""
@T.prim_func
def before(O: T.Buffer((2,), "int32"), n: T.int32):
    c = T.alloc_buffer((30,), "int32")
    c[2] = 1
    O[0] = c[2]
    {body}
    O[1] = c[2]
""")
    after = COMPACT(before)
    verify_compaction(before, after)
    for n in (-100, -1, 0, 1, 2, 3, 100):
        results = []
        for func in (before, after):
            out = np.zeros(2, "int32")
            try:
                tl.interpret(func, out, n)
            except TirError as error:
                assert "no" in str(error)
            results.append(out.tolist())
        assert results[0] == results[1] and results[0][0] == 1, n


@pytest.mark.parametrize(
    ("condition", "extent"),
    [
        ("i != 0", 15), ("i != 15", 15), ("not i == 0", 15), ("0 != i", 15), ("i != 7", 16), ("i != 0 and i != 15", 14),
        ("i != 1", 16), ("i + 3 != 3", 15), ("i * 2 != 0", 16), ("i != n", 16),
    ],
)  # fmt: skip
def test_an_end_of_a_range_that_is_left_out(condition: str, extent: int) -> None:
    before = parse(f"""
@T.prim_func
def f(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32"), n: T.int32):
    B = T.alloc_buffer((16,), "float32")
    for i in range(16):
        if {condition}:
            B[i] = A[i] + T.float32(1)
    for i in range(16):
        if {condition}:
            C[i] = B[i]
""")
    after = check(CompactBufferAllocation(), before, idempotent=False)
    assert after.script().count(f"T.alloc_buffer(({extent},)") == 1


def test_regions_that_an_opaque_block_states() -> None:
    func = """
@T.prim_func
def f(C: T.Buffer((64,), "float32")):
    B = T.alloc_buffer((64, 8), "float32")
    with T.block("fill"):
        T.reads()
        T.writes(B[0:16, 0:8])
        T.evaluate(T.call_extern("handle", "memset", B.data, 0, 512))
    for i in range(16):
        C[i] = B[i, 2]
"""
    after = check(CompactBufferAllocation(), parse(func))
    # A callee counts rows by their length: they stay as long.
    assert "T.alloc_buffer((16, 8)" in after.script()
    for other in ("T.call_extern('handle', 'memset', T.address_of(B[0, 0]), 0, 512)", "V[0, 0]"):
        line = 'T.evaluate(T.call_extern("handle", "memset", B.data, 0, 512))'
        text = func.replace(line, f"T.evaluate({other})")
        if other == "V[0, 0]":
            text = func.replace("    with T.block", "    V = T.decl_buffer((64, 8), data=B.data)\n    with T.block")
        assert "T.alloc_buffer((64, 8)" in CompactBufferAllocation()(parse(text)).script()


@pytest.mark.parametrize(
    ("head", "written", "read", "extent"),
    [
        ("y: T.int32 = tx", "y", "7 - y", 8),
        ("y: T.int32 = tx + 2", "y - 2", "y - 2", 8),
        ("y: T.int32 = A[tx] % 8", "tx", "y", 8),
        ("y: T.int32 = 5", "tx", "y", 8),
        ("y: T.int32 = tx // 4", "y", "y", 2),
        ("for y in range(tx, tx + 1):", "y", "y", 8),
    ],
)
def test_what_differs_from_thread_to_thread_is_relaxed_with_them(
    head: str, written: str, read: str, extent: int
) -> None:
    """A name that is bound outside of the allocation, to what each thread has of its own, is no place in memory they share."""
    depth = "        " if head.startswith("for") else "    "
    before = parse(f"""
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        {head}
    {depth}with T.block("b"):
    {depth}    s = T.alloc_buffer((8,), "int32", scope="shared")
    {depth}    s[{written}] = A[{written}]
    {depth}    T.tvm_storage_sync("shared")
    {depth}    B[tx] = s[{read}]
""")
    assert isinstance(before, PrimFunc)
    after = CompactBufferAllocation()(before)
    found = [op.buffer.shape[0] for op in each(AllocBuffer, after.body)]
    assert [getattr(size, "value", None) for size in found] == [extent], after
    values = np.array([3, 1, 4, 1, 5, 9, 2, 6], "int32")
    want, got = np.zeros((2, 8), "int32")
    tl.simulate(before, values, want, races=False)
    tl.simulate(after, values, got, races=False)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("scope", ["local", "global"])
@pytest.mark.parametrize("ones", ["", ", 1", ", 1, 1"])
def test_rows_along_which_lanes_go_stay_as_long(scope: str, ones: str) -> None:
    """Lanes that a condition leaves out lie inside all the same: the row is a register, also where dimensions of one follow."""
    zeros, units = ones.replace("1", "0"), (1,) * ones.count("1")
    func = parse(f"""
@T.prim_func
def f(q: T.int32, A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32")):
    for p in range(4):
        L = T.alloc_buffer((2, 16{ones}), "int32", scope="{scope}")
        for i in range(2):
            for j in T.vectorized(16):
                if j < q % 16:
                    L[i, j{zeros}] = A[p * 16 + j] + i
        for j in T.vectorized(16):
            if j < q % 16:
                C[p * 16 + j] = L[0, j{zeros}] * L[1, j{zeros}]
""")
    assert allocations(COMPACT(func)) == {"L": (2, "q % 16", *units)}
    check(CompactBufferAllocation(keep_lanes=True), func)
    kept = allocations(CompactBufferAllocation(keep_lanes=True)(func))
    assert kept == {"L": (2, 16 if scope == "local" else "q % 16", *units)}
    fixed = parse(str(func).replace("q % 16", "p * 4 + 1"))
    assert allocations(COMPACT(fixed)) == {"L": (2, 13, *units)}
    assert allocations(CompactBufferAllocation(keep_lanes=True)(fixed)) == {
        "L": (2, 16 if scope == "local" else 13, *units)
    }
