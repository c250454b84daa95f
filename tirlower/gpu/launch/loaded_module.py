"""A module of kernels on a device: compiled by its driver, with the launchers of its kernels and its constants."""

from __future__ import annotations

from tirlower.diagnostics import DeviceError
from tirlower.gpu.artifact import DeviceModule, HostCode
from tirlower.gpu.launch.constants import FunctionAttribute
from tirlower.gpu.launch.device import Device
from tirlower.gpu.launch.host_function import HostFunction
from tirlower.gpu.launch.launcher import Launcher
from tirlower.ir.dtype import Array

__all__ = ["LoadedModule"]


class LoadedModule:
    """The kernels of a module on one device; ``log`` is what the driver's compiler remarked.

    Raises :class:`DeviceError` where the driver refuses the PTX, with the compiler's messages, and where the module was
    built for another architecture than the device's.
    """

    def __init__(self, device: Device, module: DeviceModule) -> None:
        self.device = device
        self.module = module
        before = device.enter()
        try:
            try:
                self.handle, self.log = device.driver.load_module(module.ptx)
            except DeviceError as error:
                error.notes.insert(0, f"the module is for {module.arch}; device {device.ordinal} is {device!r}")
                raise
            self.launchers = {symbol: Launcher(device, self.handle, k) for symbol, k in module.kernels.items()}
        finally:
            device.leave(before)
        self._constants: list[int] = []

    def bind(self, code: HostCode, slots: int = 0) -> HostFunction:
        """A host function on this device; ``slots`` as :class:`HostFunction` has them."""
        before = self.device.enter()
        try:
            return HostFunction(code, self, slots)
        finally:
            self.device.leave(before)

    def upload(self, array: Array) -> int:
        """The address of a constant in the device's memory."""
        pointer = self.device.allocate(array.nbytes, 0)
        if array.nbytes:
            self._constants.append(pointer)
            self.device.driver.copy_to_device(pointer, array.ctypes.data, array.nbytes, 0)
            self.device.driver.synchronize_stream(0)
        return pointer

    def blocks_per_multiprocessor(self, symbol: str, threads: int, dynamic_shared: int) -> int:
        """How many blocks of a kernel one multiprocessor holds."""
        before = self.device.enter()
        try:
            function = self.launchers[symbol].function
            return self.device.driver.blocks_per_multiprocessor(function, threads, dynamic_shared)
        finally:
            self.device.leave(before)

    def resources(self, symbol: str) -> tuple[int, int, int, int]:
        """Registers a thread, bytes of local and of static shared memory, and the most threads of a block."""
        kinds = (
            FunctionAttribute.NUM_REGS,
            FunctionAttribute.LOCAL_SIZE_BYTES,
            FunctionAttribute.SHARED_SIZE_BYTES,
            FunctionAttribute.MAX_THREADS_PER_BLOCK,
        )
        launcher = self.launchers[symbol]
        registers, local, shared, threads = (launcher.attribute(kind) for kind in kinds)
        return registers, local, shared, threads

    def __del__(self) -> None:
        if not hasattr(self, "handle"):
            return
        before = self.device.enter()
        try:
            # What was launched may still run, in any stream.
            self.device.driver.synchronize()
            for pointer in getattr(self, "_constants", ()):
                self.device.free(pointer, 0)
            self.device.driver.unload_module(self.handle)
        except DeviceError:
            pass  # the context is lost, and the module with it: who launched was told
        finally:
            self.device.leave(before)
