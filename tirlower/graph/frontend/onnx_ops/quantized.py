"""Integers that stand for numbers by a scale and a zero point."""

from __future__ import annotations

import numpy as np

from tirlower.graph.core.dims import Extent
from tirlower.graph.core.nodes import Value
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.onnx_file import dtype_of
from tirlower.graph.frontend.onnx_ops.linear import CONV, convolution
from tirlower.graph.frontend.onnx_ops.table import Call, row
from tirlower.graph.ops.reductions import axis_of
from tirlower.ir.dtype import DataType

__all__ = []


def _along(c: Call, numbers: Value, x: Value, axis: int) -> Value:
    """Scales or zero points so that they are broadcast: one, one for each place of an axis, or one for each block of it."""
    rank = len(x.shape)
    if not numbers.shape:
        return numbers
    if numbers.shape == (1,) and rank != 1:
        return c.op("reshape", numbers, shape=())
    at = axis_of(axis, rank, c.node.op)
    if len(numbers.shape) == 1:
        return c.op("expand_dims", numbers, axis=tuple(n for n in range(rank) if n != at)) if rank > 1 else numbers
    block = c.integer("block_size", 0)
    if len(numbers.shape) != rank:
        raise GraphError(f"{c.node.op}: scales of {len(numbers.shape)} axes for a tensor of {rank}")
    if block:
        spread = c.op("repeat", numbers, repeats=block, axis=at)
        extent, whole = x.shape[at], spread.shape[at]
        if isinstance(extent, int) and isinstance(whole, int) and extent < whole:
            return c.op("slice", spread, starts=(0,), ends=(extent,), axes=(at,))
        return spread
    return numbers


def _centred(c: Call, x: Value, point: Value | None) -> Value:
    """int32 without the zero point."""
    wide = c.cast(x, "int32")
    return wide if point is None else c.op("subtract", wide, c.cast(point, "int32"))


def _rounded(c: Call, scaled: Value, point: Value | None, dtype: DataType) -> Value:
    """A float rounded to the nearest integer, half to even, moved by the zero point, and kept in the dtype's range."""
    found = c.op("round", scaled)
    if point is not None:
        found = c.op("add", found, c.cast(point, found.dtype))
    return c.cast(c.op("clip", found, float(dtype.min_value), float(dtype.max_value)), dtype)


@row("QuantizeLinear", "axis block_size output_dtype precision saturate")
def _quantize(c: Call) -> Value:
    x, scale, axis = c.value(0), c.value(1), c.integer("axis", 1)
    point = c.maybe(2)
    dtype = point.dtype if point is not None else DataType("uint8")
    if point is None and c.integer("output_dtype", 0):
        dtype = DataType(dtype_of(c.integer("output_dtype"), "the result"))
    if not dtype.is_integral:
        raise c.unsupported(f"to {dtype}")
    wide = x if x.dtype.is_float else c.cast(x, "float32")
    scaled = c.op("divide", wide, c.cast(_along(c, scale, x, axis), wide.dtype))
    if wide.dtype.bits < 32:
        scaled = c.cast(scaled, "float32")
    return _rounded(c, scaled, None if point is None else _along(c, point, x, axis), dtype)


@row("DequantizeLinear", "axis block_size output_dtype")
def _dequantize(c: Call) -> Value:
    x, scale, axis = c.value(0), c.value(1), c.integer("axis", 1)
    point = c.maybe(2)
    away = _centred(c, x, None if point is None else _along(c, point, x, axis))
    kind = dtype_of(c.integer("output_dtype"), "the result") if c.integer("output_dtype", 0) else str(scale.dtype)
    wide = "float64" if "float64" in (kind, str(scale.dtype)) else "float32"
    product = c.op("multiply", c.cast(away, wide), c.cast(_along(c, scale, x, axis), wide))
    return c.cast(product, kind)


@row("DynamicQuantizeLinear")
def _dynamic_quantize(c: Call) -> list[Value]:
    """To uint8 with the range of the data, which 0 belongs to."""
    x = c.value(0)
    low = c.op("minimum", c.op("min", x), np.float32(0))
    high = c.op("maximum", c.op("max", x), np.float32(0))
    scale = c.op("divide", c.op("subtract", high, low), np.float32(255))
    safe = c.op("where", c.op("equal", scale, np.float32(0)), np.float32(1), scale)
    point = _rounded(c, c.op("divide", c.op("negative", low), safe), None, DataType("uint8"))
    return [_rounded(c, c.op("divide", x, safe), point, DataType("uint8")), scale, point]


def _columns(c: Call, point: Value | None, rows: bool) -> Value | None:
    """Zero points of each row of the left or of each column of the right factor, so that they are broadcast."""
    if point is None or not rows or len(point.shape) != 1 or point.shape == (1,):
        return point
    return c.op("expand_dims", point, axis=1)


@row("MatMulInteger")
def _matmul_integer(c: Call) -> Value:
    a = _centred(c, c.value(0), _columns(c, c.maybe(2), True))
    return c.op("matmul", a, _centred(c, c.value(1), c.maybe(3)))


def _features(c: Call, numbers: Value | None, rank: int) -> Value | None:
    """A number for each feature of weights, so that it is broadcast to them."""
    if numbers is None or not numbers.shape or numbers.shape == (1,):
        return numbers
    return c.op("expand_dims", numbers, axis=tuple(range(1, rank)))


@row("ConvInteger", CONV)
def _conv_integer(c: Call) -> Value:
    """What is added around counts as the zero point, which is 0 here."""
    w = c.value(1)
    return convolution(c, _centred(c, c.value(0), c.maybe(2)), _centred(c, w, _features(c, c.maybe(3), len(w.shape))))


def _scaled(c: Call, total: Value, a: Value, b: Value, y: Value, point: Value) -> Value:
    """int32 sums at the scale of the result."""
    factor = c.op("divide", c.op("multiply", c.cast(a, "float32"), c.cast(b, "float32")), c.cast(y, "float32"))
    return _rounded(c, c.op("multiply", c.cast(total, "float32"), factor), point, point.dtype)


def _one(c: Call, numbers: Value, rows: bool = False) -> Value:
    if numbers.shape == (1,):
        return c.op("reshape", numbers, shape=())
    found = _columns(c, numbers, rows)
    assert found is not None
    return found


@row("QLinearMatMul")
def _qlinear_matmul(c: Call) -> Value:
    a, a_scale, a_point, b, b_scale, b_point, y_scale, y_point = c.values()
    total = c.op("matmul", _centred(c, a, _one(c, a_point, True)), _centred(c, b, _one(c, b_point)))
    return _scaled(c, total, _one(c, a_scale, True), _one(c, b_scale), _one(c, y_scale, True), _one(c, y_point, True))


@row("QLinearConv", CONV)
def _qlinear_conv(c: Call) -> Value:
    x, x_scale, x_point, w, w_scale, w_point, y_scale, y_point = (c.value(n) for n in range(8))
    rank = len(x.shape)
    total = convolution(c, _centred(c, x, x_point), _centred(c, w, _features(c, w_point, rank)))
    if c.has(8):
        total = c.op("add", total, _channels(c, c.value(8), rank))
    return _scaled(c, total, _one(c, x_scale), _channels(c, w_scale, rank), _one(c, y_scale), _one(c, y_point))


def _channels(c: Call, numbers: Value, rank: int) -> Value:
    extents: tuple[Extent, ...] = numbers.shape
    return numbers if extents in ((), (1,)) else c.op("expand_dims", numbers, axis=tuple(range(1, rank - 1)))
