"""A fixed number of random nests through automatic schedules, and a planted fault that they find."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.automatic import run_one
from tirlower.autoschedule.recipes import row_chain


def test_random_nests_compute_the_same() -> None:
    counts: Counter[str] = Counter()
    for seed in range(3, 9):
        run_one(seed, counts)
    assert counts["loops"] and counts["row chain"]


@pytest.mark.nightly
def test_more_random_nests_compute_the_same() -> None:
    counts: Counter[str] = Counter()
    for seed in range(1000, 2000):
        run_one(seed, counts)
    assert {"loops", "row chain", "elementwise", "column reduction", "permutation"} <= set(counts)


def test_a_permission_that_nobody_gave_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_chain, "any_order", lambda nest, statement: True)
    with pytest.raises(AssertionError):
        for seed in range(40):
            run_one(seed)


def test_a_window_whose_init_stays_in_its_loop_is_left_alone() -> None:
    run_one(20017)
