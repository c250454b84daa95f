"""Row chains (softmax, norms, sums of rows, a matrix times a vector): all stages of a row before the next row.

The nests are run in step along the rows that they have in common, and what they hand on shrinks to a row. Reductions are
done in lanes where their order is free; where a sum is to be kept in order, some rows are summed up side by side instead
(all stages of a chain do these rows then, before the next ones).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Final, TypeAlias, cast

from tirlower.autoschedule.classify import Nest, extent_of, strides_of
from tirlower.autoschedule.model import LATENCY, PARALLEL_SECONDS, cycles_of, is_triangle, seconds_of, trips
from tirlower.autoschedule.permission import NO_PERMISSION, any_order
from tirlower.autoschedule.recipe import Facts, Handles, Plan, Recipe, Refusal, nearby
from tirlower.autoschedule.recipes.contraction import CONTRACTION
from tirlower.autoschedule.recipes.rows_in_lanes import (
    CYCLES,
    ROWS,
    RowsInLanes,
    in_lanes_here,
    rows_in_lanes,
    side_by_side,
)
from tirlower.autoschedule.recipes.rows_in_step import Chain, row_of
from tirlower.autoschedule.recipes.unknown_contraction import UNKNOWN_CONTRACTION
from tirlower.autoschedule.traffic import bytes_of, streamed
from tirlower.autoschedule.verbs import Verbs
from tirlower.autoschedule.versions import in_parallel, said, where_wide
from tirlower.ir.annotations import NONTEMPORAL
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import is_const_int
from tirlower.ir.query import each
from tirlower.ir.stmt import AllocBuffer, Bind, For, Seq
from tirlower.machine.processor import Processor
from tirlower.poly import Access, Loop, Statement
from tirlower.schedule.handles import LoopRV

__all__ = ["ROW_CHAIN", "RowChain", "RowChainPlan"]

VECTORS: Final = 4
"""Vectors of a statement that is no reduction; one of a reduction, of which four are added up side by side."""

TOGETHER: Final = 8
"""Rows that are summed up side by side where each sum is kept in order: as many as hide the time of an addition."""

SHARING: Final = 4
"""Rows whose sums share what all rows read, as a matrix times a vector does: 3.3 ms where one row at a time takes 4.6."""

ENDING: Final = 12
"""Cycles until the lanes of a sum are one number, at the end of a row."""

PASSES: Final = 0.8
"""What is left of the time of stages whose rows stay in the first cache between them."""


@dataclass(frozen=True, eq=False)
class _Inner:
    """An innermost loop of a stage, with its statements: in vectors, and with partial results where it sums up something."""

    loop: Loop
    statements: tuple[Statement, ...]
    sums: bool
    part: int | None = None
    """Which statement of the loop's body it is, where others are sums that are kept in order: each has a loop of its own then."""


@dataclass(frozen=True, eq=False)
class _Facts(Facts):
    """``depth`` loops of each nest are those over rows; ``own`` are the buffers that only the chain sees; ``kept`` are the
    sums that stay in order, ``inner`` the loops that may be vectors."""

    depth: int
    own: tuple[Buffer, ...]
    kept: tuple[Statement, ...]
    inner: tuple[_Inner, ...]

    @cached_property
    def summing(self) -> list[Nest]:
        """The nests with sums that stay in order."""
        kept = {id(one) for one in self.kept}
        return [nest for nest in self.nests if any(id(one) in kept for one in nest.statements)]

    @cached_property
    def in_lanes(self) -> dict[int, RowsInLanes]:
        """How each of them may be summed up with a row in each lane, by its identity; none of them where one may not."""
        kept = {id(one) for one in self.kept}
        found = {
            id(nest): rows_in_lanes(nest, self.depth, [one for one in nest.statements if id(one) in kept])
            for nest in self.summing
        }
        known = {key: one for key, one in found.items() if one is not None}
        return known if len(known) == len(found) else {}

    def rows(self, nest: Nest) -> tuple[Loop, ...]:
        """The loops of a nest over rows."""
        return nest.loops[: self.depth]


