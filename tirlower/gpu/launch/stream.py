"""Streams and events: ours, and those of other libraries."""

from __future__ import annotations

import operator
from typing import SupportsIndex, cast

from tirlower.diagnostics import ArgumentTypeError, ArgumentValueError
from tirlower.gpu.launch.constants import STREAM_LEGACY, STREAM_PER_THREAD
from tirlower.gpu.launch.device import Device, device_of
from tirlower.gpu.launch.native_layout import STREAM_SLOTS

__all__ = ["Event", "Stream", "default_stream", "stream_handle", "stream_on"]


class Stream:
    """Work of a device in order. A kernel takes one as ``stream=``; ``wait()`` waits for all that it was given.

    Arrays keep the streams that used them last, so a stream lives as long as somebody has to be ordered after it. There
    is one object for each stream of a device (:func:`stream_on`), so that streams are compared by identity. ``common`` is a
    handle by which any thread may order itself behind it: its own, but for a thread's default stream.
    """

    # Machine code reads them by their places, which follow from their names (native_layout).
    __slots__ = STREAM_SLOTS

    def __init__(self, device: Device | None = None, *, non_blocking: bool = True) -> None:
        self._owns = False
        device = device_of() if device is None else device
        before = device.enter()
        try:
            self._set(device, device.driver.create_stream(non_blocking), None)
            self._owns = True
        finally:
            device.leave(before)

    def _set(self, device: Device, handle: int, owner: object) -> None:
        self.device = device
        self.handle = handle
        self._owner = owner
        # A thread's default stream has no handle that other threads could name. It is in order with the legacy one.
        self.common = 0 if handle == STREAM_PER_THREAD else handle
        self._event = 0
        if handle != STREAM_PER_THREAD:
            device.streams[handle] = self

    @classmethod
    def adopt(cls, device: Device, handle: int, owner: object = None) -> Stream:
        """A stream that somebody else made: it is not destroyed here, and ``owner`` lives as long as it does."""
        made = cls.__new__(cls)
        made._owns = False
        made._set(device, handle, owner)
        return made

    def wait(self) -> None:
        """Wait for the stream. Raises :class:`DeviceError` where something in it failed."""
        before = self.device.enter()
        try:
            self.device.driver.synchronize_stream(self.handle)
        finally:
            self.device.leave(before)

    def record(self, *, timing: bool = True) -> Event:
        """An event at the present end of the stream."""
        return Event(self.device, self.handle, timing=timing)

    def order_before(self, handle: int) -> None:
        """Let what a stream is given from now on wait for what this one was given until now.

        The stream has one event for that, which is kept: recorded anew it only stands later.
        """
        device = self.device
        code = device.order(self._event or self._make_event(), self.common, handle)
        if code:
            raise device.driver.error(
                code,
                f"letting stream {handle:#x} wait for stream {self.handle:#x}",
                help="a stream that is given as a number has to live as long as the arrays that it is used on",
            )

    def _make_event(self) -> int:
        device = self.device
        before = device.enter()  # an event belongs to the context in which it is made
        try:
            made = device.driver.create_event(False)
        finally:
            device.leave(before)
        if self._event:  # another thread was faster
            device.driver.destroy_event(made)
        else:
            self._event = made
        return self._event

    @property
    def shared(self) -> Stream:
        """The stream that any thread may give work after this one's: itself, for a thread's own the legacy one."""
        return self if self.common == self.handle else default_stream(self.device)

    def __cuda_stream__(self) -> tuple[int, int]:
        """The stream for other libraries: the protocol's version, and the handle."""
        return 0, self.handle

    def __del__(self) -> None:
        if getattr(self, "_event", 0):
            self.device.driver.destroy_event(self._event)
        if self._owns:
            self.device.driver.destroy_stream(self.handle)

    def __repr__(self) -> str:
        return f"<Stream {self.handle:#x} of device {self.device.ordinal}>"


class Event:
    """A mark in a stream, recorded when it is made; the time between two is that of the work between them.

    ``stream`` is a handle as :func:`stream_handle` gives, 0 the default stream.
    """

    def __init__(self, device: Device, stream: int = 0, *, timing: bool = True) -> None:
        self.device = device
        driver = device.driver
        before = device.enter()
        try:
            self.handle = driver.create_event(timing)
            driver.record_event(self.handle, stream)
        finally:
            device.leave(before)

    def wait(self) -> None:
        """Wait until the work before the mark is done."""
        self.device.driver.synchronize_event(self.handle)

    def ms_since(self, earlier: Event) -> float:
        """The device's milliseconds from an earlier event to this one; both must be done."""
        return self.device.driver.elapsed_ms(earlier.handle, self.handle)

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self.device.driver.destroy_event(self.handle)


def stream_handle(stream: object) -> int:
    """The driver's handle of a stream: an int, or a stream of cuda-core, PyTorch, CuPy, Numba, or ours. None is 0.

    Raises :class:`ArgumentTypeError` for anything else.

    >>> stream_handle(None), stream_handle(7)
    (0, 7)
    """
    if stream is None:
        return 0
    if isinstance(stream, int):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for name in ("cuda_stream", "ptr", "handle"):  # PyTorch's, CuPy's, Numba's
        found = getattr(stream, name, None)
        if found is not None:
            value = getattr(found, "value", found)
            return int(value or 0)
    try:
        return operator.index(cast("SupportsIndex", stream))
    except TypeError:
        raise ArgumentTypeError(
            f"expected a stream, got {type(stream).__name__}",
            origin="call",
            help="pass a stream of tl.gpu, PyTorch, CuPy, Numba or cuda-core, or its handle as an int",
        ) from None


def default_stream(device: Device) -> Stream:
    """The legacy default stream of a device, which waits for the blocking streams and they for it."""
    found = device.default
    if found is None:
        found = device.default = stream_on(device, 0)
    return found


def stream_on(device: Device, stream: object) -> Stream:
    """The one object of a stream of a device: given as what :func:`stream_handle` takes.

    Another library's object lives as long as an array may have to wait for it. A plain handle names a stream that lives
    as long as the arrays that it is used on. Raises :class:`ArgumentValueError` for one of our streams on another device.
    """
    if isinstance(stream, Stream):
        if stream.device is not device:
            raise ArgumentValueError(
                f"expected a stream of device {device.ordinal}, where the arrays are, got one of device "
                f"{stream.device.ordinal}",
                origin="call",
                help=f"make one there: tl.gpu.Stream(device_of({device.ordinal}))",
            )
        return stream
    handle = stream_handle(stream)
    if handle == STREAM_LEGACY:
        handle = 0
    if handle == 0 and device.default is not None:
        return device.default
    if handle == STREAM_PER_THREAD:
        own = device.own_stream
        if own is None:
            own = device.own_stream = Stream.adopt(device, handle)
        return own
    found = device.streams.get(handle)
    if found is None:
        kept = stream is None or isinstance(stream, int)
        found = Stream.adopt(device, handle, None if kept else stream)
        if kept:
            device.keep(found)
    return found
