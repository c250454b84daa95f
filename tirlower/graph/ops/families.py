"""The modules that define the operations, a family each: imported when an operation is first asked for."""

from __future__ import annotations

import functools
import importlib

__all__ = ["FAMILIES", "load"]

FAMILIES = (
    "elementwise",
    "activations",
    "reductions",
    "contractions",
    "convolution",
    "pooling",
    "normalization",
    "attention",
    "shaping",
    "joining",
    "indexing",
    "scattering",
    "resizing",
    "ordering",
)


@functools.cache
def load() -> None:
    """Import all families; the second time nothing happens."""
    for name in FAMILIES:
        importlib.import_module(f"tirlower.graph.ops.{name}")
