"""The loops that may run at once, of all that there are; those that may not stay as they are, and it is said why."""

from __future__ import annotations

import pytest

import tirlower as tl
from tests.checking import executes_alike, roundtrips
from tests.schedule.loops.test_reverse import again
from tirlower.diagnostics import BadArgument
from tirlower.script import parse

TEXT = """
@T.prim_func
def f(A: T.Buffer((9, 8), "int32"), B: T.Buffer((64,), "int32"), C: T.Buffer((3, 4), "int32"), n: T.int32):
    for i in range(8):
        for j in range(8):
            A[i + 1, j] = A[i, j] + 1
    for k in range(64):
        B[k] = k
    for l in range(3):
        for m in range(4):
            with T.block("C"):
                vl, vm = T.axis.remap("SS", [l, m])
                C[vl, vm] = vl + vm
    for p in range(n):
        B[p] = B[p] * 2
    for q in range(7):
        B[q + 1] = B[q]
"""


def test_the_outermost_that_may_run_in_parallel() -> None:
    func = parse(TEXT)
    sch = tl.Schedule(func, debug_mask="all")
    j = sch.loop("j")
    taken = sch.parallelize()
    assert [loop.name for loop in taken] == ["j", "k", "l", "p"]
    assert sch.get(j) is sch.get(taken[0])
    assert "i: " in sch.steps[-1].why and "q: " in sch.steps[-1].why
    roundtrips(sch.mod["main"])
    executes_alike(func, sch.mod["main"])
    again(func, sch)


def test_only_those_given_and_only_large_ones() -> None:
    func = parse(TEXT)
    sch = tl.Schedule(func, debug_mask="all")
    assert [loop.name for loop in sch.parallelize("i", "k", "l", min_work=4)] == ["j", "k", "m"]
    assert "fewer than 4" in sch.steps[-1].why
    executes_alike(func, sch.mod["main"])
    assert sch.parallelize("k") == []


def test_innermost_loops_as_vectors_and_small_ones_unrolled() -> None:
    func = parse(TEXT)
    sch = tl.Schedule(func, debug_mask="all")
    assert [loop.name for loop in sch.auto_vectorize(sch.loop("i"))] == ["j"]
    assert sch.auto_vectorize(sch.loop("q")) == [] and sch.steps[-1].why.startswith("q: ")
    assert sch.auto_vectorize(sch.loop("p")) == [] and "not a number" in sch.steps[-1].why
    assert [loop.name for loop in sch.unroll_small(sch.loop("l"), 3)] == ["l"]
    executes_alike(func, sch.mod["main"])
    again(func, sch)
    with pytest.raises(BadArgument, match="1 to 64"):
        sch.unroll_small(sch.loop("k"), 0)


def test_what_stands_in_lanes_stays() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8, 8), "int32")):
    for i in T.vectorized(8):
        for j in range(8):
            A[i, j] = j
""")
    sch = tl.Schedule(func)
    assert sch.auto_vectorize(sch.loop("i")) == []
    assert "already" in sch.steps[-1].why and sch.mod["main"] is func
