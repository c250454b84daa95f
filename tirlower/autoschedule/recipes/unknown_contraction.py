"""Contractions of sizes that the caller alone knows: the tile of :mod:`.contraction`, what is left of rows in tiles of fewer, down to
single ones, and what is left of columns in vectors under a mask.

Which loops run in parallel, and whether panels pay, is decided by the call between versions of the nest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from tirlower.autoschedule.classify import Nest, extent_of, same_for_all, strides_of
from tirlower.autoschedule.model import PARALLEL_SECONDS, seconds_of, trips
from tirlower.autoschedule.places import loop_in, other_case
from tirlower.autoschedule.recipe import Handles, Refusal
from tirlower.autoschedule.recipes.contraction import Contraction
from tirlower.autoschedule.recipes.contraction_facts import (
    TOGETHER,
    VECTORS,
    ContractionFacts,
    ContractionPlan,
    is_cut,
    is_one_buffer,
    name_of,
    packs,
    packs_a,
    pieces_of,
    tile_of,
)
from tirlower.autoschedule.recipes.contraction_steps import Tile
from tirlower.autoschedule.recipes.rows_in_lanes import RowsInLanes, in_lanes_here, in_squares
from tirlower.autoschedule.verbs import Verbs
from tirlower.autoschedule.versions import in_parallel, said, where_some, where_wide
from tirlower.ir.expr import IntImm
from tirlower.ir.stmt import For
from tirlower.machine.processor import Processor
from tirlower.schedule.handles import LoopRV

__all__ = ["UNKNOWN_CONTRACTION", "AnyTile", "UnknownContraction"]

MOST_ROWS: Final = 12
"""Rows of a tile where their number is not known."""

FEW_ROWS: Final = 4
"""Rows of the tile for what is left, at most: with two vectors a row its sums wait for none before them."""

PANELS: Final = ((4, 5), (32, 64))
"""Where B goes to panels: from this part of the second cache on, and this number of rows. What does not stay in the cache is
copied as fast as a few rows read it, strip by strip; what does stay pays by the rows of a product that is large."""

PACKED_ROWS: Final = 4
"""Rows that share what is packed, so that it pays: it costs less than a row's sums one by one."""


