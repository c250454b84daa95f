"""The table of steps."""

from __future__ import annotations

import tirlower as tl
from tirlower.schedule.report import exactness_of
from tirlower.script import parse


def test_a_line_for_each_step_and_the_sum() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8, 8), "int32")):
    for i, j in T.grid(7, 7):
        A[i + 1, j] = A[i, j + 1]
""")
    sch = tl.Schedule(func)
    i, j = sch.loops("A")
    with sch.unchecked("the user says so"):
        sch.reorder(j, i)
    sch.unroll(j)
    lines = sch.report().splitlines()
    assert len(lines) == 3 and "unchecked: the user says so" in lines[0] and "proved" in lines[1]
    assert lines[0].startswith("2  sch.reorder(j, i)") and lines[0].endswith(" ms")
    assert lines[2] == "unchecked: the user says so"
    assert exactness_of([]) == "bitwise equal"
