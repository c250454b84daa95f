"""The default sequence of passes of the GPU targets: from thread loops to kernels and a host that launches them."""

from __future__ import annotations

from tirlower.driver.pipelines.base import Pipeline, Step
from tirlower.machine.target import Target
from tirlower.transforms import (
    AnnotateDeviceRegions,
    BindTarget,
    CommonSubexprElimTIR,
    CompactBufferAllocation,
    ConvertBlocksToOpaque,
    DefaultGPUSchedule,
    FlattenBuffer,
    HoistIfThenElse,
    InferFragment,
    InjectDoubleBuffer,
    InjectPermutedLayout,
    InjectPTXAsyncCopy,
    InjectRollingBuffer,
    InjectSoftwarePipeline,
    InjectVirtualThread,
    LiftThreadBinding,
    LoopPartition,
    LowerAutoCopy,
    LowerCrossThreadReduction,
    LowerCustomDatatypes,
    LowerDeviceKernelLaunch,
    LowerInitBlock,
    LowerIntrin,
    LowerMatchBuffer,
    LowerOpaqueBlock,
    LowerThreadAllreduce,
    LowerWarpMemory,
    ManifestSharedMemoryLocalStage,
    MergeSharedMemoryAllocations,
    PlanAndUpdateBufferAllocationLocation,
    RemoveNoOp,
    RemoveStoreUndef,
    RewriteUnsafeSelect,
    Simplify,
    SkipAssert,
    SplitHostDevice,
    SplitVectors,
    StorageRewrite,
    ThreadSync,
    TransformMmaBufferLayout,
    UnifyThreadBinding,
    UnrollLoop,
    VectorizeLoop,
    VerifyConvergence,
    VerifyMemory,
)

__all__ = ["gpu_pipeline", "pipeline"]


def gpu_pipeline(target: Target) -> Pipeline:
    """The passes of the GPU targets, on a host that is a CPU.

    Left out of what TIR runs: the legalization of bfloat16 and float8 (code generation converts them where they are
    loaded and stored), NarrowDataType (LLVM narrows the indices that its address spaces let it), InjectPTXLDG32 (LLVM
    selects the read-only path itself), and MakePackedAPI (the host's function becomes Python that calls the driver).
    """
    bound = target if target.host is not None else Target(target, host="llvm")
    # Copies marked asynchronous stay what they are, and wait for nothing, where there is no instruction for them.
    asynchronous = (
        (Step(InjectPTXAsyncCopy(), "after barriers: a copy in flight is waited for, then handed on"),)
        if _generation(target) >= 80
        else ()
    )
    return Pipeline(
        (
            Step(BindTarget(bound), "first: the passes ask what the device and its limits are"),
            Step(DefaultGPUSchedule(), "on blocks: a function without thread loops gets them"),
            Step(LowerCrossThreadReduction(), "on reduction blocks, while their inits are apart"),
            Step(LowerInitBlock(), "early: what follows sees one body for each block"),
            Step(
                PlanAndUpdateBufferAllocationLocation(),
                "on blocks: their regions and iterator kinds say what loops carry",
            ),
            Step(ConvertBlocksToOpaque(), "iterators are no longer needed once allocations stand"),
            Step(LiftThreadBinding(), "before regions are summed up: a thread's variable is known around its uses"),
            Step(ManifestSharedMemoryLocalStage(), "on the blocks of copies, before what they access is summed up"),
            Step(InjectRollingBuffer(), "on the coordinates of whole buffers, before they shrink to what is accessed"),
            Step(
                CompactBufferAllocation(keep_padding=True),
                "shared memory holds a block's part, registers a thread's; padding against bank conflicts stays",
            ),
            Step(LowerAutoCopy(), "copies are still blocks with their regions"),
            Step(UnifyThreadBinding(), "copies brought thread loops of their own: one variable for each axis"),
            Step(LowerMatchBuffer(), "before blocks go: the matched regions stand on them"),
            Step(Simplify(), "bindings substituted into indices leave sums to fold"),
            Step(InjectPermutedLayout(), "before stages copy the blocks whose accesses it swizzles"),
            Step(InjectSoftwarePipeline(), "the regions of blocks are the stages' dependences"),
            Step(TransformMmaBufferLayout(), "after stages: a matrix in registers has its last shape"),
            Step(RemoveStoreUndef(), "before any pass could copy or move an undefined value"),
            Step(LowerOpaqueBlock(), "all that blocks said is now in loops, conditions and allocations"),
            Step(FlattenBuffer(), "after blocks: accesses alone name buffers"),
            Step(Simplify(), "flat offsets of nested loops fold", ends=1),
            Step(LoopPartition(), "before vectorizing: a loop without its guards has whole vectors"),
            Step(VectorizeLoop(), "on flat buffers: the last index alone carries the lanes"),
            Step(SplitVectors(), "on all vectors, before passes that walk them, or copy them"),
            Step(InjectVirtualThread(), "after vectorizing: each thread's copy holds whole vectors"),
            Step(InjectDoubleBuffer(), "after all that makes loops, before allocations are shared"),
            Step(
                StorageRewrite(keep_shared_apart=True),
                "before barriers are placed: reuse makes dependences; shared memory is merged behind them",
                unless="tir.disable_storage_rewrite",
            ),
            Step(UnrollLoop(), "registers have no addresses: their indices become constants", ends=2),
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
            Step(HoistIfThenElse(), "on small folded bodies, which it copies", level=3),
            Step(CommonSubexprElimTIR(), "after all copying", unless="tir.disable_cse_tir", level=3),
            Step(VerifyMemory(), "before the host is split off: what it touches must be its own"),
            Step(
                ThreadSync("shared", with_global=True),
                "on the accesses that will run: no pass behind it moves one; what a block keeps in global memory too",
            ),
            Step(ThreadSync("shared.dyn"), "the same for dynamic shared memory"),
            Step(ThreadSync("warp"), "the same among the lanes of a warp"),
            Step(InferFragment(), "fragments know their shapes before kernels are cut out"),
            Step(LowerThreadAllreduce(), "after barriers: it brings its own"),
            *asynchronous,
            Step(AnnotateDeviceRegions(), "the thread loops say what runs on the device"),
            Step(SplitHostDevice(), "the regions become functions"),
            Step(MergeSharedMemoryAllocations(), "on whole kernels: one launch has one size of dynamic memory"),
            Step(LowerDeviceKernelLaunch(), "after merging: the launch knows the bytes"),
            Step(LowerWarpMemory(), "on kernels: lanes are known by their thread variables"),
            Step(VerifyConvergence(), "behind all that makes barriers and shuffles: their threads have to come there"),
            Step(Simplify(), "offsets of merged memory and of shuffles fold"),
            Step(LowerCustomDatatypes(), "after vectorizing: what has no vector form is taken apart by lane"),
            Step(LowerIntrin(), "last: shifts and masks hide the divisions that other passes reason about"),
        )
    )


def _generation(target: Target) -> int:
    """The number of a target's architecture; 75 where it names none."""
    digits = "".join(ch for ch in str(target.get("arch") or target.get("mcpu") or "sm_75") if ch.isdigit())
    return int(digits or 75)


def pipeline(target: Target, overlap: bool) -> Pipeline:
    """The passes of a GPU target: arrays that overlap have no version."""
    return gpu_pipeline(target)
