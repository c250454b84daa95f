"""A fixed number of random value steps, and planted faults that they find; ``python -m tests.fuzz.values FIRST COUNT``."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.fuzz.values import run_one
from tirlower.poly import same_values as question
from tirlower.poly.verdict import PROVED


def test_random_value_steps_of_random_chains() -> None:
    counts: Counter[str] = Counter()
    for seed in range(12, 24):
        run_one(seed, counts)
    assert counts["stage_mem taken"]
    assert counts["witnesses looked for"]


@pytest.mark.nightly
def test_more_random_value_steps() -> None:
    counts: Counter[str] = Counter()
    for seed in range(1000, 1600):
        run_one(seed, counts)
    taken = {word.removesuffix(" taken") for word in counts if word.endswith(" taken")}
    assert {"compute_at", "reverse_compute_at", "cache_read", "cache_write", "pack", "compute_inline"} <= taken
    assert {"materialize", "inline_bind", "specialize", "unflatten", "register_tile"} <= taken


def found(monkeypatch: pytest.MonkeyPatch, verbs: list[str], seeds: int = 150) -> None:
    """Some of the seeds show the fault."""
    with pytest.raises((AssertionError, Exception)) as caught:
        for seed in range(seeds):
            run_one(seed, verbs=verbs)
        pytest.fail("no seed shows the fault")
    assert "no seed" not in str(caught.value)


VERBS = ["compute_at", "reverse_compute_at", "compute_inline", "cache_read", "cache_write", "decompose_reduction"]


def test_a_check_that_never_compares_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question._Question, "_compare", lambda self, *args: PROVED)
    found(monkeypatch, VERBS)


@pytest.mark.nightly
def test_outputs_that_are_not_looked_at_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question._Question, "_outputs", lambda self: {})
    found(monkeypatch, ["reverse_compute_at"])


@pytest.mark.nightly
def test_reads_that_are_not_covered_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_handed(self: Any, *args: object) -> None:
        return None

    monkeypatch.setattr(question._Question, "_is_handed", no_handed)
    found(monkeypatch, ["compute_inline", "reverse_compute_inline"])


@pytest.mark.nightly
def test_iterations_that_there_were_not_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question._Question, "_runs_before", lambda self, *args: None)
    monkeypatch.setattr(question._Question, "_compare", lambda self, *args: PROVED)
    found(monkeypatch, ["compute_at", "reverse_compute_at"])
