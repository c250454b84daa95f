"""Elements moved: each is one load of the operand at other indices."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.graph.core.dims import Extent, Shape, as_extent, as_shape, extent_expr, same_extent
from tirlower.graph.core.extents import shown
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.compute import Formal, broadcast, compute
from tirlower.graph.ops.generic import Generic
from tirlower.graph.ops.reductions import Axes, axes_of, axis_of
from tirlower.graph.ops.registry import op
from tirlower.ir import Expr, Var, build
from tirlower.ir.constants import const
from tirlower.ir.dtype import INT64
from tirlower.ir.structural import structural_equal

__all__ = ["product_of"]


def product_of(extents: Sequence[Extent]) -> Extent:
    """The number of elements of a shape."""
    found: Extent = 1
    for extent in extents:
        found = found * extent
    return found if isinstance(found, int) else as_extent(found)


def _is(extent: Extent, number: int) -> bool:
    return isinstance(extent, int) and extent == number


def _alike(a: Extent, b: Extent) -> bool:
    """Whether two extents are written alike."""
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int) and a == b
    return a is b or structural_equal(a, b)


def _rest(shape: Shape, known: Sequence[Extent], what: str) -> Extent:
    """The extent that takes what the others leave of the elements of a shape."""
    left = list(shape)
    divisors: list[Extent] = []
    for extent in known:
        same = next((n for n, e in enumerate(left) if not isinstance(e, int) and _alike(e, extent)), None)
        if same is None:
            divisors.append(extent)
        else:
            del left[same]
    total, part = product_of(left), product_of(divisors)
    if isinstance(part, int) and part in (0, 1):
        return total if part else 0
    if isinstance(total, int) and isinstance(part, int):
        if total % part:
            raise GraphError(f"{what}: {total} elements are not divided by {part}")
        return total // part
    if isinstance(part, int):
        for n, extent in enumerate(left):
            if isinstance(extent, int) and extent % part == 0:
                return product_of([*left[:n], extent // part, *left[n + 1 :]])
    rest = as_extent(build.floordiv(extent_expr(total), extent_expr(part)))
    same_extent(as_extent(extent_expr(rest) * part), total, f"{what}: the elements are not divided by {part}")
    return rest


def _target(x: Formal, shape: object) -> Shape:
    """The shape that is asked for, with the extent that stands as -1."""
    given = shape if isinstance(shape, (tuple, list)) else (shape,)
    what = f"reshape: {x.name} of shape {shown(x.shape)} to {tuple(given)}"
    open_ = [n for n, e in enumerate(given) if isinstance(e, int) and e == -1]
    if len(open_) > 1:
        raise GraphError(f"{what}: one extent at most is -1")
    known = [as_extent(e) for n, e in enumerate(given) if n not in open_]
    if open_:
        known.insert(open_[0], _rest(x.shape, known, what))
        return tuple(known)
    same_extent(
        product_of(x.shape),
        product_of(known),
        f"{what} changes the number of elements",
        "one extent may be -1: it is what is left",
    )
    return tuple(known)


def _groups(source: Shape, target: Shape) -> list[tuple[range, range]]:
    """The axes of two shapes of as many elements in runs that hold the same elements, as short as can be told."""
    runs: list[tuple[range, range]] = []
    i = j = 0
    while i < len(source) or j < len(target):
        first, other = i, j
        if i < len(source) and j < len(target) and _alike(source[i], target[j]):
            i, j = i + 1, j + 1
        else:
            have: Extent = 1
            want: Extent = 1
            while not (_alike(have, want) and (i > first or j > other)):
                if i < len(source) and (j == len(target) or not _larger(have, want)):
                    have, i = _times(have, source[i]), i + 1
                elif j < len(target):
                    want, j = _times(want, target[j]), j + 1
                else:
                    break
        runs.append((range(first, i), range(other, j)))
    return runs


def _times(a: Extent, b: Extent) -> Extent:
    found = a * b
    return found if isinstance(found, int) else as_extent(found)


def _larger(a: Extent, b: Extent) -> bool:
    return isinstance(b, int) and (not isinstance(a, int) or a > b)


def _moved(source: Shape, target: Shape, at: Sequence[Var]) -> list[Expr]:
    """The indices in one shape of the element that stands at indices of another one of as many elements."""
    zero = const(0, INT64)
    if any(_is(e, 0) for e in (*source, *target)):
        return [zero] * len(source)
    indices: list[Expr] = []
    for sources, targets in _groups(source, target):
        if len(sources) == len(targets) == 1:
            indices.append(at[targets[0]])
            continue
        flat: Expr = zero
        for n in targets:
            if not _is(target[n], 1):
                flat = flat * extent_expr(target[n]) + at[n]
        several = [n for n in sources if not _is(source[n], 1)]
        inner: Extent = 1
        found: dict[int, Expr] = {}
        for n in reversed(several):
            place = build.floordiv(flat, extent_expr(inner))
            found[n] = place if n == several[0] else build.floormod(place, extent_expr(source[n]))
            inner = _times(inner, source[n])
        indices += [found.get(n, zero) for n in sources]
    return indices


@op("reshape")
def reshape(x: Formal, *, shape: object) -> Generic:
    """The elements in their order under another shape, of which one extent may be -1."""
    target = _target(x, shape)
    return compute(target, lambda *i: x[tuple(_moved(x.shape, target, i))])


@op("transpose")
def transpose(x: Formal, *, axes: Sequence[int] | None = None) -> Generic:
    """The axes in another order: axis n of the result is ``axes[n]`` of the operand; without ``axes`` they are reversed."""
    given = tuple(reversed(range(x.ndim))) if axes is None else tuple(axes)
    order = [axis_of(axis, x.ndim, f"transpose: {x.name}") for axis in given]
    if sorted(order) != list(range(x.ndim)):
        raise GraphError(
            f"transpose: {given} does not name each axis of {x.name}, of shape {shown(x.shape)}, once",
            help=f"a permutation of the numbers from 0 to {len(x.shape) - 1}",
        )
    return compute(tuple(x.shape[n] for n in order), lambda *i: x[tuple(i[order.index(n)] for n in range(x.ndim))])


@op("squeeze")
def squeeze(x: Formal, *, axis: Axes = None) -> Generic:
    """Axes of extent 1 dropped; all of them without ``axis``."""
    if axis is None:
        axes = tuple(n for n, e in enumerate(x.shape) if _is(e, 1))
    else:
        axes = axes_of(axis, x.ndim, f"squeeze: {x.name}")
    for n in axes:
        same_extent(
            x.shape[n], 1, f"squeeze: axis {n} of {x.name} has not the extent 1", "reshape merges axes of other extents"
        )
    kept = [n for n in range(x.ndim) if n not in axes]

    def element(*i: Var) -> Expr:
        return x[tuple(i[kept.index(n)] if n in kept else const(0, INT64) for n in range(x.ndim))]

    return compute(tuple(x.shape[n] for n in kept), element)


@op("expand_dims")
def expand_dims(x: Formal, *, axis: int | Sequence[int]) -> Generic:
    """Axes of extent 1 brought in, at these places of the result."""
    several = 1 if isinstance(axis, int) else len(axis)
    axes = axes_of(axis, x.ndim + several, "expand_dims: the result")
    rank = x.ndim + several
    kept = [n for n in range(rank) if n not in axes]
    shape = tuple(x.shape[kept.index(n)] if n in kept else 1 for n in range(rank))
    return compute(shape, lambda *i: x[tuple(i[n] for n in kept)])


@op("broadcast_to")
def broadcast_to(x: Formal, *, shape: object) -> Generic:
    """The operand repeated along the axes that it lacks or has with extent 1."""
    target = as_shape(shape)
    found = broadcast(x.shape, target)
    if len(found) != len(target) or any(_is(t, 1) and not _is(f, 1) for t, f in zip(target, found, strict=True)):
        raise GraphError(
            f"broadcast_to: {x.name} of shape {shown(x.shape)} is not broadcast to {shown(target)}",
            help="extents of 1 become others, from the last axis on",
        )
    return compute(target, lambda *i: x.at(*i))


@op("expand")
def expand(x: Formal, *, shape: object) -> Generic:
    """The operand broadcast against a shape: where that has the extent 1 the operand's own stays."""
    return compute(broadcast(x.shape, as_shape(shape)), lambda *i: x.at(*i))


