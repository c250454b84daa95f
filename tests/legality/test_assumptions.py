"""Facts of T.assume: used by both checks, checked in debug builds, listed."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import LegalityError, RuntimeAssertError
from tirlower.script import tir as T


@T.prim_func
def gather(A: T.Buffer(("m",), "float32"), X: T.Buffer(("n",), "int32"), B: T.Buffer(("n",), "float32")):
    for i in range(n):
        T.evaluate(T.assume(0 <= X[i] and X[i] < m))
        B[i] = A[X[i]]


@T.prim_func
def prefix(A: T.Buffer(("n",), "float32"), B: T.Buffer(("m",), "float32")):
    T.evaluate(T.assume(n <= m))
    for i in range(n):
        B[i] = A[i]


@pytest.mark.parametrize("func", [gather, prefix])
def test_bounds_use_assumptions(func):
    report = tl.build(func).report()
    assert not report.guarded
    assert len(report.assumed) == 1 and "taken on trust" in report.assumed[0].reason
    assert "test_assumptions.py" in report.assumed[0].place


def test_contents_that_the_program_writes_are_not_facts():
    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), X: T.Buffer((8,), "int32")):
        for i in range(8):
            T.evaluate(T.assume(0 <= X[i] and X[i] < 8))
            X[i] = X[i] + 1
            A[X[i]] = i

    kernel = tl.build(f)
    assert [note.access for note in kernel.report().guarded] == ["A[X[i]]"]
    with pytest.raises(IndexError, match=r"A\[8\]"):
        kernel(np.zeros(8, "int32"), np.full(8, 7, "int32"))


def test_loops_use_assumptions():
    @T.prim_func
    def far(A: T.Buffer((64,), "float32"), d: T.int32):
        T.evaluate(T.assume(d >= 16 and d < 32))
        for i in T.parallel(16):
            A[i] = A[i + d]

    @T.prim_func
    def near(A: T.Buffer((64,), "float32"), d: T.int32):
        T.evaluate(T.assume(d >= 1 and d < 32))
        for i in T.parallel(16):
            A[i] = A[i + d]

    (loop,) = tl.build(far).report().loops
    assert loop.status == "proved"
    with pytest.raises(LegalityError):
        tl.build(near)


def test_debug_builds_check_them():
    a, b = np.zeros(4, "float32"), np.ones(4, "float32")
    with tl.PassContext(config={"tir.enable_debug": True}):
        debug = tl.build(gather)
        short = tl.build(prefix)
    assert "checked at run time" in debug.report().assumed[0].reason
    debug(a, np.array([0, 1, 2, 3], "int32"), b)
    with pytest.raises(RuntimeAssertError, match="the assumption does not hold"):
        debug(a, np.array([0, 1, 2, 4], "int32"), b)
    with pytest.raises(RuntimeAssertError, match="the assumption does not hold"):
        short(a, b[:3].copy())


def test_assertions_are_facts_too():
    @T.prim_func
    def f(A: T.Buffer(("n",), "float32"), B: T.Buffer(("m",), "float32")):
        assert n <= m, "B is long enough"
        for i in range(n):
            B[i] = A[i]

    kernel = tl.build(f)
    assert not kernel.report().guarded
    with pytest.raises(RuntimeAssertError, match="long enough"):
        kernel(np.zeros(4, "float32"), np.zeros(3, "float32"))
