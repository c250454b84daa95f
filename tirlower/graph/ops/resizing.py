"""Images of another size: where an element of the result stands in the operand, and which neighbours it is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tirlower.graph.core.dims import Extent, as_shape, extent_expr
from tirlower.graph.core.extents import shown
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.compute import Formal, accumulator, compute
from tirlower.graph.ops.generic import Generic
from tirlower.graph.ops.indexing import integers
from tirlower.graph.ops.reductions import axis_of
from tirlower.graph.ops.registry import op
from tirlower.ir import Expr, Let, Var, build
from tirlower.ir.constants import const
from tirlower.ir.dtype import FLOAT64, INT64, DataType

__all__ = []

_MODES = ("nearest", "linear", "cubic")


def _number(value: float) -> Expr:
    return const(float(value), FLOAT64)


def _float(extent: Extent) -> Expr:
    return extent_expr(extent).astype(FLOAT64)


def _half_pixel(i: Expr, scale: Expr) -> Expr:
    return (i + _number(0.5)) / scale - _number(0.5)


def _aligned(i: Expr, scale: Expr, have: Expr, want: Expr) -> Expr:
    steps = build.max_(want - _number(1), _number(1))  # one element stands at 0
    return i * (have - _number(1)) / steps


def _symmetric(i: Expr, scale: Expr, have: Expr, want: Expr) -> Expr:
    return have / _number(2) * (_number(1) - want / (scale * have)) + _half_pixel(i, scale)


_COORDINATES: dict[str, Callable[[Expr, Expr, Expr, Expr], Expr]] = {
    "half_pixel": lambda i, scale, have, want: _half_pixel(i, scale),
    "pytorch_half_pixel": lambda i, scale, have, want: build.select(
        want > _number(1), _half_pixel(i, scale), _number(0)
    ),
    "half_pixel_symmetric": _symmetric,
    "asymmetric": lambda i, scale, have, want: i / scale,
    "align_corners": _aligned,
    "tf_half_pixel_for_nn": lambda i, scale, have, want: (i + _number(0.5)) / scale,
}
"""From an index of the result, the scale and both extents the place in the operand."""


def _call(name: str, x: Expr) -> Expr:
    return build.call(f"tir.{name}", x)


_ROUNDING: dict[str, Callable[[Expr], Expr]] = {
    "round_prefer_floor": lambda x: _call("ceil", x - _number(0.5)),
    "round_prefer_ceil": lambda x: _call("floor", x + _number(0.5)),
    "floor": lambda x: _call("floor", x),
    "ceil": lambda x: _call("ceil", x),
}


def _cubic(f: Expr, a: float) -> list[Expr]:
    """The weights of the neighbours at -1, 0, 1, 2 for a place between 0 and 1."""

    def near(t: Expr) -> Expr:
        return (_number(a + 2) * t - _number(a + 3)) * t * t + _number(1)

    def far(t: Expr) -> Expr:
        return ((_number(a) * t - _number(5 * a)) * t + _number(8 * a)) * t - _number(4 * a)

    one = _number(1)
    return [far(f + one), near(f), near(one - f), far(_number(2) - f)]


def _neighbours(mode: str, rounding: str, a: float, exclude: bool, at: Expr, extent: Extent) -> list[tuple[Expr, Expr]]:
    """The indices of the elements around a place, and their weights."""
    top = extent_expr(extent) - 1
    zero = const(0, INT64)

    def clamped(index: Expr) -> Expr:
        return build.min_(build.max_(index, zero), top)

    if mode == "nearest":
        return [(clamped(_ROUNDING[rounding](at).astype(INT64)), _number(1))]
    below = _call("floor", at)
    first, part = below.astype(INT64), at - below
    if mode == "linear":
        return [(clamped(first), _number(1) - part), (clamped(first + 1), part)]
    weights = _cubic(part, a)
    places = [first + (k - 1) for k in range(4)]
    if exclude:
        weights = [
            build.select(build.all_of(build.ge(p, zero), build.le(p, top)), w, _number(0))
            for p, w in zip(places, weights, strict=True)
        ]
        total = weights[0] + weights[1] + weights[2] + weights[3]
        weights = [w / total for w in weights]
    return [(clamped(p), w) for p, w in zip(places, weights, strict=True)]


@op("resize")
def resize(
    x: Formal,
    *,
    shape: Sequence[object],
    scales: Sequence[float] | None = None,
    mode: str = "nearest",
    coordinates: str = "half_pixel",
    rounding: str = "round_prefer_floor",
    cubic: float = -0.75,
    exclude_outside: bool = False,
) -> Generic:
    """The operand with other extents, elements taken from the ``nearest`` place or weighed by ``linear`` or ``cubic`` distance.

    ``scales`` are the ratios of extents where they are not those of the shapes; ``coordinates``, ``rounding``, ``cubic`` and
    ``exclude_outside`` are those of ONNX's Resize.
    """
    for what, given, known in (
        ("modes", mode, _MODES),
        ("coordinates", coordinates, tuple(_COORDINATES)),
        ("roundings", rounding, tuple(_ROUNDING)),
    ):
        if given not in known:
            raise GraphError(f"resize has the {what} {', '.join(known)}, got {given!r}")
    target = as_shape(tuple(shape))
    if len(target) != x.ndim or (scales is not None and len(scales) != x.ndim):
        raise GraphError(f"resize: {x.name} of shape {shown(x.shape)} takes {x.ndim} extents and scales")
    ratios = [None] * x.ndim if scales is None else [float(s) for s in scales]
    moved = [
        n
        for n, (have, want, ratio) in enumerate(zip(x.shape, target, ratios, strict=True))
        if not (have is want or (isinstance(have, int) and have == want)) or ratio not in (None, 1.0)
    ]
    wide = x.dtype if mode == "nearest" else accumulator(x.dtype if x.dtype.is_float else DataType("float32"))

    def element(*i: Var) -> Expr:
        places: dict[int, tuple[Var, Expr]] = {}
        for n in moved:
            have, want, ratio = x.shape[n], target[n], ratios[n]
            scale = _number(ratio) if ratio is not None else _float(want) / _float(have)
            at = _COORDINATES[coordinates](i[n].astype(FLOAT64), scale, _float(have), _float(want))
            places[n] = Var(f"at{n}", FLOAT64), at
        around = {
            n: _neighbours(mode, rounding, cubic, exclude_outside, var, x.shape[n]) for n, (var, _) in places.items()
        }

        def value(indices: list[Expr], left: list[int]) -> Expr:
            if not left:
                return x[tuple(indices)].astype(wide)
            n, found = left[0], None
            for index, weight in around[n]:
                part = value([*indices[:n], index, *indices[n + 1 :]], left[1:])
                if mode != "nearest":
                    part = part * weight.astype(wide)
                found = part if found is None else found + part
            assert found is not None
            return found

        made = value(list(i), moved)
        for var, at in places.values():
            made = Let(var, at, made)
        return made

    return compute(target, element, x.dtype)


@op("reverse_sequence")
def reverse_sequence(x: Formal, lengths: Formal, *, time_axis: int = 0, batch_axis: int = 1) -> Generic:
    """The first elements along the time axis from last to first, as many as the length of each member of the batch says."""
    integers("reverse_sequence", lengths)
    time, batch = (axis_of(n, x.ndim, f"reverse_sequence: {x.name}") for n in (time_axis, batch_axis))
    if time == batch or lengths.ndim != 1:
        raise GraphError(f"reverse_sequence takes two axes and a vector of lengths, got {shown(lengths.shape)}")

    def element(*i: Var) -> Expr:
        length = lengths[i[batch]].astype(INT64)
        at = build.select(i[time] < length, length - 1 - i[time], i[time])
        return x[(*i[:time], at, *i[time + 1 :])]

    return compute(x.shape, element)
