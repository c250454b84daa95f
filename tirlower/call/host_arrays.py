"""What memory of the host an argument shows: arrays, tensors and buffers, read in Python.

Nothing is ever copied: a copy would take writes away from the caller, and hide what a call costs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import numpy as np

from tirlower.call.dlpack import Exporter, capsule_of, tensor_of
from tirlower.call.views import NotAnArray, View, class_of
from tirlower.ir.dlpack import pending, unflagged_read_only
from tirlower.ir.dtype import Array, NumpyDType

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["view_of"]

_CPU = 1
# DLDeviceType: host memory is CPU, and memory pinned by CUDA or ROCm.
_HOST_DEVICES = (_CPU, 3, 11)
_DEVICE_NAMES = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 13: "cuda (managed)", 14: "oneapi"}
_PLAIN = (bool, int, float, complex, str, list, tuple, dict)
_REMEDY = "pass a NumPy array"


def view_of(value: object, written: bool, meet: Callable[[type], None] | None = None) -> View:
    """The memory of an argument: an ndarray, or an object with ``__dlpack__``, a buffer or ``__array_interface__``.

    ``meet`` is told the class of an object with ``__dlpack__``.

    Raises:
        NotAnArray: the object is none of them, its memory is not the host's, or its exporter refused.
    """
    if isinstance(value, np.ndarray):
        return _of_array(value)
    if value is None or (isinstance(value, _PLAIN) and not isinstance(value, np.generic)):
        raise NotAnArray(f"{type(value).__name__} {value!r:.40}", "pass a NumPy array (np.asarray(x, dtype))")
    if hasattr(value, "__dlpack__"):
        return _of_dlpack(value, written, meet)
    try:
        exported = memoryview(cast("ReadableBuffer", value))
    except TypeError:
        pass
    except (BufferError, ValueError) as error:
        raise NotAnArray(f"{class_of(value)}, whose buffer cannot be read ({error})", _REMEDY) from error
    else:
        try:
            return _of_array(np.asarray(exported))
        except (ValueError, NotImplementedError) as error:
            raise NotAnArray(f"a buffer of format {exported.format!r}", _REMEDY) from error
    if hasattr(value, "__array_interface__"):
        return _of_array(np.asarray(value))
    if hasattr(value, "__cuda_array_interface__"):
        raise NotAnArray(f"{class_of(value)} in device memory", "copy it to the host first")
    raise NotAnArray(
        class_of(value), "pass a NumPy array, or an object with __dlpack__, a buffer or __array_interface__"
    )


@functools.lru_cache(maxsize=256)
def _dtype_name(dtype: NumpyDType) -> str:
    if dtype.hasobject or dtype.fields is not None:
        return str(dtype)
    return dtype.name if dtype.isnative else f"{dtype.name} in swapped byte order ({dtype.str})"


def _of_array(array: Array) -> View:
    dtype = array.dtype
    address = int(array.__array_interface__["data"][0])
    writeable = array.flags.writeable
    return View(address, _dtype_name(dtype), dtype.itemsize, array.shape, array.strides, not writeable, array)


def _of_dlpack(value: Exporter, written: bool, meet: Callable[[type], None] | None) -> View:
    if meet is not None:
        meet(type(value))
    undone = pending(value)
    if undone is not None:
        raise NotAnArray(f"{class_of(value)} with a pending {undone[0]}", f"pass tensor.{undone[1]}()")
    if getattr(value, "requires_grad", False) is True and hasattr(value, "detach"):
        # Reading such a tensor is harmless; a write behind the back of autograd is not.
        if written:
            raise NotAnArray(f"{class_of(value)} that requires grad", "pass tensor.detach()")
        value = value.detach()
    try:
        # The device first: exporting from one may copy, or wait for it.
        device, number = value.__dlpack_device__() if hasattr(value, "__dlpack_device__") else (_CPU, 0)
        capsule = capsule_of(value) if int(device) in _HOST_DEVICES else None
    except (BufferError, RuntimeError, ValueError, TypeError, AttributeError) as error:
        first = str(error).partition("\n")[0]
        raise NotAnArray(f"{class_of(value)}, whose __dlpack__ refused: {first}", _REMEDY) from error
    if capsule is None:
        where = f"{_DEVICE_NAMES.get(int(device), f'device type {int(device)}')}:{int(number)}"
        raise NotAnArray(f"{class_of(value)} on {where}", "copy it to the host first (tensor.cpu())")
    # The capsule stays unconsumed: its own destructor frees the tensor when the call lets go of it.
    tensor = tensor_of(value, capsule, _REMEDY)
    if written and tensor.copied:
        raise NotAnArray(f"{class_of(value)}, which exports a copy of itself", "pass a NumPy array to be written")
    readonly = tensor.readonly or (written and not tensor.flagged and unflagged_read_only(value))
    keep = (value, capsule)
    return View(tensor.data, tensor.dtype, tensor.itemsize, tensor.shape, tensor.strides, readonly, keep)
