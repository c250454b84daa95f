"""Contractions, ``C[s] += a * b``: a tile of C in registers, lanes along what is contiguous in C, panels of B.

Each loop over elements of C that only one operand depends on is of that operand: the lanes' loop makes its operand ``B``,
whose vectors the rows of a tile share, the other is ``A``, broadcast element by element. The order of the sums is the loops'
own, so that each bit is. Rests of rows and columns are nests of their own, with tiles as tall and as wide as they are.

The loops may be a block with an init, plain loops over C itself, or plain loops with a local accumulator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from tirlower.autoschedule.classify import Nest, elements_of, extent_of, strides_of
from tirlower.autoschedule.model import LATENCY, PARALLEL_SECONDS, seconds_of, trips
from tirlower.autoschedule.places import block_in, loop_in
from tirlower.autoschedule.recipe import Facts, Handles, Plan, Recipe, Refusal
from tirlower.autoschedule.verbs import Verbs
from tirlower.diagnostics import NotFound
from tirlower.ir.expr import Call, Expr, IntImm
from tirlower.ir.query import has
from tirlower.ir.stmt import AllocBuffer, Block, For, Seq, Stmt
from tirlower.machine.processor import Processor
from tirlower.poly import Access, Loop, Statement
from tirlower.schedule.handles import LoopRV

__all__ = ["CONTRACTION", "Contraction", "ContractionFacts", "ContractionPlan", "pieces_of", "tile_of"]

VECTORS: Final = 2
"""Vectors of a row of the tile: 6 x 2 to 14 x 2 reach the rate of the multiply-adds, 4 x 1 half of it."""

BUSY: Final = 8
"""The accumulators from which on a multiply-add waits for none before it: 4 cycles, 2 of them a cycle."""

_TOGETHER: Final = ("block", "perfect")
"""The forms in which loops of the sum stand directly in those over C."""

FEW: Final = 4
"""Rows below which panels in groups cost more to make than instructions for dot products save."""

PAGE: Final = 4096
"""Bytes after which addresses meet in the same lines of the first cache."""

COPY_CYCLES: Final = 2.0
"""Cycles that a packed element takes."""

TURN_CYCLES: Final = 0.4
"""Cycles of one whose rows become columns in registers, in squares."""

SQUARES: Final = (16, 8, 4)
"""Sides of squares that turn in registers."""


@dataclass(frozen=True, eq=False)
class ContractionFacts(Facts):
    """``form``: "block", "perfect" (loops around the update alone), "plain" (loops over C with an init) or "local" (with an
    accumulator). ``columns`` is the lanes' loop,
    ``rows`` the other one of the tile, ``sums`` are those of the reduction, ``others`` those over C around the tile.
    """

    form: str
    update: Statement
    target: str
    rows: Loop | None
    columns: Loop
    sums: tuple[Loop, ...]
    others: tuple[Loop, ...]
    b: Access
    a: Access
    contiguous: bool
    """Whether B is contiguous along the columns as it stands."""

    @property
    def nest(self) -> Nest:
        """The nest."""
        return self.nests[0]


@dataclass(frozen=True)
class ContractionPlan(Plan):
    """``rows`` x ``columns`` is the tile; ``packed`` names the buffers that are copied to panels, ``block`` is how many columns
    are at a time, ``depth`` how many steps of the sum (0: all), ``group`` how many of them an instruction takes at once;
    ``parallel`` is the loop that runs so, by name."""

    rows: int = 1
    columns: int = 1
    registers: int = 16
    lanes: int = 8
    packed: tuple[str, ...] = ()
    block: int = 0
    depth: int = 0
    group: int = 1
    outer: str = ""
    """The loop whose tiles go outermost: "rows" or "columns"."""
    parallel: str | None = None


def pieces_of(columns: int, lanes: int) -> int:
    """The vectors and parts of vectors that a row of so many columns takes.

    >>> pieces_of(32, 16), pieces_of(21, 16), pieces_of(5, 16)
    (2, 3, 2)
    """
    return columns // lanes + (columns % lanes).bit_count()


def tile_of(extent: int, registers: int, vectors: int = VECTORS) -> int:
    """How many rows a tile has whose rows take so many vectors: of 6 to 14 that fit into registers those that leave the
    smallest rest, the nearest to 12 of these.

    >>> tile_of(512, 32), tile_of(333, 32), tile_of(7, 32), tile_of(1000, 16)
    (8, 9, 7, 5)
    """
    most = max(1, min(14, (registers - vectors - 1) // vectors))
    if extent <= most:
        return extent
    least = min(most, 5 if registers < 32 else 6)
    return min(range(least, most + 1), key=lambda rows: (_rest_cost(extent % rows, rows, extent), abs(rows - 12)))


def _rest_cost(rest: int, rows: int, extent: int) -> float:
    """What a rest of rows costs beyond its own part of the work: a tile of few rows takes as long as one of four."""
    return 0.0 if rest == 0 else round(max(0, BUSY // VECTORS - rest) / extent + 0.02, 3)


@dataclass(frozen=True)
class Contraction(Recipe[ContractionFacts, ContractionPlan]):
    """Register tiles, and panels where they pay."""

    name: ClassVar[str] = "contraction"
    any_size: ClassVar[bool] = False
    """Whether it takes nests whose extents are known to the caller alone."""

    # The class

    def matches(self, nests: Sequence[Nest]) -> ContractionFacts | Refusal:
        """One update of a sum of products, of which the loops are known."""
        nest = nests[0]
        updates = [one for one in nest.statements if one.reduction is not None and not one.starts]
        reduction = updates[0].reduction if len(updates) == 1 else None
        if reduction is None:
            return Refusal("it has not one sum")
        [update] = updates
        form, target, result = _form(nest, update)
        if result is None:
            return Refusal(form)
        reduced = reduction.buffer
        operands = [one for one in update.accesses if not one.is_write and one.buffer is not reduced]
        if len(operands) != 2:
            return Refusal("it has not two operands")
        over = strides_of(result)
        spatial = [loop for loop in update.loops if loop in over]
        sums = [loop for loop in update.loops if loop not in over]
        if not sums:
            return Refusal("nothing is summed up")
        unknown = next((loop for loop in update.loops if extent_of(loop) is None), None)
        if unknown is not None and not self.any_size:
            return Refusal(f"how often `{unknown.name}` runs is known to the caller alone")
        columns = next((loop for loop in spatial if over[loop] == 1), None)
        if columns is None:
            return Refusal("no loop is contiguous in the result")
        moves = [strides_of(one) for one in operands]
        mine = [number for number in (0, 1) if columns in moves[number]]
        if len(mine) != 1:
            return Refusal("both operands depend on the columns" if mine else "no operand depends on the columns")
        b, a = operands[mine[0]], operands[1 - mine[0]]
        along, across = moves[mine[0]], moves[1 - mine[0]]
        if any(loop not in along for loop in sums) or any(loop not in across for loop in sums):
            return Refusal("an operand is not summed over")
        mine_alone = [loop for loop in spatial if loop in across and loop not in along]
        rows = max(mine_alone, key=trips, default=None)
        others = tuple(loop for loop in spatial if loop is not columns and loop is not rows)
        return ContractionFacts(
            (nest,), form, update, target, rows, columns, tuple(sums), others, b, a, along[columns] == 1
        )

    def exact(self, facts: ContractionFacts) -> bool:
        """Products of matrices; of a vector the order of the sums may be free."""
        return facts.rows is not None

    # The numbers

    def plan(self, facts: ContractionFacts, processor: Processor) -> ContractionPlan | Refusal:
        """The tile that fits the registers, panels where B does not fit the second cache, a loop in parallel."""
        extents = {loop: extent_of(loop) or 1 for loop in facts.update.loops}
        dtype = str(facts.update.reduction.dtype) if facts.update.reduction is not None else "float32"
        lanes, registers = processor.lanes(dtype), processor.registers
        n = extents[facts.columns]
        m = 1 if facts.rows is None else extents[facts.rows]
        depth = 1
        for loop in facts.sums:
            depth *= extents[loop]
        outer = 1
        for loop in facts.others:
            outer *= extents[loop]
        if facts.rows is None and _bytes(facts.b) > processor.l2:
            return Refusal("it has one row, and waits for memory")
        if n < 4 or m * n * depth < 512:
            return Refusal(f"{m} x {n} x {depth} is too little for a tile")
        if facts.rows is None and _bytes(facts.b) > processor.l1:
            return Refusal(f"`{_name(facts.b)}` is read once, by no rows that share it: a tile would only wait for it")
        vectors = VECTORS if m * VECTORS >= BUSY else -(-BUSY // m)
        vectors = max(1, min(vectors, n // lanes))
        columns = min(n, vectors * lanes)
        rows = tile_of(m, registers, max(vectors, pieces_of(columns, lanes)))
        group = self._group(facts, processor, m, depth)
        packed, block, at_once, why = self._packed(facts, processor, m, n, depth, rows, columns, group)
        copies = 1
        for loop in _batches(facts):
            copies *= extents[loop]
        if not facts.contiguous and not packed:
            if facts.a.buffer is facts.b.buffer:
                return Refusal(
                    f"`{_name(facts.b)}` is both operands, and not contiguous along the columns in one of them"
                )
            return Refusal(
                f"`{_name(facts.b)}` is not contiguous along the columns, and {m} rows do not pay to pack it"
            )
        cycles = self._cycles(m, n, depth // group, rows, columns, lanes) * outer
        if packed:
            cycles += (TURN_CYCLES if _turns(facts.b, facts.columns, columns) else COPY_CYCLES) * n * depth * copies
        seconds = seconds_of(cycles)
        around = _batches(facts) if packed else ()
        first, parallel, note = self._parallel(
            facts, processor, seconds, -(-m // rows), -(-n // columns), extents, around or facts.others
        )
        if parallel is not None:
            seconds /= min(processor.threads, extents[parallel])
        rule = f"{rows} x {pieces_of(columns, lanes)} vectors of {registers} registers"
        return ContractionPlan(
            seconds,
            "; ".join(part for part in (rule, why, note) if part),
            rows,
            columns,
            registers,
            lanes,
            packed,
            block,
            at_once,
            group,
            first,
            None if parallel is None else parallel.name,
        )

    @staticmethod
    def _group(facts: ContractionFacts, processor: Processor, m: int, depth: int) -> int:
        """How many steps of the sum an instruction takes at once, where the operands are short integers."""
        if not _packs(facts) or facts.rows is None or m < FEW or len(_along(facts, facts.a)) != 2:
            return 1
        if facts.update.reduction is None or facts.update.reduction.dtype != "int32":
            return 1
        group = processor.dots.group(*(str(one.buffer.dtype) for one in (facts.a, facts.b) if one.buffer is not None))
        # A group of A is read as it stands.
        return 1 if depth % group or strides_of(facts.a).get(facts.sums[0]) != 1 else group

    @staticmethod
    def _packed(
        facts: ContractionFacts, processor: Processor, m: int, n: int, depth: int, rows: int, columns: int, group: int
    ) -> tuple[tuple[str, ...], int, int, str]:
        """What goes to panels, how many columns and steps of the sum at a time, and the rule."""
        if not _packs(facts):
            return (), 0, 0, ""
        assert facts.b.buffer is not None
        size = -(-facts.b.buffer.dtype.bits // 8)
        batched = bool(facts.others)
        large = (n * depth * size if batched else _bytes(facts.b)) > processor.l2 // 2
        if group == 1 and facts.contiguous and (m < 4 * rows or not large):
            return (), 0, 0, ""
        wanted = (512 if processor.l2 > 512 << 10 else 256) * group
        steps = 0 if batched or not large or facts.form == "local" else _depth(depth, wanted, group)
        panels = max(1, processor.l2 // 2 // max(1, (steps or depth) * size * columns))
        block = panels * columns if large and not batched and panels * columns < n else 0
        packed, why = [_name(facts.b)], "is not contiguous along the columns"
        if group > 1:
            why = f"goes in groups of {group} to instructions for dot products"
        elif large:
            why = "is larger than half of the second cache"
        if large and group == 1 and not batched:
            places = [_dimension(facts.a, loop) for loop in (facts.rows, facts.sums[0]) if loop is not None]
            if _far_rows(facts.a) and len(places) == 2 and None not in places and places[0] != places[1]:
                packed.append(_name(facts.a))
        return tuple(packed), block, steps, f"`{packed[0]}` {why}: packed"

    @staticmethod
    def _cycles(m: int, n: int, depth: int, rows: int, columns: int, lanes: int) -> float:
        """Cycles of all tiles: two multiply-adds a cycle, of few accumulators as many as wait for none."""
        total = 0.0
        for height, many in ((rows, m // rows), (m % rows, 1)):
            for width, times in ((columns, n // columns), (n % columns, 1)):
                if height and width:
                    sums = height * pieces_of(width, lanes)
                    total += many * times * depth * max(sums, LATENCY * 2) / 2
        return total

    @staticmethod
    def _parallel(
        facts: ContractionFacts,
        processor: Processor,
        seconds: float,
        stripes: int,
        panels: int,
        extents: dict[Loop, int],
        around: Sequence[Loop],
    ) -> tuple[str, Loop | None, str]:
        """Which loop of tiles goes outermost, the one that runs in parallel (one of those around the tiles, if it runs often
        enough), and why none does."""
        threads = processor.threads
        if threads < 2:
            return "rows", None, ""
        if seconds < PARALLEL_SECONDS:
            return "rows", None, f"not parallel: {seconds * 1e6:.2g} µs of work"
        many = next((loop for loop in around if extents[loop] >= 2 * threads), None)
        if many is not None:
            return "rows", many, ""
        if facts.rows is not None and (stripes >= 2 * threads or stripes >= panels):
            return "rows", facts.rows if stripes > 1 else None, ""
        return "columns", facts.columns if panels > 1 else None, ""

    # The steps

    def apply(self, sch: Verbs, facts: ContractionFacts, plan: ContractionPlan, loops: Handles) -> None:
        """Order the loops, cut off rests, and give each part a tile."""
        batches = _batches(facts) if plan.packed else ()
        around = sorted(facts.others, key=lambda loop: (loop.name != plan.parallel, loop not in batches))
        others = [loops[loop] for loop in around]
        rows = None if facts.rows is None else loops[facts.rows]
        columns = loops[facts.columns]
        tile = _Tile(sch, facts, plan)
        sums = [loops[loop] for loop in facts.sums]
        if (plan.block or plan.depth) and rows is not None:
            tile.blocks(columns, rows, sums)
            self._run_parallel(sch, facts, plan, [], tile)
            return
        pair = [one for one in ((rows, columns) if plan.outer == "rows" else (columns, rows)) if one is not None]
        order = [*others, *pair]
        if facts.form in _TOGETHER:
            order += sums
        if len(order) > 1:
            sch.reorder(*order)
        if plan.packed:
            # Once for all iterations that read the same.
            tile.pack_b(others[len(batches) - 1] if batches else None)
        if rows is None:
            tile.part(columns, None, sums)
        elif plan.outer == "rows":
            tile.part(rows, columns, sums)
        else:
            tile.part(columns, rows, sums)
        self._run_parallel(sch, facts, plan, others, tile)

    @staticmethod
    def _run_parallel(
        sch: Verbs, facts: ContractionFacts, plan: ContractionPlan, others: Sequence[LoopRV], tile: _Tile
    ) -> None:
        """The loop of the plan in parallel, in each part that it has."""
        if plan.parallel in {loop.name for loop in facts.others}:
            sch.parallel(others[0])
        elif plan.parallel is not None:
            for loop in tile.outermost:
                sch.parallel(loop)


class _Tile:
    """The steps that cut two loops into tiles, those of the first outermost."""

    def __init__(self, sch: Verbs, facts: ContractionFacts, plan: ContractionPlan) -> None:
        self.sch = sch
        self.facts = facts
        self.plan = plan
        self.sums = [loop.name for loop in facts.sums]
        self.outermost: list[LoopRV] = []

    def pack_b(self, at: LoopRV | None) -> None:
        """B in panels as wide as a tile, of what an iteration of a loop reads; without one, of all."""
        self.panels(self.facts.b, self.facts.columns, at, self.plan.columns)

    def panels(self, access: Access, loop: Loop, at: LoopRV | None, width: int) -> None:
        """An operand in panels, as wide as the tile is along a loop."""
        inside = {one.name for one in self.facts.others}
        at_once, group = self.plan.parallel is not None and self.plan.parallel not in inside, self.plan.group
        column, step = _dimension(access, loop), _dimension(access, self.facts.sums[0])
        assert column is not None and step is not None

        def layout(*at: Expr) -> list[Expr]:
            n, k = at[column], at[step]
            return [n // width, k // group, n % width, k % group] if group > 1 else [n // width, k, n % width]

        copied = self.sch.pack(_name(access), at, layout, parallel=at_once)
        if group == 1 and column < step:
            side = min(_turns(access, loop, width), self.plan.lanes)
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
        together = self.facts.form in _TOGETHER
        first = None
        if self.plan.depth:
            [first, last] = self.sch.split(sums[0], [None, self.plan.depth])
            sums = [last]
            self.sch.reorder(first, columns, rows, last)
        else:
            self.sch.reorder(columns, rows, *(sums if together else ()))
        if self.plan.packed[1:] and self.facts.rows is not None:
            self.panels(self.facts.a, self.facts.rows, first, self.plan.rows)
        name = self.node(rows).loop_var.name
        self.sums = [self.node(one).loop_var.name for one in sums]
        for loop, size in self.cut(columns, self.plan.block or self.extent(columns)):
            mine = rows if loop is columns else loop_in(self.sch, loop, name)
            over = sums if loop is columns else [loop_in(self.sch, loop, one) for one in self.sums]
            outside, inside = self.sch.split(loop, [None, size])
            self.sch.reorder(outside, mine, inside, *(over if together else ()))
            self.pack_b(outside)
            self.part(mine, inside, over)

    def part(self, first: LoopRV, second: LoopRV | None, over: list[LoopRV]) -> None:
        """Cut the first loop into its whole tiles and its rest, and each of them along the second one."""
        by_rows = self.plan.outer == "rows" and second is not None
        names = [self.node(second).loop_var.name] if second is not None else []
        size = self.plan.rows if by_rows else self.plan.columns
        for loop, height in self.cut(first, size):
            inner = None if second is None else (second if loop is first else loop_in(self.sch, loop, names[0]))
            sums = over if loop is first else [loop_in(self.sch, loop, one) for one in self.sums]
            outside, inside = self.sch.split(loop, [None, height])
            if self.facts.form not in _TOGETHER:
                self.plain(outside, inside, inner, height, by_rows)
            else:
                self.block(outside, inside, inner, sums, height, by_rows)
            self.outermost.append(outside)

    def cut(self, loop: LoopRV, size: int) -> list[tuple[LoopRV, int]]:
        """The loops over whole tiles and over the rest, each with the extent of its tile."""
        extent = self.extent(loop)
        if extent <= size or extent % size == 0:
            return [(loop, min(size, extent))]
        whole, rest = self.sch.loop_partition(loop, [extent // size * size])
        return [(whole, size), (rest, extent % size)]

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
        if rows * pieces_of(self.plan.columns, self.plan.lanes) >= BUSY or self.plan.packed:
            return self.plan.columns
        vectors = min(-(-BUSY // rows), (self.plan.registers - 2) // (rows + 1))
        return max(self.plan.columns, vectors * self.plan.lanes)

    def height(self, rows: int, columns: int) -> int:
        """As many of some rows, dividing them, as fit into the registers with so many columns."""
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
        for loop, width in self.cut(inner, size):
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

    def grouped(self, sums: list[LoopRV], rows: LoopRV, columns: LoopRV) -> None:
        """The steps of a sum that an instruction takes at once, innermost."""
        if self.plan.group > 1:
            steps, group = self.sch.split(sums[-1], [None, self.plan.group])
            self.sch.reorder(steps, rows, columns, group)

    def registers(self, at: LoopRV, tile: list[LoopRV], lanes: LoopRV) -> None:
        """The tile in registers."""
        name = block_in(self.sch, at) or self.facts.target
        self.sch.register_tile(name, tile, at=at, vector=lanes)

    def plain(self, outside: LoopRV, inside: LoopRV, inner: LoopRV | None, height: int, by_rows: bool) -> None:
        """Tiles of plain loops: the statements part inside of a tile."""
        sch = self.sch
        if inner is None:
            self.parted(outside, None, inside)
            return
        inside_name = self.node(inside).loop_var.name
        sch.reorder(outside, inner, inside)
        size = self.width(height) if by_rows else self.plan.rows
        for loop, width in self.cut(inner, size):
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
            sch.register_tile(facts.target, mine, at=at, vector=lanes[1])
        for number in range(len(lanes)):
            if facts.form == "local" or number != 1:
                sch.vectorize(lanes[number])
                if across:
                    sch.unroll(across[number])


CONTRACTION: Final = Contraction()


def _form(nest: Nest, update: Statement) -> tuple[str, str, Access | None]:
    """The form of the loops, what ``register_tile`` calls the sum, and the write of the result; without one the form is why."""
    written = next(one for one in update.accesses if one.is_write)
    buffer = written.buffer
    assert buffer is not None
    block = nest.block_of(update)
    rest = [one for one in nest.statements if one is not update and not one.starts]
    if block is not None:
        if rest:
            return "other statements stand in the nest", "", None
        if not _perfect(nest, len(update.loops)):
            return "other statements stand between the loops", "", None
        return "block", block.name, written
    if any(nest.block_of(one) is not None for one in rest):
        return "blocks and plain loops are mixed", "", None
    if not rest:
        return ("perfect", buffer.name, written) if _perfect(nest, len(update.loops)) else ("the loops part", "", None)
    around = rest[0].loops
    if any(one.loops != around for one in rest) or update.loops[: len(around)] != around:
        return "other statements stand in other loops", "", None
    if not _perfect(nest, len(around)):
        return "other statements stand between the loops", "", None
    stores = [access for one in rest for access in one.accesses if access.is_write]
    if buffer.data not in nest.local:
        same = len(rest) == len(stores) == 1 and stores[0].buffer is buffer and rest[0].order < update.order
        return ("plain", buffer.name, written) if same else ("other statements stand in the nest", "", None)
    results = [one for one in stores if one.buffer is not buffer]
    if len(rest) != 2 or len(results) != 1 or results[0].statement.order < update.order:
        return "other statements stand in the nest", "", None
    return "local", buffer.name, results[0]


def _perfect(nest: Nest, depth: int) -> bool:
    """Whether so many loops stand directly in each other from the outermost one on."""
    stmt: Stmt = nest.root
    for at in range(depth):
        if not isinstance(stmt, For):
            return False
        stmt = stmt.body
        if at + 1 < depth and isinstance(stmt, Seq):
            return False
    return isinstance(stmt, (Block, Seq)) or not isinstance(stmt, (For, AllocBuffer))


def _name(access: Access) -> str:
    assert access.buffer is not None
    return access.buffer.name


def _packs(facts: ContractionFacts) -> bool:
    """Whether B may be copied to panels: a matrix, or one for each of some iterations around the tiles; and not A too, since a
    copy of the buffer is one of both operands."""
    b = facts.b
    if len(facts.sums) != 1 or len(_along(facts, b)) != 2 or facts.a.buffer is b.buffer:
        return False
    places = [_dimension(b, loop) for loop in (facts.columns, facts.sums[0])]
    if None in places or places[0] == places[1]:
        return False
    mine = {facts.columns.var, facts.sums[0].var}
    return all(at in places or not mine & set(form.terms) for at, form in enumerate(b.indices or ()))


def _along(facts: ContractionFacts, access: Access) -> dict[Loop, int | None]:
    """By how many elements an operand moves with the loops of the tile and of the sum."""
    return {loop: stride for loop, stride in strides_of(access).items() if loop not in facts.others}


def _batches(facts: ContractionFacts) -> tuple[Loop, ...]:
    """The loops around the tiles for each of whose iterations there is a matrix B of its own."""
    moves = strides_of(facts.b)
    return tuple(loop for loop in facts.others if loop in moves)


def _dimension(access: Access, loop: Loop) -> int | None:
    """Which subscript of an access is a loop, and nothing else; None where none is."""
    found = [at for at, form in enumerate(access.indices or ()) if loop.var in form.terms]
    if len(found) != 1 or set((access.indices or ())[found[0]].terms) != {loop.var}:
        return None
    return found[0]


def _turns(access: Access, loop: Loop, width: int) -> int:
    """The side of the squares of a matrix that turn when it is packed in panels along a loop: 0 where its rows stay rows."""
    strides = strides_of(access)
    if strides.get(loop) in (None, 1):
        return 0
    if not any(stride == 1 for other, stride in strides.items() if other is not loop):
        return 0
    return next((side for side in SQUARES if width % side == 0), 0)


def _depth(steps: int, wanted: int, group: int = 1) -> int:
    """How many steps of a sum are taken at a time: what divides them, whole groups, and is near to what is wanted; 0 where
    nothing is."""
    if steps <= 2 * wanted:
        return 0
    fits = [size for size in range(wanted // 2, 2 * wanted + 1) if steps % size == 0 and size % group == 0]
    return min(fits, key=lambda size: abs(size - wanted), default=0)


def _far_rows(access: Access) -> bool:
    """Whether rows of a matrix begin in the same place of a page, so that they meet in few lines of the first cache."""
    buffer = access.buffer
    assert buffer is not None
    pitch = elements_of(buffer)[0]
    return len(buffer.shape) == 2 and pitch is not None and pitch * -(-buffer.dtype.bits // 8) % PAGE == 0


def _bytes(access: Access) -> int:
    """The bytes of an operand's buffer; 0 where they are no number."""
    buffer = access.buffer
    assert buffer is not None
    first, extent = elements_of(buffer)[0], getattr(buffer.shape[0], "value", None)
    return 0 if first is None or extent is None else first * extent * -(-buffer.dtype.bits // 8)
