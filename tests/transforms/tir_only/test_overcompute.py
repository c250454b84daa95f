from __future__ import annotations

import numpy as np
import pytest

from tests.checking import check
from tests.transforms.known_contents import KNOWN, program
from tirlower.ir import IfThenElse, PrimFunc, post_order_visit
from tirlower.script import tir as T
from tirlower.transforms import PassContext, ReduceBranchingThroughOvercompute

PLAIN = ReduceBranchingThroughOvercompute()
FLOW = ReduceBranchingThroughOvercompute(use_dataflow_analysis=True)


def branches(func: PrimFunc) -> int:
    found: list[object] = []
    post_order_visit(func.body, lambda op: found.append(op) if isinstance(op, IfThenElse) else None)
    return len(found)


def zeros_from(valid: int, size: int = 16) -> np.ndarray:
    made = np.arange(1, size + 1, dtype="int32")
    made[valid:] = 0
    return made


def test_storing_what_is_assumed_to_be_there() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        for i in range(16):
            T.evaluate(T.assume(i < 14 or A[i] == 0))
            if i < 14:
                A[i] = 0

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32")):
        for i in range(16):
            T.evaluate(T.assume(i < 14 or A[i] == 0))
            A[i] = 0

    check(PLAIN, before, expected, inputs=[[zeros_from(14)]])


def test_adding_zero() -> None:
    @T.prim_func
    def before(A: T.Buffer((1,), "int32")):
        for i in range(16):
            if i > 0:
                A[0] = A[0] + i

    @T.prim_func
    def expected(A: T.Buffer((1,), "int32")):
        for i in range(16):
            A[0] = A[0] + i

    check(PLAIN, before, expected)


def test_adding_elements_known_to_be_zero() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((1,), "int32")):
        T.func_attr({"tir.noalias": True})
        for i in range(16):
            T.evaluate(T.assume(i < 14 or A[i] == 0))
        B[0] = 0
        for i in range(16):
            if i < 14:
                B[0] = B[0] + A[i]

    inputs = [[zeros_from(14), zeros_from(1, 1)]]
    assert branches(check(FLOW, before, inputs=inputs)) == 0
    check(PLAIN, before, before, inputs=inputs)
    with PassContext(config={"tir.ReduceBranchingThroughOvercompute": {"use_dataflow_analysis": True}}):
        assert branches(PLAIN(before)) == 0


def test_what_is_overwritten_later() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        for i in range(16):
            if i < 14:
                A[i] = 1
        for i in range(16):
            if i >= 14:
                A[i] = 2

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32")):
        for i in range(16):
            A[i] = 1
        for i in range(16):
            if i >= 14:
                A[i] = 2

    check(FLOW, before, expected)
    check(PLAIN, before, before)


def test_values_used_before_they_are_overwritten_are_maintained() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        T.func_attr({"tir.noalias": True})
        for i in range(16):
            if i < 14:
                A[i] = 1
        for i in range(16):
            B[i] = A[i]
        for i in range(16):
            if i >= 14:
                A[i] = 2

    check(FLOW, before, before)


@pytest.mark.parametrize(("start", "kept"), [(12, False), (14, False), (15, True)])
def test_a_superset_is_needed(start: int, kept: bool) -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        for i in range(16):
            if i < 14:
                A[i] = 1
        for i in range(16):
            if i >= start:
                A[i] = 2

    assert branches(check(FLOW, before)) == 1 + kept


def test_split_indices() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        for io, ii in T.grid(4, 4):
            if io * 4 + ii < 14:
                A[io * 4 + ii] = 1
        for i in range(14, 16):
            A[i] = 2

    assert branches(check(FLOW, before)) == 0


def test_both_branches_the_same_where_it_matters() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), n: T.int32):
        for i in range(16):
            if i == 3:
                A[i] = 9
            else:
                A[i] = i * 3
            if n > 4:
                A[i] = A[i] + n
            else:
                A[i] = A[i] + n

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32"), n: T.int32):
        for i in range(16):
            A[i] = i * 3
            A[i] = A[i] + n

    check(PLAIN, before, expected, samples=6)


def test_accesses_outside_the_buffer_stay_guarded() -> None:
    @T.prim_func
    def before(A: T.Buffer((14,), "int32"), B: T.Buffer((1,), "int32"), n: T.int32):
        T.func_attr({"tir.noalias": True})
        for i in range(16):
            if i < 14:
                B[0] = B[0] + T.Mul(A[i], 0)
            if n != 0:
                B[0] = B[0] + T.FloorDiv(0, n)

    check(FLOW, before, before, inputs=[[zeros_from(9, 14), zeros_from(1, 1), n] for n in (0, 3)])


