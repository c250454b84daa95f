"""Simplify: indices and conditions, each by what the loops and branches around say."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check, executes_alike
from tirlower.ir import IRModule
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import PassContext, Simplify


def test_indices_fold_under_the_loops_around() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        for i, j in T.grid(4, 4):
            A[(i * 4 + j) // 4 * 4 + (i * 4 + j) % 4] = B[T.min(i * 4 + j, 15)] + 0

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        for i, j in T.grid(4, 4):
            A[i * 4 + j] = B[i * 4 + j]

    check(Simplify(), before, expected)


def test_decided_branches_are_taken() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        for i in range(2, 10):
            if i < 12:
                A[i] = 1
            else:
                A[i] = 2
            if T.likely(i == 1):
                A[0] = 3
            if i > 10:
                A[1] = 4
            else:
                A[i] = A[i] + 5

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32")):
        for i in range(2, 10):
            A[i] = 1
            A[i] = A[i] + 5

    check(Simplify(), before, expected)


def test_conditions_hold_in_their_branches() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), n: T.int32):
        for i in range(16):
            if i < n:
                if i < n + 2:
                    A[i] = T.max(i - n, -1)
            else:
                if i >= n:
                    A[i] = T.if_then_else(i < n, 7, 9)

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32"), n: T.int32):
        for i in range(16):
            if i < n:
                A[i] = T.max(i - n, -1)
            else:
                A[i] = 9

    after = check(Simplify(), before)
    assert "i < n + 2" not in after.script() and "if_then_else" not in after.script()


def test_asserts_and_assumes_state_facts_for_what_follows() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), n: T.int32):
        if n == 16:
            A[0] = 1
        assert n < 14, "small"
        if n < 15:
            A[1] = 2
        T.evaluate(T.assume(n > 0))
        if n >= 1:
            A[2] = 3

    after = check(Simplify(), before, sizes=(1, 3, 13))
    assert after.script().count("if ") == 1


def test_facts_end_with_their_scope() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), n: T.int32):
        for i in range(2):
            assert n > 0 or i == 0, "only then"
            A[i] = i
        if n > 3:
            A[0] = 1
        if n > 3:
            A[1] = 1
        else:
            if n > 2:
                A[2] = 1

    check(Simplify(), before, sizes=(1, 3, 4))


def test_conditions_that_read_memory_are_no_facts() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        if A[0] < 5:
            A[0] = A[0] + 100
            if A[0] < 5:
                A[1] = 1

    check(Simplify(), before, before)


def test_storing_what_stands_there_is_dropped() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        for i in range(16):
            A[i] = A[i + 0]
            B[i] = A[i]

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        for i in range(16):
            B[i] = A[i]

    check(Simplify(), before, expected)


def test_wrap_around_and_floats_are_left_alone() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int8"), B: T.Buffer((16,), "float32"), n: T.int8):
        for i in range(16):
            if A[i] + T.int8(100) < A[i]:
                A[i] = n + T.int8(1)
            B[i] = B[i] + T.float32(0) - B[i] * T.float32(0)

    check(Simplify(), before)


def test_while_loops_views_and_opaque_calls() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4), "int32"), n: T.int32):
        V = T.decl_buffer((16,), "int32", data=A.data)
        while V[0] * 1 < n + 0:
            V[0] = V[0] + 2 - 1
        T.evaluate(T.call_extern("handle", "memset", T.address_of(V[4 * 1 + 0]), 0 * n, 8 // 2))

    after = check(Simplify(), before)
    assert "memset" in after.script() and "0 * n" not in after.script() and "8 // 2" not in after.script()


def test_symbolic_shapes_are_not_negative() -> None:
    @T.prim_func
    def before(A: T.Buffer(("n", "m"), "float32")):
        for i, j in T.grid(n, m):
            if n >= 0:
                A[(i * m + j) // m, (i * m + j) % m] = T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer(("n", "m"), "float32")):
        for i, j in T.grid(n, m):
            A[i, j] = T.float32(1)

    after = check(Simplify(), before, sizes=(0, 1, 4))
    assert "if " not in after.script()


def test_block_iterators_and_predicates_are_facts() -> None:
    @T.prim_func
    def before(A: T.Buffer((13,), "int32")):
        for i, j in T.grid(4, 4):
            with T.block("A"):
                v = T.axis.spatial(13, i * 4 + j)
                T.where(i * 4 + j < 13)
                T.reads()
                T.writes(A[v])
                if v < 13:
                    A[v % 13] = v

    after = check(Simplify(), before)
    assert "if v" not in after.script() and "v %" not in after.script()


def test_options_reach_the_analyzer() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "bool"), i: T.int32, j: T.int32, k: T.int32):
        if i < j and j < k:
            A[0] = i < k

    plain = Simplify()(before)
    proved = check(Simplify(transitively_prove_inequalities=True), before)
    assert "A[0] = T.bool(True)" in proved.script() or "A[0] = True" in proved.script()
    assert "i < k" in plain.script()
    with PassContext(config={"tir.Simplify": {"transitively_prove_inequalities": True}}):
        assert Simplify()(before).script() == proved.script()

    @T.prim_func
    def ors(A: T.Buffer((1,), "bool"), i: T.int32, j: T.int32, k: T.int32):
        A[0] = (i == 0 and j == 10) or k == 20

    made = check(Simplify(convert_boolean_to_and_of_ors=True), ors)
    assert "(i == 0 or k == 20) and (j == 10 or k == 20)" in made.script()


def test_a_simple_function_comes_back_as_it_is() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), n: T.int32):
        for i in range(16):
            if i < n:
                A[i] = A[i] * T.float32(2)

    check(Simplify(), before, before)


def test_inequalities_are_chained_when_asked() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), i: T.int32, j: T.int32, k: T.int32, m: T.int32):
        if i < j and j < k and k < m:
            A[0] = 1
            if i + 2 < m:
                A[1] = 2

    after = check(Simplify(transitively_prove_inequalities=True), before, samples=8)
    assert after.script().count("if ") == 1


def test_an_empty_loop_proves_nothing_after_it() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), n: T.int32):
        for j in range(n, n):
            A[0] = j
        for i in range(n):
            A[i] = T.if_then_else(n <= i + 1, 1, 2)
        for i in range(n, n + 3):
            A[i] = T.if_then_else(n < i, 1, 2)

    check(Simplify(transitively_prove_inequalities=True), before, sizes=(0, 1, 5, 13))


def test_forms_of_conditions() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "bool"), x: T.bool, y: T.bool, z: T.bool, n: T.int32):
        A[0] = (x and y) or z
        A[1] = (n > 2 and x) or (n > 2 and y)
        A[2] = n > 3 and (n > 2 or z)
        A[3] = n > 3 or n == 4 or z

    ors = check(Simplify(convert_boolean_to_and_of_ors=True), before, samples=8, idempotent=False).script()
    assert "(x or z) and (y or z)" in ors
    branches = check(Simplify(apply_constraints_to_boolean_branches=True), before, samples=8).script()
    assert "A[2] = 3 < n\n" in branches or "A[2] = n > 3\n" in branches or "A[2] = 4 <= n\n" in branches


def test_the_left_side_of_an_or_runs_where_the_right_one_does_not_hold() -> None:
    before = parse("""
