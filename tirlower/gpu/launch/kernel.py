"""What a build for a GPU gives: a callable like any other, on arrays in device memory."""

from __future__ import annotations

import functools
import struct
import threading
from collections.abc import Hashable, Iterable, Sequence
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Final, cast

from tirlower.call.extents import Extent
from tirlower.call.parameters import apart
from tirlower.call.scalars import returned_value
from tirlower.call.signature import BufferParam, Param, ScalarParam, Signature, extents_of
from tirlower.call.views import NotAnArray, Result
from tirlower.diagnostics import DeviceError, LoweringError, TirError
from tirlower.gpu.artifact import DeviceModule, HostCode
from tirlower.gpu.launch.array import DeviceArray, received
from tirlower.gpu.launch.constants import DeviceAttribute
from tirlower.gpu.launch.device import Device, device_of
from tirlower.gpu.launch.driver import Driver, open_driver
from tirlower.gpu.launch.host_function import HostFunction, launches_of
from tirlower.gpu.launch.loaded_module import LoadedModule
from tirlower.gpu.launch.native import NativeCalls, NativelyCalled, give_natively, native_class, takes_native_calls
from tirlower.gpu.launch.plan import Plan, Planner, allocated_slots
from tirlower.gpu.launch.report import WARP, GpuReport, make_report
from tirlower.gpu.launch.signature import device_signature
from tirlower.gpu.launch.stream import Stream, stream_on
from tirlower.gpu.launch.views import Reader, reader_of
from tirlower.ir.citizens import FunctionLike
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Var
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.machine.target import Target

__all__ = ["GpuKernel"]

_MOST_PLANS: Final = 4096


