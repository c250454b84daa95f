"""A device: its primary context, its limits, and memory in the order of a stream."""

from __future__ import annotations

import functools
import threading
from typing import Final

from tirlower.diagnostics import DeviceError
from tirlower.gpu.launch.constants import DeviceAttribute
from tirlower.gpu.launch.driver import Driver, open_driver

__all__ = ["Device", "device_of"]


class Device:
    """A CUDA device of a driver, with its primary context: the one that PyTorch, CuPy and Numba use too.

    ``ordinal`` is its number, ``name`` the product, ``arch`` the architecture (``"sm_90"``), ``multiprocessors`` their
    number. Raises :class:`DeviceError` where there is no such device.
    """

    def __init__(self, driver: Driver, ordinal: int = 0) -> None:
        self.driver: Final = driver
        self.ordinal: Final = ordinal
        handle = driver.device(ordinal)
        self.handle: Final = handle
        self.context: Final = driver.retain_context(handle)
        self.name: Final = driver.device_name(handle)
        major = self.attribute(DeviceAttribute.COMPUTE_CAPABILITY_MAJOR)
        minor = self.attribute(DeviceAttribute.COMPUTE_CAPABILITY_MINOR)
        self.arch: Final = f"sm_{major}{minor}"
        self.multiprocessors: Final = self.attribute(DeviceAttribute.MULTIPROCESSOR_COUNT)
        self.max_shared: Final = self.attribute(DeviceAttribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
        self.pooled: Final = bool(self.attribute(DeviceAttribute.MEMORY_POOLS_SUPPORTED))
        self.alone: Final = driver.device_count == 1
        self._threads = threading.local()

    def attribute(self, attribute: DeviceAttribute) -> int:
        """A property of the device."""
        return self.driver.device_attribute(self.handle, attribute)

    def enter(self) -> int | None:
        """Make the device's context that of this thread. The context to :meth:`leave` to, or None.

        Where there is one device a thread gets its context once, for good; otherwise others may choose another device
        in between, and keep their choice.
        """
        if self.alone:
            try:
                entered: int | None = self._threads.entered
                return entered
            except AttributeError:
                self.driver.set_context(self.context)
                self._threads.entered = None
                return None
        before = self.driver.current_context()
        if before == self.context:
            return None
        self.driver.set_context(self.context)
        return before

    def leave(self, before: int | None) -> None:
        """Give the thread the context that it had."""
        if before is not None:
            self.driver.set_context(before)

    def allocate(self, size: int, stream: int) -> int:
        """Device memory in the order of a stream (at once where the device has no pool); no byte needs no memory.

        Raises :class:`DeviceError` when there is too little.
        """
        if not size:
            return 0
        try:
            return self.driver.allocate_async(size, stream) if self.pooled else self.driver.allocate(size)
        except DeviceError as error:
            error.notes.append(self._asked(size))
            raise

    def refused(self, code: int, size: int) -> DeviceError:
        """The error of memory that the driver did not give, from its result."""
        name = "cuMemAllocAsync" if self.pooled else "cuMemAlloc_v2"
        return self.driver.error(code, name, notes=(self._asked(size),))

    def _asked(self, size: int) -> str:
        return f"{size} bytes were asked of {self.name} (device {self.ordinal})"

    def free(self, pointer: int, stream: int) -> None:
        """Give memory of :meth:`allocate` back, in the order of a stream."""
        if not pointer:
            return
        if self.pooled:
            self.driver.free_async(pointer, stream)
        else:
            self.driver.free(pointer)

    def __repr__(self) -> str:
        return f"<Device {self.ordinal}: {self.name}, {self.arch}>"


@functools.lru_cache(maxsize=64)
def device_of(ordinal: int = 0, driver: Driver | None = None) -> Device:
    """The device of a number, of the system's driver unless another is given; one object for each.

    Raises :class:`DeviceError` without a driver, and without such a device.
    """
    return Device(open_driver() if driver is None else driver, ordinal)
