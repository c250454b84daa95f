"""Functions of NumPy and the array API that are not an operation by themselves: other signatures, compositions.

Each takes tensors and arrays alike. Those that are one operation of the registry are derived from it, and not here.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Sequence

import numpy as np

from tirlower.graph.core.dims import Extent, Shape, as_extent, as_shape, extent_expr
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.arguments import dtype_name
from tirlower.graph.frontend.operands import TensorLike, as_tensor, axes_of, axis_of, extents_of, result_of, simplest
from tirlower.graph.frontend.recording import place
from tirlower.graph.frontend.tensor import Tensor, apply, values_in
from tirlower.graph.frontend.tensor_facts import recording_of
from tirlower.graph.ops.compute import broadcast
from tirlower.ir import Expr, build
from tirlower.ir.dtype import DataType, NumpyDType

# Shapes


def shape(a: object) -> Shape:
    """The extents."""
    return extents_of(as_tensor(a))


def ndim(a: object) -> int:
    """How many axes there are."""
    return len(shape(a))


def size(a: object, axis: int | None = None) -> Extent:
    """How many elements there are, or the extent of an axis."""
    return simplest(math.prod(shape(a))) if axis is None else shape(a)[axis]


def reshape(a: object, /, shape: object, order: str = "C", *, copy: bool | None = None) -> TensorLike:
    """With other extents, of which one may be -1: what the others leave."""
    if order not in ("C", "A", "K"):
        raise GraphError(f"reshape at {place()} knows the order 'C' alone, got {order!r}", help="transpose before")
    x = as_tensor(a)
    given = list(shape) if isinstance(shape, (tuple, list)) else [shape]
    holes = [n for n, e in enumerate(given) if not isinstance(e, Expr) and not hasattr(e, "as_expr") and e == -1]
    if len(holes) > 1:
        raise GraphError(f"reshape at {place()} to {tuple(given)}: one extent at most is -1")
    wanted: list[Extent] = [1 if n in holes else as_extent(e) for n, e in enumerate(given)]
    if holes:
        whole, rest = simplest(math.prod(extents_of(x))), simplest(math.prod(wanted))
        if isinstance(rest, int) and rest == 0:
            raise GraphError(f"reshape at {place()} of {extents_of(x)} to {tuple(given)}: the -1 could be any extent")
        if isinstance(whole, int) and isinstance(rest, int) and whole % rest:
            raise GraphError(
                f"reshape at {place()} of {extents_of(x)} to {tuple(given)}: {rest} does not divide {whole}"
            )
        wanted[holes[0]] = simplest(whole // rest)
    return result_of("reshape", x, shape=tuple(wanted))


def ravel(a: object, order: str = "C") -> TensorLike:
    """With one axis."""
    return reshape(a, -1, order)


def flatten(a: object, order: str = "C") -> TensorLike:
    """With one axis."""
    return reshape(a, -1, order)


def squeeze(a: object, axis: object = None) -> TensorLike:
    """Without axes of extent 1: all that are known to be, or those given."""
    x = as_tensor(a)
    gone = (
        tuple(n for n, e in enumerate(extents_of(x)) if isinstance(e, int) and e == 1)
        if axis is None
        else axes_of(axis, x.ndim, "squeeze")
    )
    return result_of("squeeze", x, axis=gone) if gone else x


def expand_dims(a: object, axis: object) -> TensorLike:
    """With axes of extent 1 at these places of the result."""
    x = as_tensor(a)
    several = axis if isinstance(axis, (tuple, list)) else (axis,)
    return result_of("expand_dims", x, axis=axes_of(several, x.ndim + len(several), "expand_dims"))


def moveaxis(a: object, source: object, destination: object) -> TensorLike:
    """With axes moved to other places, the rest in its order."""
    x = as_tensor(a)
    old, new = axes_of(source, x.ndim, "moveaxis"), axes_of(destination, x.ndim, "moveaxis")
    if len(old) != len(new):
        raise GraphError(f"moveaxis at {place()} moves {len(old)} axes to {len(new)} places")
    order = [n for n in range(x.ndim) if n not in old]
    for to, axis in sorted(zip(new, old, strict=True)):
        order.insert(to, axis)
    return result_of("transpose", x, axes=tuple(order))


def swapaxes(a: object, axis1: int, axis2: int) -> TensorLike:
    """With two axes exchanged."""
    x = as_tensor(a)
    order = list(range(x.ndim))
    i, j = axis_of(axis1, x.ndim, "swapaxes"), axis_of(axis2, x.ndim, "swapaxes")
    order[i], order[j] = j, i
    return result_of("transpose", x, axes=tuple(order))


def matrix_transpose(x: object, /) -> TensorLike:
    """With the last two axes exchanged."""
    return swapaxes(x, -1, -2)


def broadcast_to(array: object, shape: object, subok: bool = False) -> TensorLike:
    """Repeated along new axes and along axes of extent 1, as NumPy has it."""
    return result_of("broadcast_to", as_tensor(array), shape=as_shape(shape))


def broadcast_arrays(*args: object, subok: bool = False) -> tuple[TensorLike, ...]:
    """All of the one shape to which they are broadcast."""
    several = [as_tensor(a) for a in args]
    tensors = values_in(several)
    if not tensors:
        return tuple(np.broadcast_arrays(*several))
    with recording_of(tensors, "broadcast_arrays").builder.env.inferring():
        common = broadcast(*[extents_of(x) for x in several])
    return tuple(broadcast_to(x, common) for x in several)


def atleast_1d(*arys: object) -> TensorLike | tuple[TensorLike, ...]:
    """With one axis where there is none."""
    made = tuple(x if x.ndim else reshape(x, (1,)) for x in map(as_tensor, arys))
    return made[0] if len(made) == 1 else made


def atleast_2d(*arys: object) -> TensorLike | tuple[TensorLike, ...]:
    """With axes of extent 1 in front until there are two."""
    made = tuple(
        x if x.ndim > 1 else reshape(x, (1, *extents_of(x)) if x.ndim else (1, 1)) for x in map(as_tensor, arys)
    )
    return made[0] if len(made) == 1 else made


# Several tensors, and parts of one


def concatenate(arrays: Sequence[object], axis: int | None = 0, *, dtype: object = None) -> TensorLike:
    """Joined along an axis; without one, flattened before."""
    several = [as_tensor(a) if dtype is None else astype(a, dtype) for a in arrays]
    if axis is None:
        several, axis = [ravel(a) for a in several], 0
    return result_of("concat", several, axis=axis)


concat = concatenate


def stack(arrays: Sequence[object], axis: int = 0) -> TensorLike:
    """Joined along a new axis."""
    several = [as_tensor(a) for a in arrays]
    if not several:
        raise GraphError(f"stack at {place()} got no tensors")
    return result_of("stack", several, axis=axis)


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
    x = as_tensor(ary)
    at = axis_of(axis, x.ndim, "split")
    extent = extents_of(x)[at]
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
                simplest(build.min_(extent_expr(extent % count), n + 1))
                if isinstance(extent, Expr)
                else min(extent % count, n + 1)
            )
            bounds.append(simplest(extent // count * (n + 1) + ahead))
    return [_part(x, at, a, b) for a, b in itertools.pairwise(bounds)]


def split(ary: object, indices_or_sections: object, axis: int = 0) -> list[TensorLike]:
    """Equal parts along an axis, or those that begin at indices."""
    if isinstance(indices_or_sections, (tuple, list, np.ndarray)):
        return array_split(ary, indices_or_sections, axis)
    made = apply("split", as_tensor(ary), parts=operator.index(indices_or_sections), axis=axis)  # type: ignore[arg-type]
    return list(made) if isinstance(made, tuple) else [as_tensor(made)]


def vsplit(ary: object, indices_or_sections: object) -> list[TensorLike]:
    """Parts along the first axis."""
    return split(ary, indices_or_sections, 0)


def hsplit(ary: object, indices_or_sections: object) -> list[TensorLike]:
    """Parts along the second axis, or the first where there is one."""
    return split(ary, indices_or_sections, 0 if ndim(ary) == 1 else 1)


def take(a: object, indices: object, axis: int | None = None, mode: str = "raise") -> TensorLike:
    """Elements along an axis, or of the flattened tensor, by their indices."""
    x = as_tensor(a)
    if axis is None:
        x, axis = (x if x.ndim == 1 else ravel(x)), 0
    where = axis_of(axis, x.ndim, "take")
    if mode not in ("raise", "wrap", "clip"):
        raise GraphError(f"take at {place()} knows the modes 'raise', 'wrap' and 'clip', got {mode!r}")
    if mode != "raise":
        extent = extents_of(x)[where]
        most = extent if isinstance(extent, int) else result_of("dim_value", value=extent)
        near = result_of("minimum", result_of("maximum", indices, 0), result_of("subtract", most, 1))
        return result_of("gather", x, result_of("remainder", indices, most) if mode == "wrap" else near, axis=where)
    if isinstance(x, Tensor) and not isinstance(indices, Tensor):
        return x[(*[slice(None)] * where, indices if ndim(indices) else operator.index(indices))]  # type: ignore[arg-type]
    return result_of("gather", x, as_tensor(indices), axis=where)


def take_along_axis(arr: object, indices: object, axis: int | None = -1) -> TensorLike:
    """Each element at its own place but along an axis, where the index says which."""
    x = as_tensor(arr)
    return result_of(
        "gather_elements", x if axis is not None else ravel(x), as_tensor(indices), axis=0 if axis is None else axis
    )


def diff(a: object, n: int = 1, axis: int = -1) -> TensorLike:
    """Each element less the one before, ``n`` times."""
    x = as_tensor(a)
    at = axis_of(axis, x.ndim, "diff")
    for _ in range(n):
        x = result_of("subtract", _part(x, at, 1, None), _part(x, at, 0, -1))
    return x


# Elements


def astype(x: object, dtype: object, /, *, copy: bool = True) -> TensorLike:
    """Converted to a dtype."""
    given = as_tensor(x)
    return given.astype(dtype) if isinstance(given, Tensor) else given.astype(DataType(dtype_name(dtype)).numpy)


def copy(a: object, order: str = "K", subok: bool = False) -> TensorLike:
    """Itself: tensors of a graph do not change."""
    return a if isinstance(a, Tensor) else np.array(as_tensor(a))


def where(condition: object, x: object = None, y: object = None, /) -> TensorLike:
    """Elements of ``x`` where the condition holds, of ``y`` elsewhere."""
    if x is None or y is None:
        raise GraphError(
            f"where at {place()} got no values: how many elements hold is known only when the graph runs",
            help="tg.where(condition, x, y) keeps the shape",
        )
    return result_of("where", condition, x, y)


def clip(
    a: object, a_min: object = None, a_max: object = None, *, min: object = None, max: object = None
) -> TensorLike:
    """Limited from below and from above."""
    low, high = (min if a_min is None else a_min), (max if a_max is None else a_max)
    return result_of("clip", _weak(a), low, high) if low is not None or high is not None else as_tensor(a)


def _weak(given: object) -> object:
    """Python numbers take the dtype of what they meet; other things are tensors or arrays."""
    return given if isinstance(given, (bool, int, float)) else as_tensor(given)


def degrees(x: object, /) -> TensorLike:
    """Radians in degrees."""
    return result_of("multiply", x, 180.0 / math.pi)


def radians(x: object, /) -> TensorLike:
    """Degrees in radians."""
    return result_of("multiply", x, math.pi / 180.0)


rad2deg, deg2rad = degrees, radians


def isneginf(x: object, /) -> TensorLike:
    """Whether it is minus infinity."""
    return result_of("isinf", x, positive=False)


def isposinf(x: object, /) -> TensorLike:
    """Whether it is infinity."""
    return result_of("isinf", x, negative=False)


def tril(m: object, k: int = 0) -> TensorLike:
    """The lower triangle of matrices, up to the k-th diagonal."""
    return result_of("trilu", as_tensor(m), upper=False, k=k)


def triu(m: object, k: int = 0) -> TensorLike:
    """The upper triangle of matrices, from the k-th diagonal on."""
    return result_of("trilu", as_tensor(m), upper=True, k=k)


def pad(array: object, pad_width: object, mode: str = "constant", *, constant_values: float = 0) -> TensorLike:
    """More elements before and behind each axis."""
    x = as_tensor(array)
    pairs = list(pad_width) if isinstance(pad_width, (tuple, list, np.ndarray)) else [pad_width]
    if len(pairs) == 2 and not any(isinstance(p, (tuple, list, np.ndarray)) for p in pairs):
        pairs = [pairs] * x.ndim  # one pair for all axes
    pairs = pairs * x.ndim if len(pairs) == 1 else pairs
    both = tuple(tuple(p) * (2 // len(p)) if isinstance(p, (tuple, list, np.ndarray)) else (p, p) for p in pairs)
    if len(both) != x.ndim:
        raise GraphError(f"pad at {place()} got {len(both)} pairs for {x.ndim} axes")
    return result_of("pad", x, pads=both, mode=mode, value=constant_values)


def repeat(a: object, repeats: int, axis: int | None = None) -> TensorLike:
    """Each element several times along an axis, or of the flattened tensor."""
    x = as_tensor(a)
    return result_of("repeat", x if axis is not None else ravel(x), repeats=repeats, axis=0 if axis is None else axis)


def round(a: object, decimals: int = 0) -> TensorLike:
    """Rounded to so many digits behind the point, halves to even ones."""
    x = as_tensor(a)
    if not decimals:
        return result_of("round", x)
    scale = 10.0 ** abs(decimals)
    if decimals > 0 and DataType(dtype_name(x.dtype)).is_integral:
        return x
    there, back = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    return astype(result_of(back, result_of("round", result_of(there, x, scale)), scale), x.dtype)


around = round


# Reductions


def average(a: object, axis: object = None, weights: object = None, *, keepdims: bool = False) -> TensorLike:
    """The mean, or the mean by weights of the same shape."""
    if weights is None:
        return result_of("mean", a, axis=axis, keepdims=keepdims)
    if shape(weights) != shape(a):
        raise GraphError(
            f"average at {place()} of {shape(a)} has weights {shape(weights)}", help="broadcast them before"
        )
    total = result_of("sum", result_of("multiply", a, weights), axis=axis, keepdims=keepdims)
    return result_of("divide", total, result_of("sum", weights, axis=axis, keepdims=keepdims))


def count_nonzero(a: object, axis: object = None, *, keepdims: bool = False) -> TensorLike:
    """How many elements are not zero."""
    return result_of("sum", astype(result_of("not_equal", a, 0), "int64"), axis=axis, keepdims=keepdims)


def norm(x: object, ord: object = None, axis: object = None, keepdims: bool = False) -> TensorLike:
    """The square root of the sum of squares over axes."""
    if ord is not None and not (ord == 2 and (isinstance(axis, int) or ndim(x) == 1)):
        raise GraphError(f"norm at {place()} is known for vectors by squares alone, got ord={ord!r}")
    return result_of("sqrt", result_of("sum", result_of("multiply", x, x), axis=axis, keepdims=keepdims))


def ptp(a: object, axis: object = None, *, keepdims: bool = False) -> TensorLike:
    """The greatest element less the least."""
    return result_of(
        "subtract", result_of("max", a, axis=axis, keepdims=keepdims), result_of("min", a, axis=axis, keepdims=keepdims)
    )


def asarray(a: object, /, dtype: object = None, *, copy: bool | None = None) -> TensorLike:
    """A tensor as it is; other things as arrays."""
    x = as_tensor(a)
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
