"""The CUDA driver through ctypes: loaded at the first use, each call checked, errors as :class:`DeviceError`.

No toolkit and no runtime library: the functions below are all that a launch needs, and ctypes loads them in less than a
millisecond. The machine code of host functions calls some of them by their addresses.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from tirlower.diagnostics import DeviceError
from tirlower.gpu.launch import constants
from tirlower.gpu.launch.constants import DeviceAttribute, FunctionAttribute, JitOption, PointerAttribute

if TYPE_CHECKING:
    from tirlower.gpu.launch.device import Device

__all__ = ["LIBRARY_VARIABLE", "Driver", "library_name", "open_driver"]

LIBRARY_VARIABLE = "TIRLOWER_LIBCUDA"
"""The environment variable with the path of the driver's library, where it is not the system's."""

SIMULATE = "tl.simulate(func, *arrays) executes the kernels without a device"

_P, _U, _I, _Z, _D = ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_size_t, ctypes.c_uint64
_F = ctypes.c_float

# Argument types by function: without them ctypes passes Python's ints as 32 bits.
_ARGUMENTS = {
    "cuInit": (_U,),
    "cuDriverGetVersion": (_P,),
    "cuGetErrorName": (_I, _P),
    "cuGetErrorString": (_I, _P),
    "cuDeviceGetCount": (_P,),
    "cuDeviceGet": (_P, _I),
    "cuDeviceGetName": (_P, _I, _I),
    "cuDeviceGetAttribute": (_P, _I, _I),
    "cuDevicePrimaryCtxRetain": (_P, _I),
    "cuCtxGetCurrent": (_P,),
    "cuCtxSetCurrent": (_P,),
    "cuCtxSynchronize": (),
    "cuModuleLoadDataEx": (_P, _P, _U, _P, _P),
    "cuModuleUnload": (_P,),
    "cuModuleGetFunction": (_P, _P, ctypes.c_char_p),
    "cuFuncGetAttribute": (_P, _I, _P),
    "cuFuncSetAttribute": (_P, _I, _I),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (_P, _P, _I, _Z),
    "cuStreamCreate": (_P, _U),
    "cuStreamDestroy_v2": (_P,),
    "cuStreamSynchronize": (_P,),
    "cuStreamWaitEvent": (_P, _P, _U),
    "cuEventCreate": (_P, _U),
    "cuEventRecord": (_P, _P),
    "cuEventSynchronize": (_P,),
    "cuEventElapsedTime": (_P, _P, _P),
    "cuEventDestroy_v2": (_P,),
    "cuMemAlloc_v2": (_P, _Z),
    "cuMemFree_v2": (_D,),
    "cuMemAllocAsync": (_P, _Z, _P),
    "cuMemFreeAsync": (_D, _P),
    "cuDeviceGetDefaultMemPool": (_P, _I),
    "cuMemPoolGetAttribute": (_P, _I, _P),
    "cuMemPoolSetAttribute": (_P, _I, _P),
    "cuMemHostAlloc": (_P, _Z, _U),
    "cuMemFreeHost": (_P,),
    "cuMemcpyHtoDAsync_v2": (_D, _P, _Z, _P),
    "cuMemcpyDtoHAsync_v2": (_P, _D, _Z, _P),
    "cuMemcpyDtoDAsync_v2": (_D, _D, _Z, _P),
    "cuMemsetD8Async": (_D, ctypes.c_ubyte, _Z, _P),
    "cuPointerGetAttribute": (_P, _I, _D),
    "cuLaunchKernel": (_P, _U, _U, _U, _U, _U, _U, _U, _P, _P, _P),
    "cuLaunchKernelEx": (_P, _P, _P, _P),
    "cuTensorMapEncodeTiled": (_P, _I, _U, _D, _P, _P, _P, _P, _I, _I, _I, _I),
}

_UNKNOWN = 999
"""CUDA_ERROR_UNKNOWN."""

_SINCE = {"cuMemAllocAsync": "11.2", "cuMemFreeAsync": "11.2", "cuLaunchKernelEx": "11.8", "cuTensorMapEncodeTiled": "12.0"}  # fmt: skip


class DriverFunction(Protocol):
    """A function of the driver: its result is a code, 0 for success."""

    def __call__(self, *args: object) -> int: ...


class Driver:
    """The functions of a driver's library.

    ``library`` has the functions of ``libcuda`` as attributes: a ctypes library, or any object with callables that take
    the same arguments. Every method raises :class:`DeviceError` with the name and the text of the result when the
    driver refuses, and when it lacks the function. The driver is initialized here.
    """

    def __init__(self, library: object) -> None:
        self.library = library
        self._functions: dict[str, DriverFunction] = {}
        self._addresses: dict[str, int] = {}
        #: what machine code calls at addresses of ours
        self._callbacks: list[object] = []
        self._raised: list[Exception] = []
        #: what :func:`~tirlower.gpu.launch.device.device_of` made
        self.devices: dict[int, Device] = {}
        code = self.function("cuInit")(0)
        if code:
            raise DeviceError(
                f"there is no CUDA device here: cuInit failed: {self.result_text(code)}", origin="driver", help=SIMULATE
            )
        self.version = self._int("cuDriverGetVersion")
        self.device_count = self._int("cuDeviceGetCount")

    # -- calls and errors --------------------------------------------------------------------------------------------

    def function(self, name: str) -> DriverFunction:
        """A function of the library, with its argument types. Raises :class:`DeviceError` when the driver lacks it."""
        known = self._functions.get(name)
        if known is not None:
            return known
        try:
            found: DriverFunction = getattr(self.library, name)
        except AttributeError:
            since = _SINCE.get(name)
            raise DeviceError(
                f"the CUDA driver has no function {name}",
                origin="driver",
                help=f"update the driver to CUDA {since} or newer" if since else "update the driver",
            ) from None
        if hasattr(found, "argtypes") and hasattr(found, "restype"):
            found.argtypes = _ARGUMENTS[name]
            found.restype = ctypes.c_int
        self._functions[name] = found
        return found

    def address(self, name: str) -> int:
        """Where machine code finds a function. Raises as :meth:`function` does.

        What a function of Python raises there is kept (:meth:`raised`), and its result is an error.
        """
        known = self._addresses.get(name)
        if known is None:
            function = self.function(name)
            found = getattr(self.library, name)
            if not isinstance(self.library, ctypes.CDLL):

                def guarded(*args: object) -> int:
                    try:
                        return function(*args)
                    except Exception as error:
                        self._raised.append(error)
                        return _UNKNOWN

                found = ctypes.CFUNCTYPE(ctypes.c_int, *_ARGUMENTS[name])(guarded)
                self._callbacks.append(found)
            known = self._addresses[name] = ctypes.cast(found, ctypes.c_void_p).value or 0
        return known

    def raised(self) -> Exception | None:
        """What a function of a library in Python raised when machine code called it; asked once."""
        return self._raised.pop() if self._raised else None

    def call(self, name: str, *args: object) -> None:
        """Call a function, and check its result."""
        code = self.function(name)(*args)
        if code:
            raise self.error(code, name)

    def release(self, name: str, *args: object) -> None:
        """Call a function that gives something back: what was in a context that is lost is gone already."""
        code = self.function(name)(*args)
        if code and code not in constants.ENDED:
            raise self.error(code, name)

    def error(self, code: int, what: str, *, notes: tuple[str, ...] = (), help: str | None = None) -> DeviceError:
        """The error of a result: ``what`` failed, with the driver's name and text of the code."""
        return DeviceError(f"{what} failed: {self.result_text(code)}", origin="driver", notes=notes, help=help)

    def result_text(self, code: int) -> str:
        """``CUDA_ERROR_OUT_OF_MEMORY (2): out of memory``."""
        name, text = constants.CODE_NAMES.get(code, ("CUDA_ERROR", "no text"))
        said = self._said("cuGetErrorName", code), self._said("cuGetErrorString", code)
        return f"{said[0] or name} ({code}): {said[1] or text}"

    def _said(self, function: str, code: int) -> str:
        text = ctypes.c_char_p()
        found = self.function(function)(code, ctypes.byref(text))
        return text.value.decode(errors="replace") if not found and text.value else ""

    def _int(self, name: str, *args: object) -> int:
        out = ctypes.c_int()
        self.call(name, ctypes.byref(out), *args)
        return out.value

    def _handle(self, name: str, *args: object) -> int:
        out = ctypes.c_uint64()
        self.call(name, ctypes.byref(out), *args)
        return out.value

    # -- devices and contexts ----------------------------------------------------------------------------------------

    @property
    def ptx_version(self) -> tuple[int, int]:
        """The newest PTX version that this driver compiles."""
        return constants.ptx_version_of(self.version)

    def device(self, ordinal: int) -> int:
        """The driver's handle of a device. Raises :class:`DeviceError` when there is none of that number."""
        if not 0 <= ordinal < self.device_count:
            raise DeviceError(
                f"there is no CUDA device {ordinal}: the driver shows {self.device_count}",
                origin="driver",
                help=SIMULATE if not self.device_count else f"use 0 to {self.device_count - 1}",
            )
        return self._int("cuDeviceGet", ordinal)

    def device_name(self, device: int) -> str:
        """The product name of a device."""
        text = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", text, len(text), device)
        return text.value.decode(errors="replace")

    def device_attribute(self, device: int, attribute: DeviceAttribute) -> int:
        """A property of a device."""
        return self._int("cuDeviceGetAttribute", int(attribute), device)

    def retain_context(self, device: int) -> int:
        """The primary context of a device, which other libraries share."""
        return self._handle("cuDevicePrimaryCtxRetain", device)

    def current_context(self) -> int:
        """The context of this thread, 0 for none."""
        ask, place, out = self.asking()
        code = ask(place)
        if code:
            raise self.error(code, "cuCtxGetCurrent")
        context: int = out.value
        return context

    def asking(self) -> tuple[Callable[[object], int], object, ctypes.c_uint64]:
        """What asks for the context of this thread, its argument, and where the answer is.

        Every launch asks: with its argument at hand, and without giving up the interpreter's lock, in a third of the time.
        """
        out = ctypes.c_uint64()
        function = self.function("cuCtxGetCurrent")
        if not isinstance(self.library, ctypes.CDLL):
            return function, ctypes.byref(out), out
        quick = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self.address("cuCtxGetCurrent"))
        return quick, ctypes.addressof(out), out

    def set_context(self, context: int) -> None:
        """Make a context that of this thread."""
        self.call("cuCtxSetCurrent", context)

    def synchronize(self) -> None:
        """Wait for everything in the context of this thread."""
        self.call("cuCtxSynchronize")

    # -- modules and functions ---------------------------------------------------------------------------------------

    def load_module(self, ptx: str) -> tuple[int, str]:
        """Compile PTX; the module, and the compiler's remarks. Raises :class:`DeviceError` with the compiler's errors."""
        size = constants.JIT_TARGET_LOG_BYTES
        info, errors = ctypes.create_string_buffer(size), ctypes.create_string_buffer(size)
        settings = {
            JitOption.INFO_LOG_BUFFER: ctypes.addressof(info),
            JitOption.INFO_LOG_BUFFER_SIZE_BYTES: size,
            JitOption.ERROR_LOG_BUFFER: ctypes.addressof(errors),
            JitOption.ERROR_LOG_BUFFER_SIZE_BYTES: size,
        }
        options = (ctypes.c_int * len(settings))(*settings)
        values = (ctypes.c_void_p * len(settings))(*settings.values())
        module = ctypes.c_uint64()
        text = ptx.encode() + b"\0"
        load = self.function("cuModuleLoadDataEx")
        code = load(ctypes.byref(module), text, len(settings), options, values)
        if code:
            log = errors.value.decode(errors="replace").strip()
            raise self.error(
                code,
                "the driver's compilation of the PTX",
                notes=tuple(log.splitlines()),
                help=f"this driver takes PTX up to {'.'.join(map(str, self.ptx_version))}; build for the architecture "
                "of the device, or report the PTX as a mistake of the code generator",
            )
        return module.value, info.value.decode(errors="replace").strip()

    def unload_module(self, module: int) -> None:
        """Drop a module."""
        self.release("cuModuleUnload", module)

    def get_function(self, module: int, symbol: str) -> int:
        """A kernel of a module."""
        function = ctypes.c_uint64()
        code = self.function("cuModuleGetFunction")(ctypes.byref(function), module, symbol.encode())
        if code:
            raise self.error(code, f"the look-up of kernel {symbol!r} in its module")
        return function.value

    def function_attribute(self, function: int, attribute: FunctionAttribute) -> int:
        """A property of a compiled kernel."""
        return self._int("cuFuncGetAttribute", int(attribute), function)

    def set_function_attribute(self, function: int, attribute: FunctionAttribute, value: int) -> None:
        """Set a property of a compiled kernel."""
        self.call("cuFuncSetAttribute", function, int(attribute), value)

    def blocks_per_multiprocessor(self, function: int, threads: int, dynamic_shared: int) -> int:
        """How many blocks of a kernel are resident on one multiprocessor."""
        return self._int("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, threads, dynamic_shared)

    # -- streams and events ------------------------------------------------------------------------------------------

    def create_stream(self, non_blocking: bool) -> int:
        """A new stream; a non-blocking one does not wait for the default stream."""
        return self._handle("cuStreamCreate", constants.STREAM_NON_BLOCKING if non_blocking else 0)

    def destroy_stream(self, stream: int) -> None:
        """Drop a stream; what it was given still runs."""
        self.release("cuStreamDestroy_v2", stream)

    def synchronize_stream(self, stream: int) -> None:
        """Wait for a stream."""
        self.call("cuStreamSynchronize", stream)

    def stream_wait(self, stream: int, event: int) -> None:
        """Let a stream wait for an event."""
        self.call("cuStreamWaitEvent", stream, event, 0)

    def create_event(self, timing: bool) -> int:
        """A new event, with or without a time."""
        return self._handle("cuEventCreate", 0 if timing else constants.EVENT_DISABLE_TIMING)

    def record_event(self, event: int, stream: int) -> None:
        """Mark the present end of a stream."""
        self.call("cuEventRecord", event, stream)

    def synchronize_event(self, event: int) -> None:
        """Wait for an event."""
        self.call("cuEventSynchronize", event)

    def elapsed_ms(self, start: int, end: int) -> float:
        """The milliseconds between two events."""
        out = _F()
        self.call("cuEventElapsedTime", ctypes.byref(out), start, end)
        return out.value

    def destroy_event(self, event: int) -> None:
        """Drop an event."""
        self.release("cuEventDestroy_v2", event)

    # -- memory ------------------------------------------------------------------------------------------------------

    def allocate(self, size: int) -> int:
        """Device memory, at once."""
        return self._handle("cuMemAlloc_v2", size)

    def free(self, pointer: int) -> None:
        """Give device memory back; waits for what uses it."""
        self.release("cuMemFree_v2", pointer)

    def allocate_async(self, size: int, stream: int) -> int:
        """Device memory from the device's pool, in the order of a stream."""
        return self._handle("cuMemAllocAsync", size, stream)

    def free_async(self, pointer: int, stream: int) -> None:
        """Give device memory back to the pool, in the order of a stream."""
        self.release("cuMemFreeAsync", pointer, stream)

    def keep_pool(self, device: int) -> None:
        """Let the pool of a device keep what it is given back, where nobody has said what it keeps.

        As the driver sets it up, a pool gives all its free memory back to the system whenever somebody waits for a stream,
        and has to ask for it again, in milliseconds.
        """
        pool, kept = self._handle("cuDeviceGetDefaultMemPool", device), ctypes.c_uint64()
        self.call("cuMemPoolGetAttribute", pool, constants.POOL_RELEASE_THRESHOLD, ctypes.byref(kept))
        if not kept.value:
            kept.value = 2**64 - 1
            self.call("cuMemPoolSetAttribute", pool, constants.POOL_RELEASE_THRESHOLD, ctypes.byref(kept))

    def allocate_host(self, size: int) -> int:
        """Host memory that kernels reach by the same address."""
        return self._handle("cuMemHostAlloc", size, constants.HOST_ALLOC_PORTABLE_MAPPED)

    def free_host(self, pointer: int) -> None:
        """Give such host memory back."""
        self.release("cuMemFreeHost", pointer)

    def copy_to_device(self, pointer: int, host: int, size: int, stream: int) -> None:
        """Copy host memory to the device, in the order of a stream; pageable memory is read before this returns."""
        self.call("cuMemcpyHtoDAsync_v2", pointer, host, size, stream)

    def copy_to_host(self, host: int, pointer: int, size: int, stream: int) -> None:
        """Copy device memory to the host, in the order of a stream."""
        self.call("cuMemcpyDtoHAsync_v2", host, pointer, size, stream)

    def copy_on_device(self, target: int, source: int, size: int, stream: int) -> None:
        """Copy within device memory, in the order of a stream."""
        self.call("cuMemcpyDtoDAsync_v2", target, source, size, stream)

    def fill(self, pointer: int, value: int, size: int, stream: int) -> None:
        """Set bytes of device memory, in the order of a stream."""
        self.call("cuMemsetD8Async", pointer, value, size, stream)

    def pointer_device(self, pointer: int) -> int | None:
        """The number of the device whose memory an address is in; None for host memory that no device knows."""
        kind, ordinal = ctypes.c_uint(), ctypes.c_int()
        ask = self.function("cuPointerGetAttribute")
        if ask(ctypes.byref(kind), int(PointerAttribute.MEMORY_TYPE), pointer):
            return None  # an address that the driver never gave out
        if kind.value == constants.MEMORY_TYPE_HOST:
            return None
        self.call("cuPointerGetAttribute", ctypes.byref(ordinal), int(PointerAttribute.DEVICE_ORDINAL), pointer)
        return ordinal.value


def library_name() -> str:
    """The driver's library: the system's, or the one that ``TIRLOWER_LIBCUDA`` names."""
    return os.environ.get(LIBRARY_VARIABLE) or ("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


_OPENING: Final = threading.Lock()


def open_driver() -> Driver:
    """The system's driver, loaded at the first call; one object, whichever threads are the first.

    Raises :class:`DeviceError` when there is no driver, or when it refuses to start or shows no device.
    """
    with _OPENING:
        return _opened()


@functools.lru_cache(maxsize=1)
def _opened() -> Driver:
    name = library_name()
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise DeviceError(
            f"there is no CUDA device here: the driver's library {name} cannot be loaded ({error})",
            origin="driver",
            notes=[f"it is named by {LIBRARY_VARIABLE}"] if os.environ.get(LIBRARY_VARIABLE) else [],
            help=SIMULATE,
        ) from None
    driver = Driver(library)
    if not driver.device_count:
        raise DeviceError("there is no CUDA device here: the driver shows none", origin="driver", help=SIMULATE)
    return driver
