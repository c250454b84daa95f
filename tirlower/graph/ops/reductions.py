"""Values combined along axes: ``axis`` is one, several, or None for all of them; ``keepdims`` keeps them with extent 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from tirlower.graph.core.dims import Extent, Shape, extent_expr
from tirlower.graph.core.extents import shown
from tirlower.graph.core.nodes import Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.compute import (
    Combine,
    Formal,
    P,
    Reduction,
    accumulator,
    compute,
    greatest,
    least,
    max_over,
    min_over,
    prod_over,
    reduce_over,
    sum_over,
)
from tirlower.graph.ops.elementwise import as_float
from tirlower.graph.ops.generic import Generic
from tirlower.graph.ops.registry import macro, op
from tirlower.ir import Expr, Var, build
from tirlower.ir.constants import const
from tirlower.ir.dtype import BOOL, FLOAT64, INT64, DataType

if TYPE_CHECKING:
    from tirlower.graph.ops.builder import GraphBuilder

__all__ = ["Axes", "Over", "Term", "any_over", "axes_of", "axis_of", "count", "divided", "extreme", "sum_dtype"]

Axes: TypeAlias = "int | Sequence[int] | None"


class Term(Protocol):
    """The value that stands at indices."""

    def __call__(self, *at: Var) -> Expr:
        """The value."""


Over: TypeAlias = "Callable[[object, Term], Reduction]"


def axis_of(axis: object, rank: int, what: str) -> int:
    """An axis counted from the front. Raises :class:`GraphError` for one that a tensor of that many axes lacks."""
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise GraphError(f"{what}: an axis is an integer, got {axis!r}")
    if not -rank <= axis < rank:
        raise GraphError(
            f"{what} has {rank} axes, there is no axis {axis}",
            help=f"axes are numbered from {-rank} to {rank - 1}" if rank else "it has one element",
        )
    return axis % rank


def axes_of(axes: Axes, rank: int, what: str) -> tuple[int, ...]:
    """Axes counted from the front, sorted; all of them for None. Raises :class:`GraphError`, also for one named twice.

    >>> axes_of((-1, 0), 3, "x"), axes_of(None, 2, "x")
    ((0, 2), (0, 1))
    """
    if axes is None:
        return tuple(range(rank))
    given = axes if isinstance(axes, Sequence) else (axes,)
    found = sorted(axis_of(axis, rank, what) for axis in given)
    if len(set(found)) != len(found):
        raise GraphError(f"{what}: an axis is named twice in {tuple(given)}")
    return tuple(found)


def _reduced(
    x: Formal, axes: tuple[int, ...], keepdims: bool
) -> tuple[Shape, Callable[[Sequence[Var], Sequence[Var]], tuple[Expr, ...]]]:
    """The shape that is left, and the function from the indices of it and of the axes to those of the operand."""
    shape = tuple(1 if n in axes else e for n, e in enumerate(x.shape) if keepdims or n not in axes)

    def place(outer: Sequence[Var], inner: Sequence[Var]) -> tuple[Expr, ...]:
        left, gone = list(outer), list(inner)
        at: list[Expr] = []
        for n in range(x.ndim):
            if n in axes:
                at.append(gone.pop(0))
                del left[: int(keepdims)]
            else:
                at.append(left.pop(0))
        return tuple(at)

    return shape, place


def _reduce(
    x: Formal,
    name: str,
    axis: Axes,
    keepdims: bool,
    over: Over,
    term: Callable[[Expr], Expr],
    dtype: DataType | None = None,
) -> Generic:
    axes = axes_of(axis, x.ndim, f"{name}: {x.name}")
    shape, place = _reduced(x, axes, keepdims)
    if not axes:  # nothing is combined: each element by itself
        return compute(shape, lambda *i: term(x[i]), dtype)
    extents = tuple(x.shape[n] for n in axes)
    return compute(shape, lambda *i: over(extents, lambda *r: term(x[place(i, r)])), dtype)


def sum_dtype(x: Formal, dtype: str | None) -> DataType:
    """What NumPy adds up in: integers and bools in 64 bits."""
    if dtype is not None:
        return DataType(dtype)
    if x.dtype.is_uint:
        return DataType("uint64")
    return INT64 if x.dtype.is_integral else x.dtype


def _added(name: str, x: Formal, axis: Axes, keepdims: bool, dtype: DataType, term: Callable[[Expr], Expr]) -> Generic:
    return _reduce(x, name, axis, keepdims, sum_over, lambda v: term(v.astype(accumulator(dtype))), dtype)


@op("sum")
def sum_(x: Formal, *, axis: Axes = None, keepdims: bool = False, dtype: str | None = None) -> Generic:
    """The sum; of integers and bools in 64 bits unless ``dtype`` says otherwise."""
    return _added("sum", x, axis, keepdims, sum_dtype(x, dtype), lambda v: v)


@op("prod")
def prod(x: Formal, *, axis: Axes = None, keepdims: bool = False, dtype: str | None = None) -> Generic:
    """The product; of integers and bools in 64 bits unless ``dtype`` says otherwise."""
    kind = sum_dtype(x, dtype)
    return _reduce(x, "prod", axis, keepdims, prod_over, lambda v: v.astype(accumulator(kind)), kind)


@op("sum_square")
def sum_square(x: Formal, *, axis: Axes = None, keepdims: bool = False) -> Generic:
    """The sum of squares, in the operand's dtype."""
    return _added("sum_square", x, axis, keepdims, x.dtype, lambda v: v * v)


