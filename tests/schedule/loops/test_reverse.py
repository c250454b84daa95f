"""Loops run from the last iteration to the first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import executes_alike, roundtrips, same_function
from tirlower.diagnostics import IllegalStep, NotApplicable
from tirlower.script import parse


def again(func: Any, sch: Any) -> None:
    """The trace gives the same module, as JSON and as text."""
    other = tl.Schedule(func)
    sch.trace.apply_json_to_schedule(sch.trace.as_json(dialect="tirlower"), other)
    same_function(other.mod["main"], sch.mod["main"])
    third = tl.Schedule(func)
    space: dict[str, Any] = {}
    exec(str(sch.trace), space)
    space["schedule"](third)
    same_function(third.mod["main"], sch.mod["main"])


@pytest.mark.parametrize(("low", "high"), [("0", "8"), ("3", "n"), ("n", "n + 5"), ("0", "0"), ("2", "3"), ("1", "8")])
@pytest.mark.parametrize("blocks", [False, True])
def test_what_does_not_meet(low: str, high: str, blocks: bool) -> None:
    body = "A[i] = A[i] * 3 + i"
    if blocks:
        body = """with T.block("A"):
            vi = T.axis.spatial(16, i)
            A[vi] = A[vi] * 3 + vi"""
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((16,), "int32"), n: T.int32):
    for i in range({low}, {high}):
        {body}
""")
    sch = tl.Schedule(func, debug_mask="all")
    i = sch.loop("i")
    sch.reverse(i)
    roundtrips(sch.mod["main"])
    inputs = [[np.arange(16, dtype="int32"), n] for n in (0, 2, 7, 11)]
    executes_alike(func, sch.mod["main"], inputs=inputs)
    sch.reverse(i)
    executes_alike(func, sch.mod["main"], inputs=inputs)
    again(func, sch)


def test_int64_and_a_handle_inside() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((16,), "int32")):
    for i in range(T.int64(2), T.int64(9)):
        for j in range(2):
            A[i * T.int64(1)] = A[i] + j
""")
    sch = tl.Schedule(func, debug_mask="all")
    j = sch.loop("j")
    sch.reverse("i")
    assert sch.get(j).loop_var.name == "j"
    executes_alike(func, sch.mod["main"])


def test_a_scan_is_refused_with_its_iterations() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((9,), "int32")):
    for i in range(8):
        A[i + 1] = A[i] + 1
""")
    sch = tl.Schedule(func)
    with pytest.raises(IllegalStep) as raised:
        sch.reverse("i")
    assert [p.loops for p in raised.value.witness.points] == [(("i", 0),), (("i", 1),)]
    assert sch.mod["main"] is func


def test_a_sum_of_floats() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((9,), "float32"), C: T.Buffer((1,), "float32")):
    for i in range(9):
        C[0] = C[0] + A[i]
""")
    with pytest.raises(IllegalStep):
        tl.Schedule(func).reverse("i")
    sch = tl.Schedule(func, reassociate=True)
    sch.reverse("i")
    assert sch.steps[-1].exactness == "reassociated(C)"
    executes_alike(func, sch.mod["main"], tolerance=1e-5)


def test_a_loop_that_is_left_or_bound() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((9,), "int32"), X: T.Buffer((9,), "int32")):
    for i in range(9):
        if X[i] > 3:
            T.evaluate(T.break_loop())
        A[i] = i
    for j in T.thread_binding(4, thread="threadIdx.x"):
        A[j] = j
""")
    sch = tl.Schedule(func)
    with pytest.raises(NotApplicable, match="early"):
        sch.reverse("i")
    with pytest.raises(NotApplicable, match="bound to"):
        sch.reverse("j")
