"""Arrays of other libraries, as far as a call asks: stand-ins over our own."""

from __future__ import annotations

from typing import Any


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
        return isinstance(other, TorchDevice) and other.type == self.type

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
