from __future__ import annotations

import warnings

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check, executes_alike
from tirlower.analysis.undefined import undefined_vars
from tirlower.arith import Analyzer
from tirlower.diagnostics import TransformError
from tirlower.interp import interpret
from tirlower.ir import Evaluate, For, IfThenElse, IRModule, Var, const, pre_order_visit
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import (
    LoopPartition,
    LowerOpaqueBlock,
    PassContext,
    RemoveNoOp,
    Sequential,
    Simplify,
    UnrollLoop,
)
from tirlower.transforms.loops import partition
from tirlower.transforms.loops.partition import check_cover

CONST = LoopPartition(partition_const_loop=True)


def test_a_guarded_tail_becomes_a_loop_of_its_own() -> None:
    @T.prim_func
    def before(A: T.Buffer((21,), "float32"), B: T.Buffer((21,), "float32")):
        for i, j in T.grid(6, 4):
            if T.likely(i * 4 + j < 21):
                B[i * 4 + j] = A[i * 4 + j] + T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((21,), "float32"), B: T.Buffer((21,), "float32")):
        for i, j in T.grid(5, 4):
            B[i * 4 + j] = A[i * 4 + j] + T.float32(1)
        B[20] = A[20] + T.float32(1)

    after = check(CONST, before)
    check(Simplify(), after, expected)


def test_constant_loops_are_left_unless_asked() -> None:
    @T.prim_func
    def before(A: T.Buffer((21,), "int32")):
        for i in range(24):
            if T.likely(i < 21):
                A[i] = i

    @T.prim_func
    def expected(A: T.Buffer((21,), "int32")):
        for i in range(24):
            if i < 21:
                A[i] = i

    check(LoopPartition(), before, expected)
    with PassContext(config={"tir.LoopPartition": {"partition_const_loop": True}}):
        text = LoopPartition()(before).script()
    assert "if" not in text


def test_without_marks_nothing_changes() -> None:
    @T.prim_func
    def before(A: T.Buffer((21,), "int32"), n: T.int32):
        for i in range(n):
            if i < 21:
                A[i] = i

    check(CONST, before, before)


@pytest.mark.parametrize("m", [-3, 0, 2, 5, 40])
@pytest.mark.parametrize("n", [-2, 0, 1, 4, 7])
def test_symbolic_ends_in_any_order(m: int, n: int) -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), n: T.int32, m: T.int32):
        for i in range(n):
            if T.likely(i >= m):
                A[i] = A[i] + 1
            else:
                A[i] = A[i] - 5

    after = check(LoopPartition(), before, inputs=[(np.arange(64, dtype="int32"), n, m)])
    assert after.script().count("if ") == 0


@pytest.mark.parametrize(("low", "high"), [(-3, 30), (0, 5), (5, 9), (9, 5), (14, 40)])
@pytest.mark.parametrize("start", [-4, 0, 3])
def test_two_conditions(low: int, high: int, start: int) -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32")):
        for i in range(start, start + 16):
            if T.likely(i >= low) and T.likely(i < high):
                A[i + 8] = A[i + 8] + i
            A[i + 9] = A[i + 9] * 3

    check(CONST, before)


def test_padding_on_both_sides_of_a_stencil() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in T.serial(16, annotations={"pragma_loop_partition_hint": True}):
            B[i] = T.if_then_else(i >= 1 and i < 15, A[i - 1] + A[i + 1], T.float32(0))

    after = check(LoopPartition(), before)
    text = Simplify()(after).script()
    assert "if_then_else" not in text and "range(14)" in text and "hint" not in text


def test_the_hint_as_an_attribute() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), n: T.int32):
        with T.attr(0, "pragma_loop_partition_hint", 1):
            for i in range(64):
                if i < n:
                    A[i] = T.Select(i * 2 < 60, i, 7)

    after = check(LoopPartition(), before)
    assert after.script().count("if ") == 1 and "attr" not in after.script()


