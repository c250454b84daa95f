"""Operations that change nothing: moves that move nothing, and arithmetic with its neutral element."""

from __future__ import annotations

import math
from typing import Final

from tirlower.graph.core.nodes import Value
from tirlower.graph.passes.rules import RuleSet, Site

__all__ = ["NOOPS"]

NOOPS: Final = RuleSet()


@NOOPS(
    "identity",
    "positive",
    before='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((4,), "float32") = tg.identity(x)\n    return y',
    after='(x: tg.Tensor((4,), "float32")):\n    return x',
    refused='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((4,), "float32") = tg.negative(x)\n    return y',
)
def same_value(site: Site) -> Value | None:
    """The value itself."""
    return site.inputs[0]


@NOOPS(
    "reshape",
    "transpose",
    "squeeze",
    "expand_dims",
    "broadcast_to",
    "expand",
    "cast",
    "tile",
    "repeat",
    "slice",
    "clip",
    "concat",
    "split",
    before='(x: tg.Tensor(("B", 4), "float32")):\n    tg.dims(B=(0, None))\n'
    '    y: tg.Tensor(("B", 4), "float32") = tg.reshape(x, shape=(-1, 4))\n    return y',
    after='(x: tg.Tensor(("B", 4), "float32")):\n    tg.dims(B=(0, None))\n    return x',
    refused='(x: tg.Tensor((4, 4), "float32")):\n'
    '    y: tg.Tensor((4, 4), "float32") = tg.transpose(x, axes=(1, 0))\n    return y',
)
def moves_nothing(site: Site) -> Value | None:
    """A reshape, slice, cast and so on of the type that it is given, which leaves every element where it is."""
    x, op = site.inputs[0], site.op
    if not site.env.equal_types(x, site.result):
        return None
    if op.name == "transpose":
        axes = op.attrs.get("axes")
        order = list(axes) if isinstance(axes, tuple) else list(reversed(range(len(x.shape))))
        moved = [n for n, axis in enumerate(order) if axis % len(x.shape) != n]
        # Axes of extent 1 may stand anywhere among themselves.
        return x if all(site.env.equal(x.shape[n], 1) for n in moved) else None
    if op.name == "slice":
        steps = op.attrs.get("steps")
        return x if not isinstance(steps, tuple) or all(isinstance(s, int) and s > 0 for s in steps) else None
    if op.name in ("clip", "concat", "split"):
        return x if len(site.inputs) == 1 and len(op.results) == 1 else None
    return x


