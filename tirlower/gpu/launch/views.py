"""What a call takes: device memory seen as an array, without a copy, from each library's own kind of array.

Each class of arrays has a *reader*: from an array to its address and its facts, a hashable value that says everything
else about it. A call looks the facts up among those that it has checked before; only facts that are new are made into a
:class:`~tirlower.call.views.View` and checked. Readers of PyTorch, CuPy and our own arrays ask the objects themselves, which is several
times faster than the dictionary of ``__cuda_array_interface__``.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, cast

import numpy as np

from tirlower.call.dlpack import DeviceExporter, capsule_of, tensor_of
from tirlower.call.views import Foreign, NotAnArray, View, class_of, compact_strides
from tirlower.gpu.launch.array import DeviceArray
from tirlower.gpu.launch.dlpack import CUDA_DEVICES
from tirlower.gpu.launch.facts import Facts
from tirlower.ir.dlpack import pending, unflagged_read_only
from tirlower.ir.dtype import NumpyDType

__all__ = ["Reader", "StreamSource", "facts_of", "reader_of", "stream_source", "view_of"]

_PLAIN = (bool, int, float, complex, str, bytes, list, tuple, dict, type(None))
_TO_DEVICE = "copy it to the device first, where one can see it: tl.gpu.to_device(x); .numpy() copies back"


Reader: TypeAlias = Callable[[object], tuple[int, Hashable]]
"""From an array to its address and a hashable value that :func:`facts_of` understands."""


def reader_of(value: object) -> Reader:
    """The reader of the class of an argument.

    Raises :class:`NotAnArray` for host arrays and for objects that are no arrays.
    """
    cls = type(value)
    if cls is DeviceArray:
        return cast("Reader", _read_ours)
    library = cls.__module__.partition(".")[0]
    if library == "torch" and hasattr(value, "data_ptr"):
        return _read_torch
    if library == "cupy" and hasattr(value, "data") and hasattr(value.data, "ptr"):
        return _read_cupy
    if isinstance(value, (np.ndarray, np.generic)):
        raise NotAnArray(f"a NumPy array ({value.dtype} of shape {value.shape}), which is in host memory", _TO_DEVICE)
    # An instance that lacks the interface may say so when asked, as PyTorch's CPU tensors do.
    if hasattr(cls, "__cuda_array_interface__") or hasattr(value, "__cuda_array_interface__"):
        return _read_interface
    if hasattr(value, "__dlpack__"):
        return cast("Reader", _read_dlpack)
    if isinstance(value, _PLAIN):
        raise NotAnArray(
            f"{type(value).__name__} {value!r:.40}", "pass a device array: tl.gpu.to_device(numpy.asarray(x, dtype))"
        )
    raise NotAnArray(
        f"{class_of(value)}, which shows no device memory",
        "pass a tl.gpu.DeviceArray, a CuPy array, a PyTorch CUDA tensor, or an object with __cuda_array_interface__ or "
        "__dlpack__",
    )


def _read_ours(value: DeviceArray) -> tuple[int, Hashable]:
    return value.pointer, value.facts


class TorchFacts(NamedTuple):
    """What a PyTorch tensor says, in its own objects: hashing those is cheaper than making ours of them."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Hashable
    device: Foreign
    grad: bool
    pending: tuple[str, str] | None


def _read_torch(value: Foreign) -> tuple[int, Hashable]:
    # tuple.__new__ without the keyword handling of the named tuple's own
    return value.data_ptr(), tuple.__new__(
        TorchFacts, (value.shape, value.stride(), value.dtype, value.device, value.requires_grad, pending(value))
    )


class CupyFacts(NamedTuple):
    """What a CuPy array says."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: NumpyDType
    device: int


def _read_cupy(value: Foreign) -> tuple[int, Hashable]:
    memory = value.data
    return memory.ptr, tuple.__new__(CupyFacts, (value.shape, value.strides, value.dtype, memory.device_id))


@dataclass(frozen=True, eq=False)
class InterfaceFacts:
    """The parts of ``__cuda_array_interface__``; ``name`` is the dtype's, where the type string does not tell.

    Equal ones are the same object when made by :func:`_interface_facts`: calls find what they know of them by identity.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    typestr: str
    name: str
    readonly: bool
    masked: bool
    stream: int | None


def is_nameless(typestr: str) -> bool:
    """Whether a type string says no more than a size: those of bfloat16 and the small floats do, one of which is ``<f1``."""
    return typestr[1] == "V" or typestr[1:] == "f1"


_interface_facts = functools.lru_cache(maxsize=4096)(InterfaceFacts)


def _read_interface(value: Foreign) -> tuple[int, Hashable]:
    try:
        parts = value.__cuda_array_interface__
        data, readonly = parts["data"]
        shape, strides, typestr = parts["shape"], parts.get("strides"), parts["typestr"]
        if shape.__class__ is not tuple:
            shape = tuple(shape)
        if strides is not None and strides.__class__ is not tuple:
            strides = tuple(strides)
        name = str(getattr(value, "dtype", typestr)) if is_nameless(typestr) else ""
        masked = parts.get("mask") is not None
        facts = _interface_facts(shape, strides, typestr, name, readonly, masked, parts.get("stream"))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, RuntimeError) as error:
        first = str(error).partition("\n")[0]
        raise NotAnArray(f"{class_of(value)}, whose __cuda_array_interface__ failed: {first}", _TO_DEVICE) from error
    return data or 0, facts