@pytest.mark.parametrize("factor", [1, 3, -2])
@pytest.mark.parametrize("divisor", [1, 4])
@pytest.mark.by_day
def test_affine_conditions(factor: int, divisor: int) -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), n: T.int32):
        for i in range(20):
            for j in range(3):
                if T.likely((i * factor + j) // divisor < n):
                    A[i] = A[i] + 1
                if T.likely(n <= 5 - i * factor):
                    A[i + 20] = A[i + 20] + j
                if T.likely(i == 7):
                    A[i] = A[i] * 2

    for n in (-9, 0, 4, 6, 100):
        check(CONST, before, inputs=[(np.arange(64, dtype="int32"), n)])


def test_inner_domains_that_depend_on_the_loop() -> None:
    @T.prim_func
    def before(A: T.Buffer((16, 16), "int32"), n: T.int32):
        for i in range(n):
            for j in range(i):
                if T.likely(i + j < 16):
                    A[i, j] = i * j
            for k in range(n, n + 2):
                if T.likely(i + k < 12):
                    A[i, 0] = k

    check(LoopPartition(), before, sizes=(1, 3, 8), inputs=[(np.zeros((16, 16), "int32"), n) for n in (0, 3, 9, 14)])


def test_inner_loops_are_cut_too() -> None:
    @T.prim_func
    def before(A: T.Buffer((10, 10), "int32")):
        for i, j in T.grid(12, 12):
            if T.likely(i < 10):
                if T.likely(j < 10):
                    A[i, j] = i - j

    @T.prim_func
    def expected(A: T.Buffer((10, 10), "int32")):
        for i, j in T.grid(10, 10):
            A[i, j] = i - j

    check(Simplify(), check(CONST, before), expected, idempotent=False)


def test_bindings_are_seen_through() -> None:
    @T.prim_func
    def before(A: T.Buffer((30,), "int32")):
        for i in range(9):
            x: T.int32 = i * 4
            for j in range(4):
                y: T.int32 = x + j
                if T.likely(y < 30):
                    A[y] = i

    text = check(CONST, before).script()
    assert "range(7)" in text or "T.grid(7" in text


def test_conditions_on_memory_are_left() -> None:
    @T.prim_func
    def before(A: T.Buffer((30,), "int32"), n: T.int32):
        for i in range(n):
            if T.likely(i < A[0] % 8):
                A[i] = A[i] + 1
            if T.likely(A[i % 30] < 5):
                A[0] = A[0] + 1

    after = check(LoopPartition(), before)
    assert after.script().count("for ") == 1 and "likely" not in after.script()


def test_remainders_are_left() -> None:
    @T.prim_func
    def before(A: T.Buffer((30,), "int32"), n: T.int32):
        for i in range(n):
            if T.likely(i % 3 < 2):
                A[i % 30] = i

    assert check(LoopPartition(), before).script().count("for ") == 1


def test_a_loop_that_is_left_early_stays_whole() -> None:
    @T.prim_func
    def before(A: T.Buffer((30,), "int32"), n: T.int32):
        for i in range(n):
            if T.likely(i < 4):
                A[i] = i
            else:
                T.evaluate(T.break_loop())

    assert check(LoopPartition(), before).script().count("for ") == 1


def test_parallel_loops_stay_parallel_and_vectors_constant() -> None:
    @T.prim_func
    def before(A: T.Buffer((32,), "int32"), n: T.int32):
        for i in T.parallel(n):
            if T.likely(i < 30):
                A[i % 32] = i
        for i in T.vectorized(16):
            if T.likely(i < n):
                A[i] = 1
        for i in T.vectorized(16):
            if T.likely(i < 12):
                A[i] = A[i] + 1

    text = check(CONST, before, inputs=[(np.zeros(32, "int32"), n) for n in (0, 5, 32)]).script()
    assert text.count("T.parallel") == 1 and text.count("T.vectorized") == 2 and "T.vectorized(12)" in text


def test_threads_take_a_branch() -> None:
    @T.prim_func
    def before(A: T.Buffer((21,), "int32")):
        for b in T.thread_binding(6, thread="blockIdx.x"):
            for t in T.thread_binding(4, thread="threadIdx.x"):
                if T.likely(b * 4 + t < 21):
                    A[b * 4 + t] = b

    @T.prim_func
    def expected(A: T.Buffer((21,), "int32")):
        for b in T.thread_binding(6, thread="blockIdx.x"):
            for t in T.thread_binding(4, thread="threadIdx.x"):
                if b < 5:
                    A[b * 4 + t] = b
                else:
                    if t < 1:
                        A[b * 4 + t] = b

    after = check(LoopPartition(), before)
    assert "if b < 5:" in after.script()


def test_unit_parts_keep_their_loop_on_request() -> None:
    @T.prim_func
    def before(A: T.Buffer((9,), "int32")):
        for i in range(9):
            if T.likely(i < 8):
                A[i] = i
            else:
                A[i] = -1

    assert check(CONST, before).script().count("for ") == 1
    keep = LoopPartition(partition_const_loop=True, no_unroll_loop_with_extent_one=True)
    assert check(keep, before).script().count("for ") == 2


def test_a_hinted_loop_with_nothing_to_cut_by() -> None:
    @T.prim_func
    def before(A: T.Buffer((9,), "int32"), n: T.int32):
        for i in T.serial(4, annotations={"pragma_loop_partition_hint": 1}):
            if A[i] % 2 == 0:
                A[i] = n

    assert "unroll" not in check(LoopPartition(), before).script()
    assert "T.unroll(4)" in check(LoopPartition(unroll_loop_with_partition_hint_no_interval=True), before).script()


def test_declarations_of_a_part_are_its_own() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), n: T.int32):
        for i in range(n):
            B = T.alloc_buffer((4,), "int32")
            V = T.decl_buffer((2, 2), "int32", data=B.data)
            for k in range(4):
                B[k] = i + k
            if T.likely(i < 12):
                A[i % 64] = V[1, 0] + B[3]
            if T.likely(i >= 2):
                A[(i + 1) % 64] = V[0, 1]

    check(LoopPartition(), before, sizes=(1, 5, 20))


