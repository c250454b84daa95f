from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.checking import check, executes_alike
from tirlower.diagnostics import TransformError
from tirlower.ir import AllocBuffer, For, IRModule, PrimFunc, Stmt, post_order_visit
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import (
    FlattenBuffer,
    InjectSoftwarePipeline,
    LowerOpaqueBlock,
    Sequential,
    Simplify,
    UnrollLoop,
)

PASS = InjectSoftwarePipeline()


def annotated(func: PrimFunc, stages: list[int], orders: list[int], async_stages: list[int] | None = None) -> PrimFunc:
    """The function with its outermost serial loop annotated."""
    loop: Any = func.body
    outer: list[Any] = []
    while not isinstance(loop, For) or loop.thread_tag is not None:
        outer.append(loop)
        loop = loop.body
    notes: dict[str, Any] = {"software_pipeline_stage": stages, "software_pipeline_order": orders}
    if async_stages is not None:
        notes["software_pipeline_async_stages"] = async_stages
    made: Stmt = loop.with_(annotations=notes)
    for stmt in reversed(outer):
        made = stmt.with_(body=made)
    return func.with_body(made)


def shapes(func: PrimFunc) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    post_order_visit(
        func.body,
        lambda op: found.append(tuple(e.value for e in op.buffer.shape)) if isinstance(op, AllocBuffer) else None,
    )
    return found


def test_two_stages() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
        for i in T.serial(16, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}):
            B = T.alloc_buffer((1,), "float32")
            B[0] = A[i] * T.float32(2)
            C[i] = B[0] + T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
        B = T.alloc_buffer((2, 1), "float32")
        B[0, 0] = A[0] * T.float32(2)
        for i in range(15):
            B[(i + 1) % 2, 0] = A[i + 1] * T.float32(2)
            C[i] = B[i % 2, 0] + T.float32(1)
        C[15] = B[1, 0] + T.float32(1)

    after = check(PASS, before)
    check(Simplify(), after, expected)


def test_in_blocks_with_their_regions() -> None:
    @T.prim_func
    def before(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            for i in T.serial(16, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}):
                with T.block():
                    T.reads(A[tx, i])
                    T.writes(C[tx, i])
                    B = T.alloc_buffer((16, 1), "float32", scope="shared")
                    with T.block():
                        T.reads(A[tx, i])
                        T.writes(B[tx, 0])
                        B[tx, 0] = A[tx, i] * T.float32(2)
                    with T.block():
                        T.reads(B[tx, 0])
                        T.writes(C[tx, i])
                        C[tx, i] = B[tx, 0] + T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            with T.block():
                T.reads(A[tx, 0:16])
                T.writes(C[tx, 0:16])
                B = T.alloc_buffer((2, 16, 1), "float32", scope="shared")
                with T.block():
                    T.reads(A[tx, 0])
                    T.writes(B[0, tx, 0])
                    B[0, tx, 0] = A[tx, 0] * T.float32(2)
                with T.block():
                    T.reads(A[tx, 1:16], B[0:2, tx, 0])
                    T.writes(B[0:2, tx, 0], C[tx, 0:15])
                    for i in range(15):
                        with T.block():
                            T.reads(A[tx, i + 1])
                            T.writes(B[(i + 1) % 2, tx, 0])
                            B[(i + 1) % 2, tx, 0] = A[tx, i + 1] * T.float32(2)
                        with T.block():
                            T.reads(B[i % 2, tx, 0])
                            T.writes(C[tx, i])
                            C[tx, i] = B[i % 2, tx, 0] + T.float32(1)
                with T.block():
                    T.reads(B[1, tx, 0])
                    T.writes(C[tx, 15])
                    C[tx, 15] = B[1, tx, 0] + T.float32(1)

    after = check(PASS, before)
    check(Simplify(), after, expected)
    check(LowerOpaqueBlock(), after, idempotent=False)


