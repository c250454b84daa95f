"""The road from a module to kernels of the host: machine code from the disk cache, or compiled, linked and callable.

What compiles (the checks, the passes, the code generator) stands in :mod:`tirlower.driver.cpu_compile` and is imported when
something is not in the cache.
"""

from __future__ import annotations

import functools
import importlib
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from tirlower.call.errors import ErrorSite
from tirlower.call.gil import GilChoice, GilPolicy
from tirlower.call.parameters import call_signature, outputs_of
from tirlower.call.slowpath import PackedKernel
from tirlower.diagnostics import ArgumentValueError, LoweringError, TirError, keep_for_good, paused_collection
from tirlower.driver.kernel import ForeignKernel, Kernel
from tirlower.driver.result import Artifact, BuildSpec
from tirlower.emit.compile import CompileOptions
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.json_io import save_json
from tirlower.legality.notes import CheckReport
from tirlower.llvm.cache import CacheEntry, CacheKey, default_cache
from tirlower.llvm.codegen import compile_options, resolve_imports
from tirlower.llvm.entry import entry_cache_key, entry_imports, entry_parts, packed_kernel
from tirlower.llvm.jit import Linked, engine
from tirlower.llvm.parallel import runtime
from tirlower.machine.cpu import lacking
from tirlower.machine.target import Target
from tirlower.transforms import PassContext

__all__ = ["GilChoice", "build_for_host", "exported_functions"]


def _compile_options(target: Target, ctx: PassContext) -> CompileOptions:
    """LLVM's options for a target; ``opt_level=0`` of the context means LLVM's too, unless the target says otherwise."""
    options = compile_options(target)
    if ctx.opt_level == 0 and target.get("opt-level") is None:
        return options.with_(opt_level=0)
    return options


def exported_functions(mod: IRModule) -> dict[str, PrimFunc]:
    """The functions of a module that have a symbol, by it. Raises :class:`LoweringError` when there is none."""
    found = {str(f.attrs["global_symbol"]): f for f in mod.functions.values() if "global_symbol" in f.attrs}
    if not found:
        raise LoweringError(
            "the module exports no function", origin="build", help="give a function the attribute global_symbol"
        )
    return found


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


def build_for_host(
    mod: IRModule, target: Target, ctx: PassContext, outputs: Sequence[str] | None, gil: GilChoice
) -> tuple[Artifact, dict[str, Kernel]]:
    """Compile the exported functions of a module for this machine, or find them compiled in the disk cache.

    Raises :class:`WellFormedError`, :class:`LegalityError`, :class:`TransformError`, :class:`LoweringError` or
    :class:`CodegenError`.
    """
    start = time.perf_counter()
    options = _compile_options(target, ctx)
    exported = exported_functions(mod)
    chosen = {name: outputs_of(func, outputs) for name, func in exported.items()}
    spec = BuildSpec(mod, target, ctx.choices, options, chosen, gil)
    artifact, entry = _machine_code(spec, ctx)
    kernels = _load(artifact, entry, exported)
    artifact.timings["whole"] = (time.perf_counter() - start) * 1e3
    return artifact, kernels


def _machine_code(spec: BuildSpec, ctx: PassContext) -> tuple[Artifact, CacheEntry]:
    """The machine code of a version: from the disk cache, or compiled and kept there."""
    mod = spec.module
    cache = default_cache()
    program = save_json(mod)
    key = _key(spec, program)
    live = _why_compile(program, ctx)
    entry: CacheEntry | None = None if live else cache.load(key)
    if entry is not None and _names_places(entry) and entry.metadata["origin"] != _origin(mod):
        entry = None  # the same program from another place: its errors and its report would name the old lines
    artifact = Artifact(spec, 0, entry is not None, key, cache, "")
    if entry is None:
        artifact.miss = live
        entry = _compiler().compile_module(artifact, ctx, _origin(mod))
        if live != _PYTHON:
            cache.store(key, entry.object, entry.metadata)
    else:
        artifact.checks = CheckReport.from_json(entry.metadata["checks"])
    artifact.code_bytes = len(entry.object)
    return artifact, entry


