"""What is known is put in; handles go along."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import executes_alike, roundtrips
from tests.schedule.loops.test_reverse import again
from tirlower.diagnostics import DeadHandle
from tirlower.script import parse


def test_peeled_and_partitioned_loops_lose_their_conditions() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for i in range(16):
        if i == 0:
            A[i] = 7
        else:
            A[i] = B[i - 1] + i
""")
    sch = tl.Schedule(func, debug_mask="all")
    front, rest = sch.peel("i", front=1)
    sch.simplify(front)
    sch.simplify(rest)
    assert "if" not in str(sch.mod["main"]).replace("T.if_then_else", "")
    assert sch.get(rest).loop_var.name == "i"
    with pytest.raises(DeadHandle):
        sch.get(front)
    roundtrips(sch.mod["main"])
    executes_alike(func, sch.mod["main"])
    again(func, sch)


def test_nested_loops_of_one_iteration_and_of_none() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((16,), "int32"), n: T.int32):
    for i in range(3, 4):
        for j in range(1):
            for k in range(4):
                A[i + j + k] = A[i + j + k] * 2 + n
        for l in range(0):
            A[l] = 9
    for m in T.parallel(1):
        A[m] = 5
""")
    sch = tl.Schedule(func, debug_mask="all")
    k, l = sch.loop("k"), sch.loop("l")
    sch.simplify("root")
    assert sch.get(k).loop_var.name == "k" and "A[3 + k]" in str(sch.mod["main"]).replace("k + 3", "3 + k")
    with pytest.raises(DeadHandle):
        sch.get(l)
    executes_alike(func, sch.mod["main"], inputs=[[np.ones(16, "int32"), n] for n in (0, 5)])


def test_blocks_and_facts() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((16, 4), "int32"), n: T.int32):
    T.evaluate(T.assume(n < 8))
    for i_0, i_1, j in T.grid(4, 4, 4):
        with T.block("A"):
            vi = T.axis.spatial(16, i_0 * 4 + i_1)
            vj = T.axis.spatial(4, j)
            T.where(i_0 * 4 + i_1 < 16)
            if n < 10:
                A[vi, vj] = A[vi, vj] + (vi * 4 + vj) // 64
""")
    sch = tl.Schedule(func, debug_mask="all")
    block = sch.get_block("A")
    sch.simplify(sch.loop("i_0"))
    text = str(sch.mod["main"])
    assert "if" not in text and "T.where" not in text and "// 64" not in text
    assert sch.get(block).name == "A"
    executes_alike(func, sch.mod["main"], inputs=[[np.ones((16, 4), "int32"), 3]])


def test_a_loop_of_one_iteration_keeps_the_start_that_its_body_may_write() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((16,), "int32"), N: T.Buffer((2,), "int32")):
    for i in range(N[0], N[0] + 1):
        N[0] = 5
        A[i] = 7
        for j in range(i, i + 1):
            A[j + 1] = A[j] + i // 8
""")
    sch = tl.Schedule(func, debug_mask="all")
    sch.simplify(sch.loop("i"))
    assert "for i in range(N[0]" in str(sch.mod["main"]) and "for j" not in str(sch.mod["main"])
    executes_alike(
        func, sch.mod["main"], inputs=[[np.zeros(16, "int32"), np.array([n, 0], "int32")] for n in (0, 5, 9)]
    )
