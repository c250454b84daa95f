"""Elements replaced where indices that are data say: a copy, and the updates put into it one by one, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np

from tirlower.graph.core.dims import DimEnv, Shape, extent_expr, same_extent
from tirlower.graph.core.extents import shown
from tirlower.graph.core.nodes import TensorType
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.compute import Formal, greater, lesser
from tirlower.graph.ops.indexing import integers, place
from tirlower.graph.ops.opaque import Opaque
from tirlower.graph.ops.reductions import axis_of
from tirlower.graph.ops.registry import opaque
from tirlower.ir import Buffer, BufferLoad, Expr, IRBuilder, Var, build
from tirlower.ir.constants import const
from tirlower.ir.dtype import INT64, Array

__all__ = []

_Combined = Callable[[Expr, Expr], Expr]
_Where = Callable[[tuple[Var, ...], Buffer], tuple[Expr, ...]]
"""The place in the result of the update at some indices, from the buffer of indices."""


def _sum(a: Expr, b: Expr) -> Expr:
    return build.logical_or(a, b) if a.dtype.is_bool else build.add(a, b)


def _product(a: Expr, b: Expr) -> Expr:
    return build.logical_and(a, b) if a.dtype.is_bool else build.mul(a, b)


_REDUCTIONS: dict[str, tuple[_Combined, np.ufunc | None]] = {
    "none": (lambda old, new: new, None),
    "add": (_sum, np.add),
    "mul": (_product, np.multiply),
    "max": (greater, np.maximum),
    "min": (lesser, np.minimum),
}
"""How an element meets an update, in machine code and in NumPy; without a function of NumPy it takes its place."""


def _checked(name: str, x: Formal, indices: Formal, updates: Formal, reduction: str) -> None:
    integers(name, indices)
    if updates.dtype is not x.dtype:
        raise GraphError(f"{name}: {updates.name} is of {updates.dtype!s}, {x.name} of {x.dtype!s}")
    if reduction not in _REDUCTIONS:
        raise GraphError(f"{name} has the reductions {', '.join(_REDUCTIONS)}, got {reduction!r}")


@contextmanager
def _loops(ib: IRBuilder, shape: Shape) -> Iterator[tuple[Var, ...]]:
    with ExitStack() as stack:
        yield tuple(
            stack.enter_context(ib.for_range(0, extent_expr(extent), f"i{n}", "int64"))
            for n, extent in enumerate(shape)
        )


def _scattered(
    name: str,
    operands: tuple[Formal, Formal, Formal],
    reduction: str,
    where: _Where,
    numpy: Callable[[Array], tuple[Array, ...]],
) -> Opaque:
    """The operation, from where each update goes, as expressions and as index arrays of NumPy."""
    x, indices, updates = operands
    combined, ufunc = _REDUCTIONS[reduction]

    def reference(arrays: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> list[Array]:
        made, at, new = arrays[0].copy(), numpy(arrays[1]), arrays[2]
        if not at:  # tuples of no index name the whole operand
            for one in new.reshape(-1, *made.shape) if new.size else ():
                made = one if ufunc is None else np.asarray(ufunc(made, one))
            return [made]
        try:
            if ufunc is None:
                made[at] = new  # of equal places the last one is in force
            else:
                ufunc.at(made, at, new)  # type: ignore[arg-type]  # a tuple of arrays is an index
        except IndexError as error:
            raise GraphError(f"{name}: {x.name} is written outside its bounds: {error}") from None
        return [made]

    def kernel(ib: IRBuilder, given: Sequence[Buffer], results: Sequence[Buffer], env: DimEnv) -> None:
        (source, places, new), (out,) = given, results
        with _loops(ib, x.shape) as i:
            ib.store(out, BufferLoad(source, i), i)
        with _loops(ib, updates.shape) as j:
            at = where(j, places)
            ib.store(out, combined(BufferLoad(out, at), BufferLoad(new, j)), at)

    result = TensorType(x.shape, x.dtype)
    return Opaque(name, (x.buffer, indices.buffer, updates.buffer), (result,), reference, kernel)


@opaque("scatter_elements")
def scatter_elements(x: Formal, indices: Formal, updates: Formal, *, axis: int = 0, reduction: str = "none") -> Opaque:
    """The operand with each update put (or added, multiplied, …) at its own place but along an axis, where the index says."""
    _checked("scatter_elements", x, indices, updates, reduction)
    n = axis_of(axis, x.ndim, f"scatter_elements: {x.name}")
    if not x.ndim == indices.ndim == updates.ndim:
        raise GraphError(
            f"scatter_elements: {x.name}, {indices.name} and {updates.name} have {x.ndim}, {indices.ndim} and {updates.ndim} axes"
        )
    for m, (a, b) in enumerate(zip(indices.shape, updates.shape, strict=True)):
        same_extent(a, b, f"scatter_elements: axis {m} of {indices.name} and {updates.name} differ")
        have = x.shape[m]
        if m != n and isinstance(have, int) and isinstance(a, int) and a > have:
            raise GraphError(f"scatter_elements: axis {m} of {indices.name} has {a} elements, {x.name} has {have}")

    def where(j: tuple[Var, ...], places: Buffer) -> tuple[Expr, ...]:
        return (*j[:n], place(BufferLoad(places, j), x.shape[n]), *j[n + 1 :])

    def numpy(at: Array) -> tuple[Array, ...]:
        grid = np.ogrid[tuple(slice(0, size) for size in at.shape)]
        return (*grid[:n], at, *grid[n + 1 :])

    return _scattered("scatter_elements", (x, indices, updates), reduction, where, numpy)


@opaque("scatter_nd")
def scatter_nd(x: Formal, indices: Formal, updates: Formal, *, reduction: str = "none") -> Opaque:
    """The operand with updates put (or added, multiplied, …) at tuples of indices, the last one of equals in force."""
    _checked("scatter_nd", x, indices, updates, reduction)
    depth = indices.shape[-1] if indices.ndim else None
    if not isinstance(depth, int) or depth > x.ndim:
        raise GraphError(
            f"scatter_nd: the last axis of {indices.name}, of shape {shown(indices.shape)}, does not index {x.name}"
        )
    outer = indices.ndim - 1
    wanted = (*indices.shape[:-1], *x.shape[depth:])
    if len(wanted) != updates.ndim:
        raise GraphError(f"scatter_nd: {updates.name} has the shape {shown(wanted)}, got {shown(updates.shape)}")
    for m, (a, b) in enumerate(zip(wanted, updates.shape, strict=True)):
        same_extent(a, b, f"scatter_nd: axis {m} of {updates.name} is not as the indices say")

    def where(j: tuple[Var, ...], places: Buffer) -> tuple[Expr, ...]:
        tuples = [BufferLoad(places, (*j[:outer], const(k, INT64))) for k in range(depth)]
        return (*(place(index, x.shape[k]) for k, index in enumerate(tuples)), *j[outer:])

    def numpy(at: Array) -> tuple[Array, ...]:
        return tuple(at[..., k] for k in range(depth))

    return _scattered("scatter_nd", (x, indices, updates), reduction, where, numpy)