@pytest.mark.parametrize("extent", [0, 1, 2, 3, 7])
@pytest.mark.parametrize(
    ("stages", "orders"),
    [
        ([0, 1, 2], [0, 1, 2]), ([0, 1, 2], [2, 1, 0]), ([0, 0, 3], [0, 1, 2]), ([0, 2, 2], [2, 0, 1]),
        ([1, 1, 2], [0, 1, 2]), ([0, 0, 0], [0, 1, 2]), ([0, 3, 3], [1, 0, 2]), ([2, 2, 2], [3, 5, 9]),
    ],
)  # fmt: skip
def test_stages_and_orders(extent: int, stages: list[int], orders: list[int]) -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), D: T.Buffer((16,), "int32")):
        for i in T.serial(3, 3 + extent):
            B = T.alloc_buffer((2,), "int32")
            C = T.alloc_buffer((2,), "int32")
            B[0] = A[i] * 2
            for k in range(2):
                C[k] = B[0] + k
            D[i] = C[0] * C[1] + i

    check(PASS, annotated(before, stages, orders))


@pytest.mark.parametrize("n", [-1, 0, 1, 2, 3, 6])
@pytest.mark.parametrize(("stages", "orders"), [([0, 1, 3], [0, 1, 2]), ([0, 2, 2], [2, 1, 3])])
def test_dynamic_extents_run_each_statement_once(n: int, stages: list[int], orders: list[int]) -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), D: T.Buffer((16,), "int32"), n: T.int32):
        for i in range(n):
            B = T.alloc_buffer((1,), "int32")
            C = T.alloc_buffer((1,), "int32")
            B[0] = A[i] * 2
            C[0] = B[0] + i
            D[i] = D[i] + C[0]

    before = annotated(before, stages, orders)
    arrays = [np.arange(16, dtype="int32"), np.arange(16, dtype="int32") * 3]
    after = check(PASS, before, inputs=[(*arrays, n)])
    check(UnrollLoop(), after, inputs=[(*arrays, n)])


def test_copies_are_as_many_as_needed() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), D: T.Buffer((16,), "int32")):
        for i in T.serial(16):
            B = T.alloc_buffer((4,), "int32")
            C = T.alloc_buffer((4,), "int32")
            B[0] = A[i] * 2
            C[0] = B[0] + 3
            D[i] = C[0] + i

    def copies(stages: list[int], orders: list[int]) -> list[tuple[int, ...]]:
        return shapes(check(PASS, annotated(before, stages, orders)))

    assert copies([0, 0, 0], [0, 1, 2]) == [(4,), (4,)]
    assert copies([0, 0, 1], [0, 1, 2]) == [(4,), (2, 4)]
    assert copies([0, 1, 2], [0, 1, 2]) == [(2, 4), (2, 4)]
    assert copies([0, 1, 3], [0, 1, 2]) == [(2, 4), (3, 4)]
    # Readers before writers: the element is free before it is written again.
    assert copies([0, 1, 2], [2, 1, 0]) == [(4,), (4,)]


def test_strides_offsets_and_access_pointers_of_copies() -> None:
    @T.prim_func
    def before(A: T.Buffer((16, 4), "int32"), D: T.Buffer((16, 4), "int32")):
        for i in T.serial(16, annotations={"software_pipeline_stage": [0, 1, 2], "software_pipeline_order": [0, 1, 2]}):
            B = T.alloc_buffer((2, 4), "int32", strides=(8, 1))
            C = T.alloc_buffer((4,), "int32")
            for j in range(4):
                B[1, j] = A[i, j]
            T.evaluate(T.call_extern("handle", "memcpy", C.access_ptr("w"), T.address_of(B[1, 0]), 16))
            for j in range(4):
                D[i, j] = C[j] + i

    with pytest.raises(TransformError, match="anything"):
        PASS(before)

    @T.prim_func
    def at_the_end(A: T.Buffer((16,), "int32")):
        for i in T.serial(16, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}):
            A[i] = i
            T.evaluate(T.call_extern("int32", "something"))

    with pytest.raises(TransformError, match="anything"):
        PASS(at_the_end)

    @T.prim_func
    def stated(A: T.Buffer((16, 4), "int32"), D: T.Buffer((16, 4), "int32")):
        for i in T.serial(16, annotations={"software_pipeline_stage": [0, 1, 2], "software_pipeline_order": [0, 1, 2]}):
            with T.block():
                T.reads(A[i, 0:4])
                T.writes(D[i, 0:4])
                B = T.alloc_buffer((2, 4), "int32", strides=(8, 1))
                C = T.alloc_buffer((4,), "int32")
                with T.block():
                    T.reads(A[i, 0:4])
                    T.writes(B[1, 0:4])
                    for j in range(4):
                        B[1, j] = A[i, j]
                with T.block():
                    T.reads(B[1, 0:4])
                    T.writes(C[0:4])
                    T.evaluate(T.call_extern("handle", "memcpy", C.access_ptr("w"), T.address_of(B[1, 0]), 16))
                with T.block():
                    T.reads(C[0:4])
                    T.writes(D[i, 0:4])
                    for j in range(4):
                        D[i, j] = C[j] + i

    after = check(PASS, stated)
    assert shapes(after) == [(2, 2, 4), (2, 4)]


