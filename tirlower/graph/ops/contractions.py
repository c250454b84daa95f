"""Products of matrices."""

from __future__ import annotations

from tirlower.graph.core.dims import same_extent
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.compute import Formal, Reduction, accumulator, broadcast, compute, lead, sum_over
from tirlower.graph.ops.generic import Generic
from tirlower.graph.ops.registry import common_dtype, op
from tirlower.ir import Expr, Var

__all__ = ["matmul"]


@op("matmul")
def matmul(a: Formal, b: Formal) -> Generic:
    """Matrix product over the last two axes, batch axes broadcast; an operand of one axis is a row or a column."""
    if not a.ndim or not b.ndim:
        raise GraphError("matmul takes tensors of one axis or more, got a scalar", help="multiply by it: x * scalar")
    depth = same_extent(
        a.shape[-1], b.shape[-2] if b.ndim > 1 else b.shape[0], "matmul: the axes that are added up differ"
    )
    batch = broadcast(a.shape[:-2], b.shape[:-2])
    rows, columns = a.shape[-2:-1], b.shape[-1:] if b.ndim > 1 else ()
    dtype = common_dtype(a, b)
    wide = accumulator(dtype)

    def element(*i: Var) -> Reduction:
        outer, row, column = i[: len(batch)], i[len(batch) : len(batch) + len(rows)], i[len(batch) + len(rows) :]

        def term(k: Var) -> Expr:
            left = a[(*lead(a, outer, max(a.ndim - 2, 0)), *row, k)]
            right = b[(*lead(b, outer, max(b.ndim - 2, 0)), k, *column)]
            return left.astype(wide) * right.astype(wide)

        return sum_over(depth, term)

    return compute((*batch, *rows, *columns), element, dtype)
