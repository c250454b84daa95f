"""What kernels that are bound by memory share: whole cache lines, fetched ahead, and sums that are folded in halves."""

from __future__ import annotations

from tirlower.script import tir as T

__all__ = ["LINE", "fetch", "fold", "halves"]

LINE = 16
"""Elements of float32 in a cache line."""


def halves(count: int) -> list[int]:
    """Half of so many, a quarter, … 1; ``count`` is a power of two."""
    return [count >> s for s in range(1, count.bit_length())]


@T.macro
def fold(sums, count):
    """Add all of ``count`` sums into the first, in halves."""
    for half in halves(count):
        for l in T.vectorized(half):
            sums[l] += sums[l + half]


@T.macro
def fetch(X, row, start, count):
    """Ask for a row's elements that are read later."""
    for line in T.unroll(count // LINE):
        T.prefetch(T.address_of(X[row, start + line * LINE]), 0, 3, 1)
