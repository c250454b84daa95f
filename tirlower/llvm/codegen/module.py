"""From a lowered IRModule to an LLVM module, with all that is needed to compile, link and call it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tirlower.analysis.call_graph import calls_of
from tirlower.call.errors import ErrorSite
from tirlower.call.extents import Compound
from tirlower.call.signature import Signature
from tirlower.diagnostics import LoweringError
from tirlower.emit import intrinsics
from tirlower.emit.body import Bodies
from tirlower.emit.emitter import FunctionState, ModuleState
from tirlower.emit.llvm_text import FunctionRef, Module
from tirlower.emit.loops import NO_MEMCPY
from tirlower.emit.machine import Machine
from tirlower.emit.platform import Platform
from tirlower.ir.annotations import ELSEWHERE, LINKED
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.llvm.codegen.cost import estimate_work
from tirlower.llvm.codegen.kernel import (
    Prototype,
    declare_deep,
    declare_elsewhere,
    declare_kernel,
    emit_kernel,
    prototype_of,
)
from tirlower.llvm.codegen.machine import machine_of
from tirlower.llvm.codegen.platform import HOST
from tirlower.llvm.codegen.stack import fill_deep, fill_guarded, functions_to_check, is_checkable
from tirlower.llvm.codegen.symbols import PARALLEL_SYMBOLS, RUNTIME_SYMBOLS
from tirlower.machine import cpu as host
from tirlower.machine.target import Target

__all__ = ["GeneratedModule", "KernelInfo", "generate", "kernel_symbol", "linked_symbol"]

_FAMILIES = intrinsics.__all__  # imported for the rules that they register


@dataclass(frozen=True)
class KernelInfo:
    """An exported kernel: what ``add_entry`` and ``make_entry`` of :mod:`tirlower.llvm.entry` take.

    ``symbol`` is the LLVM function's name, ``ref`` the function; ``errors`` the module's table; ``work`` an estimate of the
    scalar operations of a call (a number, or an expression of symbols; None where it is not known).
    """

    signature: Signature
    symbol: str
    ref: FunctionRef
    errors: tuple[ErrorSite, ...]
    work: int | Compound | None


@dataclass(frozen=True)
class GeneratedModule:
    """LLVM code of a module.

    ``module`` may still be added to (entries); :attr:`text` prints it. ``imports`` names the symbols whose addresses
    linking needs (:func:`~tirlower.llvm.codegen.symbols.resolve_imports`): registered external functions, and the thread
    pool's where there are parallel loops. ``num_threads`` is the largest number of threads that a loop asks for (to be
    given to ``Runtime.reserve``), 0 for the default.
    """

    module: Module
    kernels: Mapping[str, KernelInfo]
    errors: tuple[ErrorSite, ...]
    machine: Machine
    imports: tuple[str, ...] = ()
    num_threads: int = 0

    @property
    def text(self) -> str:
        """The module as LLVM assembly."""
        return self.module.text()

    @property
    def is_parallel(self) -> bool:
        """Whether a kernel launches parallel loops."""
        return any(name in PARALLEL_SYMBOLS for name in self.imports)


def kernel_symbol(name: str) -> str:
    """The LLVM name of a kernel: never one that the C library has, or that LLVM takes for one of its functions."""
    return f"{name}.kernel"


def linked_symbol(func: PrimFunc, key: str) -> str:
    """The LLVM name of a function of a module: what other objects call it by, where they may."""
    label = str(func.attrs.get("global_symbol", key))
    return kernel_symbol(f"{label}.linked" if LINKED in func.attrs and "global_symbol" not in func.attrs else label)


def generate(
    module: IRModule | PrimFunc,
    target: Target | str = "llvm",
    *,
    outputs: Mapping[str, tuple[str, ...]] | None = None,
    check_assumptions: bool = False,
    name: str | None = None,
    platform: Platform = HOST,
) -> GeneratedModule:
    """Generate LLVM code for all functions of a lowered module.

    Functions with a ``global_symbol`` become exported kernels, found in ``kernels`` under that name; others
    are internal. ``outputs`` names, for each function, the buffers that a call allocates (the attribute ``tir.outputs``
    does the same). ``check_assumptions`` makes ``T.assume`` a check instead of a promise. ``platform`` is the host as it is,
    or with more to it.

    Raises:
        LoweringError: something that the passes should have removed: a block, a thread axis, a parameter of no kind.
        CodegenError: something that the host cannot do, or a wrong program: an unknown function, a missing feature.
    """
    if isinstance(module, PrimFunc):
        module = IRModule.from_expr(module)
    machine = machine_of(target if isinstance(target, Target) else Target(target))
    out = Module(name or "_".join(module.functions) or "empty", machine.triple, host.data_layout())
    state = ModuleState(out, machine, platform, dict(module.functions), check_assumptions=check_assumptions)
    prototypes: dict[str, Prototype] = {}
    declared = {}
    bodies = Bodies(module.functions)
    symbols: dict[str, str] = {}
    called = {call.op.name for func in module.functions.values() for call in calls_of(func)}
    for key, func in module.items():
        exported = func.attrs.get("global_symbol")
        label = str(exported) if exported is not None else key
        checked = exported is not None and LINKED not in func.attrs and called.isdisjoint((key, label))
        prototype = prototype_of(label, func, bodies.of(key), tuple((outputs or {}).get(key, ())), checked)
        internal = exported is None and LINKED not in func.attrs
        symbol = linked_symbol(func, key)
        if out.symbol(symbol) is not None:
            if not internal:
                raise LoweringError(
                    f"two functions of the module have the global symbol {label!r}",
                    origin="codegen",
                    span=func.span,
                    help="give each a name of its own",
                )
            symbol = out.unique_name(symbol)
        if ELSEWHERE in func.attrs:
            ref = declare_elsewhere(state, prototype, symbol)
        else:
            prototypes[key], symbols[key] = prototype, symbol
            declared[key] = declare_kernel(state, prototype, symbol, internal)
            ref = declared[key].ref
        state.callees[key] = ref
        if label != key:
            # Calls name a function by its key in the module, or by its global symbol.
            state.callees.setdefault(label, ref)
            state.functions.setdefault(label, func)
        if prototype.returns is not None:
            state.returns[key] = state.returns[label] = prototype.returns
    deep, large = functions_to_check(module.functions) if is_checkable(state) else (set(), set())
    inside = {
        key: declare_deep(state, prototypes[key], out.unique_name(f"{symbols[key]}.deep")) for key in deep - large
    }
    for key, function in inside.items():
        state.deep[declared[key].ref.text] = function.ref
    for key, prototype in prototypes.items():
        function = declared[key]
        if key in large:
            body = declare_kernel(state, prototype, out.unique_name(f"{symbols[key]}.body"), internal=True)
            size = emit_kernel(state, prototype, body, large=True)
            err = len(prototype.func.params) + len(prototype.symbols)
            fill_guarded(state, function, body, size, FunctionState(prototype.name, prototype.func), err)
        elif key in deep:
            emit_kernel(state, prototype, inside[key], deep=True)
            fill_deep(state, function, inside[key])
        else:
            emit_kernel(state, prototype, function)
    out.mark_callers(NO_MEMCPY)
    errors = tuple(state.errors.sites)
    kernels = {
        p.name: KernelInfo(p.signature, symbols[key], declared[key].ref, errors, estimate_work(p))
        for key, p in prototypes.items()
        if p.func.attrs.get("global_symbol") is not None
    }
    runtime = [symbol for symbol in RUNTIME_SYMBOLS if out.symbol(symbol) is not None]
    return GeneratedModule(out, kernels, errors, machine, (*state.imports, *runtime), state.num_threads)
