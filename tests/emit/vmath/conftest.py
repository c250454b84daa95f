"""What the tests of vector functions share, as fixtures: see `measure`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from tests.emit.vmath import measure
from tests.emit.vmath.measure import Array, Loop, runnable


@pytest.fixture(scope="session")
def loop() -> Callable[..., Loop]:
    """``loop(name, elem="f32", lanes=16, target="host", fast=False)``; skips where the machine cannot run it."""

    @cache
    def make(name: str, elem: str = "f32", lanes: int = 16, target: str = "host", fast: bool = False) -> Loop:
        if not runnable(target):
            pytest.skip(f"this machine does not run {target} code")
        return Loop(name, elem, lanes, target, fast)

    return make


@pytest.fixture(scope="session")
def ulps() -> Callable[[Array, Array], Array]:
    """`measure.ulps`."""
    return measure.ulps


@pytest.fixture(scope="session")
def exact() -> Callable[..., Array]:
    """`measure.exact`."""
    return measure.exact
