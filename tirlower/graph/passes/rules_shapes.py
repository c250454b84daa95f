"""Views of views: one reshape, one transpose, one slice, one concatenation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tirlower.graph.core.dims import Extent
from tirlower.graph.core.nodes import Op, Value
from tirlower.graph.ops.elementwise import BINARY
from tirlower.graph.passes.rules import RuleSet, Site

__all__ = ["SHAPES"]

SHAPES: Final = RuleSet()

_RESHAPES: Final = ("reshape", "squeeze", "expand_dims")


@SHAPES(
    "reshape",
    "squeeze",
    "expand_dims",
    before='(x: tg.Tensor(("B", 4), "float32")):\n    tg.dims(B=(0, None))\n'
    '    y: tg.Tensor(("B", 1, 4), "float32") = tg.expand_dims(x, axis=1)\n'
    '    z: tg.Tensor(("B", 2, 2), "float32") = tg.reshape(y, shape=(-1, 2, 2))\n    return z',
    after='(x: tg.Tensor(("B", 4), "float32")):\n    B = tg.dims(B=(0, None))\n'
    '    z: tg.Tensor(("B", 2, 2), "float32") = tg.reshape(x, shape=(B, 2, 2))\n    return z',
    refused='(x: tg.Tensor((4, 6), "float32")):\n    y: tg.Tensor((6, 4), "float32") = tg.transpose(x)\n'
    '    z: tg.Tensor((24,), "float32") = tg.reshape(y, shape=(24,))\n    return z',
)
def reshape_of_reshape(site: Site) -> Value | None:
    """The elements in their order under a third shape."""
    inner = site.made_by(site.inputs[0], *_RESHAPES)
    if inner is None:
        return None
    return site.builder.op("reshape", inner.inputs[0], shape=site.result.shape)


@SHAPES(
    "transpose",
    before='(x: tg.Tensor((2, 3, 4), "float32")):\n    y: tg.Tensor((3, 4, 2), "float32") = tg.transpose(x, axes=(1, 2, 0))\n'
    '    z: tg.Tensor((2, 4, 3), "float32") = tg.transpose(y)\n    return z',
    after='(x: tg.Tensor((2, 3, 4), "float32")):\n    z: tg.Tensor((2, 4, 3), "float32") = tg.transpose(x, axes=(0, 2, 1))\n'
    "    return z",
    refused='(x: tg.Tensor((2, 3), "float32")):\n    y: tg.Tensor((3, 2), "float32") = tg.transpose(x)\n'
    '    z: tg.Tensor((3, 2), "float32") = tg.flip(y, axis=0)\n    return z',
)
def transpose_of_transpose(site: Site) -> Value | None:
    """One permutation of axes."""
    inner = site.made_by(site.inputs[0], "transpose")
    if inner is None:
        return None
    first, second = _order(inner), _order(site.op)
    return site.builder.op("transpose", inner.inputs[0], axes=tuple(first[n] for n in second))


def _order(op: Op) -> list[int]:
    rank = len(op.inputs[0].shape)
    axes = op.attrs.get("axes")
    return [n % rank for n in axes] if isinstance(axes, tuple) else list(reversed(range(rank)))


@SHAPES(
    "flip",
    before='(x: tg.Tensor((2, 3), "float32")):\n    y: tg.Tensor((2, 3), "float32") = tg.flip(x, axis=(0, 1))\n'
    '    z: tg.Tensor((2, 3), "float32") = tg.flip(y, axis=-1)\n    return z',
    after='(x: tg.Tensor((2, 3), "float32")):\n    z: tg.Tensor((2, 3), "float32") = tg.flip(x, axis=(0,))\n    return z',
    refused='(x: tg.Tensor((2, 3), "float32")):\n    y: tg.Tensor((2, 3), "float32") = tg.roll(x, shift=1, axis=0)\n'
    '    z: tg.Tensor((2, 3), "float32") = tg.flip(y, axis=1)\n    return z',
)
def flip_of_flip(site: Site) -> Value | None:
    """An axis that is turned twice stays."""
    inner = site.made_by(site.inputs[0], "flip")
    if inner is None:
        return None
    left = tuple(sorted(_flipped(inner) ^ _flipped(site.op)))
    return site.builder.op("flip", inner.inputs[0], axis=left) if left else inner.inputs[0]


def _flipped(op: Op) -> set[int]:
    rank, axis = len(op.inputs[0].shape), op.attrs.get("axis")
    if axis is None:
        return set(range(rank))
    return {n % rank for n in (axis if isinstance(axis, tuple) else (axis,)) if isinstance(n, int)}


@SHAPES(
    "broadcast_to",
    "expand",
    before='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((3, 4), "float32") = tg.broadcast_to(x, shape=(3, 4))\n'
    '    z: tg.Tensor((2, 3, 4), "float32") = tg.expand(y, shape=(2, 1, 1))\n    return z',
    after='(x: tg.Tensor((4,), "float32")):\n    z: tg.Tensor((2, 3, 4), "float32") = tg.broadcast_to(x, shape=(2, 3, 4))\n'
    "    return z",
    refused='(x: tg.Tensor((4,), "float32")):\n    y: tg.Tensor((8,), "float32") = tg.tile(x, repeats=(2,))\n'
    '    z: tg.Tensor((2, 8), "float32") = tg.broadcast_to(y, shape=(2, 8))\n    return z',
)
def broadcast_of_broadcast(site: Site) -> Value | None:
    """Repeated at once."""
    inner = site.made_by(site.inputs[0], "broadcast_to", "expand")
    return None if inner is None else site.builder.op("broadcast_to", inner.inputs[0], shape=site.result.shape)


_BROADCASTING: Final = (*(row.name for row in BINARY), "where", "clip")


@SHAPES(
    *_BROADCASTING,
    before='(x: tg.Tensor((3, 4), "float32"), y: tg.Tensor((4,), "float32")):\n'
    '    b: tg.Tensor((3, 4), "float32") = tg.broadcast_to(y, shape=(3, 4))\n'
    '    z: tg.Tensor((3, 4), "float32") = tg.add(x, b)\n    return z',
    after='(x: tg.Tensor((3, 4), "float32"), y: tg.Tensor((4,), "float32")):\n'
    '    z: tg.Tensor((3, 4), "float32") = tg.add(x, y)\n    return z',
    refused='(x: tg.Tensor((4,), "float32"), y: tg.Tensor((4,), "float32")):\n'
    '    b: tg.Tensor((3, 4), "float32") = tg.broadcast_to(y, shape=(3, 4))\n'
    '    z: tg.Tensor((3, 4), "float32") = tg.add(x, b)\n    return z',
)
def broadcast_before_broadcast(site: Site) -> Value | None:
    """An operand that is repeated before an operation which repeats it anyway."""
    given = list(site.inputs)
    for n, value in enumerate(given):
        inner = site.made_by(value, "broadcast_to", "expand")
        if inner is None:
            continue
        given[n] = inner.inputs[0]
        others = [v.shape for m, v in enumerate(given) if m != n]
        if not _gives(site, [*others, given[n].shape]):
            given[n] = value
    if all(a is b for a, b in zip(given, site.inputs, strict=True)):
        return None
    if site.op.name == "clip":
        rest = iter(given)
        arranged = [None if group is None else next(rest) for group in site.op.groups]
        return site.builder.op("clip", *arranged, **site.op.attrs)
    return site.builder.op(site.op.name, *given, **site.op.attrs)


def _gives(site: Site, shapes: Sequence[Sequence[Extent]]) -> bool:
    """Whether shapes are broadcast to the result's, each extent of it written in one of them."""
    wanted = site.result.shape
    return all(
        (isinstance(extent, int) and extent == 1)
        or any(len(s) >= back and site.env.equal(s[-back], extent) and s[-back] != 1 for s in shapes)
        for back, extent in enumerate(reversed(wanted), 1)
    )


