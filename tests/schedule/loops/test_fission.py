"""A loop over several statements becomes several."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import executes_alike, roundtrips
from tests.schedule.loops.test_reverse import again
from tirlower.diagnostics import BadArgument, IllegalStep, NotApplicable, ScheduleError
from tirlower.script import parse

THREE = """
@T.prim_func
def f(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32"), n: T.int32):
    for i in range(1, n):
        A[i] = A[i - 1] + i
        B[i] = A[i] * 2
        C[i] = B[i] + A[i - 1]
"""


@pytest.mark.parametrize("at", [None, 1, 2])
def test_each_statement_a_loop(at: int | None) -> None:
    func = parse(THREE)
    sch = tl.Schedule(func, debug_mask="all")
    i = sch.loop("i")
    parts = sch.fission(i, at=at)
    assert len(parts) == (3 if at is None else 2) and sch.get(i) is sch.get(parts[0])
    roundtrips(sch.mod["main"])
    executes_alike(
        func, sch.mod["main"], inputs=[[np.ones(16, "int32") for _ in "abc"] + [n] for n in (-2, 0, 1, 2, 16)]
    )
    again(func, sch)


def test_blocks_and_names() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for i in range(16):
        with T.block("A"):
            vi = T.axis.spatial(16, i)
            A[vi] = vi
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + 1
""")
    sch = tl.Schedule(func, debug_mask="all")
    b = sch.get_block("B")
    one, two = sch.fission("i", names=["p", "q"])
    assert (one.name, two.name) == ("p", "q") and sch.get_loops(b)[0].var is two.var
    executes_alike(func, sch.mod["main"])
    with pytest.raises(BadArgument, match="2 loops"):
        tl.Schedule(func).fission("i", names=["p"])
    with pytest.raises(BadArgument, match="cannot be cut"):
        tl.Schedule(func).fission("i", at=2)


def test_what_hands_something_on_backwards() -> None:
    func = parse(THREE.replace("A[i - 1] + i", "C[i - 1] + i"))
    sch = tl.Schedule(func)
    with pytest.raises(IllegalStep) as raised:
        sch.fission("i")
    first, second = raised.value.witness.points
    assert first.indices == second.indices and first.loops != second.loops
    sch.fission("i", at=1) if sch.can("fission", "i", at=1).proved else None
    assert sch.mod["main"] is func


def test_a_loop_that_writes_its_own_bound() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32"), N: T.Buffer((1,), "int32")):
    for i in range(T.min(N[0], 8)):
        N[0] = 3
        A[i] = 1
""")
    with pytest.raises(NotApplicable, match="bounds read"):
        tl.Schedule(func).fission("i")


def test_a_handle_of_what_does_nothing_ends() -> None:
    """A statement without an effect is left out of what is made anew: its handle made the step fail by an internal error."""
    sch = tl.Schedule(parse("def f(n: T.int32):\n    for i in range(n):\n        T.evaluate(0)"), debug_mask="all")
    i = sch.loop("i")
    (nothing,) = i.body
    (part,) = sch.fission(i)
    assert sch.get(part) is sch.get(i) and not i.body[1:]
    with pytest.raises(ScheduleError):
        sch.get(nothing)
