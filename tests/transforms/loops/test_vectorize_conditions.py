"""Conditions that differ between lanes: branches, selects, masks, and what runs in the lanes that ask for it only."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check
from tests.transforms.loops.vectorized import loops
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import PassContext, VectorizeLoop


def test_conditions_that_differ_between_lanes_are_kept() -> None:
    @T.prim_func
    def before(A: T.Buffer((25,), "float32"), n: T.int32, x: T.int32):
        for i in T.vectorized(4):
            if x < n:
                A[i] = A[i] + T.float32(1)
            else:
                if i < n:
                    A[i] = T.float32(2)

    @T.prim_func
    def expected(A: T.Buffer((25,), "float32"), n: T.int32, x: T.int32):
        if x < n:
            A[0:4] = A[0:4] + T.Broadcast(T.float32(1), 4)
        else:
            for i_s in range(4):
                if i_s < n:
                    A[i_s] = T.float32(2)

    check(VectorizeLoop(), before, expected)


def test_selects_and_guarded_expressions() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
        for i in T.vectorized(8):
            A[i] = T.Select(i < n, B[i], T.float32(-1))
            A[i] = A[i] + T.if_then_else(i + 4 < 8, B[(i + 4) % 8], T.float32(0))
            B[i] = T.if_then_else(n > 3, A[i], T.float32(5))

    after = check(VectorizeLoop(), before)
    assert loops(after) == 1 and "T.Select" in after.script()


def test_the_guard_of_a_faulting_access_is_never_dropped() -> None:
    @T.prim_func
    def before(A: T.Buffer((6,), "int32"), B: T.Buffer((8,), "int32")):
        for i in T.vectorized(8):
            if i < 6:
                A[i] = B[i] // (6 - i)
            B[i] = T.if_then_else(i < 6, A[T.min(i, 5)], 0)

    check(VectorizeLoop(), before)
    check(VectorizeLoop(predicate=True), before)


def test_masks_instead_of_scalar_loops() -> None:
    @T.prim_func
    def before(A: T.Buffer((14,), "float32"), B: T.Buffer((14,), "float32")):
        for i in range(4):
            for j in T.vectorized(4):
                if T.likely(i * 4 + j < 14):
                    B[i * 4 + j] = A[i * 4 + j] + T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((14,), "float32"), B: T.Buffer((14,), "float32")):
        for i in range(4):
            mask = T.meta_var(T.get_active_lane_mask("boolx4", i * 4, 14))
            B.vstore(
                [T.Ramp(i * 4, 1, 4)],
                A.vload([T.Ramp(i * 4, 1, 4)], predicate=mask) + T.Broadcast(T.float32(1), 4),
                predicate=mask,
            )

    check(VectorizeLoop(predicate=True), before, expected)
    with PassContext(config={"tir.enable_buffer_level_predication": True}):
        check(VectorizeLoop(), before, expected)
    assert loops(check(VectorizeLoop(), before)) == 2


def test_masks_of_any_condition_and_what_cannot_be_masked() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):
        for i in T.vectorized(8):
            if A[i] > 0:
                B[i] = A[i] * 2
            if i < n:
                B[0] = B[0] + i
            if i < n:
                T.evaluate(T.call_extern("handle", "memset", T.address_of(B[i]), 0, 4))
            if i < n:
                B[i] = 7
            else:
                B[i] = 8

    after = check(VectorizeLoop(predicate=True), before)
    assert loops(after) == 2


def test_both_branches_are_masked() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):
        for i in T.vectorized(8):
            if A[i] > n:
                # The branch stores to what its condition reads: the mask is the old condition's.
                A[i] = n - 1
                B[i] = A[i] * 2
            else:
                A[i] = n + 1
                B[i] = A[i] - B[i]

    after = check(VectorizeLoop(predicate=True), before)
    assert loops(after) == 0
    assert loops(check(VectorizeLoop(), before)) == 1


def test_masks_in_masks_and_loops_in_masks() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), C: T.Buffer((16,), "int32"), n: T.int32):
        for i in T.vectorized(16):
            if i < n:
                if C[i] > 0:
                    B[i] = A[i]
                else:
                    for k in range(n):
                        B[i] = B[i] + A[i] * T.Cast("float32", k)
            if C[i] != 0:
                if n > 3:
                    C[i] = C[i] // 2

    after = check(VectorizeLoop(predicate=True), before)
    assert loops(after) == 1


def test_divisions_under_a_mask_stay_where_they_are() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in T.vectorized(8):
            if A[i] != 0:
                B[i] = B[i] // A[i]
            B[i] = T.if_then_else(A[i] != 0, B[i] % A[i], 3)

    assert loops(check(VectorizeLoop(predicate=True), before)) == 2


@pytest.mark.parametrize("predicate", [False, True])
def test_padding_reads_nothing_outside(predicate) -> None:
    @T.prim_func
    def before(A: T.Buffer((6,), "float32"), B: T.Buffer((16,), "float32"), n: T.int32):
        for i in T.vectorized(16):
            B[i] = T.if_then_else(i >= 5 and i < 11, A[i - 5], T.if_then_else(i < 4, A[i] * T.float32(2), T.float32(9)))

    after = check(VectorizeLoop(predicate=predicate), before)
    assert loops(after) == (0 if predicate else 1)
    a, b = np.arange(6, dtype=np.float32), np.zeros(16, np.float32)
    tl.build(before, schedule="none")(a, b, 0)
    np.testing.assert_array_equal(b, [0, 2, 4, 6, 9, 0, 1, 2, 3, 4, 5, 9, 9, 9, 9, 9])


@pytest.mark.parametrize("predicate", [False, True])
def test_a_statement_that_was_given_up_leaves_no_vectors_behind(predicate) -> None:
    # The binding under the condition becomes a vector before the load under an inner condition turns out to have none.
    @T.prim_func
    def bound(A: T.Buffer((5, 5), "float32"), B: T.Buffer((5, 5), "float32")):
        for i, o in T.grid(5, 2):
            for v in T.vectorized(4):
                if o * 4 + v < 5:
                    y: T.int32 = o * 4 + v
                    B[i, y] = A[T.min(i, y), 2] + T.Select(v > 0 - y, A[y, 0], A[v + 1, i])

    @T.prim_func
    def let(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        x = T.int32()
        for v in T.vectorized(8):
            B[v] = T.Let(x * 2 + T.if_then_else(x < 5, A[x], 1), where={x: v + 0})

    check(VectorizeLoop(predicate=predicate), bound, idempotent=False)
    check(VectorizeLoop(predicate=predicate), let, idempotent=False)


def test_the_right_side_of_an_and_that_may_fault_runs_lane_by_lane() -> None:
    @T.prim_func
    def before(A: T.Buffer((3,), "bool"), B: T.Buffer((8,), "bool")):
        for v in T.vectorized(8):
            B[v] = v >= 2 and v < 5 and A[v - 2]

    check(VectorizeLoop(), before)


def test_the_right_side_of_and_and_or_is_evaluated_in_its_lanes_only() -> None:
    @T.prim_func
    def before(A: T.Buffer(("n",), "int32"), B: T.Buffer((8,), "bool"), k: T.int32):
        for i in T.vectorized(8):
            B[i] = (i < n and A[i] > k) or (k != 0 and i // k > 1)

    rng = np.random.default_rng(0)
    inputs = [[rng.integers(0, 9, n).astype("int32"), np.zeros(8, "bool"), k] for n in (0, 3, 8) for k in (0, 2)]
    check(VectorizeLoop(), before, inputs=inputs)


def test_a_side_of_an_and_that_is_outside_in_the_last_lane_alone() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in T.vectorized(8):
            B[i] = T.Select(i < 7 and A[i + 1] > 0, 1, 2)

    assert loops(check(VectorizeLoop(), before)) == 1


def test_a_branch_may_store_to_what_its_condition_reads() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in T.vectorized(8):
            if A[i] > 0:
                A[i] = 0 - A[i]
                B[i] = B[i] + 1

    assert loops(check(VectorizeLoop(predicate=True), before)) == 0


@pytest.mark.parametrize(
    "body",
    [
        "if x + l < n:\n            C[l] = A[l]",
        "C[l] = T.if_then_else(x + l < n, A[l], 7)",
        "if l + X[0] < n:\n            C[l] = A[l]",
        "if x + l + 3 < n:\n            C[l] = A[l]\n        else:\n            C[l] = 5",
        "y: T.let[T.int32] = x * 1\n        if y + l < n:\n            C[l] = A[l]",
    ],
)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_conditions_on_data_wrap_in_lanes_as_they_do_in_turn(body: str, dtype: str) -> None:
    """A lane mask counts on from its base without wrapping."""
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32"), X: T.Buffer((1,), "{dtype}"), x: T.{dtype}, n: T.{dtype}):
    for l in T.vectorized(16):
        {body.replace("T.int32", f"T.{dtype}")}
""")
    kernel = tl.build(func, schedule="none")
    a, top = np.arange(16, dtype="int32"), np.iinfo(dtype).max
    for x in (top - 7, 3, -top - 1, top):
        for n in (5, -5, top, -top - 1):
            found, wanted = np.full((2, 16), -1, "int32")
            kernel(a, found, np.array([x], dtype), x, n)
            tl.interpret(func, a, wanted, np.array([x], dtype), x, n)
            assert found.tolist() == wanted.tolist(), (x, n)
