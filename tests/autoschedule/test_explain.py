"""The report of a nest, as text and as JSON."""

from __future__ import annotations

import json

from tirlower.autoschedule.explain import NestReport


def test_the_text_names_everything():
    report = NestReport(
        "f",
        "C over i, j",
        "loops",
        {"innermost": "j"},
        "because",
        3,
        seconds=2e-6,
        written=1.5e-3,
        notes=("no more: x",),
    )
    assert report.lines() == [
        "C over i, j: loops (innermost j)",
        "  because",
        "  3 steps proved, bitwise equal; predicted 2 µs, as written 1.5 ms",
        "  no more: x",
    ]
    assert NestReport("f", "C", why="no", notes=("x",)).lines() == ["C: left as written: no", "  x"]
    assert "predicted 5 ns, as written 2 s" in NestReport("f", "C", "r", seconds=5e-9, written=2.0).lines()[-1]


def test_one_reason_of_several_recipes_is_told_once():
    notes = ("no a: it has: no sum", "not parallel: 1 µs", "no b: it has: no sum", "no c: else", "plain", "no d")
    assert NestReport("f", "C", why="no", notes=notes).lines()[1:] == [
        "  no a, b: it has: no sum",
        "  not parallel: 1 µs",
        "  no c: else",
        "  plain",
        "  no d",
    ]
    assert NestReport("f", "C", "r", notes=notes).lines()[2:] == NestReport("f", "C", notes=notes).lines()[1:]


def test_json():
    report = NestReport("f", "C", "r", {"tile": (6, 16), "what": object}, notes=("x",))
    made = json.loads(json.dumps(report.to_json()))
    assert made["parameters"]["tile"] == [6, 16] and made["notes"] == ["x"] and made["recipe"] == "r"
