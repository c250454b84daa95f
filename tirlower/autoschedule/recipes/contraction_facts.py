"""What a contraction is: its loops and operands, the numbers of a plan, and what they are chosen by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tirlower.autoschedule.classify import Nest, elements_of, strides_of
from tirlower.autoschedule.recipe import Facts, Plan
from tirlower.ir.stmt import AllocBuffer, Block, For, Seq, Stmt
from tirlower.poly import Access, Loop, Statement

__all__ = [
    "BUSY",
    "ContractionFacts",
    "ContractionPlan",
    "PAGE",
    "SQUARES",
    "TOGETHER",
    "VECTORS",
    "along_tile",
    "batches_of",
    "bytes_of",
    "depth_of",
    "dimension_of",
    "far_rows",
    "is_cut",
    "is_one_buffer",
    "form_of",
    "name_of",
    "packs",
    "packs_a",
    "perfect",
    "pieces_of",
    "repeats",
    "tile_of",
    "turns",
]

VECTORS: Final = 2
"""Vectors of a row of the tile: 6 x 2 to 14 x 2 reach the rate of the multiply-adds, 4 x 1 half of it."""

BUSY: Final = 8
"""The accumulators from which on a multiply-add waits for none before it: 4 cycles, 2 of them a cycle."""

TOGETHER: Final = ("block", "perfect")
"""The forms in which loops of the sum stand directly in those over C."""

PAGE: Final = 4096
"""Bytes after which addresses meet in the same lines of the first cache."""

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
    several: int
    """How many products, or what else the update has of them, it adds up at once."""
    beside: tuple[Access, ...]
    """What else depends on the columns, beside B: it goes to panels with it."""

    @property
    def nest(self) -> Nest:
        """The nest."""
        return self.nests[0]


@dataclass(frozen=True)
class ContractionPlan(Plan):
    """``rows`` x ``columns`` is the tile; ``packed`` names the buffers that are copied to panels, ``block`` is how many columns
    are at a time, ``depth`` how many steps of the sum (0: all), ``group`` how many of them an instruction takes at once, ``deep`` how many such
    groups; ``parallel`` is the loop that runs so, by name."""

    rows: int = 1
    columns: int = 1
    registers: int = 16
    lanes: int = 8
    packed: tuple[str, ...] = ()
    block: int = 0
    depth: int = 0
    group: int = 1
    deep: int = 0
    """How many groups of the sum a tile register takes at once; 0 where there are none."""
    outer: str = ""
    """The loop whose tiles go outermost: "rows" or "columns"."""
    parallel: str | None = None
    shifts: bool = False
    """Whether the last tile of a row begins earlier, and computes some elements once more."""


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


def form_of(nest: Nest, update: Statement) -> tuple[str, str, Access | None]:
    """The form of the loops, what ``register_tile`` calls the sum, and the write of the result; without one the form is why."""
    written = next(one for one in update.accesses if one.is_write)
    buffer = written.buffer
    assert buffer is not None
    block = nest.block_of(update)
    rest = [one for one in nest.statements if one is not update and not one.starts]
    if block is not None:
        if rest:
            return "other statements stand in the nest", "", None
        if not perfect(nest, len(update.loops)):
            return "other statements stand between the loops", "", None
        return "block", block.name, written
    if any(nest.block_of(one) is not None for one in rest):
        return "blocks and plain loops are mixed", "", None
    if not rest:
        return ("perfect", buffer.name, written) if perfect(nest, len(update.loops)) else ("the loops part", "", None)
    around = rest[0].loops
    if any(one.loops != around for one in rest) or update.loops[: len(around)] != around:
        return "other statements stand in other loops", "", None
    if not perfect(nest, len(around)):
        return "other statements stand between the loops", "", None
    stores = [access for one in rest for access in one.accesses if access.is_write]
    if buffer.data not in nest.local:
        same = len(rest) == len(stores) == 1 and stores[0].buffer is buffer and rest[0].order < update.order
        return ("plain", buffer.name, written) if same else ("other statements stand in the nest", "", None)
    results = [one for one in stores if one.buffer is not buffer]
    if len(rest) != 2 or len(results) != 1 or results[0].statement.order < update.order:
        return "other statements stand in the nest", "", None
    return "local", buffer.name, results[0]


def perfect(nest: Nest, depth: int) -> bool:
    """Whether so many loops stand directly in each other from the outermost one on."""
    stmt: Stmt = nest.root
    for at in range(depth):
        if not isinstance(stmt, For):
            return False
        stmt = stmt.body
        if at + 1 < depth and isinstance(stmt, Seq):
            return False
    return isinstance(stmt, (Block, Seq)) or not isinstance(stmt, (For, AllocBuffer))


def name_of(access: Access) -> str:
    """The name of the buffer of an access."""
    assert access.buffer is not None
    return access.buffer.name


def packs(facts: ContractionFacts) -> bool:
    """Whether B may be copied to panels: a matrix, or one for each of some iterations around the tiles. Where A is in the same
    buffer, it is read from the same panels: of all of it, and only where that is needed."""
    if len(facts.sums) != 1 or (facts.several > 1 and not _are_apart(facts)):
        return False
    if is_one_buffer(facts) and (facts.contiguous or facts.others or facts.rows is None):
        return False
    return all(_is_a_matrix(facts, one) for one in (facts.b, *facts.beside))


def _are_apart(facts: ContractionFacts) -> bool:
    """Whether each operand of several products has a buffer of its own."""
    read = [one.buffer for one in facts.update.accesses if not one.is_write]
    return all(read.count(one.buffer) == 1 for one in (facts.b, *facts.beside))


def _is_a_matrix(facts: ContractionFacts, operand: Access) -> bool:
    """Whether an operand is one in the tile, with the columns in one of its dimensions and the sum in another one."""
    places = [dimension_of(operand, loop) for loop in (facts.columns, facts.sums[0])]
    if len(along_tile(facts, operand)) != 2 or None in places or places[0] == places[1]:
        return False
    mine = {facts.columns.var, facts.sums[0].var}
    return all(at in places or not mine & set(form.terms) for at, form in enumerate(operand.indices or ()))


def is_cut(facts: ContractionFacts) -> bool:
    """Whether the columns are a piece of longer rows, along which another loop moves too: the program is in tiles already."""
    written = next(one for one in facts.update.accesses if one.is_write)
    return any(
        facts.columns.var in form.terms and any(loop.var in form.terms for loop in facts.others)
        for form in written.indices or ()
    )


def packs_a(facts: ContractionFacts) -> bool:
    """Whether A may be copied to panels: its rows and the steps of the sum are dimensions of it."""
    places = [dimension_of(facts.a, loop) for loop in (facts.rows, facts.sums[0]) if loop is not None]
    return len(places) == 2 and None not in places and places[0] != places[1]


def is_one_buffer(facts: ContractionFacts) -> bool:
    """Whether both operands are in one buffer, as of a matrix by itself transposed."""
    return facts.a.buffer is facts.b.buffer


def along_tile(facts: ContractionFacts, access: Access) -> dict[Loop, int | None]:
    """By how many elements an operand moves with the loops of the tile and of the sum."""
    return {loop: stride for loop, stride in strides_of(access).items() if loop not in facts.others}


def batches_of(facts: ContractionFacts) -> tuple[Loop, ...]:
    """The loops around the tiles for each of whose iterations there is a matrix B of its own."""
    moves = strides_of(facts.b)
    return tuple(loop for loop in facts.others if loop in moves)


def dimension_of(access: Access, loop: Loop) -> int | None:
    """Which subscript of an access is a loop, and nothing else; None where none is."""
    found = [at for at, form in enumerate(access.indices or ()) if loop.var in form.terms]
    if len(found) != 1 or set((access.indices or ())[found[0]].terms) != {loop.var}:
        return None
    return found[0]


def turns(access: Access, loop: Loop, width: int) -> int:
    """The side of the squares of a matrix that turn when it is packed in panels along a loop: 0 where its rows stay rows."""
    strides = strides_of(access)
    if strides.get(loop) in (None, 1):
        return 0
    if not any(stride == 1 for other, stride in strides.items() if other is not loop):
        return 0
    return next((side for side in SQUARES if width % side == 0), 0)


def depth_of(steps: int, wanted: int, group: int = 1) -> int:
    """How many steps of a sum are taken at a time: what divides them, whole groups, and is near to what is wanted; 0 where
    nothing is."""
    if steps <= 2 * wanted:
        return 0
    fits = [size for size in range(wanted // 2, 2 * wanted + 1) if steps % size == 0 and size % group == 0]
    return min(fits, key=lambda size: abs(size - wanted), default=0)


def repeats(facts: ContractionFacts) -> bool:
    """Whether elements of C may be computed twice: they begin anew each time, and no operand is C."""
    [result] = [one for one in facts.update.accesses if one.is_write]
    target = facts.nest.statements[-1].accesses[-1].data if facts.form == "local" else result.data
    starts = facts.form in ("plain", "local") or any(one.starts for one in facts.nest.statements)
    return starts and not any(
        not one.is_write and one.data is target and one.update is None for one in facts.nest.accesses()
    )


def far_rows(access: Access) -> bool:
    """Whether rows of a matrix begin in the same place of a page, so that they meet in few lines of the first cache."""
    buffer = access.buffer
    assert buffer is not None
    pitch = elements_of(buffer)[0]
    return len(buffer.shape) == 2 and pitch is not None and pitch * -(-buffer.dtype.bits // 8) % PAGE == 0


def bytes_of(access: Access) -> int:
    """The bytes of an operand's buffer; 0 where they are no number."""
    buffer = access.buffer
    assert buffer is not None
    first, extent = elements_of(buffer)[0], getattr(buffer.shape[0], "value", None)
    return 0 if first is None or extent is None else first * extent * -(-buffer.dtype.bits // 8)
