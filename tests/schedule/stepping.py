"""Steps taken and refused in tests: what is taken is run before and after and replayed, a witness is looked for in a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

import tirlower as tl
from tests.checking import executes_alike, roundtrips
from tests.poly.brute import Event, events
from tirlower.diagnostics import IllegalStep, ScheduleError
from tirlower.ir import PrimFunc
from tirlower.ir.structural import assert_structural_equal
from tirlower.poly.verdict import Point, Witness
from tirlower.script import parse

__all__ = ["refused", "taken", "witness_is_true"]

Steps = Callable[[Any], object]


def taken(text: str, steps: Steps, *, tolerance: float = 0.0, inputs: Any = None, **options: Any) -> Any:
    """The schedule after steps: the interpreter computes the same as before, the result prints and parses back, and the
    trace does the same to the same program."""
    before = parse(text)
    sch: Any = tl.Schedule(before, debug_mask="all", **options)
    steps(sch)
    executes_alike(before, sch.mod["main"], tolerance=tolerance, inputs=inputs)
    roundtrips(sch.mod["main"])
    again: Any = tl.Schedule(before, **options)
    sch.trace.apply_json_to_schedule(sch.trace.as_json(dialect="tirlower"), again)
    assert_structural_equal(again.mod, sch.mod)
    return sch


def refused(
    text: str,
    steps: Steps,
    kind: type[ScheduleError] = IllegalStep,
    match: str | None = None,
    sizes: Mapping[str, int] | None = None,
    **options: Any,
) -> Any:
    """The error of the last of some steps, which leaves the schedule as it was; its witness happens in a run."""
    sch: Any = tl.Schedule(parse(text), debug_mask="all", **options)
    with pytest.raises(kind, match=match) as caught:
        steps(sch)
    error = caught.value
    if isinstance(error, IllegalStep):
        assert error.witness is not None, error
        assert witness_is_true(sch.mod["main"], error.witness, sizes), error
    return error


def witness_is_true(func: PrimFunc, witness: Witness, sizes: Mapping[str, int] | None = None) -> bool:
    """Whether the instances of a witness happen in a run, in its order, on one element."""
    log = events(func, {**(sizes or {}), **witness.parameters})
    found = [[(at, event) for at, event in enumerate(log) if _is(event, point)] for point in witness.points]
    if not all(found):
        return False
    if len(found) == 1:
        return True
    return any(
        at < other and a.memory == b.memory and a.elements & b.elements and (a.is_write or b.is_write)
        for at, a in found[0]
        for other, b in found[1]
    )


def _is(event: Event, point: Point) -> bool:
    values = tuple((loop.loop_var.name, value) for loop, value, _ in event.loops)
    return event.statement is point.statement and event.is_write == point.is_write and values == point.loops