@T.prim_func
def main(A: T.Buffer((4,), "int32"), B: T.Buffer((3,), "int32")):
    for i in range(4):
        A[i] = T.if_then_else(B[i % 3] > 0 or i != 0, 0, 1)
        if B[i % 3] > 0 and i < 3:
            A[i] = A[i] + 1
""")
    one = Simplify(apply_constraints_to_boolean_branches=True)
    check(one, before, idempotent=False)
    assert "B[i % 3]" in one(before).script()


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_a_condition_met_again_where_it_failed(dtype: str) -> None:
    before = parse(f"""
@T.prim_func
def main(A: T.Buffer((2, 8), "{dtype}"), B: T.Buffer((2, 8), "{dtype}")):
    for i, j in T.grid(2, 8):
        B[i, j] = T.if_then_else(i == 1 and 6 <= j, A[0, 0], T.max(A[0, 1], T.if_then_else(i == 1 and 6 <= j, A[1, 1], A[i, j])))
        if i == 0 and j < 3 and i + j < 4:
            A[0, 0] = A[1, 0]
        elif i == 0 and j < 3 and i + j < 4:
            A[0, 1] = A[1, 0]
""")
    after = check(Simplify(), before)
    assert after.script().count("if_then_else") == 1 and after.script().count("j < 3") == 1


def test_sums_of_data_are_simplified_as_they_wrap() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):
        B[0] = A[0] + 1 + 2
        B[1] = (A[0] + A[1]) - A[0]
        B[2] = A[1] * 3 - A[1]
        B[3] = A[1] * 4 // 4
        B[4] = T.max(A[1] + 1 + 2, 2 + A[2])
        B[5] = n + A[1] + n
        B[6] = (A[1] + 2147483647) + 1
        B[7] = T.Select(A[1] + 1 < 5, A[1] - A[2] + A[2], 3)

    @T.prim_func
    def expected(A: T.Buffer((4,), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):
        B[0] = A[0] + 3
        B[1] = A[1]
        B[2] = A[1] * 2
        B[3] = A[1] * 4 // 4
        B[4] = T.max(A[1] + 3, A[2] + 2)
        B[5] = n * 2 + A[1]
        B[6] = (A[1] + 2147483647) + 1
        B[7] = T.Select(A[1] + 1 < 5, A[1], 3)

    ends = np.iinfo("int32")
    inputs = [
        (np.array(values, "int32"), np.zeros(8, "int32"), 5)
        for values in ((1, 2, 3, 4), (ends.max, ends.max, ends.min, 0), (ends.min, ends.max - 1, ends.max, 7))
    ]
    check(Simplify(), before, expected, inputs=inputs)


def test_a_quotient_that_is_known_bounds_what_was_divided() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32")):
        for i in range(64):
            if i // 8 == 3:
                if i < 32:
                    A[i] = 1
                if i >= 25:
                    A[i] = 2

    @T.prim_func
    def expected(A: T.Buffer((64,), "int32")):
        for i in range(64):
            if i // 8 == 3:
                A[i] = 1
                if 25 <= i:
                    A[i] = 2

    check(Simplify(), before, expected)


def test_the_predicate_of_a_block_decides_branches_only() -> None:
    @T.prim_func
    def before(A: T.Buffer((2,), "int32")):
        for i in range(2):
            with T.block("last"):
                T.where(i == 1)
                T.reads()
                T.writes(A[0:2])
                if i > 0:
                    A[(i - 1) % 2] = 3

    @T.prim_func
    def expected(A: T.Buffer((2,), "int32")):
        for i in range(2):
            with T.block("last"):
                T.where(i == 1)
                T.reads()
                T.writes(A[0:2])
                A[(i + 1) % 2] = 3

    check(Simplify(), before, expected)


def test_the_integer_above_a_logarithm() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        A[0] = T.cast(T.ceil(T.log2(T.cast(14, "float64"), dtype="float64"), dtype="float64"), "int32")
        for i in range(16):
            x: T.int32 = T.cast(T.ceil(T.log2(T.cast(i + 1025, "float64"))), "int32")
            if x == 11:
                A[i] = T.cast(T.ceil(T.log2(T.cast(i + 1, "float32"))), "int32")
        for i in range(16):
            if T.cast(T.ceil(T.log2(T.cast(i + 1024, "float32"))), "int32") == 11:
                A[i] = A[i] + 1

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32")):
        A[0] = 4
        for i in range(16):
            A[i] = T.cast(T.ceil(T.log2(T.cast(i + 1, "float32"))), "int32")
        for i in range(16):
            if T.cast(T.ceil(T.log2(T.cast(i + 1024, "float32"))), "int32") == 11:
                A[i] = A[i] + 1

    check(Simplify(), before, expected)


def test_lanes_of_data_wrap_around() -> None:
    func = parse("""
