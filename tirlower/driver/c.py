"""The road from a module to kernels of the target ``c``: check, lower, write C, compile it, load it."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tirlower.c.codegen.module import CModule, generate
from tirlower.c.compile import compile_text
from tirlower.c.library import Library, packed
from tirlower.call.gil import GilChoice, GilPolicy
from tirlower.call.parameters import call_signature
from tirlower.call.slowpath import FallbackEntry, PackedKernel, SlowPath
from tirlower.diagnostics import ArgumentValueError, TirError, nearest_name, paused_collection
from tirlower.driver.cpu import exported_functions
from tirlower.driver.kernel import BuiltKernel
from tirlower.driver.report import Report
from tirlower.driver.result import BuildSpec
from tirlower.emit.compile import CompileOptions
from tirlower.ir.expr import Call, StringImm
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.functor import pre_order_visit
from tirlower.ir.op import Op
from tirlower.ir.verify import verify_well_formed
from tirlower.legality.notes import CheckReport
from tirlower.llvm.codegen.symbols import find_symbol
from tirlower.machine.target import Target
from tirlower.transforms import PassContext, PassTimingInstrument

__all__ = ["CArtifact", "CKernel", "build_by_c"]

SOURCE_KINDS = ("tir", "c")

_EXTERN = (Op.get("tir.call_extern"), Op.get("tir.call_pure_extern"))


@dataclass
class CArtifact:
    """What the kernels of one build share: what determined it, the lowered module, the text, times and checks."""

    spec: BuildSpec
    lowered: IRModule
    module: CModule
    library: Library
    checks: CheckReport
    code_bytes: int
    timings: dict[str, float] = field(default_factory=dict)
    passes: dict[str, float] = field(default_factory=dict)
    traced: Mapping[str, IRModule] = field(default_factory=dict)
    overlap: dict[str, CArtifact] = field(default_factory=dict)
    """The builds of versions for overlapping arrays that calls have asked for, by function."""

    @property
    def target(self) -> Target:
        """The target of the build."""
        return self.spec.target

    def function(self, name: str) -> PrimFunc:
        """A function as it was given."""
        return self.spec.function(name)

    def rebuilding(self, name: str | None) -> tuple[Any, ...]:
        """What pickle keeps of a kernel of this build, or of all of them."""
        return self.spec.rebuilding(name)

    @property
    def ir_after(self) -> Mapping[str, IRModule]:
        """The module after each pass (lowered again with a trace where the build had none)."""
        if not self.traced:
            ctx = self.spec.context(trace=True)
            with ctx:
                self.spec.lower(ctx)
            self.traced = ctx.ir_after
        return self.traced

    def source(self, kind: str = "tir") -> str:
        """The program at a stage: ``"tir"`` (after the passes) or ``"c"``. Raises :class:`TirError` for another kind."""
        if kind == "tir":
            lowered = self.lowered
            return lowered[next(iter(lowered))].script() if len(lowered) == 1 else lowered.script()
        if kind == "c":
            return self.module.text
        near = nearest_name(kind, SOURCE_KINDS)
        raise TirError(
            f"no source of kind {kind!r} for the target 'c'",
            help=f"did you mean {near!r}?" if near else f"the kinds are {', '.join(SOURCE_KINDS)}",
        )

    def show(self, kind: str = "tir") -> None:
        """Print :meth:`source`, the script coloured where the terminal shows colours."""
        if kind == "tir":
            self.lowered.show()
        else:
            print(self.source(kind))

    def explain_miss(self) -> str:
        """Why the machine code was compiled rather than read from the disk cache."""
        return "what the system's C compiler makes is not kept on disk"

    def report(self) -> Report:
        """What the build did."""
        return Report(
            target=str(self.target),
            functions=tuple(self.spec.module.functions),
            cached=False,
            timings=dict(self.timings),
            passes=dict(self.passes),
            checks=self.checks,
            code_bytes=self.code_bytes,
        )


class CKernel(BuiltKernel, FallbackEntry):
    """A function compiled by the system's C compiler: calls are checked in Python and made through ctypes."""

    artifact: CArtifact

    @classmethod
    def made(cls, artifact: CArtifact, name: str, slow: SlowPath) -> CKernel:
        """A kernel from the call of its library's function."""
        kernel = cls(slow, 0, artifact.library)
        kernel.artifact = artifact
        kernel.named(artifact.function(name), name)
        return kernel


