"""What ``bench.pass_revisions`` prints, of a checkout beside itself."""

from __future__ import annotations

from pathlib import Path

from bench.pass_revisions import compare, table


def test_a_checkout_beside_itself() -> None:
    found = compare(Path(__file__).parents[1], size=40, turns=1)
    assert {"parse", "print", "Simplify", "all passes"} <= found.keys()
    assert all(before > 0 and here > 0 for before, here in (found["parse"], found["all passes"]))


def test_rows_are_those_that_say_something() -> None:
    text = table({"parse": (0.1, 0.105), "Quick": (0.001, 0.01), "Slow": (0.2, 0.1)})
    rows = [line.split() for line in text.splitlines()[1:]]
    assert rows == [["parse", "100.0", "105.0", "1.05"], ["Slow", "200.0", "100.0", "0.50"]]