@T.prim_func
def f(B: T.Buffer((4,), "bool"), n: T.int32):
    B[0:4] = T.Ramp(n, 1, 4) >= T.Broadcast(n, 4)
""")
    for overflow, decided in (("wrap", False), ("none", True)):
        with PassContext(config={"tir.scalar_overflow": overflow}):
            assert ("T.bool(True)" in Simplify()(func).script()) is decided


CHANGING = {
    "the bound": "for i in range(N[0]):\n        if i < N[0]:\n            A[i] = A[i] + 1\n        N[0] = 3",
    "the start": "for i in range(N[1], 16):\n        if i >= N[1]:\n            A[i] = A[i] + 1\n        N[1] = 9",
    "a part of it": "for i in range(T.min(N[0], 16)):\n        if i < T.min(N[0], 16):\n            A[i] = A[i] + 1\n        N[0] = 3",
    "a name": "n = T.bind(N[0])\n    N[0] = 2\n    for i in range(n):\n        if i < N[0]:\n            A[i] = A[i] + 1\n        N[0] = 3",
    "in a loop": "for j in range(2):\n        for i in range(N[0], N[0] + N[1]):\n            A[i] = A[i] + 1\n            N[1] = N[1] - 1",
    "written out": "for i in T.unroll(N[1], N[1] + 4):\n        A[i] = A[i] + 1\n        N[1] = 9",
    "lanes": "for i in T.vectorized(T.min(N[0], 16)):\n        A[i] = A[i] + 1\n        if i == 0:\n            N[0] = 16",
    "lanes behind": "for i in T.vectorized(N[1], T.min(N[0], 16)):\n        A[i] = A[i] + 1\n        if i == 5:\n            N[1] = 2",
    "one iteration": "for i in range(N[1], N[1] + 1):\n        N[1] = 9\n        A[i] = A[i] + 1",
}


@pytest.mark.parametrize("which", CHANGING)
def test_bounds_that_are_read_from_memory_say_nothing_once_it_changes(which: str) -> None:
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((16,), "int32"), N: T.Buffer((2,), "int32")):
    {CHANGING[which]}
""")
    inputs = [[np.arange(16, dtype="int32"), np.array(n, "int32")] for n in ((9, 3), (5, 5), (2, 9), (0, 1), (1, 4))]
    executes_alike(func, Simplify()(IRModule({"f": func}))["f"], inputs=inputs)
    for schedule in ("none", "auto"):
        kernel = tl.build(func, schedule=schedule)
        for given in inputs:
            wanted, found = [one.copy() for one in given], [one.copy() for one in given]
            tl.interpret(func, *wanted)
            kernel(*found)
            assert [one.tolist() for one in found] == [one.tolist() for one in wanted], (schedule, given[1])