@functools.cache
def _compiler() -> ModuleType:
    """The compiler: two hundred modules, which a kernel from the cache does without."""
    found = importlib.import_module("tirlower.driver.cpu_compile")
    keep_for_good()
    return found


def _names_places(entry: CacheEntry) -> bool:
    checks = entry.metadata["checks"]
    noted = checks["guarded"] or checks["trusted"] or checks["assumed"]
    return bool(noted) or any(one["errors"] for one in entry.metadata["kernels"].values())


def _origin(mod: IRModule) -> str:
    """Where the functions stand in their files: the places that error messages name depend on it."""
    return " ".join(f"{name}={func.span}" for name, func in mod.items())


def _load(artifact: Artifact, entry: CacheEntry, exported: Mapping[str, PrimFunc]) -> dict[str, Kernel]:
    """Link the object and make the callables."""
    start = time.perf_counter()
    spec = artifact.spec
    linked = _linked(entry)
    missing = lacking(spec.options.cpu, spec.options.features)
    kernels: dict[str, Kernel] = {}
    for name, one in entry.metadata["kernels"].items():
        signature = call_signature(exported[name], one["written"], spec.outputs.get(name, ()), one["in_place"])
        gil = GilPolicy(release=spec.gil)
        overlap = _Overlapping(artifact, name) if signature.alias_pairs() else None
        parts = entry_parts(signature, linked, _errors(one), name=one["symbol"], gil=gil, overlap=overlap)
        kernel = (ForeignKernel if missing else Kernel).made(artifact, name, parts)
        if isinstance(kernel, ForeignKernel):
            kernel.lacking = missing
        kernels[name] = kernel
    artifact.timings["link"] = (time.perf_counter() - start) * 1e3
    return kernels


def _linked(entry: CacheEntry) -> Linked:
    exports = [symbol for one in entry.metadata["kernels"].values() for symbol in one["exports"]]
    imports = {**entry_imports(), **resolve_imports(entry.metadata["imports"])}
    if entry.metadata["threads"]:
        runtime().reserve(entry.metadata["threads"])
    return engine().link(entry.object, exports, imports)


def _errors(described: Mapping[str, Any]) -> list[ErrorSite]:
    return [ErrorSite(_error_class(m, k), template, tuple(types)) for m, k, template, types in described["errors"]]


class _Overlapping:
    """The version of a kernel for arrays that overlap, compiled when the first call has such.

    Of several threads one compiles, the others wait. It is built as the kernel was, under the options of its context.
    """

    def __init__(self, artifact: Artifact, name: str) -> None:
        self._artifact = artifact
        self._name = name
        self._lock = threading.Lock()
        self._made: PackedKernel | None = None

    def __call__(self) -> PackedKernel:
        if self._made is None:
            with self._lock:
                if self._made is None:
                    self._made = self._make()
        return self._made

    def _make(self) -> PackedKernel:
        name, spec = self._name, self._artifact.spec
        spec = replace(spec, overlap=name, outputs={name: spec.outputs.get(name, ())})
        try:
            with paused_collection():
                made, entry = _machine_code(spec, spec.context())
        except TirError as error:
            raise ArgumentValueError(
                f"`{name}`: its arrays overlap, and there is no version of it for such: {error.message}",
                origin="call",
                help="pass arrays that share no memory, such as copies",
            ) from error
        self._artifact.overlap[name] = made
        one = entry.metadata["kernels"][name]
        return packed_kernel(_linked(entry), one["symbol"], _errors(one))


def _error_class(module: str, name: str) -> type[Exception]:
    found = getattr(importlib.import_module(module), name)
    if not (isinstance(found, type) and issubclass(found, Exception)):
        raise LoweringError(f"{module}.{name} is no exception class", origin="build", help="clear the disk cache")
    return found
