from __future__ import annotations

import numpy as np
import pytest

from tests.checking import check
from tirlower.diagnostics import TransformError
from tirlower.interp import interpret
from tirlower.rewrite.decide import SizeBudget
from tirlower.script import tir as T
from tirlower.transforms import (
    HoistedConditionals,
    HoistedLetBindings,
    HoistExpression,
    HoistIfThenElse,
    PassContext,
)
from tirlower.transforms.loops import hoist


def flags(conditionals: int, lets: int = 0) -> HoistExpression:
    return HoistExpression(hoisted_conditionals=conditionals, hoisted_let_bindings=lets)


def test_an_if_goes_out_of_the_loops_that_it_does_not_use() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 5, 6), "int32"), n: T.int32):
        for i, j, k in T.grid(4, 5, 6):
            if i < n:
                A[i, j, k] = j + k

    @T.prim_func
    def expected(A: T.Buffer((4, 5, 6), "int32"), n: T.int32):
        for i in range(4):
            if i < n:
                for j, k in T.grid(5, 6):
                    A[i, j, k] = j + k

    check(HoistIfThenElse(), before, expected)
    check(HoistIfThenElse("basic"), before, expected)
    check(HoistExpression(), before, expected)


def test_beside_other_statements_a_condition_stays() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), n: T.int32):
        for i in range(8):
            A[i] = A[i] + 1
            for j in range(3):
                if n > 3:
                    A[i] = A[i] * 2

    @T.prim_func
    def expected(A: T.Buffer((8,), "int32"), n: T.int32):
        for i in range(8):
            A[i] = A[i] + 1
            if 3 < n:
                for j in range(3):
                    A[i] = A[i] * 2

    check(HoistIfThenElse(), before, expected)


def test_beside_declarations_and_asserts_a_condition_goes() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), n: T.int32):
        for i in range(8):
            B = T.alloc_buffer((1,), "int32")
            x: T.int32 = A[i]
            assert x < 2000000, "too large"
            if n > 3:
                B[0] = x + 1
                A[i] = B[0] * 2

    @T.prim_func
    def expected(A: T.Buffer((8,), "int32"), n: T.int32):
        if 3 < n:
            for i in range(8):
                B = T.alloc_buffer((1,), "int32")
                x: T.int32 = A[i]
                assert x < 2000000, "too large"
                B[0] = x + 1
                A[i] = B[0] * 2
        else:
            for i in range(8):
                x: T.int32 = A[i]
                assert x < 2000000, "too large"

    inputs = [(np.arange(8, dtype="int32"), n) for n in (2, 4)]
    check(HoistIfThenElse(), before, expected, inputs=inputs)


def test_two_conditions_give_four_loops_and_equal_ones_two() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), n: T.int32, m: T.int32):
        for i in range(8):
            if n > 3:
                if m > 3:
                    A[i] = A[i] * 2
                else:
                    A[i] = A[i] - 9
            else:
                if m > 3:
                    A[i] = A[i] - 7
                elif n > 3:
                    A[i] = A[i] + 1
                else:
                    A[i] = A[i] + 3

    text = check(HoistIfThenElse(), before, samples=6).script()
    assert text.count("for i ") == 4


def test_each_condition_stops_at_its_own_loop() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4, 4), "int32"), n: T.int32):
        for i in range(4):
            if n > 2:
                for j in range(4):
                    if i + j > n:
                        for k in range(4):
                            if i > 1:
                                if k > j:
                                    A[i, j, k] = A[i, j, k] + 1
                                else:
                                    A[i, j, k] = n

    text = check(HoistIfThenElse(), before, samples=6).script()
    assert text.index("2 < n") < text.index("for i") < text.index("1 < i") < text.index("for j")


@pytest.mark.parametrize("given", range(16))
def test_all_combinations_of_conditionals(given: int) -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4), "int32"), n: T.int32, m: T.int32):
        for i, j in T.grid(4, 4):
            if n > 1:
                A[i, j] = T.if_then_else(m > 1, j, i) + T.Select(m < 5, 1, n)
        for i, j in T.grid(4, 4):
            A[i, j] = T.Cast("int32", i > j and m + n > 6) + A[i, j] * 3

    text = check(flags(given), before, samples=6).script()
    first, last = text.splitlines()[2].strip(), text.split("i > j")[0] if "i > j" in text else text
    assert first.startswith("if") == bool(given & 3)
    assert ("6 < n + m:" in text or "6 < m + n:" in text) == bool(given & HoistedConditionals.BooleanExpression), last


