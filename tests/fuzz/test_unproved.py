"""Checks that do not check are noticed by the fuzzers, and it is they that are noticed."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.unproved import CHECKED, _fuzzer, blind, noticed_after
from tirlower.schedule.loops.reverse import REVERSE


@pytest.mark.parametrize("verb", ["reverse", "unroll_jam", "compute_inline", "cache_read"])
def test_a_blind_check_is_noticed(verb: str) -> None:
    after = noticed_after(verb, 40)
    assert after is not None and after > 0
    run = _fuzzer(verb)
    assert run is not None
    for seed in range(after):
        run(seed, Counter())  # with eyes open nothing is wrong


def test_the_check_comes_back() -> None:
    real = REVERSE.check
    with blind(REVERSE):
        assert REVERSE.check is not real
    assert REVERSE.check is real
    assert {"reorder", "fission", "compute_at", "pack", "parallel"} <= set(CHECKED)


@pytest.mark.nightly
@pytest.mark.parametrize("verb", CHECKED)
def test_each_blind_check_is_noticed(verb: str) -> None:
    assert noticed_after(verb) is not None
