"""Where each pass stands: they are imported when they are first asked for.

A build needs a third of the passes; importing all of them would take longer than compiling a kernel.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType

from tirlower.rewrite.options import Option

__all__ = [
    "GRAPH_PASSES",
    "WHERE",
    "declare",
    "graph_pass",
    "home",
    "known_passes",
    "load",
    "load_all",
    "options_of",
    "short_name",
]

_MODULES: dict[str, tuple[str, ...]] = {
    "blocks.convert_to_opaque": ("ConvertBlocksToOpaque",),
    "blocks.lower_init": ("LowerInitBlock",),
    "blocks.lower_match_buffer": ("LowerMatchBuffer",),
    "blocks.lower_opaque": ("LowerOpaqueBlock",),
    "blocks.plan_allocation": ("PlanAndUpdateBufferAllocationLocation",),
    "tir_only.remove_layout_rewrite": ("RemoveWeightLayoutRewriteBlock",),
    "cleanup.common_subexpr": ("CommonSubexprElimTIR",),
    "tir_only.convert_ssa": ("ConvertSSA",),
    "cleanup.fuse_multiply_add": ("FuseMultiplyAdd",),
    "cleanup.lower_intrin": ("LowerIntrin",),
    "tir_only.remove_assume": ("RemoveAssume",),
    "cleanup.remove_no_op": ("RemoveNoOp",),
    "cleanup.remove_store_undef": ("RemoveStoreUndef",),
    "cleanup.rewrite_unsafe_select": ("RewriteUnsafeSelect",),
    "cleanup.skip_assert": ("SkipAssert",),
    "dtypes.compute_legalize": (
        "BF16ComputeLegalize",
        "FP8ComputeLegalize",
    ),
    "dtypes.custom": ("LowerCustomDatatypes",),
    "dtypes.narrow": (
        "ForceNarrowIndexToInt32",
        "NarrowDataType",
    ),
    "dtypes.storage_legalize": (
        "BF16StorageLegalize",
        "FP8StorageLegalize",
    ),
    "host.bind_target": (
        "AnnotateEntryFunc",
        "BindTarget",
    ),
    "tir_only.combine_context_call": ("CombineContextCall",),
    "tir_only.extract_constants": ("ExtractPrimFuncConstants",),
    "tir_only.inline_private": ("InlinePrivateFunctions",),
    "tir_only.legalize_packed_calls": ("LegalizePackedCalls",),
    "tir_only.lower_tvm_builtin": ("LowerTVMBuiltin",),
    "tir_only.make_packed_api": ("MakePackedAPI",),
    "tir_only.make_unpacked_api": ("MakeUnpackedAPI",),
    "memory.verify_memory": ("VerifyMemory",),
    "memory.oob_checker": ("OOBChecker",),
    "threads.verify_convergence": ("VerifyConvergence",),
    "tir_only.assume_branches": ("UseAssumeToReduceBranches",),
    "loops.dot_products": ("DotProducts",),
    "loops.expand_lanes": ("ExpandLanes",),
    "loops.hoist": (
        "HoistedConditionals",
        "HoistedLetBindings",
        "HoistExpression",
        "HoistIfThenElse",
    ),
    "loops.jam": ("JamReductions",),
    "loops.nontemporal": ("MarkNonTemporal",),
    "tir_only.overcompute": ("ReduceBranchingThroughOvercompute",),
    "loops.partition": ("LoopPartition",),
    "loops.prefetch": ("StripPrefetches",),
    "loops.privatize_reductions": ("PrivatizeReductions",),
    "loops.profile_intrinsics": (
        "InstrumentProfileIntrinsics",
        "ProfileSite",
        "profile_sites",
    ),
    "tir_only.renormalize_split": ("RenormalizeSplitPattern",),
    "loops.simplify": ("Simplify",),
    "loops.software_pipeline": ("InjectSoftwarePipeline",),
    "loops.split_vectors": ("SplitVectors",),
    "tir_only.to_serial": ("ConvertForLoopsToSerial",),
    "loops.tile_products": ("TileProducts",),
    "loops.transpose": ("TransposeTiles",),
    "loops.unroll": ("UnrollLoop",),
    "loops.vectorize": ("VectorizeLoop",),
    "threads.virtual_thread": ("InjectVirtualThread",),
    "memory.auto_copy": ("LowerAutoCopy",),
    "memory.bound_checkers": ("InstrumentBoundCheckers",),
    "memory.compact_buffer": ("CompactBufferAllocation",),
    "memory.double_buffer": ("InjectDoubleBuffer",),
    "memory.flatten_buffer": ("FlattenBuffer",),
    "tir_only.lower_async_dma": ("LowerAsyncDMA",),
    "memory.pointer_type": ("PointerValueTypeRewrite",),
    "memory.rolling_buffer": ("InjectRollingBuffer",),
    "memory.storage_rewrite": (
        "StorageReport",
        "StorageRewrite",
        "storage_report",
    ),
    "tir_only.vtcm": (
        "LowerVtcmAlloc",
        "VerifyVTCMLimit",
    ),
    "tensorcores.infer_fragment": ("InferFragment",),
    "tensorcores.local_stage": ("ManifestSharedMemoryLocalStage",),
    "tensorcores.mma_buffer_layout": ("TransformMmaBufferLayout",),
    "tensorcores.permuted_layout": ("InjectPermutedLayout",),
    "tensorcores.ptx_async_copy": ("InjectPTXAsyncCopy",),
    "threads.cross_thread_reduction": ("LowerCrossThreadReduction",),
    "threads.default_schedule": ("DefaultGPUSchedule",),
    "threads.device_regions": (
        "AnnotateDeviceRegions",
        "DecorateDeviceScope",
    ),
    "threads.kernel_launch": ("LowerDeviceKernelLaunch",),
    "threads.lift_binding": ("LiftThreadBinding",),
    "threads.lower_allreduce": ("LowerThreadAllreduce",),
    "threads.lower_warp_memory": ("LowerWarpMemory",),
    "threads.merge_shared": ("MergeSharedMemoryAllocations",),
    "tir_only.ptx_ldg32": ("InjectPTXLDG32",),
    "threads.split_host_device": ("SplitHostDevice",),
    "memory.storage_access": (
        "LowerDeviceStorageAccessInfo",
        "MemoryInfo",
        "register_memory_info",
    ),
    "threads.thread_sync": ("ThreadSync",),
    "threads.unify_binding": ("UnifyThreadBinding",),
    "tirlower.validate.passes": ("validate_pass",),
}

GRAPH_PASSES: dict[str, str] = {
    "ConvertToDataflow": "partition",
    "BindConstants": "constants",
    "CSE": "cse",
    "Canonicalize": "canonical",
    "CanonicalizeControl": "control",
    "CheckNoShapeQueries": "canonical",
    "DCE": "dce",
    "DropUnused": "dce",
    "Expand": "expand",
    "FoldGlobals": "globals",
    "FuseOpsByPattern": "partition",
    "MergeComposite": "partition",
    "MergeCompositeFunctions": "composites",
    "StripDebug": "debug",
    "FoldConstants": "constants",
    "SimplifyGlobals": "globals",
}
"""The passes over graphs, and the module that each stands in, below ``tirlower.graph.passes``."""

WHERE: dict[str, str] = {name: module for module, names in _MODULES.items() for name in names}
"""Exported names, and the module that each stands in, below ``tirlower.transforms`` where it is no full name."""


_DECLARED: dict[str, Mapping[str, Option]] = {}
"""The options of passes whose classes have been made, by the pass's name."""


