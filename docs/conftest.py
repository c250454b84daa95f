"""The examples of the pages are doctests; what they compile goes to a cache of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    before = os.environ.get("TIRLOWER_CACHE_DIR")
    os.environ["TIRLOWER_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["TIRLOWER_CACHE_DIR"]
    else:
        os.environ["TIRLOWER_CACHE_DIR"] = before
