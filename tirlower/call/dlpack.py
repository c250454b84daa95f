"""DLPack capsules of other libraries, read through ctypes."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tirlower.call.vectorcall import word
from tirlower.call.views import NotAnArray, class_of, compact_strides
from tirlower.ir.dlpack import READ_ONLY, DLTensor, VersionedTensor, dlpack_name

__all__ = ["Exchange", "Tensor", "capsule_is", "capsule_of", "capsule_pointer", "exchange_of", "read_capsule"]

_IS_COPY = 2


@dataclass(frozen=True, slots=True)
class Tensor:
    """What a capsule says: address, device, dtype's name, shape, and strides in bytes."""

    data: int
    device_type: int
    device_id: int
    dtype: str
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    flags: int
    """Those of a versioned tensor."""
    flagged: bool
    """Whether ``flags`` are said: capsules of an older DLPack do not."""

    @property
    def readonly(self) -> bool:
        """Whether the memory is said to be none to write to."""
        return bool(self.flags & READ_ONLY)

    @property
    def copied(self) -> bool:
        """Whether the memory is said to be a copy of the exporter's."""
        return bool(self.flags & _IS_COPY)


capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
capsule_is = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))


def read_capsule(capsule: object) -> Tensor | None:
    """The tensor in a capsule, which stays unconsumed: its own destructor frees it. None where it holds none."""
    flags, flagged = 0, True
    if capsule_is(capsule, b"dltensor_versioned"):
        managed = VersionedTensor.from_address(capsule_pointer(capsule, b"dltensor_versioned"))
        if managed.major != 1:
            return None
        tensor, flags = managed.tensor, int(managed.flags)
    elif capsule_is(capsule, b"dltensor"):
        tensor, flagged = DLTensor.from_address(capsule_pointer(capsule, b"dltensor")), False
    else:
        return None
    shape = tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()
    itemsize = max(1, tensor.bits * tensor.lanes // 8)
    said = tuple(s * itemsize for s in tensor.strides[: tensor.ndim]) if tensor.ndim and tensor.strides else None
    return Tensor(
        int(tensor.data or 0) + int(tensor.byte_offset),
        int(tensor.device_type),
        int(tensor.device_id),
        dlpack_name(tensor.code, tensor.bits, tensor.lanes),
        itemsize,
        shape,
        compact_strides(shape, itemsize) if said is None else said,
        flags,
        flagged,
    )


class Exporter(Protocol):
    """What gives its memory away by DLPack."""

    def __dlpack__(self, **asked: object) -> object:
        """A capsule with a tensor."""


class DeviceExporter(Exporter, Protocol):
    """One that says where its memory is."""

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's kind of device, and its number."""


def capsule_of(value: Exporter, **asked: object) -> object:
    """What an object exports; those of before DLPack 1.0 know no ``max_version``."""
    try:
        return value.__dlpack__(max_version=(1, 1), **asked)
    except TypeError:
        return value.__dlpack__(**asked)


def tensor_of(value: object, capsule: object, remedy: str) -> Tensor:
    """The tensor in what an object exported. Raises :class:`NotAnArray` where there is none."""
    found = read_capsule(capsule)
    if found is None:
        raise NotAnArray(f"{class_of(value)}, whose __dlpack__ gave no capsule of DLPack 1", remedy)
    return found


class Exchange(NamedTuple):
    """Addresses of DLPack's C exchange: what fills a DLTensor from a tensor, and what tells the stream that its library
    works on (0 where it does not).
    """

    tensor: int
    current: int


# Behind the version and the API of before: an allocator, from and to Python, then these.
_EXCHANGE_TENSOR, _EXCHANGE_STREAM = 5, 6


def exchange_of(cls: type) -> Exchange | None:
    """The exchange of a class of PyTorch's tensors; None where it has none.

    Only PyTorch's: what that API fills has no flag for read-only memory, which other libraries' arrays may be.
    """
    if cls.__module__.partition(".")[0] != "torch":
        return None
    capsule = getattr(cls, "__dlpack_c_exchange_api__", None)
    if capsule is None or not capsule_is(capsule, b"dlpack_exchange_api"):
        return None
    api = capsule_pointer(capsule, b"dlpack_exchange_api")
    if ctypes.c_uint32.from_address(api).value != 1:
        return None
    tensor = word(api + 8 * _EXCHANGE_TENSOR)
    return Exchange(tensor, word(api + 8 * _EXCHANGE_STREAM)) if tensor else None