@NOOPS(
    "flip",
    "roll",
    "pad",
    before='(x: tg.Tensor((4, 1), "float32")):\n'
    '    y: tg.Tensor((4, 1), "float32") = tg.pad(x, pads=((0, 0), (0, 0)))\n'
    '    z: tg.Tensor((4, 1), "float32") = tg.flip(y, axis=1)\n    return z',
    after='(x: tg.Tensor((4, 1), "float32")):\n    return x',
    refused='(x: tg.Tensor((4, 1), "float32")):\n'
    '    y: tg.Tensor((4, 1), "float32") = tg.pad(x, pads=((1, -1), (0, 0)))\n    return y',
)
def turns_nothing(site: Site) -> Value | None:
    """A flip of axes of extent 1, a roll by nothing, padding by nothing."""
    x, attrs = site.inputs[0], site.op.attrs
    if site.op.name == "pad":
        pads = attrs["pads"]
        assert isinstance(pads, tuple)
        return x if all(amount == 0 for pair in pads for amount in pair) else None
    axis = attrs.get("axis")
    axes = range(len(x.shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if site.op.name == "roll":
        shift = attrs["shift"]
        shifts = shift if isinstance(shift, tuple) else (shift,) * len(axes)
        return x if all(s == 0 for s in shifts) else None
    return x if all(site.env.equal(x.shape[n], 1) for n in axes if isinstance(n, int)) else None


@NOOPS(
    "concat",
    before='(x: tg.Tensor((4,), "float32"), e: tg.Tensor((0,), "float32"), y: tg.Tensor((2,), "float32")):\n'
    '    z: tg.Tensor((6,), "float32") = tg.concat(x, e, y)\n    return z',
    after='(x: tg.Tensor((4,), "float32"), e: tg.Tensor((0,), "float32"), y: tg.Tensor((2,), "float32")):\n'
    '    z: tg.Tensor((6,), "float32") = tg.concat(x, y)\n    return z',
    refused='(x: tg.Tensor((4,), "float32"), e: tg.Tensor((0,), "float64")):\n'
    '    z: tg.Tensor((4,), "float64") = tg.concat(x, e)\n    return z',
)
def empty_parts(site: Site) -> Value | None:
    """Parts of extent 0 of a concatenation, unless one alone makes the dtype what it is."""
    axis = site.op.attrs["axis"]
    assert isinstance(axis, int)
    left = [x for x in site.inputs if x.shape[axis] != 0]
    if len(left) == len(site.inputs) or not left:
        return None
    return site.builder.op("concat", *left, axis=axis)


@NOOPS(
    "floor",
    "ceil",
    "trunc",
    "round",
    before='(x: tg.Tensor((4,), "int32")):\n    y: tg.Tensor((4,), "int32") = tg.floor(x)\n    return y',
    after='(x: tg.Tensor((4,), "int32")):\n    return x',
    refused='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((4,), "float32") = tg.floor(x)\n    return y',
)
def rounds_integers(site: Site) -> Value | None:
    """Rounding of integers."""
    return site.inputs[0] if site.inputs[0].dtype.is_integral else None


_NOT_NEGATIVE_ZERO = ("abs", "exp", "exp2", "square", "sigmoid")
"""Operations that never give -0.0."""


def _is_neutral(site: Site, number: float) -> bool:
    """Whether a number on the right leaves every value of the left side as it is."""
    name, x = site.op.name, site.inputs[0]
    if not x.dtype.is_float:
        whole = -1 if x.dtype.is_int else 2**x.dtype.bits - 1
        neutral: dict[str, object] = {
            "add": 0,
            "subtract": 0,
            "multiply": 1,
            "bitwise_or": 0,
            "bitwise_xor": 0,
            "bitwise_and": whole,
            "bitwise_left_shift": 0,
            "bitwise_right_shift": 0,
            "floor_divide": 1,
        }
        if x.dtype.is_bool:
            neutral = {
                "logical_or": 0,
                "logical_and": 1,
                "logical_xor": 0,
                "bitwise_or": 0,
                "bitwise_and": 1,
                "bitwise_xor": 0,
            }
            neutral |= {"add": 0, "multiply": 1}  # of bools: or, and
        return name in neutral and int(number) == neutral[name]
    zero = number == 0
    negative = math.copysign(1, number) < 0
    if name == "add":  # -0.0 + 0.0 is 0.0
        return zero and (negative or site.made_by(x, *_NOT_NEGATIVE_ZERO) is not None)
    if name == "subtract":  # -0.0 - -0.0 is 0.0
        return zero and (not negative or site.made_by(x, *_NOT_NEGATIVE_ZERO) is not None)
    return name in ("multiply", "divide") and number == 1


@NOOPS(
    "add",
    "subtract",
    "multiply",
    "divide",
    "floor_divide",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_left_shift",
    "bitwise_right_shift",
    "logical_and",
    "logical_or",
    "logical_xor",
    before='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((4,), "float32") = tg.multiply(x, 1.0)\n'
    '    z: tg.Tensor((4,), "float32") = tg.abs(y)\n    w: tg.Tensor((4,), "float32") = tg.add(z, 0.0)\n    return w',
    after='(x: tg.Tensor((4,), "float32")):\n    z: tg.Tensor((4,), "float32") = tg.abs(x)\n    return z',
    refused='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((4,), "float32") = tg.add(x, 0.0)\n    return y',
)
def neutral_element(site: Site) -> Value | None:
    """x * 1, x - 0, and for integers x + 0; on floats x + 0.0 only where x is never -0.0."""
    number = site.number(site.inputs[1])
    return site.inputs[0] if number is not None and math.isfinite(number) and _is_neutral(site, number) else None


@NOOPS(
    "maximum",
    "minimum",
    "logical_and",
    "logical_or",
    "bitwise_and",
    "bitwise_or",
    before='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((4,), "float32") = tg.maximum(x, x)\n    return y',
    after='(x: tg.Tensor((4,), "float32")):\n    return x',
    refused='(x: tg.Tensor((4,), "int32")):\n    y: tg.Tensor((4,), "bool") = tg.logical_and(x, x)\n    return y',
)
def with_itself(site: Site) -> Value | None:
    """The greater one of a value and itself, and the like."""
    return site.inputs[0] if site.inputs[0] is site.inputs[1] else None


@NOOPS(
    "where",
    before='(c: tg.Tensor((4,), "bool"), x: tg.Tensor((4,), "float32")):\n'
    '    y: tg.Tensor((4,), "float32") = tg.where(c, x, x)\n    return y',
    after='(c: tg.Tensor((4,), "bool"), x: tg.Tensor((4,), "float32")):\n    return x',
    refused='(c: tg.Tensor((4, 4), "bool"), x: tg.Tensor((4,), "float32")):\n'
    '    y: tg.Tensor((4, 4), "float32") = tg.where(c, x, x)\n    return y',
)
def either_way(site: Site) -> Value | None:
    """A choice between a value and itself, or by a condition that is the same everywhere."""
    condition, a, b = site.inputs
    if a is b:
        return a
    chosen = site.number(condition)
    return None if chosen is None else a if chosen else b


@NOOPS(
    "abs",
    "floor",
    "ceil",
    "trunc",
    "round",
    "relu",
    "sign",
    before='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((4,), "float32") = tg.floor(x)\n'
    '    z: tg.Tensor((4,), "float32") = tg.floor(y)\n    return z',
    after='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((4,), "float32") = tg.floor(x)\n    return y',
    refused='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((4,), "float32") = tg.abs(x)\n'
    '    z: tg.Tensor((4,), "float32") = tg.floor(y)\n    return z',
)
def done_already(site: Site) -> Value | None:
    """What was rounded, or made positive, a moment ago."""
    return site.inputs[0] if site.made_by(site.inputs[0], site.op.name) else None
