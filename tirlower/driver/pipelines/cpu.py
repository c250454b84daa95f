"""The default sequence of passes of the CPU targets."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

from tirlower.driver.pipelines.base import FUSED, Pipeline, Step
from tirlower.llvm.codegen.machine import machine_of
from tirlower.machine.dots import Dots
from tirlower.machine.target import Target
from tirlower.transforms import (
    CommonSubexprElimTIR,
    CompactBufferAllocation,
    ConvertBlocksToOpaque,
    DotProducts,
    ExpandLanes,
    FlattenBuffer,
    FuseMultiplyAdd,
    HoistIfThenElse,
    InjectDoubleBuffer,
    InjectRollingBuffer,
    InjectSoftwarePipeline,
    InjectVirtualThread,
    InstrumentBoundCheckers,
    InstrumentProfileIntrinsics,
    JamReductions,
    LoopPartition,
    LowerAutoCopy,
    LowerCustomDatatypes,
    LowerInitBlock,
    LowerIntrin,
    LowerMatchBuffer,
    LowerOpaqueBlock,
    MarkNonTemporal,
    PlanAndUpdateBufferAllocationLocation,
    PrivatizeReductions,
    RemoveNoOp,
    RemoveStoreUndef,
    RewriteUnsafeSelect,
    Simplify,
    SkipAssert,
    SplitVectors,
    StorageRewrite,
    StripPrefetches,
    TileProducts,
    TransposeTiles,
    UnrollLoop,
    VectorizeLoop,
)

__all__ = ["cpu_pipeline", "pipeline"]

TILES: Final = "before vectorizing: on the loops of a product, and of what brings its sums"
DOTS: Final = "before vectorizing, which would take the groups of an instruction apart"


@functools.cache
def cpu_pipeline(overlap: bool = False, fuses: bool = False, half: bool = False, dots: Dots | None = None) -> Pipeline:
    """The passes of the CPU targets; with ``overlap`` those of the version for arrays that may overlap, with ``fuses`` those
    of a target that fuses products with sums, ``half`` of float16 too, and ``dots`` what instructions it has for
    dot products of short elements.

    Left out of what TIR runs for a CPU: the legalization of bfloat16 and float8 (code generation converts them where
    they are loaded and stored), NarrowDataType (64-bit addresses need 64-bit indices; LLVM narrows what is cheaper
    narrow), and, below opt_level 3, what LLVM's own passes do as well and faster.
    """
    vectorize = Step(
        VectorizeLoop(predicate=True, tail=True, plain=True),
        "on flat buffers: the last index alone carries the lanes; conditions become masks, the rest of a symbolic extent a serial tail",
    )
    in_step = Step(
        ExpandLanes(), "on flat buffers, without blocks: no group of lanes may store before the next one reads"
    )
    return Pipeline(
        (
            Step(PrivatizeReductions(), "first: block inits and updates of one element are still as they were checked"),
            *((Step(FuseMultiplyAdd(half=half), FUSED),) if fuses else ()),
            Step(LowerInitBlock(), "early: what follows sees one body for each block"),
            Step(
                PlanAndUpdateBufferAllocationLocation(),
                "on blocks: their regions and iterator kinds say what loops carry",
            ),
            Step(ConvertBlocksToOpaque(), "iterators are no longer needed once allocations stand"),
            Step(InjectRollingBuffer(), "on the coordinates of whole buffers, before they shrink to what is accessed"),
            Step(
                CompactBufferAllocation(keep_lanes=True),
                "blocks still say what is accessed, allocations already stand lowest",
            ),
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
                StripPrefetches(),
                "on flat buffers, whose elements lie on lines, before all that makes vectors of loops",
            ),
            Step(MarkNonTemporal(), "right before vectorizing, which takes the annotated loops away"),
            Step(TransposeTiles(), "before vectorizing, which would make gathers and scatters of the tiles"),
            *_dots(dots),
            in_step if overlap else vectorize,
            Step(SplitVectors(), "on all vectors, before passes that walk them, or copy them"),
            Step(InjectVirtualThread(), "after vectorizing: each thread's copy holds whole vectors"),
            Step(InjectDoubleBuffer(), "after all that makes loops, before allocations are shared"),
            Step(StorageRewrite(), "vectors show the alignment that is needed", unless="tir.disable_storage_rewrite"),
            Step(
                UnrollLoop(grouped=True, by_llvm=True),
                "after vectorizing: unrolled copies hold vectors, not lanes",
                ends=2,
            ),
            Step(Simplify(), "copies with constant indices fold, decided branches go"),
            Step(RemoveNoOp(), "what folding emptied"),
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
            Step(JamReductions(), "on folded loops, whose variables have memory of their own", level=1),
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
            Step(
                LowerIntrin(branches=True), "last: shifts and masks hide the divisions that other passes reason about"
            ),
        )
    )


def _dots(dots: Dots | None) -> Sequence[Step]:
    """The passes that use instructions for dot products."""
    if dots is None:
        return ()
    tiles = TileProducts(bytes=dots.byte_tiles, bfloats=dots.bfloat_tiles)
    return (
        *((Step(tiles, TILES),) if tiles != TileProducts() else ()),
        Step(DotProducts(fours=dots.fours, pairs=dots.pairs, bfloats=dots.bfloats), DOTS),
    )


def pipeline(target: Target, overlap: bool) -> Pipeline:
    """The passes of a CPU target."""
    machine = machine_of(target)
    return cpu_pipeline(overlap, machine.fuses, machine.native_half, machine.dots)
