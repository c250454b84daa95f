"""The backend of the host: machine code from the disk cache, or compiled, linked and callable.

What compiles (the steps, the passes, the code generator) stands behind :mod:`tirlower.driver.steps` and is imported when
something is not in the cache.
"""

from __future__ import annotations

import functools
import importlib
import time
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from tirlower.call.errors import ErrorSite
from tirlower.call.gil import GilPolicy
from tirlower.call.parameters import call_signature
from tirlower.call.slowpath import PackedKernel
from tirlower.diagnostics import LoweringError, keep_for_good
from tirlower.driver.build import Overlapping
from tirlower.driver.kernel import ForeignKernel, Kernel
from tirlower.driver.report import Report, report_of
from tirlower.driver.result import BuildResult, BuildSpec
from tirlower.emit.compile import CompileOptions, emit_assembly, optimized_ir
from tirlower.ir.func import IRModule
from tirlower.ir.json_io import save_json
from tirlower.legality.notes import CheckReport
from tirlower.llvm.cache import CacheEntry, CacheKey, default_cache
from tirlower.llvm.codegen import compile_options, resolve_imports
from tirlower.llvm.entry import entry_cache_key, entry_imports, entry_parts, packed_kernel, without_entries
from tirlower.llvm.jit import Linked, engine
from tirlower.llvm.parallel import runtime
from tirlower.machine.cpu import lacking
from tirlower.machine.target import Target
from tirlower.transforms import PassContext

if TYPE_CHECKING:
    from tirlower.driver.cpu_compile import HostCode
    from tirlower.driver.progress import Progress

__all__ = ["BACKEND", "CpuBackend"]


def _key(spec: BuildSpec, program: str) -> CacheKey:
    return default_cache().key(
        {
            "program": program,
            "target": f"{spec.target!r}",
            "opt_level": str(spec.choices["opt_level"]),
            "required_pass": repr(sorted(spec.choices["required_pass"])),
            "disabled_pass": repr(sorted(spec.choices["disabled_pass"])),
            "config": repr(sorted(spec.choices["config"].items(), key=lambda item: item[0])),
            "outputs": repr(spec.outputs),
            "gil": str(spec.gil),
            "overlap": str(spec.overlap),
            "entry": entry_cache_key(),
            **spec.options.key(),
        }
    )


_PYTHON = "Python code decides what is compiled (tir.add_lower_pass or custom data types), which no key describes"


def _why_compile(program: str, ctx: PassContext) -> str:
    """Why the disk cache is not asked, if it is not."""
    if ctx.option("tir.add_lower_pass") or "custom[" in program:
        return _PYTHON
    if ctx.trace or ctx.validate or ctx.instruments:
        return "the passes were watched (trace, validate or instruments)"
    return ""