class GpuKernel(FunctionLike, NativelyCalled):
    """A function compiled for a GPU: call it with arrays in device memory and scalars.

    Arrays are those of ``tl.gpu`` (``to_device``, ``empty``), CuPy, PyTorch, and anything with
    ``__cuda_array_interface__`` or ``__dlpack__`` on a CUDA device, in the order of the parameters or by name. Nothing is
    copied, results are written in place; the arrays named in ``outputs`` are allocated and returned. A call checks its
    arguments, launches, and returns: the work is in the order of ``stream``, by default that on which the library of the
    first array that is not ours works, else the default stream. It waits for what is pending on the arrays in other streams.

    A call raises :class:`ArgumentError` before anything runs, and :class:`DeviceError` without a device or where the driver
    refuses. What a kernel's own checks find is raised by the call where the kernel has such checks; it waits for them.

    ``func`` is the function as it was given, ``lowered`` the module after the passes, ``host`` its host function's machine
    code, ``module`` the compiled kernels. ``written`` are the data variables of the buffers
    of ``func`` that are written, where its own body does not say. ``in_place`` has the positions of pairs of parameters
    that may be one array; others share no memory where one of them is written. The driver is loaded at the first call.
    """

    if TYPE_CHECKING:

        def __call__(self, /, *args: object, **kwargs: object) -> Result:
            """``kernel(*arrays and scalars, stream=None)``: each kernel has a class of its own, with its call written out."""

    def __init__(
        self,
        func: PrimFunc,
        lowered: IRModule,
        host: HostCode,
        module: DeviceModule,
        *,
        outputs: Sequence[str] = (),
        written: set[Var] | None = None,
        target: Target | None = None,
        driver: Driver | None = None,
        in_place: Iterable[tuple[int, int]] = (),
    ) -> None:
        self.func = func
        self.named(func, func.name)
        self.lowered = lowered
        self.target = target
        self.module = module
        signature, _ = device_signature(func, outputs, written)
        self.signature = apart(signature, in_place)
        self.host = host
        self._host = host.func
        own, _ = device_signature(self._host)
        self._driver = driver
        self._lock = threading.Lock()
        self._loaded: dict[Device, LoadedModule] = {}
        self._bound: dict[Device, HostFunction] = {}
        self._planner = Planner(self.signature, _places(self.signature, own), self._device, self._bind)
        self._plans: dict[Hashable, Plan] = {}
        self._readers: dict[type, Reader] = {}
        self._inputs = self.signature.inputs
        self._class = type(self)
        self._call = self._compiled(own)
        self._native: NativeCalls | None = None
        self._symbols = len(own.symbols) + 1 + len(allocated_slots(self.signature))
        # Python looks for the code of a call on the class. One written for the parameters takes them as they come, which
        # is a quarter faster than one that packs and unpacks them.
        self.__class__ = type(self._class.__name__, (self._class,), {"__call__": self._call})

    # -- calls -------------------------------------------------------------------------------------------------------

    def _compiled(self, own: Signature) -> FunctionType:
        """The call as a Python function written for the parameters; ``own`` is the host function's signature."""
        layout = struct.Struct(_layout(self.signature, own))
        self._slots = layout.size // 8 if self.signature.outputs else 0
        scope: dict[str, object] = {
            "readers": self._readers,
            "find": self._find,
            "NotAnArray": NotAnArray,
            "plans": self._plans,
            "prepare": self._prepare,
            "recheck": self._recheck,
            "stream_on": stream_on,
            "Stream": Stream,
            "DeviceArray": DeviceArray,
            "received": received,
            "pack": layout.pack,
            "pack_into": layout.pack_into,
            "arranged": self._planner.arrange,
            "missing": object(),
        }
        exec(compile(self.call_source(scope), f"<call of {self.name}>", "exec"), scope)
        return cast("FunctionType", scope["call"])

    def call_source(self, scope: dict[str, object]) -> str:
        """The source of the call; what it refers to is put into ``scope``."""
        sig = self.signature
        shaping = sig.shaping
        values = [f"v{i}" for i in range(len(self._inputs))]
        names: dict[str, str] = {}
        reads: list[str] = []
        scalars, key, pointers, users = [], [], [], []
        for i, param in enumerate(self._inputs):
            if isinstance(param, ScalarParam):
                names[param.name] = f"s{i}"
                scope[f"take{i}"] = functools.partial(self._taken, param)
                scalars.append(f"    s{i} = {_quick(DataType(param.dtype), f'v{i}', f'take{i}')}")
                key += [f"s{i}"] if param in shaping else []
            else:
                names[param.name] = f"p{i}"
                other = f"(readers.get(v{i}.__class__) or find(v{i}))(v{i})"
                reads += [
                    f"        if v{i}.__class__ is DeviceArray:",
                    f"            p{i} = v{i}.pointer",
                    f"            f{i} = v{i}.facts",
                    f"            u{i} = v{i}.users",
                    "        else:",
                    f"            p{i}, f{i} = {other}",
                    f"            u{i} = None",
                ]
                users.append(f"u{i}")
                key.append(f"f{i}")
                pointers.append(f"p{i}")
        given = f"({', '.join(values)},)" if values else "()"
        taken = f"({', '.join(names[p.name] for p in shaping)},)" if shaping else "()"
        defaults = "".join([f"{value}=missing, " for value in values]) + ("/, " if values else "")
        lines = [f"def call(self, {defaults}*more, stream=None, **named):"]
        if values:
            lines += [
                f"    if {values[-1]} is missing or more or named:",
                f"        {given} = arranged([v for v in {given} if v is not missing] + list(more), named)",
            ]
        else:
            lines += ["    if more or named:", "        arranged(more, named)"]
        lines += scalars
        if reads:
            lines += [
                "    try:",
                *reads,
                "    except NotAnArray:",
                f"        prepare(None, {given}, {taken})",
                "        raise",
            ]
        lines += [
            f"    key = ({', '.join(key)},)" if key else "    key = ()",
            "    plan = plans.get(key)",
            "    if plan is None:",
            f"        plan = prepare(key, {given}, {taken})",
        ]
        together = f"({', '.join(pointers)},)" if pointers else "()"
        if pointers:
            lines += [
                f"    if {together} not in plan.known:",
                f"        plan = recheck(plan, key, {given}, {taken}, {together})",
            ]
        lines += [
            "    if stream is None:",
            "        on = plan.chosen() if plan.sources else plan.default",
            "        waits = plan.others",
            "    else:",
            "        on = stream if stream.__class__ is Stream else stream_on(plan.device, stream)",
            "        waits = plan.sources",
            "    if waits:",
            "        plan.wait(on, waits)",
        ]
        if pointers:
            arrays = ", ".join(f"v{i}" for i, param in enumerate(self._inputs) if isinstance(param, BufferParam))
            lines += [
                f"    found = (on, {', '.join(users)})",
                "    if plan.ordered != found:",
                f"        plan.order(on, found, ({arrays},))",
            ]
        slots = allocated_slots(sig)
        by_name = {param.name: i for i, param in enumerate(sig.params)}
        for i, name in enumerate(sig.outputs):
            # The machine code puts the address of an output where its bytes were.
            names[name] = f"plan.outputs[{i}].nbytes"
            if by_name[name] not in slots:
                lines.append(f"    o{i} = DeviceArray(plan.device, plan.outputs[{i}].shape, dtype{i}, on)")
                scope[f"dtype{i}"] = DataType(sig.params[by_name[name]].dtype)
                names[name] = f"o{i}.pointer"
        args, place = [], 0
        for param in sig.params:
            text = names[param.name]
            if isinstance(param, BufferParam):
                text += f" - plan.offsets[{place}]" if param.elem_offset != 0 else ""
                place += 1
            args.append(text)
        packed = f"{', '.join([*args, 'host.table', 'on.handle', 'memory.scratch'])}, *plan.symbols"
        lines += [
            "    host = plan.host",
            "    try:",
            "        memory = host.pool.pop()",
            "    except IndexError:",
            "        memory = host.memory()",
        ]
        if slots:
            lines += [f"    pack_into(memory.words, 0, {packed})", "    slots = memory.slots"]
        else:
            lines.append(f"    slots = pack({packed})")
        lines.append("    error = host.failure(memory) if host.run(slots, memory.record, memory.result) else None")
        lines += [
            f"    o{i} = received(plan.outputs[{i}], on, memory.words[{by_name[name]}])"
            for i, name in enumerate(sig.outputs)
            if by_name[name] in slots
        ]
        if self.host.returns is not None:
            scope["returned"] = functools.partial(returned_value, self.host.returns)
            lines.append("    result = returned(memory.returned.value)")
        lines += [
            "    host.pool.append(memory)",
            "    if error is not None:",
            "        raise error",
            "    if waits and stream is None:",
            "        plan.publish(on)",
        ]
        lines += [
            "    if self._native is not None:",
            f"        self._native.learn(plan, key, {given}, {together}, on if stream is None else None)",
        ]
        made = [f"o{i}" for i in range(len(sig.outputs))]
        if made or self.host.returns is not None:
            lines.append(f"    return {', '.join(made) or 'result'}")
        return "\n".join(lines) + "\n"

    def _taken(self, param: ScalarParam, value: object) -> int | float:
        bits, number = self._planner.scalar(param, value)
        return bits if _packed(param) == "Q" else number

    def _find(self, value: object) -> Reader:
        reader = reader_of(value)
        self._readers[type(value)] = reader
        return reader

    def _prepare(self, key: Hashable, values: Sequence[object], scalars: Sequence[float]) -> Plan:
        """The plan of a call with new facts. Raises what is wrong with its arguments."""
        given = {p.name: v for p, v in zip(self._inputs, values, strict=True) if isinstance(p, BufferParam)}
        env = {p.name: v for p, v in zip(self.signature.shaping, scalars, strict=True)}
        plan = self._planner.prepare(given, env)
        if len(self._plans) >= _MOST_PLANS:
            self._plans.pop(next(iter(self._plans)), None)
        self._plans[key] = plan
        return plan

    def _recheck(
        self, plan: Plan, key: Hashable, values: Sequence[object], scalars: Sequence[float], pointers: tuple[int, ...]
    ) -> Plan:
        """Check addresses that are new to a plan; another plan, where they are on another device."""
        if self._planner.accepts(plan, pointers):
            return plan
        plan = self._prepare(key, values, scalars)
        self._planner.accepts(plan, pointers)
        return plan

    # -- devices -----------------------------------------------------------------------------------------------------

    def _device(self, ordinal: int) -> Device:
        if self._driver is None:
            try:
                self._driver = open_driver()
            except DeviceError as error:
                raise DeviceError(
                    f"`{self.name}` cannot be called: {error.message}",
                    origin="call",
                    notes=error.notes,
                    help=error.help,
                ) from None
        return device_of(ordinal, self._driver)

    def load(self, ordinal: int = 0) -> LoadedModule:
        """The kernels on a device: compiled at the first call for it, or here.

        Raises :class:`DeviceError` without a device, and where the driver refuses the PTX.
        """
        device = self._device(ordinal)
        with self._lock:
            found = self._loaded.get(device)
            if found is None:
                found = self._loaded[device] = LoadedModule(device, self.module)
            return found

    def _bind(self, device: Device) -> HostFunction:
        loaded = self.load(device.ordinal)
        with self._lock:
            bound = self._bound.get(device)
            if bound is None:
                bound = self._bound[device] = loaded.bind(self.host, self._slots)
                give_natively(device, bound)
                if len(self._bound) == 1 and takes_native_calls(self.signature, self._symbols, self.host.returns):
                    self._go_native(bound.native)
            return bound

    def _go_native(self, code: int) -> None:
        """Let Python call machine code from now on, which leaves to the call in Python what it does not know."""
        if code:
            slow = MethodType(self._call, self)
            self._native = NativeCalls(self.signature, self._planner, self._symbols, slow)
            self._native.enter(self, code)
            self.__class__ = native_class(self._class)

    # -- what it is --------------------------------------------------------------------------------------------------

    def report(self, ordinal: int = 0) -> GpuReport:
        """The kernels, and where there is a device their registers, memory and occupancy on it."""
        try:
            loaded = self.load(ordinal)
        except DeviceError:
            if self._driver is not None:
                raise  # there is a driver: what it refuses is worth an error
            return make_report(self.module, self._host, None, 0)
        warps = loaded.device.attribute(DeviceAttribute.MAX_THREADS_PER_MULTIPROCESSOR) // WARP
        return make_report(self.module, self._host, loaded, warps)

    def occupancy(self, kernel: str, threads: int, dynamic_shared: int = 0, ordinal: int = 0) -> int:
        """How many blocks of a kernel one multiprocessor holds, for a block size and bytes of dynamic shared memory."""
        if kernel not in self.module.kernels:
            raise TirError(f"no kernel {kernel!r}", help=f"there are {', '.join(self.module.kernels)}")
        return self.load(ordinal).blocks_per_multiprocessor(kernel, threads, dynamic_shared)

    @property
    def kernels(self) -> tuple[str, ...]:
        """The symbols of the kernels that a call launches, in the order in which they stand in the host code."""
        return tuple(launches_of(self._host))

    def __repr__(self) -> str:
        return f"<tirlower.GpuKernel {self.call_text} for {self.target or self.module.arch}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a kernel belongs to the devices of this process; pickle the PrimFunc and build it there")


