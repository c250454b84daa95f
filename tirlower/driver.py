"""The road from a prim func to a callable: ``lower``, ``build``, ``jit``."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, overload

from tirlower.artifact import Artifact, Recipe
from tirlower.diagnostics import LoweringError, TirError, paused_collection
from tirlower.emit.compile import CompileOptions
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.json_io import save_json
from tirlower.ir.target import Target
from tirlower.ir.verify import verify_well_formed
from tirlower.kernel import Executable, Kernel
from tirlower.legality import check_legality
from tirlower.llvm.cache import CacheEntry, CacheKey, default_cache
from tirlower.llvm.codegen import KernelInfo, compile_options, generate, resolve_imports, signature_of
from tirlower.llvm.engine import engine
from tirlower.llvm.entry import ErrorSite, GilPolicy, add_entry, entry_cache_key, entry_imports, entry_parts
from tirlower.llvm.parallel import runtime
from tirlower.pipeline import pipeline_for
from tirlower.report import Checks
from tirlower.transforms import PassContext, PassTimingInstrument

__all__ = ["JitFunction", "build", "generate_text", "jit", "lower"]

GilChoice = bool | Literal["auto"]


def _module_of(program: Any) -> tuple[IRModule, bool]:
    """A module, and whether a single function was given."""
    if isinstance(program, PrimFunc):
        name = program.name
        return IRModule({name: program.with_attr("global_symbol", name)}), True
    if isinstance(program, IRModule):
        return program, False
    if isinstance(program, Kernel):
        return _module_of(program.func)
    raise TirError(
        f"expected a PrimFunc or an IRModule, got {type(program).__name__}",
        help="decorate the function with @T.prim_func, the class with @I.ir_module",
    )


def _target_of(target: Any) -> Target:
    found = Target.current() if target is None else Target(target)
    return found if found is not None else Target("llvm")


def _compile_options(target: Target, ctx: PassContext) -> CompileOptions:
    """LLVM's options for a target; ``opt_level=0`` of the context means LLVM's too, unless the target says otherwise."""
    options = compile_options(target)
    if ctx.opt_level == 0 and target.get("opt-level") is None:
        return options.with_(opt_level=0)
    return options


def lower(program: PrimFunc | IRModule, target: Any = None, *, until: str | None = None) -> IRModule:
    """The module after the passes of the target's pipeline, or after the first run of the pass ``until``.

    ``target`` is a :class:`Target` or its text; the current one, or ``"llvm"``, when left out.
    Loops and accesses are checked first, and what is not proved inside its buffer gets a guard (docs/legality.md).
    Raises :class:`WellFormedError` for an ill-formed program, :class:`LegalityError` for a loop or an access that is
    refused, :class:`TransformError` from the passes.

    >>> from tirlower.script import tir as T
    >>> @T.prim_func
    ... def f(A: T.Buffer((4, 4), "float32")):
    ...     for i, j in T.grid(4, 4):
    ...         A[i, j] = T.float32(1)
    >>> "A_1[i * 4 + j]" in lower(f, until="FlattenBuffer").script()
    True
    """
    mod, _ = _module_of(program)
    where = _target_of(target)
    with paused_collection():
        verify_well_formed(mod)
        checked = check_legality(mod, PassContext.current())
        return pipeline_for(where).run(checked.module, PassContext.current(), until)


@overload
def build(
    program: PrimFunc, target: Any = None, *, outputs: Sequence[str] | None = None, gil: GilChoice = "auto"
) -> Kernel: ...
@overload
def build(
    program: IRModule, target: Any = None, *, outputs: Sequence[str] | None = None, gil: GilChoice = "auto"
) -> Executable: ...
def build(
    program: PrimFunc | IRModule,
    target: Any = None,
    *,
    outputs: Sequence[str] | None = None,
    gil: GilChoice = "auto",
) -> Kernel | Executable:
    """Compile a function to a :class:`Kernel`, or a module to an :class:`Executable` of its exported functions.

    ``target``: a :class:`Target` or its text (``"llvm -mcpu=x86-64-v4"``); the current one, or the host's, when left
    out. ``outputs``: names of parameters (or, for a module, of each function's) that calls do not pass; they are
    allocated and returned. The attribute ``tir.outputs`` says the same. ``gil``: whether calls release the global
    interpreter lock; ``"auto"`` does when the work is longer than a few microseconds.

    Machine code is kept on disk, keyed by everything that determines it (``Kernel.explain_miss`` says why it was not
    found). Loops and accesses are checked as :func:`lower` does. Raises :class:`WellFormedError`,
    :class:`LegalityError`, :class:`TransformError`, :class:`LoweringError` or :class:`CodegenError`.

    >>> import numpy as np
    >>> from tirlower.script import tir as T
    >>> @T.prim_func
    ... def f(A: T.Buffer(("n",), "int32"), B: T.Buffer(("n",), "int32")):
    ...     for i in range(n):
    ...         B[i] = A[i] + 1
    >>> build(f, outputs=["B"])(np.arange(3, dtype="int32"))
    array([1, 2, 3], dtype=int32)
    """
    mod, single = _module_of(program)
    where = _target_of(target)
    made: tuple[Any, Mapping[str, Any]]
    if _is_gpu(where):
        made = _build_for_gpu(mod, where, outputs)
    else:
        with paused_collection():
            made = _build(mod, where, PassContext.current(), outputs, gil)
    if not single:
        return Executable(*made)
    _, kernels = made
    kernel: Kernel = next(iter(kernels.values()))
    return kernel


def _is_gpu(target: Target) -> bool:
    return target.kind in ("nvptx", "cuda")


def _build_for_gpu(mod: IRModule, target: Target, outputs: Sequence[str] | None) -> tuple[Any, Mapping[str, Any]]:
    chosen = {name: _outputs(func, outputs) for name, func in _exported(mod).items()}
    made: tuple[Any, Mapping[str, Any]] = _device_build().build_for_device(mod, target, PassContext.current(), chosen)
    return made


def _device_build() -> Any:
    """The road to a GPU, imported when a target asks for it."""
    return importlib.import_module("tirlower.device_build")


def _exported(mod: IRModule) -> dict[str, PrimFunc]:
    found = {str(f.attrs["global_symbol"]): f for f in mod.functions.values() if "global_symbol" in f.attrs}
    if not found:
        raise LoweringError(
            "the module exports no function", origin="build", help="give a function the attribute global_symbol"
        )
    return found


def _outputs(func: PrimFunc, outputs: Sequence[str] | None) -> tuple[str, ...]:
    chosen = func.attrs.get("tir.outputs", ()) if outputs is None else outputs
    if isinstance(chosen, str):
        chosen = (chosen,)
    return tuple(str(name) for name in chosen)


def _key(recipe: Recipe, program: str, outputs: Mapping[str, tuple[str, ...]], gil: GilChoice) -> CacheKey:
    return default_cache().key(
        {
            "program": program,
            "target": f"{recipe.target!r}",
            "pipeline": str(recipe.pipeline),
            "opt_level": str(recipe.opt_level),
            "config": repr(sorted(recipe.config.items(), key=lambda item: item[0])),
            "outputs": repr(outputs),
            "gil": str(gil),
            "entry": entry_cache_key(),
            **recipe.options.key(),
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


def _build(
    mod: IRModule, target: Target, ctx: PassContext, outputs: Sequence[str] | None, gil: GilChoice
) -> tuple[Artifact, dict[str, Kernel]]:
    start = time.perf_counter()
    options = _compile_options(target, ctx)
    recipe = Recipe(mod, target, pipeline_for(target), ctx.opt_level, dict(ctx.config), options)
    exported = _exported(mod)
    chosen = {name: _outputs(func, outputs) for name, func in exported.items()}
    cache = default_cache()
    program = save_json(mod)
    key = _key(recipe, program, chosen, gil)
    live = _why_compile(program, ctx)
    entry = None if live else cache.load(key)
    if entry is not None and _names_places(entry) and entry.metadata["origin"] != _origin(mod):
        entry = None  # the same program from another place: its errors and its report would name the old lines
    artifact = Artifact(recipe, 0, entry is not None, key, cache, "")
    if entry is None:
        artifact.miss = live
        entry = _compile(artifact, ctx, chosen, gil)
        if live != _PYTHON:
            cache.store(key, entry.object, entry.metadata)
    else:
        artifact.checks = Checks.from_json(entry.metadata["checks"])
    artifact.code_bytes = len(entry.object)
    kernels = _load(artifact, entry, exported, chosen, gil)
    artifact.timings["whole"] = (time.perf_counter() - start) * 1e3
    return artifact, kernels


def _compile(
    artifact: Artifact, ctx: PassContext, outputs: Mapping[str, tuple[str, ...]], gil: GilChoice
) -> CacheEntry:
    """Verify, lower, generate, optimise, emit."""
    recipe = artifact.recipe
    start = time.perf_counter()
    verify_well_formed(recipe.module)
    verified = time.perf_counter()
    legal = check_legality(recipe.module, ctx)
    artifact.checks = legal.checks
    checked = time.perf_counter()
    timing = PassTimingInstrument()
    ctx.instruments.append(timing)
    try:
        lowered = recipe.pipeline.run(legal.module, ctx)
    finally:
        ctx.instruments.remove(timing)
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
        exports = add_entry(generated.module, signature, info.ref, name=info.symbol, gil=_gil(gil, info))
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
        "origin": _origin(recipe.module),
        "checks": legal.checks.to_json(),
    }
    return CacheEntry(compiled.object, metadata)


def _names_places(entry: CacheEntry) -> bool:
    checks = entry.metadata["checks"]
    noted = checks["guarded"] or checks["trusted"] or checks["assumed"]
    return bool(noted) or any(one["errors"] for one in entry.metadata["kernels"].values())


def _origin(mod: IRModule) -> str:
    """Where the functions stand in their files: the places that error messages name depend on it."""
    return " ".join(f"{name}={func.span}" for name, func in mod.items())


def _gil(gil: GilChoice, info: KernelInfo) -> GilPolicy:
    return GilPolicy(release=gil, work=info.work)


def _load(
    artifact: Artifact,
    entry: CacheEntry,
    exported: Mapping[str, PrimFunc],
    outputs: Mapping[str, tuple[str, ...]],
    gil: GilChoice,
) -> dict[str, Kernel]:
    """Link the object and make the callables."""
    start = time.perf_counter()
    described = entry.metadata["kernels"]
    exports = [symbol for one in described.values() for symbol in one["exports"]]
    imports = {**entry_imports(), **resolve_imports(entry.metadata["imports"])}
    if entry.metadata["threads"]:
        runtime().reserve(entry.metadata["threads"])
    linked = engine().link(entry.object, exports, imports)
    kernels: dict[str, Kernel] = {}
    for name, one in described.items():
        func = exported[name]
        signature = signature_of(func, written=frozenset(one["written"]), outputs=outputs.get(name, ()))
        errors = [ErrorSite(_error_class(m, k), template, tuple(types)) for m, k, template, types in one["errors"]]
        parts = entry_parts(signature, linked, errors, name=one["symbol"], gil=GilPolicy(release=gil))
        kernels[name] = Kernel.made(artifact, name, parts)
    artifact.timings["link"] = (time.perf_counter() - start) * 1e3
    return kernels


def _error_class(module: str, name: str) -> type[Exception]:
    found = getattr(importlib.import_module(module), name)
    if not (isinstance(found, type) and issubclass(found, Exception)):
        raise LoweringError(f"{module}.{name} is no exception class", origin="build", help="clear the disk cache")
    return found


def generate_text(mod: IRModule, target: Target) -> str:
    """The LLVM IR of a lowered module, without the Python entry (our share of code generation alone)."""
    with paused_collection():
        return generate(mod, target).text


class JitFunction(Kernel):
    """A prim func that is compiled at its first call. Until then calls go through Python; afterwards, none does."""

    @property
    def func(self) -> PrimFunc:
        """The function as it was written."""
        return self._source

    _source: PrimFunc
    _options: dict[str, Any]

    def compile(self) -> Kernel:
        """Compile now, if that has not happened."""
        return self

    def script(self, **options: Any) -> str:
        """The script of the function."""
        return self._source.script(**options)


class _Pending(JitFunction):
    """A :class:`JitFunction` before its first call: the first use makes it one."""

    def __init__(self, source: PrimFunc, options: dict[str, Any]) -> None:
        # The entry's own state comes with the compilation.
        self._source = source
        self._options = options
        self._lock = threading.Lock()
        self.name = source.name

    def compile(self) -> Kernel:
        """Compile, and become a :class:`JitFunction`. Of several threads one compiles, the others wait."""
        with self._lock:
            # Once a JitFunction, the object may be executing: its code must not be replaced.
            return self if type(self) is JitFunction else self._become()

    def _become(self) -> Kernel:
        artifact, kernels = _build(
            _module_of(self._source)[0],
            _target_of(self._options["target"]),
            PassContext.current(),
            self._options["outputs"],
            self._options["gil"],
        )
        kernels[self.name].move_into(self)
        self.artifact = artifact
        self.__class__ = JitFunction  # type: ignore[assignment]
        return self

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Compile, then call."""
        return self.compile()(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tirlower.jit {self.name}, not compiled yet>"

    def __getattr__(self, key: str) -> Any:
        # What a compiled kernel knows (artifact, signature, …) asks for the compilation.
        if key.startswith("__") or key in ("_source", "_options", "_lock", "name"):
            raise AttributeError(key)
        return getattr(self.compile(), key)


@overload
def jit(program: PrimFunc) -> JitFunction: ...
@overload
def jit(
    program: None = None, *, target: Any = None, outputs: Sequence[str] | None = None, gil: GilChoice = "auto"
) -> Callable[[PrimFunc], JitFunction]: ...
def jit(
    program: PrimFunc | None = None,
    *,
    target: Any = None,
    outputs: Sequence[str] | None = None,
    gil: GilChoice = "auto",
) -> JitFunction | Callable[[PrimFunc], JitFunction]:
    """Compile a prim func at its first call (or from the disk cache); ``@tl.jit`` or ``@tl.jit(target=…, outputs=[…])``.

    The options are those of :func:`build`.
    """

    def decorate(func: PrimFunc) -> JitFunction:
        if not isinstance(func, PrimFunc):
            raise TirError(
                f"tl.jit decorates a prim func, got {type(func).__name__}", help="write @T.prim_func below @tl.jit"
            )
        if target is not None and _is_gpu(Target(target)):
            lazy: JitFunction = _device_build().LazyDeviceKernel(func, lambda: build(func, target, outputs=outputs))
            return lazy
        return _Pending(func, {"target": target, "outputs": outputs, "gil": gil})

    return decorate if program is None else decorate(program)
