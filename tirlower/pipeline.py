"""The default sequence of passes of each target, as a value, with the reason for each position.

>>> from tirlower.pipeline import pipeline_for
>>> from tirlower.ir.target import Target
>>> [str(step) for step in pipeline_for(Target("llvm"))][:2]
['PrivatizeReductions()', 'LowerInitBlock()']
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tirlower.diagnostics import TransformError, nearest_name
from tirlower.ir.func import IRModule
from tirlower.ir.target import Target
from tirlower.transforms import (
    CommonSubexprElimTIR,
    CompactBufferAllocation,
    ConvertBlocksToOpaque,
    FlattenBuffer,
    HoistIfThenElse,
    InjectDoubleBuffer,
    InjectRollingBuffer,
    InjectSoftwarePipeline,
    InjectVirtualThread,
    InstrumentBoundCheckers,
    InstrumentProfileIntrinsics,
    LoopPartition,
    LowerAutoCopy,
    LowerCustomDatatypes,
    LowerInitBlock,
    LowerIntrin,
    LowerMatchBuffer,
    LowerOpaqueBlock,
    Pass,
    PassContext,
    PlanAndUpdateBufferAllocationLocation,
    PrivatizeReductions,
    RemoveNoOp,
    RemoveStoreUndef,
    RewriteUnsafeSelect,
    Simplify,
    StorageRewrite,
    UnrollLoop,
    VectorizeLoop,
)
from tirlower.transforms.base import PassInfo, run_pass

__all__ = ["Pipeline", "Step", "cpu_pipeline", "pipeline_for"]


@dataclass(frozen=True)
class Step:
    """A pass in a pipeline, and why it stands where it does.

    ``option``: the configuration key that asks for the pass (without it the step is left out); ``unless``: the key that
    leaves it out. ``level``: the optimization level from which the step runs, unless the context requires the pass.
    ``ends``: the phase of ``tir.add_lower_pass`` that is over after this step.
    """

    one: Pass
    why: str
    option: str | None = None
    unless: str | None = None
    level: int = 0
    ends: int | None = None

    def enabled(self, ctx: PassContext) -> bool:
        """Whether a context runs this step."""
        if self.option is not None and not ctx.option(self.option):
            return False
        if self.unless is not None and ctx.option(self.unless):
            return False
        return ctx.pass_enabled(PassInfo(self.one.info.name, max(self.level, self.one.info.opt_level)))

    @property
    def name(self) -> str:
        """The pass's name without its prefix."""
        return self.one.info.name.removeprefix("tir.")

    def __str__(self) -> str:
        return repr(self.one)


@dataclass(frozen=True)
class Pipeline:
    """Steps in order. Raises :class:`TransformError` at construction when a pass's needs do not run before it."""

    steps: tuple[Step, ...] = field(default=())

    def __post_init__(self) -> None:
        """Check the order."""
        seen: set[str] = set()
        for step in self.steps:
            for needed in step.one.needs:
                if needed not in seen:
                    raise TransformError(f"{step.name} needs {needed} to run before it", origin="Pipeline")
            seen.add(step.one.info.name)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def names(self) -> list[str]:
        """The names of the passes, in order."""
        return [step.name for step in self.steps]

    def run(self, mod: IRModule, ctx: PassContext, until: str | None = None) -> IRModule:
        """The module after all passes that the context enables, or after the first run of ``until``.

        Raises :class:`TransformError` when ``until`` is no pass of the pipeline.
        """
        stop = None
        if until is not None:
            stop = until.removeprefix("tir.")
            if stop not in self.names():
                near = nearest_name(stop, self.names())
                raise TransformError(
                    f"no pass {until!r} in the pipeline",
                    origin="lower",
                    help=f"did you mean {near!r}?" if near else f"its passes: {', '.join(self.names())}",
                )
        added = _added_passes(ctx)
        mod = _run_all(added[0], mod, ctx)
        for step in self.steps:
            if step.enabled(ctx):
                mod = run_pass(step.one, mod, ctx)
            if step.name == stop:
                return mod
            if step.ends is not None:
                mod = _run_all(added[step.ends], mod, ctx)
        return mod

    def __str__(self) -> str:
        return "\n".join(f"{step!s:<48} # {step.why}" for step in self.steps)


LOWER_PHASES = 4
"""Phases of ``tir.add_lower_pass``: 0 before all passes, 1 once buffers are flat, 2 once loops are, 3 after cleaning."""


