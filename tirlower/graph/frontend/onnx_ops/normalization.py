"""Normalizations and softmax."""

from __future__ import annotations

from collections.abc import Callable

from tirlower.graph.core.dims import Extent
from tirlower.graph.core.nodes import Value
from tirlower.graph.frontend.onnx_ops.table import Call, row
from tirlower.graph.ops.reductions import axis_of
from tirlower.graph.ops.shaping import product_of

__all__ = []


def _soft(name: str) -> Callable[[Call], Value]:
    """Along one axis; before opset 13 the axes from the given one on are one."""

    def make(c: Call) -> Value:
        x = c.value(0)
        if c.opset >= 13:
            return c.op(name, x, axis=c.integer("axis", -1))
        rank = len(x.shape)
        axis = axis_of(c.integer("axis", 1), rank, c.node.op) if c.integer("axis", 1) != rank else rank
        if axis == rank - 1:
            return c.op(name, x, axis=axis)
        if name != "hardmax":
            return c.op(name, x, axis=tuple(range(axis, rank)))
        flat = (product_of(x.shape[:axis]), product_of(x.shape[axis:]))
        return c.op("reshape", c.op(name, c.op("reshape", x, shape=flat), axis=1), shape=x.shape)

    return make


row("Softmax", "axis")(_soft("softmax"))
row("LogSoftmax", "axis")(_soft("log_softmax"))
row("Hardmax", "axis")(_soft("hardmax"))


@row("BatchNormalization", "epsilon momentum spatial training_mode")
def _batch_norm(c: Call) -> Value:
    if c.flag("training_mode") or any(c.wants(n) for n in range(1, 5)):
        raise c.unsupported("in training mode")
    if not c.flag("spatial", True):
        raise c.unsupported("with spatial=0")
    return c.op("batch_norm", *c.values(), epsilon=c.number("epsilon", 1e-5))


@row("LayerNormalization", "axis epsilon stash_type")
def _layer_norm(c: Call) -> list[Value | None]:
    x = c.value(0)
    axis, epsilon = axis_of(c.integer("axis", -1), len(x.shape), c.node.op), c.number("epsilon", 1e-5)
    made: list[Value | None] = [c.op("layer_norm", x, c.maybe(1), c.maybe(2), axis=axis, epsilon=epsilon), None, None]
    if c.wants(1) or c.wants(2):
        axes = tuple(range(axis, len(x.shape)))
        wide = c.cast(x, "float32") if c.integer("stash_type", 1) == 1 else x
        mean = c.op("mean", wide, axis=axes, keepdims=True)
        away = c.op("square", c.op("subtract", wide, mean))
        spread = c.op("add", c.op("mean", away, axis=axes, keepdims=True), epsilon)
        made[1:] = [mean, c.op("reciprocal", c.op("sqrt", spread))]
    return made


@row("RMSNormalization", "axis epsilon stash_type")
def _rms_norm(c: Call) -> Value:
    return c.op("rms_norm", c.value(0), c.maybe(1), axis=c.integer("axis", -1), epsilon=c.number("epsilon", 1e-5))


@row("InstanceNormalization", "epsilon")
def _instance_norm(c: Call) -> Value:
    return c.op("instance_norm", *c.values(), epsilon=c.number("epsilon", 1e-5))


@row("GroupNormalization", "epsilon num_groups stash_type")
def _group_norm(c: Call) -> Value:
    """Up to opset 20 scale and bias are those of groups, then those of channels."""
    x, scale, bias, groups = c.value(0), c.value(1), c.value(2), c.integer("num_groups")
    if c.opset < 21 and groups > 0:
        each: Extent = x.shape[1] // groups
        if not isinstance(each, int):
            raise c.unsupported("of a dynamic number of channels")
        scale, bias = (c.op("repeat", v, repeats=each, axis=0) for v in (scale, bias))
    return c.op("group_norm", x, scale, bias, groups=groups, epsilon=c.number("epsilon", 1e-5))


@row("MeanVarianceNormalization", "axes")
def _mean_variance_norm(c: Call) -> Value:
    axes = c.ints("axes")
    return c.op("mean_variance_norm", c.value(0), axis=(0, 2, 3) if axes is None else axes)


@row("LpNormalization", "axis p")
def _lp_norm(c: Call) -> Value:
    return c.op("lp_norm", c.value(0), axis=c.integer("axis", -1), p=c.integer("p", 2))


@row("LRN", "alpha beta bias size")
def _lrn(c: Call) -> Value:
    return c.op(
        "lrn",
        c.value(0),
        size=c.integer("size"),
        alpha=c.number("alpha", 1e-4),
        beta=c.number("beta", 0.75),
        bias=c.number("bias", 1.0),
    )