@pytest.mark.parametrize("given", range(8))
def test_all_combinations_of_bindings(given: int) -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4), "float32"), n: T.int32, s: T.float32):
        y = T.float32()
        for i in range(4):
            x: T.float32 = s * T.float32(3)
            c: T.float32 = s + T.float32(1)
            for j in range(4):
                if c > T.float32(1):
                    A[i, j] = x + T.Let(y * y, where={y: s - T.float32(2)})

    text = check(flags(HoistedConditionals.IfElseStmt, given), before, samples=6).script()
    lines = text.splitlines()
    loop = next(index for index, line in enumerate(lines) if "for " in line and "before" not in line)
    outside = "\n".join(lines[:loop])
    assert ("x: " in outside) == bool(given & 2)
    assert ("y: " in outside) == bool(given & 4)
    assert ("c: " in outside) == bool(given & 3)


def test_what_reads_memory_or_may_fault_stays() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), n: T.int32):
        for i in range(8):
            if n != 0:
                for j in range(4):
                    if 12 // n > 2:
                        A[i] = A[i] + j
            for j in range(4):
                if A[0] > 3:
                    A[i] = A[i] + j
                if T.call_extern("int32", "abs", n) > 3:
                    A[i] = A[i] - j

    after = check(HoistExpression(), before, sizes=(1, 5))
    out = np.ones(8, "int32")
    interpret(after, out, 0)
    again = np.ones(8, "int32")
    interpret(before, again, 0)
    assert (out == again).all()


def test_conditions_on_bindings_go_with_them() -> None:
    @T.prim_func
    def before(A: T.Buffer((8, 8), "int32"), n: T.int32):
        for i in range(8):
            a: T.int32 = n * 3
            for j in range(8):
                if a > 2:
                    A[i, j] = A[i, j] + a + i

    alone = flags(HoistedConditionals.IfElseStmt, HoistedLetBindings.RequiredByConditional)
    text = check(alone, before).script()
    assert text.splitlines()[2].strip().startswith("if") or "n * 3" in text.splitlines()[2]
    never = check(flags(HoistedConditionals.IfElseStmt, HoistedLetBindings.Never), before, idempotent=False).script()
    assert never.splitlines()[2].strip().startswith("for")


def test_conditions_on_threads() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 8), "int32"), n: T.int32):
        for t in T.thread_binding(4, thread="threadIdx.x"):
            for k in range(8):
                if t < 3:
                    A[t, k] = k
                else:
                    A[t, k] = A[t, k] + n

    assert check(HoistIfThenElse(), before).script().count("for k") == 1
    # TIR's spelling, too.
    with PassContext(config={"tir.HoistIfThenElse": {"support_block_scope_hosting": True}}):
        assert check(HoistIfThenElse(), before).script().count("for k") == 2
    with PassContext(config={"tir.HoistIfThenElse": {"support_block_scope_hoisting": True}}):
        assert check(HoistIfThenElse(), before).script().count("for k") == 2
        assert check(HoistIfThenElse("basic"), before).script().count("for k") == 1
    assert check(flags(HoistedConditionals.All), before).script().count("for k") == 2


def test_a_condition_on_threads_stays_inside_barriers() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 8), "int32"), n: T.int32):
        for t in T.thread_binding(4, thread="threadIdx.x"):
            for k in range(8):
                if n > 3:
                    T.evaluate(T.tvm_storage_sync("shared"))
                    A[t, k] = T.if_then_else(t < 3, k, A[t, k] + 1)
            for k in range(8):
                A[t, k] = A[t, k] + T.if_then_else(t < 3, k, T.tvm_warp_activemask())

    text = check(flags(HoistedConditionals.All), before, execute=False).script()
    assert text.count("for k") == 2 and "if t < 3" not in text and "if 3 < n" in text


def test_the_launch_keeps_its_shape() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4), "int32"), n: T.int32):
        for b in T.thread_binding(4, thread="blockIdx.x"):
            for t in T.thread_binding(4, thread="threadIdx.x"):
                if n > 3:
                    A[b, t] = n

    check(HoistExpression(), before, None)
    lines = HoistExpression()(before).script().splitlines()
    assert "blockIdx" in lines[2] and "threadIdx" in lines[3]
    # Asked for, the whole launch stands under the condition.
    lines = check(flags(HoistedConditionals.All), before).script().splitlines()
    assert "3 < n" in lines[2] and "blockIdx" in lines[3] and "threadIdx" in lines[4]


def test_virtual_threads_are_loops() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 8), "int32"), n: T.int32):
        for v in T.thread_binding(4, thread="vthread"):
            for k in range(8):
                if v < n:
                    A[v, k] = k

    @T.prim_func
    def expected(A: T.Buffer((4, 8), "int32"), n: T.int32):
        for v in T.thread_binding(4, thread="vthread"):
            if v < n:
                for k in range(8):
                    A[v, k] = k

    check(HoistIfThenElse(), before, expected)


