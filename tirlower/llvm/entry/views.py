"""What memory an argument shows: one :class:`View` for arrays, tensors and buffers, made in Python.

The road for everything that the native entry does not know by its class, and for all arguments where it cannot run.
Nothing is ever copied: a copy would take writes away from the caller, and hide what a call costs.
"""

from __future__ import annotations

import ctypes
import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tirlower.ir.dlpack import READ_ONLY, DLTensor, VersionedTensor, dlpack_name, pending, unflagged_read_only
from tirlower.llvm.entry import layout
from tirlower.llvm.entry.helpers import require_helper
from tirlower.llvm.entry.process_table import table

__all__ = ["NotAnArray", "View", "view_of"]

# DLDeviceType: host memory is CPU, and memory pinned by CUDA or ROCm.
_HOST_DEVICES = (layout.DL_CPU, 3, 11)
_DEVICE_NAMES = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 13: "cuda (managed)", 14: "oneapi"}
_IS_COPY = 2
_PLAIN = (bool, int, float, complex, str, list, tuple, dict)
_EXCHANGE_API_FUNCTION = 5  # version, prev, then dltensor_from_py_object_no_sync is the fourth function


class NotAnArray(Exception):
    """An object that shows no memory to a call: ``got`` describes it, ``remedy`` says what to pass."""

    def __init__(self, got: str, remedy: str) -> None:
        super().__init__(got)
        self.got = got
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class View:
    """Host memory seen as an array: ``data`` is the address of the first element, ``strides`` count bytes.

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

    def byte_range(self) -> tuple[int, int]:
        """The lowest address of an element, and the end of the highest one."""
        if not self.size:
            return self.data, self.data
        low, high = self.data, self.data + self.itemsize
        for extent, stride in zip(self.shape, self.strides, strict=True):
            if stride < 0:
                low += (extent - 1) * stride
            else:
                high += (extent - 1) * stride
        return low, high

    def text(self) -> str:
        """For messages: ``float32[16, 4]``."""
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def view_of(value: Any, written: bool) -> View:
    """The memory of an argument: an ndarray, or an object with ``__dlpack__``, a buffer or ``__array_interface__``.

    Raises:
        NotAnArray: the object is none of them, its memory is not the host's, or its exporter refused.
    """
    if isinstance(value, np.ndarray):
        return _of_array(value)
    if value is None or (isinstance(value, _PLAIN) and not isinstance(value, np.generic)):
        raise NotAnArray(f"{type(value).__name__} {value!r:.40}", "pass a NumPy array (np.asarray(x, dtype))")
    if hasattr(value, "__dlpack__"):
        return _of_dlpack(value, written)
    try:
        exported = memoryview(value)
    except TypeError:
        pass
    except (BufferError, ValueError) as error:
        raise NotAnArray(f"{_kind(value)}, whose buffer cannot be read ({error})", "pass a NumPy array") from error
    else:
        try:
            return _of_array(np.asarray(exported))
        except (ValueError, NotImplementedError) as error:
            raise NotAnArray(f"a buffer of format {exported.format!r}", "pass a NumPy array") from error
    if hasattr(value, "__array_interface__"):
        return _of_array(np.asarray(value))
    if hasattr(value, "__cuda_array_interface__"):
        raise NotAnArray(f"{_kind(value)} in device memory", "copy it to the host first")
    raise NotAnArray(_kind(value), "pass a NumPy array, or an object with __dlpack__, a buffer or __array_interface__")


def _kind(value: object) -> str:
    cls = type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


@functools.lru_cache(maxsize=256)
def _dtype_name(dtype: np.dtype[Any]) -> str:
    if dtype.hasobject or dtype.fields is not None:
        return str(dtype)
    return dtype.name if dtype.isnative else f"{dtype.name} in swapped byte order ({dtype.str})"


def _of_array(array: np.ndarray[Any, np.dtype[Any]]) -> View:
    dtype = array.dtype
    address = int(array.__array_interface__["data"][0])
    writeable = array.flags.writeable
    return View(address, _dtype_name(dtype), dtype.itemsize, array.shape, array.strides, not writeable, array)


def _of_dlpack(value: Any, written: bool) -> View:
    _register_exchange(type(value))
    undone = pending(value)
    if undone is not None:
        raise NotAnArray(f"{_kind(value)} with a pending {undone[0]}", f"pass tensor.{undone[1]}()")
    if getattr(value, "requires_grad", False) is True:
        # Reading such a tensor is harmless; a write behind the back of autograd is not.
        if written:
            raise NotAnArray(f"{_kind(value)} that requires grad", "pass tensor.detach()")
        value = value.detach()
    try:
        # The device first: exporting from one may copy, or wait for it.
        device, number = value.__dlpack_device__() if hasattr(value, "__dlpack_device__") else (layout.DL_CPU, 0)
        capsule = _export(value) if int(device) in _HOST_DEVICES else None
    except (BufferError, RuntimeError, ValueError, TypeError, AttributeError) as error:
        first = str(error).partition("\n")[0]
        raise NotAnArray(f"{_kind(value)}, whose __dlpack__ refused: {first}", "pass a NumPy array") from error
    if capsule is None:
        where = f"{_DEVICE_NAMES.get(int(device), f'device type {int(device)}')}:{int(number)}"
        raise NotAnArray(f"{_kind(value)} on {where}", "copy it to the host first (tensor.cpu())")
    return _of_capsule(value, capsule, written)


def _export(value: Any) -> object:
    try:
        return value.__dlpack__(max_version=(1, 1))
    except TypeError:
        # Exporters older than DLPack 1.0 know no max_version.
        return value.__dlpack__()


_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_capsule_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)


def _of_capsule(value: object, capsule: object, written: bool) -> View:
    # The capsule stays unconsumed: its own destructor frees the tensor when the call lets go of it.
    flags = 0
    if _capsule_is_valid(capsule, b"dltensor_versioned"):
        managed = VersionedTensor.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
        if managed.major != 1:
            raise NotAnArray(f"{_kind(value)} in DLPack {managed.major}", "pass a NumPy array")
        tensor, flags = managed.tensor, int(managed.flags)
    elif _capsule_is_valid(capsule, b"dltensor"):
        tensor = DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
        flags = READ_ONLY if written and unflagged_read_only(value) else 0
    else:
        raise NotAnArray(f"{_kind(value)}, whose __dlpack__ gave no DLPack capsule", "pass a NumPy array")
    if written and flags & _IS_COPY:
        raise NotAnArray(f"{_kind(value)}, which exports a copy of itself", "pass a NumPy array to be written")
    shape = tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()
    itemsize = max(1, tensor.bits * tensor.lanes // 8)
    if tensor.strides:
        strides = tuple(s * itemsize for s in tensor.strides[: tensor.ndim])
    else:
        strides = compact_strides(shape, itemsize)
    name = dlpack_name(tensor.code, tensor.bits, tensor.lanes)
    data = int(tensor.data) + int(tensor.byte_offset)
    return View(data, name, itemsize, shape, strides, bool(flags & READ_ONLY), (value, capsule))


def compact_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The byte strides of a C-contiguous array."""
    strides = [itemsize] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return tuple(strides)


def _register_exchange(cls: type) -> None:
    """Let native entries read this class themselves, if it is one of PyTorch's with DLPack's C exchange API.

    Only PyTorch's: what that API fills has no flag for read-only memory, which other libraries' arrays may be.
    """
    if not layout.NATIVE or cls.__module__.partition(".")[0] != "torch" or table.knows_exchange(cls):
        return
    capsule = getattr(cls, "__dlpack_c_exchange_api__", None)
    if capsule is None or not _capsule_is_valid(capsule, b"dlpack_exchange_api"):
        return
    api = _capsule_pointer(capsule, b"dlpack_exchange_api")
    function = layout.word(api + 8 * _EXCHANGE_API_FUNCTION)
    if ctypes.c_uint32.from_address(api).value == 1 and function and table.register_exchange(cls, function):
        require_helper("helper:dlpack")
