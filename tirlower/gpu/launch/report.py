"""What a build for the device made, and what its kernels need of the device."""

from __future__ import annotations

from dataclasses import dataclass

from tirlower.gpu.artifact import DeviceModule
from tirlower.gpu.launch.host_function import launches_of
from tirlower.gpu.launch.loaded_module import LoadedModule
from tirlower.ir.expr import IntImm
from tirlower.ir.func import PrimFunc

__all__ = ["GpuReport", "KernelReport", "make_report"]

WARP: int = 32


@dataclass(frozen=True)
class KernelReport:
    """One kernel. What only the driver knows is None without a device; the block, where it depends on the call.

    ``local_bytes`` are each thread's in memory: spilled registers, and arrays that no registers hold. ``blocks`` is how
    many blocks are resident on a multiprocessor, ``occupancy`` their warps as a part of those it can hold.
    """

    name: str
    block: tuple[int, ...] | None
    dynamic_shared: int | None
    static_shared: int
    registers: int | None = None
    local_bytes: int | None = None
    max_threads: int | None = None
    blocks: int | None = None
    occupancy: float | None = None

    def __str__(self) -> str:
        parts = [f"{self.static_shared} bytes of static shared memory"]
        if self.dynamic_shared:
            parts.append(f"{self.dynamic_shared} dynamic")
        if self.block is not None:
            parts.insert(0, f"block {self.block}")
        if self.registers is not None:
            parts += [f"{self.registers} registers", f"{self.local_bytes} bytes of local memory"]
        if self.occupancy is not None:
            parts.append(f"{self.blocks} blocks a multiprocessor, occupancy {self.occupancy:.0%}")
        return f"{self.name}: {', '.join(parts)}"


@dataclass(frozen=True)
class GpuReport:
    """The report of a build: the architecture, the device if there is one, its kernels, and the driver's remarks."""

    arch: str
    device: str | None
    kernels: tuple[KernelReport, ...]
    log: str = ""

    def __getitem__(self, name: str) -> KernelReport:
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        raise KeyError(f"no kernel {name!r}; there are {', '.join(k.name for k in self.kernels)}")

    def __str__(self) -> str:
        where = self.device or "no device: registers and occupancy are known where one is"
        lines = [f"built for {self.arch} ({where})", *[f"  {kernel}" for kernel in self.kernels]]
        return "\n".join(lines + [f"  driver: {line}" for line in self.log.splitlines()])


def make_report(module: DeviceModule, host: PrimFunc, loaded: LoadedModule | None, max_warps: int) -> GpuReport:
    """The report of a module; ``max_warps`` are those that a multiprocessor holds at once."""
    found = []
    shapes = {symbol: _constant_shape(module, symbol, host) for symbol in module.kernels}
    for symbol, image in module.kernels.items():
        block, dynamic = shapes[symbol]
        if loaded is None:
            found.append(KernelReport(image.name, block, dynamic, image.static_shared))
            continue
        registers, local, shared, most = loaded.resources(symbol)
        blocks = occupancy = None
        if block is not None and dynamic is not None:
            threads = block[0] * block[1] * block[2]
            blocks = loaded.blocks_per_multiprocessor(symbol, threads, dynamic)
            occupancy = blocks * -(-threads // WARP) / max_warps
        found.append(KernelReport(image.name, block, dynamic, shared, registers, local, most, blocks, occupancy))
    device = None if loaded is None else f"{loaded.device.name}, {loaded.device.arch}"
    return GpuReport(module.arch, device, tuple(found), "" if loaded is None else loaded.log)


def _constant_shape(module: DeviceModule, symbol: str, host: PrimFunc) -> tuple[tuple[int, ...] | None, int | None]:
    """The block and the dynamic shared memory of a kernel's launches, where they are constants."""
    image = module.kernels[symbol]
    calls = launches_of(host).get(symbol, [])
    shapes = set()
    for args in calls:
        values = dict(zip(image.launch_params, args[len(image.params) :], strict=False))
        parts = [values.get(f"threadIdx.{axis}", 1) for axis in "xyz"] + [values.get("tir.use_dyn_shared_memory", 0)]
        shapes.add(tuple(p.value if isinstance(p, IntImm) else p if isinstance(p, int) else None for p in parts))
    if len(shapes) != 1:
        return None, None
    x, y, z, dynamic = shapes.pop()
    return None if x is None or y is None or z is None else (x, y, z), dynamic
