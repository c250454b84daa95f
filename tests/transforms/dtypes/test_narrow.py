from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.checking import check, same_function
from tirlower.diagnostics import TransformError
from tirlower.interp import interpret
from tirlower.ir import For, IRModule, PrimFunc, pre_order_visit
from tirlower.ir.verify import verify_well_formed
from tirlower.script import ir as I
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import ForceNarrowIndexToInt32, NarrowDataType


def loop_dtypes(func: PrimFunc) -> list[str]:
    """The dtypes of the loop variables, outermost first."""
    found: list[str] = []
    pre_order_visit(func.body, lambda op: found.append(str(op.loop_var.dtype)) if isinstance(op, For) else None)
    return found


def copied(m: Any, n: Any, extra: str = "") -> PrimFunc:
    """A copy between flat arrays of m * n elements, with the extents as they are written."""
    return parse(f"""
@T.prim_func
def f(A: T.Buffer(({m} * {n},), "float32"), B: T.Buffer(({m} * {n},), "float32"){extra}):
    for i, j in T.grid({m}, {n}):
        B[i * {n} + j] = A[i * {n} + j] + T.float32(1)
""")


@pytest.mark.parametrize(
    ("m", "n", "bits", "wanted"),
    [
        ("2", "2", 32, "int32"),
        ("T.int64(2)", "T.int64(2)", 32, "int32"),
        ("T.int64(65536)", "T.int64(65536)", 32, "int64"),
        ("T.int64(65536)", "T.int64(32768)", 32, "int32"),
        ("T.int64(65536)", "T.int64(32769)", 32, "int64"),
        ("2", "2", 16, "int16"),
        ("1024", "1024", 16, "int32"),
        ("T.int64(181)", "T.int64(181)", 16, "int16"),
        ("T.int64(128)", "T.int64(257)", 16, "int64"),
        ("T.int64(8)", "T.int64(13)", 8, "int8"),
    ],
)
def test_constant_extents_decide(m: str, n: str, bits: int, wanted: str) -> None:
    before = copied(m, n)
    small = eval(m.replace("T.int64", "")) * eval(n.replace("T.int64", "")) < 1000
    after = check(NarrowDataType(bits), before, execute=small)
    assert loop_dtypes(after) == [wanted, wanted]
    if wanted == loop_dtypes(before)[0]:
        assert after is before


def test_symbolic_int64_extents_stay_wide() -> None:
    @T.prim_func
    def before(A: T.Buffer((T.int64(8),), "float32"), n: T.int64):
        for i in range(n):
            A[i] = T.float32(1)

    check(NarrowDataType(32), before, before, sizes=(0, 1, 5, 8))


def test_an_assert_bounds_a_symbolic_extent() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), n: T.int64):
        assert n >= T.int64(0) and n <= T.int64(8), "n"
        for i in range(n):
            A[i] = A[i] + T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((8,), "float32"), n: T.int64):
        assert n >= T.int64(0) and n <= T.int64(8), "n"
        for i in range(T.Cast("int32", n)):
            A[i] = A[i] + T.float32(1)

    check(NarrowDataType(32), before, expected, sizes=(1, 5, 8))


def test_conditions_and_lazy_arms_are_narrowed() -> None:
    @T.prim_func
    def before(A: T.Buffer((128,), "float32"), B: T.Buffer((130,), "float32")):
        for i, j in T.grid(T.int64(2), T.int64(65)):
            if i * T.int64(65) + j >= T.int64(0) and i * T.int64(65) + j < T.int64(128):
                A[i * T.int64(65) + j] = T.float32(0)
        for k, l in T.grid(T.int64(2), T.int64(65)):
            B[k * T.int64(65) + l] = T.if_then_else(
                k * T.int64(65) + l >= T.int64(0) and k * T.int64(65) + l < T.int64(128),
                A[k * T.int64(65) + l],
                T.float32(3),
            )

    @T.prim_func
    def expected(A: T.Buffer((128,), "float32"), B: T.Buffer((130,), "float32")):
        for i, j in T.grid(2, 65):
            if i * 65 + j >= 0 and i * 65 + j < 128:
                A[i * 65 + j] = T.float32(0)
        for k, l in T.grid(2, 65):
            B[k * 65 + l] = T.if_then_else(k * 65 + l >= 0 and k * 65 + l < 128, A[k * 65 + l], T.float32(3))

    check(NarrowDataType(32), before, expected)


