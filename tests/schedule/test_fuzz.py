"""A fixed number of random schedules; ``python -m tests.fuzz.schedules FIRST COUNT`` takes any number."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.oracle import Mismatch
from tests.fuzz.schedules import run_one
from tirlower.diagnostics import BoundsError, InterpreterError
from tirlower.ir.expr import const
from tirlower.schedule.bindings import predicated
from tirlower.schedule.loops import split


@pytest.mark.parametrize("first", [0, 15])
def test_random_schedules_of_random_programs(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + 15):
        run_one(seed, counts)
    assert counts["split taken"] and counts["reorder taken"] and counts["NotApplicable"]


def test_a_split_that_forgets_its_condition_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "predicated", lambda body, condition: predicated(body, const(1, "bool")))
    with pytest.raises((AssertionError, Mismatch, BoundsError, InterpreterError)):
        for seed in range(60):
            run_one(seed)
