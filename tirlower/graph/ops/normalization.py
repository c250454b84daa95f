"""Values brought to a common scale: softmax, and the normalizations by mean and variance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tirlower.graph.core.dims import same_extent
from tirlower.graph.core.extents import shown
from tirlower.graph.core.nodes import Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.compute import Formal, Reduction, accumulator, compute, sum_over
from tirlower.graph.ops.elementwise import floats
from tirlower.graph.ops.generic import Generic
from tirlower.graph.ops.reductions import axes_of, axis_of
from tirlower.graph.ops.registry import macro, op
from tirlower.ir import Expr, Var, build
from tirlower.ir.constants import const
from tirlower.ir.dtype import INT64, DataType

if TYPE_CHECKING:
    from tirlower.graph.ops.builder import GraphBuilder

__all__ = []


def _float(name: str, x: Value) -> DataType:
    if not x.dtype.is_float:
        raise GraphError(f"{name} takes floats, got {x.name} of {x.dtype!s}", help="convert it with astype")
    return accumulator(x.dtype)


def _as(b: GraphBuilder, x: Value, dtype: DataType) -> Value:
    return x if x.dtype is dtype else b.op("cast", x, dtype=str(dtype))


@macro("softmax")
def softmax(b: GraphBuilder, x: Value, *, axis: int | Sequence[int] = -1) -> Value:
    """Exponentials divided by their sum along an axis."""
    axes = axes_of(axis, len(x.shape), f"softmax: {x.name}")
    wide = _as(b, x, _float("softmax", x))
    grown = b.op("exp", b.op("subtract", wide, b.op("max", wide, axis=axes, keepdims=True)))
    return _as(b, b.op("divide", grown, b.op("sum", grown, axis=axes, keepdims=True)), x.dtype)


@macro("log_softmax")
def log_softmax(b: GraphBuilder, x: Value, *, axis: int | Sequence[int] = -1) -> Value:
    """The logarithm of softmax."""
    axes = axes_of(axis, len(x.shape), f"log_softmax: {x.name}")
    wide = _as(b, x, _float("log_softmax", x))
    below = b.op("subtract", wide, b.op("max", wide, axis=axes, keepdims=True))
    total = b.op("sum", b.op("exp", below), axis=axes, keepdims=True)
    return _as(b, b.op("subtract", below, b.op("log", total)), x.dtype)


@macro("hardmax")
def hardmax(b: GraphBuilder, x: Value, *, axis: int = -1) -> Value:
    """1 at the first greatest element along an axis, 0 elsewhere."""
    n = axis_of(axis, len(x.shape), f"hardmax: {x.name}")
    if x.shape[n] == 0:  # nothing has no greatest element, and needs none
        return b.op("identity", x)
    return b.op("one_hot", b.op("argmax", x, axis=n), depth=x.shape[n], axis=n, dtype=str(x.dtype))


@op("batch_norm")
def batch_norm(x: Formal, scale: Formal, bias: Formal, mean: Formal, var: Formal, *, epsilon: float = 1e-5) -> Generic:
    """(x - mean) / sqrt(var + epsilon) * scale + bias with a number for each channel (axis 1), as at inference."""
    dtype = floats("batch_norm", x, scale, bias, mean, var)
    if x.ndim < 2:
        raise GraphError(f"batch_norm takes (batch, channels, …), got {x.name} of shape {shown(x.shape)}")
    for each in (scale, bias, mean, var):
        if each.ndim != 1:
            raise GraphError(f"batch_norm: {each.name} has one axis, got {shown(each.shape)}")
        same_extent(x.shape[1], each.shape[0], f"batch_norm: the channels of {x.name} and {each.name} differ")
    wide = accumulator(dtype)

    def element(*i: Var) -> Expr:
        c = i[1]
        deviation = build.call("tir.sqrt", var[c].astype(wide) + const(epsilon, wide))
        away = x[i].astype(wide) - mean[c].astype(wide)
        return away / deviation * scale[c].astype(wide) + bias[c].astype(wide)

    return compute(x.shape, element, x.dtype)


def _standard(b: GraphBuilder, x: Value, axes: tuple[int, ...], epsilon: float) -> Value:
    """Less the mean, divided by the deviation; in float32 at least."""
    away = b.op("subtract", x, b.op("mean", x, axis=axes, keepdims=True))
    spread = b.op("mean", b.op("square", away), axis=axes, keepdims=True)
    return b.op("divide", away, b.op("sqrt", b.op("add", spread, epsilon)))


def _scaled(b: GraphBuilder, x: Value, scale: Value | None, bias: Value | None, dtype: DataType) -> Value:
    found = x if scale is None else b.op("multiply", x, _as(b, scale, x.dtype))
    return _as(b, found if bias is None else b.op("add", found, _as(b, bias, x.dtype)), dtype)


def _from(name: str, x: Value, axis: int) -> tuple[int, ...]:
    return tuple(range(axis_of(axis, len(x.shape), f"{name}: {x.name}"), len(x.shape)))


@macro("layer_norm")
def layer_norm(
    b: GraphBuilder,
    x: Value,
    scale: Value | None = None,
    bias: Value | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
) -> Value:
    """Less the mean, divided by the deviation over the axes from ``axis`` on; then scaled and shifted."""
    wide = _as(b, x, _float("layer_norm", x))
    return _scaled(b, _standard(b, wide, _from("layer_norm", x, axis), epsilon), scale, bias, x.dtype)


@macro("rms_norm")
def rms_norm(b: GraphBuilder, x: Value, scale: Value | None = None, *, axis: int = -1, epsilon: float = 1e-5) -> Value:
    """Divided by the root of the mean square over the axes from ``axis`` on; then scaled."""
    wide = _as(b, x, _float("rms_norm", x))
    mean = b.op("mean", b.op("square", wide), axis=_from("rms_norm", x, axis), keepdims=True)
    return _scaled(b, b.op("divide", wide, b.op("sqrt", b.op("add", mean, epsilon))), scale, None, x.dtype)


def _channelwise(b: GraphBuilder, x: Value, numbers: Value | None) -> Value | None:
    """A number for each channel, with an axis of extent 1 for each axis behind the channels."""
    if numbers is None or len(x.shape) == 2:
        return numbers
    return b.op("expand_dims", numbers, axis=tuple(range(1, len(x.shape) - 1)))


@macro("group_norm")
def group_norm(
    b: GraphBuilder,
    x: Value,
    scale: Value | None = None,
    bias: Value | None = None,
    *,
    groups: int,
    epsilon: float = 1e-5,
) -> Value:
    """Less the mean, divided by the deviation of each group of channels; then scaled and shifted by channel."""
    if len(x.shape) < 2:
        raise GraphError(f"group_norm takes (batch, channels, …), got {x.name} of shape {shown(x.shape)}")
    channels = x.shape[1]
    if groups < 1 or (isinstance(channels, int) and channels % groups):
        raise GraphError(f"group_norm: the {channels} channels of {x.name} are not divided by {groups} groups")
    wide = _as(b, x, _float("group_norm", x))
    apart = b.op("reshape", wide, shape=(x.shape[0], groups, channels // groups, *x.shape[2:]))
    found = _standard(b, apart, tuple(range(2, len(x.shape) + 1)), epsilon)
    together = b.op("reshape", found, shape=x.shape)
    return _scaled(b, together, _channelwise(b, x, scale), _channelwise(b, x, bias), x.dtype)


@macro("instance_norm")
def instance_norm(
    b: GraphBuilder, x: Value, scale: Value | None = None, bias: Value | None = None, *, epsilon: float = 1e-5
) -> Value:
    """Less the mean, divided by the deviation of each channel of each image; then scaled and shifted by channel."""
    wide = _as(b, x, _float("instance_norm", x))
    if len(x.shape) < 3:
        raise GraphError(f"instance_norm takes (batch, channels, …), got {x.name} of shape {shown(x.shape)}")
    found = _standard(b, wide, tuple(range(2, len(x.shape))), epsilon)
    return _scaled(b, found, _channelwise(b, x, scale), _channelwise(b, x, bias), x.dtype)


@macro("lp_norm")
def lp_norm(b: GraphBuilder, x: Value, *, axis: int = -1, p: int = 2) -> Value:
    """Divided by the 1-norm or the 2-norm along an axis; 0 where that is 0."""
    if p not in (1, 2):
        raise GraphError(f"lp_norm divides by the 1-norm or the 2-norm, got p={p}")
    wide = _as(b, x, _float("lp_norm", x))
    size = b.op("l1" if p == 1 else "l2", wide, axis=axis, keepdims=True)
    found = b.op("where", b.op("equal", size, 0.0), 0.0, b.op("divide", wide, size))
    return _as(b, found, x.dtype)


@op("channel_sum_square")
def channel_sum_square(x: Formal, *, size: int) -> Generic:
    """The sum of squares over so many channels (axis 1) around each one; in float32 at least."""
    wide = accumulator(floats("channel_sum_square", x))
    if x.ndim < 2:
        raise GraphError(f"channel_sum_square takes (batch, channels, …), got {x.name} of shape {shown(x.shape)}")

    def element(n: Var, c: Var, *i: Var) -> Reduction:
        def term(k: Var) -> Expr:
            at = c + k - (size - 1) // 2
            value = x[(n, at, *i)].astype(wide)
            inside = build.all_of(build.ge(at, const(0, INT64)), build.lt(at, x.buffer.shape[1]))
            return build.if_then_else(inside, value * value, const(0, wide))

        return sum_over(size, term)

    return compute(x.shape, element, wide)


@macro("lrn")
def lrn(b: GraphBuilder, x: Value, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Value:
    """x / (bias + alpha / size * sum of squares over ``size`` channels) ** beta."""
    total = b.op("channel_sum_square", x, size=size)
    base = b.op("add", b.op("multiply", total, alpha / size), bias)
    wide = _as(b, x, total.dtype)
    return _as(b, b.op("divide", wide, b.op("power", base, beta)), x.dtype)


@macro("mean_variance_norm")
def mean_variance_norm(b: GraphBuilder, x: Value, *, axis: Sequence[int] = (0, 2, 3), epsilon: float = 1e-9) -> Value:
    """Less the mean, divided by the deviation over axes."""
    axes = axes_of(axis, len(x.shape), f"mean_variance_norm: {x.name}")
    wide = _as(b, x, _float("mean_variance_norm", x))
    away = b.op("subtract", wide, b.op("mean", wide, axis=axes, keepdims=True))
    spread = b.op("sqrt", b.op("mean", b.op("square", away), axis=axes, keepdims=True))
    return _as(b, b.op("divide", away, b.op("add", spread, epsilon)), x.dtype)
