"""Elements in order, running sums, and what is found in a tensor: results of a bound size, with a count beside them.

NaN is greater than every number, and equal to itself; the order among equals is that in which they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tirlower.graph.core.dims import DimEnv, Extent, as_extent, extent_expr, same_extent
from tirlower.graph.core.extents import shown
from tirlower.graph.core.nodes import TensorType, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.compute import Formal, accumulator, compute
from tirlower.graph.ops.generic import Generic
from tirlower.graph.ops.opaque import Opaque, lanes
from tirlower.graph.ops.reductions import axis_of, sum_dtype
from tirlower.graph.ops.registry import macro, op, opaque
from tirlower.ir import Buffer, BufferLoad, Expr, IRBuilder, Var, build
from tirlower.ir.constants import const
from tirlower.ir.dtype import BOOL, INT64, Array

if TYPE_CHECKING:
    from tirlower.graph.ops.builder import GraphBuilder

__all__ = []


def _at(buffer: Buffer, *indices: Expr) -> Expr:
    return BufferLoad(buffer, indices)


def _number(value: int) -> Expr:
    return const(value, INT64)


# Sorting


def _key(value: Expr) -> Expr:
    """What elements are compared by: narrow floats as float32, bools as numbers."""
    if value.dtype.is_bool:
        return value.astype("int32")
    return value.astype(accumulator(value.dtype))


def _precedes(a: Expr, b: Expr, descending: bool) -> Expr:
    """Whether an element stands before another one that is not its equal."""
    x, y = (_key(b), _key(a)) if descending else (_key(a), _key(b))
    less = build.lt(x, y)
    if not x.dtype.is_float:
        return less
    nan = [build.call("tir.isnan", v) for v in (x, y)]
    return build.logical_or(less, build.logical_and(nan[1], build.logical_not(nan[0])))


def _merged(
    ib: IRBuilder, length: Expr, width: Expr, source: Buffer, target: Buffer, precedes: Callable[[Expr, Expr], Expr]
) -> None:
    """Neighbouring sorted runs of a width in ``source`` become one in ``target``; of equals the left one stands first."""
    zero = _number(0)
    at = ib.alloc((3,), INT64, scope="local", name="at")  # where the runs begin, and what is next in each
    begin, left, right = (_at(at, _number(n)) for n in range(3))
    ib.store(at, zero, [0])
    with ib.while_(build.lt(begin, length)):
        middle = ib.let("middle", build.min_(begin + width, length))
        end = ib.let("end", build.min_(middle + width, length))
        ib.store(at, begin, [1])
        ib.store(at, middle, [2])
        with ib.for_range(begin, end, "k") as k:
            from_right = build.if_then_else(
                build.ge(left, middle),
                const(True, BOOL),
                build.if_then_else(
                    build.ge(right, end),
                    const(False, BOOL),
                    precedes(_at(source, right), _at(source, left)),
                ),
            )
            with ib.if_(from_right):
                ib.store(target, _at(source, right), [k])
                ib.store(at, right + 1, [2])
            with ib.else_():
                ib.store(target, _at(source, left), [k])
                ib.store(at, left + 1, [1])
        ib.store(at, end, [0])


@opaque("argsort")
def argsort(x: Formal, *, axis: int = -1, descending: bool = False) -> Opaque:
    """The places of the elements along an axis in ascending (or descending) order; of equals the first stands first.

    NaN counts as greater than every number.
    """
    n = axis_of(axis, x.ndim, f"argsort: {x.name}")
    length = extent_expr(x.shape[n])

    def reference(arrays: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> list[Array]:
        (given,) = arrays
        keys = given if given.dtype.kind in "biuf" else given.astype(np.float32)  # NumPy's own dtypes are ordered
        if not descending:
            return [np.argsort(keys, axis=n, kind="stable")]
        order = np.argsort(np.flip(keys, n), axis=n, kind="stable")
        return [keys.shape[n] - 1 - np.flip(order, n)]

    def kernel(ib: IRBuilder, operands: Sequence[Buffer], results: Sequence[Buffer], env: DimEnv) -> None:
        (source,), (out,) = operands, results
        order = ib.alloc((length,), INT64, name="order")
        other = ib.alloc((length,), INT64, name="other")
        width = ib.alloc((1,), INT64, scope="local", name="width")
        with lanes(ib, x.shape, n) as place:

            def precedes(a: Expr, b: Expr) -> Expr:
                return _precedes(_at(source, *place(a)), _at(source, *place(b)), descending)

            with ib.for_range(0, length, "k", INT64) as k:
                ib.store(order, k, [k])
            ib.store(width, _number(1), [0])
            with ib.while_(build.lt(_at(width, _number(0)), length)):
                _merged(ib, length, _at(width, _number(0)), order, other, precedes)
                with ib.for_range(0, length, "k", INT64) as k:
                    ib.store(order, _at(other, k), [k])
                ib.store(width, _at(width, _number(0)) * 2, [0])
            with ib.for_range(0, length, "k", INT64) as k:
                ib.store(out, _at(order, k), place(k))

    return Opaque("argsort", (x.buffer,), (TensorType(x.shape, INT64),), reference, kernel)


@macro("sort")
def sort(b: GraphBuilder, x: Value, *, axis: int = -1, descending: bool = False) -> Value:
    """The elements along an axis in ascending (or descending) order, NaN as the greatest."""
    return b.op("gather_elements", x, b.op("argsort", x, axis=axis, descending=descending), axis=axis)


@op("leading")
def leading(x: Formal, *, count: object, axis: int) -> Generic:
    """The first elements along an axis, which has so many (a step of topk)."""
    n = axis_of(axis, x.ndim, f"topk: {x.name}")
    wanted, have = as_extent(count), x.shape[n]
    least = build.min_(extent_expr(wanted), extent_expr(have))
    same_extent(as_extent(least), wanted, f"topk: axis {n} of {x.name} has {have} elements, and k is {wanted}")
    return compute((*x.shape[:n], wanted, *x.shape[n + 1 :]), lambda *i: x[i])


@macro("topk")
def topk(
    b: GraphBuilder, x: Value, *, k: Extent, axis: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Value, Value]:
    """The k greatest (or least) elements along an axis, and their places; of equals the first ones, NaN as the greatest.

    They stand in order whether or not that is asked for by ``sorted``.
    """
    order = b.op("argsort", x, axis=axis, descending=largest)
    places = b.op("leading", order, count=k, axis=axis)
    return b.op("gather_elements", x, places, axis=axis), places


# Running sums and products


def _accumulated(
    name: str,
    x: Formal,
    axis: int,
    exclusive: bool,
    reverse: bool,
    dtype: str | None,
    neutral: int,
    combine: Callable[[Expr, Expr], Expr],
    accumulate: np.ufunc,
) -> Opaque:
    n = axis_of(axis, x.ndim, f"{name}: {x.name}")
    kind = sum_dtype(x, dtype)
    if kind.is_bool:
        raise GraphError(f"{name} counts bools in a dtype of numbers, got dtype='bool'")
    wide, length = accumulator(kind), extent_expr(x.shape[n])

    def reference(arrays: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> list[Array]:
        (given,) = arrays
        exact = given.dtype == np.float64 and kind.is_float  # as precise as it is asked for
        terms = given.astype(np.float64 if exact else wide.numpy)
        terms = np.flip(terms, n) if reverse else terms
        made = accumulate.accumulate(terms, axis=n, dtype=terms.dtype)
        if exclusive:
            first = [slice(None)] * x.ndim
            first[n] = slice(0, min(1, terms.shape[n]))
            last = [slice(None)] * x.ndim
            last[n] = slice(0, -1)
            made = np.concatenate([np.full_like(terms[tuple(first)], neutral), made[tuple(last)]], n)
        return [np.flip(made, n) if reverse else made]

    def kernel(ib: IRBuilder, operands: Sequence[Buffer], results: Sequence[Buffer], env: DimEnv) -> None:
        (source,), (out,) = operands, results
        total = ib.alloc((1,), wide, scope="local", name="total")
        # A sum from minus zero on is the first element, whatever its sign.
        start = const(-0.0 if wide.is_float and not neutral else neutral, wide)
        with lanes(ib, x.shape, n) as place:
            ib.store(total, start, [0])
            with ib.for_range(0, length, "k", INT64) as k:
                at = place(length - 1 - k if reverse else k)
                more = combine(_at(total, _number(0)), _at(source, *at).astype(wide))
                if exclusive:
                    before = build.select(build.eq(k, _number(0)), const(neutral, wide), _at(total, _number(0)))
                    ib.store(out, before.astype(kind), at)
                ib.store(total, more, [0])
                if not exclusive:
                    ib.store(out, _at(total, _number(0)).astype(kind), at)

    return Opaque(name, (x.buffer,), (TensorType(x.shape, kind),), reference, kernel)


@opaque("cumsum")
def cumsum(x: Formal, *, axis: int, exclusive: bool = False, reverse: bool = False, dtype: str | None = None) -> Opaque:
    """The sums of all elements up to each one along an axis; without it (``exclusive``), or from the end (``reverse``).

    Integers and bools are added up in 64 bits unless ``dtype`` says otherwise.
    """
    return _accumulated("cumsum", x, axis, exclusive, reverse, dtype, 0, build.add, np.add)


@opaque("cumprod")
def cumprod(
    x: Formal, *, axis: int, exclusive: bool = False, reverse: bool = False, dtype: str | None = None
) -> Opaque:
    """The products of all elements up to each one along an axis; without it (``exclusive``), or from the end (``reverse``).

    Integers and bools are multiplied in 64 bits unless ``dtype`` says otherwise.
    """
    return _accumulated("cumprod", x, axis, exclusive, reverse, dtype, 1, build.mul, np.multiply)


# What is found


@opaque("nonzero_places")
def nonzero_places(x: Formal, *, size: object) -> Opaque:
    """The places of nonzero elements among all, the first ``size`` of them, then -1; and how many there are (a step of nonzero)."""
    bound = as_extent(size)

    def reference(arrays: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> list[Array]:
        found = np.flatnonzero(np.not_equal(arrays[0], 0))
        places = np.full(shapes[0], -1, np.int64)
        places[: len(found)] = found[: len(places)]
        return [places, np.asarray(len(found))]

    def kernel(ib: IRBuilder, operands: Sequence[Buffer], results: Sequence[Buffer], env: DimEnv) -> None:
        (source,), (places, number) = operands, results
        with ib.for_range(0, extent_expr(bound), "k", INT64) as k:
            ib.store(places, _number(-1), [k])
        found = ib.alloc((1,), INT64, scope="local", name="found")
        ib.store(found, _number(0), [0])
        with lanes(ib, x.shape, -1) as place:
            indices = place(_number(0))
            at: Expr = _number(0)
            for extent, index in zip(x.shape, indices, strict=True):
                at = at * extent_expr(extent) + index
            with ib.if_(build.as_bool(_at(source, *indices))):
                with ib.if_(build.lt(_at(found, _number(0)), extent_expr(bound))):
                    ib.store(places, at, [_at(found, _number(0))])
                ib.store(found, _at(found, _number(0)) + 1, [0])
        ib.store(number, _at(found, _number(0)), [])

    types = (TensorType((bound,), INT64), TensorType((), INT64))
    return Opaque("nonzero_places", (x.buffer,), types, reference, kernel)


@op("unravelled")
def unravelled(places: Formal, *, shape: object, fill: int = 0) -> Generic:
    """The indices of places in a tensor of a shape, a row for each axis; ``fill`` for a place of -1 (a step of nonzero)."""
    extents = [extent_expr(as_extent(e)) for e in shape] if isinstance(shape, tuple) else []

    def element(axis: Var, j: Var) -> Expr:
        place = places[j]
        index, rest = _number(0), place
        for n in reversed(range(len(extents))):
            size = build.max_(extents[n], _number(1))
            index = build.select(build.eq(axis, _number(n)), build.floormod(rest, size), index)
            rest = build.floordiv(rest, size)
        return build.select(build.lt(place, _number(0)), _number(fill), index)

    return compute((len(extents), places.shape[0]), element)


@macro("nonzero")
def nonzero(b: GraphBuilder, x: Value, *, size: Extent, fill: int = 0) -> tuple[Value, Value]:
    """The indices of the first ``size`` nonzero elements, a row for each axis, and how many there are in all.

    Columns beyond the count hold ``fill``.
    """
    if not x.shape:
        raise GraphError(f"nonzero: {x.name} has no axes, and no indices", help="reshape it to (1,)")
    places, count = b.ops("nonzero_places", x, size=size)
    return b.op("unravelled", places, shape=x.shape, fill=fill), count


@op("chosen_elements")
def chosen_elements(x: Formal, places: Formal, *, axis: int = 0) -> Generic:
    """The elements along an axis at places, 0 for a place of -1 (a step of compress)."""
    n = axis_of(axis, x.ndim, f"compress: {x.name}")

    def element(*i: Var) -> Expr:
        place = places[i[n]]
        found = x[(*i[:n], place, *i[n + 1 :])]
        return build.if_then_else(build.ge(place, _number(0)), found, const(0, x.dtype))

    return compute((*x.shape[:n], places.shape[0], *x.shape[n + 1 :]), element)


@op("condition_of")
def condition_of(condition: Formal, x: Formal, *, axis: int = 0) -> Generic:
    """A condition for the elements along an axis, of which there are as many or more (a step of compress)."""
    n = axis_of(axis, x.ndim, f"compress: {x.name}")
    if condition.ndim != 1:
        raise GraphError(
            f"compress takes a condition of one axis, got {condition.name} of shape {shown(condition.shape)}"
        )
    given, have = condition.shape[0], x.shape[n]
    least = as_extent(build.min_(extent_expr(given), extent_expr(have)))
    same_extent(least, given, f"compress: axis {n} of {x.name} has {have} elements, and {condition.name} has {given}")
    return compute((given,), lambda i: build.as_bool(condition[i]))


@macro("compress")
def compress(
    b: GraphBuilder, condition: Value, x: Value, *, size: Extent, axis: int | None = None
) -> tuple[Value, Value]:
    """The first ``size`` elements along an axis (None: of all) where a condition holds, and for how many it does in all.

    Behind them stand zeros.
    """
    flat = x if axis is not None else b.op("reshape", x, shape=(-1,))
    along = 0 if axis is None else axis
    places, count = b.ops("nonzero_places", b.op("condition_of", condition, flat, axis=along), size=size)
    return b.op("chosen_elements", flat, places, axis=along), count


@op("begins_run")
def begins_run(x: Formal) -> Generic:
    """Whether an element differs from the one before it; NaN does not from NaN (a step of unique)."""

    def element(i: Var) -> Expr:
        here, before = x[i], x[i - 1]
        differs = build.ne(_key(here), _key(before))
        if x.dtype.is_float:
            both = build.logical_and(build.call("tir.isnan", _key(here)), build.call("tir.isnan", _key(before)))
            differs = build.logical_and(differs, build.logical_not(both))
        return build.if_then_else(build.ge(i, _number(1)), differs, const(True, BOOL))

    return compute(x.shape, element)


@op("run_lengths")
def run_lengths(places: Formal, x: Formal, *, size: object) -> Generic:
    """How far it is from each place to the next one, from the last to the end of a tensor (a step of unique)."""
    bound, whole = as_extent(size), extent_expr(x.shape[0])

    def element(j: Var) -> Expr:
        here, behind = places[j], places[j + 1]
        end = build.select(build.lt(behind, _number(0)), whole, behind)
        return build.select(build.lt(here, _number(0)), _number(0), end - here)

    return compute((bound,), element)


@macro("unique")
def unique(b: GraphBuilder, x: Value, *, size: Extent) -> tuple[Value, Value, Value, Value, Value]:
    """The ``size`` least of the different values in order; what goes with them, and how many there are in all.

    Beside the values stand the place of the first of each among all elements, for each element which value it has, and
    for each value how often it is there. Behind the values, places and numbers stand zeros. All NaNs are one value.
    """
    flat = b.op("reshape", x, shape=(-1,))
    order = b.op("argsort", flat)
    ordered = b.op("gather", flat, order)
    begins = b.op("begins_run", ordered)
    places, count = b.ops("nonzero_places", begins, size=as_extent(size) + 1)
    first = b.op("leading", places, count=size, axis=0)
    rank = b.op("subtract", b.op("cumsum", begins, axis=0), 1)
    inverse = b.op("reshape", b.op("gather", rank, b.op("argsort", order)), shape=x.shape)
    return (
        b.op("chosen_elements", ordered, first),
        b.op("chosen_elements", order, first),
        inverse,
        b.op("run_lengths", places, ordered, size=size),
        count,
    )
