"""Permutations: what is read in rows and written in columns goes through tiles that turn in registers, into whole lines.

A tile is read along the rows of what is read, and written along those of what is written. Tiles are done in squares, which
keep few pages in use; what goes past the caches is written line by line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from tirlower.autoschedule.classify import Nest, extent_of, perfect_loops, same_for_all, strides_of
from tirlower.autoschedule.model import PARALLEL_SECONDS, seconds_of, trips, written_seconds
from tirlower.autoschedule.recipe import Facts, Handles, Plan, Recipe, Refusal
from tirlower.autoschedule.traffic import streamed
from tirlower.autoschedule.verbs import Verbs
from tirlower.autoschedule.versions import in_parallel, said
from tirlower.ir.annotations import NONTEMPORAL
from tirlower.ir.buffer import Buffer
from tirlower.machine.processor import Processor
from tirlower.poly import Loop
from tirlower.schedule.handles import LoopRV

__all__ = ["PERMUTATION", "Permutation", "PermutationPlan"]

LINE: Final = 64
"""Bytes of a line of the caches: a side of a tile is one."""

SQUARE: Final = 64
"""Elements of a side of a square of tiles."""

TURNED: Final = 0.05
"""The part of the time of single elements, each from another line, that tiles take."""


@dataclass(frozen=True, eq=False)
class _Facts(Facts):
    """The loop that is contiguous where it is read, the one where it is written, the others, and what is written."""

    across: Loop
    along: Loop
    outer: tuple[Loop, ...]
    written: Buffer

    @property
    def nest(self) -> Nest:
        """The nest."""
        return self.nests[0]


@dataclass(frozen=True)
class PermutationPlan(Plan):
    """Elements of a side of a tile and of a square of tiles; whether the output goes past the caches; threads."""

    tile: int
    square: int
    nontemporal: bool = False
    parallel: bool = False


@dataclass(frozen=True)
class Permutation(Recipe[_Facts, PermutationPlan]):
    """Transposes, and what is computed element by element on their way."""

    name: ClassVar[str] = "permutation"

    def matches(self, nests: Sequence[Nest]) -> _Facts | Refusal:
        """The first nest, where one loop is contiguous in what is written and another one in all that is read."""
        nest = nests[0]
        perfect = perfect_loops(nest)
        if len(perfect) < len(nest.loops) or len(nest.statements) != 1:
            return Refusal("it is not one statement in loops that stand directly in each other")
        [statement] = nest.statements
        writes = [access for access in statement.accesses if access.is_write]
        reads = [access for access in statement.accesses if not access.is_write]
        if len(writes) != 1 or not reads or writes[0].buffer is None or statement.reduction is not None:
            return Refusal("it does not read one array and write another one")
        if any(access.buffer is writes[0].buffer for access in reads):
            return Refusal("it reads what it writes")
        if any(access.guards or access.indices is None for access in statement.accesses):
            return Refusal("an access is not always there")
        if any(loop.start.terms or loop.start.const or not same_for_all(loop) for loop in perfect):
            return Refusal("its loops do not start at 0, or move with each other")
        stored = strides_of(writes[0])
        if any(not stored.get(loop) for loop in perfect):
            return Refusal("an element is written more than once")
        along = next((loop for loop in perfect if stored[loop] == 1), None)
        loaded = [found for found in map(strides_of, reads) if found]
        across = next((x for x in perfect if x is not along and loaded and all(y.get(x) == 1 for y in loaded)), None)
        if along is None or across is None:
            return Refusal("no loop is contiguous in what is read, and another one in what is written")
        outer = tuple(loop for loop in perfect if loop is not along and loop is not across)
        return _Facts((nest,), across, along, outer, writes[0].buffer)

    def plan(self, facts: _Facts, processor: Processor) -> PermutationPlan | Refusal:
        """Tiles of lines; threads and stores past the caches where there is enough to do."""
        sizes = {-(-one.buffer.dtype.bits // 8) for one in facts.nest.accesses() if one.buffer is not None}
        if len(sizes) > 1 or max(sizes) not in (2, 4, 8):
            return Refusal("its elements are not all of 2, 4 or 8 bytes")
        tile = LINE // max(sizes)
        sides = trips(facts.across), trips(facts.along)
        known = extent_of(facts.across) is not None and extent_of(facts.along) is not None
        if min(sides) < tile:
            return Refusal(f"{sides[0]} by {sides[1]} elements are too few for tiles of {tile}")
        square = SQUARE if known and min(sides) >= SQUARE and not any(side % SQUARE for side in sides) else tile
        seconds = max(
            written_seconds(facts.nest, processor) * TURNED,
            seconds_of(math.prod(map(trips, facts.nest.loops)) / processor.lanes(f"uint{8 * max(sizes)}")),
        )
        rule = [f"tiles of {tile} by {tile} turn in registers"]
        past = streamed(facts.nests, processor) > 0
        if past:
            rule.append("the output is of more than half the last cache, and goes past it")
        parallel = processor.threads > 1 and seconds >= PARALLEL_SECONDS and sides[1] >= 2 * square
        if parallel:
            seconds /= processor.threads
            rule += [found for found in [said(facts.nests, seconds)] if found]
        elif processor.threads > 1:
            rule.append(f"not parallel: {seconds * 1e6:.2g} µs of work")
        return PermutationPlan(seconds, "; ".join(rule), tile, square, past, parallel)

    def apply(self, sch: Verbs, facts: _Facts, plan: PermutationPlan, loops: Handles) -> None:
        """What fills no tile by itself; then squares of tiles, each turned in memory of its own."""
        outer, across, along = [loops[loop] for loop in facts.outer], loops[facts.across], loops[facts.along]
        sch.reorder(*outer, along, across)
        for loop, handle, around in ((facts.along, along, outer), (facts.across, across, [*outer, along])):
            extent = extent_of(loop)
            if extent is None or extent % plan.tile:
                sch.peel(handle, beyond=plan.tile)
                for one in reversed(around):
                    sch.fission(one)
        if plan.square > plan.tile:
            pieces = [None, plan.square // plan.tile, plan.tile]
            row, rows, written = sch.split(along, pieces)
            column, columns, read = sch.split(across, pieces)
            sch.reorder(*outer, row, column, rows, columns, written, read)
        else:
            row, written = sch.split(along, [None, plan.tile])
            columns, read = sch.split(across, [None, plan.tile])
            sch.reorder(*outer, row, columns, written, read)
        copies: list[LoopRV] = sch.stage_mem(columns, facts.written.name, inside=True)
        sch.vectorize(read)
        for copied in copies[:-1]:
            sch.unroll(copied)
        if copies:  # there is none of what nobody reads
            sch.vectorize(copies[-1])
        first = outer[0] if outer and trips(facts.outer[0]) > 1 else row
        if plan.parallel:
            in_parallel(sch, first, facts.nests, plan.seconds)
        if plan.nontemporal:
            sch.annotate(first, NONTEMPORAL, True)


PERMUTATION: Final = Permutation()