@pytest.mark.parametrize(
    ("stages", "orders"), list(itertools.product([(0, 1), (0, 2), (1, 0), (0, 0)], [(0, 1), (1, 0)]))
)
def test_legality_agrees_with_execution(stages: tuple[int, int], orders: tuple[int, int]) -> None:
    """Dependences between iterations, at distances 0 to 2: accepted pipelines compute the same."""

    def program(write: int, read: int) -> PrimFunc:
        @T.prim_func
        def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
            for i in T.serial(8):
                A[i + write] = A[i + write] * 3 + i
                B[i] = A[i + read] + B[i]

        return before

    accepted = 0
    for write, read in itertools.product(range(3), range(3)):
        func = annotated(program(write, read), list(stages), list(orders))
        try:
            PASS(func)
        except TransformError as error:
            assert "illegal" in str(error)
            continue
        accepted += 1
        check(PASS, func)
    # Nothing changes in one stage and the order of the program, nor a stage apart with the later one first.
    assert accepted == 9 if (stages, orders) in (((0, 0), (0, 1)), ((0, 1), (1, 0))) else accepted < 9


@pytest.mark.parametrize(
    ("stages", "orders", "message"),
    [
        ([1, 0], [0, 1], "later stage"),
        ([0, 0], [1, 0], "ordered before it in one stage"),
        ([0, 1], [0, 0], "repeats"),
        ([0], [0, 1], "2 statements"),
        ([0, 1], [0, 1, 2], "2 statements"),
        ([0, -1], [0, 1], "from 0 on"),
    ],
)
def test_errors_by_name(stages: list[int], orders: list[int], message: str) -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
        for i in T.serial(16):
            B = T.alloc_buffer((1,), "int32")
            B[0] = A[i] * 2
            C[i] = B[0]

    with pytest.raises(TransformError, match=message):
        PASS(annotated(before, stages, orders))


def test_missing_annotations() -> None:
    @T.prim_func
    def stage(A: T.Buffer((16,), "int32")):
        for i in T.serial(16, annotations={"software_pipeline_stage": [0, 1]}):
            A[i] = 1
            A[i] = 2

    @T.prim_func
    def order(A: T.Buffer((16,), "int32")):
        for i in T.serial(16, annotations={"software_pipeline_order": [0, 1]}):
            A[i] = 1
            A[i] = 2

    for func, missing in ((stage, "software_pipeline_order"), (order, "software_pipeline_stage")):
        with pytest.raises(TransformError, match=f"no '{missing}'"):
            PASS(func)


