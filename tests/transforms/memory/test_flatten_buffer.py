from __future__ import annotations

import numpy as np
import pytest

from tests.checking import check
from tirlower.diagnostics import TransformError
from tirlower.interp import interpret
from tirlower.ir import (
    AllocBuffer,
    AllocConst,
    BufferStore,
    Call,
    DeclBuffer,
    Evaluate,
    Op,
    PrimFunc,
    Var,
    post_order_visit,
    pre_order_visit,
)
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import FlattenBuffer, PassContext


def shapes(func) -> dict[str, tuple[int, ...]]:
    """The declared and allocated buffers with their extents."""
    found = {}

    def look(op) -> None:
        if isinstance(op, (AllocBuffer, AllocConst, DeclBuffer)):
            found[op.buffer.name] = tuple(getattr(e, "value", str(e)) for e in op.buffer.shape)

    pre_order_visit(func.body, look)
    return found


def test_parameters_get_a_flat_view_and_allocations_become_flat() -> None:
    @T.prim_func
    def before(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        for i in range(16):
            B = T.alloc_buffer((1, 16), "float32")
            for j in range(16):
                B[0, j] = A[i, j] + T.float32(1)
            for j in range(16):
                C[i, j] = B[0, j] * T.float32(2)

    @T.prim_func
    def expected(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        A_flat = T.decl_buffer((256,), "float32", data=A.data)
        C_flat = T.decl_buffer((256,), "float32", data=C.data)
        for i in range(16):
            B = T.alloc_buffer((16,), "float32")
            for j in range(16):
                B[j] = A_flat[i * 16 + j] + T.float32(1)
            for j in range(16):
                C_flat[i * 16 + j] = B[j] * T.float32(2)

    check(FlattenBuffer(), before, expected)


def test_symbolic_extents() -> None:
    @T.prim_func
    def before(A: T.Buffer(("n", "m"), "float32"), C: T.Buffer(("n", "m"), "float32")):
        for i in range(n):
            B = T.alloc_buffer((m,), "float32")
            for j in range(m):
                B[j] = A[i, j]
            for j in range(m):
                C[i, j] = B[j] * T.float32(2)

    @T.prim_func
    def expected(A: T.Buffer(("n", "m"), "float32"), C: T.Buffer(("n", "m"), "float32")):
        A_flat = T.decl_buffer((n * m,), "float32", data=A.data)
        C_flat = T.decl_buffer((n * m,), "float32", data=C.data)
        for i in range(n):
            B = T.alloc_buffer((m,), "float32")
            for j in range(m):
                B[j] = A_flat[i * m + j]
            for j in range(m):
                C_flat[i * m + j] = B[j] * T.float32(2)

    check(FlattenBuffer(), before, expected, sizes=(0, 1, 5))


def test_strides_pad_the_extent() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4), "int32"), C: T.Buffer((4, 4), "int32")):
        B = T.alloc_buffer((4, 5), "int32")
        V = T.decl_buffer((4, 4), "int32", data=B.data, strides=[5, 1])
        for i, j in T.grid(4, 4):
            V[i, j] = A[i, j]
        for i, j in T.grid(4, 4):
            C[i, j] = B[i, j]

    @T.prim_func
    def expected(A: T.Buffer((4, 4), "int32"), C: T.Buffer((4, 4), "int32")):
        A_flat = T.decl_buffer((16,), "int32", data=A.data)
        C_flat = T.decl_buffer((16,), "int32", data=C.data)
        B = T.alloc_buffer((20,), "int32")
        V = T.decl_buffer((20,), "int32", data=B.data)
        for i, j in T.grid(4, 4):
            V[i * 5 + j] = A_flat[i * 4 + j]
        for i, j in T.grid(4, 4):
            C_flat[i * 4 + j] = B[i * 5 + j]

    check(FlattenBuffer(), before, expected)


