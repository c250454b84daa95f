"""``lift_alloc`` and ``privatize``: one memory for all iterations, or one for each."""

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
CARRIED = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((1,), "int32")
    B[0] = 0
    for i in range(8):
        B[0] = B[0] + A[i]
        C[i] = B[0]
"""


def test_out_and_in_again() -> None:
    def steps(sch: Any) -> None:
        sch.lift_alloc("B", "i")
        sch.privatize("B", "i")
        sch.parallel("i")

    taken(INSIDE, steps)


def test_not_out_of_a_parallel_loop() -> None:
    def steps(sch: Any) -> None:
        sch.parallel("i")
        sch.lift_alloc("B", "i")

    sch: Any = tl.Schedule(parse(INSIDE))
    with pytest.raises(ScheduleError, match="writes"):
        steps(sch)


def test_what_is_carried_is_not_private() -> None:
    refused(CARRIED, lambda sch: sch.privatize("B", "i"), NotApplicable, "outside")
    error = refused(
        CARRIED.replace("    B[0] = 0\n    for", "    for").replace(
            "        B[0] = B[0]", "        if i == 0:\n            B[0] = 0\n        B[0] = B[0]"
        ),
        lambda sch: sch.privatize("B", "i"),
    )
    assert error.witness.source.buffer == "B"


def test_parameters_and_shapes_of_the_loop() -> None:
    refused(INSIDE, lambda sch: sch.lift_alloc("C", "i"), NotApplicable)
    refused(INSIDE, lambda sch: sch.privatize("B", "i"), NotApplicable, "already")
