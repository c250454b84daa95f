"""What windows of an image come to: their greatest element, their mean, a norm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tirlower.graph.core.dims import extent_expr
from tirlower.graph.core.extents import shown
from tirlower.graph.core.nodes import Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.compute import Formal, Reduction, accumulator, compute, least, max_over, reduce_over, sum_over
from tirlower.graph.ops.convolution import Window, windows
from tirlower.graph.ops.elementwise import floats
from tirlower.graph.ops.generic import Generic
from tirlower.graph.ops.reductions import Over, extreme
from tirlower.graph.ops.registry import macro, op
from tirlower.ir import Expr, Var, build
from tirlower.ir.constants import const
from tirlower.ir.dtype import INT64, DataType

if TYPE_CHECKING:
    from tirlower.graph.ops.builder import GraphBuilder

__all__ = []

Ints = Sequence[int]


def _over(
    name: str, x: Formal, kernel: Ints, strides: Ints | None, pads: Ints | None, dilations: Ints | None
) -> list[Window]:
    if x.ndim < 3:
        raise GraphError(f"{name} takes (batch, channels, …), got {x.name} of shape {shown(x.shape)}")
    return windows(name, x.shape[2:], tuple(kernel), strides, pads, dilations)


def _pooled(
    x: Formal,
    over: list[Window],
    ceil_mode: bool,
    combine: Over,
    term: Callable[[Expr], Expr],
    outside: Expr,
    dtype: DataType,
) -> Generic:
    """The elements under each place of the windows combined; ``outside`` stands where there is none."""

    def element(n: Var, c: Var, *place: Var) -> Reduction:
        def value(*offset: Var) -> Expr:
            at = [window.at(p, o) for window, p, o in zip(over, place, offset, strict=True)]
            inside = [test for window, index in zip(over, at, strict=True) for test in window.inside(index, ceil_mode)]
            found = term(x[(n, c, *at)])
            return build.if_then_else(build.all_of(*inside), found, outside) if inside else found

        return combine(tuple(window.size for window in over), value)

    return compute((*x.shape[:2], *(window.places(ceil_mode) for window in over)), element, dtype)


@op("max_pool")
def max_pool(
    x: Formal,
    *,
    kernel: Ints,
    strides: Ints | None = None,
    pads: Ints | None = None,
    dilations: Ints | None = None,
    ceil_mode: bool = False,
) -> Generic:
    """The greatest element under each place of a window; what is added around counts for nothing."""
    over = _over("max_pool", x, kernel, strides, pads, dilations)
    return _pooled(x, over, ceil_mode, max_over, lambda v: v, least(x.dtype), x.dtype)


@op("max_pool_with_index")
def max_pool_with_index(
    x: Formal,
    *,
    kernel: Ints,
    strides: Ints | None = None,
    pads: Ints | None = None,
    dilations: Ints | None = None,
    ceil_mode: bool = False,
    columns_first: bool = False,
) -> Generic:
    """The greatest element under each place of a window, and its place in the whole tensor; the first one of equals.

    With ``columns_first`` the elements of an image are counted with its first axis as the fastest.
    """
    over = _over("max_pool_with_index", x, kernel, strides, pads, dilations)
    extents = [extent_expr(e) for e in x.shape]

    def element(n: Var, c: Var, *place: Var) -> Reduction:
        def pair(*offset: Var) -> tuple[Expr, Expr]:
            at = [window.at(p, o) for window, p, o in zip(over, place, offset, strict=True)]
            inside = [test for window, index in zip(over, at, strict=True) for test in window.inside(index, ceil_mode)]
            number: Expr = n * extents[1] + c
            for extent in extents[2:]:
                number = number * extent
            image = list(zip(extents[2:], at, strict=True))
            within: Expr = const(0, INT64)
            for extent, index in reversed(image) if columns_first else image:
                within = within * extent + index
            number = number + within
            value, nowhere = x[(n, c, *at)], const(INT64.max_value, INT64)
            if not inside:
                return value, number
            here = build.all_of(*inside)
            return build.if_then_else(here, value, least(x.dtype)), build.select(here, number, nowhere)

        start = [least(x.dtype), const(INT64.max_value, INT64)]
        return reduce_over(tuple(window.size for window in over), pair, extreme(False, True), start)

    return compute((*x.shape[:2], *(window.places(ceil_mode) for window in over)), element)


@op("sum_pool")
def sum_pool(
    x: Formal,
    *,
    kernel: Ints,
    strides: Ints | None = None,
    pads: Ints | None = None,
    dilations: Ints | None = None,
    ceil_mode: bool = False,
    power: float = 1,
) -> Generic:
    """The sum of the elements under each place of a window, or of a power of their absolute values; in float32 at least."""
    over = _over("sum_pool", x, kernel, strides, pads, dilations)
    wide = accumulator(floats("sum_pool", x))

    def term(value: Expr) -> Expr:
        value = value.astype(wide)
        if power == 1:
            return value
        return value * value if power == 2 else build.call("tir.pow", build.abs_(value), const(power, wide))

    return _pooled(x, over, ceil_mode, sum_over, term, const(0, wide), wide)


@op("pool_count")
def pool_count(
    x: Formal,
    *,
    kernel: Ints,
    strides: Ints | None = None,
    pads: Ints | None = None,
    dilations: Ints | None = None,
    ceil_mode: bool = False,
    include_pad: bool = False,
) -> Generic:
    """How many elements stand under each place of a window; with ``include_pad`` those that are added around too."""
    over = _over("pool_count", x, kernel, strides, pads, dilations)
    wide = accumulator(floats("pool_count", x))

    def element(*place: Var) -> Reduction:
        def value(*offset: Var) -> Expr:
            tests: list[Expr] = []
            for window, p, o in zip(over, place, offset, strict=True):
                at = window.at(p, o)
                if include_pad:
                    tests += [build.lt(at, extent_expr(window.extent) + window.after)] if ceil_mode else []
                else:
                    tests += window.inside(at, ceil_mode)
            return build.all_of(*tests).astype(wide)

        return sum_over(tuple(window.size for window in over), value)

    return compute(tuple(window.places(ceil_mode) for window in over), element, wide)


@macro("average_pool")
def average_pool(
    b: GraphBuilder,
    x: Value,
    *,
    kernel: Ints,
    strides: Ints | None = None,
    pads: Ints | None = None,
    dilations: Ints | None = None,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Value:
    """The mean of the elements under each place of a window; what is added around counts if ``count_include_pad``."""
    where = {"kernel": tuple(kernel), "strides": strides, "pads": pads, "dilations": dilations, "ceil_mode": ceil_mode}
    total = b.op("sum_pool", x, **where)
    whole = 1
    for size in kernel:
        whole *= size
    if not ceil_mode and (count_include_pad or not any(pads or ())):
        found = b.op("divide", total, float(whole))
    else:
        found = b.op("divide", total, b.op("pool_count", x, **where, include_pad=count_include_pad))
    return found if found.dtype is x.dtype else b.op("cast", found, dtype=str(x.dtype))


@macro("lp_pool")
def lp_pool(
    b: GraphBuilder,
    x: Value,
    *,
    kernel: Ints,
    p: float = 2,
    strides: Ints | None = None,
    pads: Ints | None = None,
    dilations: Ints | None = None,
    ceil_mode: bool = False,
) -> Value:
    """The p-norm of the elements under each place of a window."""
    where = {"kernel": tuple(kernel), "strides": strides, "pads": pads, "dilations": dilations, "ceil_mode": ceil_mode}
    return _root(b, b.op("sum_pool", b.op("abs", x), **where, power=p), p, x)


def _root(b: GraphBuilder, total: Value, p: float, x: Value) -> Value:
    root = total if p == 1 else b.op("sqrt", total) if p == 2 else b.op("power", total, 1 / p)
    return root if root.dtype is x.dtype else b.op("cast", root, dtype=str(x.dtype))


def _spatial(name: str, x: Value) -> tuple[int, ...]:
    if len(x.shape) < 3:
        raise GraphError(f"{name} takes (batch, channels, …), got {x.name} of shape {shown(x.shape)}")
    return tuple(range(2, len(x.shape)))


@macro("global_max_pool")
def global_max_pool(b: GraphBuilder, x: Value) -> Value:
    """The greatest element of each channel."""
    return b.op("max", x, axis=_spatial("global_max_pool", x), keepdims=True)


@macro("global_average_pool")
def global_average_pool(b: GraphBuilder, x: Value) -> Value:
    """The mean of each channel."""
    return b.op("mean", x, axis=_spatial("global_average_pool", x), keepdims=True)


@macro("global_lp_pool")
def global_lp_pool(b: GraphBuilder, x: Value, *, p: float = 2) -> Value:
    """The p-norm of each channel."""
    axes = _spatial("global_lp_pool", x)
    if p in (1, 2):
        return b.op("l1" if p == 1 else "l2", x, axis=axes, keepdims=True)
    return _root(b, b.op("sum", b.op("power", b.op("abs", x), float(p)), axis=axes, keepdims=True), p, x)
