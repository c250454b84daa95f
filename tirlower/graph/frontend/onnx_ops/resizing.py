"""Resize and Upsample: along each axis a table says which places of the operand each place of the result reads, and
with which weights. The tables are constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tirlower.graph.core.dims import Extent
from tirlower.graph.core.nodes import Value
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.onnx_ops.table import Call, row
from tirlower.graph.ops.reductions import axis_of
from tirlower.ir.dtype import Array

__all__ = []


@dataclass(frozen=True)
class _Axis:
    """An axis: its extents, by how much it grows, and the part of it that is taken."""

    extent: int
    length: int
    scale: float
    start: float = 0.0
    end: float = 1.0


@dataclass(frozen=True)
class _How:
    """The attributes."""

    mode: str
    where: str
    rounding: str
    cubic: float
    antialias: bool
    exclude_outside: bool


_LONGEST = 2**20
"""Coordinates are computed while importing, a few numbers for each place of an axis."""


def _coordinates(axis: _Axis, where: str) -> Array:
    """Where in the operand the places of the result lie. Raises :class:`GraphError` for more than there is memory for."""
    if axis.length > _LONGEST:
        raise GraphError(
            f"an axis of {axis.extent} elements is resized to {axis.length}, at most {_LONGEST} are supported",
            help="resize by whole numbers to the nearest, or to less",
        )
    at = np.arange(axis.length, dtype=np.float64)
    half = (at + 0.5) / axis.scale - 0.5
    if where == "half_pixel":
        return half
    if where == "half_pixel_symmetric":
        whole = axis.length / (axis.extent * axis.scale)
        return axis.extent / 2 * (1 - whole) + half
    if where == "pytorch_half_pixel":
        return half if axis.length > 1 else np.zeros_like(at)
    if where == "align_corners":
        return at * ((axis.extent - 1) / (axis.length - 1)) if axis.length > 1 else np.zeros_like(at)
    if where == "asymmetric":
        return at / axis.scale
    if where == "tf_crop_and_resize":
        if axis.length > 1:
            return axis.start * (axis.extent - 1) + at * (
                (axis.end - axis.start) * (axis.extent - 1) / (axis.length - 1)
            )
        return np.full_like(at, 0.5 * (axis.start + axis.end) * (axis.extent - 1))
    raise GraphError(f"Resize has no coordinate_transformation_mode {where!r}")


_ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(np.subtract(x, 0.5)),
    "round_prefer_ceil": lambda x: np.floor(np.add(x, 0.5)),
    "floor": lambda x: np.floor(x),
    "ceil": lambda x: np.ceil(x),
}


def _linear(distance: float) -> float:
    return max(0.0, 1 - abs(distance))


def _cubic(distance: float, a: float) -> float:
    d = abs(distance)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def _weights(axis: _Axis, how: _How) -> tuple[Array, Array]:
    """The places that each place of the result reads, and the weights; both of as many columns as a place reads at most."""
    at = _coordinates(axis, how.where)
    last = axis.extent - 1
    if how.mode == "nearest":
        chosen = np.clip(_ROUNDINGS[how.rounding](at), 0, last).astype(np.int64)
        return chosen.reshape(-1, 1), np.ones((axis.length, 1))
    reach = 1 if how.mode == "linear" else 2
    stretch = max(1.0, 1 / axis.scale) if how.antialias else 1.0
    # Shrunk with antialias, a kernel reaches further than two or four places: as much further as the axis shrinks.
    span = 2 * math.ceil(reach * stretch)
    places = np.zeros((axis.length, span), np.int64)
    weights = np.zeros((axis.length, span))
    for n, x in enumerate(at.tolist()):
        first = math.floor(x) - span // 2 + 1
        for k in range(span):
            place = first + k
            distance = (place - x) / stretch
            weight = _linear(distance) if how.mode == "linear" else _cubic(distance, how.cubic)
            outside = not 0 <= place <= last
            places[n, k] = min(max(place, 0), last)
            weights[n, k] = 0.0 if outside and how.exclude_outside else weight
        total = weights[n].sum()
        if (how.antialias or how.exclude_outside) and total:
            weights[n] /= total
    return places, weights


def _resized(c: Call, x: Value, axes: Sequence[_Axis], how: _How, beyond: float) -> Value:
    found = x
    for n, axis in enumerate(axes):
        if axis.length == axis.extent and axis.scale == 1 and how.where != "tf_crop_and_resize":
            continue
        places, weights = _weights(axis, how)
        if how.mode == "nearest":
            found = c.op("gather", found, places.reshape(-1), axis=n)
        else:
            found = c.op("resample", found, places, weights.astype(_wide(x)), axis=n)
    if how.where == "tf_crop_and_resize":
        for n, axis in enumerate(axes):
            at = _coordinates(axis, how.where)
            inside = np.logical_and(np.greater_equal(at, 0), np.less_equal(at, axis.extent - 1))
            if not inside.all():
                kept = inside.reshape([-1 if m == n else 1 for m in range(len(axes))])
                found = c.op("where", kept, found, np.array(beyond, x.dtype.numpy))
    return found


def _wide(x: Value) -> str:
    return "float64" if str(x.dtype) == "float64" else "float32"


def _extents(c: Call, x: Value) -> list[int]:
    found = [e for e in x.shape if isinstance(e, int)]
    if len(found) != len(x.shape):
        raise c.unsupported(
            f"of dynamic extents {tuple(map(str, x.shape))}, unless by whole numbers to the nearest",
            'bind the dims to numbers: dims={"height": 224}',
        )
    return found


def _repeated(c: Call, x: Value, scales: Sequence[float], how: _How) -> Value | None:
    """Grown by whole numbers to the nearest each element is repeated, however many there are."""
    if how.mode != "nearest" or any(s < 1 or s != int(s) for s in scales):
        return None
    centred = how.where == "half_pixel" and how.rounding.startswith("round")
    if not centred and not (how.where == "asymmetric" and how.rounding == "floor"):
        return None
    found = x
    for n, scale in enumerate(scales):
        if scale != 1:
            found = c.op("repeat", found, repeats=int(scale), axis=n)
    return found


def _scaled(
    c: Call, x: Value, scales: Sequence[float], how: _How, roi: Sequence[float] = (), beyond: float = 0
) -> Value:
    if len(scales) != len(x.shape) or any(s <= 0 for s in scales):
        raise GraphError(f"{c.node.op} of {len(x.shape)} axes takes as many positive scales, got {tuple(scales)}")
    repeated = _repeated(c, x, scales, how)
    if repeated is not None:
        return repeated
    if not all(isinstance(e, int) for e in x.shape):
        return _dynamic(c, x, scales, how)
    rank = len(scales)
    region = roi or [0.0] * rank + [1.0] * rank
    axes: list[_Axis] = []
    for n, (extent, scale) in enumerate(zip(_extents(c, x), scales, strict=True)):
        part = region[n + rank] - region[n] if how.where == "tf_crop_and_resize" else 1.0
        axes.append(_Axis(extent, math.floor(extent * part * scale), scale, region[n], region[n + rank]))
    return _resized(c, x, axes, how, beyond)


def _dynamic(c: Call, x: Value, scales: Sequence[float], how: _How) -> Value:
    """The same of dynamic extents: coordinates are computed when the graph is called."""
    if how.antialias or how.where == "tf_crop_and_resize":
        _extents(c, x)
    shape: list[Extent] = []
    for extent, scale in zip(x.shape, scales, strict=True):
        ratio = Fraction(scale).limit_denominator(1024)
        if abs(float(ratio) - scale) > 1e-6 * scale:
            raise c.unsupported(f"of the dynamic extent {extent} by {scale}")
        shape.append(extent * ratio.numerator // ratio.denominator)
    return c.op(
        "resize",
        x,
        shape=tuple(shape),
        scales=tuple(scales),
        mode=how.mode,
        coordinates=how.where,
        rounding=how.rounding,
        cubic=how.cubic,
        exclude_outside=how.exclude_outside,
    )


@row(
    "Resize",
    "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value "
    "keep_aspect_ratio_policy mode nearest_mode",
)
def _resize(c: Call) -> Value:
    x = c.value(0)
    rank = len(x.shape)
    how = _How(
        c.text("mode", "nearest"),
        c.text("coordinate_transformation_mode", "asymmetric" if c.opset < 11 else "half_pixel"),
        c.text("nearest_mode", "floor" if c.opset < 11 else "round_prefer_floor"),
        c.number("cubic_coeff_a", -0.75),
        c.flag("antialias"),
        c.flag("exclude_outside"),
    )
    if how.mode not in ("nearest", "linear", "cubic") or how.rounding not in _ROUNDINGS:
        raise c.unsupported(f"in mode {how.mode!r} with nearest_mode {how.rounding!r}")
    if c.opset < 11:
        return _scaled(c, x, _floats(c, 1, "the scales"), how)
    axes = [axis_of(n, rank, "Resize") for n in c.ints("axes") or range(rank)]
    scales = _floats(c, 2, "the scales") if c.has(2) and c.shape(2) != (0,) else None
    roi: list[float] = []
    if how.where == "tf_crop_and_resize":
        given = _floats(c, 1, "the region")
        roi = [0.0] * rank + [1.0] * rank
        for n, axis in enumerate(axes):
            roi[axis], roi[axis + rank] = given[n], given[n + len(axes)]
    beyond = c.number("extrapolation_value", 0.0)
    if scales is not None:
        whole = [1.0] * rank
        for axis, scale in zip(axes, scales, strict=True):
            whole[axis] = scale
        return _scaled(c, x, whole, how, roi, beyond)
    extents = _extents(c, x)
    lengths = list(extents)
    for axis, size in zip(axes, c.numbers(3, "the sizes"), strict=True):
        lengths[axis] = size
    grown = {axis: lengths[axis] / extents[axis] for axis in axes if extents[axis]}
    policy = c.text("keep_aspect_ratio_policy", "stretch")
    if policy in ("not_larger", "not_smaller"):
        one = (min if policy == "not_larger" else max)(grown.values())
        for axis in axes:
            lengths[axis], grown[axis] = math.floor(one * extents[axis] + 0.5), one
    elif policy != "stretch":
        raise c.unsupported(f"with keep_aspect_ratio_policy {policy!r}")
    region = roi or [0.0] * rank + [1.0] * rank
    moved = [
        _Axis(extent, lengths[n], grown.get(n, 1.0), region[n], region[n + rank]) for n, extent in enumerate(extents)
    ]
    return _resized(c, x, moved, how, beyond)


def _floats(c: Call, n: int, what: str) -> list[float]:
    return [e for e in c.array(n, what).astype(np.float64).reshape(-1).tolist() if isinstance(e, float)]


@row("Upsample", "mode scales")
def _upsample(c: Call) -> Value:
    scales = list(c.floats("scales") or ()) if c.opset < 9 else _floats(c, 1, "the scales")
    mode = c.text("mode", "nearest")
    if mode not in ("nearest", "linear", "bilinear"):
        raise c.unsupported(f"in mode {mode!r}")
    how = _How("nearest" if mode == "nearest" else "linear", "asymmetric", "floor", -0.75, False, False)
    return _scaled(c, c.value(0), scales, how)