def test_bodies_that_cannot_be_pipelined() -> None:
    notes = {"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}

    @T.prim_func
    def single(A: T.Buffer((16,), "int32")):
        for i in T.serial(16, annotations=notes):
            A[i] = 1

    @T.prim_func
    def reading(A: T.Buffer((16,), "int32")):
        for i in T.serial(16, annotations=notes):
            x: T.int32 = A[i]
            A[i] = x + 1
            A[i] = x + 2

    @T.prim_func
    def parallel(A: T.Buffer((16,), "int32")):
        for i in T.parallel(16, annotations=notes):
            A[i] = 1
            A[i] = A[i] + 2

    @T.prim_func
    def leaving(A: T.Buffer((16,), "int32")):
        for i in T.serial(16, annotations=notes):
            A[i] = 1
            if A[i] > 0:
                T.evaluate(T.break_loop())

    @T.prim_func
    def growing(A: T.Buffer((16,), "int32")):
        for i in T.serial(16, annotations=notes):
            B = T.alloc_buffer((i + 1,), "int32")
            B[i] = A[i]
            A[i] = B[i] + 2

    @T.prim_func
    def viewing(A: T.Buffer((16,), "int32")):
        for i in T.serial(16, annotations=notes):
            V = T.decl_buffer((4, 4), "int32", data=A.data)
            V[i // 4, i % 4] = 1
            A[i] = 2

    @T.prim_func
    def iterating(A: T.Buffer((16,), "int32")):
        for i in T.serial(16, annotations=notes):
            with T.block("b"):
                v = T.axis.spatial(16, i)
                A[v] = 1
                A[v] = A[v] + 2

    @T.prim_func
    def leaking(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
        for i in T.serial(16, annotations=notes):
            with T.block():
                T.reads(A[i])
                T.writes(C[i])
                B = T.alloc_buffer((1,), "int32")
                with T.block():
                    T.reads(A[i])
                    T.writes(B[0])
                    T.evaluate(T.call_extern("handle", "memcpy", B.data, T.address_of(A[i]), 4))
                with T.block():
                    T.reads(B[0])
                    T.writes(C[i])
                    C[i] = B[0]

    cases = (
        (single, "not a sequence"), (reading, "binds 'x'"), (parallel, "no order"), (leaving, "early"),
        (growing, "size of 'B' depends"), (viewing, "the view 'V'"), (iterating, "has iterators"), (leaking, "passed on"),
    )  # fmt: skip
    for func, message in cases:
        with pytest.raises(TransformError, match=message):
            PASS(func)


def test_strides_in_any_order_keep_the_copies_apart() -> None:
    @T.prim_func
    def before(A: T.Buffer((16, 3), "int8"), C: T.Buffer((16,), "float64")):
        for i in T.serial(16, annotations={"software_pipeline_stage": [0, 2], "software_pipeline_order": [0, 1]}):
            B = T.alloc_buffer((2, 3), "int8", strides=(1, 2))
            for j in range(3):
                B[0, j] = A[i, j]
                B[1, j] = A[15 - i, j]
            C[i] = T.Cast("float64", B[0, 0] + B[1, 2])

    after = check(PASS, before)
    assert shapes(after) == [(3, 2, 3)]
    check(FlattenBuffer(), after)


def test_constants_while_loops_and_scalar_buffers() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int64"), C: T.Buffer((16,), "int64"), m: T.int32):
        for i in T.serial(
            m % 5, annotations={"software_pipeline_stage": [0, 0, 1], "software_pipeline_order": [0, 1, 2]}
        ):
            data = T.allocate_const([3, 1, 2], "int64", [3])
            K = T.Buffer((3,), "int64", data=data)
            B = T.alloc_buffer((), "int64")
            B[()] = A[i] * K[i % 3]
            while B[()] > T.int64(5):
                B[()] = B[()] // T.int64(2)
            C[i] = B[()]

    after = check(PASS, before, samples=6)
    assert shapes(after) == [(2,)]


def test_bindings_and_views_from_outside() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32"), n: T.int32):
        V = T.decl_buffer((4, 4), "int32", data=C.data)
        for i in T.serial(16, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}):
            x: T.int32 = i * 2
            y: T.int32 = x + n
            B = T.alloc_buffer((1,), "int32")
            B[0] = A[i] * y
            V[i // 4, i % 4] = B[0] + x

    check(PASS, before)


def test_nested_pipelines() -> None:
    @T.prim_func
    def before(A: T.Buffer((6, 8), "int32"), C: T.Buffer((6, 8), "int32")):
        for i in T.serial(6, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}):
            B = T.alloc_buffer((8,), "int32")
            for j in range(8):
                B[j] = A[i, j] + 1
            for j in T.serial(8, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}):
                D = T.alloc_buffer((1,), "int32")
                D[0] = B[j] * 2
                C[i, j] = D[0] + i

    after = check(PASS, before)
    assert (2, 8) in shapes(after) and (2, 1) in shapes(after)


@pytest.mark.parametrize(("stages", "orders"), [([0, 1, 1, 1], [0, 1, 2, 3]), ([0, 0, 1, 1], [0, 2, 1, 3])])
def test_parts_of_a_nested_pipeline_are_statements_of_the_outer_one(stages: list[int], orders: list[int]) -> None:
    """The inner pipeline's prologue, body and epilogue; the second way prefetches the next iteration's first copy."""
    inner = {"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}

    @T.prim_func
    def before(A: T.Buffer((16, 1, 16), "float32"), C: T.Buffer((16, 1, 16), "float32")):
        for i in T.serial(0, 16):
            with T.block():
                T.reads(A[i, 0, 0:16])
                T.writes(C[i, 0, 0:16])
                A_shared = T.alloc_buffer((16, 1, 16), "float32", scope="shared")
                for j in T.serial(0, 16):
                    with T.block():
                        T.reads(A[i, 0, j])
                        T.writes(A_shared[i, 0, j])
                        A_shared[i, 0, j] = A[i, 0, j]
                for j in T.serial(0, 16, annotations=inner):
                    with T.block():
                        T.reads(A_shared[i, 0, j])
                        T.writes(C[i, 0, j])
                        B = T.alloc_buffer((16, 1, 1), "float32", scope="shared")
                        with T.block():
                            T.reads(A_shared[i, 0, j])
                            T.writes(B[i, 0, 0])
                            B[i, 0, 0] = A_shared[i, 0, j] * T.float32(2)
                        with T.block():
                            T.reads(B[i, 0, 0])
                            T.writes(C[i, 0, j])
                            C[i, 0, j] = B[i, 0, 0] + T.float32(1)

    after = check(PASS, annotated(before, stages, orders))
    # What the prefetch writes of B is not what the epilogue reads: the outer pipeline needs no copies of it.
    assert shapes(after) == [(2, 16, 1, 16), (2, 16, 1, 1)]
    check(LowerOpaqueBlock(), after, idempotent=False)


def test_other_annotations_stay_and_unannotated_loops_too() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
        for i in range(16):
            A[i] = A[i] + 1
        for i in T.serial(
            16, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1], "key": 3}
        ):
            B = T.alloc_buffer((1,), "int32")
            B[0] = A[i] * 2
            C[i] = B[0]

    text = check(PASS, before).script()
    assert '"key": 3' in text and "software_pipeline" not in text

    @T.prim_func
    def plain(A: T.Buffer((16,), "int32")):
        for i in T.serial(16, annotations={"key": 3}):
            A[i] = A[i] + 1
            A[i] = A[i] * 2

    check(PASS, plain, plain)


