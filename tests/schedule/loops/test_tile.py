"""``tile``: judged by the final order, whatever the sizes divide."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tests.checking import same_function
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import BadArgument, IllegalStep, NotApplicable
from tirlower.script import parse

TRANSPOSED = """
@T.prim_func
def f(A: T.Buffer((10, 12), "int32"), B: T.Buffer((12, 10), "int32")):
    for i, j in T.grid(10, 12):
        B[j, i] = A[i, j]
"""


def test_outer_loops_then_inner_ones_by_name() -> None:
    def steps(sch: Any) -> None:
        outer, inner = sch.tile(sch.loops("B"), [4, 4], names=["io", "jo", "ii", "ji"])
        assert [loop.var.name for loop in (*outer, *inner)] == ["io", "jo", "ii", "ji"]

    sch = taken(TRANSPOSED, steps)
    assert [record.instruction.kind.method for record in sch.steps] == ["loops", "tile"]
    assert [loop.var.name for loop in sch.loops("B")] == ["io", "jo", "ii", "ji"]


def test_a_stencil_is_refused_with_what_is_turned_round() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((9, 9), "int32")):
    for i, j in T.grid(8, 8):
        A[i + 1, j] = A[i, j + 1]
""")
    sch: Any = tl.Schedule(before)
    with pytest.raises(IllegalStep, match="turns round a dependence"):
        sch.tile(["i", "j"], [4, 4])
    assert sch.mod["main"] is before
    assert sch.can("tile", ["i", "j"], [4, 4]).refuted


def test_wrong_arguments() -> None:
    refused(TRANSPOSED, lambda sch: sch.tile(["i", "j"], [4]), BadArgument)
    refused(TRANSPOSED, lambda sch: sch.tile(["i", "j"], [4, 4], tail="cut"), BadArgument)
    refused(TRANSPOSED, lambda sch: sch.tile(["i", "j"], [4, 4], tail="exact"), NotApplicable)


@pytest.mark.parametrize(
    "loops, sizes, line",
    [
        (["i", "j"], [4, 4], "(i_0, j_0), (i_1, j_1) = sch.tile("),
        (["i"], [4], "(i_0,), (i_1,) = sch.tile("),
    ],
)
def test_the_trace_unpacks_what_the_method_gives(loops: list[str], sizes: list[int], line: str) -> None:
    sch: Any = tl.Schedule(parse(TRANSPOSED))
    (first, *_), _ = sch.tile(loops, sizes)
    sch.parallel(first)
    assert line in str(sch.trace)
    names: dict[str, Any] = {}
    exec(str(sch.trace), names)
    again: Any = tl.Schedule(parse(TRANSPOSED))
    names["schedule"](again)
    same_function(again.mod["main"], sch.mod["main"])
