"""Our own arrays in device memory, and the visible copies between host and device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from tirlower.call.views import HostArray
from tirlower.diagnostics import ArgumentTypeError, ArgumentValueError, DeviceError
from tirlower.gpu.launch.device import Device, device_of
from tirlower.gpu.launch.dlpack import CUDA, export
from tirlower.gpu.launch.facts import Facts
from tirlower.gpu.launch.native_layout import ARRAY_SLOTS
from tirlower.gpu.launch.order import Users, after_read, after_write, freed_on, shown, streams_of, wait_for, writer_of
from tirlower.gpu.launch.stream import Stream, default_stream, stream_on
from tirlower.ir.dtype import DataType, DataTypeError, NumpyDType

__all__ = ["ArrayKind", "DeviceArray", "Step", "empty", "received", "to_device", "use_on"]


class ArrayKind(NamedTuple):
    """What arrays of a call have in common: all but their memory."""

    device: Device
    shape: tuple[int, ...]
    dtype: NumpyDType
    facts: Facts
    nbytes: int

    @classmethod
    def of(cls, device: Device, shape: tuple[int, ...], dtype: DataType) -> ArrayKind:
        """The kind of a compact array."""
        numpy = dtype.numpy
        facts = Facts.of(str(dtype), numpy.itemsize, shape, None, False, device.ordinal)
        return cls(device, shape, numpy, facts, math.prod(shape) * numpy.itemsize)


class DeviceArray:
    """A C-contiguous array in the memory of a device; other libraries read it without a copy.

    Made by :func:`to_device` and :func:`empty`, and by calls that allocate their outputs. ``shape``, ``dtype`` (NumPy's)
    and ``device`` are as they say; ``pointer`` is the address of the first element.

    An array knows the streams that last wrote and read it: launches, copies and the end of its memory wait for them by
    themselves. ``users`` are those (:mod:`~tirlower.gpu.launch.order`), ``shown`` says whether another library was given the
    memory, whose work is expected on the default stream.
    """

    # Machine code reads them by their places, which follow from their names (native_layout).
    __slots__ = ARRAY_SLOTS

    def __init__(self, device: Device, shape: tuple[int, ...], dtype: DataType, stream: Stream | None = None) -> None:
        self.pointer = 0
        stream = default_stream(device) if stream is None else stream
        kind = ArrayKind.of(device, shape, dtype)
        before = device.enter()
        try:
            self._set(kind, stream, device.allocate(kind.nbytes, stream.handle))
        finally:
            device.leave(before)

    def _set(self, kind: ArrayKind, stream: Stream, pointer: int) -> None:
        self.pointer = pointer
        # The facts are what a call reads beside the address: made once.
        self.device, self.shape, self.dtype, self.facts, _ = kind
        self._home = stream
        self.shown = False
        self.users: Users = stream

    def __del__(self) -> None:
        if not self.pointer:
            return
        # Mostly one stream has it: the memory goes back there, as fast as can be.
        device = self.device
        if device.giver is not None and device.giver(self):
            return
        users = self.users
        if users.__class__ is Stream and not device.give(self.pointer, users.common):
            return
        if self.shown:
            users = (default_stream(device), *streams_of(users))
        before = device.enter()
        try:
            if device.pooled:
                device.free(self.pointer, freed_on(users, self._home).handle)
            else:
                for stream in streams_of(users):
                    device.driver.synchronize_stream(stream.shared.handle)
                device.free(self.pointer, 0)
        except DeviceError:  # a handle that somebody gave as a number, and that is none any more
            device.driver.synchronize()
            device.free(self.pointer, 0)
        finally:
            device.leave(before)

    def _on(self, stream: object) -> Stream:
        """A stream for a copy: the given one, or the one that wrote last."""
        if stream is not None:
            return stream_on(self.device, stream)
        return (writer_of(self.users) or self._home).shared

    # -- copies ------------------------------------------------------------------------------------------------------

    def numpy(self, stream: object = None) -> HostArray:
        """A copy in host memory, after all work that writes the array, in the order of a stream. Waits for it."""
        on = self._on(stream)
        out = np.empty(self.shape, self.dtype)
        before = self.device.enter()
        try:
            if out.nbytes:
                writer = writer_of(self.users)
                wait_for([s for s in (writer, self._shown_on()) if s is not None], on)
                self.device.driver.copy_to_host(out.ctypes.data, self.pointer, out.nbytes, on.handle)
            self.device.driver.synchronize_stream(on.handle)
        finally:
            self.device.leave(before)
        return out

    def _shown_on(self) -> Stream | None:
        """Where another library may have work on the memory."""
        return default_stream(self.device) if self.shown else None

    def copy_from(self, array: HostArray, stream: object = None) -> DeviceArray:
        """Copy a NumPy array of the same shape and dtype here, in the order of a stream. Waits for it; gives ``self``.

        Raises :class:`ArgumentValueError` for another shape or dtype.
        """
        if array.shape != self.shape or array.dtype != self.dtype:
            raise ArgumentValueError(
                f"expected an array of {self.dtype} of shape {self.shape}, got {array.dtype} of shape {array.shape}",
                origin="copy_from",
                help="convert and reshape it first",
            )
        on = self._on(stream)
        source = np.ascontiguousarray(array)
        before = self.device.enter()
        try:
            if source.nbytes:
                use_on(on, [(self, True)])
                self.device.driver.copy_to_device(self.pointer, source.ctypes.data, source.nbytes, on.handle)
            # Until then a copy from pinned memory could still be reading.
            self.device.driver.synchronize_stream(on.handle)
        finally:
            self.device.leave(before)
        return self

    # -- other libraries ---------------------------------------------------------------------------------------------

    def _show(self, stream: int | None) -> None:
        """Let another library's stream (None for no stream) work on the memory, after all that uses it."""
        with self.device.lock:
            if stream is not None:
                for other in streams_of(self.users):
                    if other.handle != stream:
                        other.order_before(stream)
            self.shown = True
            self.users = shown(self.users)

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        """The array for CuPy, Numba and others.

        The default stream waits for all work on the array, for consumers that do not ask for its stream. The one that is
        named is the only one that uses the array, else that (1, as the protocol calls it).
        """
        users = streams_of(self.users)
        self._show(0)
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer, False),
            "version": 3,
            "strides": None,
            "stream": (users[0].shared.handle if len(users) == 1 else 0) or 1,
        }

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A DLPack capsule of the array. ``stream``: the consumer's, which waits for the array's; -1 for no waiting.

        Raises BufferError where another device or a copy is asked for.
        """
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise BufferError("the array is exported where it is, without a copy")
        self._show(None if stream == -1 else _unnamed(stream or 0))
        kind = DataType.from_numpy(self.dtype)
        return export(self, self.pointer, self.device.ordinal, kind, self.shape, bool(max_version and max_version[0]))

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's device: CUDA, and its number."""
        return CUDA, self.device.ordinal

    def __array__(self, *args: object, **kwargs: object) -> NoReturn:
        """NumPy must not copy from the device unseen."""
        raise ArgumentTypeError(
            "a DeviceArray is in device memory, where NumPy does not reach",
            origin="DeviceArray",
            help="copy it where one can see it: array.numpy()",
        )

    # -- small things ------------------------------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<DeviceArray {self.dtype}{list(self.shape)} on device {self.device.ordinal} at {self.pointer:#x}>"


