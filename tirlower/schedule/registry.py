"""The primitives: by the name of the method, and by the name in a trace.

Each is imported when it is first asked for: a build that schedules takes a handful of them, and importing all takes longer
than compiling a kernel.
"""

from __future__ import annotations

import functools
import importlib
from typing import Final

from tirlower.diagnostics import nearest_name
from tirlower.schedule.kind import Kind

__all__ = ["VERBS", "InstructionKind", "all_kinds", "method_kind"]

_WHERE: Final = {
    "get_block": ("GetBlock", "lookups"),
    "get_loops": ("GetLoops", "lookups"),
    "get_child_blocks": ("GetChildBlocks", "lookups"),
    "get_producers": ("GetProducers", "lookups"),
    "get_consumers": ("GetConsumers", "lookups"),
    "get_output_blocks": ("GetOutputBlocks", "lookups"),
    "loop": ("Loop", "select"),
    "loops": ("Loops", "select"),
    "stage": ("Stage", "select"),
    "buffer": ("Buffer", "select"),
    "find": ("Find", "find"),
    "select": ("Select", "find"),
    "navigate": ("Navigate", "navigate"),
    "sample_categorical": ("SampleCategorical", "samples"),
    "sample_perfect_tile": ("SamplePerfectTile", "samples"),
    "sample_partitioned_tile": ("SamplePartitionedTile", "samples"),
    "sample_compute_location": ("SampleComputeLocation", "compute.sample_location"),
    "split": ("Split", "loops.split"),
    "fuse": ("Fuse", "loops.fuse"),
    "reorder": ("Reorder", "loops.reorder"),
    "parallel": ("Parallel", "loops.kinds"),
    "vectorize": ("Vectorize", "loops.kinds"),
    "unroll": ("Unroll", "loops.kinds"),
    "bind": ("Bind", "loops.kinds"),
    "add_unit_loop": ("AddUnitLoop", "loops.unit"),
    "annotate": ("Annotate", "blocks.annotate"),
    "unannotate": ("Unannotate", "blocks.annotate"),
    "interchange": ("Interchange", "loops.reorder"),
    "reverse": ("Reverse", "loops.reverse"),
    "shift": ("Shift", "loops.skew"),
    "skew": ("Skew", "loops.skew"),
    "merge": ("Merge", "loops.merge"),
    "fission": ("Fission", "loops.fission"),
    "fuse_siblings": ("FuseSiblings", "loops.fuse_siblings"),
    "peel": ("Peel", "loops.peel"),
    "loop_partition": ("LoopPartition", "loops.partition"),
    "unroll_jam": ("UnrollJam", "loops.unroll_jam"),
    "reorder_stmts": ("ReorderStmts", "loops.statements"),
    "sink": ("Sink", "loops.sink"),
    "hoist": ("Hoist", "loops.hoist"),
    "specialize": ("Specialize", "loops.specialize"),
    "assume": ("Assume", "assume"),
    "simplify": ("Simplify", "loops.simplify"),
    "parallelize": ("Parallelize", "loops.automatic"),
    "auto_vectorize": ("AutoVectorize", "loops.automatic"),
    "unroll_small": ("UnrollSmall", "loops.automatic"),
    "launch": ("Launch", "loops.launch"),
    "as_block": ("AsBlock", "blocks.as_block"),
    "as_loops": ("AsLoops", "blocks.as_loops"),
    "blockize": ("Blockize", "blocks.blockize"),
    "tensorize": ("Tensorize", "blocks.tensorize"),
    "transform_block_layout": ("TransformBlockLayout", "blocks.layout"),
    "reorder_block_iter_var": ("ReorderBlockIterVar", "blocks.block_iters"),
    "transform_layout": ("TransformLayout", "memory.layout"),
    "set_axis_separator": ("SetAxisSeparator", "memory.layout"),
    "annotate_buffer_access": ("AnnotateBufferAccess", "blocks.regions"),
    "unsafe_hide_buffer_access": ("UnsafeHideBufferAccess", "blocks.regions"),
    "enter_postproc": ("EnterPostproc", "postproc"),
    "compute_inline": ("ComputeInline", "compute.inline"),
    "decompose_reduction": ("DecomposeReduction", "compute.reduction"),
    "stage_mem": ("StageMem", "memory.stage_mem"),
    "count": ("Count", "loops.count"),
    "prefetch": ("Prefetch", "memory.prefetch"),
    "pack": ("Pack", "memory.pack"),
    "tile": ("Tile", "loops.tile"),
    "register_tile": ("RegisterTile", "compute.register_tile"),
    "compute_at": ("ComputeAt", "compute.compute_at"),
    "reverse_compute_at": ("ReverseComputeAt", "compute.reverse_compute_at"),
    "reverse_compute_inline": ("ReverseComputeInline", "compute.reverse_inline"),
    "rfactor": ("RFactor", "compute.rfactor"),
    "storage_align": ("StorageAlign", "memory.align"),
    "set_scope": ("SetScope", "memory.scope"),
    "unsafe_set_dtype": ("UnsafeSetDType", "memory.dtype"),
    "decompose_padding": ("DecomposePadding", "compute.padding"),
    "reindex": ("ReIndex", "memory.reindex"),
    "reindex_cache_read": ("ReindexCacheRead", "memory.reindex_cache"),
    "reindex_cache_write": ("ReindexCacheWrite", "memory.reindex_cache"),
    "expand": ("Expand", "memory.expand"),
    "unflatten": ("Unflatten", "memory.unflatten"),
    "materialize": ("Materialize", "memory.materialize"),
    "lift_alloc": ("LiftAlloc", "memory.lift_alloc"),
    "privatize": ("Privatize", "memory.lift_alloc"),
    "cache_read": ("CacheRead", "memory.cache_read"),
    "cache_write": ("CacheWrite", "memory.cache_write"),
    "cache_inplace": ("CacheInplace", "memory.cache_inplace"),
    "cache_index": ("CacheIndex", "memory.cache_index"),
    "inline_bind": ("InlineBind", "compute.inline_bind"),
    "bind_expr": ("BindExpr", "compute.bind_expr"),
    "non_temporal": ("NonTemporal", "memory.non_temporal"),
    "pipeline": ("Pipeline", "loops.pipeline"),
    "contract": ("Contract", "memory.contract"),
    "reuse": ("Reuse", "memory.reuse"),
    "recompute": ("Recompute", "compute.recompute"),
    "fuse_epilogue": ("FuseEpilogue", "compute.epilogue"),
    "rolling_buffer": ("RollingBuffer", "memory.rolling"),
    "read_at": ("ReadAt", "memory.read_write_at"),
    "write_at": ("WriteAt", "memory.read_write_at"),
    "pad_einsum": ("PadEinsum", "compute.pad_einsum"),
}
"""The methods of a schedule: the name in a trace, and the module below ``tirlower.schedule`` whose constant, the method's
name in capitals, the primitive is."""

