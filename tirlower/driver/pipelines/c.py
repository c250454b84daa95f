"""The sequence of passes of the target ``c``."""

from __future__ import annotations

from tirlower.driver.pipelines.base import Pipeline, Step
from tirlower.machine.target import Target
from tirlower.transforms import (
    CompactBufferAllocation,
    ConvertBlocksToOpaque,
    ExpandLanes,
    FlattenBuffer,
    InjectDoubleBuffer,
    InjectRollingBuffer,
    InjectSoftwarePipeline,
    InjectVirtualThread,
    InstrumentBoundCheckers,
    LowerAutoCopy,
    LowerCustomDatatypes,
    LowerInitBlock,
    LowerMatchBuffer,
    LowerOpaqueBlock,
    PlanAndUpdateBufferAllocationLocation,
    PrivatizeReductions,
    RemoveStoreUndef,
    RewriteUnsafeSelect,
    Simplify,
    SkipAssert,
)

__all__ = ["c_pipeline", "pipeline"]


def c_pipeline() -> Pipeline:
    """The passes of the target ``c``, whether arrays overlap or not: what is needed to have flat scalar loops, no more.

    Left out of what the CPU's pipeline does: VectorizeLoop, SplitVectors, LoopPartition, UnrollLoop, HoistIfThenElse,
    CommonSubexprElimTIR and StorageRewrite, which the C compiler does as it likes, on a text that stays near the program;
    LowerIntrin, as C's quotients are written with those that round down; InstrumentProfileIntrinsics, which calls into
    this process.
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
            Step(ExpandLanes(), "vectorized loops are loops over lanes that stay in step, whatever memory they share"),
            Step(InjectVirtualThread(), "after lanes are loops: each thread's copy holds them"),
            Step(InjectDoubleBuffer(), "after all that makes loops", ends=2),
            Step(Simplify(), "the copies' indices fold, decided branches go"),
            Step(
                RewriteUnsafeSelect(), "after folding: the arms that are left may fault when evaluated in vain", ends=3
            ),
            Step(
                SkipAssert(keep_guards=True),
                "after folding, which knows what asserts say; guards of accesses stay",
                option="tir.disable_assert",
            ),
            Step(
                InstrumentBoundCheckers(),
                "after folding: only accesses that are left are guarded",
                option="tir.instrument_bound_checkers",
            ),
            Step(LowerCustomDatatypes(), "last: what is computed is known"),
        )
    )


def pipeline(target: Target, overlap: bool) -> Pipeline:
    """The passes of the target ``c``, the same for both versions."""
    return c_pipeline()