def _read_dlpack(value: DeviceExporter) -> tuple[int, Hashable]:
    try:
        kind, ordinal = value.__dlpack_device__()
        if int(kind) not in CUDA_DEVICES:
            raise NotAnArray(f"{class_of(value)} that is not in CUDA memory (DLPack device {int(kind)})", _TO_DEVICE)
        # Stream 1 is the legacy default stream, with which the work of all blocking streams is in order.
        capsule = capsule_of(value, stream=1)
    except (BufferError, RuntimeError, ValueError, TypeError, AttributeError) as error:
        first = str(error).partition("\n")[0]
        raise NotAnArray(f"{class_of(value)}, whose __dlpack__ refused: {first}", "pass a CUDA array") from error
    tensor = tensor_of(value, capsule, "pass a CUDA array")
    # The capsule dies here: it frees the exporter's description of the memory; the memory is the argument's own.
    readonly = tensor.readonly or (not tensor.flagged and unflagged_read_only(value))
    facts = Facts.of(tensor.dtype, tensor.itemsize, tensor.shape, tensor.strides, readonly, int(ordinal), 1)
    return tensor.data, facts


def view_of(value: object) -> tuple[View, Facts]:
    """The memory of an argument, and what is known of it besides. Raises :class:`NotAnArray`."""
    data, said = reader_of(value)(value)
    facts = facts_of(value, said)
    strides = compact_strides(facts.shape, facts.itemsize) if facts.strides is None else facts.strides
    return View(data, facts.dtype, facts.itemsize, facts.shape, strides, facts.readonly, None), facts


def facts_of(value: object, said: Hashable) -> Facts:
    """The facts behind what a reader gave. Raises :class:`NotAnArray` where they are no device memory's."""
    if isinstance(said, Facts):
        return said
    if isinstance(said, TorchFacts):
        return _torch_facts(value, said)
    if isinstance(said, CupyFacts):
        kind = np.dtype(said.dtype)
        return Facts(_numpy_name(kind), kind.itemsize, tuple(said.shape), tuple(said.strides), False, said.device)
    assert isinstance(said, InterfaceFacts)  # our own readers give nothing else
    if said.masked:
        raise NotAnArray(f"{class_of(value)} with a mask", "pass an array without one")
    if is_nameless(said.typestr):
        size = int(said.typestr[2:])
        return Facts(said.name, size, said.shape, said.strides, bool(said.readonly), None, said.stream)
    try:
        kind = np.dtype(said.typestr)
    except TypeError as error:
        raise NotAnArray(f"{class_of(value)} of type {said.typestr!r}", "give its type as NumPy does: '<f4'") from error
    return Facts(_numpy_name(kind), kind.itemsize, said.shape, said.strides, bool(said.readonly), None, said.stream)


def _numpy_name(kind: NumpyDType) -> str:
    return kind.name if kind.isnative else f"{kind.name} of the other byte order"


def _torch_facts(value: Foreign, said: TorchFacts) -> Facts:
    if said.device.type != "cuda":
        raise NotAnArray(f"a PyTorch tensor on {said.device}", "move it to the device first: tensor.cuda()")
    if said.grad:
        # A write behind the back of autograd would make its results wrong, and a launch does not say what it writes.
        raise NotAnArray("a PyTorch tensor that requires grad", "pass tensor.detach()")
    if said.pending is not None:
        raise NotAnArray(f"a PyTorch tensor with a pending {said.pending[0]}", f"pass tensor.{said.pending[1]}()")
    name = str(said.dtype).removeprefix("torch.")
    itemsize = int(value.element_size())
    strides = tuple(int(s) * itemsize for s in said.strides)
    return Facts(name, itemsize, tuple(map(int, said.shape)), strides, False, int(said.device.index or 0))


StreamSource: TypeAlias = "Callable[[], object] | int"
"""A stream, or what says which one it is now."""


def stream_source(value: object, device: int, facts: Facts) -> StreamSource:
    """On which stream the library of an array may still be writing it: the current one, or that which the array states.

    An array that states none was made on the default stream, as far as anybody knows.
    """
    library = type(value).__module__.partition(".")[0]
    module = sys.modules.get(library)
    if library == "torch" and module is not None:
        raw = getattr(getattr(module, "_C", None), "_cuda_getCurrentRawStream", None)
        # a tenth of the time of the public function
        return _torch_source(module.cuda.current_stream if raw is None else raw, device)
    if library == "cupy" and module is not None:
        current: StreamSource = module.cuda.get_current_stream
        return current
    # The protocols call the default stream 1.
    return 0 if facts.stream in (None, 1) else facts.stream


@functools.lru_cache(maxsize=64)
def _torch_source(current: Callable[[int], object], device: int) -> Callable[[], object]:
    """What says PyTorch's stream of a device; one object for each, so that all tensors have one source."""
    return functools.partial(current, device)