# Slices


class _Slice:
    """A slice with positive steps of static places: where each axis begins, and in which steps it goes."""

    def __init__(self, begin: list[int], step: list[int], length: list[int]) -> None:
        self.begin = begin
        self.step = step
        self.length = length

    @classmethod
    def of(cls, op: Op | None) -> _Slice | None:
        """The slice that an operation is; None where it has dims, or runs backwards."""
        if op is None:
            return None
        shape, made = op.inputs[0].shape, op.results[0].shape
        length = [e for e in made if isinstance(e, int)]
        extents = [e for e in shape if isinstance(e, int)]
        starts, ends, axes, steps = (op.attrs.get(k) for k in ("starts", "ends", "axes", "steps"))
        assert isinstance(starts, tuple) and isinstance(ends, tuple)
        along = axes if isinstance(axes, tuple) else tuple(range(len(starts)))
        by = steps if isinstance(steps, tuple) else (1,) * len(starts)
        if len(length) != len(made) or len(extents) != len(shape) or any(not isinstance(s, int) or s < 1 for s in by):
            return None
        begin, step = [0] * len(shape), [1] * len(shape)
        for axis, start, stride in zip(along, starts, by, strict=True):
            if start is not None and not isinstance(start, int):
                return None
            begin[axis % len(shape)] = slice(start, None).indices(extents[axis % len(shape)])[0]
            step[axis % len(shape)] = stride
        return cls(begin, step, length)

    def on(self, site: Site, x: Value) -> Value:
        """The slice of a value."""
        whole = x.shape
        axes = [n for n, e in enumerate(whole) if (self.begin[n], self.step[n], self.length[n]) != (0, 1, e)]
        if not axes:
            return x
        ends = [self.begin[n] + max(0, (self.length[n] - 1) * self.step[n] + 1) for n in axes]
        steps = tuple(self.step[n] for n in axes)
        return site.builder.op(
            "slice",
            x,
            starts=tuple(self.begin[n] for n in axes),
            ends=tuple(b if self.length[n] else self.begin[n] for n, b in zip(axes, ends, strict=True)),
            axes=tuple(axes),
            steps=None if all(s == 1 for s in steps) else steps,
        )


