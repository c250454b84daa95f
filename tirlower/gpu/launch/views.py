"""What a call takes: device memory seen as an array, without a copy, from each library's own kind of array.

Each class of arrays has a *reader*: from an array to its address and its facts, a hashable value that says everything
else about it. A call looks the facts up among those that it has checked before; only facts that are new are made into a
:class:`View` and checked. Readers of PyTorch, CuPy and our own arrays ask the objects themselves, which is several
times faster than the dictionary of ``__cuda_array_interface__``.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tirlower.gpu.launch.array import DeviceArray
from tirlower.gpu.launch.dlpack import CUDA_DEVICES, read_capsule
from tirlower.gpu.launch.facts import Facts
from tirlower.ir.dlpack import pending, unflagged_read_only

__all__ = ["NotOnDevice", "Reader", "View", "facts_of", "reader_of", "share_memory", "stream_source"]

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
    """Device memory as an array: ``data`` is the address of the first element, ``strides`` count bytes.

    ``span`` is the lowest byte of an element relative to ``data``, and the end of the highest; both 0 without elements.
    """

    data: int
    facts: Facts
    strides: tuple[int, ...]
    span: tuple[int, int]

    @classmethod
    def of(cls, data: int, facts: Facts) -> View:
        """The view of an address and facts."""
        strides = compact_strides(facts.shape, facts.itemsize) if facts.strides is None else facts.strides
        if not math.prod(facts.shape):
            return cls(data, facts, strides, (0, 0))
        reach = [(extent - 1) * stride for extent, stride in zip(facts.shape, strides, strict=True)]
        span = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0) + facts.itemsize
        return cls(data, facts, strides, span)

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

    def text(self) -> str:
        """For messages: ``float32[16, 4]``."""
        return f"{self.facts.dtype}[{', '.join(map(str, self.shape))}]"


def compact_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The byte strides of a C-contiguous array."""
    strides = [itemsize] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return tuple(strides)


class _Shadow:
    """Device memory for NumPy to reason about; nothing reads it."""

    def __init__(self, view: View, data: int) -> None:
        typestr = f"|V{view.facts.itemsize}"
        self.__array_interface__ = {
            "data": (data, True), "shape": view.shape, "strides": view.strides, "typestr": typestr, "version": 3
        }  # fmt: skip


def share_memory(a: View, data_a: int, b: View, data_b: int) -> bool:
    """Whether two arrays at these addresses have an element in common: interleaved ones do not."""
    try:
        # The stubs know two values of max_work only; this many steps take a millisecond.
        first, second = np.asarray(_Shadow(a, data_a)), np.asarray(_Shadow(b, data_b))
        return bool(np.shares_memory(first, second, max_work=100_000))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True  # their spans meet, and nobody can tell that their elements do not


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
    pending: tuple[str, str] | None


def _read_torch(value: Any) -> tuple[int, Hashable]:
    # tuple.__new__ without the keyword handling of the named tuple's own
    return value.data_ptr(), tuple.__new__(
        TorchFacts, (value.shape, value.stride(), value.dtype, value.device, value.requires_grad, pending(value))
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
        shape, strides, typestr = parts["shape"], parts.get("strides"), parts["typestr"]
        if shape.__class__ is not tuple:
            shape = tuple(shape)
        if strides is not None and strides.__class__ is not tuple:
            strides = tuple(strides)
        name = str(getattr(value, "dtype", "")) if typestr[1] == "V" else ""
        said = (shape, strides, typestr, name, bool(readonly), parts.get("mask") is not None, parts.get("stream"))
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        first = str(error).partition("\n")[0]
        raise NotOnDevice(f"{_kind(value)}, whose __cuda_array_interface__ failed: {first}", _TO_DEVICE) from error
    return data or 0, tuple.__new__(InterfaceFacts, said)


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
    readonly = tensor.readonly or (not tensor.flagged and unflagged_read_only(value))
    facts = Facts.of(tensor.dtype, tensor.itemsize, tensor.shape, strides, readonly, int(ordinal))
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
    if said.pending is not None:
        raise NotOnDevice(f"a PyTorch tensor with a pending {said.pending[0]}", f"pass tensor.{said.pending[1]}()")
    name = str(said.dtype).removeprefix("torch.")
    itemsize = int(value.element_size())
    strides = tuple(int(s) * itemsize for s in said.strides)
    return Facts(name, itemsize, tuple(map(int, said.shape)), strides, False, int(said.device.index or 0))


def stream_source(value: Any, device: int) -> Callable[[], int] | None:
    """What says on which stream the library of an array works now; None where that is the default stream."""
    library = type(value).__module__.partition(".")[0]
    module = sys.modules.get(library)
    if library == "torch" and module is not None:
        raw = getattr(getattr(module, "_C", None), "_cuda_getCurrentRawStream", None)
        if raw is not None:  # a tenth of the time of the public function
            return functools.partial(raw, device)
        return lambda: int(module.cuda.current_stream(device).cuda_stream)
    if library == "cupy" and module is not None:
        return lambda: int(module.cuda.get_current_stream().ptr)
    return None
