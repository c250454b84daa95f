"""A CUDA driver in Python: device memory is host memory, kernels run in the interpreter.

:class:`FakeCuda` has the functions of libcuda with their C arguments (numbers, addresses, ``ctypes.byref``), so that the
whole launch path runs over it, the machine code of host functions too, which calls it with addresses. Every call is
logged; ``fail`` makes chosen functions refuse, but for the first ``spared`` calls. Work runs as soon as it is given; with a
seed it runs late, in an order that CUDA allows (:mod:`tests.gpu.launch.late`).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.gpu.launch.late import INVALID_HANDLE, Allocation, Device, Event, Work
from tirlower.diagnostics import BoundsError, RuntimeAssertError
from tirlower.driver.gpu_host import host_code
from tirlower.gpu.artifact import DeviceModule, KernelImage, KernelParam, ReportSite
from tirlower.gpu.launch import GpuKernel, device_of, to_device
from tirlower.gpu.launch.driver import Driver
from tirlower.interp.interpreter import Interpreter
from tirlower.interp.memory import Memory, Pointer
from tirlower.ir import Call, Evaluate, Expr, IRModule, Op, PointerType, PrimFunc, Var
from tirlower.ir.functor import pre_order_visit
from tirlower.ir.stmt import Assert, For, ForKind
from tirlower.machine.target import Target
from tirlower.rewrite.scalar_overflow import building
from tirlower.transforms import AnnotateDeviceRegions, LowerDeviceKernelLaunch, SplitHostDevice

INVALID_VALUE, OUT_OF_MEMORY, INVALID_CONTEXT, INVALID_PTX, NOT_FOUND, ILLEGAL_ADDRESS = 1, 2, 201, 218, 500, 700
NAMES = {
    1: b"CUDA_ERROR_INVALID_VALUE", 2: b"CUDA_ERROR_OUT_OF_MEMORY", 201: b"CUDA_ERROR_INVALID_CONTEXT",
    218: b"CUDA_ERROR_INVALID_PTX", 500: b"CUDA_ERROR_NOT_FOUND", 700: b"CUDA_ERROR_ILLEGAL_ADDRESS",
    400: b"CUDA_ERROR_INVALID_HANDLE", 701: b"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
}  # fmt: skip
ATTRIBUTES = {
    1: 1024, 2: 1024, 3: 1024, 4: 64, 5: 2**31 - 1, 6: 65535, 7: 65535, 8: 49152, 10: 32, 16: 132, 39: 2048,
    75: 9, 76: 0, 97: 232448, 115: 1,
}  # fmt: skip


def number(value: Any) -> int:
    """The number in an argument: an int, a c_void_p, or None."""
    return int(getattr(value, "value", value) or 0)


def put(target: Any, value: Any) -> None:
    """Write through a byref argument, or 8 bytes at an address."""
    if isinstance(target, int):
        ctypes.c_uint64.from_address(target).value = value
    else:
        target._obj.value = value


class ThreadContext(threading.local):
    """The context of each thread, as ``["now"]``."""

    def __init__(self) -> None:
        self.now = 0

    def __getitem__(self, name: str) -> int:
        return self.now

    def __setitem__(self, name: str, context: int) -> None:
        self.now = context


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute with a cluster shape: an id, padding to 8 bytes, a union of 64 bytes."""

    _fields_ = [("id", ctypes.c_uint), ("pad", ctypes.c_uint), *[(axis, ctypes.c_uint) for axis in "xyz"], ("rest", ctypes.c_ubyte * 52)]  # fmt: skip


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        *[(f"{kind}_{axis}", ctypes.c_uint) for kind in ("grid", "block") for axis in "xyz"],
        ("shared_bytes", ctypes.c_uint), ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("count", ctypes.c_uint),
    ]  # fmt: skip


def evaluated(expr: Expr, variables: tuple[Var, ...], values: list[Any]) -> Any:
    """The value of an expression by the interpreter."""
    body = Evaluate(Call(Op.get("tir.ret"), (expr,), expr.dtype))
    return Interpreter(PrimFunc(variables, {}, expr.dtype, {"global_symbol": "value"}, body)).call("value", *values)