@SHAPES(
    "slice",
    before='(x: tg.Tensor((10, 4), "float32")):\n'
    '    y: tg.Tensor((4, 4), "float32") = tg.slice(x, starts=(1,), ends=(9,), axes=(0,), steps=(2,))\n'
    '    z: tg.Tensor((2, 3), "float32") = tg.slice(y, starts=(-2, 1), ends=(None, None))\n    return z',
    after='(x: tg.Tensor((10, 4), "float32")):\n'
    '    z: tg.Tensor((2, 3), "float32") = tg.slice(x, starts=(5, 1), ends=(8, 4), axes=(0, 1), steps=(2, 1))\n    return z',
    refused='(x: tg.Tensor((10,), "float32")):\n'
    '    y: tg.Tensor((10,), "float32") = tg.slice(x, starts=(None,), ends=(None,), steps=(-1,))\n'
    '    z: tg.Tensor((3,), "float32") = tg.slice(y, starts=(0,), ends=(3,))\n    return z',
)
def slice_of_slice(site: Site) -> Value | None:
    """One slice, of static places in steps forward."""
    inner = site.made_by(site.inputs[0], "slice")
    first, second = _Slice.of(inner), _Slice.of(site.op)
    if inner is None or first is None or second is None:
        return None
    begin = [a + b * s for a, b, s in zip(first.begin, second.begin, first.step, strict=True)]
    step = [a * b for a, b in zip(first.step, second.step, strict=True)]
    extents = [e for e in inner.inputs[0].shape if isinstance(e, int)]
    # A slice of nothing may begin behind the end.
    begin = [min(b, e) for b, e in zip(begin, extents, strict=True)]
    return _Slice(begin, step, second.length).on(site, inner.inputs[0])


@SHAPES(
    "slice",
    before='(x: tg.Tensor((4, 2), "float32"), y: tg.Tensor((3, 2), "float32")):\n'
    '    c: tg.Tensor((7, 2), "float32") = tg.concat(x, y)\n'
    '    z: tg.Tensor((2, 2), "float32") = tg.slice(c, starts=(5,), ends=(7,))\n    return z',
    after='(x: tg.Tensor((4, 2), "float32"), y: tg.Tensor((3, 2), "float32")):\n'
    '    z: tg.Tensor((2, 2), "float32") = tg.slice(y, starts=(1,), ends=(3,), axes=(0,))\n    return z',
    refused='(x: tg.Tensor((4, 2), "float32"), y: tg.Tensor((3, 2), "float32")):\n'
    '    c: tg.Tensor((7, 2), "float32") = tg.concat(x, y)\n'
    '    z: tg.Tensor((3, 2), "float32") = tg.slice(c, starts=(3,), ends=(6,))\n    return z',
)
def slice_of_concat(site: Site) -> Value | None:
    """A slice that lies in one part is one of that part."""
    whole, here = site.made_by(site.inputs[0], "concat"), _Slice.of(site.op)
    if whole is None or here is None:
        return None
    rank = len(whole.results[0].shape)
    axis = _axis(whole, rank)
    last = here.begin[axis] + max(0, here.length[axis] - 1) * here.step[axis]
    start = 0
    for part in whole.inputs:
        extent = part.shape[axis]
        assert isinstance(extent, int)
        if here.length[axis] and start <= here.begin[axis] and last < start + extent:
            if part.dtype != site.result.dtype:
                return None
            begin = [b - start if n == axis else b for n, b in enumerate(here.begin)]
            return _Slice(begin, here.step, here.length).on(site, part)
        start += extent
    return None


