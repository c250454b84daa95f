"""Hand-made wrong variants of passes: five for each of ten, and the tests that have to notice them.

A variant replaces one text of one file, which must stand there exactly once. It is wrong for some program, so it makes
no variant to take away a shortcut, or a check that another one repeats.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["TESTS", "VARIANTS", "Variant", "Wrong"]


class Wrong(enum.Enum):
    """In what way a variant is wrong."""

    OFF_BY_ONE = "off by one"
    DROPPED_GUARD = "dropped guard"
    SWAPPED_ORDER = "swapped order"
    MISSED_ALIAS = "missed alias"
    WRONG_DTYPE = "wrong dtype"


@dataclass(frozen=True)
class Variant:
    """``text`` of ``file`` (under ``tirlower``) becomes ``instead``; ``what`` says what that does."""

    of: str
    wrong: Wrong
    what: str
    file: str
    text: str
    instead: str

    def __str__(self) -> str:
        return f"{self.of}, {self.wrong.value}: {self.what}"


TESTS = {
    "LowerInitBlock": ("transforms/blocks/test_lower_init.py",),
    "PlanAndUpdateBufferAllocationLocation": ("transforms/blocks/test_plan_allocation.py",),
    "LowerMatchBuffer": ("transforms/blocks/test_lower_match_buffer.py",),
    "CompactBufferAllocation": ("transforms/memory/test_compact_buffer.py",),
    "FlattenBuffer": ("transforms/memory/test_flatten_buffer.py",),
    "StorageRewrite": (
        "transforms/memory/test_storage_rewrite.py",
        "transforms/memory/test_storage_rewrite_in_place.py",
        "transforms/memory/test_storage_rewrite_sizes.py",
        "rewrite/storage/test_in_place.py",
    ),
    "VectorizeLoop": (
        "transforms/loops/test_vectorize.py",
        "transforms/loops/test_vectorize_conditions.py",
        "transforms/loops/test_vectorize_scalable.py",
    ),
    "UnrollLoop": ("transforms/loops/test_unroll.py",),
    "LoopPartition": ("transforms/loops/test_partition.py",),
    "CommonSubexprElimTIR": ("transforms/cleanup/test_common_subexpr.py",),
}
"""The tests of each pass, under ``tests``."""

VARIANTS = (
    # -- LowerInitBlock ----------------------------------------------------------------------------------------------
    Variant(
        "LowerInitBlock",
        Wrong.OFF_BY_ONE,
        "the init runs in the second iteration",
        "transforms/blocks/lower_init.py",
        "EQ(it.var, build.cast(it.var.dtype, it.domain.min))",
        "EQ(it.var, build.add(build.cast(it.var.dtype, it.domain.min), 1))",
    ),
    Variant(
        "LowerInitBlock",
        Wrong.DROPPED_GUARD,
        "only the first reduction iterator is asked",
        "transforms/blocks/lower_init.py",
        "                condition = And(condition, start)\n",
        "                pass\n",
    ),
    Variant(
        "LowerInitBlock",
        Wrong.SWAPPED_ORDER,
        "the init runs after the update",
        "transforms/blocks/lower_init.py",
        "seq(*head, init, *rest)",
        "seq(*head, *rest, init)",
    ),
    Variant(
        "LowerInitBlock",
        Wrong.MISSED_ALIAS,
        "the init stands before the allocations that it stores to",
        "transforms/blocks/lower_init.py",
        "seq(*head, init, *rest)",
        "seq(init, *head, *rest)",
    ),
    Variant(
        "LowerInitBlock",
        Wrong.WRONG_DTYPE,
        "an int64 iterator is compared in int32",
        "transforms/blocks/lower_init.py",
        "build.cast(it.var.dtype, it.domain.min)",
        'build.cast("int32", it.domain.min)',
    ),
    # -- PlanAndUpdateBufferAllocationLocation -----------------------------------------------------------------------
    Variant(
        "PlanAndUpdateBufferAllocationLocation",
        Wrong.OFF_BY_ONE,
        "one loop too far out for the variables of the shape",
        "transforms/blocks/plan_allocation.py",
        "return needed[-1] if ancestor in needed[:-1] else ancestor",
        "return needed[-2] if ancestor in needed[:-1] else ancestor",
    ),
    Variant(
        "PlanAndUpdateBufferAllocationLocation",
        Wrong.DROPPED_GUARD,
        "what a branch may have stored counts as stored",
        "transforms/blocks/plan_allocation.py",
        "if not self.instances and not self.conditions and op.predicate is None:",
        "if not self.instances and op.predicate is None:",
    ),
    Variant(
        "PlanAndUpdateBufferAllocationLocation",
        Wrong.SWAPPED_ORDER,
        "a store counts before the loads of its value",
        "transforms/blocks/plan_allocation.py",
        """        self.generic(op)
        if not self.instances and not self.conditions and op.predicate is None:
            if all(side_effect(index) is Purity.PURE for index in op.indices):
                self.stored.setdefault(_element(op))