@op("flip")
def flip(x: Formal, *, axis: Axes = None) -> Generic:
    """The elements along axes from last to first."""
    axes = axes_of(axis, x.ndim, f"flip: {x.name}")

    def element(*i: Var) -> Expr:
        return x[tuple(extent_expr(x.shape[n]) - 1 - v if n in axes else v for n, v in enumerate(i))]

    return compute(x.shape, element)


@op("roll")
def roll(x: Formal, *, shift: int | Sequence[int], axis: Axes = None) -> Generic:
    """The elements moved up along axes, what goes beyond the end back to the front."""
    if axis is None:
        raise GraphError("roll along no axis", help="reshape to one axis and roll along it")
    given = list(axis) if isinstance(axis, Sequence) else [axis]
    shifts = list(shift) if isinstance(shift, Sequence) else [shift] * len(given)
    if len(shifts) != len(given):
        raise GraphError(f"roll: {len(given)} axes and {len(shifts)} shifts")
    by: dict[int, int] = {}
    for n, s in zip(given, shifts, strict=True):
        place = axis_of(n, x.ndim, f"roll: {x.name}")
        by[place] = by.get(place, 0) + s

    def turned(n: int, var: Var) -> Expr:
        extent = x.shape[n]
        if n not in by or _is(extent, 0):
            return var
        back = -by[n] % extent if isinstance(extent, int) else const(-by[n], INT64)
        return build.floormod(var + back, extent_expr(extent))

    return compute(x.shape, lambda *i: x[tuple(turned(n, v) for n, v in enumerate(i))])


