"""Convolutions over any number of axes: a batch of tensors with channels first, weights with their kernel's axes last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tirlower.graph.core.dims import Extent, as_extent, extent_expr, same_extent
from tirlower.graph.core.extents import shown
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.compute import Formal, Reduction, accumulator, compute, sum_over
from tirlower.graph.ops.generic import Generic
from tirlower.graph.ops.registry import common_dtype, op
from tirlower.ir import Expr, Var, build
from tirlower.ir.constants import const
from tirlower.ir.dtype import INT64, DataType

__all__ = ["Window", "windows"]


@dataclass(frozen=True)
class Window:
    """How a window moves along an axis: its extent, its steps, what is added at both ends, the steps inside it."""

    extent: Extent
    size: Extent
    stride: int
    before: int
    after: int
    dilation: int

    def places(self, ceil_mode: bool = False) -> Extent:
        """How many places the window has: rounded up, a last one may reach beyond the end, if it starts within it."""
        reach = (self.size - 1) * self.dilation + 1
        room = self.extent + (self.before + self.after) - reach
        if isinstance(room, int):
            places = (room + (self.stride - 1 if ceil_mode else 0)) // self.stride + 1
            if places < 1:
                raise GraphError(
                    f"a window of {reach} elements does not fit {self.extent} padded by {self.before} and {self.after}",
                    help="a smaller kernel or dilation, or more padding",
                )
            if ceil_mode and isinstance(self.extent, int) and (places - 1) * self.stride >= self.extent + self.before:
                places -= 1
            return places
        up = build.floordiv(room + (self.stride - 1 if ceil_mode else 0), self.stride) + 1
        if not ceil_mode:
            return as_extent(up)
        most = build.floordiv(self.extent + (self.before - 1), self.stride) + 1
        return as_extent(build.min_(up, most))

    def at(self, place: Expr, offset: Expr) -> Expr:
        """The index of an element of the window, which may be outside."""
        return build.sub(place * self.stride + offset * self.dilation, const(self.before, INT64))

    def inside(self, at: Expr, ceil_mode: bool = False) -> list[Expr]:
        """The conditions under which an index is within the axis."""
        low = [build.ge(at, const(0, INT64))] if self.before else []
        return low + ([build.lt(at, extent_expr(self.extent))] if self.after > 0 or ceil_mode else [])


def windows(
    name: str,
    extents: Sequence[Extent],
    sizes: Sequence[Extent],
    strides: Sequence[int] | None,
    pads: Sequence[int] | None,
    dilations: Sequence[int] | None,
) -> list[Window]:
    """The windows along the axes; ``pads`` are all those before, then all those behind. Raises :class:`GraphError`."""
    rank = len(extents)
    steps = tuple(strides) if strides is not None else (1,) * rank
    apart = tuple(dilations) if dilations is not None else (1,) * rank
    added = tuple(pads) if pads is not None else (0,) * (2 * rank)
    for what, given, wanted in (
        ("sizes", sizes, rank),
        ("strides", steps, rank),
        ("dilations", apart, rank),
        ("pads", added, 2 * rank),
    ):
        if len(given) != wanted:
            raise GraphError(f"{name} over {rank} axes takes {wanted} {what}, got {tuple(given)}")
    for what, given in (("strides", steps), ("dilations", apart)):
        if min(given, default=1) < 1:
            raise GraphError(f"{name}: {what} are at least 1, got {given}")
    if min(added, default=0) < 0:
        raise GraphError(f"{name}: pads are at least 0, got {added}", help="take elements away with slice")
    return [
        Window(e, s, steps[n], added[n], added[n + rank], apart[n])
        for n, (e, s) in enumerate(zip(extents, sizes, strict=True))
    ]


def _grouped(name: str, x: Formal, w: Formal, groups: int, channels: Extent) -> tuple[Extent, Extent]:
    """The input channels and the first axis of the weights for each group."""
    if x.ndim < 3 or w.ndim != x.ndim:
        raise GraphError(
            f"{name} takes (batch, channels, …) and weights of as many axes, got {x.name} {shown(x.shape)} and {w.name} {shown(w.shape)}"
        )
    if groups < 1:
        raise GraphError(f"{name}: there is at least one group, got {groups}")
    for what, extent in ((f"the channels of {x.name}", x.shape[1]), (f"the first axis of {w.name}", w.shape[0])):
        if isinstance(extent, int) and extent % groups:
            raise GraphError(f"{name}: {what}, {extent}, are not divided by {groups} groups")
    per_group = x.shape[1] // groups
    same_extent(
        channels,
        as_extent(per_group),
        f"{name}: {x.name} has {x.shape[1]} channels, {groups} groups, and {w.name} takes",
        "a kernel has the shape (features, channels of a group, height, width)",
    )
    return as_extent(per_group), as_extent(w.shape[0] // groups)


@op("conv")
def conv(
    x: Formal,
    w: Formal,
    *,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    groups: int = 1,
) -> Generic:
    """Cross-correlation of x (batch, channels, …) with w (features, channels of a group, …); zeros are added around x."""
    if w.ndim < 2:
        raise GraphError(f"conv takes weights (features, channels, …), got {w.name} of shape {shown(w.shape)}")
    inner, features = _grouped("conv", x, w, groups, w.shape[1])
    over = windows("conv", x.shape[2:], w.shape[2:], strides, pads, dilations)
    dtype = common_dtype(x, w)
    wide = accumulator(dtype)

    def element(n: Var, f: Var, *place: Var) -> Reduction:
        group = const(0, INT64) if groups == 1 else build.floordiv(f, extent_expr(features))

        def term(c: Var, *offset: Var) -> Expr:
            at = [window.at(p, o) for window, p, o in zip(over, place, offset, strict=True)]
            inside = [test for window, index in zip(over, at, strict=True) for test in window.inside(index)]
            value = _guarded(inside, x[(n, group * extent_expr(inner) + c, *at)])
            return value.astype(wide) * w[(f, c, *offset)].astype(wide)

        return sum_over((inner, *w.shape[2:]), term)

    return compute((x.shape[0], w.shape[0], *(window.places() for window in over)), element, dtype)


def _guarded(inside: Sequence[Expr], value: Expr) -> Expr:
    if not inside:
        return value
    return build.if_then_else(build.all_of(*inside), value, const(0, value.dtype))


@op("conv_transpose")
def conv_transpose(
    x: Formal,
    w: Formal,
    *,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    groups: int = 1,
) -> Generic:
    """The transpose of a convolution: x (batch, channels, …), w (channels, features of a group, …)."""
    if w.ndim < 2:
        raise GraphError(
            f"conv_transpose takes weights (channels, features, …), got {w.name} of shape {shown(w.shape)}"
        )
    _grouped("conv_transpose", x, w, groups, as_extent(w.shape[0] // groups))
    inner, features = as_extent(x.shape[1] // groups), w.shape[1]
    over = windows("conv_transpose", x.shape[2:], w.shape[2:], strides, pads, dilations)
    more = tuple(output_padding) if output_padding is not None else (0,) * len(over)
    if len(more) != len(over):
        raise GraphError(f"conv_transpose over {len(over)} axes takes as many output_padding, got {more}")
    dtype = common_dtype(x, w)
    wide = accumulator(dtype)

    def length(window: Window, extra: int) -> Extent:
        reach = (window.size - 1) * window.dilation + 1
        return as_extent((window.extent - 1) * window.stride + reach + (extra - window.before - window.after))

    def element(n: Var, f: Var, *place: Var) -> Reduction:
        group = const(0, INT64) if groups == 1 else build.floordiv(f, extent_expr(features))
        feature = f if groups == 1 else build.floormod(f, extent_expr(features))

        def term(c: Var, *offset: Var) -> Expr:
            channel = group * extent_expr(inner) + c
            at, tests = [], []
            for window, p, o in zip(over, place, offset, strict=True):
                reached = build.sub(p + window.before, o * window.dilation)
                index = build.floordiv(reached, window.stride)
                tests += (
                    [] if window.stride == 1 else [build.eq(build.floormod(reached, window.stride), const(0, INT64))]
                )
                tests += [build.ge(index, const(0, INT64)), build.lt(index, extent_expr(window.extent))]
                at.append(index)
            return _guarded(tests, x[(n, channel, *at)]).astype(wide) * w[(channel, feature, *offset)].astype(wide)

        return sum_over((inner, *w.shape[2:]), term)

    shape = [length(window, extra) for window, extra in zip(over, more, strict=True)]
    total = features * groups
    return compute((x.shape[0], as_extent(total), *shape), element, DataType(dtype))
