"""Memory that an argument shows, seen as an array: whoever made it, wherever it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

__all__ = ["Foreign", "HostArray", "NotAnArray", "Result", "View", "class_of", "compact_strides", "share_memory"]

HostArray: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
"""An array that a caller gets, who knows its dtype."""
Foreign: TypeAlias = Any
"""An object of a library that need not be here: what it has is known by its class's name, or by asking."""
Result: TypeAlias = Any
"""What a call gives: nothing, a number, an array or a tuple of them; its caller knows which."""


class NotAnArray(Exception):
    """An object that shows a call no memory which it could use: ``got`` describes it, ``remedy`` says what to pass."""

    def __init__(self, got: str, remedy: str) -> None:
        super().__init__(got)
        self.got = got
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class View:
    """Memory seen as an array: ``data`` is the address of the first element, ``strides`` count bytes.

    ``dtype`` is NumPy's name of it, with a word more where that does not say all (byte order). ``keep`` is what must
    stay alive while the memory is used.
    """

    data: int
    dtype: str
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    readonly: bool
    keep: object

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def compact(self) -> bool:
        """True for C-contiguous memory; dimensions of extent 1, and empty arrays, may have any stride."""
        step = self.itemsize
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent == 0:
                return True
            if extent != 1 and stride != step:
                return self.size == 0
            step *= extent
        return True

    def span(self) -> tuple[int, int]:
        """The lowest byte of an element relative to ``data``, and the end of the highest; both 0 without elements."""
        if not self.size:
            return 0, 0
        low, high = 0, self.itemsize
        for extent, stride in zip(self.shape, self.strides, strict=True):
            if stride < 0:
                low += (extent - 1) * stride
            else:
                high += (extent - 1) * stride
        return low, high

    def text(self) -> str:
        """For messages: ``float32[16, 4]``."""
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def compact_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The byte strides of a C-contiguous array."""
    strides = [itemsize] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return tuple(strides)


class _Bytes:
    """The memory of a view for NumPy to reason about; nothing reads it."""

    def __init__(self, view: View, data: int) -> None:
        self.__array_interface__ = {
            "data": (data, True),
            "shape": view.shape,
            "strides": view.strides,
            "typestr": f"|V{view.itemsize}",
            "version": 3,
        }


def share_memory(a: View, data_a: int, b: View, data_b: int) -> bool:
    """True where two views at these addresses have a byte in common, or where telling would cost too much."""
    (low_a, high_a), (low_b, high_b) = a.span(), b.span()
    if data_a + low_a >= data_b + high_b or data_b + low_b >= data_a + high_a or not a.size or not b.size:
        return False
    if a.compact and b.compact:
        return True
    try:
        # Interleaved views overlap as ranges only: this solves for a common byte, for a millisecond at most. The stubs
        # know two values of max_work only.
        first, second = np.asarray(_Bytes(a, data_a)), np.asarray(_Bytes(b, data_b))
        return bool(np.shares_memory(first, second, max_work=100_000))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def class_of(value: object) -> str:
    """The class of an object as messages show it."""
    cls = type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
