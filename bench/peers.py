"""The peers that are installed. A missing one is skipped with a word."""

from __future__ import annotations

import importlib
import types
from functools import cache


@cache
def find(name: str) -> types.ModuleType | None:
    """A peer's module, or None; says once that it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        print(f"(no {name}: {error}; its column is left out)")
        return None


def numba() -> types.ModuleType | None:
    """Numba, if installed."""
    return find("numba")


def torch() -> types.ModuleType | None:
    """PyTorch, if installed; set to one thread."""
    module = find("torch")
    if module is not None:
        module.set_num_threads(1)
    return module


def tvm() -> types.ModuleType | None:
    """TVM, if installed."""
    return find("tvm")
