"""The functions between the layers of networks, element by element: of floats, computed in float32 at least."""

from __future__ import annotations

import math
from collections.abc import Callable

from tirlower.graph.core.dims import same_extent
from tirlower.graph.core.extents import shown
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.compute import Formal, accumulator, compute, greater, lesser
from tirlower.graph.ops.elementwise import floats
from tirlower.graph.ops.generic import Generic
from tirlower.graph.ops.registry import common_dtype, op
from tirlower.ir import Expr, build
from tirlower.ir.constants import const

__all__ = []


def _mapped(name: str, x: Formal, body: Callable[[Expr], Expr]) -> Generic:
    """A function of a float operand's elements, computed in float32 where they are narrower."""
    dtype = floats(name, x)
    return compute(x.shape, lambda *i: body(x[i].astype(accumulator(dtype))), dtype)


def _call(name: str, x: Expr) -> Expr:
    return build.call(f"tir.{name}", x)


def _number(value: float, x: Expr) -> Expr:
    return const(value, x.dtype)


def _softplus(x: Expr) -> Expr:
    return greater(x, _number(0, x)) + _call("log1p", _call("exp", -build.abs_(x)))


def _hard_sigmoid(x: Expr, alpha: float, beta: float) -> Expr:
    grown = x * _number(alpha, x) + _number(beta, x)
    return lesser(greater(grown, _number(0, x)), _number(1, x))


@op("relu")
def relu(x: Formal) -> Generic:
    """The value where it is positive, else 0; of any numbers."""
    return compute(x.shape, lambda *i: greater(x[i], const(0, x.dtype)))


@op("leaky_relu")
def leaky_relu(x: Formal, *, alpha: float = 0.01) -> Generic:
    """The value, multiplied by ``alpha`` where it is negative."""
    return _mapped("leaky_relu", x, lambda x: build.select(x < 0, x * _number(alpha, x), x))


@op("prelu")
def prelu(x: Formal, slope: Formal) -> Generic:
    """The value, multiplied by a slope (broadcast to it) where it is negative."""
    wrong = f"prelu: a slope of shape {shown(slope.shape)} is not broadcast to x of shape {shown(x.shape)}"
    if len(slope.shape) > len(x.shape):
        raise GraphError(wrong)
    for extent, own in zip(x.shape[len(x.shape) - len(slope.shape) :], slope.shape, strict=True):
        if not (isinstance(own, int) and own == 1):
            same_extent(extent, own, wrong)
    dtype = common_dtype(x, slope)

    def element(*i: Expr) -> Expr:
        value = x[i].astype(dtype)
        return build.select(value < 0, value * slope.at(*i).astype(dtype), value)

    return compute(x.shape, element)


@op("elu")
def elu(x: Formal, *, alpha: float = 1.0) -> Generic:
    """The value, alpha * (exp(x) - 1) where it is negative."""
    return _mapped("elu", x, lambda x: build.select(x < 0, _call("expm1", x) * _number(alpha, x), x))


@op("selu")
def selu(x: Formal, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Generic:
    """gamma * x, gamma * alpha * (exp(x) - 1) where it is negative."""

    def element(x: Expr) -> Expr:
        return build.select(x < 0, _call("expm1", x) * _number(alpha, x), x) * _number(gamma, x)

    return _mapped("selu", x, element)


@op("celu")
def celu(x: Formal, *, alpha: float = 1.0) -> Generic:
    """The value, alpha * (exp(x / alpha) - 1) where it is negative."""

    def element(x: Expr) -> Expr:
        return build.select(x < 0, _call("expm1", x / _number(alpha, x)) * _number(alpha, x), x)

    return _mapped("celu", x, element)


@op("softplus")
def softplus(x: Formal) -> Generic:
    """log(1 + exp(x))."""
    return _mapped("softplus", x, _softplus)


@op("softsign")
def softsign(x: Formal) -> Generic:
    """x / (1 + |x|)."""
    return _mapped("softsign", x, lambda x: x / (_number(1, x) + build.abs_(x)))


@op("hard_sigmoid")
def hard_sigmoid(x: Formal, *, alpha: float = 0.2, beta: float = 0.5) -> Generic:
    """alpha * x + beta, at least 0 and at most 1."""
    return _mapped("hard_sigmoid", x, lambda x: _hard_sigmoid(x, alpha, beta))


@op("hard_swish")
def hard_swish(x: Formal) -> Generic:
    """x * hard_sigmoid(x) with alpha = 1/6, beta = 1/2."""
    return _mapped("hard_swish", x, lambda x: x * _hard_sigmoid(x, 1 / 6, 0.5))


@op("swish")
def swish(x: Formal, *, alpha: float = 1.0) -> Generic:
    """x * sigmoid(alpha * x)."""
    return _mapped("swish", x, lambda x: x * _call("sigmoid", x * _number(alpha, x)))


@op("silu")
def silu(x: Formal) -> Generic:
    """x * sigmoid(x)."""
    return _mapped("silu", x, lambda x: x * _call("sigmoid", x))


@op("mish")
def mish(x: Formal) -> Generic:
    """x * tanh(softplus(x))."""
    return _mapped("mish", x, lambda x: x * _call("tanh", _softplus(x)))


@op("gelu")
def gelu(x: Formal, *, approximate: str = "none") -> Generic:
    """x times the probability that a normal variable is below it: exact by erf, or ``approximate="tanh"``."""
    if approximate not in ("none", "tanh"):
        raise GraphError(f"gelu is approximated by 'none' or 'tanh', got {approximate!r}")

    def element(x: Expr) -> Expr:
        if approximate == "none":
            inner = _call("erf", x * _number(math.sqrt(0.5), x))
        else:
            cubic = x * x * x * _number(0.044715, x)
            inner = _call("tanh", (x + cubic) * _number(math.sqrt(2 / math.pi), x))
        return x * _number(0.5, x) * (_number(1, x) + inner)

    return _mapped("gelu", x, element)


@op("shrink")
def shrink(x: Formal, *, lambd: float = 0.5, bias: float = 0.0) -> Generic:
    """The value brought nearer to 0 by ``bias`` where it is further than ``lambd`` from it, else 0."""

    def element(x: Expr) -> Expr:
        inner = build.select(x > _number(lambd, x), x - _number(bias, x), _number(0, x))
        return build.select(x < _number(-lambd, x), x + _number(bias, x), inner)

    return _mapped("shrink", x, element)


@op("thresholded_relu")
def thresholded_relu(x: Formal, *, alpha: float = 1.0) -> Generic:
    """The value where it is above ``alpha``, else 0."""
    return _mapped("thresholded_relu", x, lambda x: build.select(x > _number(alpha, x), x, _number(0, x)))
