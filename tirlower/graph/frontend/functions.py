"""Functions of NumPy and the array API that are not an operation by themselves: other signatures, compositions.

Each takes tensors and arrays alike. Those that are one operation of the registry are derived from it, and not here.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.dims import Extent, Shape, as_extent, as_shape, extent_expr
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.arguments import dtype_name
from tirlower.graph.frontend.recording import current, place
from tirlower.graph.frontend.tensor import Tensor, apply, values_in
from tirlower.graph.frontend.tensor_facts import recording_of
from tirlower.graph.ops.compute import broadcast
from tirlower.ir import Expr, build
from tirlower.ir.dtype import Array, DataType, NumpyDType

TensorLike: TypeAlias = "Tensor | Array"


def _like(given: object) -> TensorLike:
    """A tensor or an array from anything that NumPy takes for one."""
    if isinstance(given, Tensor):
        given.value  # noqa: B018  # a spec is refused
        return given
    return np.asarray(given)


def _made(name: str, *args: object, **kwargs: object) -> TensorLike:
    found = apply(name, *args, **kwargs)
    assert isinstance(found, (Tensor, np.ndarray, np.generic)), f"{name} has one result"
    return found if isinstance(found, Tensor) else np.asarray(found)


def _simple(extent: Extent) -> Extent:
    """An extent in its simplest form, by what is known in the trace."""
    recording = current()
    return extent if recording is None else recording.builder.env.simplify(extent)


def _axis(axis: object, rank: int, what: str) -> int:
    """An axis counted from the front."""
    number = operator.index(axis)  # type: ignore[arg-type]  # refused by operator
    if not -rank <= number < rank:
        raise GraphError(f"axis {number} of {what} at {place()} is outside: there are {rank} axes")
    return number % rank


def _axes(axis: object, rank: int, what: str) -> tuple[int, ...]:
    several = axis if isinstance(axis, (tuple, list)) else (axis,)
    return tuple(_axis(a, rank, what) for a in several)


def _extents(x: TensorLike) -> Shape:
    """The extents as the graph has them."""
    return x.known_shape if isinstance(x, Tensor) else tuple(x.shape)


# Shapes


def shape(a: object) -> Shape:
    """The extents."""
    return _extents(_like(a))


def ndim(a: object) -> int:
    """How many axes there are."""
    return len(shape(a))


def size(a: object, axis: int | None = None) -> Extent:
    """How many elements there are, or the extent of an axis."""
    return _simple(math.prod(shape(a))) if axis is None else shape(a)[axis]


def reshape(a: object, /, shape: object, order: str = "C", *, copy: bool | None = None) -> TensorLike:
    """With other extents, of which one may be -1: what the others leave."""
    if order not in ("C", "A", "K"):
        raise GraphError(f"reshape at {place()} knows the order 'C' alone, got {order!r}", help="transpose before")
    x = _like(a)
    given = list(shape) if isinstance(shape, (tuple, list)) else [shape]
    holes = [n for n, e in enumerate(given) if not isinstance(e, Expr) and not hasattr(e, "as_expr") and e == -1]
    if len(holes) > 1:
        raise GraphError(f"reshape at {place()} to {tuple(given)}: one extent at most is -1")
    wanted: list[Extent] = [1 if n in holes else as_extent(e) for n, e in enumerate(given)]
    if holes:
        whole, rest = _simple(math.prod(_extents(x))), _simple(math.prod(wanted))
        if isinstance(rest, int) and rest == 0:
            raise GraphError(f"reshape at {place()} of {_extents(x)} to {tuple(given)}: the -1 could be any extent")
        if isinstance(whole, int) and isinstance(rest, int) and whole % rest:
            raise GraphError(f"reshape at {place()} of {_extents(x)} to {tuple(given)}: {rest} does not divide {whole}")
        wanted[holes[0]] = _simple(whole // rest)
    return _made("reshape", x, shape=tuple(wanted))


def ravel(a: object, order: str = "C") -> TensorLike:
    """With one axis."""
    return reshape(a, -1, order)


def flatten(a: object, order: str = "C") -> TensorLike:
    """With one axis."""
    return reshape(a, -1, order)


def squeeze(a: object, axis: object = None) -> TensorLike:
    """Without axes of extent 1: all that are known to be, or those given."""
    x = _like(a)
    gone = (
        tuple(n for n, e in enumerate(_extents(x)) if isinstance(e, int) and e == 1)
        if axis is None
        else _axes(axis, x.ndim, "squeeze")
    )
    return _made("squeeze", x, axis=gone) if gone else x


def expand_dims(a: object, axis: object) -> TensorLike:
    """With axes of extent 1 at these places of the result."""
    x = _like(a)
    several = axis if isinstance(axis, (tuple, list)) else (axis,)
    return _made("expand_dims", x, axis=_axes(several, x.ndim + len(several), "expand_dims"))


def moveaxis(a: object, source: object, destination: object) -> TensorLike:
    """With axes moved to other places, the rest in its order."""
    x = _like(a)
    old, new = _axes(source, x.ndim, "moveaxis"), _axes(destination, x.ndim, "moveaxis")
    if len(old) != len(new):
        raise GraphError(f"moveaxis at {place()} moves {len(old)} axes to {len(new)} places")
    order = [n for n in range(x.ndim) if n not in old]
    for to, axis in sorted(zip(new, old, strict=True)):
        order.insert(to, axis)
    return _made("transpose", x, axes=tuple(order))


def swapaxes(a: object, axis1: int, axis2: int) -> TensorLike:
    """With two axes exchanged."""
    x = _like(a)
    order = list(range(x.ndim))
    i, j = _axis(axis1, x.ndim, "swapaxes"), _axis(axis2, x.ndim, "swapaxes")
    order[i], order[j] = j, i
    return _made("transpose", x, axes=tuple(order))


def matrix_transpose(x: object, /) -> TensorLike:
    """With the last two axes exchanged."""
    return swapaxes(x, -1, -2)


def broadcast_to(array: object, shape: object, subok: bool = False) -> TensorLike:
    """Repeated along new axes and along axes of extent 1, as NumPy has it."""
    return _made("broadcast_to", _like(array), shape=as_shape(shape))


def broadcast_arrays(*args: object, subok: bool = False) -> tuple[TensorLike, ...]:
    """All of the one shape to which they are broadcast."""
    several = [_like(a) for a in args]
    tensors = values_in(several)
    if not tensors:
        return tuple(np.broadcast_arrays(*several))
    with recording_of(tensors, "broadcast_arrays").builder.env.inferring():
        common = broadcast(*[_extents(x) for x in several])
    return tuple(broadcast_to(x, common) for x in several)


def atleast_1d(*arys: object) -> TensorLike | tuple[TensorLike, ...]:
    """With one axis where there is none."""
    made = tuple(x if x.ndim else reshape(x, (1,)) for x in map(_like, arys))
    return made[0] if len(made) == 1 else made


def atleast_2d(*arys: object) -> TensorLike | tuple[TensorLike, ...]:
    """With axes of extent 1 in front until there are two."""
    made = tuple(x if x.ndim > 1 else reshape(x, (1, *_extents(x)) if x.ndim else (1, 1)) for x in map(_like, arys))
    return made[0] if len(made) == 1 else made


# Several tensors, and parts of one


def concatenate(arrays: Sequence[object], axis: int | None = 0, *, dtype: object = None) -> TensorLike:
    """Joined along an axis; without one, flattened before."""
    several = [_like(a) if dtype is None else astype(a, dtype) for a in arrays]
    if axis is None:
        several, axis = [ravel(a) for a in several], 0
    return _made("concat", several, axis=axis)


concat = concatenate


def stack(arrays: Sequence[object], axis: int = 0) -> TensorLike:
    """Joined along a new axis."""
    several = [_like(a) for a in arrays]
    if not several:
        raise GraphError(f"stack at {place()} got no tensors")
    return _made("stack", several, axis=axis)


def _at_least(rank: int, given: Iterable[object]) -> list[TensorLike]:
    made: list[TensorLike] = []
    for one in given:
        x = (atleast_1d if rank == 1 else atleast_2d)(one)
        assert not isinstance(x, tuple)
        made.append(x)
    return made


def hstack(tup: Sequence[object]) -> TensorLike:
    """Joined along the second axis, or the first where there is one."""
    several = _at_least(1, tup)
    return concatenate(several, 0 if several and several[0].ndim == 1 else 1)


def vstack(tup: Sequence[object]) -> TensorLike:
    """Joined along the first axis, vectors as rows."""
    return concatenate(_at_least(2, tup), 0)


def _part(x: TensorLike, axis: int, start: Extent, end: Extent | None) -> TensorLike:
    return x[(*[slice(None)] * axis, slice(start, end))]


def array_split(ary: object, indices_or_sections: object, axis: int = 0) -> list[TensorLike]:
    """Parts along an axis: so many, the first ones larger by one, or those that begin at indices."""
    x = _like(ary)
    at = _axis(axis, x.ndim, "split")
    extent = _extents(x)[at]
    bounds: list[Extent] = [0]
    if isinstance(indices_or_sections, (tuple, list, np.ndarray)):
        bounds += [as_extent(i) for i in indices_or_sections]
        bounds.append(extent)
    else:
        count = operator.index(indices_or_sections)  # type: ignore[arg-type]  # refused by operator
        if count < 1:
            raise GraphError(f"split at {place()} makes one part or more, got {count}")
        for n in range(count):
            ahead = (
                _simple(build.min_(extent_expr(extent % count), n + 1))
                if isinstance(extent, Expr)
                else min(extent % count, n + 1)
            )
            bounds.append(_simple(extent // count * (n + 1) + ahead))
    return [_part(x, at, a, b) for a, b in itertools.pairwise(bounds)]


def split(ary: object, indices_or_sections: object, axis: int = 0) -> list[TensorLike]:
    """Equal parts along an axis, or those that begin at indices."""
    if isinstance(indices_or_sections, (tuple, list, np.ndarray)):
        return array_split(ary, indices_or_sections, axis)
    made = apply("split", _like(ary), parts=operator.index(indices_or_sections), axis=axis)  # type: ignore[arg-type]
    return list(made) if isinstance(made, tuple) else [_like(made)]


def vsplit(ary: object, indices_or_sections: object) -> list[TensorLike]:
    """Parts along the first axis."""
    return split(ary, indices_or_sections, 0)


def hsplit(ary: object, indices_or_sections: object) -> list[TensorLike]:
    """Parts along the second axis, or the first where there is one."""
    return split(ary, indices_or_sections, 0 if ndim(ary) == 1 else 1)


def take(a: object, indices: object, axis: int | None = None, mode: str = "raise") -> TensorLike:
    """Elements along an axis, or of the flattened tensor, by their indices."""
    x = _like(a)
    if axis is None:
        x, axis = (x if x.ndim == 1 else ravel(x)), 0
    where = _axis(axis, x.ndim, "take")
    if mode not in ("raise", "wrap", "clip"):
        raise GraphError(f"take at {place()} knows the modes 'raise', 'wrap' and 'clip', got {mode!r}")
    if mode != "raise":
        extent = _extents(x)[where]
        most = extent if isinstance(extent, int) else _made("dim_value", value=extent)
        near = _made("minimum", _made("maximum", indices, 0), _made("subtract", most, 1))
        return _made("gather", x, _made("remainder", indices, most) if mode == "wrap" else near, axis=where)
    if isinstance(x, Tensor) and not isinstance(indices, Tensor):
        return x[(*[slice(None)] * where, indices if ndim(indices) else operator.index(indices))]  # type: ignore[arg-type]
    return _made("gather", x, _like(indices), axis=where)


def take_along_axis(arr: object, indices: object, axis: int | None = -1) -> TensorLike:
    """Each element at its own place but along an axis, where the index says which."""
    x = _like(arr)
    return _made(
        "gather_elements", x if axis is not None else ravel(x), _like(indices), axis=0 if axis is None else axis
    )


def diff(a: object, n: int = 1, axis: int = -1) -> TensorLike:
    """Each element less the one before, ``n`` times."""
    x = _like(a)
    at = _axis(axis, x.ndim, "diff")
    for _ in range(n):
        x = _made("subtract", _part(x, at, 1, None), _part(x, at, 0, -1))
    return x


# Elements


def astype(x: object, dtype: object, /, *, copy: bool = True) -> TensorLike:
    """Converted to a dtype."""
    given = _like(x)
    return given.astype(dtype) if isinstance(given, Tensor) else given.astype(DataType(dtype_name(dtype)).numpy)


def copy(a: object, order: str = "K", subok: bool = False) -> TensorLike:
    """Itself: tensors of a graph do not change."""
    return a if isinstance(a, Tensor) else np.array(_like(a))


def where(condition: object, x: object = None, y: object = None, /) -> TensorLike:
    """Elements of ``x`` where the condition holds, of ``y`` elsewhere."""
    if x is None or y is None:
        raise GraphError(
            f"where at {place()} got no values: how many elements hold is known only when the graph runs",
            help="tg.where(condition, x, y) keeps the shape",
        )
    return _made("where", condition, x, y)


def clip(
    a: object, a_min: object = None, a_max: object = None, *, min: object = None, max: object = None
) -> TensorLike:
    """Limited from below and from above."""
    low, high = (min if a_min is None else a_min), (max if a_max is None else a_max)
    return _made("clip", _weak(a), low, high) if low is not None or high is not None else _like(a)


def _weak(given: object) -> object:
    """Python numbers take the dtype of what they meet; other things are tensors or arrays."""
    return given if isinstance(given, (bool, int, float)) else _like(given)


def degrees(x: object, /) -> TensorLike:
    """Radians in degrees."""
    return _made("multiply", x, 180.0 / math.pi)


def radians(x: object, /) -> TensorLike:
    """Degrees in radians."""
    return _made("multiply", x, math.pi / 180.0)


rad2deg, deg2rad = degrees, radians


def isneginf(x: object, /) -> TensorLike:
    """Whether it is minus infinity."""
    return _made("isinf", x, positive=False)


def isposinf(x: object, /) -> TensorLike:
    """Whether it is infinity."""
    return _made("isinf", x, negative=False)


def tril(m: object, k: int = 0) -> TensorLike:
    """The lower triangle of matrices, up to the k-th diagonal."""
    return _made("trilu", _like(m), upper=False, k=k)


def triu(m: object, k: int = 0) -> TensorLike:
    """The upper triangle of matrices, from the k-th diagonal on."""
    return _made("trilu", _like(m), upper=True, k=k)


def pad(array: object, pad_width: object, mode: str = "constant", *, constant_values: float = 0) -> TensorLike:
    """More elements before and behind each axis."""
    x = _like(array)
    pairs = list(pad_width) if isinstance(pad_width, (tuple, list, np.ndarray)) else [pad_width]
    if len(pairs) == 2 and not any(isinstance(p, (tuple, list, np.ndarray)) for p in pairs):
        pairs = [pairs] * x.ndim  # one pair for all axes
    pairs = pairs * x.ndim if len(pairs) == 1 else pairs
    both = tuple(tuple(p) * (2 // len(p)) if isinstance(p, (tuple, list, np.ndarray)) else (p, p) for p in pairs)
    if len(both) != x.ndim:
        raise GraphError(f"pad at {place()} got {len(both)} pairs for {x.ndim} axes")
    return _made("pad", x, pads=both, mode=mode, value=constant_values)


def repeat(a: object, repeats: int, axis: int | None = None) -> TensorLike:
    """Each element several times along an axis, or of the flattened tensor."""
    x = _like(a)
    return _made("repeat", x if axis is not None else ravel(x), repeats=repeats, axis=0 if axis is None else axis)


def round(a: object, decimals: int = 0) -> TensorLike:
    """Rounded to so many digits behind the point, halves to even ones."""
    x = _like(a)
    if not decimals:
        return _made("round", x)
    scale = 10.0 ** abs(decimals)
    if decimals > 0 and DataType(dtype_name(x.dtype)).is_integral:
        return x
    there, back = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    return astype(_made(back, _made("round", _made(there, x, scale)), scale), x.dtype)


around = round


# Products


def dot(a: object, b: object) -> TensorLike:
    """The product over the last axis of ``a`` and the last but one of ``b``."""
    x, y = _like(a), _like(b)
    if not x.ndim or not y.ndim:
        return _made("multiply", x, y)
    if y.ndim <= 2:
        return _made("matmul", x, y)
    return tensordot(x, y, ((x.ndim - 1,), (y.ndim - 2,)))


def inner(a: object, b: object, /) -> TensorLike:
    """The product over the last axes."""
    x, y = _like(a), _like(b)
    return _made("multiply", x, y) if not x.ndim or not y.ndim else tensordot(x, y, ((x.ndim - 1,), (y.ndim - 1,)))


def outer(a: object, b: object) -> TensorLike:
    """The products of all elements of one with all of the other."""
    return _made("multiply", reshape(a, (-1, 1)), reshape(b, (1, -1)))


def vdot(a: object, b: object, /) -> TensorLike:
    """The product over all elements."""
    return _made("matmul", ravel(a), ravel(b))


def vecdot(x1: object, x2: object, /, *, axis: int = -1) -> TensorLike:
    """The product over one axis."""
    return _made("sum", _made("multiply", x1, x2), axis=(axis,))


def tensordot(a: object, b: object, axes: object = 2) -> TensorLike:
    """The product over pairs of axes, or over the last of ``a`` and the first of ``b``."""
    x, y = _like(a), _like(b)
    if isinstance(axes, (tuple, list)):
        left, right = _axes(axes[0], x.ndim, "tensordot"), _axes(axes[1], y.ndim, "tensordot")
    else:
        count = operator.index(axes)  # type: ignore[arg-type]  # refused by operator
        left, right = tuple(range(x.ndim - count, x.ndim)), tuple(range(count))
    if len(left) != len(right):
        raise GraphError(f"tensordot at {place()} pairs {len(left)} axes with {len(right)}")
    rows = [n for n in range(x.ndim) if n not in left]
    columns = [n for n in range(y.ndim) if n not in right]
    shape = (*(_extents(x)[n] for n in rows), *(_extents(y)[n] for n in columns))
    depth = _simple(math.prod(_extents(x)[n] for n in left))
    m = _simple(math.prod(_extents(x)[n] for n in rows))
    k = _simple(math.prod(_extents(y)[n] for n in columns))
    flat_x = reshape(_made("transpose", x, axes=(*rows, *left)), (m, depth))
    flat_y = reshape(_made("transpose", y, axes=(*right, *columns)), (depth, k))
    return reshape(_made("matmul", flat_x, flat_y), shape)


def einsum(subscripts: object, /, *operands: object, optimize: object = False) -> TensorLike:
    """The sum of products that ``"ij,jk->ik"`` says."""
    if not isinstance(subscripts, str):
        raise GraphError(f"einsum at {place()} takes its subscripts as text first, got {subscripts!r}")
    return _made("einsum", [_like(o) for o in operands], equation=subscripts)


# Reductions


def average(a: object, axis: object = None, weights: object = None, *, keepdims: bool = False) -> TensorLike:
    """The mean, or the mean by weights of the same shape."""
    if weights is None:
        return _made("mean", a, axis=axis, keepdims=keepdims)
    if shape(weights) != shape(a):
        raise GraphError(
            f"average at {place()} of {shape(a)} has weights {shape(weights)}", help="broadcast them before"
        )
    total = _made("sum", _made("multiply", a, weights), axis=axis, keepdims=keepdims)
    return _made("divide", total, _made("sum", weights, axis=axis, keepdims=keepdims))


def count_nonzero(a: object, axis: object = None, *, keepdims: bool = False) -> TensorLike:
    """How many elements are not zero."""
    return _made("sum", astype(_made("not_equal", a, 0), "int64"), axis=axis, keepdims=keepdims)


def norm(x: object, ord: object = None, axis: object = None, keepdims: bool = False) -> TensorLike:
    """The square root of the sum of squares over axes."""
    if ord is not None and not (ord == 2 and (isinstance(axis, int) or ndim(x) == 1)):
        raise GraphError(f"norm at {place()} is known for vectors by squares alone, got ord={ord!r}")
    return _made("sqrt", _made("sum", _made("multiply", x, x), axis=axis, keepdims=keepdims))


def ptp(a: object, axis: object = None, *, keepdims: bool = False) -> TensorLike:
    """The greatest element less the least."""
    return _made(
        "subtract", _made("max", a, axis=axis, keepdims=keepdims), _made("min", a, axis=axis, keepdims=keepdims)
    )


# Made from numbers


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
        return _made("full", shape=extents, value=value, dtype=str(kind))
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
    return _made("arange", stop=bounds[1], start=bounds[0], step=step, dtype=kind)


def eye(n_rows: object, n_cols: object = None, /, *, k: int = 0, dtype: object = "float64") -> TensorLike:
    """1 on the k-th diagonal of a matrix, 0 elsewhere."""
    if current() is None:
        return np.eye(n_rows, n_cols, k, DataType(dtype_name(dtype)).numpy)  # type: ignore[call-overload, no-any-return]
    columns = n_rows if n_cols is None else n_cols
    return _made("eye", rows=as_extent(n_rows), columns=as_extent(columns), k=k, dtype=dtype_name(dtype))


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
    x = _like(a)
    return full(_extents(x) if shape is None else shape, fill, x.dtype if dtype is None else dtype)


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


def asarray(a: object, /, dtype: object = None, *, copy: bool | None = None) -> TensorLike:
    """A tensor as it is; other things as arrays."""
    x = _like(a)
    return x if dtype is None else astype(x, dtype)


def result_type(*arrays_and_dtypes: object) -> NumpyDType:
    """The dtype to which these are converted together."""
    plain = [x.dtype if isinstance(x, Tensor) else x for x in arrays_and_dtypes]
    return np.result_type(*plain)  # type: ignore[arg-type]  # refused by NumPy


def iscomplexobj(x: object) -> bool:
    """Whether there are complex numbers: never."""
    return False


__all__ = [
    name
    for name, value in dict(globals()).items()
    if callable(value) and not name.startswith("_") and getattr(value, "__module__", "") == __name__
]