VERBS: Final = tuple(_WHERE)
"""The names of the methods."""

_METHODS: Final = {name: method for method, (name, _) in _WHERE.items()}


@functools.cache
def _loaded(method: str) -> Kind:
    """The primitive of a method that there is, imported when it is first asked for."""
    kind = getattr(importlib.import_module(f"tirlower.schedule.{_WHERE[method][1]}"), method.upper())
    assert isinstance(kind, Kind)  # a row of the table is wrong
    return kind


def all_kinds() -> tuple[Kind, ...]:
    """All primitives. Imports them."""
    return tuple(map(_loaded, VERBS))


class InstructionKind:
    """The kinds of instructions of a trace."""

    @staticmethod
    def get(name: str) -> Kind:
        """The kind of a name. Raises AttributeError where there is none.

        >>> InstructionKind.get("Split").is_pure
        False
        """
        method = _METHODS.get(name)
        if method is None:
            raise AttributeError(f"there is no instruction {name!r}; did you mean {nearest_name(name, _METHODS)!r}?")
        return _loaded(method)


def method_kind(name: str) -> Kind:
    """The kind of the method of a schedule. Raises AttributeError where there is none."""
    if name not in _WHERE:
        near = nearest_name(name, _WHERE)
        raise AttributeError(f"a schedule has no verb {name!r}" + (f"; did you mean {near!r}?" if near else ""))
    return _loaded(name)
