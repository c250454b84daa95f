"""Annotations of loops, and attributes of functions, that several parts agree on."""

from __future__ import annotations

__all__ = ["MIN_BLOCKS", "REDUCTION", "UNCHECKED"]

MIN_BLOCKS = "tir.min_blocks_per_sm"
"""On a function: how many blocks of its kernels a multiprocessor must be able to hold, which limits their registers."""

REDUCTION = "tir.reduction"
"""On a parallel or vectorized loop, when true: the reductions that it carries are computed with partial results.

The loop means what the serial loop computes, up to the rounding of float sums and products in another order.
"""

UNCHECKED = "tir.unchecked"
"""On a loop whose kind is taken on the user's word; the value is the reason, for the report."""
