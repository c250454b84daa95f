"""Symbolic tensors: what a traced function computes with in place of NumPy's arrays.

Operators, methods, indexing and NumPy's functions add operations to the graph that is being recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NoReturn

import numpy as np

from tirlower.graph.core.dims import Dim, as_extent
from tirlower.graph.core.nodes import Value
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.arguments import bound, dtype_name
from tirlower.graph.frontend.arrays import computed
from tirlower.graph.frontend.recording import current, place
from tirlower.graph.frontend.subscript import subscript
from tirlower.graph.frontend.symbolic import plain
from tirlower.graph.frontend.tensor_facts import RecordedTensor, recording_of
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.ops.registry import definition
from tirlower.ir import Expr

__all__ = ["Tensor", "apply", "values_in"]


class Tensor(RecordedTensor):
    """A tensor of a graph that is being traced. Called with a shape and a dtype it says what an argument is.

    >>> import tirlower.graph as tg
    >>> @tg.graph
    ... def doubled(x: tg.Tensor((4, 8), "float32")):
    ...     return x + x
    >>> [n.name for n in doubled.ops]
    ['add']
    """

    __slots__ = ()

    @property
    def T(self) -> Tensor:
        """With the axes in the opposite order."""
        return self.transpose()

    @property
    def mT(self) -> Tensor:
        """With the last two axes exchanged."""
        if self.ndim < 2:
            raise GraphError(f"{self!r} at {place()} has no matrices: .mT wants two axes or more")
        return self.swapaxes(-1, -2)

    # What NumPy's functions and operators do

    __array_priority__ = 100.0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object) -> object:
        from tirlower.graph.frontend.numpy_protocol import call_ufunc

        return call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(
        self, function: object, types: Iterable[type], args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> object:
        from tirlower.graph.frontend.numpy_protocol import call_function

        return call_function(function, args, kwargs)

    def __array_namespace__(self, *, api_version: str | None = None) -> object:
        from tirlower.graph.frontend.namespace import xp

        return xp

    def __add__(self, other: object) -> Tensor:
        return _binary("add", self, other)

    def __radd__(self, other: object) -> Tensor:
        return _binary("add", other, self)

    def __sub__(self, other: object) -> Tensor:
        return _binary("subtract", self, other)

    def __rsub__(self, other: object) -> Tensor:
        return _binary("subtract", other, self)

    def __mul__(self, other: object) -> Tensor:
        return _binary("multiply", self, other)

    def __rmul__(self, other: object) -> Tensor:
        return _binary("multiply", other, self)

    def __truediv__(self, other: object) -> Tensor:
        return _binary("divide", self, other)

    def __rtruediv__(self, other: object) -> Tensor:
        return _binary("divide", other, self)

    def __floordiv__(self, other: object) -> Tensor:
        return _binary("floor_divide", self, other)

    def __rfloordiv__(self, other: object) -> Tensor:
        return _binary("floor_divide", other, self)

    def __mod__(self, other: object) -> Tensor:
        return _binary("remainder", self, other)

    def __rmod__(self, other: object) -> Tensor:
        return _binary("remainder", other, self)

    def __pow__(self, other: object) -> Tensor:
        return _binary("power", self, other)

    def __rpow__(self, other: object) -> Tensor:
        return _binary("power", other, self)

    def __matmul__(self, other: object) -> Tensor:
        return _binary("matmul", self, other)

    def __rmatmul__(self, other: object) -> Tensor:
        return _binary("matmul", other, self)

    def __and__(self, other: object) -> Tensor:
        return _binary("bitwise_and", self, other)

    def __rand__(self, other: object) -> Tensor:
        return _binary("bitwise_and", other, self)

    def __or__(self, other: object) -> Tensor:
        return _binary("bitwise_or", self, other)

    def __ror__(self, other: object) -> Tensor:
        return _binary("bitwise_or", other, self)

    def __xor__(self, other: object) -> Tensor:
        return _binary("bitwise_xor", self, other)

    def __rxor__(self, other: object) -> Tensor:
        return _binary("bitwise_xor", other, self)

    def __lshift__(self, other: object) -> Tensor:
        return _binary("bitwise_left_shift", self, other)

    def __rlshift__(self, other: object) -> Tensor:
        return _binary("bitwise_left_shift", other, self)

    def __rshift__(self, other: object) -> Tensor:
        return _binary("bitwise_right_shift", self, other)

    def __rrshift__(self, other: object) -> Tensor:
        return _binary("bitwise_right_shift", other, self)

    def _become(self, sign: str, made: Tensor) -> Tensor:
        """Be another tensor from here on, under all names that this one has, as NumPy's arrays are changed in place.

        Without axes it stays what it is, as NumPy's numbers do, and the name is bound anew. Raises :class:`GraphError` where
        the dtype or the shape would be another, and in a graph inside a node for tensors of the graph around it.
        """
        if not self.ndim:
            return made
        about = f"{self!r} {sign} at {place()}"
        if made._recording is not self._recording:
            raise GraphError(
                f"{about} would change a tensor from inside of a choice or a loop",
                help="make a new one, and give it back: y = x + 1",
            )
        if len(made.known_shape) != self.ndim:
            raise GraphError(f"{about} gives {made!r}, of another shape", help="make a new one: y = x + 1")
        if not np.can_cast(made.dtype, self.dtype, "same_kind"):
            raise GraphError(
                f"{about} gives {made.kind!s}, which {self.kind!s} does not take",
                help="convert before, or make a new one",
            )
        env = self._recording.builder.env
        for a, b in zip(self.known_shape, made.known_shape, strict=True):
            env.same(a, b, f"{about} gives another shape")
        self._value = (made if made.kind is self.kind else made.astype(self.dtype)).value
        return self

    def __iadd__(self, other: object) -> Tensor:
        return self._become("+=", _binary("add", self, other))

    def __isub__(self, other: object) -> Tensor:
        return self._become("-=", _binary("subtract", self, other))

    def __imul__(self, other: object) -> Tensor:
        return self._become("*=", _binary("multiply", self, other))

    def __itruediv__(self, other: object) -> Tensor:
        return self._become("/=", _binary("divide", self, other))

    def __ifloordiv__(self, other: object) -> Tensor:
        return self._become("//=", _binary("floor_divide", self, other))

    def __imod__(self, other: object) -> Tensor:
        return self._become("%=", _binary("remainder", self, other))

    def __ipow__(self, other: object) -> Tensor:
        return self._become("**=", _binary("power", self, other))

    def __imatmul__(self, other: object) -> Tensor:
        return self._become("@=", _binary("matmul", self, other))

    def __iand__(self, other: object) -> Tensor:
        return self._become("&=", _binary("bitwise_and", self, other))

    def __ior__(self, other: object) -> Tensor:
        return self._become("|=", _binary("bitwise_or", self, other))

    def __ixor__(self, other: object) -> Tensor:
        return self._become("^=", _binary("bitwise_xor", self, other))

    def __ilshift__(self, other: object) -> Tensor:
        return self._become("<<=", _binary("bitwise_left_shift", self, other))

    def __irshift__(self, other: object) -> Tensor:
        return self._become(">>=", _binary("bitwise_right_shift", self, other))

    def __lt__(self, other: object) -> Tensor:
        return _binary("less", self, other)

    def __le__(self, other: object) -> Tensor:
        return _binary("less_equal", self, other)

    def __gt__(self, other: object) -> Tensor:
        return _binary("greater", self, other)

    def __ge__(self, other: object) -> Tensor:
        return _binary("greater_equal", self, other)

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]  # as NumPy's arrays have it
        return _binary("equal", self, other)

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]
        return _binary("not_equal", self, other)

    __hash__ = None  # type: ignore[assignment]  # as NumPy's arrays have it

    def __neg__(self) -> Tensor:
        return _one(apply("negative", self))

    def __pos__(self) -> Tensor:
        return self

    def __abs__(self) -> Tensor:
        return _one(apply("abs", self))

    def __invert__(self) -> Tensor:
        return _one(apply("bitwise_invert", self))

    def __divmod__(self, other: object) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def __rdivmod__(self, other: object) -> tuple[Tensor, Tensor]:
        return other // self, other % self

    # Indexing

    def __getitem__(self, index: object) -> Tensor:
        recording = recording_of(values_in([self, index]), "indexing")
        with recording.adding() as builder:
            return Tensor.of(recording, subscript(builder, self.value, _unwrapped(plain(index))))

    def __setitem__(self, index: object, value: object) -> NoReturn:
        raise GraphError(
            f"a tensor of a graph does not change: the assignment to a part of {self!r} at {place()}",
            help="make a new one: x = np.where(mask, value, x), or np.concatenate of the parts",
        )

    def __iter__(self) -> Iterator[Tensor]:
        return iter([self[i] for i in range(self._known_length("iteration"))])

    # Methods of NumPy's arrays

    def astype(self, dtype: object, copy: bool = True) -> Tensor:
        """Converted to a dtype; itself where it has it."""
        name = dtype_name(dtype)
        return self if name == self.value.dtype else _one(apply("cast", self, dtype=name))

    def reshape(self, *shape: object) -> Tensor:
        """With other extents, of which one may be -1."""
        return self._call("reshape", shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes: object) -> Tensor:
        """With the axes in another order: the opposite one where none is given."""
        return self._call("transpose", axes[0] if len(axes) == 1 else axes or None)

    def flatten(self) -> Tensor:
        """With one axis."""
        return self.reshape(-1)

    def ravel(self) -> Tensor:
        """With one axis."""
        return self.reshape(-1)

    def copy(self) -> Tensor:
        """Itself: tensors of a graph do not change."""
        return self

    def swapaxes(self, axis1: int, axis2: int) -> Tensor:
        """With two axes exchanged."""
        return self._call("swapaxes", axis1, axis2)

    def squeeze(self, axis: object = None) -> Tensor:
        """Without axes of extent 1: all, or those given."""
        return self._call("squeeze", axis)

    def sum(self, axis: object = None, dtype: object = None, keepdims: bool = False) -> Tensor:
        """The sum over axes."""
        return self._call("sum", axis=axis, dtype=dtype, keepdims=keepdims)

    def prod(self, axis: object = None, dtype: object = None, keepdims: bool = False) -> Tensor:
        """The product over axes."""
        return self._call("prod", axis=axis, dtype=dtype, keepdims=keepdims)

    def mean(self, axis: object = None, dtype: object = None, keepdims: bool = False) -> Tensor:
        """The mean over axes."""
        return self._call("mean", axis=axis, dtype=dtype, keepdims=keepdims)

    def max(self, axis: object = None, keepdims: bool = False) -> Tensor:
        """The greatest element over axes."""
        return self._call("max", axis=axis, keepdims=keepdims)

    def min(self, axis: object = None, keepdims: bool = False) -> Tensor:
        """The least element over axes."""
        return self._call("min", axis=axis, keepdims=keepdims)

    def argmax(self, axis: object = None, keepdims: bool = False) -> Tensor:
        """Where the greatest element is, the first of equal ones."""
        return self._call("argmax", axis=axis, keepdims=keepdims)

    def argmin(self, axis: object = None, keepdims: bool = False) -> Tensor:
        """Where the least element is, the first of equal ones."""
        return self._call("argmin", axis=axis, keepdims=keepdims)

    def any(self, axis: object = None, keepdims: bool = False) -> Tensor:
        """Whether an element over axes is true."""
        return self._call("any", axis=axis, keepdims=keepdims)

    def all(self, axis: object = None, keepdims: bool = False) -> Tensor:
        """Whether all elements over axes are true."""
        return self._call("all", axis=axis, keepdims=keepdims)

    def var(self, axis: object = None, ddof: int = 0, keepdims: bool = False) -> Tensor:
        """The variance over axes."""
        return self._call("var", axis=axis, ddof=ddof, keepdims=keepdims)

    def std(self, axis: object = None, ddof: int = 0, keepdims: bool = False) -> Tensor:
        """The standard deviation over axes."""
        return self._call("std", axis=axis, ddof=ddof, keepdims=keepdims)

    def cumsum(self, axis: object = None, dtype: object = None) -> Tensor:
        """The running sum along an axis, or of all elements in one."""
        return self._call("cumsum", axis=axis, dtype=dtype)

    def cumprod(self, axis: object = None, dtype: object = None) -> Tensor:
        """The running product along an axis, or of all elements in one."""
        return self._call("cumprod", axis=axis, dtype=dtype)

    def argsort(self, axis: object = -1, kind: object = None) -> Tensor:
        """The places of the elements along an axis (None: of all) in ascending order; equal ones keep theirs."""
        return self._call("argsort", axis=axis, kind=kind)

    def nonzero(self, *, size: object = None) -> tuple[Tensor, Tensor]:
        """The indices of the first ``size`` nonzero elements, a row for each axis, and how many there are in all."""
        return self._pair("nonzero", self, size=size)

    def compress(
        self, condition: object, axis: object = None, *, size: object = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        """The elements where a condition holds; of a tensor as condition the first ``size``, and for how many it holds."""
        if size is None:
            return self._call_with("compress", condition, self, axis)
        return self._pair("compress", condition, self, axis, size=size)

    def clip(self, min: object = None, max: object = None) -> Tensor:
        """Limited from below and from above."""
        return self._call("clip", min, max)

    def round(self, decimals: int = 0) -> Tensor:
        """Rounded to integers, halves to even ones."""
        return self._call("round", decimals)

    def dot(self, other: object) -> Tensor:
        """The product that np.dot makes."""
        return self._call("dot", other)

    def repeat(self, repeats: int, axis: int | None = None) -> Tensor:
        """Each element several times."""
        return self._call("repeat", repeats, axis)

    def take(self, indices: object, axis: int | None = None) -> Tensor:
        """Elements along an axis by their indices."""
        return self._call("take", indices, axis)

    def _call(self, name: str, *args: object, **kwargs: object) -> Tensor:
        from tirlower.graph.frontend.numpy_protocol import call

        return _one(call(name, (self, *args), kwargs))

    def _call_with(self, name: str, *args: object) -> Tensor:
        from tirlower.graph.frontend.numpy_protocol import call

        return _one(call(name, args, {}))

    def _pair(self, name: str, *args: object, **kwargs: object) -> tuple[Tensor, Tensor]:
        from tirlower.graph.frontend.numpy_protocol import call

        made = call(name, args, kwargs)
        assert isinstance(made, tuple) and len(made) == 2, f"two tensors are promised, got {made!r}"
        return _one(made[0]), _one(made[1])


def _binary(name: str, a: object, b: object) -> Tensor:
    return _one(apply(name, a, b))


def _one(made: object) -> Tensor:
    assert isinstance(made, Tensor), f"one tensor is promised, got {made!r}"
    return made


def values_in(given: Iterable[object]) -> list[Tensor]:
    """The tensors among arguments, also those in lists and tuples, in order."""
    found: list[Tensor] = []
    stack = list(given)[::-1]
    while stack:
        one = stack.pop()
        if isinstance(one, Tensor):
            found.append(one)
        elif isinstance(one, (list, tuple)):
            stack += one[::-1]
    return found


def apply(name: str, *args: object, **kwargs: object) -> Tensor | tuple[Tensor, ...] | object:
    """The result (or the tuple of several) of an operation of the registry.

    On tensors it is added to their graph; on arrays alone it is computed. Raises :class:`GraphError` where the operation
    does not take these arguments.
    """
    found = definition(name)
    args, kwargs = tuple(map(plain, args)), {key: plain(value) for key, value in kwargs.items()}
    tensors = values_in([*args, *(kwargs[p.name] for p in found.parameters if p.name in kwargs)])
    recording = recording_of(tensors, name) if tensors else current()
    if recording is None:
        return computed(found, *bound(found, args, kwargs))
    with recording.adding() as builder:
        operands, attrs = bound(found, args, kwargs)
        if not tensors and found.parameters and not _have_dims(attrs.values()):
            return computed(found, operands, attrs)
        made = builder.ops(name, *_operands(builder, operands), **attrs)
    results = [Tensor.of(recording, v) for v in made]
    return results[0] if len(results) == 1 else tuple(results)


def _have_dims(values: Iterable[object]) -> bool:
    return any(isinstance(v, Expr) or (isinstance(v, tuple) and _have_dims(v)) for v in values)


def _operands(builder: GraphBuilder, given: Sequence[object]) -> list[object]:
    """Operands as the builder takes them; an extent is a number, weak as Python's are."""
    made = [g.value if isinstance(g, Tensor) else np.asarray(g) if isinstance(g, (list, tuple)) else g for g in given]
    for n, one in enumerate(made):
        if isinstance(one, (Dim, Expr)):
            kinds = [
                k.dtype.numpy if isinstance(k, Value) else k.dtype for k in made if isinstance(k, (Value, np.ndarray))
            ]
            made[n] = builder.op("dim_value", value=as_extent(one), dtype=np.result_type(*kinds, 1).name)
    return made


def _unwrapped(given: object) -> object:
    if isinstance(given, Tensor):
        return given.value
    if isinstance(given, tuple):
        return tuple(_unwrapped(g) for g in given)
    if isinstance(given, slice):
        return slice(_unwrapped(given.start), _unwrapped(given.stop), _unwrapped(given.step))
    return given
