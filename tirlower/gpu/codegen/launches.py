"""What a host function does with a device, as calls of the driver: launches, tensor maps, memory in the order of a stream.

The functions of the driver, the kernels and the constants stand in a table that the function is given (see
:class:`~tirlower.gpu.artifact.Service`), so that one machine code serves every device. Where the driver refuses, the
function fails with a :class:`~tirlower.gpu.artifact.Failure`, whose message is written by those who know the device.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from tirlower.diagnostics import CodegenError, DeviceError
from tirlower.emit.emitter import Emitter
from tirlower.emit.expressions import Run, extend
from tirlower.emit.llvm_text import I1, I8, I32, I64, PTR, Value, const, const_array, null, struct
from tirlower.emit.memory import to_memory
from tirlower.emit.sizes import size_of
from tirlower.gpu.artifact import (
    MAP_KEY,
    MAP_MADE,
    MAP_SLOT,
    REPORT_WORDS,
    SCRATCH_MAPS,
    SCRATCH_REPORT,
    DeviceModule,
    Failure,
    FailureKind,
    KernelImage,
    Service,
    TensorMapSpec,
)
from tirlower.gpu.codegen.host_function import SCRATCH, STREAM, TABLE, device_memory
from tirlower.gpu.launch import constants
from tirlower.ir.custom_datatype import element_numpy
from tirlower.ir.data import data_parameters, gives_data
from tirlower.ir.dtype import Array
from tirlower.ir.expr import Call, Expr, StringImm
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import substitute
from tirlower.ir.query import nodes
from tirlower.ir.stmt import AllocBuffer, AllocConst, Bind

__all__ = ["HostLaunches"]

DYNAMIC_SHARED: Final = "tir.use_dyn_shared_memory"
_GRID: Final = tuple(f"blockIdx.{axis}" for axis in "xyz")
_BLOCK: Final = tuple(f"threadIdx.{axis}" for axis in "xyz")
_CLUSTERS: Final = tuple(f"clusterIdx.{axis}" for axis in "xyz")
_IN_CLUSTER: Final = tuple(f"clusterCtaIdx.{axis}" for axis in "xyz")
_LAUNCH_NAMES: Final = {*_GRID, *_BLOCK, *_CLUSTERS, *_IN_CLUSTER, DYNAMIC_SHARED}

_MOST: Final = (1 << 31) - 1
_CONFIG: Final = 56
"""sizeof(CUlaunchConfig): seven numbers, the stream at 32, the attributes at 40, their count at 48."""
_ATTRIBUTE: Final = 72
"""sizeof(CUlaunchAttribute): an id, and a union at 8."""
_L2_PROMOTION_256B: Final = 3
_PAIR: Final = struct(I64, I1)


class HostLaunches:
    """The calls of the driver in one host function; what they need of the table and of the call's memory is counted here."""

    def __init__(self, func: PrimFunc, module: DeviceModule) -> None:
        self.module = module
        self.on_device: Final = device_memory(func)
        self.failures: dict[int, Failure] = {}
        self.services: set[Service] = set()
        self.constants: list[Array] = []
        self.maps = 0
        self.reports = False
        self._places = {symbol: len(Service) + i for i, symbol in enumerate(module.kernels)}
        #: whose arithmetic wraps, so that an extent which has them is what it wraps to
        self._data = set(data_parameters(func))
        for op in nodes(func.body):
            if isinstance(op, Bind) and self._is_data(op.value):
                self._data.add(op.var)

    @property
    def scratch(self) -> int:
        """The bytes of memory that each call needs for itself."""
        return SCRATCH_MAPS + MAP_SLOT * self.maps if self.maps or self.reports else 0

    def _is_data(self, expr: Expr) -> bool:
        return any(op in self._data or gives_data(op) for op in nodes(expr))

    # -- pieces ------------------------------------------------------------------------------------------------------

    def _entry(self, em: Emitter, place: int) -> Value:
        """An address of the table."""
        return em.b.load(PTR, em.b.gep(PTR, em.lookup(TABLE).value, place), 8)

    def _call(self, em: Emitter, service: Service, args: Sequence[Value]) -> Value:
        """A call of the driver; its result."""
        self.services.add(service)
        return em.b.call_pointer(self._entry(em, service), I32, args, attrs=["nounwind"])

    def _fail_if(
        self, em: Emitter, bad: Value, values: Sequence[Value], kind: FailureKind, kernel: str = "", number: int = 0
    ) -> None:
        failure = Failure(kind, kernel, number)
        # The text tells the failures apart: nobody sees it.
        code = em.state.errors.code(DeviceError, f"{failure}")
        self.failures[code] = failure
        em.fail_if(bad, code, values)

    def _refused(
        self, em: Emitter, status: Value, values: Sequence[Value], kind: FailureKind, kernel: str = "", number: int = 0
    ) -> None:
        bad = em.b.icmp("ne", status, em.b.i32(0))
        self._fail_if(em, bad, [em.b.sext(status, I64), *values], kind, kernel, number)

    def _size(self, em: Emitter, extent: Expr) -> Value:
        """An extent in 64 bits; what is data wraps."""
        value = extend(em, em.value(extent), extent) if self._is_data(extent) else size_of(em, extent)
        if extent.dtype.is_uint and extent.dtype.bits == 64:
            value = em.b.intrinsic("llvm.umin", I64, [value, em.b.i64((1 << 63) - 1)], [I64])
        return value

    # -- launches ----------------------------------------------------------------------------------------------------

    def launch(self, run: Run, op: Call) -> None:
        """Schedule the arguments of a launch, and the launch."""
        head = op.args[0]
        assert isinstance(head, StringImm)  # checked with the function
        image = self.module.kernels[head.value]
        for name in image.launch_params:
            if name not in _LAUNCH_NAMES:
                raise DeviceError(
                    f"kernel `{image.name}` has the launch parameter {name!r}, which no launch has",
                    origin="launch",
                    help=f"bind its loops to {', '.join((*_GRID, *_BLOCK))}",
                )
        own = op.args[1 : 1 + len(image.params)]

        def finish(_: object) -> None:
            extents = dict(zip(image.launch_params, op.args[1 + len(own) :], strict=True))
            self._launch(run.em, image, own, [run.get(arg) for arg in own], extents)
            run.set(op, run.em.b.i32(0))

        run.then(finish)
        for arg in reversed(own):
            run.evaluate(arg)

    def _launch(
        self, em: Emitter, image: KernelImage, own: Sequence[Expr], values: list[Value], extents: dict[str, Expr]
    ) -> None:
        """A launch; where it has no threads, nothing."""
        b = em.b
        sizes = {name: self._size(em, extent) for name, extent in extents.items()}
        one = b.i64(1)
        shape = [_grid_extent(em, sizes, axis) for axis in range(3)] + [sizes.get(tag, one) for tag in _BLOCK]
        shared = sizes.get(DYNAMIC_SHARED, b.i64(0))
        after = em.new_block("launched")
        asked = [extent for extent in shape if not extent.is_constant or not 0 < int(extent.text) <= _MOST]
        if asked:
            some = em.new_block("threads")
            none = _any(em, [b.icmp("sle", extent, b.i64(0)) for extent in asked])
            b.cond_br(none, after, some, likely=False)
            em.enter(some)
            beyond = _any(em, [b.icmp("sgt", extent, b.i64(_MOST)) for extent in asked])
            self._fail_if(em, beyond, [*shape, shared], "extent", image.symbol)
        self._start(em, image, own, values, [*shape, shared])
        if asked:
            b.br(after)
            em.enter(after)

    def _start(
        self, em: Emitter, image: KernelImage, own: Sequence[Expr], values: list[Value], shape: list[Value]
    ) -> None:
        b = em.b
        stream = em.lookup(STREAM).value
        maps = [self._map(em, image, spec, own, values, i) for i, spec in enumerate(image.tensor_maps)]
        report = None
        if image.reports:
            self.reports = True
            report = b.load(PTR, b.gep(I8, em.lookup(SCRATCH).value, SCRATCH_REPORT), 8)
        held = [to_memory(em, v, param.dtype) if not param.pointer else v for v, param in zip(values, image.params, strict=True)]  # fmt: skip
        held += [] if report is None else [report]
        count = len(held) + len(maps)
        # Launches of a function share the memory: the driver has copied the arguments when it returns.
        clusters = image.cluster != (1, 1, 1)
        base = em.context(8 * (len(held) + count) + (_CONFIG + _ATTRIBUTE if clusters else 0))
        places = [b.gep(I8, base, 8 * i) for i in range(len(held))]
        for value, place in zip(held, places, strict=True):
            b.store(value, place, 8)
        pointers = [*places[: len(values)], *maps, *places[len(values) :]]
        arguments = b.gep(I8, base, 8 * len(held))
        for i, pointer in enumerate(pointers):
            b.store(pointer, b.gep(PTR, arguments, i), 8)
        function = self._entry(em, self._places[image.symbol])
        numbers = [_number(em, extent) for extent in shape]
        if clusters:
            config = b.gep(I8, base, 8 * (len(held) + count))
            _fill_config(em, config, numbers, stream, image.cluster)
            status = self._call(em, Service.LAUNCH_CLUSTERS, [config, function, arguments, null()])
        else:
            status = self._call(em, Service.LAUNCH, [function, *numbers, stream, arguments, null()])
        told = [b.ptrtoint(stream), *shape]
        self._refused(em, status, told, "launch", image.symbol)
        if report is None:
            return
        waited = self._call(em, Service.SYNCHRONIZE, [stream])
        # The report first: it says why the launch was ended.
        words = [b.load(I32, b.gep(I32, report, i), 4, volatile=True) for i in range(REPORT_WORDS - 1)]
        failed = b.icmp("ne", words[0], b.i32(0))
        self._fail_if(em, failed, [*(b.zext(word, I64) for word in words), *shape], "report", image.symbol)
        self._refused(em, waited, told, "wait", image.symbol)

    def _map(
        self,
        em: Emitter,
        image: KernelImage,
        spec: TensorMapSpec,
        own: Sequence[Expr],
        values: list[Value],
        number: int,
    ) -> Value:
        """The address of a tensor map: encoded by the driver, unless the call's memory has that of the same array."""
        b = em.b
        itemsize = (spec.dtype.bits * spec.dtype.lanes + 7) // 8
        kind = constants.TENSOR_DTYPES.get(str(spec.dtype), 0)
        if itemsize != 1 and not kind:
            raise CodegenError(
                f"the tensor map of `{image.params[spec.param].name}` in kernel `{image.name}` has elements of "
                f"{spec.dtype!s}, which no tensor map has",
                origin="launch",
                help="copy the elements as integers of their width",
            )
        slot = b.gep(I8, em.lookup(SCRATCH).value, SCRATCH_MAPS + MAP_SLOT * self.maps)
        self.maps += 1
        self.services.add(Service.ENCODE_MAP)
        given = {param.var: arg for param, arg in zip(image.params, own, strict=True)}
        sizes = [substitute(size, given) for size in (*spec.extents, *spec.strides)]
        em.facts.kept += sizes
        found = [size_of(em, size) for size in sizes]
        extents, strides = found[: spec.rank], found[spec.rank :]
        base = values[spec.param]
        # The driver counts dimensions from the innermost; the innermost has no stride.
        steps = [b.mul(stride, b.i64(itemsize)) for stride in reversed(strides)]
        key = [b.ptrtoint(base), *reversed(extents), *steps]
        places = [b.gep(I8, slot, MAP_KEY + 8 * i) for i in range(len(key))]
        other = [b.icmp("ne", b.load(I64, place, 8), word) for place, word in zip(places, key, strict=True)]
        made = b.gep(I8, slot, MAP_MADE)
        missing = b.icmp("eq", b.load(I64, made, 8), b.i64(0))
        with b.if_then(_any(em, [missing, *other]), likely=False, name="encode"):
            b.store(b.i64(0), made, 8)
            for word, place in zip(key, places, strict=True):
                b.store(word, place, 8)
            box, ones = (_numbers(em, numbers) for numbers in (reversed(spec.box), [1] * spec.rank))
            modes = [0, constants.TENSOR_SWIZZLES[spec.swizzle], _L2_PROMOTION_256B, 0]
            dims, first = places[1], places[1 + spec.rank] if steps else places[1]
            status = self._call(
                em,
                Service.ENCODE_MAP,
                [slot, b.i32(kind), b.i32(spec.rank), base, dims, first, box, ones, *map(b.i32, modes)],
            )
            told = [b.ptrtoint(base), *extents, *strides]
            self._refused(em, status, told, "map", image.symbol, number)
            b.store(b.i64(1), made, 8)
        return slot

    # -- memory ------------------------------------------------------------------------------------------------------

    def check_extents(self, em: Emitter, op: AllocBuffer) -> None:
        """Fail where an extent leaves its type, which its kernels count in."""
        for extent in op.buffer.shape:
            self._size(em, extent)

    def allocate(self, em: Emitter, op: AllocBuffer, size: Value) -> None:
        """Memory of a device in the order of the stream, until the cleanups of its scope; no byte needs no memory."""
        b, data = em.b, op.buffer.data
        before, some, after = b.block, em.new_block("allocate"), em.new_block("allocated")
        b.cond_br(b.icmp("eq", size, b.i64(0)), after, some, likely=False)
        em.enter(some)
        place = em.state_slot("allocation", PTR, 8)
        self._refused(em, self._call(em, Service.ALLOCATE, [place, size, em.lookup(STREAM).value]), [size], "allocate")
        made, end = b.load(PTR, place, 8), b.block
        b.br(after)
        em.enter(after)
        em.define(data, b.phi(PTR, "memory", [(null(), before), (made, end)]))
        em.cleanups.append(lambda here: self._free(here, here.lookup(data).value))

    def _free(self, em: Emitter, pointer: Value) -> None:
        """Give memory back; what the driver says to it is told at the end of the function."""
        b = em.b
        with b.if_then(b.icmp("ne", pointer, null()), name="free"):
            status = self._call(em, Service.FREE, [pointer, em.lookup(STREAM).value])
            with b.if_then(b.icmp("ne", status, b.i32(0)), likely=False, name="kept"):
                b.store(status, self._freed(em), 4)

    def _freed(self, em: Emitter) -> Value:
        known = "freed" in em.slots
        slot = em.state_slot("freed", I32, 4)
        if not known:
            em.function.prologue.append(f"  store i32 0, ptr {slot.text}, align 4")
        return slot

    def finish(self, em: Emitter) -> None:
        """At the end of the function, all cleanups done: fail where memory was not taken back."""
        if Service.ALLOCATE in self.services:
            held, em.cleanups = em.cleanups, []
            self._refused(em, em.b.load(I32, self._freed(em), 4), [], "free")
            em.cleanups = held

    def constant(self, em: Emitter, op: AllocConst) -> None:
        """The address on the device of an array that kernels read."""
        place = len(Service) + len(self._places) + len(self.constants)
        self.constants.append(np.ascontiguousarray(op.data, element_numpy(op.buffer.dtype)))
        em.define(op.buffer.data, self._entry(em, place))


