"""Building a module for whatever target: its kernels, and their versions for arrays that overlap."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

from tirlower.call.gil import GilChoice
from tirlower.call.parameters import outputs_of
from tirlower.call.slowpath import PackedKernel
from tirlower.diagnostics import ArgumentValueError, LoweringError, TirError, paused_collection
from tirlower.driver.backend import backend_of
from tirlower.driver.kernel import BuiltKernel, Kernel
from tirlower.driver.result import BuildResult, BuildSpec
from tirlower.driver.tuned import with_tuned_plans
from tirlower.ir.func import IRModule, PrimFunc, Scheduled
from tirlower.machine.target import Target, TargetLike
from tirlower.transforms import PassContext

__all__ = ["Overlapping", "build_module", "exported_functions", "module_of", "target_of"]


def module_of(program: object) -> tuple[IRModule, bool]:
    """A module, and whether a single function was given."""
    if isinstance(program, PrimFunc):
        name = program.name
        return IRModule({name: program.with_attr("global_symbol", name)}), True
    if isinstance(program, IRModule):
        return program, False
    if isinstance(program, Scheduled):
        return module_of(program.program)
    if isinstance(program, BuiltKernel):
        return module_of(program.func)
    raise TirError(
        f"expected a PrimFunc or an IRModule, got {type(program).__name__}",
        help="decorate the function with @T.prim_func, the class with @I.ir_module",
    )


def target_of(target: TargetLike) -> Target:
    """The target that is meant: a value or its text, or without one the current target, or this machine's."""
    found = Target.current() if target is None else Target(target)
    return found if found is not None else Target("llvm")


def exported_functions(mod: IRModule) -> dict[str, PrimFunc]:
    """The functions of a module that have a symbol, by it. Raises :class:`LoweringError` when there is none."""
    found = {str(f.attrs["global_symbol"]): f for f in mod.functions.values() if "global_symbol" in f.attrs}
    for func in mod.functions.values():
        other = found.get(str(func.attrs.get("global_symbol")), func)
        if str(other.attrs.get("target", "")) != str(func.attrs.get("target", "")):
            raise LoweringError(
                f"two functions of the module export {func.attrs['global_symbol']!r}, and a build has one target",
                origin="build",
                help="build the functions of each target as a module of their own",
            )
    if not found:
        raise LoweringError(
            "the module exports no function", origin="build", help="give a function the attribute global_symbol"
        )
    return found


def build_module(
    mod: IRModule,
    target: Target,
    ctx: PassContext,
    outputs: Sequence[str] | None,
    gil: GilChoice = "auto",
    schedule: str = "none",
) -> tuple[BuildResult, Mapping[str, Kernel]]:
    """Compile the exported functions of a module, or find them compiled in the disk cache; the kernels by symbol.

    ``schedule`` is "none", "auto" or the JSON of a trace.

    Raises :class:`WellFormedError`, :class:`LegalityError`, :class:`TransformError`, :class:`LoweringError` or
    :class:`CodegenError`.
    """
    start = time.perf_counter()
    backend = backend_of(target)
    with paused_collection():
        resolved, options = backend.resolve(target, ctx)
        chosen = {name: outputs_of(func, outputs) for name, func in exported_functions(mod).items()}
        schedule = with_tuned_plans(mod, schedule, resolved, ctx.choices)
        spec = BuildSpec(mod, resolved, ctx.choices, options, chosen, gil, asked=target, schedule=schedule)
        result = BuildResult(spec, backend)
        kernels = backend.bind(result, backend.compiled(result, ctx))
    result.timings["whole"] = (time.perf_counter() - start) * 1e3
    return result, kernels


class Overlapping:
    """The version of a kernel for arrays that overlap, compiled when the first call has such.

    Of several threads one compiles, the others wait. It is built as the kernel was, under the options of its context.
    """

    def __init__(self, result: BuildResult, name: str) -> None:
        self._result = result
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
        name, spec, backend = self._name, self._result.spec, self._result.backend
        spec = spec.overlapping(name)
        made = BuildResult(spec, backend)
        try:
            with paused_collection():
                compiled = backend.compiled(made, spec.context())
        except TirError as error:
            raise ArgumentValueError(
                f"`{name}`: its arrays overlap, and there is no version of it for such: {error.message}",
                origin="call",
                help="pass arrays that share no memory, such as copies",
            ) from error
        self._result.overlap[name] = made
        return backend.packed(made, compiled, name)
