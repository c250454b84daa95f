"""The backend of GPUs: PTX, and what launches it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tirlower.call.slowpath import PackedKernel
from tirlower.call.views import Result
from tirlower.diagnostics import TirError
from tirlower.driver.gpu_host import host_code
from tirlower.driver.kernel import Built
from tirlower.driver.progress import Progress
from tirlower.driver.result import BuildResult
from tirlower.driver.steps import compile_version
from tirlower.emit.compile import CompileOptions, emit_assembly, optimized_ir
from tirlower.gpu.artifact import DeviceModule
from tirlower.gpu.codegen import GeneratedKernels, compile_options, generate
from tirlower.gpu.codegen.assembly import corrected
from tirlower.gpu.codegen.machine import ARCHITECTURES, architecture_of, ptx_version
from tirlower.gpu.installed import Installed, installed
from tirlower.gpu.launch import GpuKernel, GpuReport
from tirlower.gpu.launch.report import KernelReport
from tirlower.ir.annotations import NOALIAS
from tirlower.ir.func import PrimFunc
from tirlower.legality.notes import AccessNote, CheckReport, LoopNote
from tirlower.llvm.cache import default_cache
from tirlower.machine.target import Target
from tirlower.transforms import PassContext

__all__ = ["BACKEND", "DeviceKernel", "DeviceReport", "GpuBackend"]


@dataclass(frozen=True)
class DeviceReport:
    """The report of a build for a GPU: its kernels, what was proved of the program, and the milliseconds of each step."""

    device: GpuReport
    checks: CheckReport
    timings: Mapping[str, float]
    passes: Mapping[str, float]
    cached: bool

    @property
    def kernels(self) -> tuple[KernelReport, ...]:
        """The kernels, with their registers and occupancy where there is a device."""
        return self.device.kernels

    @property
    def loops(self) -> tuple[LoopNote, ...]:
        """The loops that are not serial: proved, or trusted with the reason given."""
        return self.checks.loops

    @property
    def guarded(self) -> tuple[AccessNote, ...]:
        """The accesses that are checked as they run."""
        return self.checks.guarded

    def __str__(self) -> str:
        times = ", ".join(f"{name} {ms:.1f}" for name, ms in self.timings.items())
        lines = [str(self.device), f"PTX {'from the disk cache' if self.cached else 'compiled'}; ms: {times}"]
        return "\n".join([*lines, *self.checks.lines()])


class DeviceKernel(Built, GpuKernel):
    """A :class:`GpuKernel` that knows its build."""

    def source(self, kind: str = "tir") -> str:
        """As :meth:`Built.source`; ``"host"`` is the LLVM IR of this function's host code."""
        return self.host.text if kind == "host" else super().source(kind)

    def report(self, ordinal: int = 0) -> Result:
        """What the build did, and what the kernels need of the device where there is one."""
        return _report(self.artifact, GpuKernel.report(self, ordinal))


def resolved_target(target: Target, here: Installed | None) -> Target:
    """A target with what the machine here has: PTX that its driver takes, and an architecture that all its devices run.

    What the target states stays; where there is no driver nothing is added.
    """
    if here is None:
        return target
    found: dict[str, str | int] = {}
    arch = target.get("arch") or target.get("mcpu")
    if not arch:
        arch = found["arch"] = architecture_of(here.archs, here.ptx)
    if not target.get("ptx") and str(arch) in ARCHITECTURES:
        found["ptx"] = ptx_version(str(arch), driver=here.ptx)
    return target.with_options(**found) if found else target


class GpuBackend:
    """PTX by LLVM, compiled by the driver of each device on which it runs."""

    def resolve(self, target: Target, ctx: PassContext) -> tuple[Target, CompileOptions]:
        """The PTX and the architecture that are here, where the target names none."""
        target = resolved_target(target, installed())
        return target, compile_options(target)

    def compiled(self, result: BuildResult, ctx: PassContext) -> DeviceModule:
        """The PTX: generated for every build, compiled where the disk cache has none of the same LLVM IR."""
        result.miss = lambda: "the disk cache had no PTX of the same LLVM IR and options"
        module = compile_version(result, ctx)
        assert isinstance(module, DeviceModule)
        return module

    def generate(self, result: BuildResult) -> GeneratedKernels:
        """The LLVM IR of the kernels."""
        # A load of memory that nothing writes may use another cache: not where an array may be read and written in place.
        functions = result.spec.module.functions.values()
        noalias = not any(result.in_place.values()) or all(_declared(func) for func in functions)
        checks = bool(result.spec.context().option("tir.enable_debug"))
        return generate(result.lowered, result.target, noalias=noalias, check_assumptions=checks)

    def compile(self, result: BuildResult, code: GeneratedKernels, progress: Progress) -> DeviceModule:
        """The PTX, and what a launch must know of each kernel."""
        progress.begin("LLVM")
        start = time.perf_counter()
        options = result.spec.options
        cache = default_cache()
        key = result.key = cache.key({"llvm": code.text, **options.key()})
        entry = cache.load(key)
        result.cached = entry is not None
        ptx = entry.object.decode() if entry is not None else emit_assembly(code.text, options)
        if entry is None:
            cache.store(key, ptx.encode())
        ptx = corrected(ptx)
        result.code_bytes = len(ptx)
        module = result.code = DeviceModule(ptx=ptx, llvm=code.text, arch=options.cpu, kernels=code.kernels)
        result.timings["llvm"] = (time.perf_counter() - start) * 1e3
        return module

    def bind(self, result: BuildResult, compiled: DeviceModule) -> dict[str, DeviceKernel]:
        """The callables: a device is asked for when one is called."""
        start = time.perf_counter()
        spec = result.spec
        kernels = {}
        for key, func in spec.module.items():
            name = str(func.attrs.get("global_symbol", ""))
            if name:
                outputs, in_place = spec.outputs.get(name, ()), result.in_place.get(name, ())
                host = host_code(result.lowered, key, compiled, bool(spec.context().option("tir.enable_debug")))
                kernel = DeviceKernel(
                    func, result.lowered, host, compiled, outputs=outputs, target=result.target, in_place=in_place
                )
                kernel.artifact = result
                kernels[name] = kernel
        result.timings["link"] = (time.perf_counter() - start) * 1e3
        return kernels

    def packed(self, result: BuildResult, compiled: DeviceModule, name: str) -> PackedKernel:
        """There is none: calls refuse arrays that overlap."""
        raise AssertionError(name)

    def text(self, result: BuildResult, kind: str) -> str:
        """The kernels' LLVM IR and PTX."""
        module = _module(result)
        if kind == "llvm-opt":
            return optimized_ir(module.llvm, result.spec.options)
        if kind == "host":
            raise TirError("each function of a module has host code of its own", help="ask its kernel for it")
        return module.ptx if kind == "ptx" else module.llvm

    def report(self, result: BuildResult) -> DeviceReport:
        """What the build did, without a device."""
        return _report(result, GpuReport(_module(result).arch, None, ()))


BACKEND: Final = GpuBackend()


def _module(result: BuildResult) -> DeviceModule:
    assert isinstance(result.code, DeviceModule)  # kept by the compiler
    return result.code


def _report(result: BuildResult, device: GpuReport) -> DeviceReport:
    return DeviceReport(device, result.checks, result.timings, result.passes, result.cached)


def _declared(func: PrimFunc) -> bool:
    return "global_symbol" not in func.attrs or bool(func.attrs.get(NOALIAS))