class CpuBackend:
    """Machine code by LLVM, linked into this process."""

    def resolve(self, target: Target, ctx: PassContext) -> tuple[Target, CompileOptions]:
        """LLVM's options; ``opt_level=0`` of the context means LLVM's too, unless the target says otherwise."""
        options = compile_options(target)
        if ctx.opt_level == 0 and target.get("opt-level") is None:
            options = options.with_(opt_level=0)
        return target, options

    def compiled(self, result: BuildResult, ctx: PassContext) -> CacheEntry:
        """The machine code of a version: from the disk cache, or compiled and kept there."""
        mod = result.spec.module
        cache = default_cache()
        program = save_json(mod)
        key = result.key = _key(result.spec, program)
        live = _why_compile(program, ctx)
        entry: CacheEntry | None = None if live else cache.load(key)
        if entry is not None and _names_places(entry) and entry.metadata["origin"] != _origin(mod):
            entry = None  # the same program from another place: its errors and its report would name the old lines
        result.cached = entry is not None
        result.miss = lambda: live or str(cache.explain_miss(key))
        if entry is None:
            entry = _imported("steps").compile_version(result, ctx)
            if live != _PYTHON:
                cache.store(key, entry.object, entry.metadata)
        else:
            result.checks = CheckReport.from_json(entry.metadata["checks"])
            result.in_place = {name: one["in_place"] for name, one in entry.metadata["kernels"].items()}
        result.code_bytes = len(entry.object)
        return entry

    def generate(self, result: BuildResult) -> HostCode:
        """The LLVM IR, with the functions that Python calls."""
        code: HostCode = _imported("cpu_compile").generate_code(result.lowered, result.spec, result.in_place)
        return code

    def compile(self, result: BuildResult, code: HostCode, progress: Progress) -> CacheEntry:
        """The machine code, with what the disk cache keeps of the build."""
        compiled = engine().compile_parts(code.parts, result.spec.options, progress.begin)
        result.timings.update({f"llvm {step}": ms for step, ms in compiled.timings.items()})
        metadata = {
            "kernels": code.kernels,
            "imports": sorted(code.generated.imports),
            "threads": code.generated.num_threads,
            "origin": _origin(result.spec.module),
            "checks": result.checks.to_json(),
        }
        return CacheEntry(compiled.object, metadata)

    def bind(self, result: BuildResult, compiled: CacheEntry) -> dict[str, Kernel]:
        """Link the object and make the callables."""
        start = time.perf_counter()
        spec = result.spec
        linked = _linked(compiled)
        missing = lacking(spec.options.cpu, spec.options.features)
        kernels: dict[str, Kernel] = {}
        for name, one in compiled.metadata["kernels"].items():
            signature = call_signature(spec.function(name), one["written"], spec.outputs.get(name, ()), one["in_place"])
            gil = GilPolicy(release=spec.gil)
            overlap = Overlapping(result, name) if signature.alias_pairs() else None
            parts = entry_parts(signature, linked, _errors(one), name=one["symbol"], gil=gil, overlap=overlap)
            kernel = (ForeignKernel if missing else Kernel).made(result, name, parts)
            if isinstance(kernel, ForeignKernel):
                kernel.lacking = missing
            kernels[name] = kernel
        result.timings["link"] = (time.perf_counter() - start) * 1e3
        return kernels

    def packed(self, result: BuildResult, compiled: CacheEntry, name: str) -> PackedKernel:
        """Link the version of a function for arrays that overlap."""
        one = compiled.metadata["kernels"][name]
        return packed_kernel(_linked(compiled), one["symbol"], _errors(one))

    def text(self, result: BuildResult, kind: str) -> str:
        """LLVM IR and assembly: of the modules that were compiled, less the functions that Python calls."""
        code: HostCode = result.code
        if kind == "llvm":
            return code.functions
        make = optimized_ir if kind == "llvm-opt" else emit_assembly
        symbols = [one["symbol"] for one in code.kernels.values()]
        return "".join(without_entries(make(part, result.spec.options), symbols) for part in code.parts)

    def report(self, result: BuildResult) -> Report:
        """What the build did, with the innermost loops of the machine code."""
        return report_of(result, lambda: result.source("asm"))


BACKEND: Final = CpuBackend()


@functools.cache
def _imported(name: str) -> ModuleType:
    """The compiler: two hundred modules, which a kernel from the cache does without."""
    found = importlib.import_module(f"tirlower.driver.{name}")
    keep_for_good()
    return found


def _names_places(entry: CacheEntry) -> bool:
    checks = entry.metadata["checks"]
    noted = checks["guarded"] or checks["trusted"] or checks["assumed"]
    return bool(noted) or any(one["errors"] for one in entry.metadata["kernels"].values())


def _origin(mod: IRModule) -> str:
    """Where the functions stand in their files: the places that error messages name depend on it."""
    return " ".join(f"{name}={func.span}" for name, func in mod.items())


def _linked(entry: CacheEntry) -> Linked:
    exports = [symbol for one in entry.metadata["kernels"].values() for symbol in one["exports"]]
    imports = {**entry_imports(), **resolve_imports(entry.metadata["imports"])}
    if entry.metadata["threads"]:
        runtime().reserve(entry.metadata["threads"])
    return engine().link(entry.object, exports, imports)


def _errors(described: Mapping[str, Any]) -> list[ErrorSite]:
    return [ErrorSite(_error_class(m, k), template, tuple(types)) for m, k, template, types in described["errors"]]


def _error_class(module: str, name: str) -> type[Exception]:
    found = getattr(importlib.import_module(module), name)
    if not (isinstance(found, type) and issubclass(found, Exception)):
        raise LoweringError(f"{module}.{name} is no exception class", origin="build", help="clear the disk cache")
    return found
