"""Elements moved: shapes, parts, wholes. What an operand says of the result's shape is known while importing."""

from __future__ import annotations

import numpy as np

from tirlower.graph.core.dims import Extent
from tirlower.graph.core.nodes import Value
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.onnx_ops.reductions import axes_of_call
from tirlower.graph.frontend.onnx_ops.table import Call, row
from tirlower.graph.ops.reductions import axis_of
from tirlower.graph.ops.shaping import product_of
from tirlower.ir import build
from tirlower.ir.constants import const
from tirlower.ir.dtype import INT64

__all__ = []


@row("Reshape", "allowzero")
def _reshape(c: Call) -> Value:
    wanted = c.extents(1, "the shape")
    if not c.flag("allowzero"):
        shape = c.shape(0)
        for n, extent in enumerate(wanted):
            if isinstance(extent, int) and extent == 0:
                if n >= len(shape):
                    raise GraphError(f"Reshape copies axis {n}, which {c.node.inputs[0]!r} of shape {shape} lacks")
                wanted[n] = shape[n]
    return c.op("reshape", c.value(0), shape=tuple(wanted))


@row("Flatten", "axis")
def _flatten(c: Call) -> Value:
    shape, axis = c.shape(0), c.integer("axis", 1)
    at = axis if axis == len(shape) else axis_of(axis, len(shape), "Flatten") if shape else 0
    return c.op("reshape", c.value(0), shape=(product_of(shape[:at]), product_of(shape[at:])))


@row("Transpose", "perm")
def _transpose(c: Call) -> Value:
    return c.op("transpose", c.value(0), axes=c.ints("perm"))


@row("Squeeze", "axes")
def _squeeze(c: Call) -> Value:
    return c.op("squeeze", c.value(0), axis=axes_of_call(c, 13))


@row("Unsqueeze", "axes")
def _unsqueeze(c: Call) -> Value:
    axes = axes_of_call(c, 13)
    if axes is None:
        raise GraphError("Unsqueeze lacks its axes")
    return c.op("expand_dims", c.value(0), axis=axes)


@row("Concat", "axis")
def _concat(c: Call) -> Value:
    return c.op("concat", *c.values(), axis=c.integer("axis", 1 if c.opset < 4 else None))


@row("Split", "axis split num_outputs")
def _split(c: Call) -> list[Value]:
    x = c.value(0)
    axis = axis_of(c.integer("axis", 0), len(x.shape), "Split")
    extent, count = x.shape[axis], len(c.node.outputs)
    sizes: list[Extent] | None = None
    if c.opset >= 13 and c.has(1):
        sizes = c.extents(1, "the sizes of the parts")
    elif c.opset < 13:
        stated = c.ints("split")
        sizes = list(stated) if stated is not None else None
    if c.given("num_outputs") and c.integer("num_outputs") != count:
        raise GraphError(f"Split into {c.integer('num_outputs')} parts, the node names {count}")
    if sizes is not None and len(sizes) != count:
        raise GraphError(f"Split into {len(sizes)} parts, the node names {count}")
    if sizes is None and isinstance(extent, int) and extent % count:
        if c.opset < 18:
            raise GraphError(f"Split: the extent {extent} is not divided by {count}")
        one = -(-extent // count)
        sizes = [min(one, max(0, extent - n * one)) for n in range(count)]
    return list(c.b.ops("split", x, parts=count if sizes is None else tuple(sizes), axis=axis))


@row("Slice", "axes ends starts")
def _slice(c: Call) -> Value:
    x = c.value(0)
    steps: list[int] | None = None
    if c.opset < 10:
        starts: list[Extent] = list(c.ints("starts") or ())
        ends: list[Extent] = list(c.ints("ends") or ())
        axes = list(c.ints("axes") or range(len(starts)))
    else:
        starts, ends = c.extents(1, "the starts"), c.extents(2, "the ends")
        axes = c.numbers(3, "the axes") if c.has(3) else list(range(len(starts)))
        steps = c.numbers(4, "the steps") if c.has(4) else None
        if steps is not None and len(steps) == len(starts) == len(axes):
            starts = [_start(c, x, *of) for of in zip(axes, starts, steps, strict=True)]
    return c.op("slice", x, starts=tuple(starts), ends=tuple(ends), axes=tuple(axes), steps=steps and tuple(steps))


def _start(c: Call, x: Value, axis: int, start: Extent, step: int) -> Extent:
    """Where a slice starts: backwards, one that starts before the first element starts at it; in Python it has none."""
    if step > 0 or not isinstance(start, int) or start >= 0:
        return start
    extent = x.shape[axis_of(axis, len(x.shape), "Slice")]
    if isinstance(extent, int):
        return max(start, -extent)
    first = extent + start
    return start if c.b.env.analyzer.can_prove(first >= 0) else build.max_(first, const(0, INT64))


@row("Pad", "mode pads paddings value")
def _pad(c: Call) -> Value:
    x, mode = c.value(0), c.text("mode", "constant")
    rank = len(x.shape)
    value: object = c.number("value", 0.0)
    if c.opset < 11:
        amounts: list[Extent] = list(c.ints("pads") or ())
    else:
        amounts = c.extents(1, "the pads")
        value = c.array(2, "the value").reshape(-1)[0] if c.has(2) else 0
        value = np.asarray(value).item()
    axes = list(range(rank))
    if c.has(3):
        axes = [axis_of(n, rank, "Pad") for n in c.numbers(3, "the axes")]
    if len(amounts) != 2 * len(axes):
        raise GraphError(f"Pad of {len(axes)} axes takes {2 * len(axes)} pads, got {len(amounts)}")
    pads: list[tuple[Extent, Extent]] = [(0, 0)] * rank
    for n, axis in enumerate(axes):
        pads[axis] = (amounts[n], amounts[n + len(axes)])
    return c.op("pad", x, pads=tuple(pads), mode=mode, value=value)


@row("Expand")
def _expand(c: Call) -> Value:
    return c.op("expand", c.value(0), shape=tuple(c.extents(1, "the shape")))


@row("Tile")
def _tile(c: Call) -> Value:
    times = c.extents(1, "the repeats")
    if len(times) != c.rank(0):
        raise GraphError(f"Tile of {c.rank(0)} axes takes as many repeats, got {len(times)}")
    return c.op("tile", c.value(0), repeats=tuple(times))


@row("DepthToSpace", "blocksize mode")
def _depth_to_space(c: Call) -> Value:
    return c.op("depth_to_space", c.value(0), block=c.integer("blocksize"), mode=c.text("mode", "DCR"))


@row("SpaceToDepth", "blocksize")
def _space_to_depth(c: Call) -> Value:
    return c.op("space_to_depth", c.value(0), block=c.integer("blocksize"))


@row("Trilu", "upper")
def _trilu(c: Call) -> Value:
    k = c.numbers(1, "the diagonal")[0] if c.has(1) else 0
    return c.op("trilu", c.value(0), upper=c.flag("upper", True), k=k)


@row("ReverseSequence", "batch_axis time_axis")
def _reverse_sequence(c: Call) -> Value:
    time, batch = c.integer("time_axis", 0), c.integer("batch_axis", 1)
    return c.op("reverse_sequence", c.value(0), c.value(1), time_axis=time, batch_axis=batch)
