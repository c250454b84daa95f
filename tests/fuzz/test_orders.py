"""A fixed number of random nests; ``python -m tests.fuzz.orders FIRST COUNT`` takes any number."""

from __future__ import annotations

from collections import Counter
from types import ModuleType

import pytest

from tests.fuzz.orders import judge_one
from tirlower.poly.verdict import PROVED
from tirlower.schedule.facts import Facts
from tirlower.schedule.loops import fission, fuse_siblings, merge, reorder, reverse, statements, unroll_jam


def test_random_steps_on_random_nests() -> None:
    counts: Counter[str] = Counter()
    for seed in range(10):
        judge_one(seed, counts)
        judge_one(seed, counts, ("reorder", "reverse", "fission", "unroll_jam"))
    for verb in ("reorder", "reverse", "fission", "unroll_jam"):
        assert counts[f"{verb} taken"]
    assert counts["reverse refuted"]


@pytest.mark.parametrize(
    ("module", "first"),
    [(reverse, 0), (reorder, 55), (fission, 0), (fuse_siblings, 0), (merge, 35), (statements, 0), (unroll_jam, 0)],
)
def test_a_step_that_asks_nothing_is_found(module: ModuleType, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    verb = module.__name__.split(".")[-1].replace("statements", "reorder_stmts")
    if module is fission:
        monkeypatch.setattr(Facts, "distributed", lambda *rest: (PROVED, "bitwise"))
    else:
        monkeypatch.setattr(module, "order_verdict", lambda *rest: PROVED)
        monkeypatch.setattr(Facts, "order_kept", lambda *rest: (PROVED, "bitwise"))
    # By us, or by the step's own second proof.
    with pytest.raises(AssertionError, match=r"turns round|internal error: proved anew"):
        for seed in range(first, first + 400):
            judge_one(seed, verbs=(verb,))
