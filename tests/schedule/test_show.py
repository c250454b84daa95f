"""Steps as they are shown: only what changed, before beside after; as a page too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tirlower as tl
from tirlower.diagnostics import BadArgument
from tirlower.schedule.compose import schedule_op
from tirlower.schedule.show import rows_of, shown
from tirlower.script import parse

TEXT = """
@T.prim_func
def f(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32")):
    for i, j in T.grid(8, 8):
        A[i, j] = 1
    for k, l in T.grid(8, 8):
        B[k, l] = 2 < 3
""".replace("2 < 3", "2")


@schedule_op
def halves(sch: Any, name: str) -> None:
    outer, _ = sch.split(name, [2, 4])
    sch.parallel(outer)


def schedule() -> Any:
    sch: Any = tl.Schedule(parse(TEXT))
    sch.interchange("k", "l")
    halves(sch, "i")
    return sch


def test_only_what_changed_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    sch = schedule()
    sch.show(steps=True)
    found = capsys.readouterr().out
    assert "sch.interchange(k, l)    # proved, bitwise" in found and "sch.parallel(i_0)" in found
    first = shown(sch.moments())[0]
    assert "A[" not in "".join(row.before + row.after for row in first.rows)
    assert [row.mark for row in first.rows] == ["|", " "]
    assert "for k, l in T.grid(8, 8):" in first.rows[0].before and "for l, k in T.grid(8, 8):" in first.rows[0].after


def test_ranges_and_operations() -> None:
    sch = schedule()
    numbers = [step.number for step in shown(sch.moments())]
    assert len(numbers) == 3 and numbers == sorted(numbers)
    assert [step.number for step in shown(sch.moments(), numbers[1], numbers[1])] == [numbers[1]]
    folded = shown(sch.moments(), level="op")
    assert len(folded) == 2 and folded[1].line.startswith("halves(")
    assert any("T.parallel(2)" in row.after for row in folded[1].rows)
    for wrong in ((0, 3), (4, 2)):
        with pytest.raises(BadArgument, match="numbered from 1"):
            sch.show(steps=wrong)
    with pytest.raises(BadArgument, match="'step' or 'op'"):
        sch.show(steps=True, level="all")


def test_a_page_needs_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "steps.html"
    schedule().show(html=page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>") and "http" not in text and "<script" not in text
    assert text.count("<table>") == 3 and 'class="changed"' in text


def test_marks() -> None:
    assert [(row.mark, row.before, row.after) for row in rows_of("a\nb\nc\nx", "b\nc\ny\nz\na")] == [
        ("<", "a", ""),
        (" ", "b", "b"),
        (" ", "c", "c"),
        ("|", "x", "y"),
        ("+", "", "z"),
        (">", "", "a"),
    ]
    assert [row.mark for row in rows_of("a\nb\nc", "a\nc")] == [" ", "-", " "]


def test_without_steps_the_module_and_the_trace(capsys: pytest.CaptureFixture[str]) -> None:
    schedule().show()
    found = capsys.readouterr().out
    assert "T.parallel(2)" in found and "def schedule(sch: tl.Schedule)" in found