""",
        """        if not self.instances and not self.conditions and op.predicate is None:
            if all(side_effect(index) is Purity.PURE for index in op.indices):
                self.stored.setdefault(_element(op))
        self.generic(op)
""",
    ),
    Variant(
        "PlanAndUpdateBufferAllocationLocation",
        Wrong.MISSED_ALIAS,
        "a block forgets its regions of views",
        "transforms/blocks/plan_allocation.py",
        "kept = tuple(r for r in regions if r.buffer.data in self.visible)",
        "kept = tuple(r for r in regions if self.visible.get(r.buffer.data) is r.buffer)",
    ),
    Variant(
        "PlanAndUpdateBufferAllocationLocation",
        Wrong.WRONG_DTYPE,
        "the predicate of the new block is an int32",
        "transforms/blocks/plan_allocation.py",
        'const(True, "bool")',
        'const(1, "int32")',
    ),
    # -- LowerMatchBuffer --------------------------------------------------------------------------------------------
    Variant(
        "LowerMatchBuffer",
        Wrong.OFF_BY_ONE,
        "a region of a match ends one element early",
        "transforms/blocks/lower_match_buffer.py",
        "ranges.append(Range(build.add(outer.min, inner.min), inner.extent))",
        "ranges.append(Range(build.add(outer.min, inner.min), build.sub(inner.extent, 1)))",
    ),
    Variant(
        "LowerMatchBuffer",
        Wrong.DROPPED_GUARD,
        "the promised factor of an offset is not checked",
        "transforms/blocks/lower_match_buffer.py",
        "if target.offset_factor > 1 and not",
        "if target.offset_factor > 1024 and not",
    ),
    Variant(
        "LowerMatchBuffer",
        Wrong.SWAPPED_ORDER,
        "the strides of a compact source are those of its mirror image",
        "transforms/blocks/lower_match_buffer.py",
        "actual.insert(0, stride)",
        "actual.append(stride)",
    ),
    Variant(
        "LowerMatchBuffer",
        Wrong.MISSED_ALIAS,
        "a view of matched data starts where the source starts",
        "transforms/blocks/lower_match_buffer.py",
        "elem_offset=build.add(buffer.elem_offset, offset))",
        "elem_offset=buffer.elem_offset)",
    ),
    Variant(
        "LowerMatchBuffer",
        Wrong.WRONG_DTYPE,
        "an access pointer of another type is shifted by the source's elements",
        "transforms/blocks/lower_match_buffer.py",
        """        if have != need:
            return op
