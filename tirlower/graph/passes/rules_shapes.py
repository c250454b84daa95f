"""Views of views: one reshape, one transpose, one slice, one concatenation."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Final

from tirlower.graph.core.analysis import analysis
from tirlower.graph.core.dims import DimEnv, Extent, extent_expr
from tirlower.graph.core.nodes import Op, Value
from tirlower.graph.ops.elementwise import BINARY
from tirlower.graph.ops.joining import plus, sliced
from tirlower.graph.passes.rules import RuleSet, Site
from tirlower.ir import Expr, IntImm
from tirlower.ir.query import each

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


def _place(env: DimEnv, *terms: Extent) -> Extent:
    """A sum in its simplest form: a place in a tensor, which unlike an extent may be negative."""
    total: Extent = 0
    for term in terms:
        total = total + term
    found = total if isinstance(total, int) else env.analyzer.simplify(total)
    return found.value if isinstance(found, IntImm) else found


_LONGEST: Final = 16
"""How many nodes the bound of a slice may have: what is longer costs more to look through than the copy that it saves."""


def _size(bound: Expr) -> int:
    return sum(1 for _ in each(Expr, bound))


class _Slice:
    """A slice of a value: where each axis begins, in which steps it goes, and how many places it has.

    ``rest`` has the number from which on all of an axis is taken, where that is what the slice says: it is clamped to the extent.
    """

    def __init__(
        self,
        begin: Sequence[Extent],
        step: Sequence[int],
        length: Sequence[Extent],
        rest: Sequence[int | None] | None = None,
    ) -> None:
        self.begin = begin
        self.step = step
        self.length = length
        self.rest = (None,) * len(begin) if rest is None else rest

    @classmethod
    def of(cls, op: Op | None, env: DimEnv) -> _Slice | None:
        """The slice that an operation is."""
        if op is None:
            return None
        shape = op.inputs[0].shape
        starts, ends, axes, steps = (op.attrs.get(k) for k in ("starts", "ends", "axes", "steps"))
        assert isinstance(starts, tuple) and isinstance(ends, tuple)
        along = axes if isinstance(axes, tuple) else tuple(range(len(starts)))
        by = steps if isinstance(steps, tuple) else (1,) * len(starts)
        begin: list[Extent] = [0] * len(shape)
        step = [1] * len(shape)
        rest: list[int | None] = [0] * len(shape)
        with env.inferring():
            for axis, start, end, stride in zip(along, starts, ends, by, strict=True):
                n = axis % len(shape)
                begin[n], _ = sliced(shape[n], start, end, stride)
                step[n] = stride
                first = 0 if start is None else start
                rest[n] = first if end is None and stride > 0 and isinstance(first, int) and first >= 0 else None
        return cls(begin, step, op.results[0].shape, rest)

    def behind(self, first: _Slice, env: DimEnv) -> _Slice:
        """The slice that this one is of what the first was taken of."""
        begin = [_place(env, a, b * s) for a, b, s in zip(first.begin, self.begin, first.step, strict=True)]
        rest = [
            None if a is None or b is None else a + b * s
            for a, b, s in zip(first.rest, self.rest, first.step, strict=True)
        ]
        return _Slice(begin, [a * b for a, b in zip(first.step, self.step, strict=True)], self.length, rest)

    def on(self, site: Site, x: Value) -> Value | None:
        """The slice of a value; None where no bounds are known to say it, whatever the dims are."""
        env = site.env
        axes = [n for n, e in enumerate(x.shape) if not (self.step[n] == 1 and self._is_whole(n, e, env))]
        if not axes:
            return x
        computed = [self._bounds(n, env) for n in axes]
        written: list[tuple[Extent, Extent | None]] = [
            both if (first := self.rest[n]) is None or all(isinstance(b, int) for b in both) else (first, None)
            for n, both in zip(axes, computed, strict=True)
        ]
        made = self._with_bounds(site, x, axes, written)
        if made is None and written != computed:
            made = self._with_bounds(site, x, axes, computed)
        return made

    def _with_bounds(
        self, site: Site, x: Value, axes: Sequence[int], bounds: Sequence[tuple[Extent, Extent | None]]
    ) -> Value | None:
        """The slice of a value with these bounds, if they say it."""
        env = site.env
        if any(_size(b) > _LONGEST for both in bounds for b in both if isinstance(b, Expr)):
            return None
        nodes, assumed = len(site.builder.nodes), len(site.builder.env.assumed)
        steps = tuple(1 if self.length[n] == 0 else self.step[n] for n in axes)
        starts, ends = zip(*bounds, strict=True)
        made = site.builder.op(
            "slice", x, starts=starts, ends=ends, axes=tuple(axes), steps=None if all(s == 1 for s in steps) else steps
        )
        assert isinstance(made.node, Op)
        back = _Slice.of(made.node, env)
        # Bounds are clamped, and count from the end where they are negative: what was written has to mean what was meant.
        if back is not None and all(
            self.length[n] == 0 or (env.equal(a, b) and env.equal(self.length[n], back.length[n]))
            for n, (a, b) in enumerate(zip(self.begin, back.begin, strict=True))
        ):
            return made
        del site.builder.nodes[nodes:], site.builder.env.assumed[assumed:]
        return None

    def _is_whole(self, n: int, extent: Extent, env: DimEnv) -> bool:
        return bool(env.equal(self.begin[n], 0) and env.equal(self.length[n], extent))

    def _bounds(self, n: int, env: DimEnv) -> tuple[Extent, Extent | None]:
        begin, step, length = self.begin[n], self.step[n], self.length[n]
        if length == 0:
            return 0, 0
        if isinstance(length, int):
            end = _place(env, begin, (length - 1) * step + (1 if step > 0 else -1))
        else:
            end = _place(env, begin, length * step)
        return begin, None if step < 0 and isinstance(end, int) and end < 0 else end


@SHAPES(
    "slice",
    before='(x: tg.Tensor((10, "B"), "float32")):\n    tg.dims(B=(4, None))\n'
    '    y: tg.Tensor((4, "B - 1"), "float32") = tg.slice(x, starts=(8, 1), ends=(1, None), steps=(-2, 1))\n'
    '    z: tg.Tensor((2, "B - 3"), "float32") = tg.slice(y, starts=(-2, 1), ends=(None, -1))\n    return z',
    after='(x: tg.Tensor((10, "B"), "float32")):\n    B = tg.dims(B=(4, None))\n'
    '    z: tg.Tensor((2, "B - 3"), "float32") = tg.slice(x, starts=(4, 2), ends=(1, B - 1), axes=(0, 1), steps=(-2, 1))\n'
    "    return z",
    refused='(x: tg.Tensor(("B",), "float32")):\n    tg.dims(B=(0, None))\n'
    '    y: tg.Tensor(("(B + 1) // 2",), "float32") = tg.slice(x, starts=(0,), ends=(None,), steps=(2,))\n'
    '    z: tg.Tensor(("max((B + 1) // 2 - 1, 0)",), "float32") = tg.slice(y, starts=(1,), ends=(None,))\n    return z',
)
def slice_of_slice(site: Site) -> Value | None:
    """One slice, where its places are known: in steps forward and back, of dims too."""
    inner = site.made_by(site.inputs[0], "slice")
    first, second = _Slice.of(inner, site.env), _Slice.of(site.op, site.env)
    if inner is None or first is None or second is None:
        return None
    return second.behind(first, site.env).on(site, inner.inputs[0])


@SHAPES(
    "slice",
    before='(x: tg.Tensor(("B", 2), "float32"), y: tg.Tensor((3, 2), "float32")):\n    B = tg.dims(B=(0, None))\n'
    '    c: tg.Tensor(("B + 3", 2), "float32") = tg.concat(x, y)\n'
    '    z: tg.Tensor((2, 2), "float32") = tg.slice(c, starts=(B + 1,), ends=(B + 3,))\n    return z',
    after='(x: tg.Tensor(("B", 2), "float32"), y: tg.Tensor((3, 2), "float32")):\n    tg.dims(B=(0, None))\n'
    '    z: tg.Tensor((2, 2), "float32") = tg.slice(y, starts=(1,), ends=(3,), axes=(0,))\n    return z',
    refused='(x: tg.Tensor((4, 2), "float32"), y: tg.Tensor((3, 2), "float32")):\n'
    '    c: tg.Tensor((7, 2), "float32") = tg.concat(x, y)\n'
    '    z: tg.Tensor((3, 2), "float32") = tg.slice(c, starts=(3,), ends=(6,))\n    return z',
)
def slice_of_concat(site: Site) -> Value | None:
    """A slice that lies in one part is one of that part."""
    whole, here = site.made_by(site.inputs[0], "concat"), _Slice.of(site.op, site.env)
    if whole is None or here is None:
        return None
    axis = _axis(whole, len(whole.results[0].shape))
    first, step, length = here.begin[axis], here.step[axis], here.length[axis]
    last = _place(site.env, first, (length + -1) * step)
    low, high = (first, last) if step > 0 else (last, first)
    start: Extent = 0
    for part in whole.inputs:
        stop = plus(start, part.shape[axis])
        # One that may be empty lies in a part with its first and last bound: its last place is before the first.
        if length != 0 and _at_most(start, low, site.env) and _at_most(_place(site.env, high, 1), stop, site.env):
            if part.dtype != site.result.dtype:
                return None
            begin = [_place(site.env, b, start * -1) if n == axis else b for n, b in enumerate(here.begin)]
            return _Slice(begin, here.step, here.length).on(site, part)
        start = stop
    return None


def _at_most(a: Extent, b: Extent, env: DimEnv) -> bool:
    if isinstance(a, int) and isinstance(b, int):
        return a <= b
    return env.analyzer.can_prove(extent_expr(b) >= a)


def _axis(op: Op, rank: int) -> int:
    axis = op.attrs["axis"]
    assert isinstance(axis, int)
    return axis % rank


@SHAPES(
    "split",
    before='(x: tg.Tensor(("B", 2), "float32"), y: tg.Tensor((3, 2), "float32")):\n    B = tg.dims(B=(0, None))\n'
    '    c: tg.Tensor(("B + 3", 2), "float32") = tg.concat(x, y)\n'
    '    a: tg.Tensor(("B", 2), "float32")\n    b: tg.Tensor((3, 2), "float32")\n'
    "    a, b = tg.split(c, parts=(B, 3))\n    return b, a",
    after='(x: tg.Tensor(("B", 2), "float32"), y: tg.Tensor((3, 2), "float32")):\n    tg.dims(B=(0, None))\n'
    "    return y, x",
    refused='(x: tg.Tensor((4, 2), "float32"), y: tg.Tensor((4, 2), "float32")):\n'
    '    c: tg.Tensor((8, 2), "float32") = tg.concat(x, y)\n'
    '    a: tg.Tensor((8, 1), "float32")\n    b: tg.Tensor((8, 1), "float32")\n'
    "    a, b = tg.split(c, parts=2, axis=1)\n    return a, b",
)
def split_of_concat(site: Site) -> Sequence[Value] | None:
    """What was put together of the same parts."""
    inner = site.made_by(site.inputs[0], "concat")
    if inner is None:
        return None
    rank = len(site.inputs[0].shape)
    same = len(inner.inputs) == len(site.op.results) and _axis(inner, rank) == _axis(site.op, rank)
    return inner.inputs if same and all(map(site.env.equal_types, inner.inputs, site.op.results)) else None


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
    """The parts of a part, where that is used for nothing else, or for concatenations alone that take its parts too."""
    axis, parts = _axis(site.op, len(site.result.shape)), list[Value]()
    for n, x in enumerate(site.inputs):
        alone = site.once(n) or _in_concats_alone(site, n, axis)
        inner = site.made_by(x, "concat") if alone and x.dtype == site.result.dtype else None
        # Parts of other dtypes may have no dtype in common with the others.
        same = (
            inner is not None and _axis(inner, len(x.shape)) == axis and all(v.dtype == x.dtype for v in inner.inputs)
        )
        parts += inner.inputs if inner is not None and same else (x,)
    return None if len(parts) == len(site.inputs) else site.builder.op("concat", *parts, axis=axis)


def _in_concats_alone(site: Site, n: int, axis: int) -> bool:
    """Whether all who read an operand concatenate it along an axis, in its dtype."""
    value, known = site.op.inputs[n], analysis(site.graph)
    return not known.is_result(value) and all(
        isinstance(user, Op)
        and user.name == "concat"
        and user.results[0].dtype == value.dtype
        and _axis(user, len(value.shape)) == axis
        for user, _ in known.users(value)
    )


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
        here = _Slice.of(made, site.env)
        if made is not None and here is not None and open_ is not None and open_[0] is made.inputs[0]:
            joined = _joined(open_[1], here, axis, site.env)
            both = None if joined is None else joined.on(site, open_[0])
            if joined is not None and both is not None:
                open_ = (open_[0], joined)
                parts[-1] = both
                continue
        open_ = None if made is None or here is None else (made.inputs[0], here)
        parts.append(x)
    if len(parts) == len(site.inputs):
        return None
    return parts[0] if len(parts) == 1 else site.builder.op("concat", *parts, axis=axis)


def _joined(a: _Slice, b: _Slice, axis: int, env: DimEnv) -> _Slice | None:
    """Two slices as one, the second behind the first along an axis."""
    for n in range(len(a.begin)):
        same = env.equal(a.begin[n], b.begin[n]) and env.equal(a.length[n], b.length[n]) and a.step[n] == b.step[n]
        if n != axis and not same:
            return None
    step = a.step[axis]
    behind = _place(env, a.begin[axis], a.length[axis] * step)
    if step != b.step[axis] or a.length[axis] == 0 or not env.equal(b.begin[axis], behind):
        return None
    length = [env.simplify(plus(x, b.length[n])) if n == axis else x for n, x in enumerate(a.length)]
    return _Slice(a.begin, a.step, length)


@SHAPES(
    "concat",
    before='(x: tg.Tensor(("B", 6), "float32")):\n    tg.dims(B=(0, None))\n'
    '    a: tg.Tensor(("B", 3), "float32")\n    b: tg.Tensor(("B", 3), "float32")\n'
    "    a, b = tg.split(x, parts=2, axis=1)\n"
    '    z: tg.Tensor(("B", 6), "float32") = tg.concat(a, b, axis=1)\n    return z',
    after='(x: tg.Tensor(("B", 6), "float32")):\n    tg.dims(B=(0, None))\n    return x',
    refused='(x: tg.Tensor((4, 6), "float32")):\n'
    '    a: tg.Tensor((4, 3), "float32")\n    b: tg.Tensor((4, 3), "float32")\n'
    "    a, b = tg.split(x, parts=2, axis=1)\n"
    '    z: tg.Tensor((4, 6), "float32") = tg.concat(b, a, axis=1)\n    return z',
)
def concat_of_split(site: Site) -> Value | None:
    """All parts of a tensor in their order are the tensor."""
    axis, parts = _axis(site.op, len(site.result.shape)), list[Value]()
    given, n = site.inputs, 0
    while n < len(given):
        split = site.made_by(given[n], "split")
        several = () if split is None else split.results
        same = split is not None and len(several) > 1 and _axis(split, len(site.result.shape)) == axis
        if same and split is not None and all(map(operator.is_, several, given[n : n + len(several)])):
            whole = len(given) - n >= len(several)
            parts.append(split.inputs[0] if whole else given[n])
            n += len(several) if whole else 1
            continue
        parts.append(given[n])
        n += 1
    if len(parts) == len(given):
        return None
    return parts[0] if len(parts) == 1 else site.builder.op("concat", *parts, axis=axis)


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