def received(kind: ArrayKind, stream: Stream, pointer: int) -> DeviceArray:
    """An array in memory that a call allocated in its stream."""
    made = _new(DeviceArray)
    made._set(kind, stream, pointer)
    return made


_new = DeviceArray.__new__


class Step(NamedTuple):
    """A use of arrays in a stream: their users before and after it, and the streams that it waits for."""

    before: tuple[Users, ...]
    after: tuple[Users, ...]
    waits: tuple[Stream, ...]

    def again(self, on: Stream, arrays: tuple[DeviceArray, ...]) -> bool:
        """Do the same with other arrays. False where they have other users by now."""
        with on.device.lock:
            if tuple([array.users for array in arrays]) != self.before:
                return False
            for stream in self.waits:
                stream.order_before(on.handle)
            if tuple([array.users for array in arrays]) != self.before:
                return False
            for i, users in enumerate(self.after):
                arrays[i].users = users
        return True


def use_on(on: Stream, arrays: Sequence[tuple[DeviceArray, bool]]) -> Step | None:
    """Put a use of arrays into a stream, each with whether it is written: the stream waits for those it has to.

    What was done: it need not be done again as long as the users are those after it. None where another library may have work
    of its own. An array may stand here twice.
    """
    device = on.device
    with device.lock:
        while True:
            before = tuple([array.users for array, _ in arrays])
            after, waits, hidden = _used(on, arrays)
            wait_for(waits, on)
            # Only now: who finds the stream among the users launches without waiting. What the collector finalized
            # meanwhile may have launched, too.
            if all(array.users is users for (array, _), users in zip(arrays, before, strict=True)):
                break
        for (array, _), users in zip(arrays, after, strict=True):
            array.users = users
    return None if hidden else Step(before, after, tuple(stream for stream in waits if stream is not on))


