"""What is counted of refusals: each attempt once; the page has the verbs of schedules, and what may only shrink is as small as aimed at."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import precision
from tirlower.schedule.registry import method_kind

ROOT = Path(__file__).resolve().parents[2]


def test_each_attempt_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = []
    real = precision._attempt

    def counted(*args: object) -> None:
        attempts.append(args)
        real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(precision, "_attempt", counted)
    found = precision.measured(0, 6)
    ended = sum(row[word] for row in found.values() for word in ("taken", "no form", "refuted", "unknown"))
    assert 0 < ended <= len(attempts)
    for row in found.values():
        assert row["refuted though legal"] <= row["refuted"] and row["unknown though legal"] <= row["unknown"]
        assert row["TVM refuses"] <= row["asked TVM"] <= row["taken"]


def test_a_check_that_refuses_too_much_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    from tirlower.poly.verdict import Verdict
    from tirlower.schedule.loops.reverse import REVERSE

    monkeypatch.setitem(REVERSE.__dict__, "check", lambda step: Verdict("unknown", "planted"))
    counts: precision.Counts = {}
    for seed in range(24, 36):
        precision._nest(seed, counts)
    row = counts["reverse"]
    assert row["unknown"] and row["unknown though legal"] and not row["taken"]


def test_the_page() -> None:
    text = (ROOT / "docs" / "schedule_precision.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")][2:]
    for verb, *cells in rows[:-1]:
        assert method_kind(verb) and len(cells) == len(precision.COLUMNS)
    columns = [[int(cell) for cell in column] for column in zip(*[cells for _, *cells in rows], strict=True)]
    assert all(sum(column[:-1]) == column[-1] for column in columns)
    total = dict(zip(precision.COLUMNS, [column[-1] for column in columns], strict=True))
    assert total["unknown"] * 50 <= total["taken"] + total["refuted"] + total["unknown"]
