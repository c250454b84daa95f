"""Products of tensors over axes: of vectors, of matrices, over pairs of axes, by subscripts."""

from __future__ import annotations

import math
import operator

from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.functions import ravel, reshape
from tirlower.graph.frontend.operands import TensorLike, as_tensor, axes_of, extents_of, result_of, simplest
from tirlower.graph.frontend.recording import place

__all__ = ["dot", "einsum", "inner", "outer", "tensordot", "vdot", "vecdot"]


def dot(a: object, b: object) -> TensorLike:
    """The product over the last axis of ``a`` and the last but one of ``b``."""
    x, y = as_tensor(a), as_tensor(b)
    if not x.ndim or not y.ndim:
        return result_of("multiply", x, y)
    if y.ndim <= 2:
        return result_of("matmul", x, y)
    return tensordot(x, y, ((x.ndim - 1,), (y.ndim - 2,)))


def inner(a: object, b: object, /) -> TensorLike:
    """The product over the last axes."""
    x, y = as_tensor(a), as_tensor(b)
    return result_of("multiply", x, y) if not x.ndim or not y.ndim else tensordot(x, y, ((x.ndim - 1,), (y.ndim - 1,)))


def outer(a: object, b: object) -> TensorLike:
    """The products of all elements of one with all of the other."""
    return result_of("multiply", reshape(a, (-1, 1)), reshape(b, (1, -1)))


def vdot(a: object, b: object, /) -> TensorLike:
    """The product over all elements."""
    return result_of("matmul", ravel(a), ravel(b))


def vecdot(x1: object, x2: object, /, *, axis: int = -1) -> TensorLike:
    """The product over one axis."""
    return result_of("sum", result_of("multiply", x1, x2), axis=(axis,))


def tensordot(a: object, b: object, axes: object = 2) -> TensorLike:
    """The product over pairs of axes, or over the last of ``a`` and the first of ``b``."""
    x, y = as_tensor(a), as_tensor(b)
    if isinstance(axes, (tuple, list)):
        left, right = axes_of(axes[0], x.ndim, "tensordot"), axes_of(axes[1], y.ndim, "tensordot")
    else:
        count = operator.index(axes)  # type: ignore[arg-type]  # refused by operator
        left, right = tuple(range(x.ndim - count, x.ndim)), tuple(range(count))
    if len(left) != len(right):
        raise GraphError(f"tensordot at {place()} pairs {len(left)} axes with {len(right)}")
    rows = [n for n in range(x.ndim) if n not in left]
    columns = [n for n in range(y.ndim) if n not in right]
    shape = (*(extents_of(x)[n] for n in rows), *(extents_of(y)[n] for n in columns))
    depth = simplest(math.prod(extents_of(x)[n] for n in left))
    m = simplest(math.prod(extents_of(x)[n] for n in rows))
    k = simplest(math.prod(extents_of(y)[n] for n in columns))
    flat_x = reshape(result_of("transpose", x, axes=(*rows, *left)), (m, depth))
    flat_y = reshape(result_of("transpose", y, axes=(*right, *columns)), (depth, k))
    return reshape(result_of("matmul", flat_x, flat_y), shape)


def einsum(subscripts: object, /, *operands: object, optimize: object = False) -> TensorLike:
    """The sum of products that ``"ij,jk->ik"`` says."""
    if not isinstance(subscripts, str):
        raise GraphError(f"einsum at {place()} takes its subscripts as text first, got {subscripts!r}")
    return result_of("einsum", [as_tensor(o) for o in operands], equation=subscripts)