class FakeCuda:
    """The driver's library. ``modules`` maps PTX texts to the images and functions behind their symbols."""

    def __init__(self, *, devices: int = 1, version: int = 12080, seed: int | None = None) -> None:
        self.devices = devices
        self.late = Device(seed)
        self.allocations: dict[int, Allocation] = {}
        self.version = version
        self.attributes = dict(ATTRIBUTES)
        self.kernels: dict[str, tuple[KernelImage, IRModule]] = {}
        self.log: list[tuple[Any, ...]] = []
        self.fail: dict[str, int] = {}
        self.spared: dict[str, int] = {}
        self.memory: dict[int, Memory] = {}
        self.foreign: set[int] = set()
        self.host: dict[int, Any] = {}
        self.handles = 100
        self.context = ThreadContext()
        self.maps: list[tuple[Any, ...]] = []
        self.dynamic_limit: dict[int, int] = {}
        self.functions: dict[int, str] = {}
        self.module_of: dict[int, int] = {}
        self.modules: dict[int, int] = {}
        self.place: dict[int, int] = {}
        self.kept: dict[int, int] = {}
        self.lost = 0
        self.keep: list[Any] = []
        self.last: list[bytes] = []

    # -- bookkeeping of the fake -------------------------------------------------------------------------------------

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if not name.startswith("cu"):
            return found

        def logged(*args: Any) -> int:
            self.log.append((name, *args))
            if self.spared.get(name, 0):
                self.spared[name] -= 1
                return found(*args) or 0
            code = self.fail.get(name, 0) or (self.lost if name.startswith(("cuMem", "cuLaunch", "cuStreamS")) else 0)
            return code or found(*args) or 0

        return logged

    def calls(self, *names: str) -> list[tuple[Any, ...]]:
        """The logged calls of some functions."""
        return [entry for entry in self.log if entry[0] in names]

    def named(self) -> list[str]:
        """The names of the logged calls."""
        return [entry[0] for entry in self.log]

    def handle(self) -> int:
        self.handles += 1
        return self.handles

    def reserve(self, allocation: Allocation) -> int:
        """The address of new memory."""
        address = allocation.place.address
        self.allocations[address] = allocation
        self.memory[address] = Memory(allocation.place.raw, "device memory", known=True)
        self.place[address] = self.current_device()
        return address

    def touching(self, address: int, what: str) -> Callable[[], None]:
        """What notes an access to the memory at an address as it is now, when it happens."""
        for base, allocation in list(self.allocations.items()):
            if base <= address < base + max(1, allocation.size):
                return lambda: self.late.touch(allocation, what)
        if not address:
            return lambda: None
        raise LookupError(f"{address:#x} is no device memory")

    def give(self, stream: Any, run: Callable[[], None], what: str) -> int:
        """Give work to a stream."""
        return 0 if self.late.give(number(stream), self.context["now"], run, what) is not None else INVALID_HANDLE

    def current_device(self) -> int:
        return max(0, self.context["now"] - 1000)

    def pointer(self, address: int) -> Pointer:
        """The place of an address in the interpreter's terms."""
        for base, memory in list(self.memory.items()):
            if base <= address < base + max(1, memory.size):
                return Pointer(memory, address - base)
        if not address:
            return Pointer(Memory(np.zeros(0, np.uint8), "no memory", known=True))
        raise LookupError(f"{address:#x} is no device memory")

    # -- start, devices, contexts ------------------------------------------------------------------------------------

    def cuInit(self, flags: int) -> int:
        return 0 if self.devices else 100

    def cuDriverGetVersion(self, out: Any) -> None:
        put(out, self.version)

    def cuGetErrorName(self, code: int, out: Any) -> int:
        put(out, NAMES.get(code))
        return 0 if code in NAMES else INVALID_VALUE

    def cuGetErrorString(self, code: int, out: Any) -> int:
        put(out, b"text of " + str(code).encode())
        return 0

    def cuDeviceGetCount(self, out: Any) -> None:
        put(out, self.devices)

    def cuDeviceGet(self, out: Any, ordinal: int) -> None:
        put(out, ordinal)

    def cuDeviceGetName(self, out: Any, size: int, device: int) -> None:
        out.value = b"Fake GPU"

    def cuDeviceGetAttribute(self, out: Any, attribute: int, device: int) -> None:
        put(out, self.attributes[attribute])

    def cuDevicePrimaryCtxRetain(self, out: Any, device: int) -> None:
        put(out, 1000 + device)

    def cuCtxGetCurrent(self, out: Any) -> None:
        put(out, self.context["now"])

    def cuCtxSetCurrent(self, context: int) -> None:
        self.context["now"] = number(context)

    def cuCtxSynchronize(self) -> None:
        self.late.finish_all(self.context["now"])

    # -- modules and functions ---------------------------------------------------------------------------------------

    def cuModuleLoadDataEx(self, out: Any, text: bytes, count: int, options: Any, values: Any) -> int:
        buffers = dict(zip(options, values, strict=True))
        if b"mistake" in text:
            message = b"ptxas application ptx input, line 3; error   : Unknown symbol 'mistake'"
            ctypes.memmove(buffers[5], message + b"\0", len(message) + 1)
            return INVALID_PTX
        message = b"info: compiled"
        ctypes.memmove(buffers[3], message + b"\0", len(message) + 1)
        made = self.handle()
        self.modules[made] = self.context["now"]
        put(out, made)
        return 0

    def cuModuleUnload(self, module: int) -> int:
        return 0 if self.modules.pop(number(module), None) is not None else INVALID_HANDLE

    def cuModuleGetFunction(self, out: Any, module: int, symbol: bytes) -> int:
        if symbol.decode() not in self.kernels:
            return NOT_FOUND
        made = self.handle()
        self.functions[made] = symbol.decode()
        self.module_of[made] = number(module)
        put(out, made)
        return 0

    def cuFuncGetAttribute(self, out: Any, attribute: int, function: int) -> None:
        image = self.kernels[self.functions[function]][0]
        put(out, {0: 512, 1: image.static_shared, 3: 16, 4: 40, 8: 49152}[attribute])

    def cuFuncSetAttribute(self, function: int, attribute: int, value: int) -> None:
        if attribute == 8:
            self.dynamic_limit[function] = value

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, out: Any, function: int, threads: int, shared: int) -> None:
        put(out, 2048 // threads)

    # -- streams and events ------------------------------------------------------------------------------------------

    def cuStreamCreate(self, out: Any, flags: int) -> None:
        put(out, self.late.create(self.handle(), self.context["now"], blocking=not flags))

    def cuStreamDestroy_v2(self, stream: Any) -> int:
        return self.late.destroy(number(stream))

    def cuStreamSynchronize(self, stream: Any) -> int:
        return self.late.synchronize(number(stream), self.context["now"]) or self.lost

    def cuStreamWaitEvent(self, stream: Any, event: Any, flags: int) -> int:
        return self.late.wait(number(stream), number(event), self.context["now"])

    def cuEventCreate(self, out: Any, flags: int) -> None:
        made = self.handle()
        self.late.events[made] = Event(self.context["now"])
        put(out, made)

    def cuEventRecord(self, event: Any, stream: Any) -> int:
        return self.late.record(number(event), number(stream), self.context["now"])

    def cuEventSynchronize(self, event: Any) -> None:
        self.late.finish(self.late.events[number(event)].work)

    def cuEventElapsedTime(self, out: Any, start: int, end: int) -> None:
        put(out, float(end - start))

    def cuEventDestroy_v2(self, event: Any) -> int:
        return 0 if self.late.events.pop(number(event), None) is not None else INVALID_HANDLE

    # -- memory ------------------------------------------------------------------------------------------------------

    def cuMemAlloc_v2(self, out: Any, size: int) -> int:
        if not self.context["now"]:
            return INVALID_CONTEXT
        if size > 1 << 32:
            return OUT_OF_MEMORY
        place = self.late.place(size, self.context["now"])
        self.late.finish(place.freed)
        place.freed, place.owner = None, (made := Allocation(place, size))
        put(out, self.reserve(made))
        return 0

    def cuMemAllocAsync(self, out: Any, size: int, stream: Any) -> int:
        if not self.context["now"]:
            return INVALID_CONTEXT
        if size > 1 << 32:
            return OUT_OF_MEMORY
        made = self.late.allocate(size, number(stream), self.context["now"])
        if made is None:
            return INVALID_HANDLE
        put(out, self.reserve(made))
        return 0

    def cuMemFree_v2(self, pointer: int) -> int:
        if self.memory.pop(pointer, None) is None:
            return INVALID_VALUE
        gone = self.allocations.pop(pointer)
        self.late.touch(gone, "giving back at once")
        gone.place.owner, gone.place.freed = None, Work(None, set(), "free", done=True)
        return 0

    def cuMemFreeAsync(self, pointer: int, stream: Any) -> int:
        memory = self.memory.pop(pointer, None)
        if memory is None:
            return INVALID_VALUE
        allocation = self.allocations.pop(pointer)
        # Once it is given back another thread may be handed it out.
        if not self.late.free(allocation, number(stream), self.context["now"]):
            self.memory[pointer], self.allocations[pointer] = memory, allocation
            return INVALID_HANDLE
        return 0

    def cuDeviceGetDefaultMemPool(self, out: Any, device: int) -> None:
        put(out, 9000 + device)

    def cuMemPoolGetAttribute(self, pool: int, attribute: int, out: Any) -> int:
        put(out, self.kept.get(pool, 0))
        return 0 if attribute == 4 else INVALID_VALUE

    def cuMemPoolSetAttribute(self, pool: int, attribute: int, value: Any) -> int:
        self.kept[pool] = value._obj.value
        return 0 if attribute == 4 else INVALID_VALUE

    def cuMemHostAlloc(self, out: Any, size: int, flags: int) -> None:
        made = ctypes.create_string_buffer(size + 16)
        address = -(-ctypes.addressof(made) // 16) * 16
        self.host[address] = made
        put(out, address)

    def cuMemFreeHost(self, pointer: int) -> None:
        del self.host[pointer]

    def moving(self, what: str, pointers: tuple[int, ...], stream: Any, run: Callable[[], object]) -> int:
        """Give a copy to a stream that reaches these addresses of the device."""
        checks = [self.touching(pointer, what) for pointer in pointers]

        def move() -> None:
            for check in checks:
                check()
            run()

        return self.give(stream, move, what)

    def cuMemcpyHtoDAsync_v2(self, target: int, source: int, size: int, stream: Any) -> int:
        return self.moving("a copy to", (target,), stream, lambda: ctypes.memmove(target, source, size))

    def cuMemcpyDtoHAsync_v2(self, target: int, source: int, size: int, stream: Any) -> int:
        return self.moving("a copy from", (source,), stream, lambda: ctypes.memmove(target, source, size))

    def cuMemcpyDtoDAsync_v2(self, target: int, source: int, size: int, stream: Any) -> int:
        return self.moving("a copy", (target, source), stream, lambda: ctypes.memmove(target, source, size))

    def cuMemsetD8Async(self, pointer: int, value: int, size: int, stream: Any) -> int:
        return self.moving("a fill", (pointer,), stream, lambda: ctypes.memset(pointer, value, size))

    def cuPointerGetAttribute(self, out: Any, attribute: int, pointer: int) -> int:
        for base, memory in list(self.memory.items()):
            if base <= pointer < base + memory.size:
                put(out, 2 if attribute == 2 else self.place[base])
                return 0
        if attribute == 2 and pointer in self.host:
            put(out, 1)
            return 0
        return INVALID_VALUE

    # -- launches ----------------------------------------------------------------------------------------------------

    def cuLaunchKernel(self, function: Any, *rest: Any) -> int:
        *shape, shared, stream, arguments, _extra = rest
        return self.run(number(function), tuple(shape), shared, stream, arguments)

    def arguments_of(self, function: int) -> Any:
        """The addresses of a launch's arguments are so many."""
        image = self.kernels[self.functions[function]][0]
        return ctypes.c_void_p * (len(image.params) + len(image.tensor_maps) + image.reports)

    def cuLaunchKernelEx(self, config: Any, function: Any, arguments: Any, extra: Any) -> int:
        c = LaunchConfig.from_address(config)
        assert c.count == 1 and c.attributes[0].id == 4
        self.log.append(("cluster", c.attributes[0].x, c.attributes[0].y, c.attributes[0].z, c.stream))
        assert not c.attributes[0].pad
        shape = (c.grid_x, c.grid_y, c.grid_z, c.block_x, c.block_y, c.block_z)
        self.log.append(("shape", *shape))
        return self.run(number(function), shape, c.shared_bytes, c.stream, arguments)

    def run(self, function: int, shape: tuple[int, ...], shared: int, stream: Any, arguments: Any) -> int:
        """Launch a kernel: check the launch shape against its loops, read its arguments, interpret it in its turn."""
        if not self.context["now"]:
            return INVALID_CONTEXT
        module_handle = self.module_of[function]
        if self.modules[module_handle] != self.context["now"]:
            return INVALID_HANDLE
        limits = [self.attributes[i] for i in (5, 6, 7, 2, 3, 4)]
        if any(not 0 < n <= most for n, most in zip(shape, limits, strict=True)):
            return INVALID_VALUE
        if shape[3] * shape[4] * shape[5] > 1024 or shared > self.dynamic_limit.get(function, 49152):
            return INVALID_VALUE
        image, module = self.kernels[self.functions[function]]
        arguments = list(self.arguments_of(function).from_address(arguments))
        self.last = [ctypes.string_at(address, 8) for address in arguments[: len(image.params)]]
        func = module[image.symbol]
        values: list[Any] = []
        plain: list[Any] = []
        checks: list[Callable[[], None]] = []
        for param, address in zip(image.params, arguments, strict=False):
            raw = ctypes.string_at(address, 8)
            if param.pointer:
                plain.append(int.from_bytes(raw, "little"))
                values.append(self.pointer(plain[-1]))
                checks.append(self.touching(plain[-1], f"`{image.name}`"))
            else:
                size = param.dtype.numpy.itemsize
                value = np.frombuffer(raw[:size], param.dtype.numpy)[0]
                plain.append(bool(value) if param.dtype.is_bool else value.item() if value.dtype.kind in "iuf" else float(value))  # fmt: skip
                values.append(plain[-1])
        self.check_shape(func, image, plain, shape)
        maps = [ctypes.string_at(arguments[len(image.params) + i], 128) for i in range(len(image.tensor_maps))]
        if maps:
            assert all(arguments[len(image.params) + i] % 64 == 0 for i in range(len(maps)))
            self.log.append(("maps", maps))
        record = 0
        if image.reports:
            record = ctypes.c_uint64.from_address(arguments[len(image.params) + len(image.tensor_maps)]).value

        def execute() -> None:
            for check in checks:
                check()
            if module_handle not in self.modules:
                self.late.faults.append(f"`{image.name}` ran when its module was gone")
            self.interpret(image, module, values, record)

        return self.give(stream, execute, image.name)

    def interpret(self, image: KernelImage, module: IRModule, values: list[Any], record: int) -> None:
        """Run a kernel, with the address of its report where it has one."""
        try:
            Interpreter(module).call(image.symbol, *values)
        except (BoundsError, RuntimeAssertError) as error:
            if not image.reports:
                self.lost = ILLEGAL_ADDRESS
                return
            site = next(i for i, s in enumerate(image.sites) if s.text.split("\n")[0] in str(error))
            for i, word in enumerate((site + 1, 2, 0, 0, 5, 0, 0)):
                ctypes.c_uint32.from_address(record + 4 * i).value = word
            if image.traps:
                self.lost = 719  # CUDA_ERROR_LAUNCH_FAILED, of every call from now on

    @staticmethod
    def check_shape(func: PrimFunc, image: KernelImage, values: list[Any], shape: tuple[int, ...]) -> None:
        """The launch has as many blocks and threads as the kernel's thread loops say."""
        tags = [f"{kind}.{axis}" for kind in ("blockIdx", "threadIdx") for axis in "xyz"]
        wanted = dict.fromkeys(tags, 1)

        def look(op: Any) -> None:
            if isinstance(op, For) and op.kind is ForKind.THREAD_BINDING and op.thread_tag in wanted:
                wanted[str(op.thread_tag)] = evaluated(op.extent, tuple(p.var for p in image.params), values)

        pre_order_visit(func.body, look)
        if not any(tag.startswith("cluster") for tag in image.launch_params):
            assert shape == tuple(wanted[tag] for tag in tags), (shape, wanted)

    def cuTensorMapEncodeTiled(
        self, target: int, kind: int, rank: int, base: int, dims: Any, strides: Any, box: Any, steps: Any, *modes: int
    ) -> int:
        if base % 16 or target % 64:
            return INVALID_VALUE
        wide, narrow = ctypes.c_uint64 * rank, ctypes.c_uint32 * rank
        given = (
            wide.from_address(dims),
            wide.from_address(strides),
            narrow.from_address(box),
            narrow.from_address(steps),
        )
        dims, strides, box, steps = map(list, given)
        self.maps.append((kind, rank, base, dims, strides[: rank - 1], box, steps, modes))
        ctypes.memset(target, len(self.maps), 128)
        return 0


# -- building without a code generator ---------------------------------------------------------------------------------

CUDA = Target("cuda", host="llvm")


def split(func: PrimFunc | IRModule) -> IRModule:
    """A program as host code and kernels."""
    if isinstance(func, PrimFunc):
        func = IRModule({"main": func.with_attr({"target": CUDA, "global_symbol": func.name})})
    with building(func):  # the kernels are told which of their parameters are data
        return LowerDeviceKernelLaunch()(SplitHostDevice()(AnnotateDeviceRegions()(func)))


def device_module(lowered: IRModule, **changes: Any) -> DeviceModule:
    """What code generation would hand over for the kernels of a module (PTX apart)."""
    images = {}
    for name, func in lowered.items():
        if "tir.kernel_launch_params" not in func.attrs:
            continue
        params = tuple(
            KernelParam(p, p.type.element, pointer=True) if isinstance(p.type, PointerType) else KernelParam(p, p.dtype)
            for p in func.params
        )
        launch = tuple(func.attrs["tir.kernel_launch_params"])
        dynamic = "tir.use_dyn_shared_memory" in launch
        fields = {"launch_params": launch, "dynamic_shared": dynamic, **changes}
        images[name] = KernelImage(name, name, params, **fields)
    text = ".version 8.0\n.target sm_90\n" + "\n".join(f".visible .entry {name}()" for name in images)
    return DeviceModule(text, "; llvm", "sm_90", images)


def report_sites(func: PrimFunc) -> tuple[ReportSite, ...]:
    """The assertions of a kernel as sites of its report."""
    found: list[ReportSite] = []
    pre_order_visit(func.body, lambda op: found.append(ReportSite("assert", op.message.value)) if isinstance(op, Assert) else None)  # fmt: skip
    return tuple(found)


def fake_kernel(
    func: PrimFunc | IRModule,
    cuda: FakeCuda | None = None,
    *,
    change: Callable[[DeviceModule], DeviceModule] | None = None,
    outputs: tuple[str, ...] = (),
    host: str = "main",
    **changes: Any,
) -> tuple[GpuKernel, FakeCuda]:
    """A kernel over a fake driver, and the driver's library."""
    cuda = FakeCuda() if cuda is None else cuda
    lowered = split(func)
    module = device_module(lowered, **changes)
    if change is not None:
        module = change(module)
    cuda.kernels.update({name: (image, lowered) for name, image in module.kernels.items()})
    given = func if isinstance(func, PrimFunc) else func["main"]
    code = host_code(lowered, host, module)
    made = GpuKernel(given, lowered, code, module, outputs=outputs, driver=driver_of(cuda))
    return made, cuda


_DRIVERS: dict[int, Driver] = {}


def driver_of(cuda: FakeCuda) -> Driver:
    """The driver of a fake library; one for each."""
    made = _DRIVERS.get(id(cuda))
    if made is None or made.library is not cuda:
        made = _DRIVERS[id(cuda)] = Driver(cuda)
    return made


def on(cuda: FakeCuda, *arrays: Any) -> list[Any]:
    """NumPy arrays copied to the device of a fake."""
    device = device_of(0, driver_of(cuda))
    return [to_device(np.asarray(a), device=device) for a in arrays]
