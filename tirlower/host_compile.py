"""Compiling for the host: checks, passes, code generation, LLVM; from a module to what the disk cache keeps."""

from __future__ import annotations

import time
from collections.abc import Mapping

from tirlower.artifact import Artifact
from tirlower.ir.verify import verify_well_formed
from tirlower.legality import check_legality
from tirlower.llvm.cache import CacheEntry
from tirlower.llvm.codegen.module import generate
from tirlower.llvm.engine import engine
from tirlower.llvm.entry import GilChoice, GilPolicy, add_entry
from tirlower.pipeline import pipeline_for
from tirlower.transforms import PassContext, PassTimingInstrument

__all__ = ["compile_module"]


def compile_module(
    artifact: Artifact,
    ctx: PassContext,
    outputs: Mapping[str, tuple[str, ...]],
    gil: GilChoice,
    origin: str,
) -> CacheEntry:
    """Verify, lower, generate, optimise, emit. ``origin`` says where the functions stand in their files."""
    recipe = artifact.recipe
    start = time.perf_counter()
    verify_well_formed(recipe.module)
    verified = time.perf_counter()
    legal = check_legality(recipe.module, ctx)
    artifact.checks = legal.checks
    checked = time.perf_counter()
    timing = PassTimingInstrument()
    ctx = ctx.child(timing)
    lowered = pipeline_for(recipe.target).run(legal.module, ctx)
    artifact.lowered = lowered
    artifact.passes = {name.removeprefix("tir."): seconds * 1e3 for name, seconds in timing.times.items()}
    if ctx.trace:
        artifact.traced = dict(ctx.ir_after)
    lowered_at = time.perf_counter()
    keys = {str(f.attrs.get("global_symbol", key)): key for key, f in lowered.items()}
    generated = generate(
        lowered,
        recipe.target,
        outputs={keys[name]: chosen for name, chosen in outputs.items() if name in keys},
        check_assumptions=bool(ctx.option("tir.enable_debug")),
    )
    kernels = {}
    for name, info in generated.kernels.items():
        signature = info.signature
        exports = add_entry(
            generated.module, signature, info.ref, name=info.symbol, gil=GilPolicy(release=gil, work=info.work)
        )
        kernels[name] = {
            "symbol": info.symbol,
            "exports": list(exports),
            "written": [p.name for p in signature.buffers if p.written],
            "errors": [
                [site.kind.__module__, site.kind.__name__, site.template, list(site.types)] for site in info.errors
            ],
        }
    text = generated.text
    generated_at = time.perf_counter()
    compiled = engine().compile_object(text, recipe.options)
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
        "kernels": kernels,
        "imports": sorted(generated.imports),
        "threads": generated.num_threads,
        "origin": origin,
        "checks": legal.checks.to_json(),
    }
    return CacheEntry(compiled.object, metadata)
