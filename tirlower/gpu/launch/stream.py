"""Streams and events: ours, and the handles of those of other libraries."""

from __future__ import annotations

import operator
from typing import SupportsIndex, cast

from tirlower.diagnostics import ArgumentTypeError
from tirlower.gpu.launch.device import Device, device_of

__all__ = ["Event", "Stream", "order_after", "stream_handle"]


class Stream:
    """Work of a device in order. A kernel takes one as ``stream=``; ``wait()`` waits for all that it was given."""

    def __init__(self, device: Device | None = None, *, non_blocking: bool = True) -> None:
        self.device = device_of() if device is None else device
        before = self.device.enter()
        self.handle = self.device.driver.create_stream(non_blocking)
        self.device.leave(before)

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

    def __cuda_stream__(self) -> tuple[int, int]:
        """The stream for other libraries: the protocol's version, and the handle."""
        return 0, self.handle

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self.device.driver.destroy_stream(self.handle)


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


def order_after(device: Device, stream: int, producer: int) -> None:
    """Let what a stream is given from now on wait for what another one was given until now."""
    if stream != producer:
        event = Event(device, producer, timing=False)
        device.driver.stream_wait(stream, event.handle)