def build_by_c(
    mod: IRModule, target: Target, ctx: PassContext, outputs: Mapping[str, tuple[str, ...]], gil: GilChoice = "auto"
) -> tuple[CArtifact, dict[str, CKernel]]:
    """Compile the exported functions of a module by the system's C compiler. ``outputs`` names what calls of each allocate.

    Raises :class:`WellFormedError`, :class:`LegalityError`, :class:`TransformError`, :class:`LoweringError` or
    :class:`CodegenError`.
    """
    start = time.perf_counter()
    exported = exported_functions(mod)
    spec = BuildSpec(mod, target, ctx.choices, CompileOptions(), outputs, gil)
    with paused_collection():
        artifact, in_place = _compiled(spec, ctx)
    kernels = {}
    for name, kernel in artifact.module.kernels.items():
        written = [p.name for p in kernel.signature.buffers if p.written]
        signature = call_signature(exported[name], written, outputs.get(name, ()), in_place.get(name, ()))
        overlap = _Overlapping(artifact, name) if signature.alias_pairs() else None
        code = packed(artifact.library, artifact.module, kernel)
        kernels[name] = CKernel.made(artifact, name, SlowPath(signature, code, GilPolicy(release=gil), overlap))
    artifact.timings["whole"] = (time.perf_counter() - start) * 1e3
    return artifact, kernels


def _compiled(spec: BuildSpec, ctx: PassContext) -> tuple[CArtifact, Mapping[str, Any]]:
    """Verify, check, lower, write, compile and load; and the parameters that may be one array."""
    times = [time.perf_counter()]
    verify_well_formed(spec.module)
    times.append(time.perf_counter())
    legal = spec.check(ctx)
    times.append(time.perf_counter())
    timing = PassTimingInstrument()
    child = ctx.child(timing)
    lowered = spec.run_passes(legal.module, child)
    times.append(time.perf_counter())
    addresses = _registered(lowered)
    keys = {str(f.attrs.get("global_symbol", key)): key for key, f in lowered.items()}
    module = generate(
        lowered,
        outputs={keys[name]: chosen for name, chosen in spec.outputs.items() if name in keys},
        in_place=legal.in_place,
        registered=addresses,
        check_assumptions=bool(spec.context().option("tir.enable_debug")),
    )
    times.append(time.perf_counter())
    level = spec.target.get("opt-level")
    level = (0 if spec.choices["opt_level"] == 0 else 2) if level is None else level
    compiled = compile_text(module.text, (f"-O{level}",))
    library = Library(compiled)
    library.fill(module, addresses)
    times.append(time.perf_counter())
    artifact = CArtifact(spec, lowered, module, library, legal.checks, compiled.size)
    steps = ("verify", "legality", "passes", "generate", "compile")
    artifact.timings = {step: (b - a) * 1e3 for step, a, b in zip(steps, times, times[1:], strict=False)}
    artifact.passes = {name.removeprefix("tir."): seconds * 1e3 for name, seconds in timing.times.items()}
    if child.trace:
        artifact.traced = dict(child.ir_after)
    return artifact, legal.in_place


def _registered(mod: IRModule) -> dict[str, int]:
    """The external functions of a module that are registered in this process, which no linker would find.

    Raises CodegenError for one that is neither registered nor loaded.
    """
    found: dict[str, int] = {}

    def look(op: Any) -> None:
        if op.__class__ is Call and op.op in _EXTERN and isinstance(op.args[0], StringImm):
            address = find_symbol(op.args[0].value)
            if address is not None:
                found[op.args[0].value] = address

    for func in mod.functions.values():
        pre_order_visit(func.body, look)
    return found


class _Overlapping:
    """The version of a kernel for arrays that overlap, compiled when the first call has such.

    Of several threads one compiles, the others wait.
    """

    def __init__(self, artifact: CArtifact, name: str) -> None:
        self._artifact = artifact
        self._name = name
        self._lock = threading.Lock()
        self._made: PackedKernel | None = None

    def __call__(self) -> PackedKernel:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made

    def _make(self) -> PackedKernel:
        name, spec = self._name, self._artifact.spec
        spec = replace(spec, overlap=name, outputs={name: spec.outputs.get(name, ())})
        try:
            with paused_collection():
                made, _ = _compiled(spec, spec.context())
        except TirError as error:
            raise ArgumentValueError(
                f"`{name}`: its arrays overlap, and there is no version of it for such: {error.message}",
                origin="call",
                help="pass arrays that share no memory, such as copies",
            ) from error
        self._artifact.overlap[name] = made
        return packed(made.library, made.module, made.module.kernels[name])
