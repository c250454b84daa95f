"""The steps of a contraction: loops cut into tiles and rests, operands in panels, sums in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tirlower.autoschedule.places import block_in, loop_in
from tirlower.autoschedule.recipes.contraction_facts import (
    BUSY,
    TOGETHER,
    ContractionFacts,
    ContractionPlan,
    dimension_of,
    name_of,
    pieces_of,
    turns,
)
from tirlower.autoschedule.verbs import Verbs
from tirlower.diagnostics import IllegalStep, NotApplicable, NotFound, UnprovedStep
from tirlower.ir.annotations import TILE_PRODUCT
from tirlower.ir.expr import Call, Expr, IntImm
from tirlower.ir.query import has
from tirlower.ir.stmt import For
from tirlower.poly import Access, Loop
from tirlower.schedule.handles import LoopRV

__all__ = ["Tile"]


class Tile:
    """The steps that cut two loops into tiles, those of the first outermost."""

    def __init__(self, sch: Verbs, facts: ContractionFacts, plan: ContractionPlan) -> None:
        self.sch = sch
        self.facts = facts
        self.plan = plan
        self.sums = [loop.name for loop in facts.sums]
        self.outermost: list[LoopRV] = []
        self.strips: list[LoopRV] = []
        """The loops over blocks of columns."""

    def pack_b(self, at: LoopRV | None) -> None:
        """B, and what is beside it, in panels as wide as a tile, of what an iteration of a loop reads; without one, of all."""
        for operand in (self.facts.b, *self.facts.beside):
            self.panels(operand, self.facts.columns, at, self.plan.columns, self.plan.group)

    def pack_a(self, at: LoopRV | None) -> None:
        """A in panels as high as a tile; for tile registers their rows stand below each other."""
        if self.plan.packed[1:] and self.facts.rows is not None:
            group = self.plan.group * self.plan.deep if self.plan.deep else 1
            self.panels(self.facts.a, self.facts.rows, at, self.plan.rows, group)

    def panels(self, access: Access, loop: Loop, at: LoopRV | None, width: int, group: int) -> None:
        """An operand in panels, as wide as the tile is along a loop, with groups of steps of the sum beside each other."""
        inside = {one.name for one in self.facts.others}
        if self.strips:
            inside.add(self.facts.columns.name)
        at_once = self.plan.parallel is not None and self.plan.parallel not in inside
        column, step = dimension_of(access, loop), dimension_of(access, self.facts.sums[0])
        assert column is not None and step is not None

        def layout(*at: Expr) -> list[Expr]:
            n, k = at[column], at[step]
            return [n // width, k // group, n % width, k % group] if group > 1 else [n // width, k, n % width]

        copied = self.sch.pack(name_of(access), at, layout, parallel=at_once)
        if group == 1 and column < step:
            side = min(turns(access, loop, width), self.plan.lanes)
            if side and len(copied) == 3:
                self.turned(copied, side)

    def turned(self, copied: Sequence[LoopRV], side: int) -> None:
        """What is read in rows and stored in columns goes in squares, which turn in registers."""
        panel, step, lane = copied
        if not all(isinstance(self.node(loop).extent, IntImm) for loop in copied):
            return  # where the squares end is known to the caller alone
        whole = self.extent(step) // side * side
        if has(Call, self.node(lane)):
            # The last panel is filled up with zeros, element by element.
            if self.extent(panel) == 1 or not whole:
                return
            panel, _ = self.sch.loop_partition(panel, [self.extent(panel) - 1])
            self.sch.simplify(panel)
        if not whole:
            return
        if whole < self.extent(step):
            step, _ = self.sch.loop_partition(step, [whole])
        steps, step = self.sch.split(step, [None, side])
        lanes, lane = self.sch.split(lane, [None, side])
        self.sch.reorder(steps, lanes, step, lane)
        self.sch.vectorize(lane)

    def blocks(self, columns: LoopRV, rows: LoopRV, sums: list[LoopRV]) -> None:
        """Blocks of columns outermost, so that their panels stay in the second cache while all rows go by."""
        if self.plan.depth and self.facts.form == "plain":
            # What comes after the first steps of the sum goes on with what stands in C.
            self.sch.reorder(rows, columns)
            columns, rows = self.sch.fission(columns)[1], self.sch.fission(rows)[1]
            self.facts = replace(self.facts, form="perfect")
        together = self.facts.form in TOGETHER
        first = None
        if self.plan.depth:
            [first, last] = self.sch.split(sums[0], [None, self.plan.depth])
            sums = [last]
            self.sch.reorder(first, columns, rows, last)
        else:
            self.sch.reorder(columns, rows, *(sums if together else ()))
        self.pack_a(first)
        name = self.node(rows).loop_var.name
        self.sums = [self.node(one).loop_var.name for one in sums]
        for loop, size in self.cut(columns, self.plan.block or self.extent(columns)):
            mine = rows if loop is columns else loop_in(self.sch, loop, name)
            over = sums if loop is columns else [loop_in(self.sch, loop, one) for one in self.sums]
            outside, inside = self.sch.split(loop, [None, size])
            self.sch.reorder(outside, mine, inside, *(over if together else ()))
            self.strips.append(outside)
            self.pack_b(outside)
            self.part(mine, inside, over)

    def part(self, first: LoopRV, second: LoopRV | None, over: list[LoopRV]) -> None:
        """Cut the first loop into its whole tiles and its rest, and each of them along the second one."""
        by_rows = self.plan.outer == "rows" and second is not None
        names = [self.node(second).loop_var.name] if second is not None else []
        size = self.plan.rows if by_rows else self.plan.columns
        for loop, height in self.cut(first, size, across=not by_rows):
            inner = None if second is None else (second if loop is first else loop_in(self.sch, loop, names[0]))
            sums = over if loop is first else [loop_in(self.sch, loop, one) for one in self.sums]
            outside, inside = self.sch.split(loop, [None, height])
            if self.facts.form not in TOGETHER:
                self.plain(outside, inside, inner, height, by_rows)
            else:
                self.block(outside, inside, inner, sums, height, by_rows)
            self.outermost.append(outside)

    def cut(self, loop: LoopRV, size: int, *, across: bool = False) -> list[tuple[LoopRV, int]]:
        """The loops over whole tiles and over the rest, each with the extent of its tile. ``across``: along the columns, whose last
        tile may begin earlier."""
        extent = self.extent(loop)
        if extent <= size or extent % size == 0:
            return [(loop, min(size, extent))]
        if across and self.plan.shifts and (found := self.shifted(loop, size)):
            return found
        whole, rest = self.sch.loop_partition(loop, [extent // size * size])
        return [(whole, size), (rest, extent % size)]

    def shifted(self, loop: LoopRV, size: int) -> list[tuple[LoopRV, int]]:
        """The loops over whole tiles and over the last one, which begins earlier; none where nothing may be computed twice."""
        try:
            return [(part, size) for part in self.sch.peel(loop, beyond=size, tail="shift")]
        except (IllegalStep, UnprovedStep, NotApplicable):  # the tiles are cut as others are then
            return []

    def extent(self, loop: LoopRV) -> int:
        """How often a loop runs."""
        found = self.node(loop).extent
        assert isinstance(found, IntImm)
        return found.value

    def node(self, loop: LoopRV) -> For:
        """The loop that a handle stands for."""
        found = self.sch.get(loop)
        assert isinstance(found, For)
        return found

    def width(self, rows: int) -> int:
        """The columns of a tile of so many rows: of few rows more vectors, so that enough sums go on at once."""
        enough = rows * pieces_of(self.plan.columns, self.plan.lanes) >= BUSY
        if enough or self.plan.packed or self.plan.shifts:
            return self.plan.columns
        vectors = min(-(-BUSY // rows), (self.plan.registers - 2) // (rows + 1))
        return max(self.plan.columns, vectors * self.plan.lanes)

    def height(self, rows: int, columns: int) -> int:
        """As many of some rows, dividing them, as fit into the registers with so many columns."""
        if self.in_tiles(rows, columns):
            return rows
        pieces = pieces_of(columns, self.plan.lanes)
        fits = [count for count in range(1, rows + 1) if rows % count == 0]
        return max((one for one in fits if one * pieces + pieces + 1 <= self.plan.registers), default=1)

    def block(
        self, outside: LoopRV, inside: LoopRV, inner: LoopRV | None, sums: list[LoopRV], height: int, by_rows: bool
    ) -> None:
        """Tiles of a block: the init and the update part where the sum begins."""
        sch = self.sch
        if inner is None:
            sch.reorder(outside, *sums, inside)
            self.registers(outside, [inside], inside)
            return
        inside_name = self.node(inside).loop_var.name
        sch.reorder(outside, inner, *sums, inside)
        size = self.width(height) if by_rows else self.plan.rows
        for loop, width in self.cut(inner, size, across=by_rows):
            mine = [inside] if loop is inner else [loop_in(sch, loop, inside_name)]
            over = sums if loop is inner else [loop_in(sch, loop, one) for one in self.sums]
            across, along = sch.split(loop, [None, width])
            rows, columns = (mine[0], along) if by_rows else (along, mine[0])
            fit = self.height(*((height, width) if by_rows else (width, height)))
            place = across
            if fit < (height if by_rows else width):
                place, rows = sch.split(rows, [None, fit])
                sch.reorder(across, place, *over, rows, columns)
            else:
                sch.reorder(across, *over, rows, columns)
            self.grouped(over, rows, columns)
            self.registers(place, [rows, columns], columns)

    def in_tiles(self, rows: int, columns: int) -> bool:
        """Whether so many rows and columns go to tile registers."""
        return self.plan.deep > 0 and min(rows, columns) > 1

    def grouped(self, sums: list[LoopRV], rows: LoopRV, columns: LoopRV) -> None:
        """The steps of a sum that an instruction takes at once, innermost."""
        group, deep = self.plan.group, self.plan.deep
        if self.in_tiles(self.extent(rows), self.extent(columns)):
            steps, groups, each = self.sch.split(sums[-1], [None, deep, group])
            self.sch.reorder(steps, rows, columns, groups, each)
            self.sch.annotate(rows, TILE_PRODUCT, True)
        elif group > 1:
            steps, each = self.sch.split(sums[-1], [None, group])
            self.sch.reorder(steps, rows, columns, each)

    def registers(self, at: LoopRV, tile: list[LoopRV], lanes: LoopRV) -> None:
        """The tile in registers."""
        name = block_in(self.sch, at) or self.facts.target
        self.sch.register_tile(name, tile, at=at, vector=lanes, store=True)

    def plain(self, outside: LoopRV, inside: LoopRV, inner: LoopRV | None, height: int, by_rows: bool) -> None:
        """Tiles of plain loops: the statements part inside of a tile."""
        sch = self.sch
        if inner is None:
            self.parted(outside, None, inside)
            return
        inside_name = self.node(inside).loop_var.name
        sch.reorder(outside, inner, inside)
        size = self.width(height) if by_rows else self.plan.rows
        for loop, width in self.cut(inner, size, across=by_rows):
            mine = inside if loop is inner else loop_in(sch, loop, inside_name)
            across, along = sch.split(loop, [None, width])
            rows, columns = (mine, along) if by_rows else (along, mine)
            fit = self.height(*((height, width) if by_rows else (width, height)))
            place = across
            if fit < (height if by_rows else width):
                place, rows = sch.split(rows, [None, fit])
                sch.reorder(across, place, rows, columns)
            else:
                sch.reorder(across, rows, columns)
            self.parted(place, rows, columns)

    def parted(self, at: LoopRV, rows: LoopRV | None, columns: LoopRV) -> None:
        """The init, the sum and what follows as nests of their own in a tile, the sum with its loops outermost."""
        sch, facts = self.sch, self.facts
        sums = [loop_in(sch, columns, one) for one in self.sums]
        tile = [one for one in (rows, columns) if one is not None]
        if facts.form == "local":
            for loop in tile[::-1]:
                sch.expand(facts.target, loop)
        lanes = sch.fission(columns)
        across = [] if rows is None else sch.fission(rows)
        if len(lanes) < 2 or (rows is not None and len(across) < 2):
            raise NotFound(f"the init does not part from the sum of `{facts.target}`")
        mine = [one[1] for one in (across, lanes) if one]  # the init comes first, and has no loops of the sum
        sch.reorder(*sums, *mine)
        if rows is not None:
            self.grouped(sums, *mine)
        if facts.form == "plain":
            sch.register_tile(facts.target, mine, at=at, vector=lanes[1], store=True)
        for number in range(len(lanes)):
            if facts.form == "local" or number != 1:
                sch.vectorize(lanes[number])
                if across:
                    sch.unroll(across[number])
