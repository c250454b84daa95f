"""Elements chosen by indices that are data. Negative indices count from the end."""

from __future__ import annotations

from tirlower.graph.core.dims import Extent, as_extent, extent_expr, same_extent
from tirlower.graph.core.extents import shown
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.compute import Formal, Reduction, compute, sum_over
from tirlower.graph.ops.generic import Generic
from tirlower.graph.ops.reductions import axis_of
from tirlower.graph.ops.registry import op
from tirlower.ir import Expr, Var, build
from tirlower.ir.constants import const
from tirlower.ir.dtype import INT64, DataType

__all__ = ["integers", "place"]


def place(index: Expr, extent: Extent) -> Expr:
    """An index that is data, counted from the front."""
    at = index.astype(INT64)
    if index.dtype.is_uint:
        return at
    return build.select(at < const(0, INT64), at + extent_expr(extent), at)


def integers(name: str, indices: Formal) -> None:
    """Refuse indices that are no integers, by :class:`GraphError`."""
    if not indices.dtype.is_integral or indices.dtype.is_bool:
        raise GraphError(
            f"{name} takes integers as {indices.name}, got {indices.dtype!s}", help='cast them: x.astype("int64")'
        )


@op("gather")
def gather(x: Formal, indices: Formal, *, axis: int = 0) -> Generic:
    """The parts of the first operand at the indices along an axis; the axes of the indices stand in its place."""
    integers("gather", indices)
    n = axis_of(axis, x.ndim, f"gather: {x.name}")
    inner = indices.ndim

    def element(*i: Var) -> Expr:
        return x[(*i[:n], place(indices[i[n : n + inner]], x.shape[n]), *i[n + inner :])]

    return compute((*x.shape[:n], *indices.shape, *x.shape[n + 1 :]), element)


@op("gather_elements")
def gather_elements(x: Formal, indices: Formal, *, axis: int = 0) -> Generic:
    """Each element at its own place but along an axis, where the index says which."""
    integers("gather_elements", indices)
    n = axis_of(axis, x.ndim, f"gather_elements: {x.name}")
    if indices.ndim != x.ndim:
        raise GraphError(f"gather_elements: {x.name} has {x.ndim} axes, {indices.name} has {indices.ndim}")
    for m, (have, want) in enumerate(zip(x.shape, indices.shape, strict=True)):
        if m != n and isinstance(have, int) and isinstance(want, int) and want > have:
            raise GraphError(f"gather_elements: axis {m} of {indices.name} has {want} elements, {x.name} has {have}")

    def element(*i: Var) -> Expr:
        return x[(*i[:n], place(indices[i], x.shape[n]), *i[n + 1 :])]

    return compute(indices.shape, element)


@op("gather_nd")
def gather_nd(x: Formal, indices: Formal, *, batch_dims: int = 0) -> Generic:
    """The parts of the first operand at tuples of indices, which stand along the last axis of the second."""
    integers("gather_nd", indices)
    if not indices.ndim or not isinstance(indices.shape[-1], int):
        raise GraphError(
            f"gather_nd: the last axis of {indices.name} has a number of indices, got {shown(indices.shape)}"
        )
    depth = indices.shape[-1]
    if not 0 <= batch_dims < indices.ndim or batch_dims + depth > x.ndim:
        raise GraphError(
            f"gather_nd: {depth} indices and {batch_dims} batch axes do not fit {x.name} of shape {shown(x.shape)} "
            f"and {indices.name} of shape {shown(indices.shape)}"
        )
    batch = [
        same_extent(a, b, f"gather_nd: batch axis {n} of {x.name} and {indices.name} differ")
        for n, (a, b) in enumerate(zip(x.shape[:batch_dims], indices.shape[:batch_dims], strict=True))
    ]
    outer = indices.ndim - 1

    def element(*i: Var) -> Expr:
        chosen = [place(indices[(*i[:outer], const(k, INT64))], x.shape[batch_dims + k]) for k in range(depth)]
        return x[(*i[:batch_dims], *chosen, *i[outer:])]

    return compute((*batch, *indices.shape[batch_dims:-1], *x.shape[batch_dims + depth :]), element)


@op("one_hot")
def one_hot(
    indices: Formal, *, depth: object, axis: int = -1, on: float = 1, off: float = 0, dtype: str = "float32"
) -> Generic:
    """``on`` where the place along a new axis is the index, ``off`` elsewhere."""
    n = axis_of(axis, indices.ndim + 1, "one_hot: the result")
    extent, kind = as_extent(depth), DataType(dtype)

    def element(*i: Var) -> Expr:
        at = place(indices[(*i[:n], *i[n + 1 :])], extent)
        return build.select(build.eq(i[n], at), const(on, kind), const(off, kind))

    return compute((*indices.shape[:n], extent, *indices.shape[n:]), element)


@op("resample")
def resample(x: Formal, places: Formal, weights: Formal, *, axis: int) -> Generic:
    """Along an axis weighted sums of the elements at places: both tables have a row for each element of the result."""
    integers("resample", places)
    n = axis_of(axis, x.ndim, f"resample: {x.name}")
    if places.ndim != 2 or weights.ndim != 2:
        raise GraphError(f"resample takes tables of two axes, got {places.shape} and {weights.shape}")
    length = same_extent(places.shape[0], weights.shape[0], "resample: the rows of the tables differ")
    reads = same_extent(places.shape[1], weights.shape[1], "resample: the columns of the tables differ")

    def element(*i: Var) -> Reduction:
        def term(k: Var) -> Expr:
            at = place(places[i[n], k], x.shape[n])
            return x[(*i[:n], at, *i[n + 1 :])].astype(weights.dtype) * weights[i[n], k]

        return sum_over(reads, term)

    return compute((*x.shape[:n], length, *x.shape[n + 1 :]), element, x.dtype)