def test_a_transposed_view_covers_all_of_its_memory() -> None:
    @T.prim_func
    def before(A: T.Buffer((3, 7), "int16"), C: T.Buffer((7, 3), "int16")):
        V = T.decl_buffer((7, 3), "int16", data=A.data, strides=[1, 7])
        for i, j in T.grid(7, 3):
            C[i, j] = V[i, j]

    assert shapes(check(FlattenBuffer(), before))["V"] == (21,)


def test_negative_strides_and_offsets_of_views() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 6), "int32"), C: T.Buffer((4, 6), "int32")):
        R = T.decl_buffer((4, 6), "int32", data=A.data, strides=[-6, -1], elem_offset=23)
        H = T.decl_buffer((2, 6), "int32", data=A.data, elem_offset=12)
        for i, j in T.grid(4, 6):
            C[i, j] = R[i, j] + H[i // 2, j]

    after = check(FlattenBuffer(), before)
    assert shapes(after)["R"] == (24,) and shapes(after)["H"] == (24,)


def test_symbolic_strides_may_be_negative() -> None:
    @T.prim_func
    def before(
        A: T.Buffer(("n", "m"), "int32", strides=("s", "t")), C: T.Buffer(("n", "m"), "int32", strides=("p", 1))
    ):
        for i, j in T.grid(n, m):
            C[i, j] = A[i, j] * 2

    base = np.arange(70, dtype="int32").reshape(7, 10)
    out = np.zeros((4, 5), "int32")
    views = [base[:4, :5], base[::-1][:4, :5], base[:4, ::-2], base[6:2:-1, ::-2], base.T[:4, :5], base[:4, 3:4]]
    inputs = [(view, out[:, : view.shape[1]]) for view in views]
    after = check(FlattenBuffer(), before, inputs=inputs)
    # A reversed array whose strides the reference reads right is read right through the flat view.
    assert "min" in after.script()


def test_index_sums_keep_their_usual_form() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 8, 16), "float32"), B: T.Buffer((512,), "float32")):
        for f in range(512):
            B[f] = A[f // 128, f % 128 // 16, f % 16]
        for i, j in T.grid(32, 16):
            B[i * 16 + j] = A[i // 8, i % 8, j] + T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((4, 8, 16), "float32"), B: T.Buffer((512,), "float32")):
        A_flat = T.decl_buffer((512,), "float32", data=A.data)
        for f in range(512):
            B[f] = A_flat[f]
        for i, j in T.grid(32, 16):
            B[i * 16 + j] = A_flat[i * 16 + j] + T.float32(1)

    check(FlattenBuffer(), before, expected)


def test_a_layout_of_data_is_computed_in_int64() -> None:
    """In int32 the distance to the lowest element wraps, and that element is not where it is."""

    @T.prim_func
    def before(s: T.int32, A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        V = T.decl_buffer((2,), "int32", data=A.data, elem_offset=1, strides=(s,))
        B[0] = V[0]

    with PassContext(config={"tir.scalar_overflow": "wrap"}):
        text = FlattenBuffer()(before).script()
    assert 'elem_offset=T.min(T.Cast("int64", s), T.int64(0))' in text
    assert 'V[T.int64(1) - T.min(T.Cast("int64", s), T.int64(0))]' in text


def test_bool_is_stored_as_int8() -> None:
    @T.prim_func
    def before(A: T.Buffer((10,), "bool"), B: T.Buffer((2, 5), "bool")):
        C = T.alloc_buffer((10,), "bool")
        for i in range(10):
            C[i] = not A[i]
        B[1, 0:5] = C[0:5]
        for j in range(5):
            B[0, j] = C[5 + j]
        T.evaluate(T.call_extern("handle", "memset", T.address_of(B[1, 3]), 0, 1))

    @T.prim_func
    def expected(A: T.Buffer((10,), "bool"), B: T.Buffer((2, 5), "bool")):
        A_flat = T.decl_buffer((10,), "int8", data=A.data)
        B_flat = T.decl_buffer((10,), "int8", data=B.data)
        C = T.alloc_buffer((10,), "int8")
        for i in range(10):
            C[i] = T.Cast("int8", not T.Cast("bool", A_flat[i]))
        B_flat[5:10] = T.Cast("int8x5", T.Cast("boolx5", C[0:5]))
        for j in range(5):
            B_flat[j] = T.Cast("int8", T.Cast("bool", C[j + 5]))
        T.evaluate(T.call_extern("handle", "memset", T.address_of(B_flat[8]), 0, 1))

    after = check(FlattenBuffer(), before)
    assert "bool" not in {op.buffer.dtype for op in after.body.stmts if isinstance(op, (AllocBuffer, DeclBuffer))}


def test_axis_separators_leave_one_axis_for_each_group() -> None:
    @T.prim_func
    def before(A: T.Buffer((2, 3, 5, 7), "int32")):
        B = T.alloc_buffer((2, 3, 5, 7), "int32", axis_separators=[2])
        for i, j, k, l in T.grid(2, 3, 5, 7):
            B[i, j, k, l] = A[i, j, k, l]
        for i, j, k, l in T.grid(2, 3, 5, 7):
            A[i, j, k, l] = B[i, j, k, l] + 1

    after = check(FlattenBuffer(), before)
    assert shapes(after)["B"] == (6, 35)
    assert "B[i * 3 + j, k * 7 + l]" in after.script()


def test_regions_of_opaque_blocks_follow() -> None:
    @T.prim_func
    def before(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32")):
        for i in range(8):
            with T.block():
                T.reads(A[i, 0:16])
                T.writes(B[i, 0:16])
                for j in range(16):
                    B[i, j] = A[i, j]

    after = check(FlattenBuffer(), before)
    assert "T.reads(A_1[i * 16:i * 16 + 16])" in after.script()


def test_a_root_block_with_regions_keeps_them() -> None:
    @T.prim_func
    def before(A: T.Buffer((8, 16), "float32")):
        with T.block("all"):
            T.reads()
            T.writes(A[0:8, 0:16])
            for i, j in T.grid(8, 16):
                A[i, j] = T.float32(1)

    after = check(FlattenBuffer(), before)
    assert "T.writes(A_1[0:128])" in after.script()


def test_vectors_predicates_scalars_and_constants() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 8), "float32"), S: T.Buffer((), "float32")):
        k = T.allocate_const([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "float32", (2, 3))
        K = T.decl_buffer((2, 3), "float32", data=k)
        for i in range(4):
            A[i, 0:8] = A[i, 0:8] * T.Broadcast(S[()], 8)
            A.vstore([i, T.Ramp(7, -2, 4)], T.Broadcast(K[i % 2, 2], 4), predicate=T.Ramp(0, 1, 4) < T.Broadcast(i, 4))
        S[()] = K[1, 0]

    after = check(FlattenBuffer(), before)
    assert shapes(after)["K"] == (6,) and shapes(after)["S"] == (1,)


def test_the_layout_does_not_know_the_conditions_around_the_first_use() -> None:
    @T.prim_func
    def before(A: T.Buffer(("n", "m"), "int32")):
        if n == 2:
            A[1, 0] = 5
        for i, j in T.grid(n, m):
            A[i, j] = A[i, j] + 1

    after = check(FlattenBuffer(), before, sizes=(2, 3, 4))
    assert shapes(after)["A"] == ("n * m",)


def test_undeclared_views_and_access_pointers() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 6), "int32"), B: T.Buffer((24,), "int32")):
        V = T.Buffer((2, 12), "int32", data=A.data)
        for i, j in T.grid(2, 12):
            B[i * 12 + j] = V[i, j]
        while B[0] < 100:
            B[0] = B[0] + V[1, 1] * V[1, 1] + 1
        T.evaluate(T.call_extern("handle", "memset", A.access_ptr("w", offset=6), 0, 24))

    check(FlattenBuffer(), before)


