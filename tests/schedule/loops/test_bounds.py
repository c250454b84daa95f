"""Loops whose bounds are read from memory that changes inside of them: no step takes such a bound twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import executes_alike
from tirlower.diagnostics import NotApplicable, ScheduleError
from tirlower.poly import can_reorder
from tirlower.script import parse

LOOP = """
@T.prim_func
def f(A: T.Buffer((16,), "int32"), N: T.Buffer((2,), "int32")):
    {before}
    for i in range({bound}):
        A[i] = A[i] + 1
        {inside}
"""
NEST = """
@T.prim_func
def f(A: T.Buffer((16,), "int32"), N: T.Buffer((2,), "int32")):
    for i in range(3):
        for j in range(N[0]):
            A[j] = A[j] + 1
            {inside}
"""
STEPS: dict[str, Callable[[Any, Any], object]] = {
    "split": lambda sch, i: sch.split(i, [None, 4]),
    "tile": lambda sch, i: sch.tile([i], [4]),
    "peel front": lambda sch, i: sch.peel(i, 1),
    "peel back": lambda sch, i: sch.peel(i, back=2),
    "peel beyond": lambda sch, i: sch.peel(i, beyond=4),
    "vectorize": lambda sch, i: sch.vectorize(i, 4, tail="scalar"),
    "unroll_jam": lambda sch, i: sch.unroll_jam(i, 2),
    "reverse": lambda sch, i: sch.reverse(i),
    "fission": lambda sch, i: sch.fission(i),
}
INSIDE = {
    "always": "N[0] = 3",
    "once": "if i == 1:\n            N[0] = 2",
    "by a view": 'M = T.Buffer((2,), "int32", data=N.data)\n        M[0] = 3',
    "through a pointer": 'T.evaluate(T.call_extern("int32", "f", N.data))',
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("inside", INSIDE)
def test_a_bound_that_changes_is_taken_once(step: str, inside: str) -> None:
    sch = tl.Schedule(parse(LOOP.format(before="T.evaluate(0)", bound="N[0]", inside=INSIDE[inside])))
    with pytest.raises(ScheduleError):
        STEPS[step](sch, sch.loops("A")[0])


@pytest.mark.parametrize("step", ["split", "tile", "peel front", "peel back", "peel beyond"])
def test_the_remedy(step: str) -> None:
    """The message names it, and with it the step is right."""
    wrong = tl.Schedule(parse(LOOP.format(before="T.evaluate(0)", bound="N[0]", inside="N[0] = 3")))
    with pytest.raises(NotApplicable, match="which the loop takes once") as caught:
        STEPS[step](wrong, wrong.loops("A")[0])
    assert "bind the extent to a name in front of the loop" in str(caught.value)
    for before, bound, inside in (("n = T.bind(N[0])", "n", "N[0] = 3"), ("T.evaluate(0)", "N[0]", "N[0] = N[0]")):
        func = parse(LOOP.format(before=before, bound=bound, inside=inside if bound == "n" else "A[15] = 7"))
        sch = tl.Schedule(func)
        STEPS[step](sch, sch.loops("A")[0])
        inputs = [[np.arange(16, dtype="int32"), np.array([n, 0], "int32")] for n in (0, 1, 4, 9, 16)]
        executes_alike(func, sch.mod["main"], inputs=inputs)


def test_bounds_of_inner_loops() -> None:
    sch = tl.Schedule(parse(NEST.format(inside="N[0] = 3")))
    i, j = sch.loops("A")
    with pytest.raises(NotApplicable, match="which the loop takes once"):
        sch.fuse(i, j)
    func = parse(NEST.format(inside="N[1] = 3"))  # another element: a box of one buffer is not told apart
    other = tl.Schedule(func)
    with pytest.raises(NotApplicable):
        other.fuse(*other.loops("A"))
    quiet = parse(NEST.format(inside="A[0] = 2"))
    last = tl.Schedule(quiet)
    last.fuse(*last.loops("A"))
    executes_alike(quiet, last.mod["main"], inputs=[[np.zeros(16, "int32"), np.array([n, 0], "int32")] for n in (1, 5)])


def test_a_name_for_the_memory() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((16,), "int32"), N: T.Buffer((2,), "int32")):
    q = T.bind(N.data)
    M = T.Buffer((2,), "int32", data=q)
    for i in range(N[0]):
        A[i] = A[i] + 1
        M[0] = 3
"""
    sch = tl.Schedule(parse(text))
    with pytest.raises(NotApplicable, match="which the loop takes once"):
        sch.split(sch.loops("A")[0], [None, 4])


