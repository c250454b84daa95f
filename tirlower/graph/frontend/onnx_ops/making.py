"""Tensors made of numbers."""

from __future__ import annotations

import numpy as np

from tirlower.graph.core.nodes import Value
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.onnx_file import dtype_of
from tirlower.graph.frontend.onnx_ops.items import Item
from tirlower.graph.frontend.onnx_ops.table import Call, Made, row
from tirlower.ir import Expr

__all__ = []


@row("Constant", "value value_float value_floats value_int value_ints value_string value_strings sparse_value")
def _constant(c: Call) -> Item:
    if c.given("value"):
        return Item.of_array(c.tensor("value"))
    if c.given("value_float"):
        return Item.of_array(np.array(c.number("value_float"), np.float32))
    if c.given("value_floats"):
        return Item.of_array(np.array(c.floats("value_floats"), np.float32))
    if c.given("value_int"):
        return Item.of_array(np.array(c.integer("value_int"), np.int64))
    if c.given("value_ints"):
        return Item.of_array(np.array(c.ints("value_ints"), np.int64))
    raise c.unsupported("of texts or sparse tensors")


@row("ConstantOfShape", "value")
def _constant_of_shape(c: Call) -> Value:
    value = c.tensor("value") if c.given("value") else np.zeros(1, np.float32)
    if value.size != 1:
        raise GraphError(f"ConstantOfShape has one number as its value, got {value.size}")
    number = value.reshape(-1)[0].item()
    return c.op("full", shape=tuple(c.extents(0, "the shape")), value=number, dtype=value.dtype.name)


@row("Shape", "start end")
def _shape(c: Call) -> Made:
    raise c.unsupported("here")  # its contents are always known


@row("Size")
def _size(c: Call) -> Made:
    raise c.unsupported("here")  # its contents are always known


@row("Range", "stash_type")
def _range(c: Call) -> Value:
    dtype = c.item(0).dtype
    if dtype.is_float:
        start, stop, step = (c.array(n, "a bound").reshape(-1)[0].item() for n in range(3))
        return c.op("arange", start=start, stop=stop, step=step, dtype=str(dtype))
    first, last = c.extents(0, "the start")[0], c.extents(1, "the limit")[0]
    step = c.numbers(2, "the step")[0]
    return c.op("arange", start=first, stop=last, step=step, dtype=str(dtype))


@row("EyeLike", "dtype k")
def _eye_like(c: Call) -> Value:
    shape = c.shape(0)
    if len(shape) != 2:
        raise GraphError(f"EyeLike takes a matrix, got one of shape {shape}")
    dtype = dtype_of(c.integer("dtype"), "the result") if c.given("dtype") else str(c.item(0).dtype)
    return c.op("eye", rows=shape[0], columns=shape[1], k=c.integer("k", 0), dtype=dtype)


@row("OneHot", "axis")
def _one_hot(c: Call) -> Value:
    """Indices outside of the depth are off everywhere."""
    indices, depth, values = c.value(0), c.extents(1, "the depth")[0], c.array(2, "the values").reshape(-1)
    if values.size != 2:
        raise GraphError(f"OneHot has two values, off and on, got {values.size}")
    if not isinstance(depth, (int, Expr)):
        raise c.unsupported(f"of depth {depth}")
    return c.op(
        "one_hot",
        c.cast(indices, "int64"),
        depth=depth,
        axis=c.integer("axis", -1),
        off=values[0].item(),
        on=values[1].item(),
        dtype=values.dtype.name,
    )
