"""A build's result: what determined it, what it made, and what is computed again when asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from tirlower.call.gil import GilChoice
from tirlower.call.views import Result
from tirlower.diagnostics import TirError, nearest_name
from tirlower.driver.backend import KINDS, MODULES, SOURCE_KINDS, Backend, kind_of, pipeline_for
from tirlower.driver.kernel import rebuilding
from tirlower.driver.tuned import TUNED
from tirlower.emit.compile import CompileOptions
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.legality.notes import CheckReport
from tirlower.llvm.cache import CacheKey
from tirlower.machine.processor import Processor
from tirlower.machine.target import Target
from tirlower.transforms import PassContext

if TYPE_CHECKING:
    from tirlower.autoschedule.choose import Scheduled
    from tirlower.legality.check import CheckedModule
    from tirlower.rewrite.context import Choices
    from tirlower.schedule.trace import Trace

__all__ = ["BuildResult", "BuildSpec"]


@dataclass(frozen=True)
class BuildSpec:
    """What determines a build: the module, the target (and so the passes), which passes run and their options, LLVM's options.

    ``asked`` is the target as the build was given it, without what the machine here added.
    ``schedule`` is "none", "auto" or JSON, of a trace or of the plans that were found for functions by measuring; the module
    is as it was written.
    ``overlap`` names the exported function whose version for overlapping arrays this is; without it the build is of all
    functions, for arrays that share no memory.
    """

    module: IRModule
    target: Target
    choices: Choices
    options: CompileOptions
    outputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    gil: GilChoice = "auto"
    overlap: str | None = None
    asked: Target | None = None
    schedule: str = "none"

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
        """What legality says of the version that is built: of the program as written first, then of what is made of it."""
        return self.check_scheduled(self.check_written(ctx), ctx)

    def check_written(self, ctx: PassContext) -> CheckedModule:
        """What legality says of the program as written."""
        from tirlower.legality.check import check_legality
        from tirlower.legality.versions import apart, overlapping

        if self.overlap is not None:
            return check_legality(overlapping(self.module, self.overlap), ctx, in_order=True)
        return check_legality(apart(self.module), ctx, lifts=not self.target.is_gpu)

    def check_scheduled(self, written: CheckedModule, ctx: PassContext) -> CheckedModule:
        """What it says of what the schedule makes of that."""
        if self.scheduled is None or self.scheduled.module is self.module:
            return written
        from tirlower.legality.check import check_legality
        from tirlower.legality.versions import apart

        if ctx.validate:
            for one in self.scheduled.functions.values():
                one.schedule.validate()
        made = check_legality(apart(self.scheduled.module), ctx, lifts=not self.target.is_gpu, written=written.module)
        # Two arrays may be one where both programs compute then what they compute of copies.
        both = {
            name: tuple(pair for pair in pairs if pair in written.in_place.get(name, ()))
            for name, pairs in made.in_place.items()
        }
        return replace(made, in_place=both)

    @cached_property
    def scheduled(self) -> Scheduled | None:
        """What the schedule makes of the module; None where it is compiled as written, and of the version for arrays that
        overlap."""
        if not self._has_schedule:
            return None
        from tirlower.driver.scheduling import scheduled

        return scheduled(self.module, self.schedule, self.target, self.choices["config"])

    @property
    def is_automatic(self) -> bool:
        """Whether nobody wrote the steps of the schedule."""
        return self.schedule == "auto" or self.schedule.startswith(TUNED)

    @property
    def _has_schedule(self) -> bool:
        """Whether something else than what is written may be compiled; at level 0 nothing is made faster."""
        if self.overlap is not None or self.target.kind != "llvm":
            return False
        return self.schedule != "none" and (self.schedule != "auto" or self.choices["opt_level"] > 0)

    @property
    def schedule_key(self) -> str:
        """What of the schedule determines the machine code: of an automatic one, the processor that it is planned for."""
        if not self._has_schedule:
            return "none"
        return f"auto for {Processor.of(self.target)}" if self.schedule == "auto" else self.schedule

    def overlapping(self, name: str) -> BuildSpec:
        """That of the version of an exported function for overlapping arrays, with what it calls and nothing else."""
        module = self.module
        if len(module) > 1:
            from tirlower.analysis.call_graph import CallGraph

            key = next(key for key, func in module.items() if func.attrs.get("global_symbol") == name)
            below = CallGraph(module).below(key)
            module = module.with_functions({key: func for key, func in module.items() if key in below})
        return replace(self, module=module, overlap=name, outputs={name: self.outputs.get(name, ())})

    def rebuilding(self, name: str | None) -> tuple[object, ...]:
        """What pickle keeps of a kernel of this build, or of all of them."""
        outputs = next(iter(self.outputs.values()), ()) or None if name is None else self.outputs.get(name, ())
        return rebuilding(self.module, name, self.asked or self.target, outputs, self.gil, self.choices, self.schedule)

    def run_passes(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The checked module after the target's passes for this version."""
        return pipeline_for(self.target, self.overlap is not None).run(mod, ctx)


