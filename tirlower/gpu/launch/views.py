"""What a call takes: device memory seen as an array, without a copy, from each library's own kind of array.

Each class of arrays has a *reader*: from an array to its address and its facts, a hashable value that says everything
else about it. A call looks the facts up among those that it has checked before; only facts that are new are made into a
:class:`View` and checked. Readers of PyTorch, CuPy and our own arrays ask the objects themselves, which is several
times faster than the dictionary of ``__cuda_array_interface__``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tirlower.gpu.launch.array import DeviceArray
from tirlower.gpu.launch.dlpack import CUDA_DEVICES, read_capsule
from tirlower.gpu.launch.facts import Facts

__all__ = ["NotOnDevice", "Reader", "View", "current_stream", "facts_of", "reader_of"]

_PLAIN = (bool, int, float, complex, str, bytes, list, tuple, dict, type(None))
_TO_DEVICE = "copy it to the device first, where one can see it: tl.gpu.to_device(x); .numpy() copies back"


Reader: TypeAlias = Callable[[Any], tuple[int, Hashable]]
"""From an array to its address and a hashable value that :func:`facts_of` understands."""


class NotOnDevice(Exception):
    """An object that shows no device memory: ``got`` describes it, ``remedy`` says what to pass."""

    def __init__(self, got: str, remedy: str) -> None:
        super().__init__(got)
        self.got = got
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class View:
    """Device memory as an array: ``data`` is the address of the first element, ``strides`` count bytes."""

    data: int
    facts: Facts
    strides: tuple[int, ...]

    @classmethod
    def of(cls, data: int, facts: Facts) -> View:
        """The view of an address and facts."""
        strides = compact_strides(facts.shape, facts.itemsize) if facts.strides is None else facts.strides
        return cls(data, facts, strides)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self.facts.shape

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.facts.shape)

    @property
    def compact(self) -> bool:
        """True for C-contiguous memory; dimensions of extent 1, and empty arrays, may have any stride."""
        step = self.facts.itemsize
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent != 1 and stride != step and self.size:
                return False
            step *= extent
        return True

    def span(self) -> tuple[int, int]:
        """The lowest byte of an element relative to ``data``, and the end of the highest; both 0 without elements."""
        if not self.size:
            return 0, 0
        reach = [(extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True)]
        return sum(r for r in reach if r < 0), sum(r for r in reach if r > 0) + self.facts.itemsize

    def text(self) -> str:
        """For messages: ``float32[16, 4]``."""
        return f"{self.facts.dtype}[{', '.join(map(str, self.shape))}]"


def compact_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The byte strides of a C-contiguous array."""
    strides = [itemsize] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return tuple(strides)


def reader_of(value: Any) -> Reader:
    """The reader of the class of an argument.

    Raises :class:`NotOnDevice` for host arrays and for objects that are no arrays.
    """
    cls = type(value)
    if cls is DeviceArray:
        return _read_ours
    library = cls.__module__.partition(".")[0]
    if library == "torch" and hasattr(value, "data_ptr"):
        return _read_torch
    if library == "cupy" and hasattr(value, "data") and hasattr(value.data, "ptr"):
        return _read_cupy
    if isinstance(value, (np.ndarray, np.generic)):
        raise NotOnDevice(f"a NumPy array ({value.dtype} of shape {value.shape}), which is in host memory", _TO_DEVICE)
    # An instance that lacks the interface may say so when asked, as PyTorch's CPU tensors do.
    if hasattr(cls, "__cuda_array_interface__") or hasattr(value, "__cuda_array_interface__"):
        return _read_interface
    if hasattr(value, "__dlpack__"):
        return _read_dlpack
    if isinstance(value, _PLAIN):
        raise NotOnDevice(_kind(value), "pass a device array: tl.gpu.to_device(numpy.asarray(x, dtype))")
    raise NotOnDevice(
        f"{_kind(value)}, which shows no device memory",
        "pass a tl.gpu.DeviceArray, a CuPy array, a PyTorch CUDA tensor, or an object with __cuda_array_interface__ or "
        "__dlpack__",
    )


def _kind(value: Any) -> str:
    cls = type(value)
    name = cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _read_ours(value: DeviceArray) -> tuple[int, Hashable]:
    return value.entry


class TorchFacts(NamedTuple):
    """What a PyTorch tensor says, in its own objects: hashing those is cheaper than making ours of them."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Hashable
    device: Any
    grad: bool


def _read_torch(value: Any) -> tuple[int, Hashable]:
    # tuple.__new__ without the keyword handling of the named tuple's own
    return value.data_ptr(), tuple.__new__(
        TorchFacts, (value.shape, value.stride(), value.dtype, value.device, value.requires_grad)
    )


class CupyFacts(NamedTuple):
    """What a CuPy array says."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    device: int


