"""Orders that passes forbid are refused where they are made: by Sequential, by Pipeline, with passes added to it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tirlower as tl
from tirlower import transforms
from tirlower.diagnostics import TransformError
from tirlower.driver.pipelines import Pipeline, Step
from tirlower.script import tir as T
from tirlower.transforms import (
    CommonSubexprElimTIR,
    ConvertBlocksToOpaque,
    FlattenBuffer,
    FuncPass,
    LowerInitBlock,
    LowerIntrin,
    LowerMatchBuffer,
    LowerOpaqueBlock,
    LowerWarpMemory,
    PassContext,
    Sequential,
    Simplify,
    StorageRewrite,
    UnrollLoop,
    VectorizeLoop,
    prim_func_pass,
)


@T.prim_func
def loop(A: T.Buffer((8,), "int32")):
    for i in T.unroll(2):
        A[i * 4] = i + 0


def needing(*required: str, opt_level: int = 0) -> transforms.Pass:
    """A pass that requires others and does nothing."""
    return prim_func_pass(
        lambda func, mod, ctx: func, opt_level=opt_level, name="others.Asking", required=list(required)
    )


class Sorts(FuncPass):
    """Gives a fact of the user's own."""

    gives = ("mine.sorted",)


class Searches(FuncPass):
    """Needs it."""

    needs = ("mine.sorted",)


REFUSED: list[tuple[Callable[[], object], str]] = [
    (
        lambda: [LowerIntrin(), Simplify()],
        "Simplify stands behind LowerIntrin, which ends what it needs: divisions are",
    ),
    (
        lambda: [LowerOpaqueBlock(), ConvertBlocksToOpaque()],
        r"LowerOpaqueBlock needs tir\.ConvertBlocksToOpaque to run",
    ),
    (
        lambda: [ConvertBlocksToOpaque(), LowerInitBlock()],
        r"needs tir\.LowerInitBlock to run before it\n.*put LowerInit",
    ),
    (lambda: [VectorizeLoop(), FlattenBuffer()], "vectorized loops are loops"),
    (lambda: [LowerWarpMemory(), FlattenBuffer()], r"LowerWarpMemory needs tir\.FlattenBuffer"),
    # Lists in lists, and what they require.
    (
        lambda: [Sequential([UnrollLoop(), LowerIntrin()]), Sequential([Simplify()])],
        "Simplify stands behind LowerIntrin",
    ),
    (lambda: [LowerIntrin(), Sequential([], required=["Simplify"])], "Simplify stands behind LowerIntrin"),
    (lambda: [needing("LowerIntrin"), Simplify()], "Simplify stands behind LowerIntrin"),
    (lambda: [LowerIntrin(), needing("tir.Simplify")], "Simplify stands behind LowerIntrin"),
    (lambda: [Searches(), Sorts()], r"needs mine\.sorted to run before it"),
]