def test_the_index_of_a_wide_load_is_narrow() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int64")):
        for i in range(T.int64(15)):
            A[i + T.int64(1)] = A[i] + T.int64(1)

    @T.prim_func
    def expected(A: T.Buffer((16,), "int64")):
        for i in range(15):
            A[i + 1] = A[i] + T.int64(1)

    check(NarrowDataType(32), before, expected)


def test_a_wide_intermediate_keeps_its_operands_wide() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        for i in range(T.int64(8)):
            A[i] = T.Cast("int32", i * T.int64(4000000000) // T.int64(4000000000))

    after = check(NarrowDataType(32), before, before)
    out = np.zeros(8, "int32")
    interpret(after, out)
    np.testing.assert_array_equal(out, np.arange(8))


def test_a_quotient_that_overflows_stays_wide() -> None:
    # -2**31 // -1 is 2**31: the operands fit, the quotient does not.
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int64")):
        for i in range(4):
            B[i] = T.Cast("int64", A[i]) // T.int64(-1)

    lowest = np.array([-(2**31), 2**31 - 1, 0, -1], "int32")
    check(NarrowDataType(32), before, before, inputs=[[lowest, np.zeros(4, "int64")]])


def test_bounded_data_is_computed_in_the_narrow_type() -> None:
    @T.prim_func
    def before(A: T.Buffer((7,), "int8"), B: T.Buffer((7,), "int8"), C: T.Buffer((7,), "int64")):
        for i in range(T.int64(7)):
            C[i] = T.Cast("int64", A[i]) * T.Cast("int64", B[i]) + T.int64(3)

    @T.prim_func
    def expected(A: T.Buffer((7,), "int8"), B: T.Buffer((7,), "int8"), C: T.Buffer((7,), "int64")):
        for i in range(7):
            C[i] = T.Cast("int64", T.Cast("int32", A[i]) * T.Cast("int32", B[i]) + 3)

    check(NarrowDataType(32), before, expected)


def test_block_iterators_and_their_bindings() -> None:
    @T.prim_func
    def before(A: T.Buffer((T.int64(128),), "float32"), B: T.Buffer((T.int64(128),), "float32")):
        for i in range(T.int64(16)):
            for j in range(T.int64(8)):
                with T.block("B"):
                    vi = T.axis.spatial(T.int64(128), i * T.int64(8) + j)
                    T.reads(A[vi])
                    T.writes(B[vi])
                    B[vi] = A[vi] + T.float32(1)

    after = check(NarrowDataType(32), before)
    assert loop_dtypes(after) == ["int32", "int32"]
    text = after.script()
    assert "T.axis.spatial(128, i * 8 + j)" in text


def test_vectors_and_strides() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "int64")):
        for i in range(T.int64(8)):
            A[T.Ramp(i * T.int64(8), T.int64(1), 8)] = T.Broadcast(T.float32(2), 8)
            B[T.Ramp(T.int64(56) - i * T.int64(8), T.int64(1), 8)] = T.Ramp(i, T.int64(2), 8)

    after = check(NarrowDataType(32), before)
    assert loop_dtypes(after) == ["int32"]
    assert "T.int64" not in after.script()


def test_bindings_take_the_type_of_their_value() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), n: T.int64):
        for i in range(T.int64(8)):
            start: T.int64 = i * T.int64(8)
            far: T.int64 = n * T.int64(8)
            A[start] = T.Cast("float32", far + start)

    after = check(NarrowDataType(32), before)
    text = after.script()
    assert "start: T.int32 = i * 8" in text or "start: T.int32" in text
    assert "far: T.int64" in text


def test_shifts_keep_their_width_where_the_amount_needs_it() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int64")):
        for i in range(T.int64(64)):
            A[i] = T.shift_right(T.int64(7) - i, i) + T.shift_right(i, T.int64(2)) + T.bitwise_and(i, T.int64(12))

    check(NarrowDataType(32), before)

    @T.prim_func
    def small(A: T.Buffer((32,), "int64")):
        for i in range(T.int64(31)):
            A[i] = T.shift_right(T.int64(7) - i, i)

    after = check(NarrowDataType(32), small)
    assert loop_dtypes(after) == ["int32"]
    for amount in (31, 32, 33):
        whole = parse(f"""
@T.prim_func
def f(A: T.Buffer((31,), "int32")):
    for i in range(T.int64(31)):
        A[i] = T.Cast("int32", T.shift_right(T.int64(7) - i, T.int64({amount})))
""")
        after = check(NarrowDataType(32), whole)
        assert ("T.int64" in after.script()) is (amount > 31)