@dataclass(frozen=True)
class RowChainPlan(Plan):
    """Elements of a vector statement and of a partial result; rows side by side; what is fetched ahead; outputs past the caches."""

    lanes: int
    partial: int
    together: int = 1
    prefetch: str | None = None
    nontemporal: bool = False
    parallel: bool = False
    in_lanes: bool = False
    """Whether the rows that are summed up in order are lanes."""


@dataclass(frozen=True)
class RowChain(Recipe[_Facts, RowChainPlan]):
    """Stages along rows, with a reduction among them."""

    name: ClassVar[str] = "row chain"
    reorders: ClassVar[bool] = True

    def matches(self, nests: Sequence[Nest]) -> _Facts | Refusal:
        """The first nest, and those behind it that go along the same rows and share a buffer with the chain."""
        if not nests[0].row_loops:
            return Refusal("its outer loops go along no rows of what it writes")
        if nests[0].once(_is_of_columns):
            return Refusal("memory is contiguous across its rows, not along them")
        chain = Chain()
        if any(nest.sum_depth for nest in nests):
            for nest in nests:
                ends = nest is not nests[0] and (nest.once(_is_product) or nest.once(_is_of_columns))
                if ends or not chain.take(nest):
                    break
        depth = chain.until_its_last_sum()
        if not depth:
            return Refusal("nothing is summed up along rows")
        nests = chain.nests
        statements = [one for nest in nests for one in nest.statements]
        kept = [one for nest in nests for one in nest.statements if not any_order(nest, one) and _sums(one, depth)]
        inner = [found for nest in nests for found in _inner(nest, depth)]
        scop = nests[0].scop
        reads = {id(access) for one in statements for access in one.accesses}
        own = [
            stmt.buffer
            for stmt in each(AllocBuffer, nests[0].func.body)
            if scop.homes.get(stmt.buffer.data) == ()
            and all(id(access) in reads for access in scop.accesses if access.data is stmt.buffer.data)
        ]
        return _Facts(tuple(nests), depth, tuple(own), tuple(kept), tuple(inner))

    def plan(self, facts: _Facts, processor: Processor) -> RowChainPlan | Refusal:
        """Vectors by the widest element, rows together where sums are kept in order, threads where there is enough to do."""
        widths = [
            -(-access.buffer.dtype.bits // 8) for nest in facts.nests for access in nest.accesses() if access.buffer
        ]
        width = processor.lanes(f"uint{8 * max(widths)}")
        vectors = {id(one) for inner in facts.inner for one in inner.statements}
        kept = {id(one) for one in facts.kept}
        rows = extent_of(facts.rows(facts.nests[0])[-1])
        together = 1
        if facts.kept and len(facts.nests) > 1:
            together = _grouped(facts, rows, processor)
        elif facts.kept and _lanes_fit(facts, processor) and (rows is None or rows >= ROWS):
            together = ROWS
        elif facts.kept and (rows is None or rows >= TOGETHER) and _jams(facts.nests):
            together = TOGETHER
        elif rows is not None and rows >= SHARING and _shared(facts, width):
            together = SHARING
        in_lanes = together == ROWS and bool(facts.in_lanes)
        each_sum = CYCLES if in_lanes else LATENCY / together
        cycles = waiting = 0.0
        for nest in facts.nests:
            for one in nest.statements:
                count = 1.0
                for loop in one.loops:
                    count *= trips(loop)
                if id(one) in kept:
                    waiting += count * each_sum
                elif id(one) in vectors:
                    cycles += count * len(one.accesses) / width
                    if _sums_along(one, one.loops[-1]):
                        cycles += count / max(1, trips(one.loops[-1])) * ENDING
                else:
                    cycles += cycles_of(one, one.loops, processor)
        several = len(facts.nests) > 1
        seconds = seconds_of(waiting + cycles * (PASSES if several else 1.0))
        rule = [f"{facts.depth} loops over rows", f"vectors of {width}"]
        if several:
            rule.append(f"{len(facts.nests)} stages a row")
        if together == SHARING and not facts.kept:
            rule.append(f"{together} rows share what they read")
        if facts.kept:
            side = "a row in each lane" if in_lanes else f"{together} rows side by side"
            rule.append(NO_PERMISSION + (f"; {side}" if together > 1 else ""))
        past = streamed(facts.nests, processor) > 0
        grouped = together > 1 and len(facts.nests) > 1
        least = together if grouped else 1
        parallel = processor.threads > 1 and seconds >= PARALLEL_SECONDS and (rows is None or rows > least)
        if parallel:
            seconds /= processor.threads
            rule += [found for found in [said(facts.nests, seconds)] if found]
        elif processor.threads > 1:
            rule.append(f"not parallel: {seconds * 1e6:.2g} µs of work")
        ahead = None if grouped else _fetched(facts, processor)
        fetched = ahead.name if ahead else None
        return RowChainPlan(
            seconds, "; ".join(rule), VECTORS * width, width, together, fetched, past, parallel, in_lanes
        )

    def neighbours(self, facts: _Facts, plan: RowChainPlan) -> list[RowChainPlan]:
        """Other vectors, other rows side by side; of rows in lanes, which are as many as there are lanes, rows side by side."""
        if not plan.in_lanes:
            return nearby(plan, ("in_lanes",))
        return [*nearby(plan, ("in_lanes", "together")), replace(plan, in_lanes=False, together=TOGETHER)]

    def apply(self, sch: Verbs, facts: _Facts, plan: RowChainPlan, loops: Handles) -> None:
        """One loop over rows, memory of its own for each row, vectors, threads."""
        several = plan.together > 1 and len(facts.nests) > 1
        count = extent_of(facts.rows(facts.nests[0])[-1])
        grouped = several and count is not None and count % plan.together == 0
        rows: list[LoopRV] = []
        inside: list[LoopRV] = []
        for nest in facts.nests:
            mine = [loops[loop] for loop in facts.rows(nest)]
            if grouped:
                mine[-1], group = sch.split(mine[-1], [None, plan.together])
                inside.append(group)
            rows = [sch.fuse_siblings(row, other) for row, other in zip(rows, mine, strict=True)] if rows else mine
        for buffer in facts.own if grouped or not several else ():
            sch.privatize(buffer.name, rows[-1])
        ahead: LoopRV | None = None
        parts: dict[Loop, list[LoopRV]] = {}
        for inner in facts.inner:
            lanes = plan.partial if inner.sums else plan.lanes
            extent = extent_of(inner.loop)
            if extent is not None and extent < lanes:
                lanes = plan.partial
            if extent is not None and extent < lanes:
                continue
            loop = loops[inner.loop]
            if inner.part is not None:
                if inner.loop not in parts:
                    parts[inner.loop] = sch.fission(loop)
                loop = parts[inner.loop][inner.part]
            where_wide(sch, loop, inner.loop, 2 * lanes if inner.sums else lanes)
            made = sch.vectorize(loop, lanes, tail="scalar", reduction=inner.sums)
            assert made is not None
            if any(_is(access, plan.prefetch) for one in inner.statements for access in one.accesses):
                ahead = made[0]
        if plan.prefetch is not None and ahead is not None:
            sch.prefetch(plan.prefetch, ahead, rows[-1])
        sums: dict[int, LoopRV] = {}
        kept = {id(one) for one in facts.kept}
        for nest in facts.summing:
            along = next(one.loops[-1] for one in nest.statements if id(one) in kept)
            sums[id(nest)] = loops[along]
            part = facts.in_lanes[id(nest)].part if plan.in_lanes else None
            if part is not None:
                if along not in parts:
                    parts[along] = sch.fission(loops[along])
                sums[id(nest)] = parts[along][part]
        if grouped:
            for nest, group in zip(facts.nests, inside, strict=True):
                if id(nest) in sums:
                    _summed_up(sch, group, facts, nest, plan, sums)
        elif several:
            rows[-1] = _side_by_side(sch, rows[-1], facts, plan, sums)
        elif plan.in_lanes:
            rows[-1] = facts.in_lanes[id(facts.nests[0])].apply(sch, rows[-1], sums[id(facts.nests[0])])
        elif plan.together > 1:
            rows[-1] = sch.unroll_jam(rows[-1], plan.together)
        if plan.parallel:
            in_parallel(sch, rows[0], facts.nests, plan.seconds)
        if plan.nontemporal:
            sch.annotate(rows[0], NONTEMPORAL, True)


Sums: TypeAlias = Mapping[int, LoopRV]
"""The loop that sums up in order, of each nest that does, by the identity of the nest."""


def _summed_up(sch: Verbs, group: LoopRV, facts: _Facts, nest: Nest, plan: RowChainPlan, sums: Sums) -> None:
    """Let the rows of a group be summed up at once."""
    if plan.in_lanes:
        facts.in_lanes[id(nest)].sum_up(sch, group, sums[id(nest)])
    else:
        sch.unroll_jam(group, plan.together)


def _side_by_side(sch: Verbs, rows: LoopRV, facts: _Facts, plan: RowChainPlan, sums: Sums) -> LoopRV:
    """Let some rows go through each stage together, and be summed up side by side; what is left of them too."""
    count = extent_of(facts.rows(facts.nests[0])[-1])
    rows, rest = sch.peel(rows, beyond=plan.together)
    side_by_side(sch, rest, plan.together // 2 if count is None else count % plan.together)
    rows, group = sch.split(rows, [None, plan.together])
    stages = [(stage, {id(one) for one in each(For, cast("For", sch.get(stage)))}) for stage in sch.fission(group)]
    summing = [
        (stage, nest) for stage, inside in stages for nest in facts.summing if id(sch.get(sums[id(nest)])) in inside
    ]
    for stage, nest in summing:
        _summed_up(sch, stage, facts, nest, plan, sums)
    return rows


ROW_CHAIN: Final = RowChain()


def _is_product(nest: Nest) -> bool:
    """Whether a nest is a product of matrices, whose rows share what they read: it has a tile of its own."""
    found = [recipe.matches((nest,)) for recipe in (CONTRACTION, UNKNOWN_CONTRACTION)]
    return any(not isinstance(one, Refusal) and one.rows is not None for one in found)


def _is_of_columns(nest: Nest) -> bool:
    """Whether what a nest reads in the loops inside of its rows is contiguous along the last one of these alone, if it moves at all
    inside."""
    rows, found = nest.loops[: nest.row_loops], False
    if not rows:
        return False
    for one in nest.statements:
        for access in one.accesses if len(one.loops) > len(rows) else ():
            strides = strides_of(access)
            along = [strides.get(loop, 0) for loop in one.loops[len(rows) :]]
            if 1 in along and strides.get(rows[-1]):
                return False
            found = found or strides.get(rows[-1]) == 1
    return found


def _sums(statement: Statement, depth: int) -> bool:
    """Whether a statement updates one element in iterations of a loop inside of the rows."""
    if statement.reduction is None or statement.starts:
        return False
    written = [strides_of(access) for access in statement.accesses if access.is_write]
    return any(loop not in strides for loop in statement.loops[depth:] for strides in written)


def _inner(nest: Nest, depth: int) -> Iterator[_Inner]:
    """The innermost loops inside of the rows that may be vectors."""
    outer = {loop for other in nest.loops for loop in other.outer}
    for loop in nest.loops[depth:]:
        if loop in outer or not isinstance(loop.node, For) or loop.start.terms:
            continue
        statements = tuple(one for one in nest.statements if one.loops and one.loops[-1] is loop)
        sums = any(_sums_along(one, loop) for one in statements)
        if statements and all(_in_lanes(nest, one, loop) for one in statements):
            yield _Inner(loop, statements, sums)
        elif isinstance(loop.node.body, Seq) and [one.node for one in statements] == list(loop.node.body.stmts):
            if any(isinstance(one.node, Bind) for one in statements):
                continue  # what has a name cannot part from where it is used
            for at, one in enumerate(statements):
                if _in_lanes(nest, one, loop):
                    yield _Inner(loop, (one,), _sums_along(one, loop), at)


def _sums_along(statement: Statement, loop: Loop) -> bool:
    return statement.reduction is not None and any(
        access.is_write and not strides_of(access).get(loop, 0) for access in statement.accesses
    )


def _in_lanes(nest: Nest, statement: Statement, loop: Loop) -> bool:
    """Whether the accesses of a statement are contiguous along a loop, and what it sums up may be summed in any order."""
    for access in statement.accesses:
        stride = strides_of(access).get(loop, 0)
        if access.guards and not statement.starts:
            return False
        if stride not in (0, 1) or (stride == 0 and access.is_write and not _sums_along(statement, loop)):
            return False
    return not _sums_along(statement, loop) or any_order(nest, statement)


def _jams(nests: Sequence[Nest]) -> bool:
    """Whether rows of nests can be done side by side: nothing is allocated in them, and their loops run as often in each."""
    allocate = any(isinstance(stmt, AllocBuffer) for nest in nests for stmt in each(AllocBuffer, nest.root))
    return not allocate and not any(is_triangle(nest) for nest in nests)


def _shared(facts: _Facts, width: int) -> bool:
    """Whether a sum in vectors reads what is the same for all rows: of one nest, in which nothing is allocated."""
    if len(facts.nests) > 1 or facts.kept or not _jams(facts.nests) or len(facts.inner) != 1:
        return False
    [inner] = facts.inner
    row = facts.rows(facts.nests[0])[-1]
    if not inner.sums or inner.part is not None or (extent_of(inner.loop) or 0) < width:
        return False
    reads = [strides_of(access) for one in inner.statements for access in one.accesses if not access.is_write]
    return any(strides.get(inner.loop) == 1 and row not in strides for strides in reads)


def _grouped(facts: _Facts, rows: int | None, processor: Processor) -> int:
    """How many rows of a chain go through each stage before the next one, so that the stages that sum up in order can do them
    side by side: as many as divide the rows, and leave what the stages hand on in the second cache; of rows that none divides,
    where they hand on an element of each. 1 where that is not to be.
    """
    kept = {id(one) for one in facts.kept}
    if not _jams(facts.summing):
        return 1
    others = [one for nest in facts.summing for one in nest.statements if id(one) not in kept and not one.starts]
    shared = any(_loops_of(one, facts) and not isinstance(one.node, Bind) for one in others)
    count = 1
    for loop in facts.rows(facts.nests[0]):
        count *= extent_of(loop) or 0
    row = sum(bytes_of(buffer) or processor.l2 * count for buffer in facts.own) // max(1, count)
    lanes: list[int] = [ROWS] if _lanes_fit(facts, processor) else []
    small = all(is_const_int(extent, 1) for buffer in facts.own for extent in buffer.shape[facts.depth :])
    if not shared:
        lanes += [TOGETHER, TOGETHER // 2]
    for many in lanes:
        if rows is not None and rows % many == 0 and many * row <= processor.l2 // 2:
            return many
        if many == ROWS and small and (rows is None or rows >= 2 * many):
            return many
    return TOGETHER if small and not shared and (rows is None or rows >= 2 * TOGETHER) else 1


def _lanes_fit(facts: _Facts, processor: Processor) -> bool:
    """Whether rows may be summed up in lanes, and stay in the second cache until then where something else is done first."""
    return (
        in_lanes_here(processor)
        and bool(facts.in_lanes)
        and all(one.alone or ROWS * 4 * trips(one.along) <= processor.l2 // 2 for one in facts.in_lanes.values())
    )


def _loops_of(statement: Statement, facts: _Facts) -> bool:
    """Whether a statement stands in a loop inside of the rows."""
    return len(statement.loops) > facts.depth


def _fetched(facts: _Facts, processor: Processor) -> Buffer | None:
    """What is asked for a row ahead: what comes from memory, and is read by several stages, of which the last one asks."""
    readers: dict[Buffer, set[Loop]] = {}
    for inner in facts.inner:
        for one in inner.statements:
            for access in one.accesses:
                if not access.is_write and access.buffer is not None and access.buffer in one_of(facts):
                    if (
                        len(row_of(access, one.loops[: facts.depth])) == facts.depth
                        and strides_of(access).get(inner.loop) == 1
                    ):
                        readers.setdefault(access.buffer, set()).add(inner.loop)
    for buffer, found in readers.items():
        size = bytes_of(buffer)
        if len(found) > 1 and size is not None and size > processor.l2:
            return buffer
    return None


def one_of(facts: _Facts) -> set[Buffer]:
    """The arrays of the caller."""
    return set(facts.nests[0].func.buffers)


def _is(access: Access, name: str | None) -> bool:
    return name is not None and not access.is_write and access.buffer is not None and access.buffer.name == name
