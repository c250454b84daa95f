"""Operators element by element."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tirlower.graph.core.nodes import Value
from tirlower.graph.frontend.onnx_file import dtype_of
from tirlower.graph.frontend.onnx_ops.items import Item
from tirlower.graph.frontend.onnx_ops.table import Call, Made, row

__all__ = []

_UNARY = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "BitwiseNot": "bitwise_invert",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "HardSwish": "hard_swish",
    "IsNaN": "isnan",
    "Log": "log",
    "Mish": "mish",
    "Neg": "negative",
    "Not": "logical_not",
    "Reciprocal": "reciprocal",
    "Relu": "relu",
    "Round": "round",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
}
_BINARY = {
    "Add": "add",
    "And": "logical_and",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "Equal": "equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Mul": "multiply",
    "Or": "logical_or",
    "Sub": "subtract",
    "Xor": "logical_xor",
}
# The function, and its attributes with the defaults of ONNX.
_WITH_NUMBERS: dict[str, tuple[str, dict[str, float]]] = {
    "Celu": ("celu", {"alpha": 1.0}),
    "Elu": ("elu", {"alpha": 1.0}),
    "HardSigmoid": ("hard_sigmoid", {"alpha": 0.2, "beta": 0.5}),
    "LeakyRelu": ("leaky_relu", {"alpha": 0.01}),
    "Selu": ("selu", {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}),
    "Swish": ("swish", {"alpha": 1.0}),
    "ThresholdedRelu": ("thresholded_relu", {"alpha": 1.0}),
}


def _unary(name: str) -> Callable[[Call], Value]:
    return lambda c: c.op(name, c.value(0))


def _binary(name: str) -> Callable[[Call], Value]:
    return lambda c: c.op(name, c.value(0), c.value(1))


def _with_numbers(name: str, defaults: dict[str, float]) -> Callable[[Call], Value]:
    return lambda c: c.op(name, c.value(0), **{key: c.number(key, value) for key, value in defaults.items()})


for _onnx, _name in _UNARY.items():
    row(_onnx)(_unary(_name))
for _onnx, _name in _BINARY.items():
    row(_onnx)(_binary(_name))
for _onnx, (_name, _defaults) in _WITH_NUMBERS.items():
    row(_onnx, " ".join(_defaults))(_with_numbers(_name, _defaults))


@row("Identity")
def _identity(c: Call) -> Made:
    return c.item(0)


@row("Dropout", "ratio seed training_mode is_test")
def _dropout(c: Call) -> list[Made | None]:
    """As at inference: nothing is dropped."""
    if c.has(2) and bool(c.array(2, "the training mode").reshape(-1)[0]):
        raise c.unsupported("in training mode")
    if not c.wants(1):
        return [c.item(0)]
    dtype = "bool" if c.opset >= 10 else str(c.item(0).dtype)
    return [c.item(0), c.op("full", shape=c.shape(0), value=1, dtype=dtype)]


@row("Div")
def _div(c: Call) -> Value:
    """Integers are divided toward zero."""
    a, b = c.value(0), c.value(1)
    if a.dtype.is_float:
        return c.op("divide", a, b)
    if not a.dtype.is_uint:
        a = c.op("subtract", a, c.op("fmod", a, b))
    return c.op("floor_divide", a, b)


@row("Mod", "fmod")
def _mod(c: Call) -> Value:
    return c.op("fmod" if c.flag("fmod") else "remainder", c.value(0), c.value(1))


@row("Pow")
def _pow(c: Call) -> Value:
    """Of the base's dtype, whatever that of the exponent is."""
    base, exponent = c.value(0), c.value(1)
    if base.dtype is not exponent.dtype and not exponent.dtype.is_float:
        exponent = c.cast(exponent, base.dtype)
    return c.cast(c.op("power", base, exponent), base.dtype)


@row("BitShift", "direction")
def _shift(c: Call) -> Value:
    direction = c.text("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise c.unsupported(f"in the direction {direction!r}")
    return c.op(f"bitwise_{direction.lower()}_shift", c.value(0), c.value(1))


def _folded(c: Call, name: str, values: Sequence[Value]) -> Value:
    found = values[0]
    for each in values[1:]:
        found = c.op(name, found, each)
    return found


@row("Max")
def _max(c: Call) -> Value:
    return _folded(c, "maximum", c.values())


@row("Min")
def _min(c: Call) -> Value:
    return _folded(c, "minimum", c.values())


@row("Sum")
def _sum(c: Call) -> Value:
    return _folded(c, "add", c.values())


@row("Mean")
def _mean(c: Call) -> Value:
    values = c.values()
    return c.op("divide", _folded(c, "add", values), float(len(values)))


@row("Clip", "min max")
def _clip(c: Call) -> Value:
    x = c.value(0)
    if c.opset >= 11:
        return c.op("clip", x, c.maybe(1), c.maybe(2))
    bounds = [np.array(c.number(name), x.dtype.numpy) if c.given(name) else None for name in ("min", "max")]
    return c.op("clip", x, *bounds)


@row("PRelu")
def _prelu(c: Call) -> Value:
    return c.op("prelu", c.value(0), c.value(1))


@row("Gelu", "approximate")
def _gelu(c: Call) -> Value:
    return c.op("gelu", c.value(0), approximate=c.text("approximate", "none"))


@row("Shrink", "lambd bias")
def _shrink(c: Call) -> Value:
    x = c.value(0)
    wide = x if x.dtype.is_float else c.cast(x, "float64")
    return c.cast(c.op("shrink", wide, lambd=c.number("lambd", 0.5), bias=c.number("bias", 0.0)), x.dtype)


@row("IsInf", "detect_negative detect_positive")
def _isinf(c: Call) -> Value:
    negative, positive = c.flag("detect_negative", True), c.flag("detect_positive", True)
    return c.op("isinf", c.value(0), negative=negative, positive=positive)


@row("Where")
def _where(c: Call) -> Value:
    return c.op("where", c.value(0), c.value(1), c.value(2))


@row("Cast", "to saturate round_mode")
def _cast(c: Call) -> Value:
    return c.op("cast", c.value(0), dtype=dtype_of(c.integer("to"), "the result"))


@row("CastLike", "saturate round_mode")
def _cast_like(c: Call) -> Made:
    wanted = c.item(1).dtype
    item: Item = c.item(0)
    return item if item.dtype is wanted else c.op("cast", item.as_value(c.b), dtype=str(wanted))
