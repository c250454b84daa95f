"""The road from a module to kernels of a GPU: check, lower, generate PTX, and make what launches it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tirlower.call.gil import GilChoice
from tirlower.diagnostics import DeviceError, TirError, nearest_name, paused_collection
from tirlower.driver.kernel import rebuilding
from tirlower.driver.pipelines import pipeline_for
from tirlower.emit.compile import emit_assembly, optimized_ir
from tirlower.gpu.artifact import DeviceModule
from tirlower.gpu.codegen import GeneratedKernels, compile_options, generate
from tirlower.gpu.codegen.machine import ARCHITECTURES, ptx_version
from tirlower.gpu.launch import Driver, GpuKernel, GpuReport, device_of, open_driver
from tirlower.ir.annotations import NOALIAS
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.verify import verify_well_formed
from tirlower.legality.check import check_legality
from tirlower.legality.notes import CheckReport
from tirlower.legality.versions import apart
from tirlower.llvm.cache import default_cache
from tirlower.machine.target import Target
from tirlower.transforms import PassContext, PassTimingInstrument

__all__ = ["DeviceArtifact", "DeviceKernel", "DeviceReport", "build_for_device"]

SOURCE_KINDS = ("tir", "llvm", "llvm-opt", "ptx", "host")


@dataclass
class DeviceArtifact:
    """What the kernels of one build share: the module as given and lowered, the device code, times and checks."""

    given: IRModule
    target: Target
    context: PassContext
    lowered: IRModule
    module: DeviceModule
    checks: CheckReport
    cached: bool
    asked: Target
    """The target as the build was given it: without what the machine here added."""
    outputs: Mapping[str, tuple[str, ...]]
    timings: dict[str, float] = field(default_factory=dict)
    passes: dict[str, float] = field(default_factory=dict)
    traced: Mapping[str, IRModule] = field(default_factory=dict)

    @property
    def ir_after(self) -> Mapping[str, IRModule]:
        """The module after each pass (lowered again with a trace where the build had none)."""
        if not self.traced:
            ctx = PassContext(**self.context.choices, trace=True)
            with ctx:
                pipeline_for(self.target).run(check_legality(apart(self.given), ctx, lifts=False).module, ctx)
            self.traced = ctx.ir_after
        return self.traced

    def rebuilding(self, name: str | None) -> tuple[Any, ...]:
        """What pickle keeps of a kernel of this build, or of all of them; it is built for the devices of its reader."""
        outputs = next(iter(self.outputs.values()), ()) or None if name is None else self.outputs.get(name, ())
        return rebuilding(self.given, name, self.asked, outputs, "auto", self.context)

    def source(self, kind: str = "tir") -> str:
        """The program at a stage: ``"tir"`` (after the passes), ``"llvm"``, ``"llvm-opt"`` or ``"ptx"``.

        Raises :class:`TirError` for another kind.
        """
        if kind == "tir":
            return self.lowered.script()
        if kind == "llvm":
            return self.module.llvm
        if kind == "llvm-opt":
            return optimized_ir(self.module.llvm, compile_options(self.target))
        if kind == "ptx":
            return self.module.ptx
        near = nearest_name(kind, SOURCE_KINDS)
        raise TirError(
            f"no source of kind {kind!r}",
            help=f"did you mean {near!r}?" if near else f"the kinds are {', '.join(SOURCE_KINDS)}",
        )

    def show(self, kind: str = "tir") -> None:
        """Print :meth:`source`, the script coloured where the terminal shows colours."""
        if kind == "tir":
            self.lowered.show()
        else:
            print(self.source(kind))

    def report(self) -> DeviceReport:
        """What the build did, without a device."""
        return DeviceReport(GpuReport(self.module.arch, None, ()), self.checks, self.timings, self.passes, self.cached)


@dataclass(frozen=True)
class DeviceReport:
    """The report of a build for a GPU: its kernels, what was proved of the program, and the milliseconds of each step."""

    device: GpuReport
    checks: CheckReport
    timings: Mapping[str, float]
    passes: Mapping[str, float]
    cached: bool

    @property
    def kernels(self) -> Any:
        """The kernels, with their registers and occupancy where there is a device."""
        return self.device.kernels

    @property
    def loops(self) -> Any:
        """The loops that are not serial: proved, or trusted with the reason given."""
        return self.checks.loops

    @property
    def guarded(self) -> Any:
        """The accesses that are checked as they run."""
        return self.checks.guarded

    def __str__(self) -> str:
        times = ", ".join(f"{name} {ms:.1f}" for name, ms in self.timings.items())
        lines = [str(self.device), f"PTX {'from the disk cache' if self.cached else 'compiled'}; ms: {times}"]
        return "\n".join([*lines, *self.checks.lines()])


class DeviceKernel(GpuKernel):
    """A :class:`GpuKernel` that knows its build."""

    artifact: DeviceArtifact

    @property
    def ir_after(self) -> Mapping[str, IRModule]:
        """The module after each pass, by the pass's name."""
        return self.artifact.ir_after

    def __reduce__(self) -> Any:
        # As for the host: by the function and the options of its build, for whatever device reads it.
        return self.artifact.rebuilding(self.name)

    def source(self, kind: str = "tir") -> str:
        """As :meth:`GpuKernel.source`; ``"llvm-opt"`` too, the LLVM IR after LLVM's passes."""
        return self.artifact.source(kind) if kind == "llvm-opt" else super().source(kind)

    def report(self, ordinal: int = 0) -> Any:
        """What the build did, and what the kernels need of the device where there is one."""
        build = self.artifact
        return DeviceReport(super().report(ordinal), build.checks, build.timings, build.passes, build.cached)


