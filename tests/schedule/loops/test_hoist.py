"""What is the same in all iterations comes in front of the loop."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import executes_alike
from tests.schedule.loops.test_reverse import again
from tirlower.diagnostics import IllegalStep, NotApplicable, UnprovedStep
from tirlower.script import parse


def program(first: str, second: str, extent: str = "n") -> str:
    return f"""
@T.prim_func
def f(A: T.Buffer((16,), "int32"), P: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), n: T.int32):
    for t in range(2):
        for i in range({extent}):
            {first}
            {second}
"""


@pytest.mark.parametrize("extent", ["8", "n", "0", "1"])
@pytest.mark.parametrize("inner", ["P[t] = A[t] + n", "for k in range(3):\n                P[k] = A[k] * 2"])
def test_what_stays_the_same(extent: str, inner: str) -> None:
    func = parse(program(inner, "B[i] = B[i] + P[t]", extent))
    sch = tl.Schedule(func, debug_mask="all")
    i = sch.loop("i")
    sch.hoist("P", i)
    assert "P" not in str(sch.get(i).body).split("=")[0]
    inputs = [[np.arange(16, dtype="int32"), np.ones(16, "int32"), np.ones(16, "int32"), n] for n in (-1, 0, 1, 9)]
    executes_alike(func, sch.mod["main"], inputs=inputs)
    again(func, sch)


def test_a_block() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((16,), "int32"), P: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for i in range(8):
        with T.block("P"):
            P[2] = A[2]
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = P[2] + vi
""")
    sch = tl.Schedule(func, debug_mask="all")
    p = sch.get_block("P")
    sch.hoist(p, "i")
    assert sch.get_loops(p) == []
    executes_alike(func, sch.mod["main"])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("P[t] = A[t]", "A[t] = i"),  # its input changes
        ("B[i] = P[t]", "P[t] = A[t] + 1"),  # its old result is read in front of it
    ],
)
def test_what_does_not(first: str, second: str) -> None:
    sch = tl.Schedule(parse(program(first, second)))
    with pytest.raises(IllegalStep) as raised:
        sch.hoist("P", "i")
    one, two = raised.value.witness.points
    assert one.indices == two.indices and (one.is_write or two.is_write)


def test_what_reads_its_own_result() -> None:
    with pytest.raises(UnprovedStep, match="writes itself"):
        tl.Schedule(parse(program("P[t] = P[t] + 1", "B[i] = P[t]"))).hoist("P", "i")


def test_what_has_not_the_form() -> None:
    sch = tl.Schedule(parse(program("P[i] = 1", "B[i] = P[t]")))
    with pytest.raises(NotApplicable, match="depends on"):
        sch.hoist("P", "i")
    with pytest.raises(NotApplicable, match="does not stand in the body"):
        sch.hoist("P", "t")


def test_what_an_iteration_allocates_stays_there() -> None:
    func = parse("""
@T.prim_func
def f(P: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        W = T.alloc_buffer((1,), "int32")
        W[0] = i
        P[0] = W[0]
        B[i] = P[0]
""")
    with pytest.raises(NotApplicable, match="allocates"):
        tl.Schedule(func).hoist("P", "i")