@pytest.mark.parametrize(("passes", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_an_order_that_is_forbidden_is_refused_when_the_list_is_made(passes, message):
    with pytest.raises(TransformError, match=message) as caught:
        Sequential(passes())
    assert caught.value.origin == "Sequential" and "put " in caught.value.help


@pytest.mark.parametrize(
    "passes",
    [
        [],
        # What none of them makes was made before: the input may be of any stage.
        [LowerOpaqueBlock()],
        [StorageRewrite(), UnrollLoop(), Simplify()],
        [LowerInitBlock(), ConvertBlocksToOpaque(), LowerMatchBuffer(), LowerOpaqueBlock(), FlattenBuffer()],
        [Sorts(), Searches(), Sorts()],
        [Searches()],
        [needing("Simplify"), LowerIntrin()],
        # Where a context leaves it out, nothing has sorted: but that was said of no list that sorts later.
        [Sequential([Sorts()]), Sequential([Searches()])],
    ],
    ids=str,
)
def test_other_orders_are_lists(passes):
    assert Sequential(passes).passes == passes


def test_the_order_of_tir_is_a_list():
    """The passes of TIR 0.20's own lowering, in its order: device and host are lowered apart behind the last."""
    text = """LowerCrossThreadReduction LowerInitBlock PlanAndUpdateBufferAllocationLocation ConvertBlocksToOpaque
        LiftThreadBinding ManifestSharedMemoryLocalStage CompactBufferAllocation LowerAutoCopy UnifyThreadBinding
        LowerMatchBuffer Simplify InjectPermutedLayout InjectSoftwarePipeline TransformMmaBufferLayout LowerOpaqueBlock
        FlattenBuffer BF16ComputeLegalize NarrowDataType LoopPartition VectorizeLoop InjectVirtualThread
        InjectDoubleBuffer StorageRewrite LowerAsyncDMA HoistIfThenElse UnrollLoop RenormalizeSplitPattern Simplify
        RemoveNoOp RewriteUnsafeSelect InstrumentBoundCheckers InjectPTXLDG32 CommonSubexprElimTIR
        InstrumentProfileIntrinsics FP8ComputeLegalize VerifyVTCMLimit LowerVtcmAlloc VerifyMemory AnnotateEntryFunc
        ThreadSync InferFragment LowerThreadAllreduce InjectPTXAsyncCopy AnnotateDeviceRegions SplitHostDevice
        MergeSharedMemoryAllocations MakePackedAPI FP8StorageLegalize BF16StorageLegalize LowerDeviceKernelLaunch"""
    host = "LowerTVMBuiltin LowerCustomDatatypes LowerIntrin LowerDeviceStorageAccessInfo CombineContextCall"
    device = "LowerWarpMemory Simplify LowerCustomDatatypes LowerDeviceStorageAccessInfo LowerIntrin"
    for after in (host, device):
        names = f"{text} {after}".split()
        assert len(Sequential([getattr(transforms, name)() for name in names]).passes) == len(names)


def test_a_pipeline_looks_into_its_lists():
    inner = Sequential([UnrollLoop(), LowerIntrin()])
    with pytest.raises(TransformError, match=r"error\[Pipeline\]: Simplify stands behind LowerIntrin"):
        Pipeline((Step(inner, "it lowers"), Step(Simplify(), "it folds")))
    first = Sequential([LowerInitBlock()])
    assert len(Pipeline((Step(first, ""), Step(ConvertBlocksToOpaque(), "")))) == 2
    with pytest.raises(TransformError, match=r"needs tir\.LowerInitBlock"):
        Pipeline((Step(first, "", level=1), Step(ConvertBlocksToOpaque(), "")))


def test_a_pipeline_runs_only_what_stands_in_it():
    """A list runs what its passes require; a pipeline says which of its steps does."""
    with pytest.raises(TransformError, match=r"Asking needs tir\.Simplify to run before it"):
        Pipeline((Step(needing("Simplify"), ""),))
    assert len(Pipeline((Step(Simplify(), ""), Step(needing("Simplify"), "")))) == 2


def test_added_passes_may_not_stand_where_they_are_forbidden():
    adding = PassContext(config={"tir.add_lower_pass": [(1, LowerIntrin())]})
    with adding, pytest.raises(TransformError, match=r"LoopPartition stands behind LowerIntrin, .*divisions") as caught:
        tl.lower(loop)
    assert "added to phase 1" in str(caught.value)
    early = {"tir.add_lower_pass": [(0, VectorizeLoop())]}
    with PassContext(config=early), pytest.raises(TransformError, match=r"VectorizeLoop needs tir\.LowerOpaqueBlock"):
        tl.lower(loop)
    # What the context leaves out does not forbid: HoistIfThenElse runs from level 3 on.
    late = {"tir.add_lower_pass": [(3, CommonSubexprElimTIR())]}
    with PassContext(config=late, disabled_pass=["tir.LowerInitBlock"]):
        tl.lower(loop)
    with PassContext(3, config=late), pytest.raises(TransformError, match="HoistIfThenElse stands behind"):
        tl.lower(loop)


def test_added_passes_run_behind_what_they_require():
    ran: list[str] = []

    class Notes:
        def run_before_pass(self, mod, info):
            ran.append(info.name)

    adding = {"tir.add_lower_pass": [(0, needing("tir.RemoveAssume")), (2, needing(opt_level=3))]}
    with PassContext(config=adding, instruments=[Notes()]):
        tl.lower(loop)
    assert ran[:2] == ["tir.RemoveAssume", "others.Asking"] and ran.count("others.Asking") == 1
    with PassContext(config=adding, disabled_pass=["others.Asking"], instruments=[Notes()]):
        ran.clear()
        tl.lower(loop, until="LowerInitBlock")
    assert "others.Asking" not in ran and ran[-1] == "tir.LowerInitBlock"
