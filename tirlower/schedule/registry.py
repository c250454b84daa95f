"""The primitives: by the name of the method, and by the name in a trace."""

from __future__ import annotations

from tirlower.diagnostics import nearest_name
from tirlower.schedule.assume import ASSUME
from tirlower.schedule.blocks.annotate import ANNOTATE, UNANNOTATE
from tirlower.schedule.blocks.as_block import AS_BLOCK
from tirlower.schedule.blocks.block_iters import REORDER_BLOCK_ITER_VAR
from tirlower.schedule.blocks.blockize import BLOCKIZE
from tirlower.schedule.blocks.layout import TRANSFORM_BLOCK_LAYOUT
from tirlower.schedule.blocks.regions import ANNOTATE_BUFFER_ACCESS, UNSAFE_HIDE_BUFFER_ACCESS
from tirlower.schedule.blocks.tensorize import TENSORIZE
from tirlower.schedule.compute.bind_expr import BIND_EXPR
from tirlower.schedule.compute.compute_at import COMPUTE_AT
from tirlower.schedule.compute.epilogue import FUSE_EPILOGUE
from tirlower.schedule.compute.inline import COMPUTE_INLINE
from tirlower.schedule.compute.pad_einsum import PAD_EINSUM
from tirlower.schedule.compute.padding import DECOMPOSE_PADDING
from tirlower.schedule.compute.recompute import RECOMPUTE
from tirlower.schedule.compute.reduction import DECOMPOSE_REDUCTION
from tirlower.schedule.compute.register_tile import REGISTER_TILE
from tirlower.schedule.compute.reverse_compute_at import REVERSE_COMPUTE_AT
from tirlower.schedule.compute.reverse_inline import REVERSE_COMPUTE_INLINE
from tirlower.schedule.compute.rfactor import RFACTOR
from tirlower.schedule.compute.sample_location import SAMPLE_COMPUTE_LOCATION
from tirlower.schedule.find import FIND, SELECT
from tirlower.schedule.kind import Kind
from tirlower.schedule.lookups import (
    GET_BLOCK,
    GET_CHILD_BLOCKS,
    GET_CONSUMERS,
    GET_LOOPS,
    GET_OUTPUT_BLOCKS,
    GET_PRODUCERS,
)
from tirlower.schedule.loops.automatic import AUTO_VECTORIZE, PARALLELIZE, UNROLL_SMALL
from tirlower.schedule.loops.fission import FISSION
from tirlower.schedule.loops.fuse import FUSE
from tirlower.schedule.loops.fuse_siblings import FUSE_SIBLINGS
from tirlower.schedule.loops.hoist import HOIST
from tirlower.schedule.loops.kinds import BIND, PARALLEL, UNROLL, VECTORIZE
from tirlower.schedule.loops.launch import LAUNCH
from tirlower.schedule.loops.merge import MERGE
from tirlower.schedule.loops.partition import LOOP_PARTITION
from tirlower.schedule.loops.peel import PEEL
from tirlower.schedule.loops.pipeline import PIPELINE
from tirlower.schedule.loops.reorder import INTERCHANGE, REORDER
from tirlower.schedule.loops.reverse import REVERSE
from tirlower.schedule.loops.simplify import SIMPLIFY
from tirlower.schedule.loops.sink import SINK
from tirlower.schedule.loops.skew import SHIFT, SKEW
from tirlower.schedule.loops.specialize import SPECIALIZE
from tirlower.schedule.loops.split import SPLIT
from tirlower.schedule.loops.statements import REORDER_STMTS
from tirlower.schedule.loops.tile import TILE
from tirlower.schedule.loops.unit import ADD_UNIT_LOOP
from tirlower.schedule.loops.unroll_jam import UNROLL_JAM
from tirlower.schedule.memory.align import STORAGE_ALIGN
from tirlower.schedule.memory.cache_index import CACHE_INDEX
from tirlower.schedule.memory.cache_inplace import CACHE_INPLACE
from tirlower.schedule.memory.cache_read import CACHE_READ
from tirlower.schedule.memory.cache_write import CACHE_WRITE
from tirlower.schedule.memory.contract import CONTRACT
from tirlower.schedule.memory.dtype import UNSAFE_SET_DTYPE
from tirlower.schedule.memory.expand import EXPAND
from tirlower.schedule.memory.layout import SET_AXIS_SEPARATOR, TRANSFORM_LAYOUT
from tirlower.schedule.memory.lift_alloc import LIFT_ALLOC, PRIVATIZE
from tirlower.schedule.memory.non_temporal import NON_TEMPORAL
from tirlower.schedule.memory.pack import PACK
from tirlower.schedule.memory.prefetch import PREFETCH
from tirlower.schedule.memory.read_write_at import READ_AT, WRITE_AT
from tirlower.schedule.memory.reindex import REINDEX
from tirlower.schedule.memory.reindex_cache import REINDEX_CACHE_READ, REINDEX_CACHE_WRITE
from tirlower.schedule.memory.reuse import REUSE
from tirlower.schedule.memory.rolling import ROLLING_BUFFER
from tirlower.schedule.memory.scope import SET_SCOPE
from tirlower.schedule.memory.stage_mem import STAGE_MEM
from tirlower.schedule.navigate import NAVIGATE
from tirlower.schedule.postproc import ENTER_POSTPROC
from tirlower.schedule.samples import SAMPLE_CATEGORICAL, SAMPLE_PARTITIONED_TILE, SAMPLE_PERFECT_TILE
from tirlower.schedule.select import BUFFER, LOOP, LOOPS, STAGE

