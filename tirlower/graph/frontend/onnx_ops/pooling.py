"""Pooling."""

from __future__ import annotations

from tirlower.graph.core.nodes import Value
from tirlower.graph.frontend.onnx_ops.linear import same_pads
from tirlower.graph.frontend.onnx_ops.table import Call, row

__all__ = []

_POOL = "auto_pad ceil_mode dilations kernel_shape pads strides"


def _where(c: Call) -> dict[str, object]:
    kernel = c.ints("kernel_shape")
    if kernel is None:
        raise c.unsupported("without kernel_shape")
    strides, dilations = c.ints("strides"), c.ints("dilations")
    pads = same_pads(c, c.shape(0)[2:], kernel, strides, dilations)
    return {
        "kernel": kernel,
        "strides": strides,
        "pads": pads,
        "dilations": dilations,
        "ceil_mode": c.flag("ceil_mode"),
    }


@row("MaxPool", f"{_POOL} storage_order")
def _max_pool(c: Call) -> Value | tuple[Value, ...]:
    if c.wants(1):
        where = {**_where(c), "columns_first": c.flag("storage_order")}
        return c.b.ops("max_pool_with_index", c.value(0), **where)
    return c.op("max_pool", c.value(0), **_where(c))


@row("AveragePool", f"{_POOL} count_include_pad")
def _average_pool(c: Call) -> Value:
    return c.op("average_pool", c.value(0), **_where(c), count_include_pad=c.flag("count_include_pad"))


@row("LpPool", f"{_POOL} p")
def _lp_pool(c: Call) -> Value:
    return c.op("lp_pool", c.value(0), **_where(c), p=c.integer("p", 2))


@row("GlobalMaxPool")
def _global_max_pool(c: Call) -> Value:
    return c.op("global_max_pool", c.value(0))


@row("GlobalAveragePool")
def _global_average_pool(c: Call) -> Value:
    return c.op("global_average_pool", c.value(0))


@row("GlobalLpPool", "p")
def _global_lp_pool(c: Call) -> Value:
    return c.op("global_lp_pool", c.value(0), p=c.integer("p", 2))
