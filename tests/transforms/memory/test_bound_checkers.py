from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check, roundtrips
from tirlower.diagnostics import BoundsError
from tirlower.interp import interpret
from tirlower.interp.intrinsics_extern import register_extern
from tirlower.ir import Assert, PrimFunc, pre_order_visit
from tirlower.ir.verify import verify_well_formed
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import FlattenBuffer, InstrumentBoundCheckers, VectorizeLoop


def asserts(func: PrimFunc) -> int:
    found: list[Any] = []
    pre_order_visit(func.body, lambda op: found.append(op) if isinstance(op, Assert) else None)
    return len(found)


def instrumented(before: PrimFunc, **options: Any) -> PrimFunc:
    return check(InstrumentBoundCheckers(), before, idempotent=False, **options)


def fails(func: PrimFunc, *args: Any, match: str) -> None:
    """The interpreter and compiled code raise IndexError with the same text, and leave memory as it was."""
    for run in (lambda *a: interpret(func, *a), tl.build(func, schedule="none")):
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        with pytest.raises(IndexError, match=match) as caught:
            run(*copies)
        assert isinstance(caught.value, BoundsError)


def test_loads_and_stores_of_every_dimension() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 5), "float32"), B: T.Buffer((5,), "float32"), i: T.int32, j: T.int32):
        A[i, j] = B[j + 1]

    after = instrumented(before, inputs=[[np.zeros((4, 5), "float32"), np.ones(5, "float32"), 3, 2]])
    assert asserts(after) == 3
    a, b = np.zeros((4, 5), "float32"), np.ones(5, "float32")
    fails(after, a, b, 4, 0, match=r"A: index 4 of dimension 0 is outside the bounds 0 <= index < 4")
    fails(after, a, b, -1, 0, match=r"A: index -1 of dimension 0 is outside")
    fails(after, a, b, 0, 4, match=r"B: index 5 of dimension 0 is outside the bounds 0 <= index < 5")
    fails(after, a, b, 0, -1, match=r"A: index -1 of dimension 1 is outside the bounds 0 <= index < 5")


def test_symbolic_extents_and_loops() -> None:
    @T.prim_func
    def before(A: T.Buffer(("n", "m"), "int32"), k: T.int32):
        for i in range(n):
            for j in range(k):
                A[i, j] = A[i, j] + 1

    base = np.arange(6, dtype="int32").reshape(2, 3)
    after = instrumented(before, inputs=[[base, 3], [base, 0], [base, 1]])
    fails(after, base, 4, match=r"A: index 3 of dimension 1 is outside the bounds 0 <= index < 3")


def test_indices_read_from_memory_are_checked_before_they_are_used() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), I: T.Buffer((3,), "int32"), k: T.int32):
        A[I[k]] = A[I[0]] + 1

    indices = np.array([1, 9, 3], "int32")
    after = instrumented(before, inputs=[[np.zeros(4, "int32"), indices, 2], [np.zeros(4, "int32"), indices, 0]])
    fails(after, np.zeros(4, "int32"), indices, 1, match="A: index 9 of dimension 0")
    fails(after, np.zeros(4, "int32"), indices, 3, match="I: index 3 of dimension 0")


def test_accesses_under_a_condition_are_checked_under_it() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), k: T.int32):
        for i in range(8):
            B[i] = T.if_then_else(i + k < 8 and A[i + k] > 0, A[i + k], T.if_then_else(i > 0, A[i - 1], 7))

    values = np.arange(-2, 6, dtype="int32")
    after = instrumented(before, inputs=[[values, np.zeros(8, "int32"), k] for k in (0, 1, 5, 8)])
    fails(after, values, np.zeros(8, "int32"), -1, match="A: index -1 of dimension 0")


def test_and_or_and_not_taken_paths() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), k: T.int32):
        if k >= 4 or A[k] > 0:
            A[0] = 5
        elif k < 0 or A[k] < -1:
            A[1] = 6

    inputs = [[np.array([1, 0, -5, 0], "int32"), k] for k in (0, 1, 2, 3, 4, 9)]
    after = instrumented(before, inputs=inputs)
    fails(after, inputs[0][0], -1, match="A: index -1")


def test_selects_evaluate_both_arms() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), k: T.int32):
        A[0] = T.Select(k < 4, A[k], 0)

    after = instrumented(before, inputs=[[np.arange(4, dtype="int32"), 3]])
    fails(after, np.arange(4, dtype="int32"), 4, match="A: index 4")


def test_while_conditions_are_checked_before_each_iteration() -> None:
    @T.prim_func
    def before(A: T.Buffer((5,), "int32")):
        k = T.alloc_buffer((1,), "int32")
        k[0] = 0
        while A[k[0]] > 0:
            k[0] = k[0] + 1
            if A[k[0] - 1] == 3:
                A[k[0] - 1] = 30
                continue
            A[k[0] - 1] = A[k[0] - 1] + 1

    after = instrumented(before, inputs=[[np.array(v, "int32")] for v in ([0, 1, 1, 1, 1], [1, 3, 3, 2, 0])])
    fails(after, np.array([1, 3, 1, 1, 1], "int32"), match="A: index 5 of dimension 0")


