"""Which cases of a long list run by day: the others are in the long checks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["by_day", "in_pairs"]


def _case(case: Any, day: bool) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=[] if day else [pytest.mark.nightly])


def by_day(cases: Iterable[Any], each: int = 2) -> list[Any]:
    """One of so many cases, the first of all with them; the others are marked as nightly. A tuple is several arguments."""
    return [_case(case, n % each == 0) for n, case in enumerate(cases)]


def in_pairs(*axes: Iterable[Any], each: int = 2) -> list[Any]:
    """All combinations of a value of each axis, one of so many by day, as in a Latin square.

    Of three axes and more, each two values of different axes meet by day, where no axis is shorter than ``each``.
    """
    numbered = itertools.product(*(enumerate(axis) for axis in axes))
    return [_case(tuple(value for _, value in one), sum(n for n, _ in one) % each == 0) for one in numbered]