def test_while_views_calls_and_nonzero_minimums() -> None:
    @T.prim_func
    def before(A: T.Buffer((40,), "int32"), k: T.int32):
        V = T.decl_buffer((20,), "int32", data=A.data, elem_offset=20)
        n = T.alloc_buffer((1,), "int32")
        n[0] = k
        while n[0] > 0:
            n[0] = n[0] - 1
            for i in range(T.int64(-3), T.int64(5)):
                V[i + T.int64(3)] = V[i + T.int64(4)] + T.Cast("int32", i)
        T.evaluate(T.call_extern("int32", "abs", A[3]))
        for j in range(T.int64(2)):
            T.call_extern("int64", "labs", j)

    after = check(NarrowDataType(32), before, sizes=(0, 1, 3))
    text = after.script()
    assert "range(-3, 5)" in text or "T.serial(-3, 5)" in text
    # The callee takes an int64, so it gets one (its loop keeps the type that the use asks for).
    assert '"labs", j)' in text or 'T.Cast("int64", j)' in text


def test_extents_of_allocations_follow_renewed_variables() -> None:
    @T.prim_func
    def before(A: T.Buffer((5,), "float32")):
        for i in range(T.int64(5)):
            B = T.alloc_buffer((i + T.int64(1),), "float32")
            for j in range(i + T.int64(1)):
                B[j] = T.Cast("float32", j)
            A[i] = B[i]

    after = check(NarrowDataType(32), before)
    assert loop_dtypes(after) == ["int32", "int32"]


def test_empty_and_single_loops() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "float32")):
        for i in range(T.int64(0)):
            A[i] = T.float32(1)
        for i in range(T.int64(1)):
            A[i + T.int64(3)] = T.float32(2)

    after = check(NarrowDataType(32), before)
    assert loop_dtypes(after) == ["int32", "int32"]


def test_a_wrong_width_is_refused() -> None:
    with pytest.raises(TransformError, match="target_bits"):
        NarrowDataType(0)(copied("2", "2"))


def test_statements_in_sequence_cost_linear_time() -> None:
    lines = "\n".join(
        f"    for i{k} in range(T.int64(4)):\n        A[i{k} + T.int64({k})] = T.float32(1)" for k in range(300)
    )
    func = parse(f"@T.prim_func\ndef f(A: T.Buffer((400,), 'float32')):\n{lines}\n")
    after = NarrowDataType(32)(func)
    assert set(loop_dtypes(after)) == {"int32"}


# ---------------------------------------------------------------- forced


def test_forced_parameters_sizes_and_selects() -> None:
    @T.prim_func
    def before(A: T.Buffer((T.int64(4),), "float32"), B: T.Buffer((T.int64(4),), "float32"), n: T.int64):
        for i in range(T.int64(4)):
            with T.block("C"):
                vi = T.axis.spatial(T.int64(4), i)
                T.reads(A[vi])
                T.writes(B[vi])
                B[vi] = T.Select(vi >= T.int64(1), A[vi], T.Cast("float32", n))

    @T.prim_func
    def expected(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), n: T.int32):
        for i in range(4):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                T.reads(A[vi])
                T.writes(B[vi])
                B[vi] = T.Select(vi >= 1, A[vi], T.Cast("float32", n))

    check(ForceNarrowIndexToInt32(), before, expected)


def test_forced_symbolic_shapes_with_strides() -> None:
    n, m = T.SizeVar("n", "int64"), T.SizeVar("m", "int64")

    @T.prim_func
    def before(a: T.handle, b: T.handle):
        n = T.int64()
        m = T.int64()
        s = T.int64()
        A = T.match_buffer(a, (n, m), "float32", strides=(s, T.int64(1)))
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            B[i] = T.float32(0)
            for j in range(m):
                B[i] = B[i] + A[i, j]

    after = check(ForceNarrowIndexToInt32(), before)
    assert loop_dtypes(after) == ["int32", "int32"]
    assert "int64" not in after.script()


def test_forced_leaves_wide_data_alone() -> None:
    @T.prim_func
    def before(A: T.Buffer((T.int64(6),), "int32"), B: T.Buffer((T.int64(6),), "int32")):
        for i in range(T.int64(6)):
            B[i] = T.Cast(
                "int32", T.shift_right(T.Cast("int64", A[i]) * T.Cast("int64", B[i]) + T.int64(1), T.int64(31))
            )

    big = np.array([2**31 - 1, -(2**31), 12345678, -87654321, 0, 1], "int32")
    after = check(ForceNarrowIndexToInt32(), before, inputs=[[big, big[::-1].copy()]])
    assert loop_dtypes(after) == ["int32"]


