"""The launch of one kernel: a Python function, written for its parameters, around one call of the driver.

What a launch does at run time is pack the arguments into memory that was laid out beforehand, and call cuLaunchKernel.
Memory for arguments is kept in a pool, because the driver call gives up the interpreter's lock: two threads that launch
one kernel have two of them.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tirlower.diagnostics import BoundsError, DeviceError, DivisionByZeroError, RuntimeAssertError, TirError
from tirlower.gpu.artifact import REPORT_WORDS, KernelImage, KernelParam
from tirlower.gpu.launch import constants
from tirlower.gpu.launch.constants import DeviceAttribute, FunctionAttribute
from tirlower.gpu.launch.device import Device
from tirlower.gpu.launch.driver import LaunchAttribute, LaunchConfig
from tirlower.gpu.launch.tensor_map import TensorMapEncoder
from tirlower.ir.dtype import DataType

__all__ = ["Launcher"]

DYNAMIC_SHARED: Final = "tir.use_dyn_shared_memory"
_GRID: Final = tuple(f"blockIdx.{axis}" for axis in "xyz")
_BLOCK: Final = tuple(f"threadIdx.{axis}" for axis in "xyz")
_CLUSTERS: Final = tuple(f"clusterIdx.{axis}" for axis in "xyz")
_IN_CLUSTER: Final = tuple(f"clusterCtaIdx.{axis}" for axis in "xyz")
_LAUNCH_NAMES: Final = {*_GRID, *_BLOCK, *_CLUSTERS, *_IN_CLUSTER, DYNAMIC_SHARED}
_FORMATS: Final = {
    "bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I",
    "int64": "q", "uint64": "Q", "float16": "e", "float32": "f", "float64": "d", "handle": "Q",
}  # fmt: skip
_ERRORS: Final[dict[str, type[TirError]]] = {
    "assert": RuntimeAssertError,
    "bounds": BoundsError,
    "division": DivisionByZeroError,
}
_MOST_STREAMS: Final = 256
_SLOT: Final = 8
"""Bytes for one argument: all are scalars of at most so many."""


class Slot:
    """Memory for the arguments of one launch, and what the driver call takes of it."""

    __slots__ = ("_free", "arguments", "buffer", "config", "maps", "record", "start")

    def __init__(self, launcher: Launcher) -> None:
        self.record: Any = None
        image = launcher.image
        scalars = _SLOT * (len(image.params) + image.reports)
        maps = -(-scalars // 64) * 64
        self.buffer = ctypes.create_string_buffer(maps + constants.TENSOR_MAP_BYTES * len(image.tensor_maps) + 64)
        base = ctypes.addressof(self.buffer)
        self.start = -base % 64
        self.maps = self.start + maps
        first = base + self.start
        addresses = [first + _SLOT * i for i in range(len(image.params))]
        addresses += [first + maps + constants.TENSOR_MAP_BYTES * i for i in range(len(image.tensor_maps))]
        if image.reports:
            driver = launcher.device.driver
            place = driver.allocate_host(4 * REPORT_WORDS)
            self._free = functools.partial(driver.free_host, place)
            ctypes.memset(place, 0, 4 * REPORT_WORDS)
            self.record = (ctypes.c_uint32 * REPORT_WORDS).from_address(place)
            struct.pack_into("<Q", self.buffer, self.start + _SLOT * len(image.params), place)
            addresses.append(first + _SLOT * len(image.params))
        self.arguments = (ctypes.c_void_p * max(1, len(addresses)))(*addresses)
        self.config = _cluster_config(image.cluster) if image.cluster != (1, 1, 1) else None

    def __del__(self) -> None:
        if self.record is not None:
            self._free()


def _cluster_config(cluster: tuple[int, int, int]) -> tuple[LaunchConfig, LaunchAttribute]:
    attribute = LaunchAttribute(constants.CLUSTER_DIMENSION, 0, *cluster)
    return LaunchConfig(attributes=ctypes.pointer(attribute), count=1), attribute


class Launcher:
    """A kernel on a device. ``launch(stream, *arguments, *launch arguments)`` launches it.

    Pointers are addresses, scalars Python numbers, the stream is a handle. A launch without threads does nothing.
    Raises :class:`DeviceError` with the kernel's name and launch shape where the driver refuses; where the kernel
    reports its failures, the launch waits, and raises them.
    """

    def __init__(self, device: Device, module: int, image: KernelImage) -> None:
        self.device = device
        self.image = image
        driver = device.driver
        self.function = driver.get_function(module, image.symbol)
        self.static_shared = self.attribute(FunctionAttribute.SHARED_SIZE_BYTES)
        self.max_dynamic = device.max_shared - self.static_shared
        if image.dynamic_shared:
            # More than 48 KB must be asked for; what is launched is each launch's own affair.
            driver.set_function_attribute(
                self.function, FunctionAttribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, self.max_dynamic
            )
        x, y, z = image.cluster
        if x * y * z > constants.PORTABLE_CLUSTER:
            driver.set_function_attribute(self.function, FunctionAttribute.NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)
        self.encoders = [TensorMapEncoder(driver, image, spec) for spec in image.tensor_maps]
        self._pool: list[Slot] = []
        self._streams: dict[int, ctypes.c_void_p] = {}
        self.source = self._source()
        scope: dict[str, Any] = {
            "pool": self._pool,
            "new": lambda: Slot(self),
            "pack": struct.Struct(_format(image.params)).pack_into,
            "driver_launch": driver.launch,
            "function": ctypes.c_void_p(self.function),
            "streams": self._streams,
            "stream_argument": self._stream_argument,
            "failed": self._failed,
            "refused": self._refused,
            "with_maps": self._with_maps,
            "cluster_launch": self._cluster_launch,
            "reported": self._reported,
            **{f"bits_{dtype}": _bits_of(dtype) for dtype in {str(p.dtype) for p in image.params if _needs_bits(p)}},
        }
        exec(compile(self.source, f"<launch of {image.name}>", "exec"), scope)
        self.launch: Callable[..., None] = scope["launch"]

    def attribute(self, attribute: FunctionAttribute) -> int:
        """A property of the compiled kernel."""
        return self.device.driver.function_attribute(self.function, attribute)

    # -- the generated function --------------------------------------------------------------------------------------

    def _source(self) -> str:
        image = self.image
        for name in image.launch_params:
            if name not in _LAUNCH_NAMES:
                raise DeviceError(
                    f"kernel `{image.name}` has the launch parameter {name!r}, which no launch has",
                    origin="launch",
                    help=f"bind its loops to {', '.join((*_GRID, *_BLOCK))}",
                )
        own = [f"a{i}" for i in range(len(image.params))]
        given = {name: f"x{i}" for i, name in enumerate(image.launch_params)}
        grid = [_grid_extent(given, axis) for axis in range(3)]
        block = [given.get(tag, "1") for tag in _BLOCK]
        shared = given.get(DYNAMIC_SHARED, "0")
        shape = ", ".join((*grid, *block, shared))
        tests = [f"0 < {name} < 2147483648" for tag, name in given.items() if tag != DYNAMIC_SHARED]
        lines = [f"def launch({', '.join(['stream', *own, *given.values()])}):"]
        if tests:
            lines += [f"    if not ({' and '.join(tests)}):", f"        return refused({shape})"]
        lines += ["    try:", "        slot = pool.pop()", "    except IndexError:", "        slot = new()"]
        if own:
            packed = [f"bits_{p.dtype}({a})" if _needs_bits(p) else a for p, a in zip(image.params, own, strict=True)]
            lines.append(f"    pack(slot.buffer, slot.start, {', '.join(packed)})")
        if image.tensor_maps:
            lines.append(f"    with_maps(slot, ({', '.join(own)},))")
        if image.cluster != (1, 1, 1):
            lines.append(f"    code = cluster_launch(slot, stream, {shape})")
        else:
            lines += [
                "    code = driver_launch(",
                f"        function, {shape},",
                "        streams.get(stream) or stream_argument(stream), slot.arguments, None,",
                "    )",
            ]
        if image.reports:
            lines += ["    if not code:", f"        reported(slot, stream, {shape})"]
        lines += ["    pool.append(slot)", "    if code:", f"        failed(code, stream, {shape})"]
        return "\n".join(lines) + "\n"

    def _stream_argument(self, stream: int) -> ctypes.c_void_p:
        """A stream as the driver call takes it, kept for the next launch."""
        if len(self._streams) >= _MOST_STREAMS:
            self._streams.clear()
        made = self._streams[stream] = ctypes.c_void_p(stream)
        return made

    def _with_maps(self, slot: Slot, arguments: tuple[Any, ...]) -> None:
        place = slot.maps
        for encoder in self.encoders:
            ctypes.memmove(ctypes.addressof(slot.buffer) + place, encoder.encode(arguments), constants.TENSOR_MAP_BYTES)
            place += constants.TENSOR_MAP_BYTES

    def _cluster_launch(self, slot: Slot, stream: int, *shape: int) -> int:
        assert slot.config is not None  # made with the slot of a kernel with clusters
        config = slot.config[0]
        config.grid_x, config.grid_y, config.grid_z, config.block_x, config.block_y, config.block_z = shape[:6]
        config.shared_bytes, config.stream = shape[6], stream
        launch = self.device.driver.function("cuLaunchKernelEx")
        return launch(ctypes.byref(config), self.function, slot.arguments, None)

    # -- what can go wrong -------------------------------------------------------------------------------------------

    def _refused(self, *shape: int) -> None:
        """A launch whose extents are no numbers of threads: none at all is no launch, too many is an error."""
        if min(shape[:6]) > 0:
            raise self._error("has an extent of 2**31 or more", shape, None, "use smaller grids, with loops inside")

    def _failed(self, code: int, stream: int, *shape: int) -> None:
        raise self._error(f"failed: {self.device.driver.result_text(code)}", shape, stream, self._remedy(code, shape))

    def _error(self, what: str, shape: tuple[int, ...], stream: int | None, help: str | None) -> DeviceError:
        notes = [f"launch shape: {self.shape_text(shape)}"]
        if stream:
            notes[0] += f", stream {stream:#x}"
        return DeviceError(f"the launch of kernel `{self.image.name}` {what}", origin="launch", notes=notes, help=help)

    def shape_text(self, shape: tuple[int, ...]) -> str:
        """A launch shape for messages."""
        text = f"grid {shape[:3]}, block {shape[3:6]}, {shape[6]} bytes of dynamic shared memory"
        if self.image.cluster != (1, 1, 1):
            text += f", cluster {self.image.cluster}"
        return text

    def _remedy(self, code: int, shape: tuple[int, ...]) -> str:
        """Which limit a refused launch breaks, as far as the device says."""
        device = self.device
        threads = shape[3] * shape[4] * shape[5]
        most = self.attribute(FunctionAttribute.MAX_THREADS_PER_BLOCK) if code not in _STICKY else threads
        if threads > most:
            registers = self.attribute(FunctionAttribute.NUM_REGS)
            return f"a block of {threads} threads is too large: this kernel has {registers} registers a thread, which allows {most}"
        if code not in _STICKY:
            names = ("MAX_GRID_DIM_X", "MAX_GRID_DIM_Y", "MAX_GRID_DIM_Z", "MAX_BLOCK_DIM_X", "MAX_BLOCK_DIM_Y", "MAX_BLOCK_DIM_Z")  # fmt: skip
            for extent, name, tag in zip(shape, names, (*_GRID, *_BLOCK), strict=False):
                limit = device.attribute(DeviceAttribute[name])
                if extent > limit:
                    return f"{tag} has the extent {extent}, and the device's limit is {limit}"
            if shape[6] > self.max_dynamic:
                return (
                    f"the kernel asks for {shape[6]} bytes of dynamic shared memory beside {self.static_shared} static "
                    f"ones, and the device has {device.max_shared} a block: use smaller tiles or fewer stages"
                )
            return "check the launch shape against the device's limits: kernel.report() has the kernel's resources"
        return (
            "the failure may be an earlier launch's, and the device is lost to this process: tl.simulate(func, *arrays) "
            "finds accesses out of bounds, data races and uninitialized reads"
        )

    def _reported(self, slot: Slot, stream: int, *shape: int) -> None:
        """Wait for a launch, and raise what its threads reported."""
        try:
            self.device.driver.synchronize_stream(stream)
        except DeviceError as error:
            raise self._error(f"failed: {error.message}", shape, stream, self._remedy(719, shape)) from None
        record = slot.record
        site = record[0]
        if not site:
            return
        block, thread = tuple(record[1:4]), tuple(record[4:7])
        ctypes.memset(record, 0, 4 * REPORT_WORDS)
        self._pool.append(slot)
        found = self.image.sites[site - 1] if site <= len(self.image.sites) else None
        kind = RuntimeAssertError if found is None else _ERRORS[found.kind]
        text = f"check {site - 1} failed" if found is None else found.text
        raise kind(
            text,
            origin=self.image.name,
            notes=[f"at blockIdx {block}, threadIdx {thread}", f"launch shape: {self.shape_text(shape)}"],
        )


_STICKY: Final = frozenset((700, 702, 714, 715, 716, 717, 718, 719))
"""Results of a kernel that ran and failed: the context is lost."""


def _grid_extent(given: dict[str, str], axis: int) -> str:
    """The blocks along an axis: blockIdx counts them; clusterIdx and clusterCtaIdx do together."""
    if _GRID[axis] in given:
        return given[_GRID[axis]]
    clusters, inside = given.get(_CLUSTERS[axis]), given.get(_IN_CLUSTER[axis])
    if clusters and inside:
        return f"{clusters} * {inside}"
    return clusters or inside or "1"


def _format(params: tuple[KernelParam, ...]) -> str:
    """The layout of a kernel's arguments, 8 bytes for each."""
    parts = []
    for param in params:
        code = "Q" if param.pointer else _FORMATS.get(str(_container(param.dtype)))
        assert code is not None  # every container has a format
        parts.append(f"{code}{_SLOT - struct.calcsize(code)}x")
    return "<" + "".join(parts)


def _needs_bits(param: KernelParam) -> bool:
    return not param.pointer and param.dtype.is_float and str(param.dtype) not in _FORMATS


def _container(dtype: DataType) -> DataType:
    """The dtype whose bytes hold a scalar: integers of odd widths in the next standard one, small floats as bits."""
    if dtype.is_float and str(dtype) not in _FORMATS:
        return DataType(f"uint{dtype.numpy.itemsize * 8}")
    if dtype.is_integral and not dtype.is_bool:
        return DataType.from_numpy(dtype.numpy)
    return dtype


def _bits_of(dtype: str) -> Callable[[float], int]:
    kind = DataType(dtype).numpy
    unsigned = np.dtype(f"uint{kind.itemsize * 8}")

    def bits(value: float) -> int:
        with np.errstate(over="ignore", invalid="ignore"):
            return int(np.asarray(value, np.float64).astype(kind).view(unsigned))

    return bits