@dataclass(frozen=True)
class AnyPlan(ContractionPlan):
    """``strips`` is the condition on which calls take panels of B, strip by strip; empty where none do."""

    strips: str = ""
    single: bool = False
    """Whether one column has a version of its own."""


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

    def plan(self, facts: ContractionFacts, processor: Processor) -> AnyPlan | Refusal:
        """The tile that fits the registers."""
        dtype = str(facts.update.reduction.dtype) if facts.update.reduction is not None else "float32"
        lanes, registers = processor.lanes(dtype), processor.registers
        if not facts.contiguous and (len(facts.b.indices or ()) != 2 or facts.others):
            return Refusal("an operand is not contiguous along the columns, and is no matrix that could be packed")
        if facts.rows is None:
            return Refusal("it has one row, and waits for memory")
        n, m = extent_of(facts.columns), extent_of(facts.rows)
        if n is not None and n < (lanes if is_cut(facts) else 2):
            return Refusal(f"{n} columns are no vector")
        columns = VECTORS * lanes if n is None else min(n, max(1, min(VECTORS, n // lanes)) * lanes)
        vectors = pieces_of(columns, lanes)
        rows = tile_of(m, registers, vectors) if m is not None else min(MOST_ROWS, (registers - vectors - 1) // vectors)
        total = 1
        for loop in facts.update.loops:
            total *= trips(loop)
        seconds = seconds_of(total / lanes / 2 * facts.several)
        rule = [f"{rows} x {vectors} vectors of {registers} registers, fewer for what is left"]
        assert facts.b.buffer is not None
        cache = processor.l2 // -(-facts.b.buffer.dtype.bits // 8)
        strips = where_large(facts, cache) if facts.contiguous else ""
        if strips:
            rule.append(f"`{name_of(facts.b)}` in panels, strip by strip, where {strips}")
        parallel = None
        if processor.threads > 1 and seconds >= PARALLEL_SECONDS:
            parallel = facts.others[0] if facts.others and trips(facts.others[0]) > 1 else facts.rows
            seconds /= processor.threads
            rule += [found for found in [said(facts.nests, seconds)] if found]
        return AnyPlan(
            seconds,
            "; ".join(rule),
            rows,
            columns,
            registers,
            lanes,
            packed=() if facts.contiguous else (name_of(facts.b),),
            outer="rows",
            strips=strips,
            single=n is None and facts.form == "plain" and _goes_in_squares(facts) and in_lanes_here(processor),
            parallel=None if parallel is None else parallel.name,
        )

    def apply(self, sch: Verbs, facts: ContractionFacts, plan: ContractionPlan, loops: Handles) -> None:
        """The versions of the nest: of one column, in strips, and in tiles."""
        assert facts.rows is not None and isinstance(plan, AnyPlan)
        if facts.form == "block":  # the init is the sum's first step: of a sum of nothing there is none
            for loop in facts.sums:
                where_wide(sch, loops[facts.nest.loops[0]], loop, 1)
        where_some(sch, loops[facts.nest.loops[0]], facts.nest.scop.space, facts.update.loops)
        if plan.single and isinstance(facts.columns.node, For):
            _, single = self._versions(sch, facts, f"{facts.columns.node.extent} != 1", loops)
            self._one_column(sch, facts, single)
        if plan.strips:  # the tiles as they are for the other calls
            unit, other = self._versions(sch, facts, plan.strips, loops)
            self._strips(sch, facts, plan, unit, loops)
            loops = other
        self._tiles(sch, facts, plan, loops)

    @staticmethod
    def _one_column(sch: Verbs, facts: ContractionFacts, loops: Handles) -> None:
        """A matrix by a vector: a row in each lane."""
        assert facts.rows is not None
        sch.simplify(loops[facts.columns])
        [along] = facts.sums
        how = RowsInLanes(along, (name_of(facts.a),), (facts.target,), None, (), True)
        how.apply(sch, loops[facts.rows], loops[along])

    @staticmethod
    def _versions(sch: Verbs, facts: ContractionFacts, condition: str, loops: Handles) -> tuple[LoopRV, Handles]:
        """The nest once more, for where a condition does not hold: a loop of one iteration around the one where it does, whose handles
        stay, and the loops of the other."""
        unit = sch.add_unit_loop(loops[facts.nest.loops[0]])
        sch.specialize(unit, condition)
        other = other_case(sch, unit)
        return unit, {loop: loop_in(sch, other, loop.name) for loop in facts.update.loops}

    def _tiles(self, sch: Verbs, facts: ContractionFacts, plan: AnyPlan, loops: Handles) -> None:
        """Order the loops, and cut both of the tile down to single rows and columns."""
        assert facts.rows is not None
        others = [loops[loop] for loop in facts.others]
        order = [*others, loops[facts.rows], loops[facts.columns]]
        sums = [loops[loop] for loop in facts.sums]
        if facts.form in TOGETHER:
            order += sums
        tile = AnyTile(sch, facts, plan)
        if plan.packed:  # for enough rows; with few, what is written is as good
            where_wide(sch, loops[facts.nest.loops[0]], facts.rows, PACKED_ROWS)
            tile.pack_b(sch.add_unit_loop(loops[facts.nest.loops[0]]))
        sch.reorder(*order)
        tile.part(loops[facts.rows], loops[facts.columns], sums)
        if plan.parallel is not None:
            in_parallel(
                sch,
                others[0] if others and plan.parallel != facts.rows.name else tile.outermost[0],
                facts.nests,
                plan.seconds,
            )

    def _strips(self, sch: Verbs, facts: ContractionFacts, plan: AnyPlan, unit: LoopRV, loops: Handles) -> None:
        """Columns outermost, in strips as wide as a tile: the panel of B of one stays in the second cache while all rows go by."""
        assert facts.rows is not None
        rows, columns, sums = loops[facts.rows], loops[facts.columns], [loops[loop] for loop in facts.sums]
        packed = [name_of(facts.b)]
        if facts.several == 1 and strides_of(facts.a).get(facts.sums[0]) != 1 and packs_a(facts):
            packed.append(name_of(facts.a))  # each step of the sum reads another row of it
        tile = AnyTile(sch, facts, replace(plan, packed=tuple(packed)))
        tile.pack_a(unit)
        together = facts.form in TOGETHER
        sch.reorder(columns, rows, *(sums if together else ()))
        names = [tile.node(one).loop_var.name for one in (rows, *sums)]
        outermost = []
        for loop, width in tile.cut(columns, plan.columns, across=True):
            mine, *over = (rows, *sums) if loop is columns else [loop_in(sch, loop, name) for name in names]
            strip, inside = sch.split(loop, [None, width])
            sch.reorder(strip, mine, inside, *(over if together else ()))
            if width == plan.columns:
                tile.pack_b(strip)
            tile.part(mine, inside, over)
            outermost.append(strip)
        if plan.parallel is not None:
            sch.parallel(outermost[0])


def _goes_in_squares(facts: ContractionFacts) -> bool:
    """Whether a sum of one column may have a row in each lane."""
    if facts.rows is None or facts.others or len(facts.sums) != 1 or facts.several != 1 or is_one_buffer(facts):
        return False
    return in_squares(facts.a, facts.rows, facts.sums[0])


def where_large(facts: ContractionFacts, cache: int) -> str:
    """The condition that B pays its copies: by its part of what a cache holds, and by the rows; empty where it never does, or is
    no matrix, or changes. It asks each size apart: nothing is proved behind a product of them."""
    if facts.others or facts.rows is None or not packs(facts) or not all(map(same_for_all, facts.update.loops)):
        return ""
    panels = {one.data for one in (facts.b, *facts.beside)}
    if any(access.is_write and access.data in panels for access in facts.nest.accesses()):
        return ""
    known, sizes = 1, []
    for loop in (facts.columns, *facts.sums):
        extent = extent_of(loop)
        if extent is not None:
            known *= extent
        elif isinstance(loop.node, For):
            sizes.append(loop.node.extent)
    there = extent_of(facts.rows)
    found: list[tuple[str, str]] = []
    for part, rows in PANELS:
        elements = cache // part
        if (not sizes and known < elements) or (there is not None and there < rows):
            continue
        each = max(1, round((elements / max(1, known)) ** (1 / max(1, len(sizes)))))
        asked = " and ".join(f"{size} >= {each}" for size in sizes)
        high = facts.rows.node.extent if there is None and isinstance(facts.rows.node, For) else None
        found.append((asked, f"{high} >= {rows}" if high is not None else ""))
    if len(found) < 2:
        return " and ".join(filter(None, found[0])) if found else ""
    # The smaller B is, the more rows are asked for; what both ask stands by itself, so that it is known of the tiles.
    (large, few), (small, many) = found
    choice = f"({large} or {many})" if large and many else ""
    return " and ".join(filter(None, (small, few, choice)))


class AnyTile(Tile):
    """Tiles of loops that run as often as the caller says."""

    def cut(self, loop: LoopRV, size: int, *, across: bool = False) -> list[tuple[LoopRV, int]]:
        """The loops over whole tiles, then over smaller ones for what is left: of rows down to single ones, of columns vectors under a
        mask."""
        if isinstance(self.node(loop).extent, IntImm):
            return super().cut(loop, size, across=across)
        made = []
        for part in [size] if across else self.heights(size):
            loop, left = self.sch.peel(loop, beyond=part)
            made.append((loop, part))
            loop = left
        return [*made, (loop, min(size, self.plan.lanes) if across else 1)]

    def heights(self, size: int) -> list[int]:
        """The parts of tiles into which what is left of the rows is cut."""
        few = max(part for part in range(1, FEW_ROWS + 1) if size % part == 0)  # so that its rows are numbers
        return [part for part in dict.fromkeys((size, few)) if part > 1]

    def width(self, rows: int) -> int:
        """The columns of a tile, however few rows it has."""
        return self.plan.columns if extent_of(self.facts.columns) is None else super().width(rows)


UNKNOWN_CONTRACTION: Final = UnknownContraction()
