"""DLPack capsules of our own arrays, made through ctypes."""

from __future__ import annotations

import ctypes

from tirlower.call.views import compact_strides
from tirlower.ir.dlpack import CODES, DLTensor, VersionedTensor
from tirlower.ir.dtype import DataType

__all__ = ["CUDA", "CUDA_DEVICES", "export"]

CUDA, CUDA_MANAGED = 2, 13
CUDA_DEVICES = (CUDA, CUDA_MANAGED)
"""DLDeviceType of the memory that kernels reach at its own address: the device's, and managed memory."""

_Deleter = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)(
    ("PyCapsule_New", ctypes.pythonapi)
)
# For a destructor: the capsule it is given is dying, and must not be referred to anew.
_raw_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_raw_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)


# What exported capsules point to, until their consumers let go: by the address of the structure.
_exported: dict[int, tuple[object, ...]] = {}


def _delete(address: int) -> None:
    _exported.pop(address, None)


def _destroy(capsule: int) -> None:
    # A consumer renames the capsule that it took over, and calls the deleter itself.
    for name in (b"dltensor", b"dltensor_versioned"):
        if _raw_is_valid(capsule, name):
            _exported.pop(_raw_pointer(capsule, name), None)


_DELETE = _Deleter(_delete)
_DESTROY = _Destructor(_destroy)


def export(owner: object, data: int, device: int, dtype: DataType, shape: tuple[int, ...], versioned: bool) -> object:
    """A capsule of a compact array on a CUDA device that keeps ``owner`` alive."""
    shape_array = (ctypes.c_int64 * max(1, len(shape)))(*shape)
    strides = compact_strides(shape, 1)
    stride_array = (ctypes.c_int64 * max(1, len(shape)))(*strides)
    bits = 8 if dtype.is_bool else dtype.bits
    managed: VersionedTensor | _Managed = VersionedTensor() if versioned else _Managed()
    if versioned:
        managed.major, managed.minor = 1, 0
    managed.deleter = ctypes.cast(_DELETE, ctypes.c_void_p).value
    tensor = managed.tensor
    tensor.data, tensor.device_type, tensor.device_id, tensor.ndim = data, CUDA, device, len(shape)
    tensor.code, tensor.bits, tensor.lanes = CODES[dtype.code], bits, 1
    tensor.shape, tensor.strides = shape_array, stride_array
    address = ctypes.addressof(managed)
    _exported[address] = (owner, managed, shape_array, stride_array)
    return _new_capsule(address, b"dltensor_versioned" if versioned else b"dltensor", _DESTROY)
