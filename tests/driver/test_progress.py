"""Builds that take long tell what they do."""

from __future__ import annotations

import logging

import pytest

import tirlower as tl
from tirlower.driver import progress
from tirlower.script import parse


def build() -> None:
    with tl.PassContext(trace=True):  # not from the disk cache
        tl.build(parse("@T.prim_func\ndef told(A: T.Buffer((4,), 'int32')):\n    A[0] = 1"))


def test_a_short_build_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    build()  # imports
    with caplog.at_level(logging.DEBUG, "tirlower"):
        build()
    assert not caplog.records


def test_a_long_one_names_phases_and_seconds(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "QUIET", 0.0)
    with caplog.at_level(logging.INFO, "tirlower"):
        build()
    text = caplog.text
    for phase in ("legality", "pass VectorizeLoop", "code generation", "LLVM"):
        assert f"{phase} begins" in text and f"{phase} took " in text, phase
    assert "building told: LLVM took " in text and "done after " in text
    assert all(record.levelno == logging.INFO and record.name == "tirlower" for record in caplog.records)


def test_what_was_fast_is_told_when_the_second_is_over(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 0.0, 0.25, 2.5, 3.0])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(clock))
    one = progress.Progress("f")
    with caplog.at_level(logging.INFO, "tirlower"):
        one.begin("first")
        one.begin("second")
        assert not caplog.records
        one.begin("third")
        one.begin("")
    assert [record.getMessage() for record in caplog.records] == [
        "building f: first took 0.25 s",
        "building f: second took 2.25 s; third begins",
        "building f: third took 0.50 s; done after 3.00 s",
    ]
