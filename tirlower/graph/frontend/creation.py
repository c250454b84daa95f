"""Tensors made from numbers: filled ones, ranges, diagonals; of a graph while one is traced, else arrays."""

from __future__ import annotations

import numpy as np

from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.dims import as_extent, as_shape
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.arguments import dtype_name
from tirlower.graph.frontend.functions import astype, broadcast_to
from tirlower.graph.frontend.operands import TensorLike, as_tensor, extents_of, result_of
from tirlower.graph.frontend.recording import current, place
from tirlower.graph.frontend.tensor import Tensor
from tirlower.ir import Expr
from tirlower.ir.dtype import DataType

__all__ = ["arange", "empty", "empty_like", "eye", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like"]


def full(shape: object, fill_value: object, dtype: object = None) -> TensorLike:
    """One number in every element; a tensor of the graph while one is traced, else an array."""
    extents = as_shape(shape)
    recording = current()
    if isinstance(fill_value, Tensor):
        return broadcast_to(fill_value if dtype is None else fill_value.astype(dtype), extents)
    number = np.asarray(fill_value)
    if number.ndim:
        return broadcast_to(number if dtype is None else astype(number, dtype), extents)
    kind = DataType(dtype_name(number.dtype if dtype is None else dtype))
    known = [e for e in extents if isinstance(e, int)]
    if recording is None:
        if len(known) != len(extents):
            raise GraphError(f"the shape {extents} at {place()} has dims, outside of a trace", help="give numbers")
        return np.full(tuple(known), number, kind.numpy)
    recording.builder.origin = place()
    value = number.item() if kind.is_float or number.dtype.kind != "f" else int(number)
    if len(known) != len(extents):
        return result_of("full", shape=extents, value=value, dtype=str(kind))
    return Tensor.of(recording, recording.builder.const(ConstantData.splat(value, tuple(known), kind)))


def arange(start: object, /, stop: object = None, step: float = 1, *, dtype: object = None) -> TensorLike:
    """The numbers from ``start`` (0 where one is given) to before ``stop``, in steps; expressions of dims are admitted."""
    low, high = (0, start) if stop is None else (start, stop)
    bounds = [e if isinstance(e, (int, float)) else as_extent(e) for e in (low, high)]
    numbers = [e for e in bounds if not isinstance(e, Expr)]
    if len(numbers) == 2:
        made = np.asarray(np.arange(numbers[0], numbers[1], step))
        made = made if dtype is None else made.astype(DataType(dtype_name(dtype)).numpy)
        recording = current()
        return made if recording is None else Tensor.of(recording, recording.builder.const(made))
    kind = "int64" if dtype is None else dtype_name(dtype)
    return result_of("arange", stop=bounds[1], start=bounds[0], step=step, dtype=kind)


def eye(n_rows: object, n_cols: object = None, /, *, k: int = 0, dtype: object = "float64") -> TensorLike:
    """1 on the k-th diagonal of a matrix, 0 elsewhere."""
    if current() is None:
        return np.eye(n_rows, n_cols, k, DataType(dtype_name(dtype)).numpy)  # type: ignore[call-overload, no-any-return]
    columns = n_rows if n_cols is None else n_cols
    return result_of("eye", rows=as_extent(n_rows), columns=as_extent(columns), k=k, dtype=dtype_name(dtype))


def zeros(shape: object, dtype: object = "float64") -> TensorLike:
    """Zeros."""
    return full(shape, 0, dtype)


def ones(shape: object, dtype: object = "float64") -> TensorLike:
    """Ones."""
    return full(shape, 1, dtype)


def empty(shape: object, dtype: object = "float64") -> TensorLike:
    """Zeros: nothing is left undefined."""
    return full(shape, 0, dtype)


def _like_shape(a: object, fill: object, dtype: object, shape: object) -> TensorLike:
    x = as_tensor(a)
    return full(extents_of(x) if shape is None else shape, fill, x.dtype if dtype is None else dtype)


def full_like(a: object, fill_value: object, dtype: object = None, *, shape: object = None) -> TensorLike:
    """One number in a tensor of the shape and dtype of another."""
    return _like_shape(a, fill_value, dtype, shape)


def zeros_like(a: object, dtype: object = None, *, shape: object = None) -> TensorLike:
    """Zeros of the shape and dtype of another tensor."""
    return _like_shape(a, 0, dtype, shape)


def ones_like(a: object, dtype: object = None, *, shape: object = None) -> TensorLike:
    """Ones of the shape and dtype of another tensor."""
    return _like_shape(a, 1, dtype, shape)


def empty_like(prototype: object, dtype: object = None, *, shape: object = None) -> TensorLike:
    """Zeros of the shape and dtype of another tensor."""
    return _like_shape(prototype, 0, dtype, shape)
