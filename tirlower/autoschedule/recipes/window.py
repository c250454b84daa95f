"""Sums over a window: depthwise convolutions, pooling, filters. Lanes along a row of the result, a small window written out.

A tile of rows and vectors of the result stays in registers, as that of a contraction does; what its rows share of the input is
loaded once where all loads of the window stand in one run of code. The order of the sums is the loops' own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from tirlower.autoschedule.classify import Nest, extent_of, same_for_all, strides_of
from tirlower.autoschedule.model import PARALLEL_SECONDS, cycles_each, seconds_of
from tirlower.autoschedule.places import loop_in
from tirlower.autoschedule.recipe import Handles, Refusal
from tirlower.autoschedule.recipes.contraction import CONTRACTION, Contraction
from tirlower.autoschedule.recipes.contraction_facts import ContractionFacts, ContractionPlan, form_of
from tirlower.autoschedule.recipes.contraction_steps import Tile
from tirlower.autoschedule.verbs import Verbs
from tirlower.machine.processor import Processor
from tirlower.poly import Access, Loop
from tirlower.schedule.handles import LoopRV

__all__ = ["MOST", "ROWS", "VECTORS", "WINDOW", "Window", "WindowTile", "taps_of"]

MOST: Final = 32
"""Elements of a window that are written out."""

ROWS: Final = 4
"""Rows of a tile: of a window of 3 by 3 they load 6 rows where 12 would be, and wait for no addition before them."""

VECTORS: Final = 2
"""Vectors of a row of a tile whose window is not written out: 8 sums wait for no addition before them."""


@dataclass(frozen=True)
class Window(Contraction):
    """Tiles of sums over few elements."""

    name: ClassVar[str] = "window"
    product: ClassVar[Contraction] = CONTRACTION
    """The recipe of what is a product of matrices, and no window."""

    def matches(self, nests: Sequence[Nest]) -> ContractionFacts | Refusal:
        """One update of what is contiguous along a row of the result, over few iterations, or over some that move what is read as
        those over the result do."""
        nest = nests[0]
        updates = [one for one in nest.statements if one.reduction is not None and not one.starts]
        if len(updates) != 1:
            return Refusal("it has not one reduction")
        [update] = updates
        reduction = update.reduction
        assert reduction is not None
        form, target, result = form_of(nest, update)
        if result is None:
            return Refusal(form)
        known = all(extent_of(loop) is not None for loop in update.loops)
        if known if self.any_size else not known:
            return Refusal("its extents are numbers" if known else "its extents are no numbers")
        if not known and not all(map(same_for_all, update.loops)):
            return Refusal("its extents move with other loops")
        product = self.product.matches(nests)
        if not isinstance(product, Refusal) and product.rows is not None:
            return Refusal("rows share an operand: it is a contraction")
        over = strides_of(result)
        spatial = [loop for loop in update.loops if loop in over]
        sums = tuple(loop for loop in update.loops if loop not in over)
        taps = taps_of(sums)
        if not sums or taps == 1:
            return Refusal("nothing is summed up")
        columns = next((loop for loop in spatial if over[loop] == 1), None)
        if columns is None:
            return Refusal("no loop is contiguous in the result")
        reads = [one for one in update.accesses if not one.is_write and one.buffer is not reduction.buffer]
        if (taps is None or taps > MOST) and not any(_slides(one, spatial, sums) for one in reads):
            return Refusal("no loop of the sum moves what is read as one over the result does")
        moves = [strides_of(one).get(columns, 0) for one in reads]
        if any(one.guards or one.indices is None for one in update.accesses):
            return Refusal("an access is not always there")
        if any(move not in (0, 1) for move in moves) or 1 not in moves:
            return Refusal("what is read is not contiguous along the rows of the result")
        along = [loop for loop in spatial if loop is not columns]
        rows = along[-1] if along else None
        b = reads[moves.index(1)]
        others = tuple(loop for loop in along if loop is not rows)
        return ContractionFacts((nest,), form, update, target, rows, columns, sums, others, b, reads[0], True, 1, ())

    def plan(self, facts: ContractionFacts, processor: Processor) -> ContractionPlan | Refusal:
        """Some rows of one vector."""
        reduction = facts.update.reduction
        assert reduction is not None
        lanes = processor.lanes(str(reduction.dtype))
        n = extent_of(facts.columns) or 1
        if n < lanes:
            return Refusal(f"rows of {n} elements are no vector of {lanes}")
        m = 1 if facts.rows is None else extent_of(facts.rows) or 1
        small = (taps_of(facts.sums) or MOST + 1) <= MOST
        rows = max(count for count in range(1, ROWS + 1) if m % count == 0 or count == min(m, ROWS))
        points = math.prod(extent_of(loop) or 1 for loop in facts.update.loops)
        seconds = seconds_of(points * cycles_each(facts.update) / lanes)
        columns = lanes if small or n < VECTORS * lanes else VECTORS * lanes
        rule = [f"{rows} rows of {columns // lanes} vectors of {lanes}" + (", the window written out" if small else "")]
        parallel = None
        if processor.threads > 1:
            around = [*facts.others, *([facts.rows] if facts.rows is not None else [])]
            parallel = next((loop for loop in around if (extent_of(loop) or 0) >= 2 * rows), None)
            if seconds < PARALLEL_SECONDS:
                parallel = None
                rule.append(f"not parallel: {seconds * 1e6:.2g} µs of work")
            elif parallel is not None:
                seconds /= processor.threads
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
        """Cut rows and columns into tiles, and write the window out."""
        around = self.tiled(WindowTile(sch, facts, plan), loops)
        if around is not None:
            sch.parallel(around)

    @staticmethod
    def tiled(tile: WindowTile, loops: Handles) -> LoopRV | None:
        """Order the loops and cut them into tiles; the loop that is to run in parallel, if one is."""
        facts, plan = tile.facts, tile.plan
        others = [loops[loop] for loop in facts.others]
        columns, rows = loops[facts.columns], None if facts.rows is None else loops[facts.rows]
        sums = [loops[loop] for loop in facts.sums]
        order = [*others, *([rows] if rows is not None else []), columns]
        if facts.form in ("block", "perfect"):
            order += sums
        if len(order) > 1:
            tile.sch.reorder(*order)
        tile.part(columns if rows is None else rows, None if rows is None else columns, sums)
        tile.write_out()
        if plan.parallel is None:
            return None
        if facts.rows is not None and plan.parallel == facts.rows.name:
            return tile.outermost[0]
        return others[[loop.name for loop in facts.others].index(plan.parallel)]


def taps_of(sums: Sequence[Loop]) -> int | None:
    """The elements of a window; None where they are known to the caller alone."""
    extents = [extent_of(loop) for loop in sums]
    return None if None in extents else math.prod(extent or 1 for extent in extents)


def short_of(sums: Sequence[Loop]) -> set[str]:
    """The names of the innermost loops of a window that are written out: those of few elements together."""
    found: set[str] = set()
    taps = 1
    for loop in reversed(sums):
        taps *= extent_of(loop) or MOST + 1
        if taps > MOST:
            break
        found.add(loop.name)
    return found


def _slides(access: Access, spatial: Sequence[Loop], sums: Sequence[Loop]) -> bool:
    """Whether a loop of the sum moves a subscript that one over the result moves."""
    over, along = ({loop.var for loop in loops} for loops in (spatial, sums))
    return any(over & set(form.terms) and along & set(form.terms) for form in access.indices or ())


class WindowTile(Tile):
    """Tiles whose sums are written out, as far as they are short."""

    def __init__(self, sch: Verbs, facts: ContractionFacts, plan: ContractionPlan) -> None:
        super().__init__(sch, facts, plan)
        self.windows: list[LoopRV] = []

    def width(self, rows: int) -> int:
        """One vector, however few rows there are."""
        return self.plan.columns

    def registers(self, at: LoopRV, tile: list[LoopRV], lanes: LoopRV) -> None:
        """The tile in registers."""
        super().registers(at, tile, lanes)
        self.windows += [loop_in(self.sch, at, one) for one in self.sums]

    def parted(self, at: LoopRV, rows: LoopRV | None, columns: LoopRV) -> None:
        """A tile of plain loops."""
        super().parted(at, rows, columns)
        self.windows += [loop_in(self.sch, at, one) for one in self.sums]

    def write_out(self) -> None:
        """The windows, behind the proofs of the tiles: of large ones the innermost loops."""
        short = short_of(self.facts.sums)
        for loop in self.windows:
            if self.node(loop).loop_var.name in short:
                self.sch.unroll(loop)


WINDOW: Final = Window()