def _axis(op: Op, rank: int) -> int:
    axis = op.attrs["axis"]
    assert isinstance(axis, int)
    return axis % rank


# Concatenations


@SHAPES(
    "concat",
    before='(a: tg.Tensor((4,), "float32"), b: tg.Tensor((2,), "float32"), c: tg.Tensor((3,), "float32")):\n'
    '    y: tg.Tensor((6,), "float32") = tg.concat(a, b)\n    z: tg.Tensor((9,), "float32") = tg.concat(y, c)\n    return z',
    after='(a: tg.Tensor((4,), "float32"), b: tg.Tensor((2,), "float32"), c: tg.Tensor((3,), "float32")):\n'
    '    z: tg.Tensor((9,), "float32") = tg.concat(a, b, c)\n    return z',
    refused='(a: tg.Tensor((4,), "float32"), b: tg.Tensor((2,), "float32"), c: tg.Tensor((3,), "float32")):\n'
    '    y: tg.Tensor((6,), "float32") = tg.concat(a, b)\n    z: tg.Tensor((9,), "float32") = tg.concat(y, c)\n    return y, z',
)
def concat_of_concat(site: Site) -> Value | None:
    """The parts of a part, where that is used for nothing else."""
    axis, parts = _axis(site.op, len(site.result.shape)), list[Value]()
    for n, x in enumerate(site.inputs):
        inner = site.made_by(x, "concat") if site.once(n) and x.dtype == site.result.dtype else None
        # Parts of other dtypes may have no dtype in common with the others.
        same = (
            inner is not None and _axis(inner, len(x.shape)) == axis and all(v.dtype == x.dtype for v in inner.inputs)
        )
        parts += inner.inputs if inner is not None and same else (x,)
    return None if len(parts) == len(site.inputs) else site.builder.op("concat", *parts, axis=axis)


@SHAPES(
    "concat",
    before='(x: tg.Tensor((6, 2), "float32"), y: tg.Tensor((1, 2), "float32")):\n'
    '    a: tg.Tensor((2, 2), "float32") = tg.slice(x, starts=(0,), ends=(2,))\n'
    '    b: tg.Tensor((4, 2), "float32") = tg.slice(x, starts=(2,), ends=(6,))\n'
    '    z: tg.Tensor((7, 2), "float32") = tg.concat(a, b, y)\n    return z',
    after='(x: tg.Tensor((6, 2), "float32"), y: tg.Tensor((1, 2), "float32")):\n'
    '    z: tg.Tensor((7, 2), "float32") = tg.concat(x, y)\n    return z',
    refused='(x: tg.Tensor((6, 2), "float32"), y: tg.Tensor((1, 2), "float32")):\n'
    '    a: tg.Tensor((2, 2), "float32") = tg.slice(x, starts=(0,), ends=(2,))\n'
    '    b: tg.Tensor((3, 2), "float32") = tg.slice(x, starts=(3,), ends=(6,))\n'
    '    z: tg.Tensor((6, 2), "float32") = tg.concat(a, b, y)\n    return z',
)
def concat_of_neighbours(site: Site) -> Value | None:
    """Slices that lie beside one another in one tensor are one slice of it, and all of them the tensor."""
    axis = _axis(site.op, len(site.result.shape))
    parts: list[Value] = []
    open_: tuple[Value, _Slice] | None = None
    for x in site.inputs:
        made = site.made_by(x, "slice")
        here = _Slice.of(made)
        if made is not None and here is not None and open_ is not None and open_[0] is made.inputs[0]:
            joined = _joined(open_[1], here, axis)
            if joined is not None:
                open_ = (open_[0], joined)
                parts[-1] = joined.on(site, open_[0])
                continue
        open_ = None if made is None or here is None else (made.inputs[0], here)
        parts.append(x)
    if len(parts) == len(site.inputs):
        return None
    return parts[0] if len(parts) == 1 else site.builder.op("concat", *parts, axis=axis)


