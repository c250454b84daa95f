"""A call on arrays of the host: from arguments, checked, to the 64-bit slots that a packed kernel takes."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tirlower.call.dtypes import numpy_dtype
from tirlower.call.host_arrays import view_of
from tirlower.call.rules import ArgumentRules
from tirlower.call.signature import BufferParam, ScalarParam, Signature
from tirlower.call.views import NotAnArray, View
from tirlower.ir.dtype import Array, NumpyDType

__all__ = ["OUTPUT_ALIGNMENT", "Binder", "Bound", "aligned_empty"]

#: what outputs are aligned to: a cache line, and the widest vector register
OUTPUT_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Bound:
    """A checked call: the kernel's arguments as 64-bit slots, the arrays to return, the values of the symbols.

    ``elements`` counts the elements of all arrays; ``keep`` must outlive the kernel's run. ``overlap`` says that arrays
    share memory which the kernel takes to be apart.
    """

    slots: ctypes.Array[ctypes.c_uint64]
    outputs: tuple[Array, ...]
    env: Mapping[str, float]
    elements: int
    keep: Sequence[object]
    overlap: bool = False


def aligned_empty(shape: Sequence[int], dtype: NumpyDType | type | str, alignment: int = OUTPUT_ALIGNMENT) -> Array:
    """An uninitialised C-contiguous array whose data is aligned to 64 bytes or more (NumPy alone gives 16).

    >>> aligned_empty((1000, 3), "float32", 128).ctypes.data % 128
    0
    """
    dtype = np.dtype(dtype)
    nbytes = math.prod(shape) * dtype.itemsize
    raw = np.empty(nbytes + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + nbytes].view(dtype).reshape(shape)


class Binder(ArgumentRules):
    """Checks the arguments of a call on the host against a signature.

    ``refuses`` says that there is no version of the kernel for arrays that share memory; ``meet`` is told the classes of
    tensors that it reads.
    """

    def __init__(self, signature: Signature, refuses: bool = True, meet: Callable[[type], None] | None = None) -> None:
        super().__init__(signature)
        self._refuses = refuses
        self._meet = meet

    def bind(self, args: Sequence[object], kwargs: Mapping[str, object]) -> Bound:
        """Check everything about a call and return what to run. Raises as :class:`ArgumentRules` does."""
        env: dict[str, float] = {}
        bits: dict[str, int] = {}
        views: dict[str, View] = {}
        for param, value in zip(self._inputs, self.arrange(args, kwargs), strict=True):
            if isinstance(param, ScalarParam):
                bits[param.name], env[param.name] = self.scalar(param, value)
            else:
                views[param.name] = self._view(param, value)
        self.bind_symbols(views, env)
        for name, view in views.items():
            param = self._buffers[name]
            self.check_layout(param, view, env)
            self.check_alignment(param, view, view.data - self.value(param.elem_offset, env) * view.itemsize)
        # All pairs: one that is refused counts for more than one that is not.
        overlap = [self._overlaps(first, second, views) for first, second in self._pairs]
        outputs = tuple(self._allocate(self._buffers[name], env) for name in self.signature.outputs)
        for name, array in zip(self.signature.outputs, outputs, strict=True):
            views[name] = view_of(array, written=True)
        for param in self.signature.params:
            if isinstance(param, BufferParam):
                offset = self.value(param.elem_offset, env)
                bits[param.name] = views[param.name].data - offset * views[param.name].itemsize
        words = [bits[p.name] for p in self.signature.params] + [int(env[s.name]) for s in self.signature.symbols]
        slots = (ctypes.c_uint64 * max(1, len(words)))(*[w & 0xFFFF_FFFF_FFFF_FFFF for w in words])
        elements = sum(view.size for view in views.values())
        return Bound(slots, outputs, env, elements, list(views.values()), any(overlap))

    def _view(self, param: BufferParam, value: object) -> View:
        try:
            view = view_of(value, param.written, self._meet)
        except NotAnArray as bad:
            raise self.no_array(param, bad) from bad.__cause__
        self.check_kind(param, view)
        return view

    def _overlaps(self, first: BufferParam, second: BufferParam, views: Mapping[str, View]) -> bool:
        """Whether two arrays share memory that the kernel takes to be apart."""
        a, b = views[first.name], views[second.name]
        if not self.meets(first, a, a.data, second, b, b.data):
            return False
        if not (self._refuses or first.noalias or second.noalias):
            return True
        spans = [(view.data + low, view.data + high) for view in (a, b) for low, high in [view.span()]]
        raise self.overlap(first, second, spans, "noalias")

    def _allocate(self, param: BufferParam, env: Mapping[str, float]) -> Array:
        shape = self.output_shape(param, env)
        return aligned_empty(shape, numpy_dtype(param.dtype), max(OUTPUT_ALIGNMENT, param.alignment))
