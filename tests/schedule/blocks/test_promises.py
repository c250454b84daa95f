"""What annotations promise is proved before they are put on, and before one is taken off that a loop's kind rests on."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import BadArgument, IllegalStep, NotApplicable, ScheduleError
from tirlower.script import parse

SUM = """
@T.prim_func
def f(A: T.Buffer((8,), "float32"), C: T.Buffer((1,), "float32")):
    for i in range(8):
        C[0] = C[0] + A[i]
"""
CHAIN = """
@T.prim_func
def f(A: T.Buffer((9,), "int32"), B: T.Buffer((9,), "int32")):
    for i in range(8):
        A[i + 1] = B[i]
        B[i + 1] = A[i]
"""
COPY = """
@T.prim_func
def f(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    for i in range(16):
        B = T.alloc_buffer((1,), "int32")
        B[0] = A[i]
        C[i] = B[0] + 1
"""


def test_sums_in_another_order() -> None:
    sch: Any = tl.Schedule(parse(SUM))
    sch.annotate(sch.loop("i"), "tir.reduction", True)
    assert "order of the sum into C" in sch.report()
    refused(CHAIN, lambda sch: sch.annotate(sch.loop("i"), "tir.reduction", True), IllegalStep)
    whole = taken(SUM.replace("float32", "int32"), lambda sch: sch.annotate(sch.loop("i"), "tir.reduction", True))
    assert whole.report().endswith("bitwise equal")


def test_what_a_kind_rests_on_stays() -> None:
    def steps(sch: Any) -> None:
        i = sch.loop("i")
        sch.parallel(i, reduction=True)
        sch.unannotate(i, "tir.reduction")

    refused(SUM, steps, IllegalStep)
    sch: Any = tl.Schedule(parse(SUM))
    sch.annotate(sch.loop("i"), "tir.reduction", True)
    sch.unannotate(sch.loop("i"), "tir.reduction")  # a serial loop is one without it too
    sch = tl.Schedule(parse(CHAIN))
    with sch.unchecked("I know"):
        sch.parallel("i")
    with pytest.raises(IllegalStep):
        sch.unannotate(sch.loop("i"), "tir.unchecked")


def test_a_word_of_the_user_is_recorded_as_one() -> None:
    sch: Any = tl.Schedule(parse(CHAIN))
    sch.annotate(sch.loop("i"), "tir.unchecked", "I know")
    (record,) = [one for one in sch.steps if not one.instruction.kind.pure]
    assert record.verdict == "unchecked" and record.exactness == "unchecked(I know)"
    refused(CHAIN, lambda sch: sch.annotate(sch.loop("i"), "tir.unchecked", 3), BadArgument, "gives the reason")


@pytest.mark.parametrize(
    ("stages", "order", "error"),
    [([0, 1], [0, 1], None), ([0, 0], [0, 1], None), ([1, 0], [0, 1], ScheduleError), ([0, 0], [1, 0], ScheduleError),
     ([0], [0, 1], ScheduleError), ([0, 1], [0, 0], ScheduleError), ([0, -1], [0, 1], BadArgument)],
)  # fmt: skip
def test_pipelines(stages: list[int], order: list[int], error: type[ScheduleError] | None) -> None:
    def steps(sch: Any) -> None:
        sch.annotate(sch.loop("i"), "software_pipeline_stage", stages)
        sch.annotate(sch.loop("i"), "software_pipeline_order", order)

    if error is None:
        taken(COPY, steps)
    else:
        refused(COPY, steps, error)


def test_stages_that_go_on_by_themselves() -> None:
    def steps(sch: Any, which: list[int]) -> None:
        sch.annotate(sch.loop("i"), "software_pipeline_stage", [0, 1])
        sch.annotate(sch.loop("i"), "software_pipeline_async_stages", which)

    taken(COPY, lambda sch: steps(sch, [0]))
    refused(COPY, lambda sch: steps(sch, [2]), BadArgument, "names stage 2")


def test_where_keys_stand_and_what_they_say() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
"""
    taken(text, lambda sch: sch.annotate(sch.get_block("B"), "explicit_read_region", [0]))
    refused(text, lambda sch: sch.annotate(sch.get_block("B"), "explicit_read_region", [1]), BadArgument, "0 to 0")
    refused(text, lambda sch: sch.annotate(sch.loop("i"), "explicit_read_region", [0]), NotApplicable, "about a block")
    refused(text, lambda sch: sch.annotate(sch.get_block("B"), "tir.reduction", True), NotApplicable, "about a loop")
    refused(
        text,
        lambda sch: sch.annotate(sch.get_block("B"), "buffer_dim_align", [[0, 0, 4, 1]]),
        NotApplicable,
        "storage_align",
    )
