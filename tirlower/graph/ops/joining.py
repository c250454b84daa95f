"""Parts and wholes: slices, concatenation, padding, and tensors made of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tirlower.graph.core.dims import Dim, Extent, as_extent, as_shape, extent_expr, proves, same_extent
from tirlower.graph.core.nodes import Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.compute import Formal, compute
from tirlower.graph.ops.generic import Generic
from tirlower.graph.ops.reductions import axis_of
from tirlower.graph.ops.registry import common_dtype, macro, op
from tirlower.ir import Expr, Var, build
from tirlower.ir.constants import const
from tirlower.ir.dtype import INT64, DataType

if TYPE_CHECKING:
    from tirlower.graph.ops.builder import GraphBuilder

__all__ = ["plus", "sliced"]

_FAR = 2**31 - 1
"""Bounds of slices from here on stand for the end, as files of ONNX write it."""


def plus(a: Extent, b: Extent) -> Extent:
    """The sum of two extents."""
    found = a + b
    return found if isinstance(found, int) else as_extent(found)


# Slices


def _bound(given: object, extent: Extent, step: int, least: int) -> Extent | None:
    """A bound of a slice, counted from the front and clamped to the places from ``least``; None where it is the far end."""
    if given is None:
        return None
    if isinstance(given, int) and isinstance(extent, int):
        return min(max(given + extent if given < 0 else given, least), extent + (least if step < 0 else 0))
    size = extent_expr(extent)
    top, bottom = size + (least if step < 0 else 0), const(least, INT64)
    if isinstance(given, int) and abs(given) >= _FAR:
        return _number(top if given > 0 else bottom)
    where = const(given, INT64) if isinstance(given, int) else given.as_expr() if isinstance(given, Dim) else given
    if not isinstance(where, Expr):
        raise GraphError(f"a bound of a slice is an integer, an expression of dims or None, got {given!r}")
    if proves(where < 0):
        where = where + size
    elif not proves(where >= 0):
        where = build.select(where < 0, where + size, where)
    return _number(_greater(_lesser(where, top), bottom))


def _lesser(a: Expr, b: Expr) -> Expr:
    return a if proves(a <= b) else b if proves(b <= a) else build.min_(a, b)


def _greater(a: Expr, b: Expr) -> Expr:
    return a if proves(a >= b) else b if proves(b >= a) else build.max_(a, b)


def _number(value: Expr) -> Extent:
    found = getattr(value, "value", None)
    return found if isinstance(found, int) else value


def sliced(extent: Extent, start: object, end: object, step: int) -> tuple[Extent, Extent]:
    """The first place of a slice of an axis of an extent, and how many it has: as Python's slices have it."""
    least = 0 if step > 0 else -1
    first = _bound(start, extent, step, least)
    last = _bound(end, extent, step, least)
    if first is None:
        first = 0 if step > 0 else _place(extent, -1)
    if last is None:
        last = extent if step > 0 else -1
    far, near = (last, first) if step > 0 else (first, last)
    if isinstance(far, int) and isinstance(near, int):
        return first, max(0, -(-(far - near) // abs(step)))
    length = (
        build.sub(far, near) if abs(step) == 1 else build.floordiv(build.sub(far, near) + (abs(step) - 1), abs(step))
    )
    return first, _greater(length, const(0, INT64))


def _place(a: Extent, b: int) -> Extent:
    """An extent and a number, which may be negative: a place, not an extent."""
    return a + b


@op("slice")
def slice_(
    x: Formal,
    *,
    starts: Sequence[object],
    ends: Sequence[object],
    axes: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
) -> Generic:
    """The elements from ``starts`` to before ``ends`` in steps along axes, as Python's slices have it (None: to the end)."""
    along = tuple(range(len(starts))) if axes is None else tuple(axes)
    by = (1,) * len(starts) if steps is None else tuple(steps)
    if not len(starts) == len(ends) == len(along) == len(by):
        raise GraphError(f"slice: {len(starts)} starts, {len(ends)} ends, {len(along)} axes, {len(by)} steps")
    first: dict[int, tuple[Extent, int]] = {}
    shape = list(x.shape)
    for axis, start, end, step in zip(along, starts, ends, by, strict=True):
        n = axis_of(axis, x.ndim, f"slice: {x.name}")
        if n in first:
            raise GraphError(f"slice: axis {n} of {x.name} is named twice")
        if step == 0:
            raise GraphError(f"slice: the step along axis {n} of {x.name} is 0")
        begin, length = sliced(x.shape[n], start, end, step)
        first[n] = (begin, step)
        shape[n] = length

    def place(n: int, var: Var) -> Expr:
        begin, step = first.get(n, (0, 1))
        return var * step + begin

    return compute(tuple(shape), lambda *i: x[tuple(place(n, v) for n, v in enumerate(i))])


@macro("split")
def split(b: GraphBuilder, x: Value, *, parts: int | Sequence[object], axis: int = 0) -> tuple[Value, ...]:
    """Parts along an axis: so many equal ones, or of these extents."""
    n = axis_of(axis, len(x.shape), f"split: {x.name}")
    extent = x.shape[n]
    if isinstance(parts, int):
        if parts < 1:
            raise GraphError(f"split: into at least one part, got {parts}")
        if isinstance(extent, int) and extent % parts:
            raise GraphError(
                f"split: axis {n} of {x.name} has the extent {extent}, which is not divided by {parts}",
                help="parts of several lengths are given as a tuple of them, or taken as slices",
            )
        one = extent // parts
        if not isinstance(extent, int):
            same_extent(as_extent(one * parts), extent, f"split: axis {n} of {x.name} is not divided by {parts}")
        sizes: list[Extent] = [one] * parts
    else:
        sizes = [as_extent(size) for size in parts]
    made: list[Value] = []
    start: Extent = 0
    for size in sizes:
        stop = plus(start, size)
        made.append(b.op("slice", x, starts=(start,), ends=(stop,), axes=(n,)))
        start = stop
    same_extent(start, extent, f"split: the parts {tuple(map(str, sizes))} do not add up to axis {n} of {x.name}")
    return tuple(made)


# Concatenation


def _chosen(var: Expr, bounds: Sequence[Extent], arms: Sequence[Expr]) -> Expr:
    """The arm of the part in which an index stands; ``bounds`` are the ends of the parts. A tree: its depth is logarithmic."""
    if len(arms) == 1:
        return arms[0]
    half = len(arms) // 2
    low = _chosen(var, bounds[:half], arms[:half])
    high = _chosen(var, bounds[half:], arms[half:])
    return build.if_then_else(build.lt(var, extent_expr(bounds[half - 1])), low, high)


@op("concat")
def concat(*xs: Formal, axis: int = 0) -> Generic:
    """The operands one behind the other along an axis."""
    if not xs:
        raise GraphError("concat of no operands")
    first = xs[0]
    n = axis_of(axis, first.ndim, f"concat: {first.name}")
    shape = list(first.shape)
    ends: list[Extent] = []
    total: Extent = 0
    for x in xs:
        if x.ndim != first.ndim:
            raise GraphError(f"concat: {first.name} has {first.ndim} axes, {x.name} has {x.ndim}")
        for m in range(x.ndim):
            if m != n:
                shape[m] = same_extent(
                    shape[m],
                    x.shape[m],
                    f"concat: axis {m} of {first.name} and {x.name} differ",
                    "what is joined differs along one axis: is axis= that one?",
                )
        total = plus(total, x.shape[n])
        ends.append(total)
    shape[n] = total
    dtype = common_dtype(*xs)
    used = [m for m, x in enumerate(xs) if x.shape[n] != 0] or [0]

    def element(*i: Var) -> Expr:
        arms = []
        for m in used:
            back: Extent = ends[m - 1] if m else 0
            at = tuple(build.sub(v, extent_expr(back)) if k == n else v for k, v in enumerate(i))
            arms.append(xs[m][at].astype(dtype))
        return _chosen(i[n], [ends[m] for m in used], arms)

    return compute(tuple(shape), element)


@op("stack")
def stack(*xs: Formal, axis: int = 0) -> Generic:
    """The operands along a new axis."""
    if not xs:
        raise GraphError("stack of no operands")
    first = xs[0]
    n = axis_of(axis, first.ndim + 1, "stack: the result")
    shape = list(first.shape)
    for x in xs:
        if x.ndim != first.ndim:
            raise GraphError(f"stack: {first.name} has {first.ndim} axes, {x.name} has {x.ndim}")
        for m in range(x.ndim):
            shape[m] = same_extent(shape[m], x.shape[m], f"stack: axis {m} of {first.name} and {x.name} differ")
    dtype = common_dtype(*xs)

    def element(*i: Var) -> Expr:
        at = (*i[:n], *i[n + 1 :])
        return _chosen(i[n], range(1, len(xs) + 1), [x[at].astype(dtype) for x in xs])

    return compute((*shape[:n], len(xs), *shape[n:]), element)


# Padding


@op("pad")
def pad(x: Formal, *, pads: Sequence[Sequence[object]], mode: str = "constant", value: float = 0) -> Generic:
    """More elements before and behind each axis, ``pads`` a pair for each: a number, the ``edge``, or it ``reflect``ed.

    A negative number takes elements away. ``wrap`` goes on from the other end.
    """
    if mode not in ("constant", "edge", "reflect", "wrap"):
        raise GraphError(f"pad has the modes constant, edge, reflect and wrap, got {mode!r}")
    if len(pads) != x.ndim:
        raise GraphError(f"pad: {x.name} has {x.ndim} axes, pads are given for {len(pads)}")
    amounts = [(_amount(low), _amount(high)) for low, high in pads]
    shape = tuple(
        as_extent(_padded(e, _number(low), _number(high))) for e, (low, high) in zip(x.shape, amounts, strict=True)
    )

    def place(n: int, at: Expr) -> Expr:
        size = extent_expr(x.shape[n])
        if mode == "edge":
            return build.min_(build.max_(at, const(0, INT64)), size - 1)
        if mode == "wrap":
            return at if x.shape[n] == 0 else build.floormod(at, size)
        if x.shape[n] == 1:
            return const(0, INT64)
        turn = (size - 1) * 2
        around = build.floormod(at, turn)
        return build.min_(around, turn - around)

    def element(*i: Var) -> Expr:
        at, inside = [], []
        for n, var in enumerate(i):
            low, high = amounts[n]
            here = build.sub(var, low)
            none = (_is_zero(low), _is_zero(high))
            if mode == "constant":
                inside += [] if none[0] else [build.ge(here, const(0, INT64))]
                inside += [] if none[1] else [build.lt(here, extent_expr(x.shape[n]))]
            elif not all(none):
                here = place(n, here)
            at.append(here)
        if not inside:
            return x[tuple(at)]
        return build.if_then_else(build.all_of(*inside), x[tuple(at)], const(value, x.dtype))

    return compute(shape, element)


def _padded(extent: Extent, low: Extent, high: Extent) -> Extent:
    """The extent with both amounts; of numbers exactly, where int64 would begin anew."""
    if isinstance(extent, int) and isinstance(low, int) and isinstance(high, int):
        return extent + low + high
    return _number(build.add(build.add(extent_expr(extent), extent_expr(low)), extent_expr(high)))


def _amount(given: object) -> Expr:
    """By how much an axis grows at one end, which may be a negative number."""
    return const(given, INT64) if isinstance(given, int) else extent_expr(as_extent(given))


def _is_zero(amount: Expr) -> bool:
    return getattr(amount, "value", None) == 0


# Tensors of numbers


@op("full")
def full(*, shape: object, value: float, dtype: str = "float32") -> Generic:
    """One number in every element."""
    return compute(as_shape(shape), lambda *i: const(value, DataType(dtype)))


@op("arange")
def arange(*, stop: object, start: object = 0, step: float = 1, dtype: str = "int64") -> Generic:
    """The numbers from ``start`` to before ``stop`` in steps; integers may be expressions of dims."""
    kind = DataType(dtype)
    if step == 0:
        raise GraphError("arange: the step is 0")
    if isinstance(start, (int, float)) and isinstance(stop, (int, float)):
        length: Extent = max(0, math.ceil((stop - start) / step))
        first = const(start, kind)
    else:
        if not isinstance(step, int):
            raise GraphError(f"arange: the step of a range between dims is an integer, got {step}")
        low, high = extent_expr(as_extent(start)), extent_expr(as_extent(stop))
        far, near = (high, low) if step > 0 else (low, high)
        length = _greater(build.floordiv(far - near + (abs(step) - 1), abs(step)), const(0, INT64))
        first = low.astype(kind)
    return compute((length,), lambda i: i.astype(kind) * const(step, kind) + first)


@op("eye")
def eye(*, rows: object, columns: object = None, k: int = 0, dtype: str = "float32") -> Generic:
    """1 on the k-th diagonal of a matrix, 0 elsewhere."""
    shape = (as_extent(rows), as_extent(rows if columns is None else columns))
    kind = DataType(dtype)
    return compute(shape, lambda i, j: build.eq(j - i, const(k, INT64)).astype(kind))
