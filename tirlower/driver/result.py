"""A build's results: the module it was made from, the machine code, and what is computed again when asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tirlower.call.gil import GilChoice
from tirlower.diagnostics import TirError, nearest_name
from tirlower.driver.kernel import SOURCE_KINDS, rebuilding
from tirlower.driver.report import Report
from tirlower.emit.compile import CompileOptions, emit_assembly, optimized_ir
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.legality.notes import CheckReport
from tirlower.llvm.cache import CacheKey, ObjectCache
from tirlower.llvm.entry import without_entries
from tirlower.machine.target import Target
from tirlower.transforms import PassContext

if TYPE_CHECKING:
    from tirlower.driver.cpu_compile import HostCode
    from tirlower.legality.check import CheckedModule

__all__ = ["Artifact", "BuildSpec"]


@dataclass(frozen=True)
class BuildSpec:
    """What determines a build: the module, the target (and so the passes), which passes run and their options, LLVM's options.

    ``overlap`` names the exported function whose version for overlapping arrays this is; without it the build is of all
    functions, for arrays that share no memory.
    """

    module: IRModule
    target: Target
    choices: Mapping[str, Any]
    options: CompileOptions
    outputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    gil: GilChoice = "auto"
    overlap: str | None = None

    def function(self, name: str) -> PrimFunc:
        """A function as it was given, by its symbol."""
        for func in self.module.functions.values():
            if func.attrs.get("global_symbol") == name:
                return func
        return self.module[name]

    def context(self, *, trace: bool = False) -> PassContext:
        """A context in which the passes run as they ran in the build."""
        return PassContext(**self.choices, trace=trace)

    def lower(self, ctx: PassContext | None = None) -> IRModule:
        """The module after the checks (which insert guards) and the passes."""
        used = ctx or self.context()
        return self.run_passes(self.check(used).module, used)

    def check(self, ctx: PassContext) -> CheckedModule:
        """What legality says of the version that is built."""
        from tirlower.legality.check import check_legality
        from tirlower.legality.versions import apart, overlapping

        if self.overlap is None:
            return check_legality(apart(self.module), ctx)
        return check_legality(overlapping(self.module, self.overlap), ctx, in_order=True)

    def rebuilding(self, name: str | None) -> tuple[Any, ...]:
        """What pickle keeps of a kernel of this build, or of all of them."""
        outputs = next(iter(self.outputs.values()), ()) or None if name is None else self.outputs.get(name, ())
        return rebuilding(self.module, name, self.target, outputs, self.gil, self)

    def run_passes(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The checked module after the target's passes for this version."""
        from tirlower.driver.pipelines import pipeline_for

        return pipeline_for(self.target, self.overlap is not None).run(mod, ctx)


@dataclass
class Artifact:
    """The state that the kernels of a build share."""

    spec: BuildSpec
    code_bytes: int
    cached: bool
    key: CacheKey
    cache: ObjectCache
    miss: str
    timings: dict[str, float] = field(default_factory=dict)
    passes: dict[str, float] = field(default_factory=dict)
    traced: Mapping[str, IRModule] = field(default_factory=dict)
    checks: CheckReport = field(default_factory=CheckReport)
    overlap: dict[str, Artifact] = field(default_factory=dict)
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

    @cached_property
    def lowered(self) -> IRModule:
        """The module after the passes (run again when the machine code came from the cache)."""
        return self.spec.lower()

    @cached_property
    def _code(self) -> HostCode:
        """What the build compiled (generated again: the same module gives the same text)."""
        from tirlower.driver.cpu_compile import generate_code

        return generate_code(self.lowered, self.spec)

    @property
    def llvm(self) -> str:
        """The LLVM IR that the code generator made of the functions (without the Python entry)."""
        return self._code.functions

    @cached_property
    def assembly(self) -> str:
        """The assembly of the machine code that runs: of the whole module that was compiled, less the Python entry."""
        return self._shown(emit_assembly)

    def _shown(self, make: Callable[[str, CompileOptions], str]) -> str:
        """A text made of each module that was compiled."""
        symbols = [one["symbol"] for one in self._code.kernels.values()]
        return "".join(without_entries(make(part, self.spec.options), symbols) for part in self._code.parts)

    @property
    def ir_after(self) -> Mapping[str, IRModule]:
        """The module after each pass."""
        if not self.traced:
            ctx = self.spec.context(trace=True)
            with ctx:
                self.spec.lower(ctx)
            self.traced = ctx.ir_after
        return self.traced

    def source(self, kind: str) -> str:
        """The program at a stage."""
        if kind == "tir":
            lowered = self.lowered
            return lowered[next(iter(lowered))].script() if len(lowered) == 1 else lowered.script()
        if kind == "llvm":
            return self.llvm
        if kind == "llvm-opt":
            return self._shown(optimized_ir)
        if kind == "asm":
            return self.assembly
        if kind == "ptx":
            raise TirError(f"the target {self.target} has no PTX", help="build with target='nvptx -arch=sm_90'")
        if kind == "c":
            raise TirError(f"the target {self.target} has no C text", help="build with target='c'")
        near = nearest_name(kind, SOURCE_KINDS)
        raise TirError(
            f"no source of kind {kind!r}",
            help=f"did you mean {near!r}?" if near else f"the kinds are {', '.join(SOURCE_KINDS)}",
        )

    def show(self, kind: str) -> None:
        """Print the program at a stage."""
        if kind == "tir":
            lowered = self.lowered
            (lowered[next(iter(lowered))] if len(lowered) == 1 else lowered).show()
        else:
            print(self.source(kind))

    def explain_miss(self) -> str:
        """Why the machine code was compiled rather than read from the disk cache."""
        if self.cached:
            return "the machine code came from the disk cache"
        return self.miss or str(self.cache.explain_miss(self.key))

    def report(self) -> Report:
        """What the build did."""
        return Report(
            target=str(self.target),
            functions=tuple(self.spec.module.functions),
            cached=self.cached,
            timings=dict(self.timings),
            passes=dict(self.passes),
            checks=self.checks,
            code_bytes=self.code_bytes,
            assembly=lambda: self.source("asm"),
        )
