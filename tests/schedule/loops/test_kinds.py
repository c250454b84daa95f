"""How loops run: parallel, vectorized, unrolled, bound; decided by dependences, on blocks and without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import executes_alike
from tirlower.diagnostics import BadArgument, IllegalStep, NotApplicable, TraceError, UnprovedStep
from tirlower.script import parse


def kind(sch: Any, loop: str) -> str:
    return str(sch.get(sch.loop(loop)).kind.value)


def test_a_sum_in_place_is_parallel_in_what_it_does_not_carry() -> None:
    # Refused by TVM: the block is neither complete nor a reduction.
    func = parse("""
@T.prim_func
def f(B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + C[vi]
""")
    sch = tl.Schedule(func, debug_mask="all")
    sch.parallel("i")
    assert kind(sch, "i") == "parallel"
    executes_alike(func, sch.mod["main"])


@pytest.mark.parametrize(
    "body",
    [
        "B[i + 1] = B[i]",  # carried
        "H[0] = B[i]",  # one element for all
        "H[X[i]] = B[i]",  # scatter
    ],
)
def test_iterations_that_meet_are_not_parallel(body: str) -> None:
    func = parse(f"""
@T.prim_func
def f(B: T.Buffer((9,), "int32"), H: T.Buffer((9,), "int32"), X: T.Buffer((9,), "int32")):
    for i in range(8):
        {body}
""")
    sch = tl.Schedule(func)
    before = sch.mod
    with pytest.raises(UnprovedStep if "X" in body else IllegalStep) as raised:
        sch.parallel("i")
    assert sch.mod is before and not sch.steps
    if "X" not in body:
        first, second = raised.value.witness.points
        assert first.loops != second.loops and first.indices == second.indices


def test_a_reduction_is_parallel_with_partial_results_when_that_is_asked_for() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8,), "float32"), C: T.Buffer((1,), "float32")):
    C[0] = 0.0
    for i in range(8):
        C[0] = C[0] + A[i]
""")
    sch = tl.Schedule(func)
    with pytest.raises(IllegalStep):
        sch.parallel("i")
    sch.parallel("i", reduction=True)
    assert sch.steps[-1].exactness == "reassociated(C)"
    assert dict(sch.get(sch.loop("i")).annotations) == {"tir.reduction": True}
    executes_alike(func, sch.mod["main"], tolerance=1e-4)
    with pytest.raises(TraceError, match="no form in TVM"):
        sch.trace.as_python()


def test_lanes_run_statement_by_statement() -> None:
    backwards = parse("""
@T.prim_func
def f(A: T.Buffer((9,), "int32")):
    for i in range(8):
        A[i] = A[i + 1]
""")
    sch = tl.Schedule(backwards)
    sch.vectorize("i")
    assert kind(sch, "i") == "vectorized" and not sch.can("parallel", "i").proved
    forwards = parse(backwards.script().replace("A[i] = A[i + 1]", "A[i + 1] = A[i]"))
    with pytest.raises(IllegalStep):
        tl.Schedule(forwards).vectorize("i")


def test_unrolling_wants_a_constant() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer(("n",), "int32")):
    for i in range(n):
        A[i] = 1
""")
    sch = tl.Schedule(func)
    with pytest.raises(NotApplicable, match="not a constant"):
        sch.unroll("i")
    _, inner = sch.split("i", [None, 4])
    sch.unroll(inner)
    executes_alike(func, sch.mod["main"])


def test_threads() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        for k in range(8):
            C[i] = C[i] + A[i, k]
""")
    sch = tl.Schedule(func, debug_mask="all")
    with pytest.raises(BadArgument, match="no thread axis"):
        sch.bind("i", "threadIdx.w")
    with pytest.raises(IllegalStep):
        sch.bind("k", "blockIdx.x")
    sch.bind("i", "blockIdx.x")
    assert sch.trace.insts[-1].attrs == ["blockIdx.x"]
    assert sch.get(sch.loop("i")).thread_tag == "blockIdx.x"
    with pytest.raises(NotApplicable, match=r"bound to blockIdx\.x"):
        sch.parallel("i")


def test_a_step_on_the_users_word_says_so() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32"), X: T.Buffer((8,), "int32")):
    for i in range(8):
        A[X[i]] = i
""")
    sch = tl.Schedule(func)
    with sch.unchecked("X is a permutation"):
        sch.parallel("i")
    assert sch.steps[-1].verdict == "unchecked" and sch.steps[-1].exactness == "unchecked(X is a permutation)"
    assert sch.get(sch.loop("i")).annotations["tir.unchecked"] == "X is a permutation"
    believing = tl.Schedule(func, enable_check=False)
    believing.parallel("i")
    assert believing.steps[-1].verdict == "unchecked"


def test_loops_of_one_axis_share_their_variable() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((4, 8), "int32"), B: T.Buffer((4, 8), "int32")):
    for i in range(4):
        for j in range(8):
            A[i, j] = i + j
        for k in range(8):
            B[i, k] = i * k
        for l in range(4):
            B[i, l] = 1
""")
    sch = tl.Schedule(func, debug_mask="all")
    sch.bind("i", "blockIdx.x")
    sch.bind("j", "threadIdx.x")
    k = sch.loop("k")
    sch.bind(k, "threadIdx.x")
    assert sch.get(k).loop_var is sch.get(sch.loop("j#0")).loop_var
    with pytest.raises(NotApplicable, match="8 threads in this kernel"):
        sch.bind("l", "threadIdx.x")
    with pytest.raises(NotApplicable, match="around it is bound"):
        sch.bind("l", "blockIdx.x")
    a, b = np.zeros((4, 8), "int32"), np.zeros((4, 8), "int32")
    tl.interpret(sch.mod["main"], a, b)
    assert (a == np.add.outer(range(4), range(8))).all()


def test_a_thread_keeps_its_memory_to_itself() -> None:
    # What an iteration hands on in local memory, a thread could not.
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    W = T.alloc_buffer((9,), "int32", scope="local")
    W[0] = 3
    for i in range(8):
        W[i + 1] = W[i] + 1
        A[i] = W[i + 1]
""")
    with pytest.raises(IllegalStep):
        tl.Schedule(func).bind("i", "threadIdx.x")
