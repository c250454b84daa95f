"""Elementwise nests, chains of them, and stencils: each element of the output from elements of the inputs, in vectors.

What a nest computes for the next one alone takes the place of its loads; loops over one run of memory become one; rows of
a stencil are done some at a time, so that what they share is loaded once. The order of what is added up stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from tirlower.autoschedule.classify import Nest, extent_of, perfect_loops, strides_of
from tirlower.autoschedule.model import PARALLEL_SECONDS, cycles_of, seconds_of
from tirlower.autoschedule.recipe import Facts, Handles, Plan, Recipe, Refusal
from tirlower.autoschedule.traffic import streamed
from tirlower.autoschedule.verbs import Verbs
from tirlower.autoschedule.versions import in_parallel, said
from tirlower.ir import Var
from tirlower.ir.annotations import NONTEMPORAL
from tirlower.ir.expr import BufferLoad, Call, Div, Expr
from tirlower.ir.query import each, nodes
from tirlower.ir.stmt import AllocBuffer, BufferStore, For
from tirlower.machine.processor import Processor
from tirlower.poly import Access, Loop, Statement, is_parallel
from tirlower.schedule.handles import BlockRV, LoopRV

__all__ = ["ELEMENTWISE", "Elementwise", "ElementwisePlan", "computing", "into_readers"]

VECTORS: Final = 4
"""Vectors a statement: their chains of operations go side by side, and whole lines are written in a run."""

FEW: Final = 8
"""The vectors in a row below which a rest, element by element, costs what they gain."""

STENCIL_ROWS: Final = 4
"""Rows of a stencil at a time: 4 of one vector load 6 rows where 12 would be; more run out of registers."""

SAVED_LOADS: Final = 3
"""Loads that rows done together save an element each, from which on they are. One row after another streams better from the
second cache; these are bound by their loads."""

CHEAP: Final = 6
"""Operations that may as well be done again where they are read once more."""

MEMORY_BOUND: Final = 10
"""Operations of an element that the processor does while it waits for memory; with more, stores are no hindrance."""

PAST_THE_CACHES: Final = 0.7
"""What is left of the time of a nest whose output goes past the caches: lines that are overwritten are not read first."""

SHARED_ROWS: Final = 0.6
"""What is left of the time of a stencil whose rows are done together."""


@dataclass(frozen=True, eq=False)
class _Stage:
    """A nest of the chain: its loops in the order that they are to have, and how many of the innermost are one run of memory."""

    nest: Nest
    loops: tuple[Loop, ...]
    flat: int
    rows: bool = False

    @property
    def moved(self) -> bool:
        """Whether the loops stand in another order now."""
        return self.loops != perfect_loops(self.nest)

    @property
    def run(self) -> int | None:
        """How many elements stand in a row, where that is a number."""
        total = 1
        for loop in self.loops[len(self.loops) - self.flat :]:
            extent = extent_of(loop)
            if extent is None:
                return None
            total *= extent
        return total


@dataclass(frozen=True, eq=False)
class _Facts(Facts):
    """The nests that are put into those that read them, and the ones that stay."""

    inlined: tuple[Nest, ...]
    stages: tuple[_Stage, ...]


@dataclass(frozen=True)
class ElementwisePlan(Plan):
    """Elements a statement, rows of a stencil at a time, whether outputs go past the caches, and loops in parallel."""

    lanes: int
    inlined: int = 0
    rows: int = 1
    nontemporal: bool = False
    parallel: bool = False
    masked: bool = False
    """Whether what is left of the columns of several rows is a vector too."""


@dataclass(frozen=True)
class Elementwise(Recipe[_Facts, ElementwisePlan]):
    """Chains of elementwise nests, and stencils."""

    name: ClassVar[str] = "elementwise"

    def matches(self, nests: Sequence[Nest]) -> _Facts | Refusal:
        """The first nest, and those behind it that read what the chain computes for itself."""
        taken: list[_Stage] = []
        own: set[object] = set()
        for nest in nests:
            stage = nest.once(_stage)
            if isinstance(stage, Refusal):
                if not taken:
                    return stage
                break
            if taken and not any(access.data in own for access in nest.accesses() if not access.is_write):
                break
            taken.append(stage)
            own |= {access.data for access in nest.accesses() if access.is_write}
        inlined = [one for at, one in enumerate(taken) if into_readers(one.nest, [x.nest for x in taken[at + 1 :]])]
        loads: dict[Var, int] = {}
        for one in inlined:
            loads[_written(one.nest).data] = _loads(one.nest, None, 1, loads)
        flat = min((one.flat for one in inlined), default=max(one.flat for one in taken))
        return _Facts(
            tuple(one.nest for one in taken),
            tuple(one.nest for one in inlined),
            tuple(_settled(one, flat, loads) for one in taken if one not in inlined),
        )

    def plan(self, facts: _Facts, processor: Processor) -> ElementwisePlan | Refusal:
        """Vectors by the widest element; threads and stores past the caches where there is enough to do."""
        stages = facts.stages
        widths = [
            -(-access.buffer.dtype.bits // 8) for one in stages for access in one.nest.accesses() if access.buffer
        ]
        lanes = VECTORS * processor.lanes(f"uint{8 * max(widths)}")
        rows = STENCIL_ROWS if any(one.rows for one in stages) else 1
        masked = rows > 1 and all(processor.masks(f"uint{8 * width}") for width in widths)
        if rows > 1:
            lanes //= VECTORS
        short = [one for one in stages if (run := one.run) is not None and run < 2 * lanes]
        if short:
            return Refusal(f"rows of {short[0].run} elements are less than two vectors of {lanes}")
        rests = [run % lanes for one in stages if (run := one.run) is not None and run < FEW * lanes]
        if any(rests):
            return Refusal(
                f"what is left of rows, {max(rests)} elements, takes as long as their few vectors of {lanes}"
            )
        seconds = sum(
            seconds_of(sum(cycles_of(statement, one.loops, processor) for statement in one.nest.statements))
            for one in stages
        )
        rule = [f"{VECTORS if rows == 1 else 1} vectors a statement"]
        if facts.inlined:
            rule.append(f"{', '.join(map(_written_name, facts.inlined))} computed where it is read")
        if rows > 1:
            seconds *= SHARED_ROWS
            rule.append(f"{rows} rows share what they load")
        work = max(sum(map(_operations, one.nest.statements)) for one in stages)
        past = work <= MEMORY_BOUND and streamed([one.nest for one in stages], processor) > 0
        if past:
            seconds *= PAST_THE_CACHES
            rule.append("outputs of more than half the last cache go past it")
        parallel = False
        if processor.threads > 1:
            parallel = seconds >= PARALLEL_SECONDS and all(_parallel(one) for one in stages)
            if parallel:
                seconds /= processor.threads
                rule += [found for found in [said(facts.nests, seconds)] if found]
            elif seconds < PARALLEL_SECONDS:
                rule.append(f"not parallel: {seconds * 1e6:.2g} µs of work")
            else:
                rule.append("not parallel: it is not proved to be")
        return ElementwisePlan(seconds, "; ".join(rule), lanes, len(facts.inlined), rows, past, parallel, masked)

    def apply(self, sch: Verbs, facts: _Facts, plan: ElementwisePlan, loops: Handles) -> None:
        """Inline; then of each nest that is left: order, one loop over a run, vectors, rows, threads."""
        for nest in facts.inlined:
            sch.compute_inline(computing(sch, nest, loops))
        for one in facts.stages:
            handles = [loops[loop] for loop in one.loops]
            if one.moved:
                sch.reorder(*handles)
            count = len(handles) - one.flat
            run = handles[count] if one.flat == 1 else sch.fuse(*handles[count:])
            jammed = plan.rows > 1 and one.rows
            vectors = sch.vectorize(run, plan.lanes, tail="mask" if jammed and plan.masked else "scalar")
            assert vectors is not None
            outer = handles[0] if count else vectors[0]
            if jammed:
                outer = sch.unroll_jam(outer, plan.rows)
            if plan.parallel:
                in_parallel(sch, outer, facts.nests, plan.seconds)
            if plan.nontemporal:
                sch.annotate(outer, NONTEMPORAL, True)


ELEMENTWISE: Final = Elementwise()


def _stage(nest: Nest) -> _Stage | Refusal:
    """A nest with its loops in order, or why it is none that computes elements one by one."""
    perfect = perfect_loops(nest)
    if len(perfect) < len(nest.loops) or not nest.statements:
        return Refusal("its loops do not stand directly in each other")
    if any(isinstance(stmt, AllocBuffer) for stmt in each(AllocBuffer, nest.root)):
        return Refusal("it has memory of its own")
    if any(not isinstance(loop.node, For) or loop.start.terms or loop.extent is None for loop in perfect):
        return Refusal("its loops start at what varies")
    for access in nest.accesses():
        strides = strides_of(access)
        if access.indices is None or access.guards or None in strides.values():
            return Refusal(f"{access.text} is not at one stride, or not always")
        if access.is_write and any(loop not in strides for loop in perfect):
            return Refusal(f"{access.text} is written more than once")
    lane = next((loop for loop in reversed(perfect) if _contiguous(nest, loop)), None)
    if lane is None:
        return Refusal("memory is contiguous along no loop")
    order = (*(loop for loop in perfect if loop is not lane), lane)
    return _Stage(nest, order, _run_of(nest, order))


def _settled(stage: _Stage, flat: int, loads: Mapping[Var, int]) -> _Stage:
    """A stage that stays: whether rows are done together, and its run of memory, within that of what is put into it."""
    if len(stage.loops) > 1:
        row = stage.loops[-2]
        saved = _loads(stage.nest, row, 1, loads) - _loads(stage.nest, row, STENCIL_ROWS, loads) / STENCIL_ROWS
        if saved >= SAVED_LOADS:
            return replace(stage, flat=1, rows=True)
    # What is inlined need not lie in one run where its reader does.
    return stage if stage.flat <= flat else replace(stage, flat=flat)


def _contiguous(nest: Nest, loop: Loop) -> bool:
    strides = [(access.is_write, strides_of(access).get(loop, 0)) for access in nest.accesses()]
    return all(stride == 1 or (stride == 0 and not write) for write, stride in strides)


def _run_of(nest: Nest, order: Sequence[Loop]) -> int:
    """How many of the innermost loops run over one piece of memory in each access."""
    count = 1
    while count < len(order):
        outer, inner = order[-count - 1], order[-count]
        extent = extent_of(inner)
        for access in nest.accesses():
            strides = strides_of(access)
            along = strides.get(inner, 0)
            if extent is None or along is None or strides.get(outer, 0) != along * extent:
                return count
        count += 1
    return count


def _loads(nest: Nest, row: Loop | None, rows: int, inlined: Mapping[Var, int]) -> int:
    """The loads of some iterations of a loop together, each place once; what is computed in place takes ``inlined`` loads."""
    places: dict[object, Var] = {}
    for access in nest.accesses():
        if not access.is_write and access.indices is not None:
            for at in range(rows):
                moved = [
                    form if row is None else form.shifted(form.terms.get(row.var, 0) * at) for form in access.indices
                ]
                places[access.data, tuple(form.key for form in moved)] = access.data
    return sum(inlined.get(data, 1) for data in places.values())


def into_readers(nest: Nest, later: Sequence[Nest]) -> bool:
    """Whether what a nest computes is better computed where it is read: by one statement of the chain, or by some cheaply."""
    stores = [access for access in nest.accesses() if access.is_write]
    if len(stores) != 1 or len(nest.statements) != 1 or nest.scop.homes.get(stores[0].data) != ():
        return False
    data = stores[0].data
    uses = [access for access in nest.scop.accesses if access.data is data and access is not stores[0]]
    inside = {id(access) for one in later for access in one.accesses()}
    if not uses or any(access.is_write or id(access) not in inside for access in uses):
        return False
    return len(uses) == 1 or _operations(stores[0].statement) <= CHEAP


def _operations(statement: Statement) -> int:
    """The operations of a statement, counted as additions."""
    node = statement.node
    if not isinstance(node, BufferStore):
        return CHEAP + 1
    return sum(_weight(op) for op in nodes(node.value))


def _weight(op: Expr) -> int:
    if isinstance(op, (Call, Div)):
        return 2 * CHEAP
    return 0 if op.is_leaf or isinstance(op, BufferLoad) or not op.dtype.is_float else 1


def _parallel(stage: _Stage) -> bool:
    """Whether the loop that is to be the outermost one may run in parallel."""
    loop = stage.loops[0]
    extent = extent_of(loop)
    return (extent is None or extent > 1) and is_parallel(stage.nest.scop, loop).proved


def computing(sch: Verbs, nest: Nest, loops: Handles) -> LoopRV | BlockRV:
    """What computes: the block of a nest, or its outermost loop where there is none."""
    block = nest.block_of(nest.statements[0])
    return loops[nest.loops[0]] if block is None else sch.get_block(block.name)


def _written_name(nest: Nest) -> str:
    return getattr(_written(nest).buffer, "name", "")


def _written(nest: Nest) -> Access:
    return next(access for access in nest.accesses() if access.is_write)