def test_the_budget_names_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "BUDGET", 3)

    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), n: T.int32):
        for wide in range(n):
            if T.likely(wide < 12):
                A[wide % 64] = 1
                A[0] = A[0] + 1
            if T.likely(wide > 40):
                A[1] = 1

    with pytest.warns(UserWarning, match="wide"):
        after = LoopPartition()(before)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(LoopPartition(), before)
    assert after.script().count("for ") == 2


def test_deep_nests_do_not_blow_up() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), n: T.int32):
        for a, b, c, d in T.grid(n, n, n, n):
            if T.likely(a + b + c + d < 3):
                A[a] = A[a] + b + c + d
            if T.likely(a < 2) and T.likely(b < 2) and T.likely(c < 2) and T.likely(d < 2):
                A[0] = A[0] + 1

    after = check(LoopPartition(), before, inputs=[(np.zeros(8, "int32"), n) for n in (0, 1, 3)])
    assert len(after.script().splitlines()) < 5000


def test_the_check_of_the_cover() -> None:
    i, n = Var("i"), Var("n")
    loop = For(i, 0, 8, "serial", None, {}, Evaluate(i))
    begin, middle, end = loop.min, const(3), const(8)
    check_cover(loop, begin, end, [(begin, middle), (middle, end)], Analyzer())
    for parts in ([(begin, middle)], [(begin, middle), (n, end)], [(begin, n), (n, n + -1), (n + -1, end)]):
        with pytest.raises(TransformError, match="exactly once"):
            check_cover(loop, begin, end, parts, Analyzer())


def test_what_runs_is_what_ran() -> None:
    @T.prim_func
    def before(A: T.Buffer((128,), "int32"), n: T.int32, m: T.int32):
        for i in range(n):
            for j in range(m, m + 3):
                if T.likely(i * 3 + j < 20):
                    A[i] = A[i] * 3 + j
                if T.likely(i - j > 1):
                    A[i] = A[i] * 5 + 1

    after = LoopPartition()(before)
    for n in (0, 1, 6, 11):
        for m in (-4, 0, 9, 30):
            left, right = np.zeros(128, "int32"), np.zeros(128, "int32")
            interpret(before, left, n, m)
            interpret(after, right, n, m)
            assert (left == right).all()


def test_a_limit_that_is_loaded_inside_is_not_known_outside() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), L: T.Buffer((16,), "int32")):
        for i in range(16):
            limit: T.int32 = L[0]
            if T.likely(i < limit):
                A[i] = i

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32"), L: T.Buffer((16,), "int32")):
        for i in range(16):
            limit: T.int32 = L[0]
            if i < limit:
                A[i] = i

    check(CONST, before, expected)


def test_int64_loops_with_symbolic_ends() -> None:
    @T.prim_func
    def before(A: T.Buffer((T.int64(16),), "int64"), n: T.int64, m: T.int64):
        for i in range(T.min(n, T.int64(16))):
            if T.likely(i < m):
                A[i] = i + T.int64(3)

    after = check(LoopPartition(), before, samples=12, sizes=(-1, 0, 1, 5, 16, 40))
    found: list[For] = []
    pre_order_visit(after.body, lambda op: found.append(op) if isinstance(op, For) else None)
    assert len(found) == 1
    for loop in found:
        assert {str(part.dtype) for part in (loop.loop_var, loop.min, loop.extent)} == {"int64"}