def _quick(dtype: DataType, value: str, take: str) -> str:
    """The conversion of a scalar, without a call where Python's own type and range already fit."""
    if dtype.is_int or dtype.is_uint:
        low, high = int(dtype.min_value), int(dtype.max_value)
        return f"{value} if {value}.__class__ is int and {low} <= {value} <= {high} else {take}({value})"
    if dtype == "float64":
        return f"{value} if {value}.__class__ is float else {take}({value})"
    return f"{take}({value})"


def _packed(param: Param) -> str:
    """How a parameter is packed into 64 bits: as its number, or as the bits of it."""
    dtype = None if isinstance(param, BufferParam) else DataType(param.dtype)
    return "d" if dtype == "float64" else "q" if dtype is not None and dtype.is_int else "Q"


def _layout(signature: Signature, host: Signature) -> str:
    """The slots that a host function takes: the parameters, the table, the stream, the call's memory, the symbols, and how
    many outputs it allocates, with the slot of each.
    """
    behind = len(host.symbols) + 1 + len(allocated_slots(signature))
    return "".join([*map(_packed, signature.params), "QQQ", "q" * behind])


def _places(signature: Signature, host: Signature) -> tuple[Extent, ...]:
    """Where the symbols of the host function get their values, in the signature of the function as it was given."""
    if len(signature.params) != len(host.params):
        raise LoweringError(
            f"`{signature.name}` has {len(signature.params)} parameters, and its host function {len(host.params)}",
            origin="launch",
            help="leave out passes that change the parameters of the host function, such as MakePackedAPI",
        )
    sites = {site.symbol: site for site in host.sites}
    given = {own.name: param for own, param in zip(host.params, signature.params, strict=True)}
    found = []
    for site in (sites[symbol] for symbol in host.symbols):
        param = given[site.param]
        extents = extents_of(param) if isinstance(param, BufferParam) else []
        found += [extent for what, axis, extent in extents if (what, axis) == (site.what, site.axis)]
    return tuple(found)
