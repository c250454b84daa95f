"""Operands of the functions on tensors: tensors or arrays, their axes and their extents."""

from __future__ import annotations

import operator
from typing import TypeAlias

import numpy as np

from tirlower.graph.core.dims import Extent, Shape
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.recording import current, place
from tirlower.graph.frontend.tensor import Tensor, apply
from tirlower.ir.dtype import Array

__all__ = ["TensorLike", "as_tensor", "axes_of", "axis_of", "extents_of", "result_of", "simplest"]

TensorLike: TypeAlias = "Tensor | Array"


def as_tensor(given: object) -> TensorLike:
    """A tensor or an array from anything that NumPy takes for one."""
    if isinstance(given, Tensor):
        given.value  # noqa: B018  # a spec is refused
        return given
    return np.asarray(given)


def result_of(name: str, *args: object, **kwargs: object) -> TensorLike:
    """The one result of an operation."""
    found = apply(name, *args, **kwargs)
    assert isinstance(found, (Tensor, np.ndarray, np.generic)), f"{name} has one result"
    return found if isinstance(found, Tensor) else np.asarray(found)


def simplest(extent: Extent) -> Extent:
    """An extent in its simplest form, by what is known in the trace."""
    recording = current()
    return extent if recording is None else recording.builder.env.simplify(extent)


def axis_of(axis: object, rank: int, what: str) -> int:
    """An axis counted from the front."""
    number = operator.index(axis)  # type: ignore[arg-type]  # refused by operator
    if not -rank <= number < rank:
        raise GraphError(f"axis {number} of {what} at {place()} is outside: there are {rank} axes")
    return number % rank


def axes_of(axis: object, rank: int, what: str) -> tuple[int, ...]:
    """One axis or several, each counted from the front."""
    several = axis if isinstance(axis, (tuple, list)) else (axis,)
    return tuple(axis_of(a, rank, what) for a in several)


def extents_of(x: TensorLike) -> Shape:
    """The extents as the graph has them."""
    return x.known_shape if isinstance(x, Tensor) else tuple(x.shape)