def _used(on: Stream, arrays: Sequence[tuple[DeviceArray, bool]]) -> tuple[tuple[Users, ...], dict[Stream, None], bool]:
    """The users after a use, what it waits for, and whether another library may have work of its own."""
    waits: dict[Stream, None] = {}
    hidden = False
    now: dict[int, Users] = {id(array): array.users for array, _ in arrays}
    for array, written in arrays:
        users, behind = (after_write if written else after_read)(now[id(array)], on)
        if array.shown:
            hidden = True
            users = shown(users)
            waits[default_stream(on.device)] = None
        now[id(array)] = users
        for stream in behind:
            waits[stream] = None
    return tuple([now[id(array)] for array, _ in arrays]), waits, hidden


def _unnamed(stream: int) -> int:
    """The handle of a stream by the protocols' numbers: 1 is the legacy default stream, whose handle is 0."""
    return 0 if stream == 1 else stream


def _shape_of(shape: int | tuple[int, ...] | list[int]) -> tuple[int, ...]:
    extents = (shape,) if isinstance(shape, int) else tuple(int(extent) for extent in shape)
    if any(extent < 0 for extent in extents):
        raise ArgumentValueError(f"the extents of an array are at least 0, got {extents}", origin="empty")
    return extents


def empty(
    shape: int | tuple[int, ...] | list[int],
    dtype: DTypeLike = "float32",
    *,
    device: Device | None = None,
    stream: object = None,
) -> DeviceArray:
    """An array of device memory with no particular values, allocated in the order of a stream.

    ``dtype`` is a name of ours (``"bfloat16"`` too) or a NumPy dtype. Raises :class:`ArgumentTypeError` for another,
    :class:`DeviceError` without a device or memory.
    """
    try:
        kind = DataType(dtype) if isinstance(dtype, str) else DataType.from_numpy(np.dtype(dtype))
    except (DataTypeError, TypeError) as error:
        raise ArgumentTypeError(f"no array has elements of {dtype!r}: {error}", origin="empty") from None
    if kind.is_handle or kind.is_vector or kind.code == "void":
        raise ArgumentTypeError(f"no array has elements of {kind!s}", origin="empty", help="use a numeric dtype")
    device = device_of() if device is None else device
    return DeviceArray(device, _shape_of(shape), kind, stream_on(device, stream))


def to_device(array: ArrayLike, *, device: Device | None = None, stream: object = None) -> DeviceArray:
    """A copy of a NumPy array (or what NumPy makes one of) in device memory.

    Raises :class:`ArgumentTypeError` for a dtype that kernels do not know, :class:`DeviceError` without a device.
    """
    host = np.asarray(array)
    made = empty(host.shape, host.dtype, device=device, stream=stream)
    made.copy_from(host.astype(made.dtype, copy=False), stream)
    made.users = None  # nobody else has seen it, and the copy is done
    return made