@op("l1")
def l1(x: Formal, *, axis: Axes = None, keepdims: bool = False) -> Generic:
    """The sum of absolute values, in the operand's dtype."""
    return _added("l1", x, axis, keepdims, x.dtype, build.abs_)


@op("max")
def max_(x: Formal, *, axis: Axes = None, keepdims: bool = False) -> Generic:
    """The greatest value; NaN if there is one; of none the least of the dtype."""
    return _reduce(x, "max", axis, keepdims, max_over, lambda v: v)


@op("min")
def min_(x: Formal, *, axis: Axes = None, keepdims: bool = False) -> Generic:
    """The least value; NaN if there is one; of none the greatest of the dtype."""
    return _reduce(x, "min", axis, keepdims, min_over, lambda v: v)


def any_over(extents: object, body: Callable[P, Expr]) -> Reduction:
    """Whether one of the values over all indices is true."""
    return reduce_over(extents, body, lambda x, y: [build.logical_or(x[0], y[0])], [const(False, BOOL)])


def _all_over(extents: object, body: Callable[P, Expr]) -> Reduction:
    return reduce_over(extents, body, lambda x, y: [build.logical_and(x[0], y[0])], [const(True, BOOL)])


@op("any")
def any_(x: Formal, *, axis: Axes = None, keepdims: bool = False) -> Generic:
    """Whether one value is nonzero."""
    return _reduce(x, "any", axis, keepdims, any_over, build.as_bool)


@op("all")
def all_(x: Formal, *, axis: Axes = None, keepdims: bool = False) -> Generic:
    """Whether no value is zero."""
    return _reduce(x, "all", axis, keepdims, _all_over, build.as_bool)


# Extremes and where they stand


def extreme(last: bool, upward: bool) -> Combine:
    """Of two pairs of a value and its place the greater (or lesser) one; NaN before all, of equals the first (or last)."""
    better = build.gt if upward else build.lt
    nearer = build.ge if last else build.le

    def wins(x: tuple[Var, ...], y: tuple[Var, ...]) -> Expr:
        """Whether the left pair of a value and its place is chosen; NaN wins, ties go to the first place."""
        tie = build.logical_and(build.eq(x[0], y[0]), nearer(x[1], y[1]))
        ahead = build.logical_or(better(x[0], y[0]), tie)
        if not x[0].dtype.is_float:
            return ahead
        left, right = build.call("tir.isnan", x[0]), build.call("tir.isnan", y[0])
        both = build.logical_and(left, build.logical_or(build.logical_not(right), nearer(x[1], y[1])))
        return build.logical_or(both, build.logical_and(build.logical_not(right), ahead))

    def combine(x: tuple[Var, ...], y: tuple[Var, ...]) -> list[Expr]:
        chosen = wins(x, y)
        return [build.select(chosen, a, b) for a, b in zip(x, y, strict=True)]

    return combine


def _extreme(x: Formal, name: str, axis: Axes, keepdims: bool, last: bool, upward: bool) -> Generic:
    axes = axes_of(axis, x.ndim, f"{name}: {x.name}")
    if any(isinstance(x.shape[n], int) and x.shape[n] == 0 for n in axes):
        raise GraphError(f"{name}: {x.name} of shape {shown(x.shape)} has no element along the axes {axes}")
    shape, place = _reduced(x, axes, keepdims)

    def element(*i: Var) -> Reduction | tuple[Expr, ...]:
        def term(*r: Var) -> tuple[Expr, ...]:
            at: Expr = const(0, INT64)
            for n, var in zip(axes, r, strict=True):
                at = at * extent_expr(x.shape[n]) + var
            return x[place(i, r)], at

        if not axes:
            return term()
        start = (least if upward else greatest)(x.dtype)
        nowhere = const(-1 if last else INT64.max_value, INT64)
        return reduce_over(tuple(x.shape[n] for n in axes), term, extreme(last, upward), [start, nowhere])

    return compute(shape, element)


@op("max_with_index")
def max_with_index(x: Formal, *, axis: Axes = None, keepdims: bool = False, last: bool = False) -> Generic:
    """The greatest value and its index along the axes; the first one of equals (or the ``last``), NaN before all."""
    return _extreme(x, "max_with_index", axis, keepdims, last, True)


@op("min_with_index")
def min_with_index(x: Formal, *, axis: Axes = None, keepdims: bool = False, last: bool = False) -> Generic:
    """The least value and its index along the axes; the first one of equals (or the ``last``), NaN before all."""
    return _extreme(x, "min_with_index", axis, keepdims, last, False)


@macro("argmax")
def argmax(b: GraphBuilder, x: Value, *, axis: Axes = None, keepdims: bool = False, last: bool = False) -> Value:
    """The index of the greatest value; the first one of equals (or the ``last``), NaN before all."""
    return b.ops("max_with_index", x, axis=axis, keepdims=keepdims, last=last)[1]


