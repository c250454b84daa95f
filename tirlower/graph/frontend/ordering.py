"""NumPy's functions of order and of what is found: other signatures than those of the operations.

How many elements a condition holds for is known when the graph runs. Where NumPy's result would have so many, ``size=``
says how many there are room for, and the true count is given beside the result.

>>> import tirlower.graph as tg
>>> def places(x):
...     return tg.xp.flatnonzero(x > 0, size=3)
>>> g = tg.trace(places, tg.spec((4,), "float32"))
>>> [r.tolist() for r in tg.interpret(g, np.array([0, 2, -1, 5], "float32"))]
[[1, 3, -1], 2]
"""

from __future__ import annotations

from typing import NoReturn, cast

import numpy as np

from tirlower.graph.core.dims import Extent, as_extent
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.arguments import dtype_name
from tirlower.graph.frontend.functions import ravel, shape
from tirlower.graph.frontend.operands import TensorLike, result_of
from tirlower.graph.frontend.recording import current, place
from tirlower.graph.frontend.tensor import Tensor, apply

__all__ = [
    "argsort",
    "compress",
    "cumprod",
    "cumsum",
    "flatnonzero",
    "nonzero",
    "sort",
    "unique",
]


def _several(name: str, *args: object, **kwargs: object) -> tuple[TensorLike, ...]:
    found = apply(name, *args, **kwargs)
    assert isinstance(found, tuple), f"{name} has several results"
    return tuple(one if isinstance(one, Tensor) else np.asarray(one) for one in found)


def _ordered(name: str, a: object, axis: object, kind: object, order: object, descending: bool) -> TensorLike:
    if order is not None:
        raise GraphError(f"{name} at {place()} takes no order= with tensors of a graph", help="there are no fields")
    if kind not in (None, "quicksort", "stable", "mergesort", "heapsort"):
        raise GraphError(f"{name} at {place()} got kind={kind!r}", help="every kind is stable here: leave it out")
    x = ravel(a) if axis is None else a
    return result_of(name, x, axis=-1 if axis is None else axis, descending=descending)


def sort(
    a: object,
    axis: object = -1,
    kind: object = None,
    order: object = None,
    *,
    stable: bool | None = None,
    descending: bool = False,
) -> TensorLike:
    """The elements along an axis (None: all of them) in ascending order, NaN behind the numbers."""
    return _ordered("sort", a, axis, kind, order, descending)


def argsort(
    a: object,
    axis: object = -1,
    kind: object = None,
    order: object = None,
    *,
    stable: bool | None = None,
    descending: bool = False,
) -> TensorLike:
    """The places of the elements in order; equal ones keep theirs."""
    return _ordered("argsort", a, axis, kind, order, descending)


def _accumulated(name: str, a: object, axis: object, dtype: object) -> TensorLike:
    x = ravel(a) if axis is None else a
    return result_of(name, x, axis=0 if axis is None else axis, dtype=None if dtype is None else dtype_name(dtype))


def cumsum(a: object, axis: object = None, dtype: object = None) -> TensorLike:
    """The running sum along an axis, or of all elements in one."""
    return _accumulated("cumsum", a, axis, dtype)


def cumprod(a: object, axis: object = None, dtype: object = None) -> TensorLike:
    """The running product along an axis, or of all elements in one."""
    return _accumulated("cumprod", a, axis, dtype)


def _unbounded(name: str, more: str = "") -> NoReturn:
    raise GraphError(
        f"{name} at {place()}: how many elements it finds is known only when the graph runs",
        help=f"say for how many there is room: tg.xp.{name}(…, size=n){more}, which gives their true count too",
    )


def nonzero(a: object, *, size: object = None) -> tuple[TensorLike, ...]:
    """The indices of the first ``size`` nonzero elements, a row for each axis, and how many there are in all.

    Columns beyond the count hold 0. Of arrays alone, and without a size, what NumPy gives.
    """
    if size is None:
        return _unbounded("nonzero") if isinstance(a, Tensor) else np.nonzero(np.asarray(a))
    return _several("nonzero", a, size=as_extent(size))


def flatnonzero(a: object, *, size: object = None) -> TensorLike | tuple[TensorLike, ...]:
    """The places of the first ``size`` nonzero elements among all, then -1, and how many there are in all."""
    if size is None:
        return _unbounded("flatnonzero") if isinstance(a, Tensor) else np.flatnonzero(np.asarray(a))
    return _several("nonzero_places", a, size=as_extent(size))


def compress(
    condition: object, a: object, axis: int | None = None, *, size: object = None
) -> TensorLike | tuple[TensorLike, ...]:
    """The elements along an axis (None: of all) where a condition holds.

    An array as the condition is known now. Of a tensor as the condition, ``size`` says for how many there is room; zeros
    stand behind them, and their true count is given beside.
    """
    if size is not None:
        return _several("compress", condition, a, size=as_extent(size), axis=axis)
    if isinstance(condition, Tensor):
        _unbounded("compress")
    given = np.asarray(condition)
    if given.ndim != 1:
        raise GraphError(f"compress at {place()} takes a condition of one axis, got one of shape {given.shape}")
    x = ravel(a) if axis is None else a
    extent: Extent = shape(x)[axis or 0]
    found = np.flatnonzero(given)
    if len(found) and not _exceeds(extent, int(found[-1])):
        raise GraphError(
            f"compress at {place()}: the condition holds for element {found[-1]}, and the axis has {extent} elements"
        )
    return result_of("gather", x, found, axis=axis or 0)


def _exceeds(extent: Extent, place: int) -> bool:
    """Whether an axis surely has an element of a number."""
    recording = current()
    if isinstance(extent, int):
        return place < extent
    assert recording is not None, "extents of arrays are numbers"
    return recording.builder.env.analyzer.can_prove(extent > place)


def unique(
    ar: object,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
    size: object = None,
) -> TensorLike | tuple[TensorLike, ...]:
    """The ``size`` least of the different values in order, what is asked for beside them, and how many there are in all.

    Zeros stand behind the values. All NaNs are one value.
    """
    if axis is not None or not equal_nan:
        raise GraphError(f"unique at {place()} takes neither axis= nor equal_nan=False with tensors of a graph")
    if size is None:
        if isinstance(ar, Tensor):
            _unbounded("unique")
        flags = {"return_index": return_index, "return_inverse": return_inverse, "return_counts": return_counts}
        return cast("TensorLike | tuple[TensorLike, ...]", np.unique(np.asarray(ar), **flags))  # type: ignore[call-overload]
    values, index, inverse, counts, count = _several("unique", ar, size=as_extent(size))
    wanted = ((index, return_index), (inverse, return_inverse), (counts, return_counts))
    return (values, *(one for one, asked in wanted if asked), count)