@pytest.mark.parametrize("dtype", ["uint32", "uint8", "int16"])
def test_conditions_of_types_that_wrap_around_stay(dtype: str) -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        for i in range(T.Cast(dtype, 8)):
            if T.likely(i - T.Cast(dtype, 3) < T.Cast(dtype, 4)):
                A[i] = A[i] + 1

    after = check(CONST, before)
    kept: list[IfThenElse] = []
    pre_order_visit(after.body, lambda op: kept.append(op) if isinstance(op, IfThenElse) else None)
    assert len(kept) == 1


HINTED = LoopPartition(partition_const_loop=True, unroll_loop_with_partition_hint_no_interval=True)


def test_a_chain_of_conditions_cuts_a_hinted_loop_into_as_many_parts() -> None:
    @T.prim_func
    def before(A: T.Buffer((20,), "int32"), C: T.Buffer((101,), "int32")):
        for i in T.serial(101, annotations={"pragma_loop_partition_hint": 1}):
            if 60 <= i:
                C[i] = i
            if 20 <= i and i < 40:
                C[i] = A[i - 20] + 1
            if i == 40:
                C[i] = 5
            if 41 <= i and i < 60:
                C[i] = A[i - 40] + 2
            if i < 20:
                C[i] = A[i]

    @T.prim_func
    def expected(A: T.Buffer((20,), "int32"), C: T.Buffer((101,), "int32")):
        for i in range(20):
            C[i] = A[i]
        for i in range(20):
            C[i + 20] = A[i] + 1
        C[40] = 5
        for i in range(19):
            C[i + 41] = A[i + 1] + 2
        for i in range(41):
            C[i + 60] = i + 60

    check(Sequential([HINTED, Simplify(), RemoveNoOp()]), before, expected)


def test_single_values_in_nested_hinted_loops() -> None:
    @T.prim_func
    def before(A: T.Buffer((36,), "int32")):
        for i in T.serial(6, annotations={"pragma_loop_partition_hint": 1}):
            if i == 1:
                for j in T.serial(6, annotations={"pragma_loop_partition_hint": 1}):
                    if j > 2:
                        A[i * 6 + j] = i * 6 + j
            else:
                for j in T.serial(6, annotations={"pragma_loop_partition_hint": 1}):
                    if j > 2:
                        A[i * 6 + j] = i * 15 + j

    @T.prim_func
    def expected(A: T.Buffer((36,), "int32")):
        for j in range(3):
            A[j + 3] = j + 3
        for j in range(3):
            A[j + 9] = j + 9
        for i in range(4):
            for j in range(3):
                A[i * 6 + j + 15] = i * 15 + j + 33

    check(Sequential([HINTED, Simplify()]), before, expected)


def test_the_conjuncts_that_depend_on_a_hinted_loop_cut_it_and_no_other() -> None:
    @T.prim_func
    def before(A: T.Buffer((12, 12), "int32"), B: T.Buffer((6, 12, 5, 16), "int32")):
        for i in T.serial(6, annotations={"pragma_loop_partition_hint": True}):
            for j, k, l in T.grid(12, 5, 16):
                if 3 <= i * 2 + k and i * 2 + k < 13 and l < 3:
                    B[i, j, k, l] = A[i * 2 - 3 + k, j] + l

    @T.prim_func
    def expected(A: T.Buffer((12, 12), "int32"), B: T.Buffer((6, 12, 5, 16), "int32")):
        for j, k, l in T.grid(12, 5, 16):
            if 3 <= k and l < 3:
                B[0, j, k, l] = A[k - 3, j] + l
        for j, k, l in T.grid(12, 5, 16):
            if 1 <= k and l < 3:
                B[1, j, k, l] = A[k - 1, j] + l
        for i, j, k, l in T.grid(3, 12, 5, 16):
            if l < 3:
                B[i + 2, j, k, l] = A[i * 2 + k + 1, j] + l
        for j, k, l in T.grid(12, 5, 16):
            if k < 3 and l < 3:
                B[5, j, k, l] = A[k + 7, j] + l

    check(Sequential([HINTED, UnrollLoop(), RemoveNoOp(), Simplify()]), before, expected)