def test_what_was_known_of_memory_is_not_when_it_has_changed() -> None:
    """A name is no other way to write what it was read from, and a condition on memory says nothing once that is written."""
    text = """
@T.prim_func
def f(A: T.Buffer((16,), "int32"), N: T.Buffer((2,), "int32")):
    n = T.bind(N[0])
    {between}
    for i in range(n):
        A[i] = A[i] + 1
        N[0] = 3
"""
    guarded = "if N[0] >= 8:\n        N[0] = 1"
    inputs = [[np.arange(16, dtype="int32"), np.array([n, 1], "int32")] for n in (0, 1, 4, 9, 16)]
    for between in ("N[0] = 0", "N[0] = 16", guarded):
        func = parse(text.format(between=between))
        for step in ("split", "tile", "peel front", "peel back", "peel beyond"):
            sch = tl.Schedule(func)
            STEPS[step](sch, sch.loops("A")[0])
            executes_alike(func, sch.mod["main"], inputs=inputs)
    stale = parse("""
@T.prim_func
def f(A: T.Buffer((16,), "int32"), N: T.Buffer((2,), "int32")):
    if N[0] >= 8:
        N[0] = N[1]
        for i in range(T.min(N[0], 16)):
            A[i] = A[i] + 1
""")
    sch = tl.Schedule(stale)
    sch.split(sch.loops("A")[0], [None, 8])
    executes_alike(
        stale, sch.mod["main"], inputs=[[np.zeros(16, "int32"), np.array(n, "int32")] for n in ((9, 3), (9, 16))]
    )
    with pytest.raises(NotApplicable, match="at least"):
        tl.Schedule(stale).peel("i", beyond=8, tail="shift")


REORDERED = """
@T.prim_func
def f(A: T.Buffer((16,), "int32"), N: T.Buffer((8,), "int32")):
    for i in range({bound}):
        for j in range(4):
            A[i + j] = A[i + j] + j
            N[{at}] = 3
"""


@pytest.mark.parametrize("bound", ["N[0]", "N[1], 8", "N[0], N[0] + 4"])
@pytest.mark.parametrize("at", ["j", "i % 8", "i + 1"])
def test_a_loop_that_moves_inward_takes_its_bounds_again(bound: str, at: str) -> None:
    func = parse(REORDERED.format(bound=bound, at=at))
    verdict = can_reorder(func, ["j", "i"])
    assert verdict.refuted and "what its bounds read" in verdict.reason
    with pytest.raises(NotApplicable, match="what its bounds read"):
        tl.Schedule(func).reorder("j", "i")


def test_bounds_that_stay_allow_another_order() -> None:
    text = REORDERED.format(bound="N[0]", at="j")
    func = parse(text.replace("            N[j] = 3\n", ""))
    sch = tl.Schedule(func)
    sch.reorder("j", "i")
    inputs = [[np.arange(16, dtype="int32"), np.full(8, n, "int32")] for n in (0, 1, 4, 8)]
    executes_alike(func, sch.mod["main"], inputs=inputs)


DIVIDED = """
@T.prim_func
def f(A: T.Buffer((64,), "int32"), n: T.int32, d: T.int32, m: T.int32):
    {assumed}
    for i in range(m):
        {guard}
            for k in range({bound}):
                if k < 64:
                    A[k] = A[k] + i
"""


@pytest.mark.parametrize("guard", ["if d != 0:", "for j in range(1):"])
@pytest.mark.parametrize("bound", ["n // d", "n % d", "T.truncdiv(n, d)"])
def test_no_bound_is_computed_where_it_may_divide_by_zero(guard: str, bound: str) -> None:
    """Where the program asks for it, ``d`` is not 0, or there is no iteration."""
    func = parse(DIVIDED.format(assumed="T.evaluate(0)", guard=guard, bound=bound))
    for step in (lambda sch: sch.reorder("k", "i"), lambda sch: sch.interchange("i", "k")):
        with pytest.raises(NotApplicable, match="divide by d, which is not known to be other than 0"):
            step(tl.Schedule(func))
    known = parse(DIVIDED.format(assumed="T.assume(d > 0)", guard=guard, bound=bound))
    sch = tl.Schedule(known, debug_mask="all")
    sch.reorder("k", "i")
    inputs = [[np.ones(64, "int32"), n, d, m] for n, d, m in ((9, 2, 3), (-9, 4, 3), (70, 1, 2), (5, 3, 0))]
    executes_alike(known, sch.mod["main"], inputs=inputs)


def test_fused_loops_compute_all_bounds_in_front() -> None:
    text = DIVIDED.format(assumed="T.evaluate(0)", guard="for j in range(2):", bound="n // d").replace(
        "range(1)", "range(m)"
    )
    sch = tl.Schedule(parse(text))
    with pytest.raises(NotApplicable, match="divide by d"):
        sch.fuse("i", "j", "k")
    sch.fuse("i", "j")


@pytest.mark.parametrize("step", ["split", "tile"])
def test_bounds_that_divide_stay_under_what_a_split_leaves_out(step: str) -> None:
    """``4 - i`` is 0 in the iterations of the last part that there are not."""
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32"), n: T.int32):
    for i in range(4):
        for k in range(n // (4 - i)):
            A[i] = A[i] + k
""")
    sch = tl.Schedule(func, debug_mask="all")
    sch.split("i", [None, 3]) if step == "split" else sch.tile(["i"], [3])
    executes_alike(func, sch.mod["main"], inputs=[[np.zeros(8, "int32"), n] for n in (-3, 0, 12)])
    kernel = tl.build(sch)
    found = np.zeros(8, "int32")
    kernel(found, 12)
    np.testing.assert_array_equal(found[:4], [sum(range(12 // (4 - i))) for i in range(4)])
