"""Sampled mutants: which edits there are, that the choice is stable, and that a run tells the noticed from the others."""

from __future__ import annotations

import ast
import importlib.util
from collections import Counter
from pathlib import Path

import pytest

from tests.mutation import campaign, sampled
from tests.mutation.campaign import Fate, equivalents, report, run_mutants
from tests.mutation.sampled import KINDS, candidates, sample

SOURCE = '''
"""Text with numbers: 1 < 2."""
LIMIT: "int" = 3

class Interval:
    def inside(self, x: int, low: "A[5]") -> bool:
        """Whether x > 0."""
        if x < low and x != 7 and self:
            raise ValueError(f"{x + 1}")
        return x in (1, 2)

    def __repr__(self) -> str:
        return "é" * 2

def twice(x: int) -> int:
    if x:
        return x + 1 + (x + 1)
    return 0
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of one room with one file."""
    monkeypatch.setattr(sampled, "ROOT", tmp_path)
    monkeypatch.setattr(sampled, "PACKAGE", tmp_path / "tirlower")
    room = tmp_path / "tirlower" / "room"
    room.mkdir(parents=True)
    (room / "__init__.py").write_text("")
    (room / "file.py").write_text(SOURCE, encoding="utf-8")
    return room / "file.py"


def test_the_edits_of_a_file(package: Path) -> None:
    found = list(candidates(package))
    names = [one.name.removeprefix("tirlower/room/file.py:") for one in found]
    assert sorted(names) == sorted(
        [
            ": number moved by one: 3 -> (4)",
            "Interval.inside: condition dropped: x < low and x != 7 and self -> (x != 7 and self)",
            "Interval.inside: condition dropped: x < low and x != 7 and self -> (x < low and self)",
            "Interval.inside: condition dropped: x < low and x != 7 and self -> (x < low and x != 7)",
            "Interval.inside: comparison swapped: x < low -> (x <= low)",
            "Interval.inside: comparison swapped: x != 7 -> (x == 7)",
            "Interval.inside: number moved by one: 7 -> (8)",
            "Interval.inside: comparison swapped: x in (1, 2) -> (x not in (1, 2))",
            "Interval.inside: number moved by one: 1 -> (2)",
            "Interval.inside: number moved by one: 2 -> (3)",
            "Interval.inside: return negated: x in (1, 2) -> (not x in (1, 2))",
            "twice: condition dropped: x -> (True)",
            "twice: number moved by one: 1 -> (2)",
            "twice: number moved by one: 1 -> (2) #2",
            "twice: number moved by one: 0 -> (1)",
        ]
    )
    for one in found:
        text = one.applied()
        ast.parse(text)
        assert text != SOURCE
        assert text[: one.start] == SOURCE[: one.start]
        assert text.endswith(SOURCE[one.end :])
        assert SOURCE[: one.start].count("\n") + 1 == one.line


def test_an_edit_elsewhere_leaves_the_choice_as_it_is(package: Path) -> None:
    before = [one.name for one in sample(7, 9, least=9)]
    package.write_text("LESS = 1 < 2\n" + SOURCE, encoding="utf-8")
    after = [one.name for one in sample(7, 9, least=9)]
    assert len(set(before)) == 9
    assert len(set(before) & set(after)) >= 7
    assert before != [one.name for one in sample(8, 9, least=9)]


@pytest.mark.nightly
def test_every_room_has_its_share() -> None:
    drawn = sample(0, 800)
    by_room = Counter(one.room for one in drawn)
    assert len(drawn) == len({one.name for one in drawn}) == 800
    assert set(by_room) == set(sampled.rooms())
    assert min(by_room.values()) >= 20
    assert {one.name.split(": ")[1] for one in drawn} == set(KINDS)
    for one in drawn:
        assert all((sampled.ROOT / file).exists() for file in sampled.tests_of(one.path)), one.path


class _Copy:
    """Runs nothing: notices what its list of edits says."""

    def __init__(self, root: Path) -> None:
        self.text = ""

    def using(self, file: Path, text: str) -> _Copy:
        self.text = text
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def failure(self, files: list[str], timeout: float) -> str | None:
        return None if "x <= low" in self.text or "(4)" in self.text else "test_it"


def test_a_campaign_goes_on_where_it_was_stopped(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "Copy", _Copy)
    monkeypatch.setattr(campaign, "tests_of", lambda path: ["tests/room/test_file.py"])
    monkeypatch.setattr(campaign, "equivalents", lambda: {low: "as well"})
    drawn = sample(0, 100)
    low = next(one.name for one in drawn if "x <= low" in one.name)
    record, told = tmp_path / "record", list[Fate]()
    first = run_mutants(drawn[:5], record, log=told.append)
    everything = run_mutants(drawn, record, workers=2, log=told.append)
    assert everything[:5] == first
    assert len(everything) == len(told) == len(drawn) == 15
    assert {one.name for one in everything if one.caught_by is None} == {low, drawn_name(drawn, "(4)")}
    assert [one.name for one in run_mutants(drawn, record, seconds=-1)] == [one.name for one in drawn]
    told.clear()
    run_mutants(drawn, record, again=True, log=told.append)
    assert {one.name for one in told} == {low, drawn_name(drawn, "(4)")}
    text, survivors = report(everything, 15)
    assert survivors == 1
    assert text.startswith("15 of 15 mutants ran: 13 noticed by tests, 0 by fuzzers, 1 change nothing, 1 survive")


def drawn_name(drawn: list[sampled.Mutant], instead: str) -> str:
    """The name of the mutant with a new text."""
    return next(one.name for one in drawn if one.instead == instead)


def test_listed_equivalents_have_reasons() -> None:
    listed = equivalents()
    assert all(reason.strip() for reason in listed.values())
    assert len(listed) <= 80  # a tenth of the sample


def test_listed_equivalents_are_mutants_that_there_are() -> None:
    listed = equivalents()
    found = {
        one.name for path in {name.partition(":")[0] for name in listed} for one in candidates(sampled.ROOT / path)
    }
    assert not set(listed) - found, "the code has changed: say anew whether they change nothing"


def test_fuzzers_have_rooms_and_are_there() -> None:
    assert set(campaign.FUZZERS) <= set(sampled.rooms())
    for module, *_ in {command for commands in campaign.FUZZERS.values() for command in commands}:
        assert importlib.util.find_spec(module) is not None
