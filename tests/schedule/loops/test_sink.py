"""Statements beside a loop go into its first or last iteration."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import executes_alike
from tests.schedule.loops.test_reverse import again
from tirlower.diagnostics import IllegalStep, NotApplicable
from tirlower.script import parse

TEXT = """
@T.prim_func
def f(P: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), Q: T.Buffer((16,), "int32"), n: T.int32):
    T.evaluate(T.assume(n > 2))
    P[0] = 7
    for i in range({low}, {high}):
        B[i] = P[0] + B[i]
    Q[1] = B[{low}]
"""


@pytest.mark.parametrize(("low", "high"), [("0", "8"), ("2", "n"), ("3", "4")])
def test_before_and_behind(low: str, high: str) -> None:
    func = parse(TEXT.format(low=low, high=high))
    sch = tl.Schedule(func, debug_mask="all")
    i = sch.loop("i")
    sch.sink("P", i)
    sch.sink("Q", i)
    assert len(sch.get(i).body.stmts) == 3
    inputs = [[np.arange(16, dtype="int32"), np.ones(16, "int32"), np.ones(16, "int32"), n] for n in (3, 9)]
    executes_alike(func, sch.mod["main"], inputs=inputs)
    again(func, sch)


def test_blocks() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for k in range(4):
        with T.block("A"):
            vk = T.axis.spatial(4, k)
            A[vk] = 7
        for i in range(8):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                B[vi] = B[vi] + A[vk]
""")
    sch = tl.Schedule(func, debug_mask="all")
    sch.sink("A", "i")
    assert "T.where(i == 0)" in str(sch.mod["main"])
    executes_alike(func, sch.mod["main"])
    again(func, sch)


def test_what_is_refused() -> None:
    func = parse("""
@T.prim_func
def f(P: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), Q: T.Buffer((16,), "int32"), n: T.int32):
    for k in range(2):
        P[k] = 7
        for i in range(n):
            B[i] = P[k]
        for l in range(4):
            B[l] = 1
    for k in range(2):
        Q[k] = 7
        for j in T.parallel(8):
            B[j] = Q[k]
""")
    sch = tl.Schedule(func)
    with pytest.raises(NotApplicable, match="known to run"):
        sch.sink("P", "i")
    with pytest.raises(NotApplicable, match="directly"):
        sch.sink("P", "l")
    with pytest.raises(NotApplicable, match="beside"):
        sch.sink("P", "j")
    with pytest.raises(IllegalStep):
        sch.sink("Q", "j")


@pytest.mark.parametrize(("extent", "guarded"), [(1, False), (2, True), (3, True)])
@pytest.mark.parametrize("behind", [False, True])
def test_a_loop_of_one_iteration_asks_nothing(extent: int, guarded: bool, behind: bool) -> None:
    lines = ["    A[7] = A[7] + 1", f"    for i in range({extent}):\n        B[i] = B[i] * 2 + A[7]"]
    func = parse(
        '@T.prim_func\ndef f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):\n'
        + "\n".join(lines[::-1] if behind else lines)
    )
    sch = tl.Schedule(func)
    sch.sink("A", "i")
    assert ("if " in str(sch.mod["main"])) == guarded
    executes_alike(func, sch.mod["main"])
