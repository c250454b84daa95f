"""Simplify on bindings: which of them give way to their values, and which stay."""

from __future__ import annotations

from tests.checking import check
from tirlower.ir import Bind, pre_order_visit
from tirlower.script import tir as T
from tirlower.transforms import Simplify


def test_bindings_of_integers_take_their_place() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "float32")):
        for i in range(8):
            x: T.int32 = i * 8
            y: T.int32 = x + 3
            z: T.float32 = B[y]
            for j in range(8):
                A[x + j] = y
                B[x + j] = z

    @T.prim_func
    def expected(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "float32")):
        for i in range(8):
            z: T.float32 = B[i * 8 + 3]
            for j in range(8):
                A[i * 8 + j] = i * 8 + 3
                B[i * 8 + j] = z

    check(Simplify(), before, expected)


def test_bindings_that_a_layout_or_memory_needs_stay() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), n: T.int32):
        m: T.int32 = n * 2
        B = T.alloc_buffer((m,), "int32")
        w: T.int32 = A[0]
        A[0] = 5
        for i in range(m):
            B[i] = w
        A[1] = B[m - 1] + w

    after = check(Simplify(), before)
    names = []
    pre_order_visit(after.body, lambda op: names.append(op.var.name) if isinstance(op, Bind) else None)
    assert names == ["m", "w"]


def test_a_chain_of_bindings_is_not_unfolded_without_end() -> None:
    lines = ["x0: T.int32 = n % 7"]
    lines += [f"x{i + 1}: T.int32 = x{i} * x{i} // 3 % 5" for i in range(60)]
    from tirlower.script import parse

    before = parse(
        "@T.prim_func\ndef f(A: T.Buffer((4,), 'int32'), n: T.int32):\n    " + "\n    ".join([*lines, "A[0] = x60"])
    )
    after = check(Simplify(), before)
    assert len(after.script()) < 40_000


def test_names_of_other_variables_give_way_in_layouts_too() -> None:
    @T.prim_func
    def before(A: T.Buffer((32,), "float32"), o: T.int32):
        size: T.int32 = 4
        offset: T.int32 = o
        data: T.handle("float32") = A.data
        B = T.decl_buffer((size,), "float32", data=data, elem_offset=offset, strides=(2,))
        half: T.int32 = o // 2
        C = T.alloc_buffer((half + 1, size), "float32")
        for i in range(size):
            C[half, i] = B[i] + T.Cast("float32", offset)
        for i in range(size):
            B[i] = C[half, i]

    @T.prim_func
    def expected(A: T.Buffer((32,), "float32"), o: T.int32):
        B = T.decl_buffer((4,), "float32", data=A.data, elem_offset=o, strides=(2,))
        half: T.int32 = o // 2
        C = T.alloc_buffer((half + 1, 4), "float32")
        for i in range(4):
            C[o // 2, i] = B[i] + T.Cast("float32", o)
        for i in range(4):
            B[i] = C[o // 2, i]

    check(Simplify(), before, expected, sizes=(1, 5))


def test_bindings_of_conditions_decide_branches() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "bool"), B: T.Buffer((4,), "bool")):
        for i in range(4):
            inside: T.bool = i < 3
            if inside or i >= 3:
                A[i] = inside
            if i < 2:
                if inside:
                    B[i] = inside

    @T.prim_func
    def expected(A: T.Buffer((4,), "bool"), B: T.Buffer((4,), "bool")):
        for i in range(4):
            inside: T.bool = i < 3
            A[i] = inside
            if i < 2:
                B[i] = inside

    check(Simplify(), before, expected)