def _read_cupy(value: Any) -> tuple[int, Hashable]:
    memory = value.data
    return memory.ptr, tuple.__new__(CupyFacts, (value.shape, value.strides, value.dtype, memory.device_id))


class InterfaceFacts(NamedTuple):
    """The parts of ``__cuda_array_interface__``; ``name`` is the dtype's, where the type string does not tell."""

    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    typestr: str
    name: str
    readonly: bool
    masked: bool
    stream: int | None


def _read_interface(value: Any) -> tuple[int, Hashable]:
    try:
        parts = value.__cuda_array_interface__
        data, readonly = parts["data"]
        strides, typestr = parts.get("strides"), parts["typestr"]
        name = str(getattr(value, "dtype", "")) if typestr[1] == "V" else ""
        found = InterfaceFacts(
            tuple(parts["shape"]),
            None if strides is None else tuple(strides),
            typestr,
            name,
            bool(readonly),
            parts.get("mask") is not None,
            parts.get("stream"),
        )
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        first = str(error).partition("\n")[0]
        raise NotOnDevice(f"{_kind(value)}, whose __cuda_array_interface__ failed: {first}", _TO_DEVICE) from error
    return int(data or 0), found


def _read_dlpack(value: Any) -> tuple[int, Hashable]:
    try:
        kind, ordinal = value.__dlpack_device__()
        if int(kind) not in CUDA_DEVICES:
            raise NotOnDevice(f"{_kind(value)} that is not in CUDA memory (DLPack device {int(kind)})", _TO_DEVICE)
        capsule = _export(value)
    except (BufferError, RuntimeError, ValueError, TypeError, AttributeError) as error:
        first = str(error).partition("\n")[0]
        raise NotOnDevice(f"{_kind(value)}, whose __dlpack__ refused: {first}", "pass a CUDA array") from error
    tensor = read_capsule(capsule)
    if tensor is None:
        raise NotOnDevice(f"{_kind(value)}, whose __dlpack__ gave no capsule of DLPack 1", "pass a CUDA array")
    strides = None if tensor.strides is None else tuple(s * tensor.itemsize for s in tensor.strides)
    # The capsule dies here: it frees the exporter's description of the memory; the memory is the argument's own.
    facts = Facts(tensor.dtype, tensor.itemsize, tensor.shape, strides, tensor.readonly, int(ordinal))
    return tensor.data, facts


def _export(value: Any) -> object:
    # Stream 1 is the legacy default stream, with which the work of all blocking streams is in order.
    try:
        return value.__dlpack__(stream=1, max_version=(1, 0))
    except TypeError:
        return value.__dlpack__(stream=1)


def facts_of(value: Any, said: Hashable) -> Facts:
    """The facts behind what a reader gave. Raises :class:`NotOnDevice` where they are no device memory's."""
    if isinstance(said, Facts):
        return said
    if isinstance(said, TorchFacts):
        return _torch_facts(value, said)
    if isinstance(said, CupyFacts):
        kind = np.dtype(said.dtype)
        return Facts(_numpy_name(kind), kind.itemsize, tuple(said.shape), tuple(said.strides), False, said.device)
    assert isinstance(said, InterfaceFacts)  # our own readers give nothing else
    if said.masked:
        raise NotOnDevice(f"{_kind(value)} with a mask", "pass an array without one")
    if said.typestr[1] == "V":
        size = int(said.typestr[2:])
        return Facts(said.name, size, said.shape, said.strides, said.readonly, None, said.stream)
    kind = np.dtype(said.typestr)
    return Facts(_numpy_name(kind), kind.itemsize, said.shape, said.strides, said.readonly, None, said.stream)


def _numpy_name(kind: np.dtype[Any]) -> str:
    return kind.name if kind.isnative else f"{kind.name} of the other byte order"


def _torch_facts(value: Any, said: TorchFacts) -> Facts:
    if said.device.type != "cuda":
        raise NotOnDevice(f"a PyTorch tensor on {said.device}", "move it to the device first: tensor.cuda()")
    if said.grad:
        # A write behind the back of autograd would make its results wrong, and a launch does not say what it writes.
        raise NotOnDevice("a PyTorch tensor that requires grad", "pass tensor.detach()")
    name = str(said.dtype).removeprefix("torch.")
    itemsize = int(value.element_size())
    strides = tuple(int(s) * itemsize for s in said.strides)
    return Facts(name, itemsize, tuple(map(int, said.shape)), strides, False, int(said.device.index or 0))


def current_stream(value: Any, device: int) -> int:
    """The stream on which the library of an array works now; 0, the default stream, where it does not say."""
    library = type(value).__module__.partition(".")[0]
    if library == "torch" and "torch" in sys.modules:
        return int(sys.modules["torch"].cuda.current_stream(device).cuda_stream)
    if library == "cupy" and "cupy" in sys.modules:
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr)
    return 0
