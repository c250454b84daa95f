"""Operations of one's own: one transaction, one group; and what puts them together."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tirlower.diagnostics import ScheduleError
from tirlower.schedule.compose import attempt, everywhere, first_of, for_each, repeat
from tirlower.script import parse

TEXT = """
@T.prim_func
def f(A: T.Buffer((64,), "int32"), B: T.Buffer((65,), "int32")):
    for i in range(64):
        A[i] = i
    for j in range(64):
        B[j + 1] = B[j]
"""


@tl.schedule_op
def tile(sch: Any, loop: Any, size: int, fail: bool = False) -> Any:
    """Split a loop."""
    _, inner = sch.split(loop, [None, size])
    if fail:
        sch.parallel("j")
    return inner


@tl.schedule_op
def twice(sch: Any, loop: Any) -> Any:
    return tile(sch, tile(sch, loop, 8), 4)


def fresh() -> Any:
    return tl.Schedule(parse(TEXT))


def test_steps_stand_in_their_groups() -> None:
    sch = fresh()
    twice(sch, sch.loop("i"))
    assert [record.group for record in sch.steps] == [(), ("twice(i)", "tile(i, 8)"), ("twice(i)", "tile(i_1, 4)")]
    lines = str(sch.trace).splitlines()
    assert lines[-5:] == [
        "    # twice(i)",
        "    #   tile(i, 8)",
        "    i_0, i_1 = sch.split(i, [None, 8])",
        "    #   tile(i_1, 4)",
        "    i_1_0, i_1_1 = sch.split(i_1, [None, 4])",
    ]
    again = fresh()
    sch.trace.apply_to_schedule(again)
    assert str(again.mod) == str(sch.mod)
    assert tile.__doc__ == "Split a loop."


def test_one_that_fails_leaves_nothing_behind() -> None:
    sch = fresh()
    before = sch.mod
    with pytest.raises(ScheduleError):
        tile(sch, "i", 8, fail=True)
    assert sch.mod is before and not sch.steps
    sch.unroll("i")
    assert sch.steps[-1].group == ()


def test_attempt_and_first_of() -> None:
    sch = fresh()
    before = sch.mod
    assert attempt(tile)(sch, "i", 8, fail=True) is None and sch.mod is before
    assert attempt(tile)(sch, "i", 8) is not None
    sch = fresh()
    taken = first_of(lambda s, l: s.parallel(l) or "parallel", lambda s, l: s.unroll(l) or "unrolled")
    assert taken(sch, sch.loop("j")) == "unrolled" and taken(sch, sch.loop("i")) == "parallel"
    with pytest.raises(ScheduleError, match="no loop is"):
        taken(sch, "x")
    assert [record.instruction.kind.name for record in sch.steps if not record.instruction.kind.pure] == [
        "Unroll",
        "Parallel",
    ]


def test_repeat_ends_where_nothing_changes_any_more() -> None:
    sch = fresh()

    def halve(s: Any) -> None:
        loop = s.select("loop", writes="A")[-1]
        if s.get(loop).extent.value > 8:
            s.split(loop, [2, None])

    assert repeat(halve)(sch) == 3
    assert [int(sch.get(one).extent.value) for one in sch.loops("A")] == [2, 2, 2, 8]
    assert repeat(lambda s: s.parallel("j"))(sch) == 0
    assert repeat(lambda s: s.annotate(s.loop("j"), f"k{len(s.get(s.loop('j')).annotations)}", 1), most=4)(sch) == 4


def test_for_each_and_everywhere() -> None:
    sch = fresh()
    for_each([sch.loop("i"), sch.loop("j")], lambda s, one, value: s.annotate(one, "note", value))(sch, 7)
    assert str(sch.mod).count('"note": 7') == 2
    found = everywhere("for _ in range(64): ...", lambda s, one: s.split(one, [None, 8])[1].name)(sch)
    assert found == ["i_1", "j_1"]
