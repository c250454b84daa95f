"""What is known of a tensor that has no values yet: its shape and dtype, and where it stands in a graph.

What needs the values (``if tensor:``, ``float(tensor)``) is refused, with the place and what to write instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NoReturn, Self

import numpy as np

from tirlower.diagnostics import nearest_name
from tirlower.graph.core.dims import Dim, Extent, Shape, as_extent
from tirlower.graph.core.nodes import Value
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.arguments import dtype_name
from tirlower.graph.frontend.recording import Recording, current, place
from tirlower.graph.frontend.symbolic import UserExtent, symbolic
from tirlower.ir.dtype import DataType, NumpyDType

__all__ = ["RecordedTensor", "TensorSpec", "recording_of"]


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


class RecordedTensor(TensorSpec):
    """A tensor of a graph that is being traced, or, made of a shape and a dtype, what an argument is."""

    __slots__ = ("_recording", "_value")

    _recording: Recording
    _value: Value | None

    def __init__(self, shape: object, dtype: object) -> None:
        super().__init__(shape, dtype)
        self._value = None

    @classmethod
    def of(cls, recording: Recording, value: Value) -> Self:
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

    def __repr__(self) -> str:
        if self._value is None:
            return super().__repr__()
        return f"<Tensor {self._value.name}: {self._value.type}>"

    def __len__(self) -> int:
        return self._known_length("len()")

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

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NoReturn:
        self._refuse(
            "NumPy array", "stack with np.stack([...]); for array[tensor] write tg.take(array, tensor, axis=0)"
        )

    def item(self) -> NoReturn:
        """Refused: the value is known when the graph runs."""
        self._refuse("Python number", "stay with tensors: a tensor without axes is a number")

    def tolist(self) -> NoReturn:
        """Refused: the values are known when the graph runs."""
        self._refuse("Python list", "compute on the whole tensor")

    def __getattr__(self, name: str) -> NoReturn:
        near = nearest_name(name, [n for n in dir(type(self)) if not n.startswith("_")])
        what = "tensors of a graph have no" if hasattr(np.ndarray, name) else "a tensor has no"
        raise AttributeError(f"{what} {name!r}" + (f": did you mean {near!r}?" if near else ""))


def recording_of(tensors: Sequence[RecordedTensor], what: str) -> Recording:
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
