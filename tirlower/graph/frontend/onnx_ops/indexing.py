"""Elements chosen and replaced by indices that are data."""

from __future__ import annotations

import numpy as np

from tirlower.graph.core.nodes import Value
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.onnx_ops.table import Call, row
from tirlower.graph.ops.reductions import axis_of

__all__ = []


@row("Gather", "axis")
def _gather(c: Call) -> Value:
    return c.op("gather", c.value(0), c.value(1), axis=c.integer("axis", 0))


@row("GatherElements", "axis")
def _gather_elements(c: Call) -> Value:
    return c.op("gather_elements", c.value(0), c.value(1), axis=c.integer("axis", 0))


@row("GatherND", "batch_dims")
def _gather_nd(c: Call) -> Value:
    return c.op("gather_nd", c.value(0), c.value(1), batch_dims=c.integer("batch_dims", 0))


@row("ScatterElements", "axis reduction")
def _scatter_elements(c: Call) -> Value:
    x, at, new = c.values()
    return c.op("scatter_elements", x, at, new, axis=c.integer("axis", 0), reduction=c.text("reduction", "none"))


@row("Scatter", "axis")
def _scatter(c: Call) -> Value:
    return c.op("scatter_elements", *c.values(), axis=c.integer("axis", 0))


@row("ScatterND", "reduction")
def _scatter_nd(c: Call) -> Value:
    x, at, new = c.values()
    return c.op("scatter_nd", x, at, new, reduction=c.text("reduction", "none"))


@row("Compress", "axis")
def _compress(c: Call) -> Value:
    """Of a condition that is known: how many elements there are would else depend on data."""
    x, keep = c.value(0), c.array(1, "the condition").reshape(-1)
    at = np.flatnonzero(keep)
    if not c.given("axis"):
        x = c.op("reshape", x, shape=(-1,))
    axis = axis_of(c.integer("axis", 0), len(x.shape), "Compress")
    extent = x.shape[axis]
    if not isinstance(extent, int) or keep.size > extent:
        raise GraphError(f"Compress: {keep.size} truths for the extent {extent}")
    return c.op("gather", x, at.astype(np.int64), axis=axis)


@row("NonZero")
def _non_zero(c: Call) -> Value:
    """Of a constant: how many elements there are would else depend on data."""
    found = np.array(np.nonzero(np.atleast_1d(c.array(0, "the operand"))), np.int64)
    return c.b.const(found, "nonzero")
