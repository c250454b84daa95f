"""Kernels scheduled by hand in the dialect, one file a class: how near code generation lets a person come to the machine.

``python -m bench by_hand`` measures them beside the best peer and the machine's limits. Each is legal by proof alone, and
takes its tiles from what the machine has.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from bench.by_hand.case import Maker

CLASSES = (
    "product", "small_batched", "matvec", "convolution", "attention",
    "row_chains", "column_sum", "elementwise", "stencil", "permutation", "jacobi", "scan", "histogram",
)  # fmt: skip
"""The files, in the order of the table. Each has two tables of cases: ``CASES`` are measured, ``SMALL`` ones are tested."""


def cases(only: list[str]) -> Mapping[str, Maker]:
    """The measured cases by name; those of the classes, or with the names, that are asked for."""
    found: dict[str, Maker] = {}
    for name in CLASSES:
        made: Mapping[str, Maker] = importlib.import_module(f"bench.by_hand.{name}").CASES
        found.update((k, v) for k, v in made.items() if not only or name in only or any(word in k for word in only))
    return found
