"""Elements replaced where indices that are data say: each element of the result looks for what was sent to it.

That takes as many steps as there are elements times updates that may reach one; it is for few updates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tirlower.graph.core.dims import Extent, extent_expr, same_extent
from tirlower.graph.core.extents import shown
from tirlower.graph.core.nodes import Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.compute import (
    Formal,
    Reduction,
    compute,
    greatest,
    least,
    max_over,
    min_over,
    prod_over,
    reduce_over,
    sum_over,
)
from tirlower.graph.ops.generic import Generic
from tirlower.graph.ops.indexing import integers, place
from tirlower.graph.ops.reductions import Over, axis_of
from tirlower.graph.ops.registry import macro, op
from tirlower.ir import Expr, Var, build
from tirlower.ir.constants import const
from tirlower.ir.dtype import INT64, DataType

if TYPE_CHECKING:
    from tirlower.graph.ops.builder import GraphBuilder

__all__ = []

_OVER: dict[str, tuple[Over, Callable[[DataType], Expr], str]] = {
    "add": (sum_over, lambda kind: const(0, kind), "add"),
    "mul": (prod_over, lambda kind: const(1, kind), "multiply"),
    "max": (max_over, least, "maximum"),
    "min": (min_over, greatest, "minimum"),
}
"""How updates of one element are combined, what stands for none, and how the result meets the element itself."""


def _last(left: tuple[Var, ...], right: tuple[Var, ...]) -> Sequence[Expr]:
    later = build.ge(left[0], right[0])
    return [build.select(later, a, b) for a, b in zip(left, right, strict=True)]


def _received(
    extents: tuple[Extent, ...],
    reduction: str,
    dtype: DataType,
    look: Callable[[tuple[Var, ...]], tuple[Expr, Expr]],
) -> Reduction:
    """What the updates come to for which ``look`` says that they are sent here: one value, or the last one's place and value."""
    if reduction != "none":
        over, nothing, _ = _OVER[reduction]

        def combined(*j: Var) -> Expr:
            sent, value = look(j)
            return build.if_then_else(sent, value, nothing(dtype))

        return over(extents, combined)

    def placed(*j: Var) -> tuple[Expr, Expr]:
        sent, value = look(j)
        at: Expr = const(0, INT64)
        for extent, var in zip(extents, j, strict=True):
            at = at * extent_expr(extent) + var
        return build.select(sent, at, const(-1, INT64)), build.if_then_else(sent, value, const(0, dtype))

    return reduce_over(extents, placed, _last, [const(-1, INT64), const(0, dtype)])


def _checked(name: str, x: Formal, indices: Formal, updates: Formal, reduction: str) -> None:
    integers(name, indices)
    if updates.dtype is not x.dtype:
        raise GraphError(f"{name}: {updates.name} is of {updates.dtype!s}, {x.name} of {x.dtype!s}")
    if reduction != "none" and reduction not in _OVER:
        raise GraphError(f"{name} has the reductions none, {', '.join(_OVER)}, got {reduction!r}")


@op("received_elements")
def received_elements(
    x: Formal, indices: Formal, updates: Formal, *, axis: int = 0, reduction: str = "none"
) -> Generic:
    """For each element what scatter_elements sends to it (a step of that operation)."""
    _checked("scatter_elements", x, indices, updates, reduction)
    n = axis_of(axis, x.ndim, f"scatter_elements: {x.name}")
    if not x.ndim == indices.ndim == updates.ndim:
        raise GraphError(
            f"scatter_elements: {x.name}, {indices.name} and {updates.name} have {x.ndim}, {indices.ndim} and {updates.ndim} axes"
        )
    for m, (a, b) in enumerate(zip(indices.shape, updates.shape, strict=True)):
        same_extent(a, b, f"scatter_elements: axis {m} of {indices.name} and {updates.name} differ")

    def element(*i: Var) -> Reduction:
        within = [
            build.lt(i[m], extent_expr(e))
            for m, e in enumerate(indices.shape)
            if m != n and e is not x.shape[m] and e != x.shape[m]
        ]

        def look(j: tuple[Var, ...]) -> tuple[Expr, Expr]:
            at = (*i[:n], j[0], *i[n + 1 :])
            here = build.eq(place(indices[at], x.shape[n]), i[n])
            sent = build.if_then_else(build.all_of(*within), here, const(False, "bool")) if within else here
            return sent, updates[at]

        return _received((indices.shape[n],), reduction, x.dtype, look)

    return compute(x.shape, element)


@op("received_nd")
def received_nd(x: Formal, indices: Formal, updates: Formal, *, reduction: str = "none") -> Generic:
    """For each element what scatter_nd sends to it (a step of that operation)."""
    _checked("scatter_nd", x, indices, updates, reduction)
    depth = indices.shape[-1] if indices.ndim else None
    if not isinstance(depth, int) or depth > x.ndim:
        raise GraphError(
            f"scatter_nd: the last axis of {indices.name}, of shape {shown(indices.shape)}, does not index {x.name}"
        )
    outer = indices.shape[:-1]
    wanted = (*outer, *x.shape[depth:])
    if len(wanted) != updates.ndim:
        raise GraphError(f"scatter_nd: {updates.name} has the shape {shown(wanted)}, got {shown(updates.shape)}")
    for m, (a, b) in enumerate(zip(wanted, updates.shape, strict=True)):
        same_extent(a, b, f"scatter_nd: axis {m} of {updates.name} is not as the indices say")

    def element(*i: Var) -> Reduction | tuple[Expr, ...]:
        def look(j: tuple[Var, ...]) -> tuple[Expr, Expr]:
            tests = [build.eq(place(indices[(*j, const(k, INT64))], x.shape[k]), i[k]) for k in range(depth)]
            return build.all_of(*tests), updates[(*j, *i[depth:])]

        return _received(outer or (1,), reduction, x.dtype, look if outer else lambda j: look(()))

    return compute(x.shape, element)


def _met(b: GraphBuilder, x: Value, received: tuple[Value, ...], reduction: str) -> Value:
    if reduction == "none":
        return b.op("where", b.op("greater_equal", received[0], 0), received[1], x)
    return b.op(_OVER[reduction][2], x, received[0])


@macro("scatter_elements")
def scatter_elements(
    b: GraphBuilder, x: Value, indices: Value, updates: Value, *, axis: int = 0, reduction: str = "none"
) -> Value:
    """The operand with each update put (or added, multiplied, …) at its own place but along an axis, where the index says."""
    received = b.ops("received_elements", x, indices, updates, axis=axis, reduction=reduction)
    return _met(b, x, received, reduction)


@macro("scatter_nd")
def scatter_nd(b: GraphBuilder, x: Value, indices: Value, updates: Value, *, reduction: str = "none") -> Value:
    """The operand with updates put (or added, multiplied, …) at tuples of indices, the last one of equals in force."""
    return _met(b, x, b.ops("received_nd", x, indices, updates, reduction=reduction), reduction)
