"""The peers that are installed. A missing one is skipped with a word."""

from __future__ import annotations

import functools
import importlib
import types
from collections.abc import Callable
from functools import cache
from typing import Any

Candidates = dict[str, Callable[[], Any]]
"""Calls by the peers' names."""


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


def jax_call(fn: Callable[..., Any], *args: Any) -> Candidates:
    """``fn(jax.numpy, *args)`` compiled by XLA, as a candidate named ``jax``, if JAX is installed."""
    jax = find("jax")
    if jax is None:
        return {}
    compiled = jax.jit(functools.partial(fn, jax.numpy))
    there = [jax.numpy.asarray(arg) for arg in args]
    return {"jax": lambda: compiled(*there).block_until_ready()}