def test_a_condition_that_the_program_keeps_cuts_no_hinted_loop() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        for i in T.serial(16, annotations={"pragma_loop_partition_hint": True}):
            if T.ignore_loop_partition(i < 7):
                A[i] = i

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32")):
        for i in range(16):
            if i < 7:
                A[i] = i

    check(LoopPartition(partition_const_loop=True), before, expected)


def test_one_axis_of_threads_takes_the_branch() -> None:
    @T.prim_func
    def before(A: T.Buffer((100,), "int32")):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                if T.likely(bx * 32 + tx < 100):
                    A[bx * 32 + tx] = bx

    @T.prim_func
    def expected(A: T.Buffer((100,), "int32")):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                if bx < 3:
                    A[bx * 32 + tx] = bx
                else:
                    if bx * 32 + tx < 100:
                        A[bx * 32 + tx] = bx

    check(LoopPartition(partition_const_loop=True), before, expected)


def test_pragmas_about_a_loop_that_is_cut() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), n: T.int32):
        for i in T.serial(16, annotations={"pragma_loop_partition_hint": 1, "pragma_note": 1}):
            for j in range(4):
                if i * 4 + j < n:
                    A[i * 4 + j] = j

    after = check(LoopPartition(), LowerOpaqueBlock()(before), inputs=[[np.zeros(64, "int32"), n] for n in (0, 9, 64)])
    assert "hint" not in after.script() and after.script().count("for ") == 2


def test_a_condition_on_a_scalar_that_wraps_cuts_nothing() -> None:
    """Its end is no value that the loops could be cut at: the name that stands for it was left in the program."""

    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32"), k: T.int32, n: T.int32):
        for i in range(n):
            C[i] = T.Select(T.likely(i != k * 5), A[i], -A[i])

    with PassContext(config={"tir.scalar_overflow": "wrap"}):
        after = LoopPartition()(before)
    assert not undefined_vars(after)
    for factor in (0, 1, 858993460, 1 << 29, -(1 << 31)):
        left, right = np.zeros((2, 8), "int32")
        values = np.arange(8, dtype="int32")
        interpret(before, values, left, factor, 8)
        interpret(after, values, right, factor, 8)
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("first", [0, 1, 3, 9])
@pytest.mark.parametrize(
    "condition", ["0 < tx % 8", "tx // 12 > tx % 12", "tx % 8 == 0", "tx // 9 < 1", "tx * 3 // 8 % 4 < 3"]
)
def test_loops_over_one_axis_of_threads_know_nothing_of_each_other(first: int, condition: str) -> None:
    """They have one variable; what is known of it in the first was asked about the second, before that is entered."""
    before = parse(f"""
@T.prim_func
def before(A: T.Buffer((48,), "int32"), n: T.int32):
    for tx in T.thread_binding(n, thread="threadIdx.x"):
        A[tx] = 3
    for tx in T.thread_binding({first}, thread="threadIdx.x"):
        A[tx] = 2
    for tx in T.thread_binding(48, thread="threadIdx.x"):
        A[tx] = A[tx] * 10 + T.if_then_else(T.likely({condition}), T.int32(1), T.int32(0))
""")
    check(LoopPartition(), before, inputs=[[np.zeros(48, "int32"), n] for n in (0, 1, 5, 48)])


@pytest.mark.parametrize("bounds", ["N[0]", "N[1], N[0]", "T.min(N[0], 16)"])
@pytest.mark.parametrize("condition", ["i < 4", "i >= 4", "i < N[1]", "i == 5"])
def test_a_bound_that_the_body_changes_is_taken_once(bounds: str, condition: str) -> None:
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((16,), "int32"), N: T.Buffer((2,), "int32")):
    for i in range({bounds}):
        if T.likely({condition}):
            A[i] = A[i] + 1
        N[0] = 12
        N[1] = 3
""")
    inputs = [[np.arange(16, dtype="int32"), np.array(n, "int32")] for n in ((9, 0), (2, 1), (5, 7), (16, 2), (0, 0))]
    executes_alike(func, LoopPartition()(IRModule({"f": func}))["f"], inputs=inputs)
    kernel = tl.build(func, schedule="none")
    for given in inputs:
        wanted, found = [one.copy() for one in given], [one.copy() for one in given]
        tl.interpret(func, *wanted)
        kernel(*found)
        assert [one.tolist() for one in found] == [one.tolist() for one in wanted], given[1]