def test_forced_conditions_on_data_stay_exact() -> None:
    @T.prim_func
    def before(A: T.Buffer((T.int64(4),), "int32"), B: T.Buffer((T.int64(4),), "int32")):
        for i in range(T.int64(4)):
            if T.Cast("int64", A[i]) * T.Cast("int64", A[i]) > T.int64(2000000000):
                B[i] = 1

    big = np.array([2**31 - 1, -(2**31), 50000, 3], "int32")
    check(ForceNarrowIndexToInt32(), before, inputs=[[big, np.zeros(4, "int32")]])


def test_forced_calls_of_narrowed_functions() -> None:
    @I.ir_module
    class before:
        @T.prim_func
        def main(A: T.Buffer((T.int64(4),), "float32"), n: T.int64):
            for i in range(T.int64(4)):
                before.fill(A.data, i, n + i)

        @T.prim_func(private=True)
        def fill(p: T.handle("float32"), i: T.int64, n: T.int64):
            A = T.decl_buffer((T.int64(4),), "float32", data=p)
            A[i] = T.Cast("float32", n)

    after = check(ForceNarrowIndexToInt32(), before)
    assert [str(p.dtype) for p in after["fill"].params] == ["handle", "int32", "int32"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('(A: T.Buffer((128,), "int64")):\n    A[0] = T.int64(1)', "holds int64"),
        (
            '(A: T.Buffer((4,), "float32")):\n    B = T.alloc_buffer((4,), "int64")\n    B[0] = T.int64(1)',
            "holds int64",
        ),
        ('(A: T.Buffer((4,), "float32")):\n    A[0] = T.Cast("float32", T.int64(2147483648))', "2147483648"),
        (
            '(A: T.Buffer((T.int64(65536), T.int64(65536)), "int8")):\n    A[T.int64(0), T.int64(0)] = T.int8(0)',
            "elements",
        ),
        (
            '(A: T.Buffer((4,), "float32")):\n    for i, j in T.grid(T.int64(65536), T.int64(65536)):\n'
            "        A[i * T.int64(65536) + j] = T.float32(0)",
            "reaches",
        ),
    ],
)
def test_forced_errors(body: str, text: str) -> None:
    func = parse(f"@T.prim_func\ndef f{body}\n")
    with pytest.raises(TransformError, match=text):
        ForceNarrowIndexToInt32()(func)


def test_forced_int32_programs_come_back_as_they_are() -> None:
    @T.prim_func
    def before(A: T.Buffer(("n",), "float32"), B: T.Buffer((4,), "uint64")):
        for i in range(n):
            A[i] = T.Cast("float32", i + n) + T.Cast("float32", B[i % 4])

    check(ForceNarrowIndexToInt32(), before, before)
    check(NarrowDataType(32), before, before)


def test_forced_returns_keep_their_type() -> None:
    @T.prim_func
    def before(n: T.int64) -> T.int64:
        T.ret(n + T.int64(1))

    after = ForceNarrowIndexToInt32()(before)
    verify_well_formed(after)
    assert interpret(before, 2**31 - 1) == interpret(after, 2**31 - 1) == 2**31


def test_module_of_several_functions() -> None:
    @I.ir_module
    class before:
        @T.prim_func
        def one(A: T.Buffer((4,), "float32")):
            for i in range(T.int64(4)):
                A[i] = T.float32(1)

        @T.prim_func
        def two(A: T.Buffer((4,), "float32")):
            for i in range(4):
                A[i] = T.float32(2)

    after = check(NarrowDataType(32), before)
    assert isinstance(after, IRModule)
    assert after["two"] is before["two"]
    same_function(after["two"], before["two"])


@pytest.mark.parametrize("narrow", [NarrowDataType(32), ForceNarrowIndexToInt32()])
def test_leading_zeros_are_counted_in_the_old_width(narrow) -> None:
    @T.prim_func
    def before(B: T.Buffer((4,), "int32")):
        for i in T.serial(T.int64(4)):
            B[i] = T.clz(i + T.int64(1)) * 1000 + T.clz(i - T.int64(2))

    @T.prim_func
    def expected(B: T.Buffer((4,), "int32")):
        for i in T.serial(4):
            B[i] = (T.clz(i + 1) - 32 + 64) * 1000 + T.clz(T.Cast("int64", i - 2))

    after = check(narrow, before, expected)
    out = np.zeros(4, "int32")
    interpret(after, out)
    assert list(out) == [63000, 62000, 62064, 61063]
