"""What a search is said to find."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import tuning
from tirlower.driver.plan_database import Trial
from tirlower.schedule.trace import Trace
from tirlower.tuning import Tuned


def test_a_program_is_searched():
    text = tuning.report(["transpose"], trials=2, small=True)
    assert "| transpose 256" in text and "| 2 |" in text


def test_gains_are_of_what_is_kept(monkeypatch: pytest.MonkeyPatch):
    trials = (Trial("rows 6 -> 8", 1.0, 2.0), Trial("as written", error="it crashed"))
    kept = Tuned("f", Trace(), "rows 6 -> 8", 1.0, 2.0, trials, Path("x"))
    none = Tuned("g", None, "", 2.0, 2.0, (Trial("rows 6 -> 8", 1.0, 2.0),), Path("x"))
    monkeypatch.setattr(tuning, "found", lambda *_: iter([("one", kept, 3.0), ("two", none, 4.0)]))
    lines = tuning.report().splitlines()
    assert lines[2].startswith("| one |") and "| 2.00 | 2 | 3 s | rows 6 -> 8 |" in lines[2]
    assert "| 1.00 | 1 | 4 s | the automatic schedule |" in lines[3] and lines[-1].endswith("gains: 1.41")
