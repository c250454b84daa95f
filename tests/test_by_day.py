"""The mark ``by_day``: of a test's cases the first and one of so many others run by day."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def items(request: pytest.FixtureRequest, count: int, *marks: pytest.MarkDecorator) -> list[pytest.Item]:
    """Cases of one test with these marks."""
    made = []
    for n in range(count):
        item = pytest.Function.from_parent(request.node.parent, name=f"test_x[{n}]", callobj=lambda: None)
        for mark in marks:
            item.add_marker(mark)
        made.append(item)
    return made


@pytest.mark.parametrize("each", [2, 4])
def test_some_cases_run_by_day(request: pytest.FixtureRequest, each: int) -> None:
    marked = runpy.run_path(str(ROOT / "conftest.py"))["pytest_collection_modifyitems"]
    cases = items(request, 400, pytest.mark.by_day(each=each))
    alone, others = items(request, 1, pytest.mark.by_day), items(request, 5)
    marked(cases)
    marked(alone)
    marked(others)
    left = [case.get_closest_marker("nightly") is None for case in cases]
    assert left[0] and 0.8 < sum(left) * each / 400 < 1.25
    assert len({left[n] for n in range(1, 400, 2)}) == 2  # whatever an inner list of two cases is
    assert all(one.get_closest_marker("nightly") is None for one in (*alone, *others))
