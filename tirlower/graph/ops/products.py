"""Sums of products of arrays as products of matrices."""

from __future__ import annotations

import numpy as np

from tirlower.ir.dtype import Array

__all__ = ["multiplied"]


def multiplied(left: Array, right: Array, sizes: tuple[int, ...], outer: int) -> Array:
    """The sum over the axes from ``outer`` on of the product of two arrays, of extent 1 where they say nothing."""
    a_has = [size > 1 for size in left.shape]
    b_has = [size > 1 for size in right.shape]
    alone_a = tuple(n for n in range(outer, len(sizes)) if a_has[n] and not b_has[n])
    alone_b = tuple(n for n in range(outer, len(sizes)) if b_has[n] and not a_has[n])
    kind = left.dtype
    a = left.sum(axis=alone_a, keepdims=True, dtype=kind) if alone_a else left
    b = right.sum(axis=alone_b, keepdims=True, dtype=kind) if alone_b else right
    repeated = 1
    for n in range(outer, len(sizes)):
        if not a_has[n] and not b_has[n]:
            repeated *= sizes[n]
    both = [n for n in range(outer) if a_has[n] and b_has[n]]
    rows = [n for n in range(outer) if a_has[n] and not b_has[n]]
    columns = [n for n in range(outer) if b_has[n] and not a_has[n]]
    depth = [n for n in range(outer, len(sizes)) if a_has[n] and b_has[n]]

    def matrix(array: Array, *groups: list[int]) -> Array:
        kept = [n for group in groups for n in group]
        turned = array.transpose([*kept, *[n for n in range(array.ndim) if n not in kept]])
        return np.ascontiguousarray(turned.reshape([_extent(sizes, group) for group in groups]))

    found = np.matmul(matrix(a, both, rows, depth), matrix(b, both, depth, columns))
    if repeated != 1:
        found = found * kind.type(repeated)
    order = [*both, *rows, *columns]
    spread = found.reshape([sizes[n] for n in order]).transpose([order.index(n) for n in sorted(order)])
    single = spread.reshape([sizes[n] if n in order else 1 for n in range(outer)])
    return np.broadcast_to(single, sizes[:outer])


def _extent(sizes: tuple[int, ...], group: list[int]) -> int:
    found = 1
    for n in group:
        found *= sizes[n]
    return found
