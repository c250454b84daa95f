"""Algebra on elements that keeps every bit, and a little that does not."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.dims import DimEnv
from tirlower.graph.core.nodes import Const, Value
from tirlower.graph.core.numerics import Numerics
from tirlower.graph.ops.interpret import run_nodes
from tirlower.graph.passes.cse import commutes
from tirlower.graph.passes.rules import RuleSet, Site
from tirlower.ir.dtype import DataType

__all__ = ["ALGEBRA"]

ALGEBRA: Final = RuleSet()


@ALGEBRA(
    "add",
    "multiply",
    "equal",
    "not_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "maximum",
    "minimum",
    before='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((4,), "float32") = tg.add(2.0, x)\n    return y',
    after='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((4,), "float32") = tg.add(x, 2.0)\n    return y',
    refused='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((4,), "float32") = tg.maximum(0.0, x)\n    return y',
)
def constant_last(site: Site) -> Value | None:
    """A constant operand stands last where the order makes no difference to any bit: the form of the other rules."""
    a, b = site.inputs
    if not isinstance(a.node, Const) or isinstance(b.node, Const) or not commutes(site.op):
        return None
    return site.builder.op(site.op.name, b, a)


@ALGEBRA(
    "negative",
    "logical_not",
    "bitwise_invert",
    before='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((4,), "float32") = tg.negative(x)\n'
    '    z: tg.Tensor((4,), "float32") = tg.negative(y)\n    return z',
    after='(x: tg.Tensor((4,), "float32")):\n    return x',
    refused='(x: tg.Tensor((4,), "int32")):\n    y: tg.Tensor((4,), "bool") = tg.logical_not(x)\n'
    '    z: tg.Tensor((4,), "bool") = tg.logical_not(y)\n    return z',
)
def twice_turned(site: Site) -> Value | None:
    """The negative of a negative, and the like."""
    inner = site.made_by(site.inputs[0], site.op.name)
    return None if inner is None else inner.inputs[0]


@ALGEBRA(
    "add",
    "subtract",
    before='(x: tg.Tensor((4,), "float32"), y: tg.Tensor((4,), "float32")):\n'
    '    n: tg.Tensor((4,), "float32") = tg.negative(y)\n    z: tg.Tensor((4,), "float32") = tg.add(x, n)\n    return z',
    after='(x: tg.Tensor((4,), "float32"), y: tg.Tensor((4,), "float32")):\n'
    '    z: tg.Tensor((4,), "float32") = tg.subtract(x, y)\n    return z',
    refused='(x: tg.Tensor((4,), "int32"), y: tg.Tensor((4,), "uint8")):\n'
    '    n: tg.Tensor((4,), "uint8") = tg.negative(y)\n    z: tg.Tensor((4,), "int32") = tg.add(x, n)\n    return z',
)
def plus_negative(site: Site) -> Value | None:
    """x + (-y) is x - y, and x - (-y) is x + y, where the negative was taken in the dtype of the sum."""
    a, b = site.inputs
    if site.op.name == "add" and site.made_by(b, "negative") is None:
        a, b = b, a
    inner = site.made_by(b, "negative")
    if inner is None or inner.inputs[0].dtype != site.result.dtype:
        return None
    return site.builder.op("subtract" if site.op.name == "add" else "add", a, inner.inputs[0])


@ALGEBRA(
    "add",
    "multiply",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    before='(x: tg.Tensor((4,), "int32")):\n    y: tg.Tensor((4,), "int32") = tg.add(x, 3)\n'
    '    z: tg.Tensor((4,), "int32") = tg.add(y, 4)\n    return z',
    after='(x: tg.Tensor((4,), "int32")):\n    z: tg.Tensor((4,), "int32") = tg.add(x, 7)\n    return z',
    refused='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((4,), "float32") = tg.add(x, 3.0)\n'
    '    z: tg.Tensor((4,), "float32") = tg.add(y, 4.0)\n    return z',
)
def two_constants(site: Site) -> Value | None:
    """(x + 3) + 4 is x + 7 for integers of one dtype, which wrap; sums of floats round in between."""
    inner = site.made_by(site.inputs[0], site.op.name)
    if inner is None or not site.result.dtype.is_integral or not commutes(site.op):
        return None
    x, first, second = inner.inputs[0], inner.inputs[1], site.inputs[1]
    data = [site.constant(first), site.constant(second)]
    if isinstance(x.node, Const) or any(v.dtype != site.result.dtype for v in (x, first, second)):
        return None
    if any(d is None or d.is_abstract or d.shape for d in data):
        return None
    both = site.builder.op(site.op.name, first, second)
    values = {v: v.node.data.numpy() for v in (first, second) if isinstance(v.node, Const)}
    assert both.node is not None
    run_nodes([both.node], values, DimEnv(), {}, False, keep=(both,))
    return site.builder.op(site.op.name, x, site.builder.const(ConstantData(np.asarray(values[both]))))


@ALGEBRA(
    "cast",
    before='(x: tg.Tensor((4,), "int8")):\n    y: tg.Tensor((4,), "int32") = tg.cast(x, dtype="int32")\n'
    '    z: tg.Tensor((4,), "int16") = tg.cast(y, dtype="int16")\n    return z',
    after='(x: tg.Tensor((4,), "int8")):\n    z: tg.Tensor((4,), "int16") = tg.cast(x, dtype="int16")\n    return z',
    refused='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((4,), "float16") = tg.cast(x, dtype="float16")\n'
    '    z: tg.Tensor((4,), "float32") = tg.cast(y, dtype="float32")\n    return z',
)
def cast_of_cast(site: Site) -> Value | None:
    """A conversion by way of a dtype that holds every value, unless a number would wrap that does not on the way."""
    inner = site.made_by(site.inputs[0], "cast")
    if inner is None:
        return None
    source, between, target = inner.inputs[0].dtype, inner.results[0].dtype, site.result.dtype
    if not _holds(between, source):
        return None
    # Integers wrap and floats do not: by way of a float, only what the target holds.
    if target.is_integral and not target.is_bool and between.is_float and not _holds(target, source):
        return None
    return site.builder.op("cast", inner.inputs[0], dtype=site.op.attrs["dtype"])


_DIGITS: Final = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}


def _holds(wide: DataType, narrow: DataType) -> bool:
    """Whether a dtype has every value of another."""
    if narrow.is_bool or wide == narrow:
        return not wide.is_bool or narrow.is_bool
    if wide.is_bool:
        return False
    if narrow.is_float:
        pair = (str(narrow), str(wide))
        return wide.is_float and pair in {
            ("float16", "float32"),
            ("bfloat16", "float32"),
            ("float16", "float64"),
            ("bfloat16", "float64"),
            ("float32", "float64"),
        }
    if wide.is_float:
        return narrow.bits - narrow.is_int <= _DIGITS.get(str(wide), 0)
    if wide.is_uint:
        return narrow.is_uint and narrow.bits <= wide.bits
    return narrow.bits <= wide.bits - narrow.is_uint


@ALGEBRA(
    "where",
    before='(c: tg.Tensor((4,), "bool"), x: tg.Tensor((4,), "float32"), y: tg.Tensor((4,), "float32")):\n'
    '    n: tg.Tensor((4,), "bool") = tg.logical_not(c)\n    z: tg.Tensor((4,), "float32") = tg.where(n, x, y)\n    return z',
    after='(c: tg.Tensor((4,), "bool"), x: tg.Tensor((4,), "float32"), y: tg.Tensor((4,), "float32")):\n'
    '    z: tg.Tensor((4,), "float32") = tg.where(c, y, x)\n    return z',
    refused='(c: tg.Tensor((4,), "int8"), x: tg.Tensor((4,), "float32"), y: tg.Tensor((4,), "float32")):\n'
    '    n: tg.Tensor((4,), "int8") = tg.bitwise_invert(c)\n    z: tg.Tensor((4,), "float32") = tg.where(n, x, y)\n    return z',
)
def choice_turned(site: Site) -> Value | None:
    """A choice by the contrary of a condition."""
    inner = site.made_by(site.inputs[0], "logical_not")
    if inner is None or not inner.inputs[0].dtype.is_bool:
        return None
    return site.builder.op("where", inner.inputs[0], site.inputs[2], site.inputs[1])


@ALGEBRA(
    "divide",
    before='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((4,), "float32") = tg.divide(x, 4.0)\n    return y',
    after='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((4,), "float32") = tg.multiply(x, 0.25)\n    return y',
    refused='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((4,), "float32") = tg.divide(x, 3.0)\n    return y',
)
def divided_by_power_of_two(site: Site) -> Value | None:
    """x / 4 is x * 0.25, to the bit: the reciprocal of a power of two is a number of the dtype."""
    number, kind = site.number(site.inputs[1]), site.inputs[1].dtype
    if number is None or kind != site.result.dtype or kind != site.inputs[0].dtype or not math.isfinite(number):
        return None
    mantissa, exponent = math.frexp(number)
    if abs(mantissa) != 0.5 or abs(exponent) > {"float16": 12, "float32": 120, "bfloat16": 120}.get(str(kind), 1000):
        return None
    reciprocal = ConstantData.splat(1.0 / number, tuple(_static(site.inputs[1])), kind)
    return site.builder.op("multiply", site.inputs[0], site.builder.const(reciprocal))


def _static(value: Value) -> list[int]:
    return [extent for extent in value.shape if isinstance(extent, int)]


@ALGEBRA(
    "multiply",
    "bitwise_and",
    "logical_and",
    before='(x: tg.Tensor((4,), "int32")):\n    y: tg.Tensor((4,), "int32") = tg.multiply(x, 0)\n    return y',
    after='(x: tg.Tensor((4,), "int32")):\n    y = tg.constant("int32", (4,), 0)\n    return y',
    refused='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((4,), "float32") = tg.multiply(x, 0.0)\n    return y',
)
def times_zero(site: Site) -> Value | None:
    """An integer times 0; NaN and infinities times 0 are NaN."""
    result = site.result
    number = site.number(site.inputs[1])
    if number != 0 or number is None or site.inputs[0].dtype.is_float or not result.dtype.is_integral:
        return None
    return _filled(site, 0)


@ALGEBRA(
    "subtract",
    "bitwise_xor",
    before='(x: tg.Tensor((4,), "int32")):\n    y: tg.Tensor((4,), "int32") = tg.subtract(x, x)\n    return y',
    after='(x: tg.Tensor((4,), "int32")):\n    y = tg.constant("int32", (4,), 0)\n    return y',
    refused='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((4,), "float32") = tg.subtract(x, x)\n    return y',
)
def less_itself(site: Site) -> Value | None:
    """An integer less itself; a NaN less itself is NaN."""
    a, b = site.inputs
    return _filled(site, 0) if a is b and a.dtype.is_integral else None


def _filled(site: Site, number: int) -> Value | None:
    """A constant of the result's type; None where an extent is no number."""
    shape = _static(site.result)
    if len(shape) != len(site.result.shape):
        return None
    return site.builder.const(
        ConstantData.splat(bool(number) if site.result.dtype.is_bool else number, tuple(shape), site.result.dtype)
    )


