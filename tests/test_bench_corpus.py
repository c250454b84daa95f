"""The corpus of kernels as written and scheduled: what is measured, and what counts as a difference."""

from __future__ import annotations

import pytest

from bench import corpus
from bench.corpus import probability_of_no_difference, report


def test_kernels_that_change_are_measured():
    text = report(["matmul_transposed", "vector_add"], rounds=2)
    assert "| matmul_transposed | contraction |" in text and "1 of " in text


def test_one_that_is_slower_is_named(monkeypatch: pytest.MonkeyPatch):
    rows = [("slow", "loops", 1.0, 2.0, 0.001), ("lucky", "loops", 1.0, 1.1, 0.2), ("fast", "loops", 4.0, 1.0, 0.999)]
    monkeypatch.setattr(corpus, "ratios", lambda only, rounds: iter(rows))
    text = report()
    assert text.splitlines()[2].startswith("| slow |") and text.endswith("below 0.01: slow")
    assert "geometric mean: 1.22" in text


def test_samples_that_overlap_tell_nothing():
    assert probability_of_no_difference([1.0, 3.0, 5.0], [2.0, 4.0, 6.0]) > 0.5
    assert (
        probability_of_no_difference([2.0] * 7, [1.0] * 7) < 0.01 < probability_of_no_difference([2.0] * 2, [1.0] * 2)
    )
