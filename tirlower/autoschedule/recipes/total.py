"""Sums of all elements (dot products, norms, extrema of whole arrays): lanes and threads with partial results.

The order of a sum of floats has to be free; extrema and integers are free by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from tirlower.autoschedule.classify import Nest, extent_of, perfect_loops, same_for_all, strides_of
from tirlower.autoschedule.model import PARALLEL_SECONDS, seconds_of, trips, written_seconds
from tirlower.autoschedule.permission import NO_PERMISSION, any_order
from tirlower.autoschedule.recipe import Facts, Handles, Plan, Recipe, Refusal
from tirlower.autoschedule.verbs import Verbs
from tirlower.autoschedule.versions import in_parallel, said, where_wide
from tirlower.ir.buffer import Buffer
from tirlower.ir.query import each
from tirlower.ir.stmt import AllocBuffer, Block
from tirlower.machine.processor import Processor
from tirlower.poly import Loop, Statement

__all__ = ["TOTAL", "Total", "TotalPlan"]

PIECE: Final = 1 << 10
"""Elements of a piece of a loop that stands alone: a thread sums up some of them."""

SHORT: Final = 2
"""Vectors that the innermost loop has at least, so that lanes pay."""


@dataclass(frozen=True, eq=False)
class _Facts(Facts):
    """The update, the loops around it, and its block where that has an init."""

    update: Statement
    loops: tuple[Loop, ...]
    block: Block | None


@dataclass(frozen=True)
class TotalPlan(Plan):
    """Lanes of a partial result (0: as LLVM makes them), the elements of a piece (0: the outermost loop's iterations are
    pieces), and whether these are on threads."""

    lanes: int
    piece: int = 0
    parallel: bool = False


@dataclass(frozen=True)
class Total(Recipe[_Facts, TotalPlan]):
    """One element that all iterations update."""

    name: ClassVar[str] = "total"
    reorders: ClassVar[bool] = True

    def matches(self, nests: Sequence[Nest]) -> _Facts | Refusal:
        """The first nest, where its one update is of one element."""
        nest = nests[0]
        updates = [one for one in nest.statements if one.reduction is not None and not one.starts]
        if len(updates) != 1:
            return Refusal("it has not one reduction")
        [update] = updates
        block = nest.block_of(update)
        if any(not one.starts or nest.block_of(one) is not block for one in nest.statements if one is not update):
            return Refusal("other statements stand in the nest")
        if any(strides_of(access) for access in update.accesses if access.is_write):
            return Refusal("it updates more than one element")
        if any(True for _ in each(AllocBuffer, nest.root)):
            return Refusal("it has memory of its own")
        if len(perfect_loops(nest)) != len(update.loops) or not all(map(same_for_all, update.loops)):
            return Refusal("its loops do not stand directly in each other, or move with each other")
        if any(loop.start.terms or loop.start.const for loop in update.loops):
            return Refusal("its loops do not start at 0")
        inner = update.loops[-1]
        for access in update.accesses:
            if access.guards or strides_of(access).get(inner, 0) not in (0, 1):
                return Refusal(f"{access.text} is not contiguous along {inner.name}, or not always there")
        if not any(strides_of(access).get(inner) for access in update.accesses):
            return Refusal(f"nothing moves with {inner.name}")
        if not any_order(nest, update):
            return Refusal(NO_PERMISSION)
        begun = len(nest.statements) > 1
        if begun and any(extent_of(loop) is None for loop in update.loops):
            # Of a sum of nothing there is no init, and no step is proved that puts one in front of all loops.
            return Refusal("its init is in loops that run as often as the caller alone knows")
        return _Facts((nest,), update, update.loops, block if begun else None)

    def plan(self, facts: _Facts, processor: Processor) -> TotalPlan | Refusal:
        """Lanes for sums of floats (LLVM makes them of extrema and integers), threads where there is enough to do."""
        [nest] = facts.nests
        reduction = facts.update.reduction
        assert reduction is not None
        chained = not reduction.reorders
        buffers: list[Buffer] = [access.buffer for access in facts.update.accesses if access.buffer is not None]
        lanes = processor.lanes(f"uint{8 * max(-(-one.dtype.bits // 8) for one in buffers)}")
        *around, inner = facts.loops
        points = 1.0
        for loop in facts.loops:
            points *= trips(loop)
        if trips(inner) < SHORT * lanes:
            return Refusal(f"{trips(inner)} elements in a row are too few for vectors of {lanes}")
        seconds = seconds_of(points * len(facts.update.accesses) / 2 / lanes)
        rule = [f"partial results of {lanes} lanes"] if chained else []
        unknown = any(extent_of(loop) is None for loop in facts.loops)
        pieces = trips(inner) // PIECE if not around else trips(around[0])
        enough = unknown or seconds >= 2 * PARALLEL_SECONDS  # a call decides then
        parallel = processor.threads > 1 and enough and (pieces >= 2 or extent_of(facts.loops[0]) is None)
        if parallel:
            seconds /= processor.threads
            rule.append("each piece has a result of its own")
            rule += [found for found in [said(facts.nests, seconds)] if found]
        elif not chained:
            return Refusal("the loops stand as they should")
        elif processor.threads > 1:
            rule.append(f"not parallel: {seconds * 1e6:.2g} µs of work")
        if seconds > 0.9 * written_seconds(nest, processor):
            return Refusal("the loops stand as they should")
        piece = PIECE if parallel and not around else 0
        return TotalPlan(seconds, "; ".join(rule), lanes if chained else 0, piece, parallel)

    def apply(self, sch: Verbs, facts: _Facts, plan: TotalPlan, loops: Handles) -> None:
        """The init by itself, then pieces of a loop that is alone, lanes, and threads."""
        first, inner = loops[facts.loops[0]], loops[facts.loops[-1]]
        if plan.lanes:
            where_wide(sch, first, facts.loops[-1], SHORT * plan.lanes)
        if facts.block is not None:
            sch.decompose_reduction(sch.get_block(facts.block.name), first)
        if plan.piece:
            extent = extent_of(facts.loops[0])
            if extent is None or extent % plan.piece:
                inner, rest = sch.peel(inner, beyond=plan.piece)
                if plan.lanes and (extent is None or extent % plan.piece >= SHORT * plan.lanes):
                    sch.vectorize(rest, plan.lanes, tail="scalar", reduction=True)
            first, inner = sch.split(inner, [None, plan.piece])
        if plan.lanes:
            sch.vectorize(inner, plan.lanes, tail="scalar", reduction=True)
        if plan.parallel:
            in_parallel(sch, first, facts.nests, plan.seconds, reduction=True)


TOTAL: Final = Total()
