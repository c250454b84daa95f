"""DLPack capsules through ctypes: reading those of device arrays, and making them of ours."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from tirlower.ir.dtype import DataType

__all__ = ["CUDA_DEVICES", "Tensor", "dlpack_name", "export", "read_capsule"]

CUDA, CUDA_MANAGED = 2, 13
CUDA_DEVICES = (CUDA, CUDA_MANAGED)
"""DLDeviceType of the memory that kernels reach at its own address: the device's, and managed memory."""

_READ_ONLY = 1
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex"}
_NAMED = {
    7: "float8_e3m4", 8: "float8_e4m3", 9: "float8_e4m3b11fnuz", 10: "float8_e4m3fn", 11: "float8_e4m3fnuz",
    12: "float8_e5m2", 13: "float8_e5m2fnuz", 14: "float8_e8m0fnu",
}  # fmt: skip
_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6} | {name: code for code, name in _NAMED.items()}


class DLTensor(ctypes.Structure):
    """DLPack's DLTensor."""

    _fields_ = [
        ("data", ctypes.c_uint64),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_Deleter = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


@dataclass(frozen=True, slots=True)
class Tensor:
    """What a capsule says: address, device, dtype's name, shape, and strides in elements (None: compact)."""

    data: int
    device_type: int
    device_id: int
    dtype: str
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    readonly: bool


def dlpack_name(code: int, bits: int, lanes: int) -> str:
    """The dtype name of a DLPack type.

    >>> dlpack_name(2, 32, 1), dlpack_name(4, 16, 1), dlpack_name(10, 8, 1), dlpack_name(6, 8, 1)
    ('float32', 'bfloat16', 'float8_e4m3fn', 'bool')
    """
    if code == _CODES["bool"] and bits == 8:
        name = "bool"
    elif code in _NAMED and bits == 8:
        name = _NAMED[code]
    else:
        name = f"{_KINDS.get(code, f'dlpack{code}_')}{bits}"
    return name if lanes == 1 else f"{name}x{lanes}"


_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)(
    ("PyCapsule_New", ctypes.pythonapi)
)
# The same two again for a destructor: the capsule it is given is dying, and must not be referred to anew.
_raw_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_raw_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)


def read_capsule(capsule: object) -> Tensor | None:
    """The tensor in a capsule, which stays unconsumed: its own destructor frees it. None where it holds none."""
    flags = 0
    if _is_valid(capsule, b"dltensor_versioned"):
        managed = _Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        if managed.major != 1:
            return None
        tensor, flags = managed.tensor, int(managed.flags)
    elif _is_valid(capsule, b"dltensor"):
        tensor = DLTensor.from_address(_pointer(capsule, b"dltensor"))
    else:
        return None
    return Tensor(
        int(tensor.data or 0) + int(tensor.byte_offset),
        int(tensor.device_type),
        int(tensor.device_id),
        dlpack_name(tensor.code, tensor.bits, tensor.lanes),
        max(1, tensor.bits * tensor.lanes // 8),
        tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else (),
        tuple(tensor.strides[: tensor.ndim]) if tensor.ndim and tensor.strides else None,
        bool(flags & _READ_ONLY),
    )


# What exported capsules point to, until their consumers let go: by the address of the structure.
_exported: dict[int, tuple[Any, ...]] = {}


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
    strides, step = [0] * len(shape), 1
    for axis in range(len(shape) - 1, -1, -1):
        strides[axis], step = step, step * shape[axis]
    stride_array = (ctypes.c_int64 * max(1, len(shape)))(*strides)
    bits = 8 if dtype.is_bool else dtype.bits
    managed: Any = _Versioned() if versioned else _Managed()
    if versioned:
        managed.major, managed.minor = 1, 0
    managed.deleter = _DELETE
    tensor = managed.tensor
    tensor.data, tensor.device_type, tensor.device_id, tensor.ndim = data, CUDA, device, len(shape)
    tensor.code, tensor.bits, tensor.lanes = _CODES[dtype.code], bits, 1
    tensor.shape, tensor.strides = shape_array, stride_array
    address = ctypes.addressof(managed)
    _exported[address] = (owner, managed, shape_array, stride_array)
    return _new_capsule(address, b"dltensor_versioned" if versioned else b"dltensor", _DESTROY)
