"""The backend of the host: machine code from the disk cache, or compiled, linked and callable.

What compiles (the steps, the passes, the code generator) stands behind :mod:`tirlower.driver.steps` and is imported when
something is not in the cache.
"""

from __future__ import annotations

import functools
import importlib
import time
from types import ModuleType
from typing import TYPE_CHECKING, Final

from tirlower.call.errors import ErrorSite
from tirlower.call.gil import GilPolicy
from tirlower.call.parameters import call_signature
from tirlower.call.slowpath import PackedKernel
from tirlower.diagnostics import LoweringError, keep_for_good
from tirlower.driver.build import Overlapping
from tirlower.driver.cpu_cache import key_of, load_all, origin_of, store, take
from tirlower.driver.kernel import ForeignKernel, Kernel
from tirlower.driver.result import BuildResult
from tirlower.emit.compile import CompileOptions, emit_assembly, optimized_ir
from tirlower.ir.json_io import save_json
from tirlower.llvm.cache import CacheEntry, default_cache
from tirlower.llvm.codegen import compile_options, resolve_imports
from tirlower.llvm.codegen.symbols import ERROR_BASE
from tirlower.llvm.entry import entry_imports, entry_parts, packed_kernel, without_entries
from tirlower.llvm.jit import Linked, engine
from tirlower.llvm.parallel import runtime
from tirlower.machine.cpu import lacking
from tirlower.machine.target import Target
from tirlower.transforms import PassContext

if TYPE_CHECKING:
    from tirlower.driver.cpu_compile import HostCode
    from tirlower.driver.progress import Progress
    from tirlower.driver.report import Report

__all__ = ["BACKEND", "CpuBackend"]


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

    def compiled(self, result: BuildResult, ctx: PassContext) -> list[CacheEntry]:
        """The machine code of a version, in units: from the disk cache, or compiled and kept there."""
        mod = result.spec.module
        program = save_json(mod)
        key = result.key = key_of(result.spec, program)
        live = _why_compile(program, ctx)
        result.miss = lambda: live or str(default_cache().explain_miss(key))
        stored = None if live else load_all(key, mod)
        if stored is not None:
            result.cached, result.reused = True, frozenset(mod)
            take(result, stored)
            return [unit.entry for unit in stored]
        compiler = _imported("cpu_units")
        if not live:
            units: list[CacheEntry] = compiler.compile_units(result, ctx)
            return units
        entry: CacheEntry = compiler.compile_alone(result, ctx)
        if live != _PYTHON:
            store(key, entry)
        return [entry]

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
            "errors": [
                [site.kind.__module__, site.kind.__name__, site.template, list(site.types)]
                for site in code.generated.errors
            ],
            "calls": code.calls,
            "callable": code.callable,
            "imports": sorted(code.generated.imports),
            "threads": code.generated.num_threads,
            "origin": origin_of(result.spec.module),
            "checks": result.checks.to_json(),
        }
        return CacheEntry(compiled.object, metadata)

    def bind(self, result: BuildResult, compiled: list[CacheEntry]) -> dict[str, Kernel]:
        """Link the objects and make the callables."""
        start = time.perf_counter()
        spec = result.spec
        missing = lacking(spec.options.cpu, spec.options.features)
        code, errors = _linked(compiled)
        described = {name: one for entry in compiled for name, one in entry.part("kernels", dict).items()}
        kernels: dict[str, Kernel] = {}
        for name in spec.outputs:
            one = described[name]
            signature = call_signature(spec.function(name), one["written"], spec.outputs.get(name, ()), one["in_place"])
            gil = GilPolicy(release=spec.gil)
            overlap = Overlapping(result, name) if signature.alias_pairs() else None
            parts = entry_parts(signature, code[name], errors, name=one["symbol"], gil=gil, overlap=overlap)
            kernel = (ForeignKernel if missing else Kernel).made(result, name, parts)
            if isinstance(kernel, ForeignKernel):
                kernel.lacking = missing
            kernels[name] = kernel
        result.timings["link"] = (time.perf_counter() - start) * 1e3
        return kernels

    def packed(self, result: BuildResult, compiled: list[CacheEntry], name: str) -> PackedKernel:
        """Link the version of a function for arrays that overlap."""
        code, errors = _linked(compiled)
        return packed_kernel(code[name], compiled[0].part("kernels", dict)[name]["symbol"], errors)

    def text(self, result: BuildResult, kind: str) -> str:
        """LLVM IR and assembly: of the modules that were compiled, less the functions that Python calls."""
        codes: list[HostCode] = _imported("cpu_units").codes_in(result)
        if kind == "llvm":
            return "".join(code.functions for code in codes)
        make = optimized_ir if kind == "llvm-opt" else emit_assembly
        symbols = [str(one["symbol"]) for code in codes for one in code.kernels.values()]
        return "".join(
            without_entries(make(part, result.spec.options), symbols) for code in codes for part in code.parts
        )

    def report(self, result: BuildResult) -> Report:
        """What the build did, with the innermost loops of the machine code."""
        made: Report = _imported("report").report_of(result, lambda: result.source("asm"))
        return made


BACKEND: Final = CpuBackend()


@functools.cache
def _imported(name: str) -> ModuleType:
    """The compiler: two hundred modules, which a kernel from the cache does without."""
    found = importlib.import_module(f"tirlower.driver.{name}")
    keep_for_good()
    return found


def _linked(entries: list[CacheEntry]) -> tuple[dict[str, Linked], list[ErrorSite]]:
    """The code of each exported function, by symbol, and the errors that calls may meet; callees stand before callers."""
    runtime_imports = resolve_imports(dict.fromkeys(name for entry in entries for name in entry.part("imports", list)))
    threads = max(entry.part("threads", int) for entry in entries)
    if threads:
        runtime().reserve(threads)
    wanted = {symbol for entry in entries for symbol in entry.part("calls", list)}
    owners: dict[str, Linked] = {}
    found: dict[str, Linked] = {}
    errors: list[ErrorSite] = []
    for entry in entries:
        kernels, calls = entry.part("kernels", dict), entry.part("calls", list)
        exports = [symbol for one in kernels.values() for symbol in one["exports"]]
        called = wanted.intersection(entry.part("callable", list))
        if not exports and not called:
            continue  # functions that nobody calls
        imports = {name: runtime_imports[name] for name in entry.part("imports", list) if name in runtime_imports}
        imports |= {symbol: owners[symbol][symbol] for symbol in calls} | entry_imports()
        if ERROR_BASE in imports:
            imports[ERROR_BASE] = len(errors)
        keep = [owners[symbol] for symbol in calls]
        linked = engine().link(entry.object, [*exports, *sorted(called)], imports, keep=keep)
        owners.update(dict.fromkeys(called, linked))
        found.update(dict.fromkeys(kernels, linked))
        errors += _errors(entry)
    return found, errors


def _errors(entry: CacheEntry) -> list[ErrorSite]:
    sites = entry.part("errors", list)
    return [ErrorSite(_error_class(m, k), template, tuple(types)) for m, k, template, types in sites]


def _error_class(module: str, name: str) -> type[Exception]:
    found = getattr(importlib.import_module(module), name)
    if not (isinstance(found, type) and issubclass(found, Exception)):
        raise LoweringError(f"{module}.{name} is no exception class", origin="build", help="clear the disk cache")
    return found