def declare(name: str, options: Mapping[str, Option]) -> None:
    """Note the options of a pass, as its class is made."""
    _DECLARED[name] = options


def known_passes() -> list[str]:
    """The names of the package's passes, and of the passes that users have made classes for."""
    ours = [*(f"tir.{name}" for name in WHERE if name[0].isupper()), *(f"graph.{name}" for name in GRAPH_PASSES)]
    return [*dict.fromkeys((*ours, *_DECLARED))]


def short_name(name: str) -> str:
    """The name of a pass without its prefix.

    >>> short_name("tir.UnrollLoop"), short_name("graph.CSE"), short_name("Mine")
    ('UnrollLoop', 'CSE', 'Mine')
    """
    return name.removeprefix("tir.").removeprefix("graph.")


def options_of(name: str) -> Mapping[str, Option]:
    """The options that a pass declares. Imports it; empty for a name that is no pass's."""
    if name not in _DECLARED and name.removeprefix("tir.") in WHERE:
        load(name.removeprefix("tir."))
    if name not in _DECLARED and name.removeprefix("graph.") in GRAPH_PASSES:
        graph_pass(name.removeprefix("graph."))
    return _DECLARED.get(name, {})


def _full(module: str) -> str:
    return module if module.startswith("tirlower.") else f"tirlower.transforms.{module}"


def home(name: str) -> ModuleType:
    """The module in which a name of :data:`WHERE` stands, imported when it is first asked for."""
    return importlib.import_module(_full(WHERE[name]))


def load(name: str) -> object:
    """What a name of :data:`WHERE` stands for: a pass, imported when it is first asked for."""
    return getattr(home(name), name)


def graph_pass(name: str) -> object:
    """The pass over graphs of a name of :data:`GRAPH_PASSES`, imported when it is first asked for."""
    return getattr(importlib.import_module(f"tirlower.graph.passes.{GRAPH_PASSES[name]}"), name)


def load_all() -> None:
    """Import every pass: after it, ``Pass.registry`` is complete."""
    for module in _MODULES:
        importlib.import_module(_full(module))
