"""Annotations of loops that several parts agree on."""

from __future__ import annotations

__all__ = ["REDUCTION", "UNCHECKED"]

REDUCTION = "tir.reduction"
"""On a parallel or vectorized loop, when true: the reductions that it carries are computed with partial results.

The loop means what the serial loop computes, up to the rounding of float sums and products in another order.
"""

UNCHECKED = "tir.unchecked"
"""On a loop whose kind is taken on the user's word; the value is the reason, for the report."""