def test_memory_that_may_not_be_written_yet_is_not_read() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        C = T.alloc_buffer((16,), "int32")
        for i in range(14):
            C[i] = A[i]
        for i in range(16):
            if i < 14:
                B[i] = B[i] + T.Mul(C[i], 0)

    check(FLOW, before, before)


def test_iterations_in_parallel_do_not_undo_each_other() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        for i in T.parallel(16):
            if i > 0:
                A[i // 2] = A[i // 2] + i

    check(FLOW, before, before, execute=False)


def test_statements_of_a_case_see_each_other() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), n: T.int32):
        T.func_attr({"tir.noalias": True})
        T.evaluate(T.assume(A[0] == 0))
        if n > 2:
            A[0] = 5
            B[0] = A[0]
        else:
            A[0] = 5
            B[0] = 0

    inputs = [[zeros_from(0, 4), zeros_from(4, 4), n] for n in (1, 5)]
    check(FLOW, before, before, inputs=inputs)


def test_effects_and_loads_in_conditions() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), n: T.int32):
        for i in range(16):
            if A[i] > 3:
                A[0] = A[0] + 0
            if T.call_extern("int32", "abs", n) > 3:
                A[1] = A[1] + 0
            if n > 3:
                T.evaluate(T.call_extern("int32", "abs", A[1]))

    after = check(FLOW, before)
    assert branches(after) == 2


def test_inner_loops_symbolic_sizes_and_views() -> None:
    @T.prim_func
    def before(a: T.handle, n: T.int32):
        m = T.int32()
        A = T.match_buffer(a, (m, 4), "int32")
        V = T.decl_buffer((m * 4,), "int32", data=A.data)
        for i in range(m):
            if i > 0:
                for j in range(4):
                    A[i, j] = A[i, j] + i * j
            if n > 2:
                V[i * 4] = V[i * 4]
            while A[i, 0] < 3:
                A[i, 0] = A[i, 0] + 1
                if i > 0:
                    A[0, 1] = A[0, 1] + i

    after = check(FLOW, before, samples=5)
    assert branches(after) == 0


def test_what_is_assumed_outside_of_a_loop_that_writes_takes_the_dataflow() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        for i in range(4):
            T.evaluate(T.assume(A[i] == 0))
            for j in range(16):
                if j != i:
                    A[j] = 0

    inputs = [[np.zeros(16, "int32")]]
    check(PLAIN, before, before, inputs=inputs)
    assert branches(check(FLOW, before, inputs=inputs)) == 0


def test_nothing_known_nothing_done() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), n: T.int32):
        for i in range(16):
            if i < n:
                A[i] = A[i] + T.float32(0)
            if i < 3:
                A[i] = T.float32(1)
            else:
                A[i] = T.float32(2)

    check(FLOW, before, before)


def test_bounds_of_an_index_beyond_its_type() -> None:
    @T.prim_func
    def before(a: T.handle, n: T.int32):
        m = T.int32()
        A = T.match_buffer(a, (m, 2), "int32")
        flat = T.decl_buffer((m * 2,), "int32", data=A.data)
        if T.bool(False):
            flat[1 % m * 2] = 0
        for i in range(m):
            if n < i:
                flat[(i + 1) % m * 2 + 1] = 3

    check(FLOW, before, idempotent=False)


def test_branches_that_differ_in_what_does_nothing() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        for i in range(16):
            if i < 14:
                A[i] = 1
                T.evaluate(0)
            else:
                A[i] = 1

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32")):
        for i in range(16):
            A[i] = 1
            T.evaluate(0)

    check(ReduceBranchingThroughOvercompute(), before, expected)


@pytest.mark.parametrize("name", KNOWN)
def test_storing_what_is_known_to_be_there_needs_no_branch(name: str) -> None:
    body, array, where, value = KNOWN[name]
    stored = f"    for j in range(24):\n        {{}}{array}[j] = {value}\n"
    # Where it is known to stand there already, storing it changes nothing.
    guarded = stored.format(f"if not ({where}): ")
    after = check(FLOW, program(body + guarded), idempotent=False)
    assert branches(after) == branches(program(body))
    # Another value would overwrite what is known.
    other = program(body + guarded.replace(f"= {value}", f"= {value} + 1"))
    assert branches(check(FLOW, other, idempotent=False)) == branches(other)
