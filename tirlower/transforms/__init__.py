"""The passes, each usable alone under its TIR name, and what combines them.

>>> from tirlower import transforms
>>> "tir.UnrollLoop" in {entry.name for entry in transforms.catalog()}
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tirlower.rewrite.base import (
    Apply,
    Filter,
    FuncPass,
    ModulePass,
    Pass,
    PassInfo,
    PrimFuncPass,
    Sequential,
    Stage,
    find_pass,
    module_pass,
    prim_func_pass,
)
from tirlower.rewrite.context import CONFIG_KEYS, PassContext
from tirlower.rewrite.facts import Fact
from tirlower.rewrite.instruments import DumpIR, PassTimingInstrument, PrintAfterAll, PrintBeforeAll, pass_instrument
from tirlower.rewrite.options import Option, option
from tirlower.rewrite.registry import WHERE, load, load_all
from tirlower.transforms.catalog import CatalogEntry, catalog

if TYPE_CHECKING:
    from tirlower.transforms.blocks.convert_to_opaque import ConvertBlocksToOpaque
    from tirlower.transforms.blocks.lower_init import LowerInitBlock
    from tirlower.transforms.blocks.lower_match_buffer import LowerMatchBuffer
    from tirlower.transforms.blocks.lower_opaque import LowerOpaqueBlock
    from tirlower.transforms.blocks.plan_allocation import PlanAndUpdateBufferAllocationLocation
    from tirlower.transforms.cleanup.common_subexpr import CommonSubexprElimTIR
    from tirlower.transforms.cleanup.fuse_multiply_add import FuseMultiplyAdd
    from tirlower.transforms.cleanup.lower_intrin import LowerIntrin
    from tirlower.transforms.cleanup.remove_no_op import RemoveNoOp
    from tirlower.transforms.cleanup.remove_store_undef import RemoveStoreUndef
    from tirlower.transforms.cleanup.rewrite_unsafe_select import RewriteUnsafeSelect
    from tirlower.transforms.cleanup.skip_assert import SkipAssert
    from tirlower.transforms.dtypes.compute_legalize import BF16ComputeLegalize, FP8ComputeLegalize
    from tirlower.transforms.dtypes.custom import LowerCustomDatatypes
    from tirlower.transforms.dtypes.narrow import ForceNarrowIndexToInt32, NarrowDataType
    from tirlower.transforms.dtypes.storage_legalize import BF16StorageLegalize, FP8StorageLegalize
    from tirlower.transforms.host.bind_target import AnnotateEntryFunc, BindTarget
    from tirlower.transforms.loops.dot_products import DotProducts
    from tirlower.transforms.loops.expand_lanes import ExpandLanes
    from tirlower.transforms.loops.hoist import (
        HoistedConditionals,
        HoistedLetBindings,
        HoistExpression,
        HoistIfThenElse,
    )
    from tirlower.transforms.loops.jam import JamReductions
    from tirlower.transforms.loops.nontemporal import MarkNonTemporal
    from tirlower.transforms.loops.partition import LoopPartition
    from tirlower.transforms.loops.prefetch import StripPrefetches
    from tirlower.transforms.loops.privatize_reductions import PrivatizeReductions
    from tirlower.transforms.loops.profile_intrinsics import InstrumentProfileIntrinsics, ProfileSite, profile_sites
    from tirlower.transforms.loops.simplify import Simplify
    from tirlower.transforms.loops.software_pipeline import InjectSoftwarePipeline
    from tirlower.transforms.loops.split_vectors import SplitVectors
    from tirlower.transforms.loops.tile_products import TileProducts
    from tirlower.transforms.loops.transpose import TransposeTiles
    from tirlower.transforms.loops.unroll import UnrollLoop
    from tirlower.transforms.loops.vectorize import VectorizeLoop
    from tirlower.transforms.memory.auto_copy import LowerAutoCopy
    from tirlower.transforms.memory.bound_checkers import InstrumentBoundCheckers
    from tirlower.transforms.memory.compact_buffer import CompactBufferAllocation
    from tirlower.transforms.memory.double_buffer import InjectDoubleBuffer
    from tirlower.transforms.memory.flatten_buffer import FlattenBuffer
    from tirlower.transforms.memory.oob_checker import OOBChecker
    from tirlower.transforms.memory.pointer_type import PointerValueTypeRewrite
    from tirlower.transforms.memory.rolling_buffer import InjectRollingBuffer
    from tirlower.transforms.memory.storage_access import (
        LowerDeviceStorageAccessInfo,
        MemoryInfo,
        register_memory_info,
    )
    from tirlower.transforms.memory.storage_rewrite import StorageReport, StorageRewrite, storage_report
    from tirlower.transforms.memory.verify_memory import VerifyMemory
    from tirlower.transforms.tensorcores.infer_fragment import InferFragment
    from tirlower.transforms.tensorcores.local_stage import ManifestSharedMemoryLocalStage
    from tirlower.transforms.tensorcores.mma_buffer_layout import TransformMmaBufferLayout
    from tirlower.transforms.tensorcores.permuted_layout import InjectPermutedLayout
    from tirlower.transforms.tensorcores.ptx_async_copy import InjectPTXAsyncCopy
    from tirlower.transforms.threads.cross_thread_reduction import LowerCrossThreadReduction
    from tirlower.transforms.threads.default_schedule import DefaultGPUSchedule
    from tirlower.transforms.threads.device_regions import AnnotateDeviceRegions, DecorateDeviceScope
    from tirlower.transforms.threads.kernel_launch import LowerDeviceKernelLaunch
    from tirlower.transforms.threads.lift_binding import LiftThreadBinding
    from tirlower.transforms.threads.lower_allreduce import LowerThreadAllreduce
    from tirlower.transforms.threads.lower_warp_memory import LowerWarpMemory
    from tirlower.transforms.threads.merge_shared import MergeSharedMemoryAllocations
    from tirlower.transforms.threads.split_host_device import SplitHostDevice
    from tirlower.transforms.threads.thread_sync import ThreadSync
    from tirlower.transforms.threads.unify_binding import UnifyThreadBinding
    from tirlower.transforms.threads.verify_convergence import VerifyConvergence
    from tirlower.transforms.threads.virtual_thread import InjectVirtualThread
    from tirlower.transforms.tir_only.assume_branches import UseAssumeToReduceBranches
    from tirlower.transforms.tir_only.combine_context_call import CombineContextCall
    from tirlower.transforms.tir_only.convert_ssa import ConvertSSA
    from tirlower.transforms.tir_only.extract_constants import ExtractPrimFuncConstants
    from tirlower.transforms.tir_only.inline_private import InlinePrivateFunctions
    from tirlower.transforms.tir_only.legalize_packed_calls import LegalizePackedCalls
    from tirlower.transforms.tir_only.lower_async_dma import LowerAsyncDMA
    from tirlower.transforms.tir_only.lower_tvm_builtin import LowerTVMBuiltin
    from tirlower.transforms.tir_only.make_packed_api import MakePackedAPI
    from tirlower.transforms.tir_only.make_unpacked_api import MakeUnpackedAPI
    from tirlower.transforms.tir_only.overcompute import ReduceBranchingThroughOvercompute
    from tirlower.transforms.tir_only.ptx_ldg32 import InjectPTXLDG32
    from tirlower.transforms.tir_only.remove_assume import RemoveAssume
    from tirlower.transforms.tir_only.remove_layout_rewrite import RemoveWeightLayoutRewriteBlock
    from tirlower.transforms.tir_only.renormalize_split import RenormalizeSplitPattern
    from tirlower.transforms.tir_only.to_serial import ConvertForLoopsToSerial
    from tirlower.transforms.tir_only.vtcm import LowerVtcmAlloc, VerifyVTCMLimit
    from tirlower.validate.passes import validate_pass

__all__ = [
    *WHERE,
    "Apply",
    "CONFIG_KEYS",
    "CatalogEntry",
    "DumpIR",
    "Fact",
    "Filter",
    "FuncPass",
    "ModulePass",
    "Option",
    "Pass",
    "PassContext",
    "PassInfo",
    "PassTimingInstrument",
    "PrimFuncPass",
    "PrintAfterAll",
    "PrintBeforeAll",
    "Sequential",
    "Stage",
    "catalog",
    "find_pass",
    "load_all",
    "module_pass",
    "option",
    "pass_instrument",
    "prim_func_pass",
]


def __getattr__(name: str) -> Any:
    """A pass, imported when it is first asked for."""
    if name not in WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = load(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
