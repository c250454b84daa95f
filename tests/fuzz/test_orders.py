"""A fixed number of random nests; ``python -m tests.fuzz.orders FIRST COUNT`` takes any number."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.orders import judge_one
from tirlower.poly.verdict import PROVED
from tirlower.schedule.loops import fission, fuse_siblings, merge, reorder, reverse


def test_random_steps_on_random_nests() -> None:
    counts: Counter[str] = Counter()
    for seed in range(25):
        judge_one(seed, counts)
    assert counts["reorder taken"] and counts["reverse taken"] and counts["reverse refuted"] and counts["fission taken"]


@pytest.mark.parametrize("module", [reverse, reorder, fission, fuse_siblings, merge])
def test_a_step_that_asks_nothing_is_found(module: object, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seeds in (("order_verdict", 250), ("still_concurrent", 0)):
        if not hasattr(module, name) or not seeds:
            continue
        monkeypatch.setattr(module, name, lambda *rest: PROVED)
    if module in (reorder, fission):
        from tirlower.schedule.facts import Facts

        monkeypatch.setattr(Facts, "order_kept", lambda *rest: (PROVED, "bitwise"))
        monkeypatch.setattr(Facts, "distributed", lambda *rest: (PROVED, "bitwise"))
    with pytest.raises(AssertionError, match="turns round"):
        for seed in range(250):
            judge_one(seed)