def _added_passes(ctx: PassContext) -> list[list[Pass]]:
    """The passes of ``tir.add_lower_pass``, by phase. Raises :class:`TransformError` for anything else in it."""
    added: list[list[Pass]] = [[] for _ in range(LOWER_PHASES)]
    for entry in ctx.option("tir.add_lower_pass") or ():
        match entry:
            case (int() as phase, Pass() as one) if 0 <= phase < LOWER_PHASES:
                added[phase].append(one)
            case _:
                raise TransformError(
                    f"tir.add_lower_pass is a list of (phase, pass), phases 0 to {LOWER_PHASES - 1}, got {entry!r}",
                    origin="PassContext",
                )
    return added


def _run_all(passes: list[Pass], mod: IRModule, ctx: PassContext) -> IRModule:
    for one in passes:
        mod = run_pass(one, mod, ctx)
    return mod


def cpu_pipeline() -> Pipeline:
    """The passes of the CPU targets.

    Left out of what TIR runs for a CPU: the legalization of bfloat16 and float8 (code generation converts them where
    they are loaded and stored), NarrowDataType (64-bit addresses need 64-bit indices; LLVM narrows what is cheaper
    narrow), and, below opt_level 3, what LLVM's own passes do as well and faster.
    """
    return Pipeline(
        (
            Step(PrivatizeReductions(), "first: block inits and updates of one element are still as they were checked"),
            Step(LowerInitBlock(), "early: what follows sees one body for each block"),
            Step(
                PlanAndUpdateBufferAllocationLocation(),
                "on blocks: their regions and iterator kinds say what loops carry",
            ),
            Step(ConvertBlocksToOpaque(), "iterators are no longer needed once allocations stand"),
            Step(InjectRollingBuffer(), "on the coordinates of whole buffers, before they shrink to what is accessed"),
            Step(CompactBufferAllocation(), "blocks still say what is accessed, allocations already stand lowest"),
            Step(LowerAutoCopy(), "copies are still blocks with their regions"),
            Step(LowerMatchBuffer(), "before blocks go: the matched regions stand on them"),
            Step(Simplify(), "bindings substituted into indices leave sums to fold"),
            Step(InjectSoftwarePipeline(), "the regions of blocks are the stages' dependences"),
            Step(RemoveStoreUndef(), "before any pass could copy or move an undefined value"),
            Step(LowerOpaqueBlock(), "all that blocks said is now in loops, conditions and allocations"),
            Step(FlattenBuffer(), "after blocks: accesses alone name buffers"),
            Step(Simplify(), "flat offsets of nested loops fold", ends=1),
            Step(LoopPartition(), "before vectorizing: a loop without its guards has whole vectors"),
            Step(
                VectorizeLoop(predicate=True, tail=True),
                "on flat buffers: the last index alone carries the lanes; conditions become masks, the rest of a symbolic extent a serial tail",
            ),
            Step(InjectVirtualThread(), "after vectorizing: each thread's copy holds whole vectors"),
            Step(InjectDoubleBuffer(), "after all that makes loops, before allocations are shared"),
            Step(StorageRewrite(), "vectors show the alignment that is needed", unless="tir.disable_storage_rewrite"),
            Step(UnrollLoop(), "after vectorizing: unrolled copies hold vectors, not lanes", ends=2),
            Step(Simplify(), "copies with constant indices fold, decided branches go"),
            Step(RemoveNoOp(), "what folding emptied"),
            Step(
                RewriteUnsafeSelect(), "after folding: the arms that are left may fault when evaluated in vain", ends=3
            ),
            Step(
                InstrumentBoundCheckers(),
                "after folding: only accesses that are left are guarded",
                option="tir.instrument_bound_checkers",
            ),
            Step(HoistIfThenElse(), "on small folded bodies, which it copies; LLVM unswitches most loops too", level=3),
            Step(
                CommonSubexprElimTIR(),
                "after all copying; LLVM finds most of them too",
                unless="tir.disable_cse_tir",
                level=3,
            ),
            Step(
                InstrumentProfileIntrinsics(),
                "last but lowering: loops are what will run",
                option="tir.enable_profiling",
            ),
            Step(LowerCustomDatatypes(), "after vectorizing: what has no vector form is taken apart by lane"),
            Step(LowerIntrin(), "last: shifts and masks hide the divisions that other passes reason about"),
        )
    )


def pipeline_for(target: Target) -> Pipeline:
    """The default pipeline of a target. Raises :class:`TransformError` for one without code generator."""
    if target.kind in ("llvm", "c"):
        return cpu_pipeline()
    raise TransformError(f"no pipeline for target {target.kind!r}", origin="lower", help="use the target 'llvm'")