@dataclass
class BuildResult:
    """The state that the kernels of a build share.

    ``miss`` says why the code was compiled rather than read from the disk cache, where that was not ``cached``, and
    ``key`` is that of the cache's entry; ``reused`` has the functions whose code was read;
    ``units`` are the builds of the module's units, where it has several and they are known, and ``home`` names the
    functions whose unit this is;
    ``in_place`` has the parameters of each function that may be one array; ``timings`` and ``passes`` are milliseconds.
    """

    spec: BuildSpec
    backend: Backend
    cached: bool = False
    miss: Callable[[], str] = str
    key: CacheKey | None = None
    reused: frozenset[str] = frozenset()
    units: tuple[BuildResult, ...] = ()
    home: tuple[str, ...] = ()
    code_bytes: int = 0
    checks: CheckReport = field(default_factory=CheckReport)
    in_place: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    passes: dict[str, float] = field(default_factory=dict)
    traced: Mapping[str, IRModule] = field(default_factory=dict)
    overlap: dict[str, BuildResult] = field(default_factory=dict)
    """The builds of versions for overlapping arrays that calls have asked for, by function."""

    @property
    def target(self) -> Target:
        """The target of the build."""
        return self.spec.target

    def function(self, name: str) -> PrimFunc:
        """A function as it was given."""
        return self.spec.function(name)

    def rebuilding(self, name: str | None) -> tuple[object, ...]:
        """What pickle keeps of a kernel of this build, or of all of them."""
        return self.spec.rebuilding(name)

    @cached_property
    def lowered(self) -> IRModule:
        """The module after the passes (run again when the code came from the cache)."""
        return self.spec.lower()

    @cached_property
    def code(self) -> object:
        """What the backend generated (again, where it was not kept: the same module gives the same text)."""
        return self.backend.generate(self)

    @property
    def ir_after(self) -> Mapping[str, IRModule]:
        """The module after each pass (run again with a trace where the build had none)."""
        if not self.traced:
            ctx = self.spec.context(trace=True)
            with ctx:
                self.spec.lower(ctx)
            self.traced = ctx.ir_after
        return self.traced

    def source(self, kind: str = "tir") -> str:
        """The program at a stage: ``"scheduled"`` (what the schedule made of it), ``"tir"`` (after the passes), or one of the
        target's own.

        Raises :class:`TirError` for another kind.
        """
        if kind in MODULES:
            return self._shown(kind).script()
        known = (*MODULES, *kind_of(self.target).sources)
        if kind in known:
            return self.backend.text(self, kind)
        near = nearest_name(kind, known)
        help = f"did you mean {near!r}?" if near else f"the kinds are {', '.join(known)}"
        if kind in SOURCE_KINDS:
            example = next(other.example for other in KINDS.values() if kind in other.sources)
            help = f"build with target={example!r}; {help}"
        raise TirError(f"no source of kind {kind!r} for the target {self.target}", help=help)

    def show(self, kind: str = "tir") -> None:
        """Print :meth:`source`, the script coloured where the terminal shows colours."""
        if kind in MODULES:
            self._shown(kind).show()
        else:
            print(self.source(kind))

    def _shown(self, kind: str) -> IRModule | PrimFunc:
        made = self.spec.scheduled if kind == "scheduled" else None
        lowered = self.lowered if kind == "tir" else self.spec.module if made is None else made.module
        return lowered[next(iter(lowered))] if len(lowered) == 1 else lowered

    def trace(self, name: str) -> Trace:
        """The steps that the schedule took on a function, given by its symbol."""
        from tirlower.schedule.trace import Trace

        made = self.spec.scheduled
        found = {} if made is None else made.functions
        for key, func in self.spec.module.functions.items():
            if func.attrs.get("global_symbol", key) == name and key in found:
                return found[key].trace
        return Trace()

    def explain_miss(self) -> str:
        """Why the code was compiled rather than read from the disk cache."""
        return "the machine code came from the disk cache" if self.cached else self.miss()

    def report(self) -> Result:
        """What the build did."""
        return self.backend.report(self)
