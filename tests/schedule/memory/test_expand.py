"""``expand``: the memory of an iteration as a slice of the memory of all."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import NotApplicable, ScheduleError
from tirlower.script import parse

INSIDE = """
@T.prim_func
def f(A: T.Buffer((8, 4), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        B = T.alloc_buffer((4,), "int32")
        for j in range(4):
            B[j] = A[i, j] * 2
        C[i] = B[0] + B[3]
"""
LOCAL = """
@T.prim_func
def f(A: T.Buffer((6, 5), "float32"), C: T.Buffer((6, 4), "float32")):
    for i, j in T.grid(6, 4):
        acc = T.float32(0)
        for k in range(5):
            acc = acc + A[i, k]
        C[i, j] = acc
"""


def test_statements_part() -> None:
    def steps(sch: Any) -> None:
        sch.expand("B", "i")
        sch.fission("i")

    sch = taken(INSIDE, steps)
    assert 'B = T.alloc_buffer((8, 4), "int32")' in str(sch.mod["main"])


def test_twice_a_local_accumulator_becomes_a_tile() -> None:
    def steps(sch: Any) -> None:
        sch.expand("acc", "j")
        sch.expand("acc", "i")
        sch.fission("j")
        sch.fission("i")

    sch = taken(LOCAL, steps)
    assert "acc[i, j, 0] = acc[i, j, 0] + A[i, k]" in str(sch.mod["main"])


def test_a_loop_that_starts_elsewhere_and_one_that_runs_at_once() -> None:
    moved = INSIDE.replace("range(8)", "range(2, 8)")
    assert "B[i - 2, j]" in str(taken(moved, lambda sch: sch.expand("B", "i")).mod["main"])

    def steps(sch: Any) -> None:
        sch.parallel("i")
        sch.expand("B", "i")

    taken(INSIDE, steps)


def test_refused() -> None:
    refused(INSIDE, lambda sch: sch.expand("B", "j"), NotApplicable, "not allocated in the loop `j`")
    refused(INSIDE, lambda sch: sch.expand("C", "i"), NotApplicable, "not allocated")
    depends = INSIDE.replace("alloc_buffer((4,)", "alloc_buffer((i + 4,)")
    sch: Any = tl.Schedule(parse(depends))
    with pytest.raises(ScheduleError, match="depends on the loop"):
        sch.expand("B", "i")


SAME_NAME = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8, 2), "int32"), D: T.Buffer((8, 2), "int32")):
    for i in range(8):
        for j in range(2):
            acc = T.alloc_buffer((1,), "int32")
            acc[0] = A[i] + j
            C[i, j] = acc[0] * 2
        for k in range(2):
            acc = T.alloc_buffer((1,), "int32")
            acc[0] = A[i] - k
            D[i, k] = acc[0] * 3
"""


def test_the_memory_of_the_loop_is_meant_where_other_memory_has_the_name() -> None:
    def steps(sch: Any) -> None:
        sch.expand("acc", "i")
        sch.expand("acc", "i")
        sch.fission("i")

    sch = taken(SAME_NAME, steps)
    assert str(sch.mod["main"]).count('T.alloc_buffer((8, 1), "int32")') == 2
