"""Some programs with names, and the fault that they were made to find: see :mod:`tests.fuzz.named`."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.named import run_one
from tirlower.analysis.overflow import _VALUES, Wrapping


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(n, marks=pytest.mark.nightly) for n in range(100, 400))])
def test_names_mean_what_they_are_bound_to(seed: int) -> None:
    counts: Counter[str] = Counter()
    run_one(seed, counts)
    assert counts["run"] or counts["no program"]


def test_a_name_taken_for_what_is_given_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIRLOWER_CACHE", "off")
    monkeypatch.setattr(Wrapping, "_is_given", lambda self, op: op.__class__ in _VALUES)
    with pytest.raises(AssertionError, match="'none', 'auto'"):
        run_one(564)
