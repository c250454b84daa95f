"""Elements chosen and replaced by indices that are data."""

from __future__ import annotations

from tirlower.graph.core.nodes import Value
from tirlower.graph.frontend.onnx_ops.table import Call, row

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
