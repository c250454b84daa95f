"""Contractions of sizes that the caller alone knows: the tile of :mod:`.contraction`, and what is left of rows and columns in
tiles of fewer, down to single ones.

Which loops run in parallel, and whether panels pay, is decided by the call between versions of the nest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from tirlower.autoschedule.classify import Nest, extent_of, same_for_all
from tirlower.autoschedule.model import PARALLEL_SECONDS, seconds_of, trips
from tirlower.autoschedule.recipe import Handles, Refusal
from tirlower.autoschedule.recipes.contraction import Contraction
from tirlower.autoschedule.recipes.contraction_facts import (
    VECTORS,
    ContractionFacts,
    ContractionPlan,
    name_of,
    pieces_of,
    tile_of,
)
from tirlower.autoschedule.recipes.contraction_steps import Tile
from tirlower.autoschedule.verbs import Verbs
from tirlower.autoschedule.versions import in_parallel, said, where_wide
from tirlower.ir.expr import IntImm
from tirlower.machine.processor import Processor
from tirlower.schedule.handles import LoopRV

__all__ = ["UNKNOWN_CONTRACTION", "AnyTile", "UnknownContraction"]

MOST_ROWS: Final = 12
"""Rows of a tile where their number is not known."""

FEW_ROWS: Final = 4
"""Rows of the tile for what is left: with two vectors a row its sums wait for none before them."""

PACKED_ROWS: Final = 4
"""Rows that share what is packed, so that it pays: it costs less than a row's sums one by one."""


@dataclass(frozen=True)
class UnknownContraction(Contraction):
    """Register tiles, whatever the sizes are."""

    name: ClassVar[str] = "contraction of any size"
    any_size: ClassVar[bool] = True

    def matches(self, nests: Sequence[Nest]) -> ContractionFacts | Refusal:
        """One update of a sum of products, with a loop that runs as often as the caller says."""
        if all(extent_of(loop) is not None for loop in nests[0].loops):
            return Refusal("its extents are numbers")
        if not all(map(same_for_all, nests[0].loops)):
            return Refusal("its extents move with other loops")
        return super().matches(nests)

    def plan(self, facts: ContractionFacts, processor: Processor) -> ContractionPlan | Refusal:
        """The tile that fits the registers."""
        dtype = str(facts.update.reduction.dtype) if facts.update.reduction is not None else "float32"
        lanes, registers = processor.lanes(dtype), processor.registers
        if not facts.contiguous and (len(facts.b.indices or ()) != 2 or facts.others):
            return Refusal("an operand is not contiguous along the columns, and is no matrix that could be packed")
        if facts.rows is None:
            return Refusal("it has one row, and waits for memory")
        n, m = extent_of(facts.columns), extent_of(facts.rows)
        if n is not None and n < lanes:
            return Refusal(f"{n} columns are no vector")
        columns = VECTORS * lanes if n is None else min(n, max(1, min(VECTORS, n // lanes)) * lanes)
        vectors = pieces_of(columns, lanes)
        rows = tile_of(m, registers, vectors) if m is not None else min(MOST_ROWS, (registers - vectors - 1) // vectors)
        total = 1
        for loop in facts.update.loops:
            total *= trips(loop)
        seconds = seconds_of(total / lanes / 2 * facts.several)
        rule = [f"{rows} x {vectors} vectors of {registers} registers, fewer for what is left"]
        parallel = None
        if processor.threads > 1 and seconds >= PARALLEL_SECONDS:
            parallel = facts.others[0] if facts.others and trips(facts.others[0]) > 1 else facts.rows
            seconds /= processor.threads
            rule += [found for found in [said(facts.nests, seconds)] if found]
        return ContractionPlan(
            seconds,
            "; ".join(rule),
            rows,
            columns,
            registers,
            lanes,
            packed=() if facts.contiguous else (name_of(facts.b),),
            outer="rows",
            parallel=None if parallel is None else parallel.name,
        )

    def apply(self, sch: Verbs, facts: ContractionFacts, plan: ContractionPlan, loops: Handles) -> None:
        """Order the loops, and cut both of the tile down to single rows and columns."""
        assert facts.rows is not None
        if facts.form == "block":  # the init is the sum's first step: of a sum of nothing there is none
            for loop in facts.sums:
                where_wide(sch, loops[facts.nest.loops[0]], loop, 1)
        others = [loops[loop] for loop in facts.others]
        order = [*others, loops[facts.rows], loops[facts.columns]]
        sums = [loops[loop] for loop in facts.sums]
        if facts.form in ("block", "perfect"):
            order += sums
        tile = AnyTile(sch, facts, plan)
        if plan.packed:  # for enough rows; with few, what is written is as good
            where_wide(sch, loops[facts.nest.loops[0]], facts.rows, PACKED_ROWS)
            tile.pack_b(sch.add_unit_loop(loops[facts.nest.loops[0]]))
        sch.reorder(*order)
        tile.part(loops[facts.rows], loops[facts.columns], sums)
        tile.jam()
        if plan.parallel is not None:
            in_parallel(
                sch,
                others[0] if others and plan.parallel != facts.rows.name else tile.outermost[0],
                facts.nests,
                plan.seconds,
            )


class AnyTile(Tile):
    """Tiles of loops that run as often as the caller says."""

    def __init__(self, sch: Verbs, facts: ContractionFacts, plan: ContractionPlan) -> None:
        super().__init__(sch, facts, plan)
        self.jammed: list[tuple[LoopRV, int]] = []

    def cut(self, loop: LoopRV, size: int) -> list[tuple[LoopRV, int]]:
        """The loops over whole tiles, then over smaller ones for what is left, and over single rows or columns."""
        if isinstance(self.node(loop).extent, IntImm):
            return super().cut(loop, size)
        made = []
        for part in self.sizes(size):
            loop, left = self.sch.peel(loop, beyond=part)
            made.append((loop, part))
            loop = left
        return [*made, (loop, 1)]

    def sizes(self, size: int) -> list[int]:
        """The parts of tiles into which what is left of a loop is cut."""
        if size == self.plan.rows:
            both = all(extent_of(loop) is None for loop in (self.facts.rows, self.facts.columns) if loop is not None)
            return [part for part in dict.fromkeys((size, 0 if both else FEW_ROWS)) if 1 < part <= size]
        lanes = self.plan.lanes
        return [part for part in dict.fromkeys((size, lanes, lanes // 2, lanes // 4)) if 1 < part <= size]

    def parted(self, at: LoopRV, rows: LoopRV | None, columns: LoopRV) -> None:
        """A tile; of single columns the rows' sums are to go side by side, which takes fewer proofs."""
        if rows is None or self.facts.form != "plain" or self.extent(columns) > 1:
            super().parted(at, rows, columns)
        elif self.extent(rows) > 1:
            self.jammed.append((rows, self.extent(rows)))

    def jam(self) -> None:
        """Single columns, behind the proofs of the tiles, which look at each statement."""
        for rows, count in self.jammed:
            self.sch.unroll_jam(rows, count)

    def width(self, rows: int) -> int:
        """The columns of a tile, however few rows it has."""
        return self.plan.columns if extent_of(self.facts.columns) is None else super().width(rows)


UNKNOWN_CONTRACTION: Final = UnknownContraction()