@ALGEBRA(
    "power",
    before='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((4,), "float32") = tg.power(x, 2.0)\n    return y',
    after='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((4,), "float32") = tg.multiply(x, x)\n    return y',
    refused='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((4,), "float32") = tg.power(x, 3.0)\n    return y',
    numerics=Numerics.DEFAULT,
)
def squared(site: Site) -> Value | None:
    """The second power is a product, which rounds once."""
    x = site.inputs[0]
    if site.number(site.inputs[1]) != 2 or x.dtype != site.result.dtype:
        return None
    return site.builder.op("multiply", x, x)


@ALGEBRA(
    "divide",
    before='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((4,), "float32") = tg.divide(x, 10.0)\n    return y',
    after='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((4,), "float32") = tg.multiply(x, 0.10000000149011612)\n'
    "    return y",
    refused='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((4,), "float32") = tg.divide(x, 0.0)\n    return y',
    numerics=Numerics.FAST,
)
def by_reciprocal(site: Site) -> Value | None:
    """x / 10 is x * 0.1, nearly."""
    number, kind = site.number(site.inputs[1]), site.inputs[1].dtype
    if number is None or kind != site.result.dtype or kind != site.inputs[0].dtype:
        return None
    if not 1e-4 < abs(number) < 1e4:
        return None
    reciprocal = ConstantData.splat(1.0 / number, tuple(_static(site.inputs[1])), kind)
    return site.builder.op("multiply", site.inputs[0], site.builder.const(reciprocal))
