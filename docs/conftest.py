"""The examples of the pages are doctests; what they compile goes to a cache of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

collect_ignore = [] if find_spec("scipy_openblas32") else ["graph_backends.md"]


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    before = os.environ.get("TIRLOWER_CACHE_DIR")
    os.environ["TIRLOWER_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["TIRLOWER_CACHE_DIR"]
    else:
        os.environ["TIRLOWER_CACHE_DIR"] = before
