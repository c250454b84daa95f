"""Loops that count from elsewhere, and what a skew allows."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import executes_alike, roundtrips
from tests.schedule.loops.test_reverse import again
from tirlower.diagnostics import BadArgument, IllegalStep, NotApplicable
from tirlower.script import parse

STENCIL = """
@T.prim_func
def f(A: T.Buffer((20, 20), "int32"), n: T.int32):
    for t in range(1, n):
        for i in range(2, 18):
            A[t, i] = A[t - 1, i - 1] + A[t - 1, i] + A[t - 1, i + 1]
"""


@pytest.mark.parametrize("by", [1, -2, 0, 7])
def test_shift(by: int) -> None:
    func = parse(STENCIL)
    sch = tl.Schedule(func, debug_mask="all")
    sch.shift("i", by)
    sch.shift("t", by)
    roundtrips(sch.mod["main"])
    executes_alike(
        func, sch.mod["main"], inputs=[[np.arange(400, dtype="int32").reshape(20, 20), n] for n in (0, 2, 19)]
    )
    again(func, sch)


def test_shift_of_blocks_by_a_variable() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((20, 20), "int32")):
    for i in range(3):
        for j in range(T.int32(5)):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = vi * 10 + vj
""")
    sch = tl.Schedule(func, debug_mask="all")
    i, j = sch.get_loops("A")
    sch.shift(j, sch.get(i).loop_var * 2)
    executes_alike(func, sch.mod["main"])
    with pytest.raises(BadArgument, match="means nothing"):
        sch.shift(i, sch.get(j).loop_var)
    with pytest.raises(BadArgument, match="fit"):
        sch.shift(i, 1 << 40)
    with pytest.raises(BadArgument, match="fit"):
        sch.shift(i, (1 << 31) - 2)


def test_a_skewed_sweep_may_be_reordered() -> None:
    func = parse(STENCIL)
    plain = tl.Schedule(func)
    with pytest.raises(IllegalStep):
        plain.reorder("i", "t")
    sch = tl.Schedule(func, debug_mask="all")
    sch.skew("t", "i", 1)
    sch.reorder("i", "t")
    assert "if" not in str(sch.mod["main"])
    executes_alike(
        func, sch.mod["main"], inputs=[[np.arange(400, dtype="int32").reshape(20, 20), n] for n in (0, 1, 2, 19)]
    )
    again(func, sch)


def test_what_has_not_the_form() -> None:
    sch = tl.Schedule(parse(STENCIL))
    with pytest.raises(NotApplicable, match="does not stand inside"):
        sch.skew("i", "t", 1)
    with pytest.raises(NotApplicable, match="does not stand inside"):
        sch.skew("i", "i", 1)
    with pytest.raises(TypeError):
        sch.skew("t", "i", 0.5)