@op("tile")
def tile(x: Formal, *, repeats: int | Sequence[int]) -> Generic:
    """The operand repeated as a whole so often along each axis; axes that it lacks are brought in at the front."""
    given = tuple(repeats) if isinstance(repeats, (tuple, list)) else (repeats,)
    rank = max(x.ndim, len(given))
    times = as_shape((*[1] * (rank - len(given)), *given))
    shape = (*[1] * (rank - x.ndim), *x.shape)

    def element(*i: Var) -> Expr:
        at = []
        for n in range(rank - x.ndim, rank):
            once = _is(times[n], 1) or _is(shape[n], 0)
            at.append(i[n] if once else build.floormod(i[n], extent_expr(shape[n])))
        return x[tuple(at)]

    return compute(tuple(_times(e, t) for e, t in zip(shape, times, strict=True)), element)


@op("repeat")
def repeat(x: Formal, *, repeats: int, axis: int) -> Generic:
    """Each element repeated along an axis."""
    along = axis_of(axis, x.ndim, f"repeat: {x.name}")
    if repeats < 0:
        raise GraphError(f"repeat: repeats is at least 0, got {repeats}")
    shape = tuple(_times(e, repeats) if n == along else e for n, e in enumerate(x.shape))

    def element(*i: Var) -> Expr:
        return x[tuple(build.floordiv(v, max(repeats, 1)) if n == along else v for n, v in enumerate(i))]

    return compute(shape, element)


@op("trilu")
def trilu(x: Formal, *, upper: bool = True, k: int = 0) -> Generic:
    """The upper (or lower) triangle of matrices from the k-th diagonal on, 0 elsewhere."""
    if x.ndim < 2:
        raise GraphError(f"trilu takes matrices, got {x.name} of shape {shown(x.shape)}")
    keep = build.ge if upper else build.le

    def element(*i: Var) -> Expr:
        return build.select(keep(i[-1] - i[-2], const(k, INT64)), x[i], const(0, x.dtype))

    return compute(x.shape, element)


def _blocks(x: Formal, name: str, block: int) -> tuple[Extent, Extent, Extent, Extent]:
    if x.ndim != 4:
        raise GraphError(f"{name} takes a batch of images with channels, got {x.name} of shape {shown(x.shape)}")
    if block < 1:
        raise GraphError(f"{name}: a block has at least one element, got {block}")
    n, c, h, w = x.shape
    return n, c, h, w


@op("depth_to_space")
def depth_to_space(x: Formal, *, block: int, mode: str = "DCR") -> Generic:
    """Channels spread over blocks of pixels; in mode DCR the block's offset stands before the channel, in CRD behind it."""
    n, c, h, w = _blocks(x, "depth_to_space", block)
    if mode not in ("DCR", "CRD"):
        raise GraphError(f"depth_to_space has the modes DCR and CRD, got {mode!r}")
    channels = _rest((c,), (block * block,), f"depth_to_space: the channels of {x.name}")

    def element(b: Var, c: Var, y: Var, x_: Var) -> Expr:
        offset = y % block * block + x_ % block
        depth = offset * extent_expr(channels) + c if mode == "DCR" else c * (block * block) + offset
        return x[b, depth, y // block, x_ // block]

    return compute((n, channels, _times(h, block), _times(w, block)), element)


@op("space_to_depth")
def space_to_depth(x: Formal, *, block: int) -> Generic:
    """Blocks of pixels as channels, the block's offset before the channel."""
    n, c, h, w = _blocks(x, "space_to_depth", block)
    height, width = (_rest((e,), (block,), f"space_to_depth: an axis of {x.name}") for e in (h, w))

    def element(b: Var, d: Var, y: Var, x_: Var) -> Expr:
        if _is(c, 0):
            return x[b, d, y, x_]
        offset = build.floordiv(d, extent_expr(c))
        return x[b, build.floormod(d, extent_expr(c)), y * block + offset // block, x_ * block + offset % block]

    return compute((n, _times(c, block * block), height, width), element)
