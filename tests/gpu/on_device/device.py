"""The real GPU that tests run on, where one is at hand: whether there is one, and a kernel called on NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import DeviceError
from tirlower.gpu.launch import device_of, open_driver, to_device


def there_is_a_device() -> bool:
    """Whether the driver loads here and shows a device."""
    try:
        return open_driver().device_count > 0
    except DeviceError:
        return False


needs_a_device = pytest.mark.skipif(not there_is_a_device(), reason="no CUDA device here")
needs_hopper = pytest.mark.skipif(
    not there_is_a_device() or device_of().arch != "sm_90", reason="wgmma is an instruction of sm_90a alone"
)


def target(*options: str) -> str:
    """The target of the first device, with the instructions of its architecture alone where it has such."""
    arch = device_of().arch
    return " ".join([f"nvptx -arch={arch}{'a' if arch in ('sm_90', 'sm_100') else ''}", *options])


def built(program: Any, *options: str, entry: str | None = None) -> Any:
    """A program built for the first device; of a module the function ``entry``."""
    made = tl.build(program, target=target(*options))
    return made[entry] if entry is not None else made


class Spread:
    """An array with gaps between its elements, or backwards, in device memory: a view of a copy of all that it spans."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        steps = [(extent - 1) * stride for extent, stride in zip(array.shape, array.strides, strict=True)]
        low = -sum(min(step, 0) for step in steps)
        size = sum(map(abs, steps)) + array.itemsize if array.size else 0
        # The first element lies at a multiple of 16 bytes, as calls expect.
        self.array, self.before, self.dtype = array, low + -low % 16, array.dtype
        span = np.zeros(self.before - low + size, np.uint8)
        ctypes.memmove(span.ctypes.data + self.before - low, array.ctypes.data - low, size)
        self.copy = to_device(span)
        interface = self.copy.__cuda_array_interface__
        self.__cuda_array_interface__ = {
            **interface,
            "shape": array.shape,
            "strides": array.strides,
            "typestr": array.dtype.str,
            "data": (self.copy.pointer + self.before, False),
        }

    def numpy(self) -> np.ndarray[Any, Any]:
        """The elements as they are on the device."""
        return np.ndarray(self.array.shape, self.array.dtype, self.copy.numpy(), self.before, self.array.strides)


def called(kernel: Any, arguments: Sequence[Any]) -> Any:
    """What a kernel returns on copies of NumPy arrays in the device's memory, from which they are then read back.

    An array that is passed twice is copied once.
    """
    copies = {
        id(a): to_device(a) if a.flags.c_contiguous else Spread(a) for a in arguments if isinstance(a, np.ndarray)
    }
    result = kernel(*[copies.get(id(a), a) for a in arguments])
    for array in arguments:
        if isinstance(array, np.ndarray):
            array[...] = copies[id(array)].numpy()
    return result
