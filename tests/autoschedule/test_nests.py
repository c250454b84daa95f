"""Naive loops as builds schedule them by default, beside what is written (many: ``python -m tests.autoschedule.nests``)."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.autoschedule import nests
from tirlower.autoschedule import choose


@pytest.fixture(autouse=True)
def _whatever_it_gains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "WORTH", float("inf"))


@pytest.mark.parametrize("seed", [1040, 1056, 0, 1, 2, 4])
@pytest.mark.by_day
def test_calls_leave_the_bytes_of_the_loops_as_written(seed: int) -> None:
    nests.check(seed)


def test_most_are_scheduled() -> None:
    assert sum(nests.check(seed) for seed in range(20, 24)) >= 1


def test_a_wrong_schedule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that is off by one element of one array is no equal of what is written."""
    build = tl.build

    def wrong(*args: object, **options: object) -> object:
        kernel = build(*args, **options)
        if "schedule" in options:
            return kernel

        class Off:
            schedule, report = kernel.schedule, kernel.report

            def __call__(self, *arrays: np.ndarray) -> None:
                kernel(*arrays)
                arrays[-1].flat[-1] += 1

        return Off()

    monkeypatch.setattr(tl, "build", wrong)
    with pytest.raises(AssertionError, match="seed 3, call"):
        nests.check(3)
