"""The report: what it says, and that it survives the disk cache."""

from __future__ import annotations

import json

from tirlower.driver.report import Report
from tirlower.legality.notes import AccessNote, CheckReport, LoopNote

CHECKS = CheckReport(
    loops=(
        LoopNote("f", "i", "parallel", "proved"),
        LoopNote("f", "j", "vectorized", "trusted", "it is a permutation"),
    ),
    proved={"f": 3, "g": 1},
    guarded=(AccessNote("f", "A[X[i]]", "f.py:3:4", "depends on values"),),
    trusted=(AccessNote("g", "a pointer to B", "", "what a callee reaches through it is not checked"),),
    assumed=(AccessNote("f", "n <= m", "f.py:2:4", "taken on trust"),),
)


def test_as_json_and_back():
    assert CheckReport.from_json(json.loads(json.dumps(CHECKS.to_json()))) == CHECKS
    off = CheckReport(on=False)
    assert CheckReport.from_json(json.loads(json.dumps(off.to_json()))) == off


def test_the_text_names_everything():
    report = Report("llvm", ("f", "g"), cached=False, timings={"whole": 12.34}, checks=CHECKS, code_bytes=10)
    text = str(report)
    for part in (
        "f: loop i parallel: proved",
        "f: loop j vectorized: trusted, unchecked: it is a permutation",
        "f: 3 accesses proved inside their buffers",
        "g: 1 access proved inside its buffer",
        "guarded: f: A[X[i]] at f.py:3:4: depends on values",
        "trusted: g: a pointer to B: what",
        "assumed: f: n <= m at f.py:2:4: taken on trust",
        "whole 12.3 ms",
    ):
        assert part in text, part
    assert report.loops == CHECKS.loops and report.proved == {"f": 3, "g": 1}
    assert "off" in str(Report("llvm", ("f",), cached=True, checks=CheckReport(on=False)))


def test_merging_keeps_the_order():
    merged = CheckReport(proved={"a": 1}).merged(CHECKS)
    assert list(merged.proved) == ["a", "f", "g"]
    assert merged.guarded == CHECKS.guarded and merged.on
    assert not CHECKS.merged(CheckReport(on=False)).on
