"""VectorizeLoop: accesses, bindings, memory, calls, inner loops and tails."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check, executes_alike
from tests.transforms.loops.vectorized import loops
from tirlower.diagnostics import TransformError
from tirlower.interp import interpret, register_extern
from tirlower.ir import BufferLoad, BufferStore, For, PrimFunc, Var, decl_buffer
from tirlower.script import tir as T
from tirlower.transforms import PassContext, VectorizeLoop


@pytest.mark.parametrize("extent", [0, 1, 2, 5, 16])
def test_extents(extent: int) -> None:
    @T.prim_func
    def before(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        for i in T.vectorized(extent):
            A[i] = B[i] * T.float32(2) + T.Cast("float32", i)
        A[31] = T.float32(0)

    assert loops(check(VectorizeLoop(), before)) == 0


def test_contiguous_accesses_become_ramps() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(16):
            for j in T.vectorized(4):
                A[i * 4 + j] = B[i * 4 + j] + T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(16):
            A[i * 4 : i * 4 + 4] = B[i * 4 : i * 4 + 4] + T.Broadcast(T.float32(1), 4)

    check(VectorizeLoop(), before, expected)


def test_strided_reversed_gathered_and_scattered_accesses() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), P: T.Buffer((8,), "int32"), n: T.int32):
        for i in T.vectorized(8):
            P[i] = (i * 3) % 8
        for i in T.vectorized(8):
            A[i * 3] = i
            A[63 - i] = A[i * 3] + n
            A[P[i] + 24] = A[P[i] * 2] + i * n
            A[i * -1 + 40] = i

    assert loops(check(VectorizeLoop(), before)) == 0


def test_a_minimum_other_than_zero() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int64"), n: T.int32):
        for i in T.vectorized(n, n + 4):
            A[i - n + 2] = T.Cast("int64", i)

    assert loops(check(VectorizeLoop(), before)) == 0


def test_bindings_become_vectors() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "float32"), n: T.int32):
        for i in T.vectorized(4):
            v: T.float32 = A[i] + T.float32(1)
            w: T.int32 = n + 1
            A[i] = v * v + T.Cast("float32", w)

    @T.prim_func
    def expected(A: T.Buffer((4,), "float32"), n: T.int32):
        v: T.float32x4 = A[0:4] + T.Broadcast(T.float32(1), 4)
        w: T.int32 = n + 1
        A[0:4] = v * v + T.Broadcast(T.Cast("float32", w), 4)

    check(VectorizeLoop(), before, expected)


def test_let_expressions_and_shared_operands() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        for i in T.vectorized(8):
            y = T.int32()
            A[i] = T.Let(y * y + i, where={y: A[i] + 1})

    assert loops(check(VectorizeLoop(), before)) == 0
    # e + e, thirty times over, is thirty operations and not a billion.
    A, a, i = decl_buffer((8,), "int32", "A"), Var("a", "handle"), Var("i", "int32")
    value = BufferLoad(A, (i,))
    for _ in range(30):
        value = value + value
    func = PrimFunc((a,), {a: A}, None, {}, For(i, 0, 8, "vectorized", None, {}, BufferStore(A, value, (i,))))
    assert loops(VectorizeLoop()(func)) == 0


def test_allocations_get_a_part_for_each_lane() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in T.vectorized(8):
            C = T.alloc_buffer((3,), "int32")
            V = T.decl_buffer((1, 3), "int32", data=C.data)
            S = T.alloc_buffer((), "int32")
            for k in range(3):
                C[k] = A[i] * k
            S[()] = C[0] + V[0, 2]
            if B[i] > 0:
                S[()] = S[()] + C[1]
            B[i] = S[()]

    after = check(VectorizeLoop(), before)
    assert "T.alloc_buffer((24,)" in after.script() and "T.alloc_buffer((8,)" in after.script()


def test_an_allocation_whose_address_is_taken_runs_lane_by_lane() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        for i in T.vectorized(4):
            C = T.alloc_buffer((2,), "int32")
            T.evaluate(T.call_extern("handle", "memset", T.address_of(C[0]), 1, 8))
            A[i] = C[1] + i

    after = check(VectorizeLoop(), before)
    assert "for i_s in range(4)" in after.script()


def test_calls_lane_by_lane_or_not_at_all() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "int32"), n: T.int32):
        for i in T.vectorized(8):
            A[i] = T.fabs(A[i]) + T.pow(T.float32(2), T.Cast("float32", i))
            B[i] = T.popcount(B[i]) + T.shift_left(i, 1) + T.clz(n)
            B[i] = B[i] + T.reinterpret("int32", A[i])
            A[i] = T.call_llvm_pure_intrin("float32", "llvm.fabs", A[i] - T.float32(3))
            T.evaluate(T.call_extern("handle", "memset", T.address_of(B[i]), i, 1))
            A[i] = A[i] + T.call_extern("float32", "fabsf", T.float32(-1))

    after = check(VectorizeLoop(), before)
    assert loops(after) == 2


def test_the_number_of_arguments_in_a_call_of_llvm_stays_one_number() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "uint32")):
        for i in T.vectorized(8):
            A[i] = T.call_llvm_pure_intrin("float32", "llvm.maxnum", T.uint32(2), A[i], A[7 - i])
            # Here the number is the function's own.
            B[i] = T.call_llvm_pure_intrin("uint32", "llvm.umax", T.uint32(3), B[i])

    text = check(VectorizeLoop(), before, execute=False).script()
    assert '"llvm.maxnum", T.uint32(2), A[0:8], ' in text
    assert '"llvm.umax", T.Broadcast(T.uint32(3), 8), B[0:8])' in text


def test_attributes_of_other_things_than_the_loop_stay() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "float32")):
        for i in T.vectorized(8):
            with T.attr(A.data, "tir.nontemporal", T.bool(True)):
                A[i] = T.float32(1)

    after = check(VectorizeLoop(), before)
    assert "tir.nontemporal" in after.script() and loops(after) == 0


def test_calls_with_effects_run_once_for_each_lane() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        for i in T.vectorized(4):
            A[i] = T.call_extern("int32", "next_number")
            T.evaluate(T.call_extern("int32", "next_number"))

    counts = []
    for func in (before, VectorizeLoop()(before)):
        calls: list[int] = []
        before_fn = register_extern("next_number", lambda calls=calls: calls.append(1) or len(calls))
        interpret(func, np.zeros(4, "int32"))
        register_extern("next_number", before_fn)
        counts.append(len(calls))
    assert counts == [8, 8]


def test_inner_serial_loops() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 8), "int32"), n: T.int32):
        V = T.decl_buffer((32,), "int32", data=A.data)
        for i in T.vectorized(8):
            for k in range(n % 4):
                V[k * 8 + i] = V[k * 8 + i] + k
            for k in range(i % 4):
                V[k * 8 + i] = V[k * 8 + i] * 3
            while V[i] > 10:
                V[i] = V[i] // 2
            for k in range(3):
                if V[k] > 100:
                    T.evaluate(T.break_loop())
                V[k * 8 + i] = V[k * 8 + i] + 1

    after = check(VectorizeLoop(), before)
    assert loops(after) == 6 and "for k in range(n % 4)" in after.script()


def test_vectors_inside_become_longer_ones() -> None:
    @T.prim_func
    def before(A: T.Buffer((32,), "float32"), B: T.Buffer((8,), "float32")):
        for i in T.vectorized(4):
            A[i * 8 : i * 8 + 8] = T.Broadcast(B[i], 8) + B[0:8] * T.Broadcast(T.float32(2), 8)
        for i in T.vectorized(2):
            A[T.Ramp(i, 3, 4)] = A[T.Ramp(i * 4, 1, 4)] + T.Cast("float32x4", T.Ramp(i, 2, 4))
            B[i] = T.Shuffle([A[i * 4 : i * 4 + 4], A[0:4]], [5])

    after = check(VectorizeLoop(), before)
    assert loops(after) == 0 and "A[0:32]" in after.script()


def test_buffers_of_vectors() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "float32x4"), B: T.Buffer((4,), "float32x4")):
        for i in T.vectorized(4):
            A[i] = T.Broadcast(T.float32(1), 4)
        for i in T.vectorized(2):
            B[i + 2] = A[i] + B[1 - i]

    @T.prim_func
    def expected(A: T.Buffer((4,), "float32x4"), B: T.Buffer((4,), "float32x4")):
        A[0:4] = T.Broadcast(T.float32(1), 16)
        B[2:4] = A[0:2] + B[T.Ramp(1, -1, 2)]

    check(VectorizeLoop(), before, expected)


def test_several_dtypes_and_casts_between_widths() -> None:
    @T.prim_func
    def before(
        A: T.Buffer((8,), "int8"),
        B: T.Buffer((8,), "float16"),
        C: T.Buffer((8,), "bfloat16"),
        D: T.Buffer((8,), "bool"),
        E: T.Buffer((8,), "uint64"),
    ):
        for i in T.vectorized(8):
            B[i] = T.Cast("float16", A[i])
            C[i] = T.Cast("bfloat16", T.Cast("float32", B[i]))
            D[i] = (A[i] > T.int8(3) and not D[i]) or A[i] == T.Cast("int8", i)
            E[i] = T.Cast("uint64", T.Cast("int64", A[i])) * T.uint64(3) + T.Cast("uint64", D[i])

    assert loops(check(VectorizeLoop(), before)) == 0


def test_stores_to_one_place_and_reads_of_one() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), B: T.Buffer((2,), "int32")):
        for i in T.vectorized(8):
            B[0] = A[i]
            A[i] = B[0] + B[1]
            B[1] = 3

    after = check(VectorizeLoop(), before)
    assert "B[1] = 3" in after.script()


def test_views_of_the_lane_and_multi_dimensional_indices_run_lane_by_lane() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4), "int32")):
        for i in T.vectorized(4):
            A[i, 2] = i
            A[2, i] = i + 1
        for i in T.vectorized(4):
            V = T.decl_buffer((4,), "int32", data=A.data, elem_offset=i * 4)
            V[1] = i
            A[0, i] = V[3]

    after = check(VectorizeLoop(), before)
    assert "A[2, 0:4] = T.Ramp(1, 1, 4)" in after.script() and loops(after) == 2


def test_asserts_attributes_and_nested_scopes() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), n: T.int32):
        for i in T.vectorized(4):
            assert n >= 0, "n"
            assert A[i] < 1000, "A"
            with T.attr(0, "pragma_x", 1):
                x: T.int32 = A[i]
                A[i] = x + n
            if n > 2:
                x: T.int32 = A[i] * 2
                A[i] = x

    assert loops(check(VectorizeLoop(), before)) == 1


def test_disabled_loops_become_serial() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), n: T.int32):
        for i in T.vectorized(16):
            A[i] = i
        for i in T.vectorized(n):
            A[i] = A[i] + 1

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32"), n: T.int32):
        for i in range(16):
            A[i] = i
        for i in range(n):
            A[i] = A[i] + 1

    check(VectorizeLoop(False), before, expected)
    check(VectorizeLoop(enable_vectorize=False), before, expected)
    with PassContext(config={"tir.disable_vectorize": True}):
        check(VectorizeLoop(), before, expected)


def test_a_vectorized_loop_inside_another_runs_in_turn() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), n: T.int32):
        for i in T.vectorized(4):
            for j in T.vectorized(4):
                if j < n:
                    A[i * 4 + j] = A[i * 4 + j] + i

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32"), n: T.int32):
        for j in range(4):
            if j < n:
                A[T.Ramp(j, 4, 4)] = A[T.Ramp(j, 4, 4)] + T.Ramp(0, 1, 4)

    check(VectorizeLoop(), before, expected)


def test_what_is_refused() -> None:
    @T.prim_func
    def symbolic(A: T.Buffer(("n",), "int32")):
        for i in T.vectorized(n):
            A[i] = i

    with pytest.raises(TransformError, match="cannot vectorize loop 'i': its extent n is not a constant"):
        VectorizeLoop()(symbolic)

    @T.prim_func
    def block(A: T.Buffer((16,), "int32")):
        for i in T.vectorized(16):
            with T.block("A"):
                v = T.axis.spatial(16, i)
                A[v] = v

    with pytest.raises(TransformError, match="run LowerOpaqueBlock and FlattenBuffer before VectorizeLoop"):
        VectorizeLoop()(block)

    @T.prim_func
    def leaving(A: T.Buffer((16,), "int32")):
        for i in T.vectorized(16):
            if A[i] > 3:
                T.evaluate(T.break_loop())
            A[i] = i

    with pytest.raises(TransformError, match="a lane may break, continue or return alone"):
        VectorizeLoop()(leaving)


def test_nothing_to_vectorize() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        for i in range(16):
            A[i] = i

    check(VectorizeLoop(), before, before)


def test_an_assertion_tests_all_lanes_at_once() -> None:
    @T.prim_func
    def before(A: T.Buffer((9,), "int32"), B: T.Buffer((9,), "int32")):
        for i in T.vectorized(9):
            assert A[i] < 7, "small"
            B[i] = A[i]

    after = check(VectorizeLoop(), before, inputs=[[np.arange(9, dtype="int32") % 7, np.zeros(9, "int32")]])
    assert loops(after) == 1  # which lane failed is looked for when one has
    b = np.zeros(9, "int32")
    with pytest.raises(tl.RuntimeAssertError, match="small"):
        tl.interpret(after, np.arange(9, dtype="int32"), b)
    assert not b.any()


def test_a_view_of_another_type_is_read_lane_by_lane() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), C: T.Buffer((4, 8), "int8")):
        for i in T.vectorized(4):
            B = T.alloc_buffer((2,), "int32")
            V = T.decl_buffer((8,), "int8", data=B.data)
            B[0] = A[i]
            B[1] = A[i] * 3
            for j in range(8):
                C[i, j] = V[7 - j]

    check(VectorizeLoop(), before)


@pytest.mark.parametrize("n", [0, 1, 7, 15, 16, 17, 48, 53])
def test_a_symbolic_extent_has_a_serial_tail(n) -> None:
    @T.prim_func
    def before(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float64"), C: T.Buffer(("n",), "float32")):
        for i in T.vectorized(n):
            t: T.float32 = A[i] * T.float32(2)
            if A[i] > T.float32(0):
                C[i] = t
            B[i] = T.Cast("float64", t)

    after = check(VectorizeLoop(predicate=True, tail=True), before, sizes=(n,))
    assert loops(after) == 2
    a = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    b, c = np.empty(n), np.zeros(n, np.float32)
    tl.build(before, schedule="none")(a, b, c)
    np.testing.assert_array_equal(b, a * np.float32(2))
    np.testing.assert_array_equal(c, np.where(a > 0, a * np.float32(2), 0))


def test_a_tail_of_a_loop_that_does_not_start_at_zero() -> None:
    @T.prim_func
    def before(A: T.Buffer((80,), "int16"), m: T.int32, n: T.int32):
        for k in range(2):
            for i in T.vectorized(T.min(T.max(m, 0), 7), T.min(T.max(n, 8), 80)):
                s = T.alloc_buffer((2,), "int16", scope="local")
                s[k] = A[i] + T.Cast("int16", i)
                A[i] = s[k]

    check(VectorizeLoop(tail=True), before)
    executes_alike(before, VectorizeLoop(predicate=True, tail=True)(before))
