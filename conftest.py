"""Of the run itself: which cases run by day, and what pytest collected is left out of the collections of garbage that follow."""

from __future__ import annotations

import gc
from zlib import crc32

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the cases of a test that is marked ``by_day``, the first runs by day, and of the others one of so many (2), by their names; the rest
    is nightly."""
    begun: set[str] = set()
    for item in items:
        mark = item.get_closest_marker("by_day")
        if mark is None or item.get_closest_marker("nightly") is not None:
            continue
        test, _, case = item.nodeid.partition("[")
        if test in begun and crc32(case.encode()) % mark.kwargs.get("each", 2):
            item.add_marker(pytest.mark.nightly)
        begun.add(test)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Tens of thousands of tests are a heap that every full collection would walk, in each process, for nothing."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)  # a tenth of the time went into looking for cycles