""",
        "",
    ),
    # -- CompactBufferAllocation -------------------------------------------------------------------------------------
    Variant(
        "CompactBufferAllocation",
        Wrong.OFF_BY_ONE,
        "a strict extent may grow by one",
        "rewrite/touched_regions.py",
        "min(high.value, shape.value - 1)",
        "min(high.value, shape.value)",
    ),
    Variant(
        "CompactBufferAllocation",
        Wrong.DROPPED_GUARD,
        "an empty symbolic region has a negative extent",
        "rewrite/touched_regions.py",
        "if not self.analyzer.can_prove(build.ge(bounded, zero)):",
        "if self.analyzer.can_prove(build.lt(bounded, zero)):",
    ),
    Variant(
        "CompactBufferAllocation",
        Wrong.SWAPPED_ORDER,
        "padded strides are those of the mirror image",
        "transforms/memory/compact_buffer.py",
        "strides.insert(0, stride)",
        "strides.append(stride)",
    ),
    Variant(
        "CompactBufferAllocation",
        Wrong.MISSED_ALIAS,
        "a pointer taken after the first access is not seen",
        "rewrite/touched_regions.py",
        "            allocation.whole = True\n",
        "            allocation.whole = allocation.whole or allocation.box is None\n",
    ),
    Variant(
        "CompactBufferAllocation",
        Wrong.WRONG_DTYPE,
        "an int32 extent becomes one of its int64 indices",
        "rewrite/touched_regions.py",
        "low, high = (simplify(build.cast(shape.dtype, end)) for end in ends)",
        "low, high = ends",
    ),
    # -- FlattenBuffer -----------------------------------------------------------------------------------------------
    Variant(
        "FlattenBuffer",
        Wrong.OFF_BY_ONE,
        "a reversed view starts at the element before its lowest",
        "transforms/memory/flatten_buffer.py",
        "reach = build.mul(build.sub(extent, 1), stride)",
        "reach = build.mul(build.sub(extent, 2), stride)",
    ),
    Variant(
        "FlattenBuffer",
        Wrong.DROPPED_GUARD,
        "a masked store writes all lanes",
        "transforms/memory/flatten_buffer.py",
        "return BufferStore(flat, value, self.indices(op.buffer, op.indices), op.predicate, span=op.span)",
        "return BufferStore(flat, value, self.indices(op.buffer, op.indices), None, span=op.span)",
    ),
    Variant(
        "FlattenBuffer",
        Wrong.SWAPPED_ORDER,
        "the first index runs fastest",
        "transforms/memory/flatten_buffer.py",
        "            for axis in group:\n                if buffer.strides:\n",
        "            for axis in reversed(group):\n                if buffer.strides:\n",
    ),
    Variant(
        "FlattenBuffer",
        Wrong.MISSED_ALIAS,
        "a view forgets where in the memory it starts",
        "transforms/memory/flatten_buffer.py",
        "build.sub(build.add(made[0], buffer.elem_offset), flat.elem_offset)",
        "build.sub(made[0], flat.elem_offset)",
    ),
    Variant(
        "FlattenBuffer",
        Wrong.WRONG_DTYPE,
        "positions beyond int32 are computed in it",
        "transforms/memory/flatten_buffer.py",
        "wide = buffer.shape and extent.dtype.bits > buffer.shape[0].dtype.bits",
        "wide = False",
    ),
    # -- StorageRewrite ----------------------------------------------------------------------------------------------
    Variant(
        "StorageRewrite",
        Wrong.OFF_BY_ONE,
        "memory is free in the statement that reads it last",
        "rewrite/storage/plan.py",
        "while self.ending and self.ending[0][0] < time:",
        "while self.ending and self.ending[0][0] <= time:",
    ),
    Variant(
        "StorageRewrite",
        Wrong.DROPPED_GUARD,
        "works in place although iterations share an element",
        "rewrite/storage/in_place.py",
        "if op.predicate is not None or not injective(op.indices, self.loops):",
        "if op.predicate is not None:",
    ),
    Variant(
        "StorageRewrite",
        Wrong.SWAPPED_ORDER,
        "works in place although another store comes before the read",
        "rewrite/storage/in_place.py",
        "return checker.reading == checker.stores == 1",
        "return checker.reading == 1",
    ),
    Variant(
        "StorageRewrite",
        Wrong.MISSED_ALIAS,
        "a variable that holds the pointer does not keep the memory in use",
        "rewrite/storage/liveness.py",
        "            self._escape(op.value)  # the variable is another name of the memory\n",
        "            pass\n",
    ),
    Variant(
        "StorageRewrite",
        Wrong.WRONG_DTYPE,
        "buffers of n elements share memory whatever their size",
        "rewrite/storage/plan.py",
        "                if entry.first.op.buffer.dtype.element is kind.element:\n",
        "                if entry.bytes is None:\n",
    ),
    # -- VectorizeLoop -----------------------------------------------------------------------------------------------
    Variant(
        "VectorizeLoop",
        Wrong.OFF_BY_ONE,
        "the last lane of a load may lie outside",
        "rewrite/vectors/expressions.py",
        "build.mul(index.stride, build.sub(index.lanes, 1))",
        "build.mul(index.stride, build.sub(index.lanes, 2))",
    ),
    Variant(
        "VectorizeLoop",
        Wrong.DROPPED_GUARD,
        "the condition replaces the mask that an access has",
        "rewrite/vectors/masks.py",
        "return mask if predicate is None else And(mask, predicate)",
        "return mask",
    ),
    Variant(
        "VectorizeLoop",
        Wrong.SWAPPED_ORDER,
        "lanes inside lanes are interleaved",
        "rewrite/vectors/expressions.py",
        "for lane in range(self.lanes) for _ in range(times)]",
        "for _ in range(times) for lane in range(self.lanes)]",
    ),
    Variant(
        "VectorizeLoop",
        Wrong.MISSED_ALIAS,
        "a condition is read again after the branch has stored to what it reads",
        "transforms/loops/vectorize.py",
        "bound = op.else_case is not None or reads_memory(mask)",
        "bound = op.else_case is not None",
    ),
    Variant(
        "VectorizeLoop",
        Wrong.WRONG_DTYPE,
        "a view of another type gets lanes of the allocation's",
        "rewrite/vectors/memory.py",
        "if not buffer.is_compact or buffer.dtype is not self.old.dtype:",
        "if not buffer.is_compact:",
    ),
    # -- UnrollLoop --------------------------------------------------------------------------------------------------
    Variant(
        "UnrollLoop",
        Wrong.OFF_BY_ONE,
        "a loop of as many steps as allowed stays",
        "transforms/loops/unroll.py",
        "count * self.steps <= self.max_step",
        "count * self.steps < self.max_step",
    ),
    Variant(
        "UnrollLoop",
        Wrong.DROPPED_GUARD,
        "a loop with a break is copied",
        "transforms/loops/unroll.py",
        "op.kind is ForKind.SERIAL and count >= 0 and not op.annotations.get(NO_UNROLL) and not jumps_out(op.body)",
        "op.kind is ForKind.SERIAL and count >= 0 and not op.annotations.get(NO_UNROLL)",
    ),
    Variant(
        "UnrollLoop",
        Wrong.SWAPPED_ORDER,
        "the last iteration runs first",
        "transforms/loops/unroll.py",
        "for i in range(count):",
        "for i in reversed(range(count)):",
    ),
    Variant(
        "UnrollLoop",
        Wrong.MISSED_ALIAS,
        "the copies share what they declare",
        "transforms/loops/unroll.py",
        "refresh_binders(op.body, values) if i else substitute(op.body, values)",
        "substitute(op.body, values)",
    ),
    Variant(
        "UnrollLoop",
        Wrong.WRONG_DTYPE,
        "an int64 loop's variable becomes an int32",
        "transforms/loops/unroll.py",
        "value = build.add(op.min, const(i, op.loop_var.dtype))",
        'value = build.cast("int32", build.add(op.min, const(i, op.loop_var.dtype)))',
    ),
    # -- LoopPartition -----------------------------------------------------------------------------------------------
    Variant(
        "LoopPartition",
        Wrong.OFF_BY_ONE,
        "a condition that holds once more after the cut is lost there",
        "transforms/loops/partition.py",
        "build.le(limit, build.add(edge, 1))",
        "build.le(limit, build.add(edge, 2))",
    ),
    Variant(
        "LoopPartition",
        Wrong.DROPPED_GUARD,
        "the first part may run beyond the loop's end",
        "transforms/loops/partition.py",
        "            if not prove(build.le(first, end)):\n",
        "            if prove(build.gt(first, end)):\n",
    ),
    Variant(
        "LoopPartition",
        Wrong.SWAPPED_ORDER,
        "the last part runs first",
        "transforms/loops/partition.py",
        "        return seq(*done)\n",
        "        return seq(*reversed(done))\n",
    ),
    Variant(
        "LoopPartition",
        Wrong.MISSED_ALIAS,
        "a name bound inside the loop counts as known outside",
        "transforms/loops/partition.py",
        """        self.visit(op.value)
        self.solver.inside.add(op.var)
        if op.var.dtype""",
        """        self.visit(op.value)
        if op.var.dtype""",
    ),
    Variant(
        "LoopPartition",
        Wrong.WRONG_DTYPE,
        "a condition on unsigned integers is solved as if they had a sign",
        "analysis/condition_ranges.py",
        "not is_index_type(op.a.dtype)",
        "not op.a.dtype.is_integral",
    ),
    # -- CommonSubexprElimTIR ----------------------------------------------------------------------------------------
    Variant(
        "CommonSubexprElimTIR",
        Wrong.OFF_BY_ONE,
        "two uses are not enough",
        "transforms/cleanup/common_subexpr.py",
        "if total >= 2 and",
        "if total > 2 and",
    ),
    Variant(
        "CommonSubexprElimTIR",
        Wrong.DROPPED_GUARD,
        "a division moves out of the condition that keeps it from faulting",
        "transforms/cleanup/common_subexpr.py",
        "if not computation.faults or computation.uses.get(place, (0, False))[1]:",
        "if computation.uses is not None:",
    ),
    Variant(
        "CommonSubexprElimTIR",
        Wrong.SWAPPED_ORDER,
        "bound in front of the last use, not the first",
        "analysis/occurrences.py",
        "result = (scope, min(at, first))",
        "result = (scope, max(at, first))",
    ),
    Variant(
        "CommonSubexprElimTIR",
        Wrong.MISSED_ALIAS,
        "a load moves over a store",
        "transforms/cleanup/common_subexpr.py",
        "return not (op.is_leaf or isinstance(op, (BufferLoad, Call, Let)) or op.dtype.is_handle)",
        "return not (op.is_leaf or isinstance(op, (Call, Let)) or op.dtype.is_handle)",
    ),
    Variant(
        "CommonSubexprElimTIR",
        Wrong.WRONG_DTYPE,
        "every bound variable is an int32",
        "transforms/cleanup/common_subexpr.py",
        'Var(f"cse_var_{self.count}", like.dtype)',
        'Var(f"cse_var_{self.count}", "int32")',
    ),
)
