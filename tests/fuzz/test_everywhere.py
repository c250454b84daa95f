"""Each verb at all places of some programs, and a planted fault that this finds: see :mod:`tests.fuzz.everywhere`."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.everywhere import run_one
from tirlower.poly.computed_again import _Proof


@pytest.mark.parametrize("seed", [3, *(pytest.param(n, marks=pytest.mark.nightly) for n in range(20, 60))])
def test_what_is_taken_computes_the_same(seed: int) -> None:
    counts: Counter[str] = Counter()
    run_one(seed, counts)
    assert counts["reads what nothing wrote"] or any(word.endswith(" taken") for word in counts)


def test_inputs_that_are_not_there_yet_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Proof, "_kept", lambda self, *args: None)
    with pytest.raises(AssertionError, match="reverse_compute_at"):
        run_one(30395)