def test_what_is_flat_comes_back_as_it_is() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), unused: T.Buffer((2, 2), "float32")):
        B = T.alloc_buffer((16,), "float32")
        for i in range(16):
            B[i] = A[i]
            A[i] = B[i]

    check(FlattenBuffer(), before, before)


def test_a_matched_region_must_be_lowered_first() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4), "int32")):
        with T.block("A"):
            T.reads()
            T.writes(A[0, 0:4])
            S = T.match_buffer(A[0, 0:4], (4,), "int32")
            S[0] = 1

    with pytest.raises(TransformError, match="run LowerMatchBuffer before FlattenBuffer"):
        FlattenBuffer()(before)


def test_positions_that_int32_does_not_hold_are_computed_in_int64() -> None:
    @T.prim_func
    def before(A: T.Buffer((65536, 65536), "int8")):
        for i, j in T.grid(65536, 65536):
            A[i, j] = T.int8(1)

    after = check(FlattenBuffer(), before, execute=False)
    found: list[BufferStore] = []
    pre_order_visit(after.body, lambda op: found.append(op) if isinstance(op, BufferStore) else None)
    (index,) = found[0].indices
    names: dict[str, Var] = {}
    post_order_visit(index, lambda op: names.setdefault(op.name, op) if isinstance(op, Var) else None)
    body = Evaluate(Call(Op.get("tir.ret"), (index,), index.dtype))
    position = PrimFunc((names["i"], names["j"]), {}, index.dtype, {}, body)
    for i, j in ((0, 0), (1, 2), (40000, 3), (65535, 65535)):
        assert interpret(position, i, j) == i * 65536 + j