def test_blocks_name_all_copies_where_there_are_more_than_two_stages() -> None:
    @T.prim_func
    def before(A: T.Buffer((16, 16), "float32"), D: T.Buffer((16, 16), "float32")):
        for t in T.thread_binding(16, thread="threadIdx.x"):
            for i in T.serial(
                16, annotations={"software_pipeline_stage": [0, 1, 2], "software_pipeline_order": [0, 2, 1]}
            ):
                with T.block("whole"):
                    T.reads(A[t, i])
                    T.writes(D[t, i])
                    B = T.alloc_buffer((16, 1), scope="shared")
                    C = T.alloc_buffer((16, 1), scope="shared")
                    with T.block("first"):
                        T.reads(A[t, i])
                        T.writes(B[t, 0])
                        B[t, 0] = A[t, i] * T.float32(2)
                    with T.block("second"):
                        T.reads(B[t, 0])
                        T.writes(C[t, 0])
                        C[t, 0] = B[t, 0] + T.float32(2)
                    with T.block("third"):
                        T.reads(C[t, 0])
                        T.writes(D[t, i])
                        D[t, i] = C[t, 0] + T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((16, 16), "float32"), D: T.Buffer((16, 16), "float32")):
        for t in T.thread_binding(16, thread="threadIdx.x"):
            with T.block():
                T.reads(A[t, 0:16])
                T.writes(D[t, 0:16])
                B = T.alloc_buffer((2, 16, 1), scope="shared")
                C = T.alloc_buffer((16, 1), scope="shared")
                with T.block():
                    T.reads(A[t, 0:2], B[0:2, t, 0])
                    T.writes(B[0:2, t, 0], C[t, 0])
                    for i in T.unroll(2):
                        with T.block("first"):
                            T.reads(A[t, i])
                            T.writes(B[0:2, t, 0])
                            B[i, t, 0] = A[t, i] * T.float32(2)
                        with T.block("second"):
                            T.where(i == 1)
                            T.reads(B[0:2, t, 0])
                            T.writes(C[t, 0])
                            C[t, 0] = B[(i + 1) % 2, t, 0] + T.float32(2)
                with T.block():
                    T.reads(A[t, 2:16], C[t, 0], B[0:2, t, 0])
                    T.writes(B[0:2, t, 0], D[t, 0:14], C[t, 0])
                    for i in range(14):
                        with T.block("first"):
                            T.reads(A[t, i + 2])
                            T.writes(B[0:2, t, 0])
                            B[i % 2, t, 0] = A[t, i + 2] * T.float32(2)
                        with T.block("third"):
                            T.reads(C[t, 0])
                            T.writes(D[t, i])
                            D[t, i] = C[t, 0] + T.float32(1)
                        with T.block("second"):
                            T.reads(B[0:2, t, 0])
                            T.writes(C[t, 0])
                            C[t, 0] = B[(i + 1) % 2, t, 0] + T.float32(2)
                with T.block():
                    T.reads(C[t, 0], B[0:2, t, 0])
                    T.writes(D[t, 14:16], C[t, 0])
                    for i in T.unroll(2):
                        with T.block("third"):
                            T.reads(C[t, 0])
                            T.writes(D[t, i + 14])
                            D[t, i + 14] = C[t, 0] + T.float32(1)
                        with T.block("second"):
                            T.where(i < 1)
                            T.reads(B[0:2, t, 0])
                            T.writes(C[t, 0])
                            C[t, 0] = B[(i + 1) % 2, t, 0] + T.float32(2)

    check(Sequential([InjectSoftwarePipeline(), Simplify()]), before, expected)


