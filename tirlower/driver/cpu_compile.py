"""Compiling for the host: checks, passes, code generation, LLVM; from a module to what the disk cache keeps."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tirlower.call.gil import GilPolicy
from tirlower.call.parameters import call_signature
from tirlower.driver.progress import Progress
from tirlower.driver.result import Artifact, BuildSpec
from tirlower.ir.func import IRModule
from tirlower.ir.verify import verify_well_formed
from tirlower.llvm.cache import CacheEntry
from tirlower.llvm.codegen.module import GeneratedModule, generate
from tirlower.llvm.entry import add_entry
from tirlower.llvm.jit import engine
from tirlower.transforms import PassContext, PassTimingInstrument

__all__ = ["HostCode", "compile_module", "generate_code"]


PART_LINES = 6000
"""The lines of LLVM IR that one call into LLVM compiles, about: 6,000 take half a second, in which Ctrl-C waits."""


@dataclass(frozen=True)
class HostCode:
    """What is compiled: ``parts`` are the LLVM modules, ``functions`` the code of the functions without the Python entry.

    ``kernels`` says what the loader needs of each exported kernel.
    """

    generated: GeneratedModule
    functions: str
    parts: list[str]
    kernels: dict[str, Any]


def generate_code(
    lowered: IRModule, spec: BuildSpec, in_place: Mapping[str, tuple[tuple[int, int], ...]] | None = None
) -> HostCode:
    """The code of a lowered module: what a build compiles, and what :meth:`~tirlower.driver.kernel.Kernel.source` shows.

    ``in_place`` has, for each exported function, the parameters that may be one array, which the entry asks about.
    """
    keys = {str(f.attrs.get("global_symbol", key)): key for key, f in lowered.items()}
    generated = generate(
        lowered,
        spec.target,
        outputs={keys[name]: chosen for name, chosen in spec.outputs.items() if name in keys},
        check_assumptions=bool(spec.context().option("tir.enable_debug")),
    )
    functions = generated.text
    kernels: dict[str, Any] = {}
    for name, info in generated.kernels.items():
        written = [p.name for p in info.signature.buffers if p.written]
        pairs = (in_place or {}).get(name, ())
        signature = call_signature(spec.function(name), written, spec.outputs.get(name, ()), pairs)
        gil = GilPolicy(release=spec.gil, work=info.work)
        # A call for overlapping arrays comes from Python, where the overlap was found.
        native = spec.overlap is None
        exports = add_entry(generated.module, signature, info.ref, name=info.symbol, gil=gil, native=native)
        kernels[name] = {
            "symbol": info.symbol,
            "exports": list(exports),
            "written": written,
            "in_place": [list(pair) for pair in pairs],
            "errors": [
                [site.kind.__module__, site.kind.__name__, site.template, list(site.types)] for site in info.errors
            ],
        }
    return HostCode(generated, functions, generated.module.parts(PART_LINES), kernels)


def compile_module(artifact: Artifact, ctx: PassContext, origin: str) -> CacheEntry:
    """Verify, lower, generate, optimise, emit. ``origin`` says where the functions stand in their files."""
    spec = artifact.spec
    progress = Progress(", ".join(spec.module.functions))
    start = time.perf_counter()
    progress.begin("verification")
    verify_well_formed(spec.module)
    verified = time.perf_counter()
    progress.begin("legality")
    legal = spec.check(ctx)
    artifact.checks = legal.checks
    checked = time.perf_counter()
    timing = PassTimingInstrument()
    ctx = ctx.child(timing, progress)
    lowered = spec.run_passes(legal.module, ctx)
    artifact.lowered = lowered
    artifact.passes = {name.removeprefix("tir."): seconds * 1e3 for name, seconds in timing.times.items()}
    if ctx.trace:
        artifact.traced = dict(ctx.ir_after)
    lowered_at = time.perf_counter()
    progress.begin("code generation")
    code = generate_code(lowered, spec, legal.in_place)
    generated_at = time.perf_counter()
    compiled = engine().compile_parts(code.parts, spec.options, progress.begin)
    progress.begin("")
    artifact.timings.update(
        {
            "verify": (verified - start) * 1e3,
            "legality": (checked - verified) * 1e3,
            "passes": (lowered_at - checked) * 1e3,
            "generate": (generated_at - lowered_at) * 1e3,
            **{f"llvm {step}": ms for step, ms in compiled.timings.items()},
        }
    )
    metadata = {
        "kernels": code.kernels,
        "imports": sorted(code.generated.imports),
        "threads": code.generated.num_threads,
        "origin": origin,
        "checks": legal.checks.to_json(),
    }
    return CacheEntry(compiled.object, metadata)