__all__ = ["KINDS", "InstructionKind", "method_kind"]

KINDS = (
    GET_BLOCK,
    GET_LOOPS,
    GET_CHILD_BLOCKS,
    GET_PRODUCERS,
    GET_CONSUMERS,
    GET_OUTPUT_BLOCKS,
    LOOP,
    LOOPS,
    STAGE,
    BUFFER,
    FIND,
    SELECT,
    NAVIGATE,
    SAMPLE_CATEGORICAL,
    SAMPLE_PERFECT_TILE,
    SAMPLE_PARTITIONED_TILE,
    SAMPLE_COMPUTE_LOCATION,
    SPLIT,
    FUSE,
    REORDER,
    PARALLEL,
    VECTORIZE,
    UNROLL,
    BIND,
    ADD_UNIT_LOOP,
    ANNOTATE,
    UNANNOTATE,
    INTERCHANGE,
    REVERSE,
    SHIFT,
    SKEW,
    MERGE,
    FISSION,
    FUSE_SIBLINGS,
    PEEL,
    LOOP_PARTITION,
    UNROLL_JAM,
    REORDER_STMTS,
    SINK,
    HOIST,
    SPECIALIZE,
    ASSUME,
    SIMPLIFY,
    PARALLELIZE,
    AUTO_VECTORIZE,
    UNROLL_SMALL,
    LAUNCH,
    AS_BLOCK,
    BLOCKIZE,
    TENSORIZE,
    TRANSFORM_BLOCK_LAYOUT,
    REORDER_BLOCK_ITER_VAR,
    TRANSFORM_LAYOUT,
    SET_AXIS_SEPARATOR,
    ANNOTATE_BUFFER_ACCESS,
    UNSAFE_HIDE_BUFFER_ACCESS,
    ENTER_POSTPROC,
    COMPUTE_INLINE,
    DECOMPOSE_REDUCTION,
    STAGE_MEM,
    PREFETCH,
    PACK,
    TILE,
    REGISTER_TILE,
    COMPUTE_AT,
    REVERSE_COMPUTE_AT,
    REVERSE_COMPUTE_INLINE,
    RFACTOR,
    STORAGE_ALIGN,
    SET_SCOPE,
    UNSAFE_SET_DTYPE,
    DECOMPOSE_PADDING,
    REINDEX,
    REINDEX_CACHE_READ,
    REINDEX_CACHE_WRITE,
    EXPAND,
    LIFT_ALLOC,
    PRIVATIZE,
    CACHE_READ,
    CACHE_WRITE,
    CACHE_INPLACE,
    CACHE_INDEX,
    BIND_EXPR,
    NON_TEMPORAL,
    PIPELINE,
    CONTRACT,
    REUSE,
    RECOMPUTE,
    FUSE_EPILOGUE,
    ROLLING_BUFFER,
    READ_AT,
    WRITE_AT,
    PAD_EINSUM,
)
_BY_NAME = {kind.name: kind for kind in KINDS}
_BY_METHOD = {kind.method: kind for kind in KINDS}


class InstructionKind:
    """The kinds of instructions of a trace."""

    @staticmethod
    def get(name: str) -> Kind:
        """The kind of a name. Raises AttributeError where there is none.

        >>> InstructionKind.get("Split").is_pure
        False
        """
        found = _BY_NAME.get(name)
        if found is None:
            raise AttributeError(f"there is no instruction {name!r}; did you mean {nearest_name(name, _BY_NAME)!r}?")
        return found


def method_kind(name: str) -> Kind:
    """The kind of the method of a schedule. Raises AttributeError where there is none."""
    found = _BY_METHOD.get(name)
    if found is None:
        near = nearest_name(name, _BY_METHOD)
        raise AttributeError(f"a schedule has no verb {name!r}" + (f"; did you mean {near!r}?" if near else ""))
    return found
