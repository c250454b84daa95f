"""Indexing of tensors (``x[0, ..., ::-1, None, indices]``) by operations: slice, squeeze, gather and expand_dims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tirlower.graph.core.dims import Dim, DimEnv, Extent, as_extent, extent_expr
from tirlower.graph.core.nodes import Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.ir import Expr, build
from tirlower.ir.dtype import Array

__all__ = ["subscript"]

_Bound = int | Expr | None


@dataclass
class _Axis:
    """What is taken of an axis: a slice of it, one element (``single``), or those at ``indices``."""

    start: _Bound = 0
    end: _Bound = None
    step: int = 1
    single: bool = False
    indices: Value | Array | None = None

    @property
    def is_whole(self) -> bool:
        return self.start == 0 and self.end is None and self.step == 1


def subscript(builder: GraphBuilder, x: Value, index: object) -> Value:
    """The elements that ``x[index]`` has in NumPy. Raises :class:`GraphError` for an index that is not supported."""
    parts = _parts(x, index if isinstance(index, tuple) else (index,))
    _no_mixture(x, parts)
    axes: list[_Axis] = []
    for part in parts:
        if part is not None:
            axes.append(_axis(builder.env, x, len(axes), part))
    made = _sliced(builder, x, axes)
    single = tuple(n for n, a in enumerate(axes) if a.single)
    if single:
        made = builder.op("squeeze", made, axis=single)
    made, rank = _gathered(builder, x, made, axes)
    # Where the new axes stand in the result: behind what the parts before them give.
    new: list[int] = []
    at = taken = 0
    for part in parts:
        if part is None:
            new.append(at)
            at += 1
            continue
        axis = axes[taken]
        taken += 1
        if axis.indices is not None:
            at, rank = at + rank, 0
        elif not axis.single:
            at += 1
    return builder.op("expand_dims", made, axis=tuple(new)) if new else made


def _parts(x: Value, index: Sequence[object]) -> list[object]:
    """The index for each axis, None for a new one: the ellipsis and axes that are not mentioned are whole slices."""
    for part in index:
        kind = part.dtype if isinstance(part, (Value, np.ndarray, np.generic)) else None
        known = isinstance(part, np.ndarray) and part.ndim == 1
        if isinstance(part, bool) or (kind == "bool" and not known):
            raise GraphError(
                f"{_named(x)} is indexed by a mask: how many elements that gives is known only when the graph runs",
                help="keep the shape: tg.where(mask, x, other); a sum of chosen elements: np.sum(tg.where(mask, x, 0))",
            )
    used = sum(part is not None and part is not ... for part in index)
    rank = len(x.shape)
    if used > rank:
        raise GraphError(
            f"{_named(x)} has {rank} axes, and {used} indices are given",
            help="an axis more is made by None in the index, or by reshape",
        )
    holes = [n for n, part in enumerate(index) if part is ...]
    if len(holes) > 1:
        raise GraphError(f"an index of {_named(x)} has {len(holes)} ellipses", help="one says which axes are meant")
    at = holes[0] if holes else len(index)
    return [*index[:at], *[slice(None)] * (rank - used), *index[at + 1 :]]


def _no_mixture(x: Value, parts: Sequence[object]) -> None:
    """NumPy moves the axes of index arrays to the front where a slice stands between them, or between one and a number."""
    several = any(_is_array(part) for part in parts)
    inner = "".join("s" if part is None or isinstance(part, slice) else "i" for part in parts).strip("s")
    if several and "s" in inner:
        raise GraphError(
            f"an index of {_named(x)} has an array of indices apart from other indices",
            help="index twice: x[0][:, indices] for x[0, :, indices]",
        )


def _is_array(part: object) -> bool:
    return isinstance(part, (list, Value)) or (isinstance(part, np.ndarray) and part.ndim > 0)


def _named(x: Value) -> str:
    return f"{x.name}: {x.type}"


def _chosen(env: DimEnv, mask: Array, extent: Extent, what: str) -> Array:
    """The places where an array of bools is true. Raises :class:`GraphError` where it is not one bool an element."""
    wrong = f"the mask {what} has not one bool for each element"
    if mask.ndim != 1:
        raise GraphError(f"{wrong}: its shape is {mask.shape}", help="index with an array of bools of one axis")
    env.same(mask.shape[0], extent, wrong)
    return np.flatnonzero(mask)


def _axis(env: DimEnv, x: Value, number: int, part: object) -> _Axis:
    extent = x.shape[number]
    what = f"of axis {number} of {_named(x)}"
    if isinstance(part, slice):
        return _slice(extent, part, what)
    if isinstance(part, Value):
        if not part.dtype.is_integral:
            raise GraphError(f"the index {what} is a tensor of {part.dtype!s}", help="convert it: i.astype('int64')")
        return _Axis(indices=part)
    if isinstance(part, list) or (isinstance(part, np.ndarray) and part.ndim):
        array = np.asarray(part)
        return _Axis(
            indices=_indices(_chosen(env, array, extent, what) if array.dtype == np.bool_ else array, extent, what)
        )
    at = _bound(part, f"the index {what}")
    place = (
        env.simplify(extent_expr(extent) + at) if isinstance(at, int) and at < 0 and isinstance(extent, Expr) else at
    )
    if isinstance(extent, int) and isinstance(place, int):
        if not -extent <= place < extent:
            raise GraphError(
                f"the index {at} {what} is outside: it has {extent} elements",
                help=f"indices run from {-extent} to {extent - 1}" if extent else "there is nothing to index",
            )
        place %= extent
    elif env.equal(_inside(place, extent), place) is False:  # where it is not known, the slice's one element is checked
        raise GraphError(f"the index {at} {what} is outside")
    end = place + 1
    return _Axis(place, end if isinstance(end, int) else env.simplify(end), single=True)


def _inside(place: Extent, extent: Extent) -> Expr:
    """The index next to a place that the axis has."""
    return build.max_(build.min_(extent_expr(place), extent_expr(extent) - 1), 0)


def _indices(given: Array, extent: Extent, what: str) -> Array:
    """An array of indices, counted from the front where the extent is a number."""
    if given.dtype.kind not in "iu" and given.size:
        raise GraphError(f"the index {what} is an array of {given.dtype}", help="indices are integers")
    places = given.astype(np.int64)
    if not isinstance(extent, int):
        return places
    outside = places[(places < -extent) | (places >= extent)]
    if outside.size:
        raise GraphError(f"the index {int(outside.flat[0])} {what} is outside: it has {extent} elements")
    return np.where(places < 0, places + extent, places)


def _bound(given: object, what: str) -> int | Expr:
    """A number or an expression of dims that stands in an index."""
    if isinstance(given, Value):
        raise GraphError(
            f"{what} is a tensor, whose values are known only when the graph runs",
            help="take elements with np.take(x, tensor, axis); mask what is not wanted with tg.where",
        )
    if isinstance(given, Dim):
        return given.var
    if isinstance(given, Expr):
        return as_extent(given)
    index = getattr(given, "__index__", None)
    if index is None:
        raise GraphError(f"{what} is an integer, a slice, None, ... or an array of integers, got {given!r}")
    return int(index())


def _slice(extent: Extent, part: slice[object, object, object], what: str) -> _Axis:
    step = 1 if part.step is None else _bound(part.step, f"the step {what}")
    if not isinstance(step, int) or step == 0:
        raise GraphError(f"the step {what} is a number other than 0, got {part.step!r}")
    low = None if part.start is None else _bound(part.start, f"the start {what}")
    high = None if part.stop is None else _bound(part.stop, f"the end {what}")
    if isinstance(extent, int) and not isinstance(low, Expr) and not isinstance(high, Expr):
        # Slices of the same elements are written alike.
        whole = range(extent)[slice(low, high, step)]
        if not whole:
            return _Axis(0, 0)
        step = step if len(whole) > 1 else 1
        end = whole[-1] + (1 if step > 0 else -1)
        return _Axis(whole[0], None if end in (extent, -1) else end, step)
    return _Axis(0 if low is None and step > 0 else low, high, step)


def _sliced(builder: GraphBuilder, x: Value, axes: Sequence[_Axis]) -> Value:
    some = [n for n, a in enumerate(axes) if not a.is_whole]
    if not some:
        return x
    starts, ends = tuple(axes[n].start for n in some), tuple(axes[n].end for n in some)
    steps = tuple(axes[n].step for n in some)
    return builder.op("slice", x, starts=starts, ends=ends, axes=tuple(some), steps=steps)


def _gathered(builder: GraphBuilder, x: Value, made: Value, axes: Sequence[_Axis]) -> tuple[Value, int]:
    """Behind slices and single indices: elements by arrays of indices, and how many axes these have."""
    chosen = [n for n, a in enumerate(axes) if a.indices is not None]
    if not chosen:
        return made, 0
    arrays = [a.indices for a in axes if a.indices is not None]
    at = sum(not a.single for a in axes[: chosen[0]])
    if len(arrays) == 1:
        (one,) = arrays
        return builder.op("gather", made, one, axis=at), len(one.shape)
    sizes = [x.shape[n] for n in chosen]
    known = [a for a in arrays if isinstance(a, np.ndarray)]
    numbers = [s for s in sizes if isinstance(s, int)]
    if len(known) != len(arrays) or len(numbers) != len(sizes):
        raise GraphError(
            f"an index of {_named(x)} has {len(chosen)} arrays of indices",
            help="join the axes and compute one: np.take(x.reshape(-1), i * x.shape[1] + j)",
        )
    flat = np.asarray(np.ravel_multi_index(tuple(np.broadcast_arrays(*known)), tuple(numbers)))
    joined = int(np.prod(numbers))
    merged = builder.op("reshape", made, shape=(*made.shape[:at], joined, *made.shape[at + len(sizes) :]))
    return builder.op("gather", merged, flat, axis=at), flat.ndim
