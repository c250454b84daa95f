"""A host function on a device: its machine code with the driver's functions, the memory of its calls, and their errors."""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, Final

from tirlower.call.errors import MAX_ERROR_VALUES, ErrorRecord
from tirlower.call.slowpath import PackedKernel
from tirlower.gpu.artifact import NO_OUTPUT, REPORT_WORDS, SCRATCH_REPORT, HostCode, Service
from tirlower.ir.expr import Call, Expr, StringImm
from tirlower.ir.func import PrimFunc
from tirlower.ir.op import Op
from tirlower.ir.query import each

if TYPE_CHECKING:
    from tirlower.gpu.launch.loaded_module import LoadedModule

__all__ = ["HostFunction", "launches_of"]

_PACKED: Final = Op.get("tir.tvm_call_packed")


def launches_of(func: PrimFunc) -> dict[str, list[tuple[Expr, ...]]]:
    """The kernels that a host function launches by symbol, with the arguments of each call."""
    found: dict[str, list[tuple[Expr, ...]]] = {}
    for op in each(Call, func.body):
        if op.op is _PACKED and isinstance(op.args[0], StringImm):
            found.setdefault(op.args[0].value, []).append(op.args[1:])
    return found


class CallMemory:
    """What a call has for itself while it runs: the record of its error, its result, tensor maps, the kernels' report.

    ``record``, ``result`` and ``scratch`` are addresses; ``words`` at ``slots`` are the arguments of a call with outputs.
    """

    __slots__ = ("_buffer", "_free", "error", "record", "report", "result", "returned", "scratch", "slots", "words")

    def __init__(self, function: HostFunction) -> None:
        self.report = 0
        code, driver = function.code, function.loaded.device.driver
        self.error = ErrorRecord()
        self.record = ctypes.addressof(self.error)
        self.returned = ctypes.c_uint64(0)
        self.result = ctypes.addressof(self.returned)
        self.words = (ctypes.c_uint64 * function.slots)()
        self.slots = ctypes.addressof(self.words)
        self._buffer = ctypes.create_string_buffer(code.scratch + 64)
        self.scratch = ctypes.addressof(self._buffer)
        self.scratch += -self.scratch % 64
        if code.reports:
            self.report = driver.allocate_host(4 * REPORT_WORDS)
            self._free = functools.partial(driver.free_host, self.report)
            self.clear()
            ctypes.c_uint64.from_address(self.scratch + SCRATCH_REPORT).value = self.report

    def clear(self) -> None:
        """Forget what a thread reported."""
        if self.report:
            ctypes.memset(self.report, 0, 4 * REPORT_WORDS)

    def __del__(self) -> None:
        if self.report:
            self._free()


class HostFunction:
    """A host function on a device.

    ``slots`` is how many words the arguments of a call are where it allocates outputs, else 0. ``run(slots, record, result)`` calls the machine code in the device's
    context, ``table`` is the address of the driver's functions; ``call`` is that of the machine code, ``native``
    and ``native_give`` as :class:`~tirlower.gpu.artifact.HostEntry` has them; ``pool`` keeps the memory of calls that are over, because calls run at once where the machine code gives up the interpreter's lock.
    """

    def __init__(self, code: HostCode, loaded: LoadedModule, slots: int = 0) -> None:
        self.code = code
        self.slots = slots
        self.loaded = loaded
        entry = code.link()
        self.call, self.native, self.native_give = entry.call, entry.native, entry.native_give
        self.packed = PackedKernel(entry.call, code.errors, entry.owner)
        self.run = self.packed.releasing
        driver, device = loaded.device.driver, loaded.device
        # in the order of the services
        names = {
            Service.LAUNCH: "cuLaunchKernel",
            Service.LAUNCH_CLUSTERS: "cuLaunchKernelEx",
            # Those of devices without a pool take no stream: C leaves an argument more unread.
            Service.ALLOCATE: "cuMemAllocAsync" if device.pooled else "cuMemAlloc_v2",
            Service.FREE: "cuMemFreeAsync" if device.pooled else "cuMemFree_v2",
            Service.ENCODE_MAP: "cuTensorMapEncodeTiled",
            Service.SYNCHRONIZE: "cuStreamSynchronize",
            Service.GET_CONTEXT: "cuCtxGetCurrent",
            Service.SET_CONTEXT: "cuCtxSetCurrent",
            Service.RECORD: "cuEventRecord",
            Service.WAIT: "cuStreamWaitEvent",
        }
        needed = {*code.services, Service.GET_CONTEXT, Service.SET_CONTEXT, *([Service.ALLOCATE] if slots else [])}
        if not device.quick:
            common = (Service.FREE, Service.GET_CONTEXT, Service.SET_CONTEXT, Service.RECORD, Service.WAIT)
            words = [driver.address(name) if service in common else 0 for service, name in names.items()]
            device.quicken(entry, [*words, device.context])
        words = [driver.address(name) if service in needed else 0 for service, name in names.items()]
        words.append(device.context)
        words += [launcher.function for launcher in loaded.launchers.values()]
        words += [loaded.upload(array) for array in code.constants]
        self._words = (ctypes.c_uint64 * len(words))(*words)
        self.table = ctypes.addressof(self._words)
        self.pool: list[CallMemory] = []

    def memory(self) -> CallMemory:
        """Memory for a call where the pool has none."""
        device = self.loaded.device
        before = device.enter()
        try:
            return CallMemory(self)
        finally:
            device.leave(before)

    def failure(self, memory: CallMemory) -> Exception:
        """The exception of a call that failed; the memory is free for another call then."""
        device = self.loaded.device
        before = device.enter()  # the driver is asked for more
        try:
            return self._failure(memory)
        finally:
            device.leave(before)

    def _failure(self, memory: CallMemory) -> Exception:
        record = memory.error
        failure = self.code.failures.get(record.code)
        values: list[int] = list(record.vals[: min(max(record.nvals, 0), MAX_ERROR_VALUES)])
        memory.clear()
        device = self.loaded.device
        raised = device.driver.raised()
        if raised is not None:
            return raised
        if record.code == NO_OUTPUT:
            return device.refused(values[0], values[1])
        if failure is None:
            return self.packed.failure(record, self.code.func.name)
        if failure.kind == "allocate":
            return device.refused(values[0], values[1])
        if failure.kind == "free":
            return device.driver.error(values[0], "giving device memory back")
        return self.loaded.launchers[failure.kernel].error(failure, values)
