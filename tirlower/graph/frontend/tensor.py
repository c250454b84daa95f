"""Symbolic tensors: what a traced function computes with in place of NumPy's arrays.

Operators, methods, indexing and NumPy's functions add operations to the graph that is being recorded. What needs the
values (``if tensor:``, ``float(tensor)``) is refused, with the place and what to write instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NoReturn

import numpy as np

from tirlower.diagnostics import nearest_name
from tirlower.graph.core.dims import Dim, Extent, Shape, as_extent
from tirlower.graph.core.nodes import Value
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.arguments import bound, dtype_name
from tirlower.graph.frontend.arrays import computed
from tirlower.graph.frontend.recording import Recording, current, place
from tirlower.graph.frontend.subscript import subscript
from tirlower.graph.frontend.symbolic import UserExtent, plain, symbolic
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.ops.registry import definition
from tirlower.ir import Expr
from tirlower.ir.dtype import DataType, NumpyDType

__all__ = ["Tensor", "TensorSpec", "apply", "recording_of", "values_in"]


class TensorSpec:
    """The shape and the dtype of an argument that a graph is traced for (:func:`tirlower.graph.spec`).

    An extent is a number, a dim, an expression of dims, or the text of one in which dims are named (``"B * 4"``).
    """

    __slots__ = ("extents", "kind")

    def __init__(self, shape: object, dtype: object) -> None:
        given = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        self.extents: tuple[Extent | Dim | str, ...] = tuple(
            e if isinstance(e, (Dim, str)) else as_extent(e) for e in given
        )
        self.kind = DataType(dtype_name(dtype))

    @property
    def dtype(self) -> NumpyDType:
        """The dtype, as NumPy has it."""
        return self.kind.numpy

    def __repr__(self) -> str:
        shown = [e.name if isinstance(e, Dim) else str(e) for e in self.extents]
        return f"spec(({', '.join(shown)}{',' * (len(shown) == 1)}), {str(self.kind)!r})"


class Tensor(TensorSpec):
    """A tensor of a graph that is being traced. Called with a shape and a dtype it says what an argument is.

    >>> import tirlower.graph as tg
    >>> @tg.graph
    ... def doubled(x: tg.Tensor((4, 8), "float32")):
    ...     return x + x
    >>> [n.name for n in doubled.ops]
    ['add']
    """

    __slots__ = ("_recording", "_value")

    _recording: Recording
    _value: Value | None

    def __init__(self, shape: object, dtype: object) -> None:
        super().__init__(shape, dtype)
        self._value = None

    @classmethod
    def of(cls, recording: Recording, value: Value) -> Tensor:
        """The tensor for a value of a recording."""
        made = cls.__new__(cls)
        made.extents = value.shape
        made.kind = value.dtype
        made._recording = recording
        made._value = value
        return made

    # What is known of it

    @property
    def is_recorded(self) -> bool:
        """Whether it is a tensor of a graph, and not what an argument is."""
        return self._value is not None

    @property
    def value(self) -> Value:
        """The value in the graph."""
        if self._value is None:
            raise GraphError(
                f"{self!r} at {place()} says what an argument is: it is no tensor of a graph",
                help="pass it to tg.trace, or use it as an annotation of a function under @tg.graph",
            )
        here = current()
        if here is not None and here is not self._recording and here.is_inside(self._recording):
            return here.capture(self._value, self._recording)
        return self._value

    @property
    def recording(self) -> Recording:
        """The trace to which operations on it are added: of a graph inside a node, while that is traced."""
        here = current()
        inside = here is not None and here.is_inside(self._recording)
        return here if inside and here is not None else self._recording

    @property
    def known_shape(self) -> Shape:
        """The extents as the graph has them: numbers and expressions."""
        return self.value.shape if self._value is None else self._value.shape  # a spec is refused

    @property
    def shape(self) -> tuple[UserExtent, ...]:
        """The extents: numbers, and expressions of dims to compute with."""
        known = self.known_shape
        env = self._recording.builder.env
        return tuple(symbolic(e, env) for e in known)

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.known_shape)

    @property
    def size(self) -> UserExtent:
        """How many elements it has."""
        env = recording_of([self], "size").builder.env
        return symbolic(env.simplify(math.prod(self.known_shape)), env)

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return self.dtype.itemsize

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

    def __repr__(self) -> str:
        if self._value is None:
            return super().__repr__()
        return f"<Tensor {self._value.name}: {self._value.type}>"

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

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NoReturn:
        self._refuse(
            "NumPy array", "stack with np.stack([...]); for array[tensor] write tg.take(array, tensor, axis=0)"
        )

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

    def __len__(self) -> int:
        return self._known_length("len()")

    def __iter__(self) -> Iterator[Tensor]:
        return iter([self[i] for i in range(self._known_length("iteration"))])

    def _known_length(self, what: str) -> int:
        if not self.shape:
            raise GraphError(f"{what} at {place()} of {self!r}, which has no axes")
        if not isinstance(self.shape[0], int):
            raise GraphError(
                f"{what} at {place()} of {self!r}, whose first extent {self.shape[0]} is known only when the graph runs",
                help="compute on the whole tensor, or loop with tg.while_loop; x.shape[0] is an extent to compute with",
            )
        return self.shape[0]

    # What needs the values

    def _refuse(self, wanted: str, help: str) -> NoReturn:
        raise GraphError(
            f"{self!r} is wanted as a {wanted} at {place()}, and has its values only when the graph runs", help=help
        )

    def __bool__(self) -> NoReturn:
        self._refuse(
            "truth value",
            "choose elements with tg.where(condition, a, b), one of two computations with tg.cond, repeat with "
            "tg.while_loop; write x & y for `x and y`, np.maximum(x, y) for max(x, y)",
        )

    def __int__(self) -> NoReturn:
        self._refuse("Python int", "convert with x.astype('int64'); extents stand in x.shape")

    def __index__(self) -> NoReturn:
        self._refuse("Python int", "take elements with tg.take(x, tensor, axis=0), repeat with tg.while_loop")

    def __float__(self) -> NoReturn:
        self._refuse("Python float", "convert with x.astype('float32') and stay with tensors: np.sqrt for math.sqrt")

    def __complex__(self) -> NoReturn:
        self._refuse("complex number", "graphs have no complex numbers")

    def item(self) -> NoReturn:
        """Refused: the value is known when the graph runs."""
        self._refuse("Python number", "stay with tensors: a tensor without axes is a number")

    def tolist(self) -> NoReturn:
        """Refused: the values are known when the graph runs."""
        self._refuse("Python list", "compute on the whole tensor")

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

    def __getattr__(self, name: str) -> NoReturn:
        near = nearest_name(name, [n for n in dir(type(self)) if not n.startswith("_")])
        what = "tensors of a graph have no" if hasattr(np.ndarray, name) else "a tensor has no"
        raise AttributeError(f"{what} {name!r}" + (f": did you mean {near!r}?" if near else ""))


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


def recording_of(tensors: list[Tensor], what: str) -> Recording:
    """The one trace that tensors are of. Raises :class:`GraphError` where they are of two, or nothing can be added."""
    first = tensors[0]
    for other in tensors:
        if not other.is_recorded:
            other.value  # noqa: B018  # a spec is refused
        if other.recording is not first.recording:
            ours, theirs = first.recording, other.recording
            raise GraphError(
                f"{what} at {place()} mixes tensors of two traces: {first!r} of {ours.builder.name!r} (traced at "
                f"{ours.place}) and {other!r} of {theirs.builder.name!r} (traced at {theirs.place})",
                help="pass the tensor to the inner function as an argument",
            )
    recording = first.recording
    recording.check(what)
    return recording


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
