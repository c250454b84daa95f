"""Which cases of a long list run by day: the others are in the long checks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["by_day"]


def by_day(cases: Iterable[Any], each: int = 2) -> list[Any]:
    """One of so many cases, the first of all with them; the others are marked as nightly. A tuple is several arguments."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=[pytest.mark.nightly] if n % each else [])
        for n, case in enumerate(cases)
    ]