def test_digits_of_one_number_by_symbolic_extents_are_that_number() -> None:
    @T.prim_func
    def before(a: T.handle, b: T.handle, n: T.int32, m: T.int32):
        A = T.match_buffer(a, (4, n, m), "float32")
        B = T.match_buffer(b, (4, n, m), "float32")
        for i in range(n * m * 4):
            B[i // (n * m), i % (n * m) // m, i % m] = A[i // (n * m), i // m % n, i % m] + T.float32(1)

    @T.prim_func
    def expected(a: T.handle, b: T.handle, n: T.int32, m: T.int32):
        A = T.match_buffer(a, (4, n, m), "float32")
        B = T.match_buffer(b, (4, n, m), "float32")
        A_1 = T.decl_buffer((n * m * 4,), "float32", data=A.data)
        B_1 = T.decl_buffer((n * m * 4,), "float32", data=B.data)
        for i in range(n * m * 4):
            B_1[i] = A_1[i] + T.float32(1)

    check(FlattenBuffer(), before, expected)


@pytest.mark.parametrize("index", ["i // m, i % n", "i % n, i // n", "(i + 1) // m, i % m", "i // (m + 1), i % m"])
def test_digits_of_different_numbers_stay(index: str) -> None:
    func = parse(f"""
def digits(n: T.int32, m: T.int32, A: T.Buffer((n, m), "int32")):
    for i in range(n * m):
        if T.And({index.split(", ")[0]} < n, {index.split(", ")[1]} < m):
            A[{index}] = i
""")
    assert "A_1[i]" not in check(FlattenBuffer(), func).script()


def test_symbolic_strides_stand_by_their_loops() -> None:
    @T.prim_func
    def before(a: T.handle, n: T.int32, m: T.int32):
        A = T.match_buffer(a, (n, m, 4), "int32")
        for i, j, k in T.grid(n, m, 4):
            A[i, j, k] = A[i, m - 1 - j, k] * 2 + i

    after = check(FlattenBuffer(), before)
    assert "A_1[i * (m * 4) + j * 4 + k] = " in after.script()


def test_a_buffer_without_data_in_scope_is_refused() -> None:
    @T.prim_func(check_well_formed=False)
    def func(A: T.Buffer((8,), "int32")):
        B = T.Buffer((2, 4), "int32")
        for i in range(8):
            A[i] = B[0, i]

    with pytest.raises(TransformError, match="buffer 'B' is used before its definition"):
        FlattenBuffer()(func)