def test_loop_bounds_bindings_and_lets() -> None:
    @T.prim_func
    def before(A: T.Buffer((6,), "int32"), k: T.int32):
        v = T.Var("v", "int32")
        x: T.int32 = A[k]
        for i in range(A[k + 1]):
            A[i] = T.Let(A[v] + A[v + 1], where={v: x + i})

    values = np.array([1, 2, 1, 0, 4, 2], "int32")
    after = instrumented(before, inputs=[[values, 0], [values, 2], [values, 1]])
    fails(after, values, 5, match="A: index 6 of dimension 0")
    fails(after, values, 6, match="A: index 6 of dimension 0")
    fails(after, values, 4, match="A: index 6 of dimension 0")


def test_ramps_gathers_and_masks() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), I: T.Buffer((4,), "int32"), k: T.int32):
        A[T.Ramp(k, 2, 4)] = T.Broadcast(1, 4)
        A[T.Ramp(9, 1, 4)] = A[I[0:4]]
        A.vstore([T.Ramp(k * 2, 1, 4)], T.Broadcast(5, 4), predicate=T.Ramp(k * 2, 1, 4) < T.Broadcast(16, 4))

    inputs = [[np.arange(16, dtype="int32"), np.array([3, 0, 15, 2], "int32"), k] for k in (0, 7, 9)]
    after = instrumented(before, inputs=inputs)
    fails(after, inputs[0][0], inputs[0][1], 10, match=r"A: index 16 \(lane 3\) of dimension 0")
    fails(after, inputs[0][0], inputs[0][1], -1, match=r"A: index -1 \(lane 0\) of dimension 0")
    fails(after, inputs[0][0], np.array([3, 0, 16, 2], "int32"), 0, match=r"A: index 16 \(lane 2\) of dimension 0")


def test_ends_of_a_ramp_are_checked_and_no_lane_between() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), k: T.int32):
        A[T.Ramp(k, 3, 16)] = T.Broadcast(1, 16)

    assert asserts(instrumented(before, inputs=[[np.zeros(64, "int32"), k] for k in (0, 18)])) == 2


def test_views_address_of_and_externs() -> None:
    register_extern("look", lambda p: 3)
    try:

        @T.prim_func
        def before(A: T.Buffer((8,), "int32"), k: T.int32):
            V = T.decl_buffer((4,), "int32", data=A.data, elem_offset=4)
            V[k] = T.call_extern("int32", "look", T.address_of(A[k + 4]))

        after = instrumented(before, inputs=[[np.zeros(8, "int32"), 3], [np.zeros(8, "int32"), 0]])
        assert asserts(after) == 1
        fails_in = np.zeros(10, "int32")[:8]
        with pytest.raises(IndexError, match="V: index 4 of dimension 0"):
            interpret(after, fails_in, 4)
    finally:
        register_extern("look", None)


def test_constant_indices_in_bounds_have_no_assert() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4), "int32")):
        A[3, 0] = A[0, 3]

    check(InstrumentBoundCheckers(), before, before)

    @T.prim_func
    def wrong(A: T.Buffer((4, 4), "int32")):
        A[3, 4] = A[0, 3]

    after = InstrumentBoundCheckers()(wrong)
    fails(after, np.zeros((4, 4), "int32"), match="A: index 4 of dimension 1")


def test_after_flattening_and_vectorizing() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 8), "float32"), k: T.int32):
        for i in range(4):
            for j in T.vectorized(8):
                A[i, j] = A[i + k, j] + T.float32(1)

    low = VectorizeLoop()(FlattenBuffer()(before))
    after = instrumented(low, inputs=[[np.ones((4, 8), "float32"), 0]])
    fails(
        after,
        np.ones((4, 8), "float32"),
        1,
        match=r"index 32 \(lane 0\) of dimension 0 is outside the bounds 0 <= index < 32",
    )


def test_parallel_loops_and_blocks() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), k: T.int32):
        for i in T.parallel(64):
            A[i] = A[(i + k) % 64] * 0 + k

    after = instrumented(before, inputs=[[np.zeros(64, "int32"), 3]])

    @T.prim_func
    def wrong(A: T.Buffer((64,), "int32"), k: T.int32):
        for i in T.parallel(64):
            A[i + k] = k

    fails(InstrumentBoundCheckers()(wrong), np.zeros(64, "int32"), 63, match="of dimension 0 is outside the bounds 0 <= index < 64")  # fmt: skip

    @T.prim_func
    def blocks(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.block("b"):
                vi = T.axis.spatial(8, i)
                T.reads(A[7 - vi])
                T.writes(B[vi])
                with T.init():
                    B[vi] = 1
                B[vi] = B[vi] + A[7 - vi]

    after = instrumented(blocks)
    assert asserts(after) == 4


def test_statements_in_sequence_cost_linear_time() -> None:
    lines = "\n".join(f"    A[n + {k}] = A[n] + {k}" for k in range(400))
    func = parse(f"@T.prim_func\ndef f(A: T.Buffer((500,), 'int32'), n: T.int32):\n{lines}\n")
    after = InstrumentBoundCheckers()(func)
    verify_well_formed(after)
    roundtrips(after)
    assert asserts(after) == 800
