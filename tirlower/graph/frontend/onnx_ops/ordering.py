"""Order, running sums, and what is found: results whose extent depends on data have the size that the user bounds it by."""

from __future__ import annotations

import numpy as np

from tirlower.graph.core.dims import Extent
from tirlower.graph.core.nodes import Value
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.onnx_ops.table import Call, row
from tirlower.graph.ops.reductions import axis_of

__all__ = []


@row("CumSum", "exclusive reverse")
def _cumsum(c: Call) -> Value:
    x = c.value(0)
    axis = c.numbers(1, "the axis")
    if len(axis) != 1:
        raise GraphError(f"CumSum sums along one axis, got {axis}")
    return c.op("cumsum", x, axis=axis[0], exclusive=c.flag("exclusive"), reverse=c.flag("reverse"), dtype=str(x.dtype))


@row("TopK", "axis k largest sorted")
def _topk(c: Call) -> tuple[Value, ...]:
    k: list[Extent] = [c.integer("k")] if c.opset < 10 else c.extents(1, "the number of elements")
    if len(k) != 1:
        raise GraphError(f"TopK takes one number of elements, got {k}")
    largest = c.flag("largest", True)
    return c.b.ops("topk", c.value(0), k=k[0], axis=c.integer("axis", -1), largest=largest)


def _bounded(c: Call, name: str, *operands: Value, **attrs: object) -> Value:
    """The result of an operation for as many elements as the user says, whose number becomes a result of the model."""
    made, count = c.b.ops(name, *operands, size=c.room(0), **attrs)
    c.home.count(c.node.outputs[0], count)
    return made


@row("NonZero")
def _nonzero(c: Call) -> Value:
    known = c.item(0).array
    if known is not None:
        return c.b.const(np.array(np.nonzero(np.atleast_1d(known)), np.int64), "nonzero")
    x = c.value(0)
    return _bounded(c, "nonzero", x if x.shape else c.op("reshape", x, shape=(1,)))


@row("Compress", "axis")
def _compress(c: Call) -> Value:
    x, axis = c.value(0), c.integer("axis") if c.given("axis") else None
    known = c.item(1).array
    if known is None:
        return _bounded(c, "compress", c.value(1), x, axis=axis)
    if axis is None:
        x = c.op("reshape", x, shape=(-1,))
    along = axis_of(axis or 0, len(x.shape), "Compress")
    extent = x.shape[along]
    if not isinstance(extent, int) or known.size > extent:
        raise GraphError(f"Compress: {known.size} truths for the extent {extent}")
    return c.op("gather", x, np.flatnonzero(known).astype(np.int64), axis=along)
