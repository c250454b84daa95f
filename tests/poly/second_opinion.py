"""What a quick proof of value steps says is asked of the flow of values too: it decides, and must agree with each "proved"."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tirlower.poly import same_values

__all__ = ["counted", "no_flow"]


def counted(monkeypatch: pytest.MonkeyPatch, name: str) -> Counter[str]:
    """Counts what the quick proof of :mod:`tirlower.poly.same_values` with a name proves, what it leaves to the flow, and what is
    refused. AssertionError where it proves what the flow does not."""
    counts: Counter[str] = Counter()
    original, verdict = getattr(same_values, name), same_values._Question.verdict
    found: list[bool] = []

    def noted(*args: Any) -> bool:
        found.append(original(*args))
        return False

    def checked(self: Any, *args: Any) -> Any:
        result = verdict(self, *args)
        proved = bool(found and found.pop())
        counts["proved" if proved else "left to the flow" if result.proved else "refused"] += 1
        assert result.proved or not proved, f"{self.before.scop.func}\nto\n{self.after.scop.func}\n{result}"
        found.clear()
        return result

    monkeypatch.setattr(same_values, name, noted)
    monkeypatch.setattr(same_values._Question, "verdict", checked)
    return counts


def no_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes it an AssertionError to ask for the flow of values."""

    def flow(*_: object) -> Any:
        raise AssertionError("the flow of values was asked for")

    monkeypatch.setattr(same_values._Question, "_flow", flow)