def resolved_target(target: Target, driver: Driver | None) -> Target:
    """A target with what the machine here has: PTX that its driver takes, and its first device's architecture.

    What the target states stays; without a driver nothing is added.
    """
    if driver is None:
        return target
    found: dict[str, Any] = {}
    if not target.get("arch") and not target.get("mcpu"):
        have = int(device_of(0, driver).arch.removeprefix("sm_"))
        numbers = [int(name.removeprefix("sm_")) for name in ARCHITECTURES if name[-1].isdigit()]
        found["arch"] = f"sm_{max((n for n in numbers if n <= have), default=min(numbers))}"
    if not target.get("ptx"):
        arch = str(found.get("arch") or target.get("arch") or target.get("mcpu"))
        if arch in ARCHITECTURES:
            version, minor = driver.ptx_version
            found["ptx"] = ptx_version(arch, driver=10 * version + minor)
    return target.with_options(**found) if found else target


def _driver() -> Driver | None:
    try:
        return open_driver()
    except DeviceError:
        return None  # built for another machine: nothing here says what that one has


def _compiled(made: GeneratedKernels, target: Target) -> tuple[str, bool]:
    """The PTX of generated kernels, and whether it was in the disk cache."""
    options = compile_options(target)
    cache = default_cache()
    key = cache.key({"llvm": made.text, **options.key()})
    entry = cache.load(key)
    if entry is not None:
        return entry.object.decode(), True
    ptx = emit_assembly(made.text, options)
    cache.store(key, ptx.encode())
    return ptx, False


def _declared(func: PrimFunc) -> bool:
    return "global_symbol" not in func.attrs or bool(func.attrs.get(NOALIAS))


def build_for_device(
    mod: IRModule, target: Target, ctx: PassContext, outputs: Mapping[str, tuple[str, ...]], gil: GilChoice = "auto"
) -> tuple[DeviceArtifact, dict[str, DeviceKernel]]:
    """Compile the exported functions of a module for a GPU. ``outputs`` names what calls of each allocate. ``gil``
    says nothing: the driver's calls always let go of the lock.

    Raises :class:`WellFormedError`, :class:`LegalityError`, :class:`TransformError`, :class:`LoweringError` or
    :class:`CodegenError`. No device is needed.
    """
    start = time.perf_counter()
    given, asked = ctx, target
    target = resolved_target(target, _driver())
    with paused_collection():
        verify_well_formed(mod)
        verified = time.perf_counter()
        legal = check_legality(apart(mod), ctx, lifts=False)
        checked = time.perf_counter()
        timing = PassTimingInstrument()
        ctx = ctx.child(timing)
        lowered = pipeline_for(target).run(legal.module, ctx)
        lowered_at = time.perf_counter()
        # A load of memory that nothing writes may use another cache: not where an array may be read and written in place.
        noalias = not any(legal.in_place.values()) or all(_declared(func) for func in mod.functions.values())
        generated = generate(lowered, target, noalias=noalias, check_assumptions=bool(ctx.option("tir.enable_debug")))
        generated_at = time.perf_counter()
        ptx, cached = _compiled(generated, target)
    arch = compile_options(target).cpu
    module = DeviceModule(ptx=ptx, llvm=generated.text, arch=arch, kernels=generated.kernels)
    artifact = DeviceArtifact(mod, target, given, lowered, module, legal.checks, cached, asked, outputs)
    artifact.passes = {name.removeprefix("tir."): seconds * 1e3 for name, seconds in timing.times.items()}
    if ctx.trace:
        artifact.traced = dict(ctx.ir_after)
    kernels = {}
    for key, func in mod.items():
        name = func.attrs.get("global_symbol")
        if name is None:
            continue
        kernel = DeviceKernel(
            func,
            lowered,
            key,
            module,
            outputs=outputs.get(str(name), ()),
            target=target,
            in_place=legal.in_place.get(str(name), ()),
        )
        kernel.artifact = artifact
        kernels[str(name)] = kernel
    done = time.perf_counter()
    artifact.timings = {
        "verify": (verified - start) * 1e3,
        "legality": (checked - verified) * 1e3,
        "passes": (lowered_at - checked) * 1e3,
        "generate": (generated_at - lowered_at) * 1e3,
        "llvm": (done - generated_at) * 1e3,
        "whole": (done - start) * 1e3,
    }
    return artifact, kernels
