"""Histograms and other sums at places that data names: threads with tables of their own, added up at the end.

Within a thread the updates stay as they are written: a processor that renames memory runs one a cycle, and several tables side
by side were measured to take twice as long there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from tirlower.autoschedule.classify import Nest, extent_of, perfect_loops, same_for_all, strides_of
from tirlower.autoschedule.model import PARALLEL_SECONDS, seconds_of, trips, written_seconds
from tirlower.autoschedule.permission import NO_PERMISSION, any_order
from tirlower.autoschedule.recipe import Facts, Handles, Plan, Recipe, Refusal
from tirlower.autoschedule.traffic import bytes_of
from tirlower.autoschedule.verbs import Verbs
from tirlower.autoschedule.versions import in_parallel, said
from tirlower.ir.buffer import Buffer
from tirlower.ir.query import each
from tirlower.ir.stmt import AllocBuffer
from tirlower.machine.processor import Processor
from tirlower.poly import Loop, Statement

__all__ = ["HISTOGRAM", "Histogram", "HistogramPlan"]

PIECE: Final = 1024
"""Iterations that stand in a loop of their own, whose number is known: LLVM writes such a loop out, and counts less."""

TABLES: Final = 64
"""The tables that there are of a parallel loop, however many threads it has: the result rests on the program alone."""

LARGEST: Final = 1 << 18
"""Bytes of a table from which on a build makes none for each thread."""

SHARE: Final = 0.25
"""The part of the time of the updates that tables may take to be begun and added up."""


@dataclass(frozen=True, eq=False)
class _Facts(Facts):
    """The update, what it updates, and the loops around it."""

    update: Statement
    table: Buffer
    loops: tuple[Loop, ...]


@dataclass(frozen=True)
class HistogramPlan(Plan):
    """The loop that runs in parallel, by name, how many iterations of it stand together (0: one by one), and the number of
    updates from which on tables of their own pay."""

    parallel: str
    piece: int = 0
    updates: int = 0


@dataclass(frozen=True)
class Histogram(Recipe[_Facts, HistogramPlan]):
    """Updates at places that data names."""

    name: ClassVar[str] = "histogram"
    reorders: ClassVar[bool] = True

    def matches(self, nests: Sequence[Nest]) -> _Facts | Refusal:
        """The first nest, where its one statement updates what data says."""
        nest = nests[0]
        if len(nest.statements) != 1 or nest.statements[0].reduction is None or nest.statements[0].starts:
            return Refusal("it has not one reduction")
        [update] = nest.statements
        assert update.reduction is not None
        table = update.reduction.buffer
        [written] = [access for access in update.accesses if access.is_write]
        if None not in strides_of(written).values():
            return Refusal("what is updated moves evenly with its loops")
        if any(True for _ in each(AllocBuffer, nest.root)):
            return Refusal("it has memory of its own")
        if len(perfect_loops(nest)) != len(update.loops) or not all(map(same_for_all, update.loops)):
            return Refusal("its loops do not stand directly in each other, or move with each other")
        if not any_order(nest, update):
            return Refusal(NO_PERMISSION)
        return _Facts((nest,), update, table, update.loops)

    def plan(self, facts: _Facts, processor: Processor) -> HistogramPlan | Refusal:
        """Threads, where the tables cost little beside the updates."""
        [nest] = facts.nests
        size = bytes_of(facts.table)
        if size is None or size > LARGEST:
            return Refusal("its table is too large for one a thread")
        if processor.threads < 2:
            return Refusal("a thread alone updates one table as it is written")
        points = _points(facts)
        elements = size / max(1, facts.table.dtype.bytes)
        tables = 2.0 * TABLES * elements / processor.lanes(str(facts.table.dtype))
        # What the tables cost is worth so many updates.
        least = max(2 * PARALLEL_SECONDS, seconds_of(tables / SHARE))
        unknown = any(extent_of(loop) is None for loop in facts.loops)
        if seconds_of(points) < least and not unknown:
            return Refusal(
                f"not parallel: {points:.0f} updates do not pay for {TABLES} tables of {elements:.0f} elements"
            )
        first, *inner = facts.loops
        updates = round(least / seconds_of(1.0))
        if extent_of(first) is not None and trips(first) < 2 * processor.threads:
            return Refusal(f"not parallel: `{first.name}` runs {trips(first)} times")
        seconds = written_seconds(nest, processor) / processor.threads + (0.0 if unknown else seconds_of(tables))
        rule = [f"a table a piece of `{first.name}`, added up at the end"]
        rule += [found for found in [said(facts.nests, seconds_of(points), least)] if found]
        return HistogramPlan(seconds, "; ".join(rule), first.name, 0 if inner else PIECE, updates)

    def apply(self, sch: Verbs, facts: _Facts, plan: HistogramPlan, loops: Handles) -> None:
        """Pieces of a loop that is alone, and threads."""
        loop = loops[facts.loops[0]]
        if plan.piece:
            extent = extent_of(facts.loops[0])
            if extent is None or extent % plan.piece:
                [loop, _] = sch.peel(loop, beyond=plan.piece)
            loop, _ = sch.split(loop, [None, plan.piece])
        in_parallel(sch, loop, facts.nests, seconds_of(_points(facts)), seconds_of(plan.updates), reduction=True)


def _points(facts: _Facts) -> float:
    """How many updates there are, or are taken to be."""
    return math.prod(map(trips, facts.loops), start=1.0)


HISTOGRAM: Final = Histogram()
