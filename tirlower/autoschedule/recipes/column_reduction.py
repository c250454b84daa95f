"""Column reductions: rows outermost, some at a time, and the sums of a vector of columns in registers between them.

What a row adds to the sums lies in a row. Blocks of columns are as wide as the first cache has room for their sums. Each sum
gets its terms in the order that is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from tirlower.autoschedule.classify import Nest, extent_of, perfect_loops, same_for_all, strides_of
from tirlower.autoschedule.model import PARALLEL_SECONDS, cycles_each, seconds_of, trips
from tirlower.autoschedule.recipe import Facts, Handles, Plan, Recipe, Refusal
from tirlower.autoschedule.verbs import Verbs
from tirlower.autoschedule.versions import in_parallel, said, where_wide
from tirlower.ir.query import each
from tirlower.ir.stmt import AllocBuffer, Block, For, Seq
from tirlower.machine.processor import Processor
from tirlower.poly import Loop, Statement
from tirlower.schedule.handles import LoopRV

__all__ = ["COLUMN_REDUCTION", "ColumnPlan", "ColumnReduction"]

ROWS: Final = 8
"""Rows at a time: the sums are loaded and stored once for all of them."""

VECTORS: Final = 2
"""Vectors of columns at a time, each of which waits for its own additions."""

IN_REGISTERS: Final = 0.8
"""What is left of the time of vectors of columns whose sums are not loaded and stored for each row."""

UNKNOWN_VECTORS: Final = 4
"""Vectors of a block of columns whose number only the caller knows: narrow enough that each thread has some."""


@dataclass(frozen=True, eq=False)
class _Facts(Facts):
    """The update, the loops that columns are the same along (outside), the rows (the last one is done in pieces), the columns."""

    update: Statement
    batch: tuple[Loop, ...]
    rows: tuple[Loop, ...]
    columns: Loop
    block: Block | None
    apart: bool

    @property
    def nest(self) -> Nest:
        """The nest."""
        return self.nests[0]


@dataclass(frozen=True)
class ColumnPlan(Plan):
    """Rows and columns at a time, columns of a block, and whether blocks are in parallel."""

    rows: int
    columns: int
    block: int
    parallel: bool = False


@dataclass(frozen=True)
class ColumnReduction(Recipe[_Facts, ColumnPlan]):
    """Sums along rows of what is contiguous across them."""

    name: ClassVar[str] = "column reduction"

    def matches(self, nests: Sequence[Nest]) -> _Facts | Refusal:
        """The first nest, where it adds up rows of one buffer."""
        nest = nests[0]
        updates = [one for one in nest.statements if one.reduction is not None and not one.starts]
        if len(updates) != 1:
            return Refusal("it has not one reduction")
        [update] = updates
        if any(True for _ in each(AllocBuffer, nest.root)):
            return Refusal("it has memory of its own")
        if any(loop.start.terms or loop.start.const for loop in update.loops):
            return Refusal("its loops do not start at 0")
        if not all(same_for_all(loop) for loop in update.loops):
            return Refusal("its extents move with other loops")
        [written] = [strides_of(access) for access in update.accesses if access.is_write]
        rows = tuple(loop for loop in update.loops if loop not in written)
        columns = next((loop for loop, stride in written.items() if stride == 1), None)
        if not rows or columns is None or None in written.values():
            return Refusal("no columns are summed up")
        for access in update.accesses:
            if access.guards or strides_of(access).get(columns, 0) not in (0, 1):
                return Refusal(f"{access.text} is not contiguous along {columns.name}, or not always there")
        sums = {access.buffer for access in update.accesses if access.is_write}
        if not any(strides_of(one).get(columns) == 1 and one.buffer not in sums for one in update.accesses):
            return Refusal("nothing that is read goes along the columns")
        batch = tuple(loop for loop in update.loops if loop not in rows and loop is not columns)
        for access in update.accesses:
            if any(loop not in strides_of(access) for loop in batch):
                return Refusal(f"{access.text} is the same along {batch[0].name}: it is a contraction")
        block = nest.block_of(update)
        others = [one for one in nest.statements if one is not update]
        if len(perfect_loops(nest)) == len(update.loops):
            if others and block is None:
                return Refusal("other statements are among its updates")
            return _Facts((nest,), update, batch, rows, columns, block if others else None, False)
        # An init in front of the rows: `for j: S[j] = 0; for i: S[j] += …`.
        root = nest.root.body
        shape = isinstance(root, Seq) and len(root.stmts) == 2 and isinstance(root.stmts[1], For)
        if (
            len(perfect_loops(nest)) != 1
            or not shape
            or columns is not nest.loops[0]
            or len(nest.loops) != 1 + len(rows)
        ):
            return Refusal("other statements are among its updates")
        return _Facts((nest,), update, batch, rows, columns, None, True)

    def plan(self, facts: _Facts, processor: Processor) -> ColumnPlan | Refusal:
        """Columns of a block by the first cache, and enough blocks for all threads."""
        reduction = facts.update.reduction
        assert reduction is not None
        size = -(-reduction.dtype.bits // 8)
        wide = VECTORS * processor.lanes(f"uint{8 * size}")
        rows, columns = trips(facts.rows[-1]), trips(facts.columns)
        if rows < ROWS or columns < wide:
            return Refusal(f"{rows} rows of {columns} columns are too few for {ROWS} by {wide}")
        together = ROWS
        if len(facts.rows) > 1 and extent_of(facts.rows[-1]) is None:
            return Refusal(
                f"how often `{facts.rows[-1].name}` runs is known to the caller alone, and it sums with others"
            )
        if len(facts.rows) > 1:  # what is left would come behind all of the others, not behind its own
            together = max(n for n in range(1, ROWS + 1) if rows % n == 0)
            if together == 1:
                return Refusal(
                    f"{rows} rows come in no pieces, and {facts.rows[-1].name} is not the only loop of the sum"
                )
        vectors = max(1, columns // wide)
        most = max(1, processor.l1 // 2 // size // wide)
        points = 1.0
        for loop in facts.update.loops:
            points *= trips(loop)
        seconds = seconds_of(points * IN_REGISTERS * cycles_each(facts.update) / (wide / VECTORS))
        rule = [
            f"{together} rows at a time keep the sums of {wide} columns in registers",
            "sums in the order of the rows",
        ]
        parallel = processor.threads > 1 and seconds >= PARALLEL_SECONDS and vectors > 1
        if processor.threads > 1 and not parallel:
            rule.append(f"not parallel: {seconds * 1e6:.2g} µs of work")
        least = max(-(-vectors // most), min(vectors, processor.threads) if parallel else 1)
        blocks = next((n for n in range(least, min(vectors, 4 * least) + 1) if vectors % n == 0), vectors)
        block = vectors // blocks
        if extent_of(facts.columns) is None:
            block = min(most, UNKNOWN_VECTORS)
            blocks = -(-vectors // block)
        if parallel:
            seconds /= min(processor.threads, blocks)
            rule += [found for found in [said(facts.nests, seconds)] if found]
        return ColumnPlan(seconds, "; ".join(rule), together, wide, block * wide, parallel)

    def apply(self, sch: Verbs, facts: _Facts, plan: ColumnPlan, loops: Handles) -> None:
        """The init by itself, rows outermost, what fills no tile by itself, then tiles in registers."""
        batch, rows, column = ([loops[x] for x in facts.batch], [loops[x] for x in facts.rows], loops[facts.columns])
        where_wide(sch, loops[facts.nest.loops[0]], facts.columns, plan.columns)
        if facts.block is not None:
            sch.decompose_reduction(sch.get_block(facts.block.name), loops[facts.nest.loops[0]])
        elif facts.apart:
            [_, column] = sch.fission(column)
        sch.reorder(*batch, *rows, column)
        if _left(facts.rows[-1], plan.rows):
            self._apart(sch, [*batch, *rows[:-1]], rows[-1], plan.rows)
        if extent_of(facts.columns) is None:
            # Whole blocks, whole vectors of what is left, and what fills none.
            *around, last = self._apart(sch, [*batch, *rows], column, plan.block)
            self._apart(sch, around, last, plan.columns)
            self._tiles(sch, facts, plan, around, last, [None, 1, plan.columns])
        elif _left(facts.columns, plan.columns):
            self._apart(sch, [*batch, *rows], column, plan.columns)
        pieces = [None, plan.block // plan.columns, plan.columns]
        blocks = self._tiles(sch, facts, plan, [*batch, *rows], column, pieces)
        if plan.parallel:
            many = batch and trips(facts.batch[0]) > 1
            in_parallel(sch, batch[0] if many else blocks, facts.nests, plan.seconds)

    @staticmethod
    def _tiles(
        sch: Verbs,
        facts: _Facts,
        plan: ColumnPlan,
        around: Sequence[LoopRV],
        column: LoopRV,
        pieces: Sequence[int | None],
    ) -> LoopRV:
        """Tiles in registers, of columns in pieces: blocks, vectors, and lanes. The loop over blocks."""
        *outer, last = around
        batch, rows = outer[: len(facts.batch)], outer[len(facts.batch) :]
        row, inner = sch.split(last, [None, plan.rows])
        blocks, vectors, lanes = sch.split(column, pieces)
        sch.reorder(*batch, blocks, *rows, row, vectors, inner, lanes)
        reduction = facts.update.reduction
        assert reduction is not None
        sch.register_tile(reduction.buffer.name, [inner, lanes], at=vectors, vector=lanes)
        return blocks

    @staticmethod
    def _apart(sch: Verbs, around: Sequence[LoopRV], loop: LoopRV, size: int) -> list[LoopRV]:
        """The iterations of a loop beyond a multiple in a nest of their own, behind the one of the others. Its loops."""
        made = [sch.peel(loop, beyond=size)[1]]
        for outer in reversed(around):
            made.append(sch.fission(outer)[1])
        return made[::-1]


def _left(loop: Loop, size: int) -> bool:
    """Whether iterations may be left of pieces of a size."""
    extent = extent_of(loop)
    return extent is None or extent % size != 0


COLUMN_REDUCTION: Final = ColumnReduction()
