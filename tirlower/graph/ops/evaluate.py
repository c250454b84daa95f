"""The reference that every operation has: its loops run by NumPy over whole arrays.

Indices are evaluated as arrays of integers; where they grow by constant steps a load is a strided view, else a gather. A
guard divides the iterations into those for which it holds and the others, so that what stands behind it is read only there.
A sum of products of views is a product of matrices. Nothing here is shared with the passes or with what emits code.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tirlower.graph.core.dims import Extent
from tirlower.graph.core.extents import readable
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.generic import Generic, Iter
from tirlower.graph.ops.intrinsics import computed, truncated
from tirlower.graph.ops.products import multiplied
from tirlower.ir import Add, And, Buffer, BufferLoad, Call, Cast, Expr, FloatImm, IntImm, Let, Mul, Select, Var
from tirlower.ir.dtype import Array, DataType, NumpyDType
from tirlower.ir.functor import Dispatch
from tirlower.ir.op import Op
from tirlower.ir.query import each

__all__ = ["bind_dims", "evaluate", "extent_value"]

LIMIT = 1 << 23
"""The elements of a chunk: 64 MB of float64."""


def evaluate(
    generic: Generic, *arrays: Array, dims: Mapping[Var, int] | None = None, precise: bool = False
) -> tuple[Array, ...]:
    """The results of an operation on arrays.

    ``dims`` gives values to dims that no operand's shape binds; ``precise`` computes floats, and returns them, in float64.
    Raises :class:`GraphError` where an array does not have the operand's shape or dtype, or is read outside its bounds.

    >>> from tirlower.graph.ops.compute import compute, formal, sum_over
    >>> a, b = formal("a", (2, 3), "int32"), formal("b", (3, 2), "int32")
    >>> product = compute((2, 2), lambda i, j: sum_over(3, lambda k: a[i, k] * b[k, j]))
    >>> evaluate(product, np.arange(6, dtype="int32").reshape(2, 3), np.ones((3, 2), "int32"))[0].tolist()
    [[3, 3], [12, 12]]
    """
    values = dict(dims or {})
    if len(arrays) != len(generic.operands):
        raise GraphError(f"{generic.name} has {len(generic.operands)} operands, got {len(arrays)} arrays")
    for buffer, array in zip(generic.operands, arrays, strict=True):
        kind = array.dtype if precise and array.dtype == np.float64 and buffer.dtype.is_float else buffer.dtype.numpy
        if array.dtype != kind:
            raise GraphError(f"{generic.name} takes {buffer.name} of {buffer.dtype!s}, got {array.dtype}")
        bind_dims(f"{generic.name}: {buffer.name}", tuple(buffer.shape), array.shape, values)
    held = {
        buffer: array.astype(np.float64) if precise and buffer.dtype.is_float else array
        for buffer, array in zip(generic.operands, arrays, strict=True)
    }
    with np.errstate(all="ignore"):
        return _Run(generic, held, values, precise).results()


def bind_dims(what: str, extents: Sequence[Extent], shape: tuple[int, ...], values: dict[Var, int]) -> None:
    """Give the dims that are extents of a shape their values. Raises :class:`GraphError` where an extent is another one."""
    if len(extents) != len(shape):
        raise GraphError(f"{what} has {len(extents)} axes, got an array of shape {shape}")
    for axis, (extent, got) in enumerate(zip(extents, shape, strict=True)):
        if isinstance(extent, Var):
            known = values.setdefault(extent, got)
            if known != got:
                raise GraphError(f"{what}: axis {axis} has the extent {extent.name} = {known}, got {got}")
        elif isinstance(extent, (int, IntImm)) or all(var in values for var in each(Var, extent)):
            wanted = extent_value(extent, values)
            if wanted != got:
                text = f"{wanted}" if isinstance(extent, (int, IntImm)) else f"{readable(extent)} = {wanted}"
                raise GraphError(f"{what}: axis {axis} has the extent {text}, got {got}")


def extent_value(extent: Extent, values: Mapping[Var, int]) -> int:
    """The number that an extent is. Raises :class:`GraphError` where a dim in it has no value."""
    if isinstance(extent, (int, IntImm)):
        return extent if isinstance(extent, int) else extent.value
    for var in each(Var, extent):
        if var not in values:
            raise GraphError(
                f"the dim {var.name} of {readable(extent)} has no value", help="no shape of an input says what it is"
            )
    return int(_Box((), {}, values).value(extent))


def _kept(kind: DataType, precise: bool) -> NumpyDType:
    return np.dtype(np.float64) if precise and kind.is_float else kind.numpy


@dataclass(frozen=True)
class _Axis:
    """The iterations of an iterator that are looked at."""

    iter: Iter
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start


class _Run:
    """One evaluation of an operation."""

    def __init__(self, generic: Generic, arrays: dict[Buffer, Array], values: Mapping[Var, int], precise: bool) -> None:
        self.generic = generic
        self.arrays = arrays
        self.values = values
        self.precise = precise
        self.axes = tuple(_Axis(it, 0, extent_value(it.extent, values)) for it in generic.iters)
        self.outer = len(generic.parallel)

    def results(self) -> tuple[Array, ...]:
        generic = self.generic
        shapes = [tuple(extent_value(e, self.values) for e in result.shape) for result in generic.results]
        for shape, result in zip(shapes, generic.results, strict=True):
            if min(shape, default=0) < 0:
                at = ", ".join(f"{var.name} = {n}" for var, n in self.values.items())
                raise GraphError(
                    f"an extent is negative: ({', '.join(map(readable, result.shape))}) is {shape} where {at}",
                    help="state a range of the dim in which it is not: tg.dim(name, low)",
                )
        outs = [
            np.zeros(shape, _kept(result.dtype, self.precise))
            for shape, result in zip(shapes, generic.results, strict=True)
        ]
        if all(out.size == 0 for out in outs):
            return tuple(outs)
        products = _product(self, self.axes[: self.outer])
        if products is not None:
            for box, value in products:
                self._store(outs, box, [value])
            return tuple(outs)
        for box in self._chunks(self.axes[: self.outer], max(1, _volume(self.axes[self.outer :]))):
            self._store(outs, box, self._block(box))
        return tuple(outs)

    def _store(self, outs: list[Array], box: tuple[_Axis, ...], made: Sequence[Array]) -> None:
        loop = tuple(it.var for it in self.generic.parallel)
        for out, result, value in zip(outs, self.generic.results, made, strict=True):
            if result.indices == loop:
                out[tuple(slice(axis.start, axis.stop) for axis in box)] = value
            else:
                at = tuple(_Box(box, {}, self.values).value(i) for i in result.indices)
                out[at] = np.broadcast_to(value, tuple(axis.size for axis in box))

    def _chunks(self, box: tuple[_Axis, ...], each_takes: int) -> list[tuple[_Axis, ...]]:
        """Parts of a box with few enough iterations each."""
        done, todo = [], [box]
        while todo:
            part = todo.pop()
            widest = max(range(len(part)), key=lambda n: part[n].size, default=0)
            if _volume(part) * each_takes <= LIMIT or not part or part[widest].size < 2:
                done.append(part)
                continue
            axis = part[widest]
            middle = (axis.start + axis.stop) // 2
            for start, stop in ((axis.start, middle), (middle, axis.stop)):
                todo.append((*part[:widest], _Axis(axis.iter, start, stop), *part[widest + 1 :]))
        return done

    def _block(self, box: tuple[_Axis, ...]) -> list[Array]:
        """The values of the parallel iterations of a box."""
        generic = self.generic
        shape = tuple(axis.size for axis in box)
        if generic.reducer is None:
            made = _Box(box, self.arrays, self.values, self.precise)
            return [np.broadcast_to(made.value(result.value), shape) for result in generic.results]
        neutral = [
            np.broadcast_to(_Box((), {}, self.values, self.precise).value(e), shape) for e in generic.reducer.identity
        ]
        whole = self.axes[self.outer :]
        if not _volume(whole):
            return neutral
        total: list[Array] | None = None
        for part in self._chunks(whole, max(1, _volume(box))):
            made = _Box((*box, *part), self.arrays, self.values, self.precise)
            inner = (*shape, _volume(part))
            several = [
                np.broadcast_to(made.value(result.value), tuple(a.size for a in (*box, *part))).reshape(inner)
                for result in generic.results
            ]
            folded = self._folded(several)
            total = folded if total is None else self._combined(total, folded)
        return total or neutral

    def _folded(self, values: list[Array]) -> list[Array]:
        """The values along the last axis, combined."""
        ufunc = self._ufunc(values)
        if ufunc is not None:
            return [ufunc.reduce(values[0], axis=-1, dtype=values[0].dtype)]
        while values[0].shape[-1] > 1:
            half, odd = divmod(values[0].shape[-1], 2)
            last = [v[..., 2 * half :] for v in values]
            values = self._combined([v[..., :half] for v in values], [v[..., half : 2 * half] for v in values])
            if odd:
                values = [np.concatenate(pair, axis=-1) for pair in zip(values, last, strict=True)]
        return [v[..., 0] for v in values]

    def _combined(self, left: list[Array], right: list[Array]) -> list[Array]:
        reducer = self.generic.reducer
        assert reducer is not None
        box = _Box((), {}, self.values, self.precise)
        box.vars.update(zip((*reducer.lhs, *reducer.rhs), (*left, *right), strict=True))
        return [box.value(e) for e in reducer.result]

    def _ufunc(self, values: list[Array]) -> np.ufunc | None:
        """What NumPy does as the combination of one value does: sums and products by their nodes, the others by trying."""
        reducer, kind = self.generic.reducer, values[0].dtype
        assert reducer is not None
        if len(values) > 1 or kind.kind not in "iufb":
            return None
        if isinstance(reducer.result[0], (Add, Mul)):
            return np.add if isinstance(reducer.result[0], Add) else np.multiply
        probes = np.asarray([0, 1] if kind.kind in "bu" else [-1, 0, 2], kind)
        if kind.kind == "f":
            probes = np.append(probes, np.asarray([-np.inf, np.inf, np.nan], kind))
        left, right = np.repeat(probes, probes.size), np.tile(probes, probes.size)
        made = self._combined([left], [right])[0]
        for ufunc in (np.maximum, np.minimum):
            if np.array_equal(ufunc(left, right), made, equal_nan=kind.kind == "f"):
                return ufunc
        return None


def _volume(box: Sequence[_Axis]) -> int:
    size = 1
    for axis in box:
        size *= axis.size
    return size


class _Box(Dispatch[Expr, "Array", "Array | None"]):
    """Expressions over the iterations of a box: an axis of the arrays for each iterator, of extent 1 where it says nothing."""

    def __init__(
        self,
        axes: tuple[_Axis, ...],
        arrays: Mapping[Buffer, Array],
        values: Mapping[Var, int],
        precise: bool = False,
    ) -> None:
        self.axes = axes
        self.arrays = arrays
        self.precise = precise
        self.dims = values
        self.vars: dict[Var, Array] = {var: np.asarray(value, np.int64) for var, value in values.items()}
        for n, axis in enumerate(axes):
            shape = tuple(axis.size if m == n else 1 for m in range(len(axes)))
            self.vars[axis.iter.var] = np.arange(axis.start, axis.stop, dtype=np.int64).reshape(shape)
        self.lets: dict[Var, Expr] = {}
        self.memo: dict[int, tuple[Expr, Array]] = {}

    def value(self, expr: Expr, where: Array | None = None) -> Array:
        """The values of an expression; behind a guard only those ``where`` it holds mean anything."""
        if where is not None:
            return self.dispatch(expr, where)
        found = self.memo.get(id(expr))
        if found is None:
            found = self.memo[id(expr)] = (expr, self.dispatch(expr, None))
        return found[1]

    def on_Var(self, op: Var, where: Array | None) -> Array:
        return self.value(self.lets[op], where) if op in self.lets else self.vars[op]

    def on_Let(self, op: Let, where: Array | None) -> Array:
        self.lets[op.var] = op.value  # evaluated where it is used, for the iterations that are looked at there
        return self.value(op.body, where)

    def on_IntImm(self, op: IntImm, where: Array | None) -> Array:
        return np.asarray(op.value, op.dtype.numpy)

    def on_FloatImm(self, op: FloatImm, where: Array | None) -> Array:
        return np.asarray(op.value, _kept(op.dtype, self.precise))

    def on_Cast(self, op: Cast, where: Array | None) -> Array:
        return self.cast(op.dtype, self.value(op.value, where))

    def on_Select(self, op: Select, where: Array | None) -> Array:
        return np.where(
            self.value(op.condition, where), self.value(op.true_value, where), self.value(op.false_value, where)
        )

    def on_Call(self, op: Call, where: Array | None) -> Array:
        if op.op is _IF_THEN_ELSE:
            return self._guarded(op, where)
        return self._computed(op.op.name, op, where)

    def otherwise(self, op: Expr, where: Array | None) -> Array:
        """A node of one operand or two."""
        return self._computed(type(op).__name__, op, where)

    def _computed(self, name: str, op: Expr, where: Array | None) -> Array:
        found = computed(name, [self.value(e, where) for e in op.children()])
        if found is None:
            raise GraphError(f"the reference knows no {name}: {op}")
        return found

    def cast(self, kind: DataType, value: Array) -> Array:
        """Converted to a dtype; a float that an integer cannot hold is the nearest one that it can, NaN is 0."""
        if kind.is_bool:
            return np.not_equal(value, 0)
        if kind.is_integral and value.dtype.kind not in "iub":
            return truncated(value, kind.numpy)
        return value.astype(_kept(kind, self.precise), copy=False)

    # Loads

    def on_BufferLoad(self, load: BufferLoad, where: Array | None) -> Array:
        array = self.arrays[load.buffer]
        at = [self.value(i, where) for i in load.indices]
        for axis, (index, extent) in enumerate(zip(at, array.shape, strict=True)):
            outside = np.logical_or(np.less(index, 0), np.greater_equal(index, extent))
            if where is not None:
                outside = np.logical_and(outside, where)
            if outside.any():
                bad = int(np.broadcast_to(index, outside.shape)[tuple(int(n[0]) for n in np.nonzero(outside))])
                raise GraphError(
                    f"{load.buffer.name} is read outside its bounds: index {bad} of axis {axis}, whose extent is {extent}"
                )
        view = strided(array, at, len(self.axes)) if where is None or _inside(array, at) else None
        if view is not None:
            return view
        if not array.size:
            return np.zeros((1,) * len(self.axes), array.dtype)
        return np.asarray(array[tuple(np.clip(i, 0, e - 1) for i, e in zip(at, array.shape, strict=True))])

    # Guards

    def _guarded(self, choice: Call, where: Array | None) -> Array:
        condition, then, other = choice.args
        if isinstance(condition, And):  # one at a time: each by itself often says something of one iterator only
            from_second = Call(_IF_THEN_ELSE, (condition.b, then, other), then.dtype)
            holds = self.value(condition.a, where)
            if where is None and _axis_of(holds) is not None:
                return self._divided(holds, from_second, other)
        holds = self.value(condition, where)
        chosen = holds if where is None else np.logical_and(holds, where)
        left_out = np.logical_not(holds) if where is None else np.logical_and(np.logical_not(holds), where)
        if not left_out.any():
            return self.value(then, where)
        if not chosen.any():
            return self.value(other, where)
        if where is None:
            if _axis_of(holds) is not None:
                return self._divided(holds, then, other)
            padded = self.padded(holds, then, other)
            if padded is not None:
                return padded
        return np.where(holds, self.value(then, chosen), self.value(other, left_out))

    def _divided(self, holds: Array, then: Expr, other: Expr) -> Array:
        """Both arms where only one iterator decides: each over its own iterations."""
        if holds.all() or not holds.any():
            return self.value(then if holds.all() else other)
        n = _axis_of(holds)
        assert n is not None
        flat = holds.reshape(-1)
        cuts = [0, *(np.flatnonzero(flat[1:] != flat[:-1]) + 1).tolist(), flat.size]
        if len(cuts) > 64:
            return np.where(holds, self.value(then, holds), self.value(other, np.logical_not(holds)))
        axis = self.axes[n]
        parts = []
        for start, stop in itertools.pairwise(cuts):
            part = _Axis(axis.iter, axis.start + start, axis.start + stop)
            inner = _Box((*self.axes[:n], part, *self.axes[n + 1 :]), self.arrays, self.dims, self.precise)
            inner.vars.update({v: a for v, a in self.vars.items() if v not in inner.vars})
            inner.lets.update(self.lets)
            made = inner.value(then if flat[start] else other)
            shape = list(made.shape) if made.ndim else [1] * len(self.axes)
            shape[n] = part.size
            parts.append(np.broadcast_to(made, shape))
        whole = tuple(max(sizes) for sizes in zip(*[p.shape for p in parts], strict=True))
        spread = [np.broadcast_to(p, (*whole[:n], p.shape[n], *whole[n + 1 :])) for p in parts]
        return np.concatenate(spread, axis=n)

    def padded(self, holds: Array, then: Expr, other: Expr) -> Array | None:
        """The view of a padded array, where a guard asks whether a load is within bounds and a number stands outside."""
        casts, load = _bare(then)
        if not isinstance(load, BufferLoad) or not isinstance(other, (IntImm, FloatImm)):
            return None
        array = self.arrays[load.buffer]
        at = [self.value(i) for i in load.indices]
        within: Array = np.asarray(True)
        for index, extent in zip(at, array.shape, strict=True):
            if index.min(initial=0) < 0 or index.max(initial=-1) >= extent:
                in_bounds = np.logical_and(np.greater_equal(index, 0), np.less(index, extent))
                within = np.logical_and(within, in_bounds)
        if np.not_equal(within, holds).any():
            return None
        before = [max(0, -int(i.min())) for i in at]
        after = [max(0, int(i.max()) + 1 - e) for i, e in zip(at, array.shape, strict=True)]
        for kind in casts:
            array = self.cast(kind, array)
        filled = np.pad(array, list(zip(before, after, strict=True)), constant_values=other.value)
        return strided(filled, [i + b for i, b in zip(at, before, strict=True)], len(self.axes))


_IF_THEN_ELSE = Op.get("tir.if_then_else")


def _bare(value: Expr) -> tuple[list[DataType], Expr]:
    """A value without the conversions around it, and those, innermost first."""
    casts: list[DataType] = []
    while isinstance(value, Cast):
        casts.append(value.dtype)
        value = value.value
    return casts[::-1], value


def _inside(array: Array, at: Sequence[Array]) -> bool:
    return all(i.size and i.min() >= 0 and i.max() < e for i, e in zip(at, array.shape, strict=True))


def _axis_of(mask: Array) -> int | None:
    """The only axis along which a mask differs; None where there is none, or several."""
    wide = [n for n, size in enumerate(mask.shape) if size > 1]
    return wide[0] if len(wide) == 1 else None


def strided(array: Array, at: Sequence[Array], rank: int) -> Array | None:
    """The view whose elements stand at indices that grow by constant steps; None where they do not.

    Each of ``at`` has an axis for each of ``rank`` iterators; the view has extent 1 where no index grows.

    >>> rows, columns = np.arange(2).reshape(2, 1), np.arange(0, 6, 3).reshape(1, 2)
    >>> strided(np.arange(12).reshape(2, 6), [rows, columns], 2).tolist()
    [[0, 3], [6, 9]]
    """
    if not array.size or not all(index.size for index in at):
        return None
    offset, shape, steps = 0, [1] * rank, [0] * rank
    for n, index in enumerate(at):
        unit = int(np.prod(array.shape[n + 1 :], dtype=np.int64))
        first = index.reshape(-1)[0]
        offset += int(first) * unit
        linear = first
        for axis, size in enumerate(index.shape):
            if size > 1:
                along = index[tuple(slice(None) if m == axis else slice(0, 1) for m in range(index.ndim))]
                grows = along.reshape(-1)[1] - first
                linear = linear + grows * np.arange(size).reshape(along.shape)
                shape[axis] = max(shape[axis], size)
                steps[axis] += int(grows) * unit
        if not np.array_equal(np.broadcast_to(linear, index.shape), index):
            return None
    flat = np.ascontiguousarray(array).reshape(-1)
    strides = [step * array.itemsize for step in steps]
    return np.lib.stride_tricks.as_strided(flat[offset:], shape, strides, writeable=False)


# Sums of products


def _product(run: _Run, box: tuple[_Axis, ...]) -> list[tuple[tuple[_Axis, ...], Array]] | None:
    """A sum of products of two views, as products of matrices for parts of a box; None where the operation is none."""
    generic = run.generic
    if generic.reducer is None or len(generic.results) != 1 or not isinstance(generic.reducer.result[0], Add):
        return None
    value = generic.results[0].value
    inner = run.axes[run.outer :]
    if not isinstance(value, Mul) or value.dtype.is_bool or not _volume((*box, *inner)):
        return None
    made = _Box((*box, *inner), run.arrays, run.values, run.precise)
    left, right = _factor(made, value.a), _factor(made, value.b)
    if left is None or right is None:
        return None
    larger = left if left.size > right.size else right
    wide = [n for n in range(len(box)) if larger.shape[n] > 1]
    if larger.size > LIMIT and wide:
        n = max(wide, key=lambda n: larger.shape[n])
        axis, middle = box[n], (box[n].start + box[n].stop) // 2
        parts: list[tuple[tuple[_Axis, ...], Array]] = []
        for start, stop in ((axis.start, middle), (middle, axis.stop)):
            parts += _product(run, (*box[:n], _Axis(axis.iter, start, stop), *box[n + 1 :])) or []
        return parts
    return [(box, multiplied(left, right, tuple(axis.size for axis in made.axes), len(box)))]


def _factor(box: _Box, value: Expr) -> Array | None:
    """The view that a factor is: a load, or one of a padded array, converted or not."""
    casts, inner = _bare(value)
    if isinstance(inner, Call) and inner.op is _IF_THEN_ELSE:
        if sum(var in box.vars for var in each(Var, inner.args[0])) > 6:
            return None
        holds = box.value(inner.args[0])
        if holds.all():
            made = _factor(box, inner.args[1])
        else:
            made = box.padded(holds, inner.args[1], inner.args[2])
        for kind in casts:
            made = None if made is None else box.cast(kind, made)
        return made
    if not isinstance(inner, BufferLoad):
        return None
    array = box.arrays[inner.buffer]
    at = [box.value(i) for i in inner.indices]
    if not _inside(array, at):
        return None
    for kind in casts:
        array = box.cast(kind, array)
    return strided(array, at, len(box.axes))
