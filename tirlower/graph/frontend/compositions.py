"""More of NumPy's functions, made of those that there are: comparisons, NaN set aside, diagonals, order, products.

Each takes tensors and arrays alike, and gives what NumPy gives.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from tirlower.graph.core.dims import Extent
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend import functions as fn
from tirlower.graph.frontend.creation import eye, full, ones, zeros
from tirlower.graph.frontend.operands import TensorLike, result_of
from tirlower.graph.frontend.recording import place
from tirlower.graph.frontend.tensor import Tensor
from tirlower.ir.dtype import DataType


def _kind(x: TensorLike) -> DataType:
    return DataType(x.dtype) if isinstance(x, Tensor) else DataType.from_numpy(x.dtype)


def _is_float(x: TensorLike) -> bool:
    return _kind(x).is_float


def _floats(x: object) -> TensorLike:
    """A tensor of floats: of others float64."""
    made = fn.asarray(x)
    return made if _is_float(made) else fn.astype(made, "float64")


def _axis(axis: int, rank: int, what: str) -> int:
    if not -rank <= axis < rank:
        raise GraphError(f"axis {axis} of {what} at {place()} is outside: there are {rank} axes")
    return axis % rank


# Comparisons


def isclose(a: object, b: object, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> TensorLike:
    """Whether elements are equal, or differ by at most ``atol + rtol * abs(b)``."""
    x, y = fn.asarray(a), _floats(b)
    reach = result_of("add", result_of("multiply", result_of("abs", y), rtol), atol)
    near = result_of("less_equal", result_of("abs", result_of("subtract", x, y)), reach)
    close = result_of("logical_or", result_of("logical_and", near, result_of("isfinite", y)), result_of("equal", x, y))
    if not equal_nan or not _is_float(x):
        return close
    return result_of("logical_or", close, result_of("logical_and", result_of("isnan", x), result_of("isnan", y)))


def allclose(a: object, b: object, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> TensorLike:
    """Whether all elements are close."""
    return result_of("all", isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: object, a2: object) -> TensorLike:
    """Whether two tensors have one shape and equal elements."""
    x, y = fn.asarray(a1), fn.asarray(a2)
    a, b = fn.shape(x), fn.shape(y)
    pairs = itertools.zip_longest(a, b)
    if len(a) != len(b) or any(isinstance(m, int) and isinstance(n, int) and m != n for m, n in pairs):
        return full((), False, "bool")
    return result_of("all", result_of("equal", x, y))


def isin(element: object, test_elements: object, *, invert: bool = False) -> TensorLike:
    """Whether an element is one of others."""
    x, others = fn.asarray(element), fn.ravel(test_elements)
    found = result_of("any", result_of("equal", fn.expand_dims(x, -1), others), axis=-1)
    return result_of("logical_not", found) if invert else found


def signbit(x: object, /) -> TensorLike:
    """Whether it has a sign: also that of a zero, and of NaN."""
    given = fn.asarray(x)
    return result_of("less", result_of("copysign", 1.0, given) if _is_float(given) else given, 0)


def heaviside(x1: object, x2: object, /) -> TensorLike:
    """0 below 0, 1 above it, and at 0 the second; NaN of NaN."""
    x, at_zero = _floats(x1), x2 if isinstance(x2, (int, float)) else _floats(x2)
    above = result_of(
        "where", result_of("greater", x, 0), 1.0, result_of("where", result_of("equal", x, 0), at_zero, x)
    )
    return result_of("where", result_of("less", x, 0), 0.0, above)


# NaN set aside


def fmax(x1: object, x2: object, /) -> TensorLike:
    """The greater one, of NaN and a number the number."""
    return _without_nan("maximum", x1, x2)


def fmin(x1: object, x2: object, /) -> TensorLike:
    """The lesser one, of NaN and a number the number."""
    return _without_nan("minimum", x1, x2)


def _without_nan(name: str, a: object, b: object) -> TensorLike:
    most = result_of(name, a, b)
    if not _is_float(most):
        return most
    for one, other in ((a, b), (b, a)):
        if not isinstance(one, (bool, int)):
            most = result_of("where", result_of("isnan", _floats(one)), other, most)
    return most


def nan_to_num(
    x: object, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> TensorLike:
    """NaN replaced by a number, infinities by the greatest and the least number of the dtype, or those that are given."""
    given = fn.asarray(x)
    if not _is_float(given):
        return given
    most = float(_kind(given).max_value)
    low, high = (-most if neginf is None else neginf), (most if posinf is None else posinf)
    made = result_of("where", result_of("isnan", given), nan, given)
    made = result_of("where", result_of("isinf", given, negative=False), high, made)
    return result_of("where", result_of("isinf", given, positive=False), low, made)


def nansum(a: object, axis: object = None, dtype: object = None, *, keepdims: bool = False) -> TensorLike:
    """The sum of the elements that are numbers."""
    x = _filled(a, 0.0)
    return result_of("sum", x if dtype is None else fn.astype(x, dtype), axis=axis, keepdims=keepdims)


def nanprod(a: object, axis: object = None, *, keepdims: bool = False) -> TensorLike:
    """The product of the elements that are numbers."""
    return result_of("prod", _filled(a, 1.0), axis=axis, keepdims=keepdims)


def nanmax(a: object, axis: object = None, *, keepdims: bool = False) -> TensorLike:
    """The greatest element that is a number; NaN of none."""
    return _extreme("max", a, -math.inf, axis, keepdims)


def nanmin(a: object, axis: object = None, *, keepdims: bool = False) -> TensorLike:
    """The least element that is a number; NaN of none."""
    return _extreme("min", a, math.inf, axis, keepdims)


def nanmean(a: object, axis: object = None, *, keepdims: bool = False) -> TensorLike:
    """The mean of the elements that are numbers."""
    x = fn.asarray(a)
    if not _is_float(x):
        return result_of("mean", x, axis=axis, keepdims=keepdims)
    total = result_of("sum", _filled(x, 0.0), axis=axis, keepdims=keepdims)
    count = result_of("sum", result_of("logical_not", result_of("isnan", x)), axis=axis, keepdims=keepdims)
    return result_of("divide", total, result_of("cast", count, dtype=str(_kind(x))))


def _filled(a: object, number: float) -> TensorLike:
    x = fn.asarray(a)
    return result_of("where", result_of("isnan", x), number, x) if _is_float(x) else x


def _extreme(name: str, a: object, least: float, axis: object, keepdims: bool) -> TensorLike:
    x = fn.asarray(a)
    found = result_of(name, _filled(x, least), axis=axis, keepdims=keepdims)
    if not _is_float(x):
        return found
    none = result_of("all", result_of("isnan", x), axis=axis, keepdims=keepdims)
    return result_of("where", none, math.nan, found)


# Diagonals, turned and joined tensors


def diagonal(a: object, offset: int = 0, axis1: int = 0, axis2: int = 1) -> TensorLike:
    """The diagonals of matrices along two axes, as the last axis."""
    x = fn.asarray(a)
    first, second = (_axis(axis, x.ndim, "diagonal") for axis in (axis1, axis2))
    x = fn.moveaxis(x, (first, second), (-2, -1))
    x = x[..., max(-offset, 0) :, max(offset, 0) :]
    rows, columns = fn.shape(x)[-2:]
    if isinstance(rows, int) and isinstance(columns, int) and rows != columns:
        least = min(rows, columns)
        x = x[..., :least, :least]
    return result_of("einsum", [x], equation="...ii->...i")


def trace(a: object, offset: int = 0, axis1: int = 0, axis2: int = 1) -> TensorLike:
    """The sum along the diagonals of matrices."""
    return result_of("sum", diagonal(a, offset, axis1, axis2), axis=-1)


def diag(v: object, k: int = 0) -> TensorLike:
    """The k-th diagonal of a matrix, or the matrix of which a vector is it."""
    x = fn.asarray(v)
    if x.ndim != 1:
        return diagonal(x, k)
    rows = fn.pad(x, ((max(-k, 0), max(k, 0)),))
    extent = fn.shape(rows)[0]
    here = eye(extent, extent, k=k, dtype="bool")
    return result_of("where", here, fn.expand_dims(rows, 1), zeros((), x.dtype))


def flipud(m: object) -> TensorLike:
    """Turned round along the first axis."""
    return result_of("flip", fn.asarray(m), axis=(0,))


def fliplr(m: object) -> TensorLike:
    """Turned round along the second axis."""
    return result_of("flip", fn.asarray(m), axis=(1,))


def rot90(m: object, k: int = 1, axes: tuple[int, int] = (0, 1)) -> TensorLike:
    """Turned by quarters in the plane of two axes."""
    x = fn.asarray(m)
    a, b = (_axis(axis, x.ndim, "rot90") for axis in axes)
    turned = {0: (), 1: (b,), 2: (a, b), 3: (a,)}[k % 4]
    x = result_of("flip", x, axis=turned) if turned else x
    return fn.swapaxes(x, a, b) if k % 2 else x


def roll(a: object, shift: object, axis: object = None) -> TensorLike:
    """Elements moved on along axes, from the end to the front; without an axis along the flattened tensor."""
    x = fn.asarray(a)
    if axis is None:
        return fn.reshape(result_of("roll", fn.ravel(x), shift=shift, axis=0), fn.shape(x))
    return result_of("roll", x, shift=shift, axis=axis)


def rollaxis(a: object, axis: int, start: int = 0) -> TensorLike:
    """An axis moved to before another one."""
    x = fn.asarray(a)
    at, to = _axis(axis, x.ndim, "rollaxis"), start + x.ndim * (start < 0)
    return fn.moveaxis(x, at, to - (at < to))


def dstack(tup: Sequence[object]) -> TensorLike:
    """Joined along the third axis."""
    deep = []
    for one in tup:
        x = fn.atleast_2d(one)
        assert not isinstance(x, tuple)
        flat = fn.ndim(one) < 2  # a vector is a row of pixels
        deep.append(fn.reshape(x, (*fn.shape(x), 1)) if x.ndim == 2 or flat else x)
    return fn.concatenate(deep, 2)


def column_stack(tup: Sequence[object]) -> TensorLike:
    """Joined along the second axis, vectors as columns."""
    several = [fn.asarray(one) for one in tup]
    return fn.concatenate([x if x.ndim > 1 else fn.reshape(x, (-1, 1)) for x in several], 1)


def append(arr: object, values: object, axis: int | None = None) -> TensorLike:
    """Joined along an axis; without one, flattened before."""
    return fn.concatenate([arr, values], axis)


def unstack(x: object, /, *, axis: int = 0) -> tuple[TensorLike, ...]:
    """The parts along an axis, without it."""
    given = fn.asarray(x)
    at = _axis(axis, given.ndim, "unstack")
    extent = fn.shape(given)[at]
    if not isinstance(extent, int):
        raise GraphError(
            f"unstack at {place()} along an axis of {extent}: how many parts there are is known only when the graph runs"
        )
    return tuple(fn.squeeze(part, at) for part in fn.array_split(given, max(extent, 1), at)[:extent])


def meshgrid(*xi: object, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[TensorLike, ...]:
    """Vectors as the coordinates of a grid."""
    if indexing not in ("xy", "ij"):
        raise GraphError(f"meshgrid at {place()} indexes by 'xy' or 'ij', got {indexing!r}")
    rank = len(xi)
    places = [1, 0, *range(2, rank)] if indexing == "xy" and rank > 1 else [*range(rank)]
    open_: list[TensorLike] = []
    extents: list[Extent] = [1] * rank
    for one, at in zip(xi, places, strict=True):
        flat = fn.ravel(one)
        extents[at] = fn.shape(flat)[0]
        open_.append(fn.reshape(flat, [-1 if n == at else 1 for n in range(rank)]))
    return tuple(open_) if sparse else tuple(fn.broadcast_to(x, tuple(extents)) for x in open_)


# Choices and order


def select(condlist: Sequence[object], choicelist: Sequence[object], default: object = 0) -> TensorLike:
    """Elements of the choice whose condition is the first that holds."""
    if len(condlist) != len(choicelist) or not condlist:
        raise GraphError(f"select at {place()} got {len(condlist)} conditions and {len(choicelist)} choices")
    made = default
    for condition, choice in reversed(list(zip(condlist, choicelist, strict=True))):
        made = result_of("where", condition, choice, made)
    return fn.asarray(made)


def median(a: object, axis: int | None = None, *, keepdims: bool = False) -> TensorLike:
    """The element in the middle of the order along an axis, or the mean of the two; NaN where there is one."""
    x = _floats(a)
    rank = x.ndim
    flat, at = (fn.ravel(x), 0) if axis is None else (x, _axis(axis, rank, "median"))
    extent = fn.shape(flat)[at]
    ordered = result_of("sort", flat, axis=at)

    def one(first: Extent) -> TensorLike:
        return fn.array_split(ordered, [first, first + 1], at)[1]

    low, high, last = one((extent - 1) // 2), one(extent // 2), one(extent - 1)
    both = result_of("mean", result_of("concat", [low, high], axis=at), axis=at, keepdims=True)
    made = result_of("where", result_of("equal", low, high), low, both)
    made = result_of("where", result_of("isnan", last), last, made)
    if axis is None:
        return fn.reshape(made, (1,) * rank if keepdims else ())
    return made if keepdims else fn.squeeze(made, at)


def searchsorted(a: object, v: object, side: str = "left") -> TensorLike:
    """Where elements would stand in a vector that is in order: before equal ones, or behind them (``"right"``)."""
    if side not in ("left", "right"):
        raise GraphError(f"searchsorted at {place()} has the sides 'left' and 'right', got {side!r}")
    known, x = fn.asarray(a), fn.expand_dims(v, -1)
    before = result_of("less" if side == "left" else "less_equal", known, x)
    if _is_float(x):  # NaN stands behind all numbers
        nan = result_of("isnan", x)
        if _is_float(known) and side == "left":
            nan = result_of("logical_and", nan, result_of("logical_not", result_of("isnan", known)))
        before = result_of("logical_or", before, nan)
    return result_of("sum", result_of("logical_and", before, ones(fn.shape(known), "bool")), axis=-1)


# Products


def kron(a: object, b: object) -> TensorLike:
    """The products of each element of one with the whole other."""
    x, y = fn.asarray(a), fn.asarray(b)
    rank = max(x.ndim, y.ndim)
    left, right = ((*[1] * (rank - z.ndim), *fn.shape(z)) for z in (x, y))
    wide = fn.reshape(x, [e for extent in left for e in (extent, 1)])
    other = fn.reshape(y, [e for extent in right for e in (1, extent)])
    return fn.reshape(result_of("multiply", wide, other), [m * n for m, n in zip(left, right, strict=True)])


def cross(a: object, b: object) -> TensorLike:
    """The vector product over the last axis, of three elements."""
    x, y = fn.asarray(a), fn.asarray(b)
    if fn.shape(x)[-1:] != (3,) or fn.shape(y)[-1:] != (3,):
        raise GraphError(f"cross at {place()} is of vectors of three elements, got {fn.shape(x)} and {fn.shape(y)}")
    parts = [
        result_of("subtract", result_of("multiply", x[..., m], y[..., n]), result_of("multiply", x[..., n], y[..., m]))
        for m, n in ((1, 2), (2, 0), (0, 1))
    ]
    return fn.stack(parts, -1)


def matvec(x1: object, x2: object, /) -> TensorLike:
    """The product of matrices and vectors."""
    return fn.squeeze(result_of("matmul", x1, fn.expand_dims(x2, -1)), -1)


def vecmat(x1: object, x2: object, /) -> TensorLike:
    """The product of vectors and matrices."""
    return fn.squeeze(result_of("matmul", fn.expand_dims(x1, -2), x2), -2)


def float_power(x1: object, x2: object, /) -> TensorLike:
    """The first to the power of the second, in float64."""
    return result_of("power", fn.astype(fn.asarray(x1), "float64"), fn.astype(fn.asarray(x2), "float64"))


def polyval(p: object, x: object) -> TensorLike:
    """The value of a polynomial, its coefficients from the highest power on."""
    made: object = 0
    for coefficient in unstack(p):
        made = result_of("add", result_of("multiply", made, x), coefficient)
    return fn.asarray(made)


__all__ = [
    name
    for name, value in dict(globals()).items()
    if callable(value) and not name.startswith("_") and getattr(value, "__module__", "") == __name__
]
