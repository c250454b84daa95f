"""Ranges of a loop's iterations in loops of their own."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import executes_alike, roundtrips, same_function
from tests.schedule.loops.test_reverse import again
from tirlower.diagnostics import BadArgument, NotApplicable
from tirlower.script import parse


@pytest.mark.parametrize("factors", [[2], [3, None], [None, 4], [1, 2, 3], [2, None, 1]])
@pytest.mark.parametrize("low", ["0", "3", "n"])
def test_all_iterations_in_their_order(factors: list[int | None], low: str) -> None:
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((32,), "int32"), n: T.int32):
    for i in range({low}, {low} + 11):
        A[i + 1] = A[i] * 2 + i
        A[i] = A[i] + 1
""")
    sch = tl.Schedule(func, debug_mask="all")
    parts = sch.loop_partition("i", factors)
    assert [part.name for part in parts] == [f"i{n}" for n in range(len(factors) + (None not in factors))]
    roundtrips(sch.mod["main"])
    executes_alike(func, sch.mod["main"], inputs=[[np.arange(32, dtype="int32"), n] for n in (0, 5)])
    again(func, sch)


def test_symbolic_extents_and_cuts() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((32,), "int32"), n: T.int32, m: T.int32):
    T.evaluate(T.assume(n > 4))
    T.evaluate(T.assume(m > 0))
    T.evaluate(T.assume(n > m))
    for i in range(n):
        A[i] = A[i] * 2 + i
""")
    for factors in ([3], [func.params[2]]):
        sch = tl.Schedule(func, debug_mask="all")
        sch.loop_partition("i", factors)
        executes_alike(func, sch.mod["main"], inputs=[[np.arange(32, dtype="int32"), 9, 2]])
    with pytest.raises(NotApplicable, match="not known to be less"):
        tl.Schedule(func).loop_partition("i", [9])


def test_the_form_on_a_block_is_that_of_tvm() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((10, 4), "int32"), B: T.Buffer((10, 4), "int32")):
    for i, j in T.grid(10, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
""")
    sch = tl.Schedule(before, debug_mask="all")
    i, _ = sch.get_loops("B")
    sch.loop_partition(i, [2])
    same_function(
        sch.mod["main"],
        parse("""
@T.prim_func
def f(A: T.Buffer((10, 4), "int32"), B: T.Buffer((10, 4), "int32")):
    with T.block("root"):
        T.reads()
        T.writes()
        with T.block("B_i_common"):
            T.reads(A[0:10, 0:4])
            T.writes(B[0:10, 0:4])
            with T.block("B_i0_partition"):
                T.reads(A[0:2, 0:4])
                T.writes(B[0:2, 0:4])
                for i0, j in T.grid(2, 4):
                    with T.block("B_i0"):
                        vi = T.axis.spatial(10, i0)
                        vj = T.axis.spatial(4, j)
                        T.reads(A[vi, vj])
                        T.writes(B[vi, vj])
                        B[vi, vj] = A[vi, vj] * 2
            with T.block("B_i1_partition"):
                T.reads(A[2:10, 0:4])
                T.writes(B[2:10, 0:4])
                for i1 in range(2, 10):
                    for j in range(4):
                        with T.block("B_i1"):
                            vi = T.axis.spatial(10, i1)
                            vj = T.axis.spatial(4, j)
                            T.reads(A[vi, vj])
                            T.writes(B[vi, vj])
                            B[vi, vj] = A[vi, vj] * 2
"""),
    )
    executes_alike(before, sch.mod["main"])
    assert "sch.loop_partition(loop=l1, factors=[2], preserve_unit_iters=True)" in sch.trace.text("tvm")


def test_what_is_refused() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((10,), "int32")):
    for i in range(10):
        A[i] = i
    for j in T.vectorized(8):
        A[j] = j
""")
    sch = tl.Schedule(func)
    for factors in ([10], [11], [4, 6], [None, 10]):
        with pytest.raises(BadArgument, match="not less than"):
            sch.loop_partition("i", factors)
    with pytest.raises(BadArgument, match="at most one"):
        sch.loop_partition("i", [None, None])
    with pytest.raises(NotApplicable, match="vectorized"):
        sch.loop_partition("j", [2])
