"""Contractions, ``C[s] += a * b``: a tile of C in registers, lanes along what is contiguous in C, panels of B.

Each loop over elements of C that only one operand depends on is of that operand: the lanes' loop makes its operand ``B``,
whose vectors the rows of a tile share, the other is ``A``, broadcast element by element. The order of the sums is the loops'
own, so that each bit is. Rests of rows and columns are nests of their own, with tiles as tall and as wide as they are.

The loops may be a block with an init, plain loops over C itself, or plain loops with a local accumulator.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from tirlower.analysis.short_factors import short_factors
from tirlower.autoschedule.classify import Nest, extent_of, strides_of
from tirlower.autoschedule.model import LATENCY, PARALLEL_SECONDS, seconds_of, trips
from tirlower.autoschedule.recipe import Handles, Recipe, Refusal, nearby
from tirlower.autoschedule.recipes.contraction_facts import (
    BUSY,
    TOGETHER,
    VECTORS,
    ContractionFacts,
    ContractionPlan,
    along_tile,
    batches_of,
    bytes_of,
    depth_of,
    far_rows,
    form_of,
    is_cut,
    is_one_buffer,
    name_of,
    packs,
    packs_a,
    pieces_of,
    repeats,
    tile_of,
    turns,
)
from tirlower.autoschedule.recipes.contraction_steps import Tile
from tirlower.autoschedule.verbs import Verbs
from tirlower.ir.stmt import BufferStore
from tirlower.machine.processor import Processor
from tirlower.machine.tiles import SIDE
from tirlower.poly import Access, Loop
from tirlower.schedule.handles import LoopRV

__all__ = ["CONTRACTION", "Contraction"]

FEW: Final = 4
"""Rows below which panels in groups cost more to make than instructions for dot products save."""

PANELS: Final = 768 << 10
"""Bytes of panels that stay in a second cache of 2 MB, beside what else passes through it: with 1 MB of them a product of 512³ took 1.2
times as long, as B lay, one of 2048³ 1.15 times."""

MANY_ROWS: Final = 16
"""Rows from which on the copy of a large B costs less than reading it twice where it is (0.76 of the time at 16 of 1000², 1.0 at 12)."""

BLOCKS: Final = 4
"""Blocks of columns for each thread from which on threads take whole ones, and copy their panels themselves."""

MANY: Final = 32
"""Registers of vectors from which on tiles may have more than two vectors a row."""

WIDE: Final = (3, 4)
"""Vectors of their rows."""

HEIGHTS: Final = 3
"""How many rows less than fit into the registers such a tile may have."""

REST: Final = 0.04
"""The part of the time that a rest costs beside its own sums."""

LOADS: Final = 0.8
"""How much of a multiply-add's time each load of it more costs: B is counted twice, for arrays of NumPy's begin anywhere in a line. With
tiles of 8 by 2 vectors (0.75 loads) products took 1.0, of 6 by 3 (0.67) 0.96, of 8 by 3 and 6 by 4 (0.58) 0.88 of a time (Emerald Rapids)."""

USUAL: Final = 0.75
"""The loads of 8 by 2 vectors, for which other cycles are counted."""

COPY_CYCLES: Final = 2.0
"""Cycles that a packed element takes."""

TURN_CYCLES: Final = 0.4
"""Cycles of one whose rows become columns in registers, in squares."""

TILE_CYCLES: Final = 20.0
"""Cycles of the product of two tile registers, with what loads them."""

PANEL_ROWS: Final = 8
"""Rows of a tile that are read from the panels of the columns, where both operands are one buffer."""

LEAST_ROWS: Final = 8
"""Rows and columns from which on tile registers pay."""

LEAST_DEEP: Final = 4
"""Groups at once from which on they do."""


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
        form, target, result = form_of(nest, update)
        if result is None:
            return Refusal(form)
        reduced = reduction.buffer
        operands = _distinct(one for one in update.accesses if not one.is_write and one.buffer is not reduced)
        if len(operands) < 2:
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
        mine = [one for one in operands if columns in strides_of(one)]
        theirs = [one for one in operands if one not in mine]
        if not mine or not theirs:
            return Refusal("both operands depend on the columns" if mine else "no operand depends on the columns")
        if any(loop not in strides_of(one) for loop in sums for one in operands):
            return Refusal("an operand is not summed over")
        contiguous = all(strides_of(one)[columns] == 1 for one in mine)
        if len(operands) > 2 and not contiguous:
            return Refusal("of several operands one is not contiguous along the columns")
        along = {loop for one in mine for loop in strides_of(one)}
        mine_alone = [loop for loop in spatial if loop not in along and any(loop in strides_of(one) for one in theirs)]
        rows = max(mine_alone, key=trips, default=None)
        others = tuple(loop for loop in spatial if loop is not columns and loop is not rows)
        several = max(len(mine), len(theirs))
        return ContractionFacts(
            (nest,),
            form,
            update,
            target,
            rows,
            columns,
            tuple(sums),
            others,
            mine[0],
            theirs[0],
            contiguous,
            several,
            tuple(mine[1:]),
        )

    def exact(self, facts: ContractionFacts) -> bool:
        """Products of matrices; of a vector the order of the sums may be free."""
        return facts.rows is not None

    def rounding(self, facts: ContractionFacts, plan: ContractionPlan) -> str:
        """Instructions add up products of bfloat16 in their own way."""
        if plan.group == 1 or facts.a.buffer is None or not facts.a.buffer.dtype.is_bfloat16:
            return ""
        return f"rounded as instructions for dot products of {facts.a.buffer.dtype} do"

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
        if facts.rows is None and bytes_of(facts.b) > processor.l2:
            return Refusal("it has one row, and waits for memory")
        if n < (4 if is_cut(facts) else 2) or m * n * depth < 512:
            return Refusal(f"{m} x {n} x {depth} is too little for a tile")
        if facts.rows is None and bytes_of(facts.b) > processor.l1:
            return Refusal(
                f"`{name_of(facts.b)}` is read once, by no rows that share it: a tile would only wait for it"
            )
        vectors = VECTORS if m * VECTORS >= BUSY else -(-BUSY // m)
        vectors = max(1, min(vectors, n // lanes))
        columns = min(n, vectors * lanes)
        rows = tile_of(m, registers, max(vectors, pieces_of(columns, lanes)))
        group = self._group(facts, processor, m, depth)
        if is_one_buffer(facts) and packs(facts):  # rows of a tile lie in one panel
            rows = math.gcd(columns, rows) if columns % PANEL_ROWS else min(m, PANEL_ROWS)
        elif registers >= MANY and group == facts.several == 1 and facts.contiguous and m * VECTORS >= BUSY:
            rows, columns = self._tile(m, n, depth, (rows, columns), registers, lanes)
        deep = self._deep(facts, processor, m, n, depth // group) if group > 1 else 0
        if deep:
            rows, columns = min(m, 2 * SIDE), min(n, 2 * SIDE)
        if deep:
            packed, block, why = self._packed_tiles(facts, processor, n, depth, columns)
            at_once = 0
        else:
            packed, block, at_once, why = self._packed(facts, processor, m, n, depth, rows, columns, group)
        shifts = False
        if (
            n % lanes
            and n > lanes
            and not (packed or deep)
            and group == 1
            and facts.rows is not None
            and repeats(facts)
        ):
            widest = max(WIDE) if registers >= MANY and facts.several == 1 else VECTORS
            rows, columns, shifts = self._shifted(m, n, depth, (rows, columns), registers, lanes, widest)
        copies = 1
        for loop in batches_of(facts):
            copies *= extents[loop]
        if not facts.contiguous and not packed:
            return Refusal(
                f"`{name_of(facts.b)}` is not contiguous along the columns, and {m} rows do not pay to pack it"
            )
        if deep:
            cycles = TILE_CYCLES * -(-m // SIDE) * -(-n // SIDE) * (depth // group // deep) * outer
        else:
            cycles = self._cycles(m, n, depth // group, rows, columns, lanes) * outer * facts.several
        if packed:
            each = TURN_CYCLES if turns(facts.b, facts.columns, columns) else COPY_CYCLES
            cycles += each * n * depth * copies * (1 + len(facts.beside))
        seconds = seconds_of(cycles)
        around = batches_of(facts) if packed else ()
        first, parallel, note = self._parallel(
            facts, processor, seconds, -(-m // rows), -(-n // columns), extents, around or facts.others
        )
        if not packed and parallel is not facts.rows and facts.rows is not None and _is_large(facts, processor):
            first = "columns"  # all rows meet what is read of B
        if block:  # whose rows go by within
            first = "rows"
            if parallel is not None:
                parallel = facts.columns if n // block >= BLOCKS * processor.threads else facts.rows
        if parallel is not None:
            seconds /= min(processor.threads, extents[parallel])
        rule = f"{rows} x {pieces_of(columns, lanes)} vectors of {registers} registers"
        if deep:
            rule = f"{rows} x {columns} in tile registers, {deep * group} steps at once"
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
            deep,
            first,
            None if parallel is None else parallel.name,
            shifts,
        )

    @classmethod
    def _shifted(
        cls, m: int, n: int, depth: int, usual: tuple[int, int], registers: int, lanes: int, widest: int
    ) -> tuple[int, int, bool]:
        """The tile that takes the least time of a usual one and those of whole vectors, whose last one in a row begins earlier."""

        def cycles(tile: tuple[int, int, bool]) -> float:
            rows, columns, shifts = tile
            width = -(-n // columns) * columns if shifts else n
            rests = (m % rows > 0) + (n % columns > 0)
            return cls._cycles(m, width, depth, rows, columns, lanes) * (1 + REST * rests)

        tiles = [(*usual, False)]
        for vectors in range(1, min(widest, n // lanes) + 1):
            most = min(m, 14, (registers - vectors - 1) // vectors)
            tiles += [(rows, vectors * lanes, True) for rows in range(max(1, most - HEIGHTS), most + 1)]
        return min(tiles, key=cycles)

    @classmethod
    def _tile(cls, m: int, n: int, depth: int, usual: tuple[int, int], registers: int, lanes: int) -> tuple[int, int]:
        """The tile that takes the least time of a usual one and those of more vectors a row, with what it leaves."""
        tiles = [usual]
        for width in sorted({min(n, vectors * lanes) for vectors in WIDE}):
            pieces = pieces_of(width, lanes)
            most = min(m, (registers - pieces - 1) // pieces)
            tiles += [(rows, width) for rows in range(max(1, most - HEIGHTS), most + 1)]

        def cycles(tile: tuple[int, int]) -> float:
            rests = (m % tile[0] > 0) + (n % tile[1] > 0)
            return cls._cycles(m, n, depth, *tile, lanes) * (1 + REST * rests)

        return min(tiles, key=cycles)

    @staticmethod
    def _group(facts: ContractionFacts, processor: Processor, m: int, depth: int) -> int:
        """How many steps of the sum an instruction takes at once, where the operands are short integers."""
        if (
            facts.several > 1
            or not packs(facts)
            or is_one_buffer(facts)
            or facts.rows is None
            or m < FEW
            or len(along_tile(facts, facts.a)) != 2
        ):
            return 1
        if not isinstance(facts.update.node, BufferStore) or short_factors(facts.update.node) is None:
            return 1
        group = processor.dots.group(*(str(one.buffer.dtype) for one in (facts.a, facts.b) if one.buffer is not None))
        # A group of A is read as it stands.
        return 1 if depth % group or strides_of(facts.a).get(facts.sums[0]) != 1 else group

    @staticmethod
    def _deep(facts: ContractionFacts, processor: Processor, m: int, n: int, groups: int) -> int:
        """How many groups of the sum tile registers take at once; 0 where they are not there, or would be nearly empty."""
        kinds = [str(one.buffer.dtype) for one in (facts.a, facts.b) if one.buffer is not None]
        if not processor.dots.tiles(*kinds) or m < LEAST_ROWS or n < LEAST_ROWS:
            return 0
        deep = next(size for size in range(SIDE, 0, -1) if groups % size == 0)
        return deep if deep >= LEAST_DEEP else 0

    @staticmethod
    def _packed(
        facts: ContractionFacts, processor: Processor, m: int, n: int, depth: int, rows: int, columns: int, group: int
    ) -> tuple[tuple[str, ...], int, int, str]:
        """What goes to panels, how many columns and steps of the sum at a time, and the rule."""
        if not packs(facts):
            return (), 0, 0, ""
        assert facts.b.buffer is not None
        size = -(-facts.b.buffer.dtype.bits // 8)
        batched = bool(facts.others)
        room = _room(facts, processor)
        large = (n * depth * size > room if batched else _is_large(facts, processor)) and not is_one_buffer(facts)
        few = m < (4 * rows if batched else MANY_ROWS)
        if group == 1 and facts.contiguous and (few or not large):
            return (), 0, 0, ""
        wanted = (512 if processor.l2 > 512 << 10 else 256) * group
        stays = group == 1 and depth * size * columns <= processor.l2 // 2
        steps = 0 if batched or stays or not large or facts.form == "local" else depth_of(depth, wanted, group)
        most = max(1, room // max(1, (steps or depth) * size * columns))
        each = n // columns // (BLOCKS * processor.threads)
        panels = _evenly(min(most, each) if processor.threads > 1 and each else most, n, columns)
        block = panels * columns if large and not batched and panels * columns < n else 0
        packed, why = [name_of(facts.b)], "is not contiguous along the columns"
        if group > 1:
            why = f"goes in groups of {group} to instructions for dot products"
        elif large:
            why = "is larger than what stays in the second cache"
        if large and group == 1 and not batched:
            turned = strides_of(facts.a).get(facts.sums[0]) != 1  # each step of the sum reads another row of it
            if (turned or far_rows(facts.a)) and packs_a(facts):
                packed.append(name_of(facts.a))
        return tuple(packed), block, steps, f"`{packed[0]}` {why}: packed"

    @staticmethod
    def _packed_tiles(
        facts: ContractionFacts, processor: Processor, n: int, depth: int, columns: int
    ) -> tuple[tuple[str, ...], int, str]:
        """What goes to panels for tile registers, how many columns at a time, and the rule: A too where enough columns meet it,
        for rows that are a power of two apart meet in few lines of the first cache."""
        assert facts.b.buffer is not None
        size = -(-facts.b.buffer.dtype.bits // 8)
        packed = [name_of(facts.b)]
        if not facts.others and packs_a(facts) and n >= 4 * columns:
            packed.append(name_of(facts.a))
        panels = _evenly(max(1, processor.l2 // 2 // (depth * size * columns)), n, columns)
        block = panels * columns if not facts.others and panels * columns < n else 0
        return tuple(packed), block, f"`{packed[0]}` goes in groups to tile registers: packed"

    @staticmethod
    def _cycles(m: int, n: int, depth: int, rows: int, columns: int, lanes: int) -> float:
        """Cycles of all tiles: two multiply-adds a cycle, of few accumulators as many as wait for none, and what their loads take."""
        total = 0.0
        for height, many in ((rows, m // rows), (m % rows, 1)):
            for width, times in ((columns, n // columns), (n % columns, 1)):
                if height and width:
                    vectors = pieces_of(width, lanes)
                    sums = height * vectors
                    loads = (height + 2 * vectors) / sums
                    total += many * times * depth * max(sums * (1 + LOADS * (loads - USUAL)), LATENCY * 2) / 2
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

    def neighbours(self, facts: ContractionFacts, plan: ContractionPlan) -> list[ContractionPlan]:
        """Tiles of some rows or vectors more or less, other blocks, operands packed or not, the other order of tiles."""
        found = nearby(plan, ("registers", "lanes", "group", "deep", "rows", "columns", "block", "single"))
        if not plan.deep:
            near = (plan.rows // 2, plan.rows - 2, plan.rows - 1, plan.rows + 1, plan.rows + 2, plan.rows * 2)
            found += [replace(plan, rows=rows) for rows in near if 1 <= rows < plan.registers]
            for columns in (plan.columns - plan.lanes, plan.columns + plan.lanes, plan.columns * 2):
                if columns >= plan.lanes:
                    found.append(replace(plan, columns=columns, block=_whole(plan.block, columns)))
        if plan.block:
            sizes = {_whole(size, plan.columns) for size in (plan.block // 2, plan.block * 2)} - {plan.block}
            found += [replace(plan, block=size) for size in sorted(sizes)]
        if facts.contiguous and packs(facts) and not plan.deep and plan.group == 1:
            b, a = name_of(facts.b), name_of(facts.a)
            kinds: list[tuple[str, ...]] = [(), (b,), (b, a)] if packs_a(facts) and b != a else [(), (b,)]
            for packed in kinds:
                if packed != plan.packed:
                    found.append(replace(plan, packed=packed, block=plan.block if packed else 0))
        if facts.rows is not None and not plan.block and not plan.depth:
            other, loop = ("columns", facts.columns) if plan.outer == "rows" else ("rows", facts.rows)
            mine = plan.parallel in (facts.rows.name, facts.columns.name)
            found.append(replace(plan, outer=other, parallel=loop.name if mine else plan.parallel))
        return found

    # The steps

    def apply(self, sch: Verbs, facts: ContractionFacts, plan: ContractionPlan, loops: Handles) -> None:
        """Order the loops, cut off rests, and give each part a tile."""
        batches = batches_of(facts) if plan.packed else ()
        around = sorted(facts.others, key=lambda loop: (loop.name != plan.parallel, loop not in batches))
        others = [loops[loop] for loop in around]
        rows = None if facts.rows is None else loops[facts.rows]
        columns = loops[facts.columns]
        tile = Tile(sch, facts, plan)
        sums = [loops[loop] for loop in facts.sums]
        if (plan.block or plan.depth) and rows is not None:
            tile.blocks(columns, rows, sums)
            self._run_parallel(sch, facts, plan, [], tile)
            return
        pair = [one for one in ((rows, columns) if plan.outer == "rows" else (columns, rows)) if one is not None]
        order = [*others, *pair]
        if facts.form in TOGETHER:
            order += sums
        if len(order) > 1:
            sch.reorder(*order)
        if plan.packed:
            # Once for all iterations that read the same.
            tile.pack_b(others[len(batches) - 1] if batches else None)
            tile.pack_a(None)
        if rows is None:
            tile.part(columns, None, sums)
        elif plan.outer == "rows":
            tile.part(rows, columns, sums)
        else:
            tile.part(columns, rows, sums)
        self._run_parallel(sch, facts, plan, others, tile)

    @staticmethod
    def _run_parallel(
        sch: Verbs, facts: ContractionFacts, plan: ContractionPlan, others: Sequence[LoopRV], tile: Tile
    ) -> None:
        """The loop of the plan in parallel, in each part that it has."""
        if plan.parallel in {loop.name for loop in facts.others}:
            sch.parallel(others[0])
        elif plan.parallel is not None:
            for loop in tile.strips if tile.strips and plan.parallel == facts.columns.name else tile.outermost:
                sch.parallel(loop)


def _room(facts: ContractionFacts, processor: Processor) -> int:
    """How many bytes of panels of B are at a time, so that they stay in the second cache."""
    return min(processor.l2 // 2, PANELS) // (1 + len(facts.beside))


def _is_large(facts: ContractionFacts, processor: Processor) -> bool:
    """Whether B is larger than that."""
    return bytes_of(facts.b) > _room(facts, processor)


def _evenly(panels: int, n: int, columns: int) -> int:
    """How many panels a block has where so many fit: as many as all blocks can have, if that is at least half, for another number in
    the last one is another loop nest to compile.

    >>> [_evenly(6, 512, 64), _evenly(3, 1024, 64), _evenly(5, 1000, 64), _evenly(5, 704, 64), _evenly(9, 512, 64)]
    [4, 2, 5, 5, 8]
    """
    count = n // columns
    even = [size for size in range((panels + 1) // 2, panels + 1) if n % columns == 0 and count % size == 0]
    return max(even, default=panels)


def _whole(size: int, columns: int) -> int:
    """A number of columns near another one that whole tiles fill; 0 stays."""
    return max(1, size // columns) * columns if size else 0


def _distinct(accesses: Iterable[Access]) -> list[Access]:
    """Accesses, of those of one element the first."""
    found: dict[object, Access] = {}
    for one in accesses:
        key = None if one.indices is None else tuple(form.key for form in one.indices)
        found.setdefault((one.data, key), one)
    return list(found.values())


CONTRACTION: Final = Contraction()