@macro("argmin")
def argmin(b: GraphBuilder, x: Value, *, axis: Axes = None, keepdims: bool = False, last: bool = False) -> Value:
    """The index of the least value; the first one of equals (or the ``last``), NaN before all."""
    return b.ops("min_with_index", x, axis=axis, keepdims=keepdims, last=last)[1]


# Means and what else takes more than one step


@op("dim_value")
def dim_value(*, value: Extent, dtype: str = "int64") -> Generic:
    """A number that is known when the graph is called: an expression of dims, as a scalar."""
    return compute((), lambda: extent_expr(value).astype(DataType(dtype)))


def count(b: GraphBuilder, x: Value, axes: Sequence[int], dtype: DataType, less: int = 0) -> Value | float:
    """How many elements there are along axes (less so many, at least 0): a number, or a scalar of a dtype."""
    found: Extent = 1
    for n in axes:
        found = found * x.shape[n]
    if isinstance(found, int):
        return float(max(0, found - less))
    return b.op("dim_value", value=build.max_(found - less, const(0, INT64)) if less else found, dtype=str(dtype))


def divided(b: GraphBuilder, total: Value, number: Value | float) -> Value:
    """A sum divided by a count."""
    return b.op("divide", total, number)


def _wide(b: GraphBuilder, x: Value) -> tuple[Value, DataType]:
    """A value in the dtype in which means are taken, and the dtype of the mean."""
    kind = x.dtype if x.dtype.is_float else FLOAT64
    wide = accumulator(kind)
    return x if x.dtype is wide else b.op("cast", x, dtype=str(wide)), kind


def _narrow(b: GraphBuilder, x: Value, kind: DataType) -> Value:
    return x if x.dtype is kind else b.op("cast", x, dtype=str(kind))


def _mean(b: GraphBuilder, x: Value, axes: tuple[int, ...], keepdims: bool) -> Value:
    return divided(b, b.op("sum", x, axis=axes, keepdims=keepdims), count(b, x, axes, x.dtype))


@macro("mean")
def mean(b: GraphBuilder, x: Value, *, axis: Axes = None, keepdims: bool = False) -> Value:
    """The sum divided by the number of elements; of integers in float64."""
    axes = axes_of(axis, len(x.shape), f"mean: {x.name}")
    wide, kind = _wide(b, x)
    return _narrow(b, _mean(b, wide, axes, keepdims), kind)


def _variance(b: GraphBuilder, x: Value, axis: Axes, keepdims: bool, correction: int) -> Value:
    axes = axes_of(axis, len(x.shape), f"var: {x.name}")
    away = b.op("subtract", x, _mean(b, x, axes, True))
    total = b.op("sum_square", away, axis=axes, keepdims=keepdims)
    return divided(b, total, count(b, x, axes, x.dtype, correction))


@macro("var")
def var(b: GraphBuilder, x: Value, *, axis: Axes = None, keepdims: bool = False, correction: int = 0) -> Value:
    """The mean square of the distance from the mean; ``correction`` is taken off the number of elements."""
    wide, kind = _wide(b, x)
    return _narrow(b, _variance(b, wide, axis, keepdims, correction), kind)


@macro("std")
def std(b: GraphBuilder, x: Value, *, axis: Axes = None, keepdims: bool = False, correction: int = 0) -> Value:
    """The square root of the variance."""
    wide, kind = _wide(b, x)
    return _narrow(b, b.op("sqrt", _variance(b, wide, axis, keepdims, correction)), kind)


@macro("l2")
def l2(b: GraphBuilder, x: Value, *, axis: Axes = None, keepdims: bool = False) -> Value:
    """The square root of the sum of squares, in the operand's dtype."""
    found = x if x.dtype.is_float else b.op("cast", x, dtype=str(as_float(x.dtype)))
    wide, _ = _wide(b, found)
    root = b.op("sqrt", b.op("sum_square", wide, axis=axis, keepdims=keepdims))
    return _narrow(b, root, x.dtype)


@macro("log_sum")
def log_sum(b: GraphBuilder, x: Value, *, axis: Axes = None, keepdims: bool = False) -> Value:
    """The logarithm of the sum."""
    return b.op("log", b.op("sum", x, axis=axis, keepdims=keepdims))


@macro("logsumexp")
def logsumexp(b: GraphBuilder, x: Value, *, axis: Axes = None, keepdims: bool = False) -> Value:
    """The logarithm of the sum of exponentials, without leaving the range of the dtype on the way."""
    axes = axes_of(axis, len(x.shape), f"logsumexp: {x.name}")
    wide, kind = _wide(b, x)
    top = b.op("max", wide, axis=axes, keepdims=True)
    base = b.op("where", b.op("isfinite", top), top, 0.0)
    total = b.op("sum", b.op("exp", b.op("subtract", wide, base)), axis=axes, keepdims=True)
    found = b.op("add", b.op("log", total), base)
    if not keepdims:
        found = b.op("squeeze", found, axis=axes)
    return _narrow(b, found, kind)