def _joined(a: _Slice, b: _Slice, axis: int) -> _Slice | None:
    """Two slices as one, the second behind the first along an axis."""
    for n in range(len(a.begin)):
        if n != axis and (a.begin[n], a.step[n], a.length[n]) != (b.begin[n], b.step[n], b.length[n]):
            return None
    step = a.step[axis]
    if step != b.step[axis] or b.begin[axis] != a.begin[axis] + a.length[axis] * step or not a.length[axis]:
        return None
    length = [x + b.length[n] if n == axis else x for n, x in enumerate(a.length)]
    return _Slice(a.begin, a.step, length)


@SHAPES(
    "concat",
    before='(a: tg.Tensor((2, 12), "float32"), b: tg.Tensor((2, 20), "float32"), c: tg.Tensor((2, 3, 4), "float32")):\n'
    '    y: tg.Tensor((2, 32), "float32") = tg.concat(a, b, axis=1)\n'
    '    r: tg.Tensor((2, 8, 4), "float32") = tg.reshape(y, shape=(2, 8, 4))\n'
    '    z: tg.Tensor((2, 11, 4), "float32") = tg.concat(r, c, axis=1)\n    return z',
    after='(a: tg.Tensor((2, 12), "float32"), b: tg.Tensor((2, 20), "float32"), c: tg.Tensor((2, 3, 4), "float32")):\n'
    '    r: tg.Tensor((2, 3, 4), "float32") = tg.reshape(a, shape=(2, 3, 4))\n'
    '    s: tg.Tensor((2, 5, 4), "float32") = tg.reshape(b, shape=(2, 5, 4))\n'
    '    z: tg.Tensor((2, 11, 4), "float32") = tg.concat(r, s, c, axis=1)\n    return z',
    refused='(a: tg.Tensor((2, 10), "float32"), b: tg.Tensor((2, 22), "float32"), c: tg.Tensor((2, 3, 4), "float32")):\n'
    '    y: tg.Tensor((2, 32), "float32") = tg.concat(a, b, axis=1)\n'
    '    r: tg.Tensor((2, 8, 4), "float32") = tg.reshape(y, shape=(2, 8, 4))\n'
    '    z: tg.Tensor((2, 11, 4), "float32") = tg.concat(r, c, axis=1)\n    return z',
)
def reshape_before_concat(site: Site) -> Value | None:
    """A concatenation that is reshaped to be concatenated: its parts are, where they divide, and one copy is left."""
    axis = _axis(site.op, len(site.result.shape))
    parts: list[Value] = []
    for n, x in enumerate(site.inputs):
        reshape = site.made_by(x, "reshape") if site.once(n) and x.dtype == site.result.dtype else None
        inner = None if reshape is None else site.made_by(reshape.inputs[0], "concat")
        parts += [x] if inner is None else _reshaped(site, inner, x, axis) or [x]
    return None if len(parts) == len(site.inputs) else site.builder.op("concat", *parts, axis=axis)


def _reshaped(site: Site, inner: Op, x: Value, axis: int) -> list[Value] | None:
    """The parts of a concatenation in the shape that the whole has, whose axis is divided; None where they do not divide."""
    source, target = inner.results[0].shape, x.shape
    behind = len(target) - len(source) + 1  # so many axes stand for the one along which the parts lie
    if _axis(inner, len(source)) != axis or behind < 1 or inner.results[0].dtype != x.dtype:
        return None
    if not all(
        site.env.equal(a, b)
        for a, b in zip((*source[:axis], *source[axis + 1 :]), (*target[:axis], *target[axis + behind :]), strict=True)
    ):
        return None
    unit = 1
    for extent in target[axis + 1 : axis + behind]:
        if not isinstance(extent, int) or extent < 1:
            return None
        unit *= extent
    made = []
    for part in inner.inputs:
        extent = part.shape[axis]
        if not isinstance(extent, int) or extent % unit:
            return None
        shape = (*target[:axis], extent // unit, *target[axis + 1 :])
        made.append(site.builder.op("reshape", part, shape=shape))
    return made
