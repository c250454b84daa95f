from __future__ import annotations

import pytest

from tests.checking import check
from tirlower.diagnostics import TransformError
from tirlower.script import tir as T
from tirlower.transforms import LowerOpaqueBlock


def test_blocks_become_allocations_conditions_and_plain_loops() -> None:
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
                        T.where(j < 13)
                        T.reads(B[i, j])
                        T.writes(C[i, j])
                        C[i, j] = B[i, j] * T.float32(2)

    @T.prim_func
    def expected(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        for i in range(16):
            B = T.alloc_buffer((16, 16), "float32")
            for j in range(16):
                B[i, j] = A[i, j] + T.float32(1)
            for j in range(16):
                if j < 13:
                    C[i, j] = B[i, j] * T.float32(2)

    check(LowerOpaqueBlock(), before, expected)


def test_unit_loops_go_annotated_ones_and_threads_stay() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        for bx in T.thread_binding(1, thread="blockIdx.x"):
            for i in T.serial(3, 4):
                for j in T.serial(0, 1, annotations={"pragma_unroll_explicit": 0}):
                    for k in T.serial(0, 1, annotations={"irregular_loop_mark": 1}):
                        with T.block():
                            T.reads()
                            T.writes(A[i + j + k * 2 + bx])
                            A[i + j + k * 2 + bx] = i * 10

    @T.prim_func
    def expected(A: T.Buffer((8,), "int32")):
        for bx in T.thread_binding(1, thread="blockIdx.x"):
            with T.attr(0, "pragma_unroll_explicit", 0):
                for j in T.serial(0, 1):
                    A[3 + j] = 30

    check(LowerOpaqueBlock(), before, expected)


def test_block_pragmas_become_attributes_other_annotations_go() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        for i in T.serial(4, annotations={"key": "kept"}):
            with T.block():
                T.reads()
                T.writes(A[i])
                T.block_attr({"pragma_b": "text", "pragma_a": 3, "dropped": 1})
                A[i] = i

    @T.prim_func
    def expected(A: T.Buffer((4,), "int32")):
        for i in T.serial(4, annotations={"key": "kept"}):
            with T.attr(0, "pragma_a", 3), T.attr(0, "pragma_b", "text"):
                A[i] = i

    check(LowerOpaqueBlock(), before, expected)


def test_allocations_stand_outside_the_predicate() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), n: T.int32):
        for i in range(4):
            with T.block():
                T.where(i < n)
                T.reads()
                T.writes(A[i])
                B = T.alloc_buffer((1,), "int32")
                B[0] = i
                A[i] = B[0]

    @T.prim_func
    def expected(A: T.Buffer((4,), "int32"), n: T.int32):
        for i in range(4):
            B = T.alloc_buffer((1,), "int32")
            if i < n:
                B[0] = i
                A[i] = B[0]

    check(LowerOpaqueBlock(), before, expected)


def test_storage_alignment_moves_to_the_allocation() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4), "float32")):
        with T.block():
            T.reads()
            T.writes(A[0:4, 0:4])
            B = T.alloc_buffer((4, 4), "float32")
            for i, j in T.grid(4, 4):
                with T.block():
                    T.reads()
                    T.writes(B[i, j])
                    T.block_attr({"buffer_dim_align": [[0, 0, 32, 8]]})
                    B[i, j] = T.Cast("float32", i)
            for i, j in T.grid(4, 4):
                A[i, j] = B[i, j]

    after = check(LowerOpaqueBlock(), before)
    assert after.body.stmts[0].annotations == {"buffer_dim_align": ((-1, 0, 32, 8),)}


def test_scopes_of_blocks_stay_scopes() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        with T.block("root"):
            T.reads()
            T.writes(A[0:4])
            for i in range(4):
                with T.block():
                    T.reads()
                    T.writes(A[i])
                    x: T.int32 = i * 2
                    A[i] = x
                with T.block():
                    T.reads(A[i])
                    T.writes(A[i])
                    y: T.int32 = i * 3
                    B = T.alloc_buffer((1,), "int32")
                    B[0] = y
                    A[i] = A[i] + B[0]

    check(LowerOpaqueBlock(), before)


def test_symbolic_extents_empty_loops_and_negative_minimums() -> None:
    @T.prim_func
    def before(A: T.Buffer(("n",), "int32")):
        for i in T.serial(-3, n - 3):
            for _j in range(0):
                with T.block():
                    T.reads()
                    T.writes(A[0])
                    A[0] = 100
            with T.block():
                T.reads()
                T.writes(A[i + 3])
                A[i + 3] = i

    check(LowerOpaqueBlock(), before, sizes=(0, 1, 5))


def test_views_calls_and_while_loops_inside() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4), "float32")):
        for i in T.serial(2, 3):
            with T.block():
                T.reads(A[i, 0:4])
                T.writes(A[i, 0:4])
                V = T.decl_buffer((4,), "float32", data=A.data, elem_offset=i * 4)
                V[1] = T.float32(1)
                while V[0] < T.float32(8):
                    V[0] = V[0] + T.float32(3)
                T.evaluate(T.call_extern("handle", "memset", T.address_of(V[2]), 0, 8))

    check(LowerOpaqueBlock(), before)


def test_a_unit_loop_that_is_left_early_stays() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        for i in range(4):
            for j in range(1):
                with T.block():
                    T.reads()
                    T.writes(A[i])
                    if i == 1:
                        T.evaluate(T.break_loop())
                    A[i] = i + j

    after = check(LowerOpaqueBlock(), before)
    assert "for j in range(1)" in after.script() or "T.grid(4, 1)" in after.script()


def test_what_must_have_run_before_is_named() -> None:
    @T.prim_func
    def iters(A: T.Buffer((4,), "int32")):
        for i in range(4):
            with T.block("A"):
                v = T.axis.spatial(4, i)
                A[v] = v

    with pytest.raises(TransformError, match="run ConvertBlocksToOpaque before LowerOpaqueBlock"):
        LowerOpaqueBlock()(iters)

    @T.prim_func
    def match(A: T.Buffer((4,), "int32")):
        with T.block("A"):
            T.reads()
            T.writes(A[0:4])
            S = T.match_buffer(A[0:4], (4,), "int32")
            S[0] = 1

    with pytest.raises(TransformError, match="run LowerMatchBuffer before LowerOpaqueBlock"):
        LowerOpaqueBlock()(match)


def test_flat_code_comes_back_as_it_is() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = i

    check(LowerOpaqueBlock(), before, before)


def test_pragmas_of_loops_become_attributes_around_them() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 8), "int32")):
        for i in T.serial(4, annotations={"pragma_two": 1, "other": 3, "pragma_one": "text"}):
            for j in T.serial(1, annotations={"pragma_unroll_explicit": 0}):
                with T.block():
                    T.reads()
                    T.writes(A[i, j])
                    A[i, j] = i

    after = check(LowerOpaqueBlock(), before)
    one = after.body
    two = one.body
    loop = two.body
    assert (one.key, one.value.value, two.key, two.value.value) == ("pragma_one", "text", "pragma_two", 1)
    assert one.node == two.node == 0 and dict(loop.annotations) == {"other": 3}
    # A loop of one iteration that a pragma is about stays.
    inner = loop.body
    assert inner.key == "pragma_unroll_explicit" and inner.body.loop_var.name == "j"


def test_a_pragma_that_is_no_expression_is_refused() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        for i in T.serial(4, annotations={"pragma_two": [1, 2]}):
            A[i] = i

    with pytest.raises(TransformError, match="a number, a string or an expression") as error:
        LowerOpaqueBlock()(before)
    assert "loop 'i'" in str(error.value.help)
