"""Nests side by side become one; the program that TVM takes though it is wrong."""

from __future__ import annotations

import pytest

import tirlower as tl
from tests.checking import executes_alike, same_function
from tests.schedule.loops.test_reverse import again
from tirlower.diagnostics import IllegalStep, NotApplicable
from tirlower.script import parse

TWO = """
@T.prim_func
def f(A: T.Buffer((6, 8), "int32"), B: T.Buffer((6, 8), "int32"), C: T.Buffer((6, 8), "int32")):
    for i, j in T.grid(6, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
    for i, j in T.grid(6, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1
"""


def test_as_in_tvm() -> None:
    func = parse(TWO)
    sch = tl.Schedule(func, debug_mask="all")
    c = sch.get_block("C")
    inner = sch.merge(sch.get_loops("B")[1], sch.get_loops(c)[1])
    assert inner.name == "j_m" and sch.get_loops(c)[1].var is inner.var
    same_function(
        sch.mod["main"],
        parse("""
@T.prim_func
def f(A: T.Buffer((6, 8), "int32"), B: T.Buffer((6, 8), "int32"), C: T.Buffer((6, 8), "int32")):
    for i_m, j_m in T.grid(6, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i_m, j_m])
            T.reads(A[vi, vj])
            T.writes(B[vi, vj])
            B[vi, vj] = A[vi, vj] * 2
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i_m, j_m])
            T.reads(B[vi, vj])
            T.writes(C[vi, vj])
            C[vi, vj] = B[vi, vj] + 1
"""),
    )
    executes_alike(func, sch.mod["main"])
    again(func, sch)


def test_only_the_outer_loops() -> None:
    func = parse(TWO)
    sch = tl.Schedule(func, debug_mask="all")
    sch.merge(sch.get_loops("B")[0], sch.get_loops("C")[0])
    executes_alike(func, sch.mod["main"])


def test_the_reversed_reader_is_refused() -> None:
    # Accepted by TVM, which looks at no dependence.
    func = parse("""
@T.prim_func
def f(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi]
    for j in range(16):
        with T.block("C"):
            vj = T.axis.spatial(16, j)
            C[vj] = B[15 - vj]
""")
    sch = tl.Schedule(func)
    with pytest.raises(IllegalStep) as raised:
        sch.merge(sch.get_loops("B")[0], sch.get_loops("C")[0])
    first, second = raised.value.witness.points
    assert first.is_write and dict(first.loops)["i"] == 15 - dict(second.loops)["j"] > dict(second.loops)["j"]


def test_starts_triangles_and_three_nests() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((12, 12), "int32"), B: T.Buffer((12, 12), "int32"), C: T.Buffer((12,), "int32"), n: T.int32):
    for i in range(0, n):
        for j in range(i, n):
            A[i, j] = i
    C[0] = 7
    for p in range(2, n + 2):
        for q in range(p - 2, n):
            B[p - 2, q] = A[p - 2, q] + p
    for r in range(n):
        for s in range(r, n):
            A[r, s] = B[r, s] + s
""")
    sch = tl.Schedule(func, debug_mask="all")
    sch.merge("j", "q", "s")
    import numpy as np

    executes_alike(
        func,
        sch.mod["main"],
        inputs=[
            [np.zeros((12, 12), "int32"), np.zeros((12, 12), "int32"), np.zeros(12, "int32"), n] for n in (-1, 0, 1, 7)
        ],
    )


def test_what_has_not_the_form() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32")):
    for i, j in T.grid(8, 8):
        A[i, j] = 1
    for k, l in T.grid(8, 7):
        B[k, l] = 2
""")
    sch = tl.Schedule(func)
    with pytest.raises(ValueError, match="at least 2"):
        sch.merge("i")
    with pytest.raises(NotApplicable, match="extents"):
        sch.merge("j", "l")
    with pytest.raises(NotApplicable, match="depths"):
        sch.merge("i", "l")
