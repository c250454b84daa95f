"""Sums over a window of sizes that the caller alone knows: the tile of :mod:`.window`, what is left of rows in tiles of fewer, and what
is left of columns under a mask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from tirlower.autoschedule.classify import extent_of
from tirlower.autoschedule.model import PARALLEL_SECONDS, cycles_each, seconds_of, trips
from tirlower.autoschedule.recipe import Handles, Refusal
from tirlower.autoschedule.recipes.contraction import Contraction
from tirlower.autoschedule.recipes.contraction_facts import ContractionFacts, ContractionPlan
from tirlower.autoschedule.recipes.unknown_contraction import UNKNOWN_CONTRACTION, AnyTile
from tirlower.autoschedule.recipes.window import MOST, ROWS, VECTORS, Window, WindowTile, taps_of
from tirlower.autoschedule.verbs import Verbs
from tirlower.autoschedule.versions import in_parallel, said, where_wide
from tirlower.machine.processor import Processor

__all__ = ["UNKNOWN_WINDOW", "UnknownWindow"]


@dataclass(frozen=True)
class UnknownWindow(Window):
    """Tiles of sums over windows, whatever the sizes are."""

    name: ClassVar[str] = "window of any size"
    any_size: ClassVar[bool] = True
    product: ClassVar[Contraction] = UNKNOWN_CONTRACTION

    def plan(self, facts: ContractionFacts, processor: Processor) -> ContractionPlan | Refusal:
        """Some rows of a vector or two."""
        reduction = facts.update.reduction
        assert reduction is not None
        lanes = processor.lanes(str(reduction.dtype))
        n, m = extent_of(facts.columns), 1 if facts.rows is None else extent_of(facts.rows)
        if n is not None and n < lanes:
            return Refusal(f"rows of {n} elements are no vector of {lanes}")
        small = (taps_of(facts.sums) or MOST + 1) <= MOST
        rows = ROWS if m is None else min(m, ROWS)
        columns = lanes if small or (n is not None and n < VECTORS * lanes) else VECTORS * lanes
        total = 1
        for loop in facts.update.loops:
            total *= trips(loop)
        seconds = seconds_of(total * cycles_each(facts.update) / lanes)
        rule = [f"{rows} rows of {columns // lanes} vectors of {lanes}" + (", the window written out" if small else "")]
        parallel = None
        if processor.threads > 1 and seconds >= PARALLEL_SECONDS:
            around = [*facts.others, *([facts.rows] if facts.rows is not None else [])]
            parallel = next((loop for loop in around if trips(loop) >= 2 * rows), None)
            if parallel is not None:
                seconds /= processor.threads
                rule += [found for found in [said(facts.nests, seconds)] if found]
        return ContractionPlan(
            seconds,
            "; ".join(rule),
            rows,
            columns,
            processor.registers,
            lanes,
            outer="rows" if facts.rows is not None else "columns",
            parallel=None if parallel is None else parallel.name,
        )

    def apply(self, sch: Verbs, facts: ContractionFacts, plan: ContractionPlan, loops: Handles) -> None:
        """Order the loops, and cut both of the tile down to single rows and columns."""
        if facts.form == "block":  # the init is the sum's first step: of a sum of nothing there is none
            for loop in facts.sums:
                where_wide(sch, loops[facts.nest.loops[0]], loop, 1)
        around = self.tiled(_Tile(sch, facts, plan), loops)
        if around is not None:
            in_parallel(sch, around, facts.nests, plan.seconds)


class _Tile(WindowTile, AnyTile):
    """Tiles of windows whose loops run as often as the caller says."""


UNKNOWN_WINDOW: Final = UnknownWindow()