def doubled(n: int, stages: str) -> PrimFunc:
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer(({n}, 16), "float32"), C: T.Buffer(({n}, 16), "float32")):
    for i in T.serial({n}, annotations={{"software_pipeline_stage": {stages}, "software_pipeline_order": [0, 1]}}):
        with T.block("compute"):
            T.reads(A[i, 0:16])
            T.writes(C[i, 0:16])
            B = T.alloc_buffer((16,), "float32")
            with T.block("a"):
                T.reads(A[i, 0:16])
                T.writes(B[0:16])
                T.block_attr({{"double_buffer_scope": 0}})
                for j in range(16):
                    B[j] = A[i, j] * T.float32(2)
            with T.block("b"):
                T.reads(B[0:16])
                T.writes(C[i, 0:16])
                for j in range(16):
                    C[i, j] = B[j] + T.float32(1)
""")
    assert isinstance(func, PrimFunc)
    return func


@pytest.mark.parametrize(("stages", "copies"), [("[0, 0]", 2), ("[0, 1]", 2), ("[0, 2]", 3)])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_buffer_that_is_to_be_doubled_has_two_copies_at_least(n: int, stages: str, copies: int) -> None:
    after = check(InjectSoftwarePipeline(), doubled(n, stages))
    text = after.script()
    assert f"T.alloc_buffer(({copies}, 16))" in text and "double_buffer_scope" not in text


def test_a_mark_of_a_buffer_that_there_is_not() -> None:
    before = parse(doubled(3, "[0, 1]").script().replace('"double_buffer_scope": 0', '"double_buffer_scope": 1'))
    with pytest.raises(TransformError, match="names written buffer 1, it writes 1"):
        InjectSoftwarePipeline()(before)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_a_loop_shorter_than_the_pipeline_leaves_no_block_that_never_runs(n: int) -> None:
    after = check(InjectSoftwarePipeline(), doubled(n, "[0, 3]"))
    assert "T.where(False)" not in after.script() and "T.where(T.bool(False))" not in after.script()


def test_a_bound_that_a_stage_changes_is_taken_once() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32"), N: T.Buffer((1,), "int32")):
    for i in T.serial(N[0], annotations={"software_pipeline_stage": [0, 1, 1], "software_pipeline_order": [0, 1, 2]}):
        B = T.alloc_buffer((1,), "int32")
        B[0] = A[i] * 2
        C[i] = B[0] + 1
        N[0] = 3
""")
    made = InjectSoftwarePipeline()(IRModule({"f": func}))["f"]
    assert str(made).count("N[0]") == 1 + str(made).count("N[0] = 3"), "read once"
    inputs = [[np.arange(16, dtype="int32"), np.zeros(16, "int32"), np.array([n], "int32")] for n in (0, 1, 2, 5, 16)]
    executes_alike(func, made, inputs=inputs)
