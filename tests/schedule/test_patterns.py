"""What a pattern is; what it matches: tests/schedule/test_find.py."""

from __future__ import annotations

import pytest

from tirlower.diagnostics import BadArgument
from tirlower.schedule.patterns import Pattern


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("C[_] += _", "C"),
        ("_[_] = 1", ""),
        ("for k in _: ...", "k"),
        ("for _ in _: ...", ""),
        ('with T.block("B"): ...', "B"),
        ("if _: ...", ""),
    ],
)
def test_the_name_by_which_it_is_looked_up(text: str, name: str) -> None:
    assert Pattern(text).name == name


@pytest.mark.parametrize("text", ["", "a; b", "return 1", "C[_", "x: int = 3"])
def test_what_is_no_statement_with_holes(text: str) -> None:
    with pytest.raises(BadArgument, match="is no s"):
        Pattern(text)
