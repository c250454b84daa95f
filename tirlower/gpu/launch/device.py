"""A device: its primary context, its limits, and memory in the order of a stream."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tirlower.diagnostics import DeviceError
from tirlower.gpu.artifact import HostEntry
from tirlower.gpu.launch.constants import DeviceAttribute
from tirlower.gpu.launch.driver import Driver, open_driver

if TYPE_CHECKING:
    from tirlower.gpu.launch.stream import Stream

__all__ = ["Device", "OrderLock", "device_of"]

_KEPT: Final = 64
_NOT_SUPPORTED: Final = 801
"""CUDA_ERROR_NOT_SUPPORTED."""


class OrderLock:
    """What is held where arrays of a device are put in order: by its thread again, too, for what the collector finalizes in
    between may launch.

    Machine code does not wait for it: it leaves arrays as they are while the word at ``held`` is not 0.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._count = ctypes.c_uint64(0)
        self.held: Final = ctypes.addressof(self._count)

    def __enter__(self) -> None:
        self._lock.acquire()
        self._count.value += 1

    def __exit__(self, *error: object) -> None:
        self._count.value -= 1
        self._lock.release()


class Device:
    """A CUDA device of a driver, with its primary context: the one that PyTorch, CuPy and Numba use too.

    ``ordinal`` is its number, ``name`` the product, ``arch`` the architecture (``"sm_90"``), ``multiprocessors`` their
    number. Raises :class:`DeviceError` where there is no such device.

    ``streams`` are those that arrays or users hold, by their handles; ``lock`` is held where arrays of the device are put in
    order for a launch.
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
        self.streams: Final[weakref.WeakValueDictionary[int, Stream]] = weakref.WeakValueDictionary()
        self.lock: Final = OrderLock()
        #: the legacy default stream, when it was asked for
        self.default: Stream | None = None
        self._kept: list[Stream] = []
        if self.pooled:
            with contextlib.suppress(DeviceError):  # a matter of speed alone
                driver.keep_pool(handle)
        #: :meth:`give_back` and :meth:`order_streams`, in machine code from the first kernel on
        self.give: Callable[[int, int], int] = self.give_back
        self.order: Callable[[int, int, int], int] = self.order_streams
        self.quick: tuple[object, ...] = ()
        #: the addresses of that code for two streams and for memory (0 without a pool), and of its table
        self.order_code = self.give_code = self.table = 0
        #: what gives the memory of an array back that one stream has used, and says whether it did; none before a kernel
        self.giver: Callable[[object], object] | None = None
        self._threads = threading.local()

    def attribute(self, attribute: DeviceAttribute) -> int:
        """A property of the device."""
        return self.driver.device_attribute(self.handle, attribute)

    # -- the context of a thread -------------------------------------------------------------------------------------

    def enter(self) -> int | None:
        """Make the device's context that of this thread. The context to :meth:`leave` to, or None.

        Asked of the driver each time: other libraries choose contexts too, and keep their choice. A thread that has none
        keeps this.
        """
        try:
            ask, place, out = self._threads.asking
        except AttributeError:
            ask, place, out = self._threads.asking = self.driver.asking()
        code = ask(place)
        if code:
            raise self.driver.error(code, "cuCtxGetCurrent")
        before: int = out.value
        if before == self.context:
            return None
        self.driver.set_context(self.context)
        return before or None

    def leave(self, before: int | None) -> None:
        """Give the thread the context that it had."""
        if before is not None:
            self.driver.set_context(before)

    # -- streams that others made ------------------------------------------------------------------------------------

    @property
    def own_stream(self) -> Stream | None:
        """The default stream of this thread alone, where it was used."""
        return getattr(self._threads, "stream", None)

    @own_stream.setter
    def own_stream(self, stream: Stream) -> None:
        self._threads.stream = stream

    def keep(self, stream: Stream) -> None:
        """Hold a stream of which only the handle is known, so that it is one object: some of the last."""
        if len(self._kept) >= _KEPT:
            del self._kept[0]
        self._kept.append(stream)

    # -- memory ------------------------------------------------------------------------------------------------------

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

    def give_back(self, pointer: int, stream: int) -> int:
        """Give memory back to the pool in the order of a stream, in whatever context; the driver's result.

        Anything but 0 where it was not given back: without a pool, too.
        """
        if not self.pooled:
            return _NOT_SUPPORTED
        before = self.enter()
        try:
            return self.driver.function("cuMemFreeAsync")(pointer, stream)
        finally:
            self.leave(before)

    def order_streams(self, event: int, earlier: int, later: int) -> int:
        """Let a stream wait, by an event, for what another has until now, in whatever context; the driver's result."""
        before = self.enter()
        try:
            code = self.driver.function("cuEventRecord")(event, earlier)
            return code or self.driver.function("cuStreamWaitEvent")(later, event, 0)
        finally:
            self.leave(before)

    def quicken(self, entry: HostEntry, table: list[int]) -> None:
        """Use machine code of a module, with a table of the driver's functions. The code is never unloaded: arrays that the
        collector finds together with the device are finalized in any order.
        """
        with self.lock:
            if self.quick:
                return  # another thread was faster: what it has made is in use
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(entry.owner))
            words = (ctypes.c_uint64 * len(table))(*table)
            address = ctypes.addressof(words)
            self.order_code, self.table = entry.order, address
            four = (ctypes.c_void_p,) * 4
            self.order = functools.partial(ctypes.CFUNCTYPE(ctypes.c_int32, *four)(entry.order), address)
            if self.pooled:
                give = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(entry.give)
                self.give_code = entry.give
                self.give = functools.partial(give, address)
            self.quick = (words,)

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


def device_of(ordinal: int = 0, driver: Driver | None = None) -> Device:
    """The device of a number, of the system's driver unless another is given; one object for each.

    Raises :class:`DeviceError` without a driver, and without such a device.
    """
    driver = open_driver() if driver is None else driver
    found = driver.devices.get(ordinal)
    # Of two threads that are the first, both get the same.
    return driver.devices.setdefault(ordinal, Device(driver, ordinal)) if found is None else found