@pytest.mark.parametrize("extent", [0, 1, 7])
def test_loop_kinds_minimums_and_while(extent: int) -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "float64"), n: T.int32, m: T.int32):
        for i in T.parallel(2, 2 + extent):
            B = T.alloc_buffer((4,), "float64")
            for k in T.vectorized(4):
                B[k] = T.float64(1)
                if n > 2:
                    B[k] = B[k] + T.float64(3)
            A[i] = B[i % 4] * T.if_then_else(m > 3, T.float64(2), T.float64(5))
        i2: T.int32 = n + m
        while A[0] < T.float64(3):
            for j in range(1, m):
                if i2 > 6:
                    A[j % 16] = A[j % 16] + T.float64(1)
            A[0] = A[0] + T.float64(1)

    check(HoistExpression(), before, samples=6, sizes=(1, 2, 5))


def test_likely_marks_and_negations() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), n: T.int32):
        for i in range(8):
            if T.likely(n < 5):
                A[i] = 1
            elif not n < 5:
                A[i] = A[i] + 2
            elif n >= 5:
                A[i] = A[i] * 3

    @T.prim_func
    def expected(A: T.Buffer((8,), "int32"), n: T.int32):
        if T.likely(n < 5):
            for i in range(8):
                A[i] = 1
        else:
            for i in range(8):
                A[i] = A[i] + 2

    check(HoistIfThenElse(), before, expected, samples=8)


def test_blocks_are_not_looked_into() -> None:
    @T.prim_func
    def before(A: T.Buffer((8, 8), "int32"), n: T.int32):
        for i, j in T.grid(8, 8):
            with T.block("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                if 3 < n:
                    A[vi, vj] = vi

    check(HoistExpression(), before, before)


def test_many_conditions_do_not_blow_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hoist, "BUDGET", 10)

    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), n: T.int32):
        for wide in range(8):
            A[wide] = (
                A[wide] * T.if_then_else(n > 1, 2, 3)
                + T.if_then_else(n > 2, A[0], A[1])
                - T.if_then_else(n > 3, A[wide], 7) * T.if_then_else(n % 2 > 0, 3, A[2])
                + T.if_then_else(n % 3 > 0, 3, A[wide])
            )

    with pytest.warns(UserWarning, match="wide"):
        after = check(HoistExpression(), before, idempotent=False)
    assert len(after.script().splitlines()) < 60


def test_bad_flags_and_variants() -> None:
    for options in ({"hoisted_conditionals": 16}, {"hoisted_let_bindings": -1}, {"hoisted_let_bindings": "All"}):
        with pytest.raises(TransformError, match="or its number, 0 to"):
            HoistExpression(**options)
    with pytest.raises(TransformError, match="'variant' of HoistIfThenElse is 'basic', got 'advanced'"):
        HoistIfThenElse("advanced")
    assert HoistedConditionals.All == 15 and HoistedLetBindings.All == 7


def test_the_budget_counts() -> None:
    @T.prim_func
    def func(A: T.Buffer((8,), "int32")):
        for i in range(8):
            A[i] = 1

    budget = SizeBudget("P", func.body, 3)
    assert budget.allows(func.body, func.body, 1)
    with pytest.warns(UserWarning, match="P leaves loop 'i'"):
        assert not budget.allows(func.body, func.body, 1)


def test_conditions_and_bindings_leave_thread_loops_where_they_may() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 32), "float32"), n: T.int32, x: T.float32):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                k: T.float32 = x * T.float32(2)
                y: T.float32 = x + T.Cast("float32", bx)
                if n > 3:
                    A[bx, tx] = A[bx, tx] + k * y

    @T.prim_func
    def expected(A: T.Buffer((4, 32), "float32"), n: T.int32, x: T.float32):
        k: T.float32 = x * T.float32(2)
        if 3 < n:
            for bx in T.thread_binding(4, thread="blockIdx.x"):
                y: T.float32 = x + T.Cast("float32", bx)
                for tx in T.thread_binding(32, thread="threadIdx.x"):
                    A[bx, tx] = A[bx, tx] + k * y

    inputs = [[np.ones((4, 32), "float32"), n, 1.5] for n in (3, 4)]
    check(flags(HoistedConditionals.All, 7), before, expected, inputs=inputs)
    # The shape of a launch stays unless it is asked for.
    assert check(HoistExpression(), before, inputs=inputs).script().index("for tx") < 300