def _grid_extent(em: Emitter, sizes: dict[str, Value], axis: int) -> Value:
    """The blocks along an axis: blockIdx counts them; clusterIdx and clusterCtaIdx do together."""
    if _GRID[axis] in sizes:
        return sizes[_GRID[axis]]
    clusters, inside = sizes.get(_CLUSTERS[axis]), sizes.get(_IN_CLUSTER[axis])
    if clusters is not None and inside is not None:
        pair = em.b.intrinsic("llvm.smul.with.overflow", _PAIR, [clusters, inside], [I64])
        most = em.b.i64((1 << 63) - 1)
        return em.b.select(em.b.extract_value(pair, 1), most, em.b.extract_value(pair, 0))
    return clusters or inside or em.b.i64(1)


def _number(em: Emitter, size: Value) -> Value:
    """A size in 32 bits. What they do not hold is more than any device has; of threads there is no such number here."""
    if size.is_constant:
        return em.b.i32(min(int(size.text) & (1 << 64) - 1, _MOST))
    return em.b.trunc(em.b.intrinsic("llvm.umin", I64, [size, em.b.i64(_MOST)], [I64]), I32)


def _any(em: Emitter, conditions: Sequence[Value]) -> Value:
    found = conditions[0]
    for condition in conditions[1:]:
        found = em.b.or_(found, condition)
    return found


def _numbers(em: Emitter, values: Iterable[int]) -> Value:
    """A constant array of 32-bit numbers."""
    name = em.module.unique_name("numbers")
    return em.module.global_constant(name, const_array([const(I32, value) for value in values]), align=4)


def _fill_config(
    em: Emitter, config: Value, numbers: Sequence[Value], stream: Value, cluster: tuple[int, int, int]
) -> None:
    """CUlaunchConfig with one attribute behind it, the shape of the clusters."""
    b = em.b
    attribute = b.gep(I8, config, _CONFIG)
    fields = [(4 * i, number) for i, number in enumerate(numbers)] + [(32, stream), (40, attribute), (48, b.i32(1))]
    fields += [(_CONFIG + 8 + 4 * i, b.i32(extent)) for i, extent in enumerate(cluster)]
    fields += [(_CONFIG, b.i32(constants.CLUSTER_DIMENSION)), (_CONFIG + 4, b.i32(0))]
    for place, value in fields:
        b.store(value, b.gep(I8, config, place), 8 if value.type is PTR else 4)
