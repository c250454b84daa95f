"""Arrays of other libraries, as far as a call asks: stand-ins over our own."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import types
from collections.abc import Iterator
from typing import Any, ClassVar
from unittest import mock

from tirlower.ir.dlpack import DLTensor


class Interface:
    """An array of another library: only ``__cuda_array_interface__``."""

    def __init__(self, array: Any, shape: Any = None, strides: Any = None, **changes: Any) -> None:
        self.array = array
        self.parts = {
            "shape": array.shape if shape is None else shape,
            "typestr": array.dtype.str,
            "data": (array.pointer, False),
            "version": 3,
            "strides": strides,
            **changes,
        }

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.parts


class Dlpack:
    """An array that only speaks DLPack."""

    def __init__(self, array: Any, device: tuple[int, int] = (2, 0)) -> None:
        self.array, self.device, self.streams = array, device, []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> object:
        self.streams.append(stream)
        return self.array.__dlpack__(stream=stream, max_version=max_version)


class Tensor:
    """What the launch asks of a PyTorch tensor."""

    def __init__(self, array: Any, device: str = "cuda", grad: bool = False) -> None:
        self.array = array
        self.shape = array.shape
        self.dtype = f"torch.{array.dtype}"
        self.device = TorchDevice(device)
        self.requires_grad = grad

    def data_ptr(self) -> int:
        return int(self.array.pointer)

    def stride(self) -> tuple[int, ...]:
        steps = [1]
        for extent in self.shape[:0:-1]:
            steps.insert(0, steps[0] * extent)
        return tuple(steps)

    def element_size(self) -> int:
        return int(self.array.dtype.itemsize)


class TorchDevice:
    def __init__(self, kind: str) -> None:
        self.type, self.index = kind, 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TorchDevice) and (other.type, other.index) == (self.type, self.index)

    def __hash__(self) -> int:
        return hash(self.type)

    def __str__(self) -> str:
        return self.type


Tensor.__module__ = "torch"


class CupyArray:
    """What the launch asks of a CuPy array."""

    def __init__(self, array: Any) -> None:
        self.shape, self.dtype, self.strides = array.shape, array.dtype, (array.dtype.itemsize,)
        self.data = type("MemoryPointer", (), {"ptr": array.pointer, "device_id": 0})()


CupyArray.__module__ = "cupy._core.core"


# -- DLPack's C exchange -----------------------------------------------------------------------------------------------

_FILL = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.py_object, ctypes.c_void_p)
_CURRENT = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)
_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


class Exchanged(Tensor):
    """A tensor that tells C what it is; ``currents`` are the streams on which its library works, ``told`` counts."""

    currents: ClassVar[dict[int, int]] = {}
    told = 0
    changes: ClassVar[dict[str, Any]] = {}

    def __init__(self, array: Any, **changes: Any) -> None:
        super().__init__(array)
        self.device.index = array.device.ordinal
        self.negative = False
        self.changes = changes
        self.keep: tuple[Any, ...] = ()

    def is_neg(self) -> bool:
        return self.negative

    def is_conj(self) -> bool:
        return False

    def fill(self, at: int) -> int:
        """What C calls."""
        Exchanged.told += 1
        if self.changes.get("refuses"):
            return -1
        tensor = DLTensor.from_address(at)
        rank = len(self.shape)
        self.keep = (ctypes.c_int64 * rank)(*self.shape), (ctypes.c_int64 * rank)(*self.stride())
        said = {
            "data": self.array.pointer, "device_type": 2, "device_id": self.device.index, "ndim": rank, "code": 2,
            "bits": 8 * self.element_size(), "lanes": 1, "shape": self.keep[0], "strides": self.keep[1],
            "byte_offset": 0, **self.changes,
        }  # fmt: skip
        for name, value in said.items():
            setattr(tensor, name, value)
        return 0


def _current(kind: int, ordinal: int, out: int) -> int:
    ctypes.c_uint64.from_address(out).value = Exchanged.currents.get(ordinal, 0)
    return 0


_KEEP = _FILL(lambda tensor, at: tensor.fill(at)), _CURRENT(_current)
_API = (ctypes.c_uint64 * 7)(1, 0, 0, 0, 0, *[ctypes.cast(function, ctypes.c_void_p).value or 0 for function in _KEEP])
_NAME = b"dlpack_exchange_api"
Exchanged.__module__ = "torch"
Exchanged.__dlpack_c_exchange_api__ = _capsule(ctypes.addressof(_API), _NAME, None)  # type: ignore[attr-defined]


@contextlib.contextmanager
def torch() -> Iterator[type[Exchanged]]:
    """A library of such tensors, with current streams."""
    library = types.ModuleType("torch")
    current = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda device: Exchanged.currents.get(device, 0))
    library._C = current  # type: ignore[attr-defined]
    with mock.patch.dict(sys.modules, torch=library), mock.patch.dict(Exchanged.currents, clear=True):
        yield Exchanged
