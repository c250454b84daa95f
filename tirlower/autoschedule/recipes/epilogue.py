"""Contractions with what is done to each sum: bias, activation, residual, conversion. It is done on the tile, in registers.

What is done stands behind the sum in its loops over elements, or in nests of its own along these, which are run in step with
it. The sum becomes an accumulator of its own for each element, which is copied out where somebody else reads it too. Then the nest is
a contraction with a local accumulator, whose last statements are whatever was done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Final

from tirlower.autoschedule.classify import Nest, perfect_loops, strides_of
from tirlower.autoschedule.recipe import Handles, Recipe, Refusal
from tirlower.autoschedule.recipes.contraction import CONTRACTION, Contraction
from tirlower.autoschedule.recipes.contraction_facts import ContractionFacts, ContractionPlan
from tirlower.autoschedule.recipes.elementwise import computing, into_readers
from tirlower.autoschedule.recipes.unknown_contraction import UNKNOWN_CONTRACTION
from tirlower.autoschedule.verbs import Verbs
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import Var
from tirlower.ir.query import each
from tirlower.ir.stmt import AllocBuffer, For
from tirlower.machine.processor import Processor
from tirlower.poly import Access, Loop, Statement
from tirlower.schedule.handles import LoopRV

__all__ = ["EPILOGUE", "UNKNOWN_EPILOGUE", "Epilogue", "EpilogueFacts"]


@dataclass(frozen=True, eq=False)
class EpilogueFacts(ContractionFacts):
    """``before`` is the form of the sum as it is written, ``inlined`` are the nests that are computed where they are read,
    ``last`` the one that stays (if what is done is not in the sum's own nest), ``pairs`` the loops over elements of both,
    outermost first; ``own`` says that nobody else reads the sum."""

    before: str
    inlined: tuple[Nest, ...]
    last: Nest | None
    pairs: tuple[tuple[Loop, Loop | None], ...]
    own: bool


@dataclass(frozen=True)
class Epilogue(Recipe[EpilogueFacts, ContractionPlan]):
    """A contraction and the nests behind it."""

    name: ClassVar[str] = "contraction with epilogue"
    base: Contraction = CONTRACTION

    def matches(self, nests: Sequence[Nest]) -> EpilogueFacts | Refusal:
        """The sum, and behind it what is done to its elements."""
        nest, behind = _without_what_follows(nests[0])
        facts = self.base.matches((nest, *nests[1:]))
        if isinstance(facts, Refusal):
            return facts
        if facts.form not in ("block", "plain"):
            return Refusal(f"its sum is written in another form: {facts.form}")
        [written] = [access for access in facts.update.accesses if access.is_write]
        chain, scop = list[Nest](), nest.scop
        reached = {written.data}
        for other in nests[1:]:
            touched = any(access.data in reached for access in other.accesses())
            if behind or not touched or _elementwise(other) is not None:
                break
            chain.append(other)
            reached |= {access.data for access in other.accesses() if access.is_write}
        if not chain and not behind:
            return Refusal("nothing is done to the elements of its sum")
        mine = {id(access) for one in (nests[0], *chain) for access in one.accesses()}
        own = scop.homes.get(written.data) == () and all(
            id(access) in mine for access in scop.accesses if access.data is written.data
        )
        inlined = tuple(one for at, one in enumerate(chain) if into_readers(one, chain[at + 1 :]))
        stay = [one for one in chain if one not in inlined]
        if len(stay) > 1:  # the first takes part
            chain = chain[: chain.index(stay[0]) + 1]
            inlined = tuple(one for one in inlined if one in chain)
        last = stay[0] if stay else None
        pairs = _pairs(facts, written, nest, chain, last)
        if isinstance(pairs, Refusal):
            return pairs
        if any(strides_of(access).get(facts.columns, 0) not in (0, 1) for one in behind for access in one.accesses):
            return Refusal("what is done to its sum is not contiguous along its columns")
        told = {field.name: getattr(facts, field.name) for field in fields(ContractionFacts)}
        told |= {"nests": (nests[0], *chain), "form": "local", "target": _buffer(written).name}
        own = own and len(stay) <= 1
        return EpilogueFacts(**told, before=facts.form, inlined=inlined, last=last, pairs=pairs, own=own)

    def plan(self, facts: EpilogueFacts, processor: Processor) -> ContractionPlan | Refusal:
        """That of the contraction."""
        found = self.base.plan(facts, processor)
        if isinstance(found, Refusal):
            return found
        last = facts.nest if facts.last is None else facts.last
        done = [_buffer(one).name for one in last.accesses() if one.is_write and one.data not in last.local]
        return replace(found, rule=f"{found.rule}; {', '.join(dict.fromkeys(done))} computed on the tile")

    def rounding(self, facts: EpilogueFacts, plan: ContractionPlan) -> str:
        """That of the contraction."""
        return self.base.rounding(facts, plan)

    def neighbours(self, facts: EpilogueFacts, plan: ContractionPlan) -> list[ContractionPlan]:
        """Those of the contraction."""
        return self.base.neighbours(facts, plan)

    def apply(self, sch: Verbs, facts: EpilogueFacts, plan: ContractionPlan, loops: Handles) -> None:
        """One nest with an accumulator, then the steps of the contraction."""
        for nest in facts.inlined:
            sch.compute_inline(computing(sch, nest, loops))
        spatial = [loops[loop] for loop, _ in facts.pairs]
        behind = [loops[loop] for _, loop in facts.pairs if loop is not None]
        if len(behind) > 1:
            sch.reorder(*behind)
        if facts.before == "block":
            sums = [loops[loop] for loop in facts.sums]
            sch.reorder(*spatial, *sums)
            block = facts.nest.block_of(facts.update)
            assert block is not None
            sch.decompose_reduction(sch.get_block(block.name), sums[0])
        if behind:
            spatial = [sch.fuse_siblings(one, other) for one, other in zip(spatial, behind, strict=True)]
        now = dict(loops) | {loop: made for (loop, _), made in zip(facts.pairs, spatial, strict=True)}
        target = _own(sch, facts, spatial[-1])
        self.base.apply(sch, replace(facts, target=target), plan, now)


def _own(sch: Verbs, facts: EpilogueFacts, element: LoopRV) -> str:
    """The sum as an accumulator of its own for each element: its name."""
    [written] = [access for access in facts.update.accesses if access.is_write]
    if facts.own:
        sch.privatize(facts.target, element)
        for dim in reversed(range(len(_buffer(written).shape))):
            sch.contract(facts.target, dim)
        return facts.target
    sch.stage_mem(element, facts.target, inside=True)
    sch.simplify(element)
    around = sch.get(element)
    assert isinstance(around, For)
    return next(stmt.buffer.name for stmt in each(AllocBuffer, around.body))


@dataclass(frozen=True)
class UnknownEpilogue(Epilogue):
    """The same for sizes that the caller alone knows."""

    name: ClassVar[str] = "contraction of any size with epilogue"
    base: Contraction = UNKNOWN_CONTRACTION


EPILOGUE: Final = Epilogue()
UNKNOWN_EPILOGUE: Final = UnknownEpilogue()


def _buffer(access: Access) -> Buffer:
    assert access.buffer is not None
    return access.buffer


def _elementwise(nest: Nest) -> Refusal | None:
    """Why a nest does not compute each element of one buffer from the elements of the same place of others."""
    if (
        len(perfect_loops(nest)) < len(nest.loops)
        or len(nest.statements) != 1
        or nest.statements[0].reduction is not None
    ):
        return Refusal("it is not one statement in loops that stand directly in each other")
    if any(True for _ in each(AllocBuffer, nest.root)):
        return Refusal("it has memory of its own")
    stores = [access for access in nest.accesses() if access.is_write]
    if len(stores) != 1 or any(access.guards or access.indices is None for access in nest.accesses()):
        return Refusal("an access is not always there")
    moves = strides_of(stores[0])
    if any(not moves.get(loop) for loop in nest.loops):
        return Refusal("an element is written more than once")
    return None


def _without_what_follows(nest: Nest) -> tuple[Nest, tuple[Statement, ...]]:
    """A nest without the statements that stand behind its one update, in the loops of the init, and these statements: plain
    loops over elements that have no accumulator of their own."""
    updates = [
        one for one in nest.statements if one.reduction is not None and not one.starts and not nest.block_of(one)
    ]
    # What is done in the place of the sum may look like a sum too, of one element.
    sums = [
        one
        for one in updates
        if any(loop not in strides_of(x) for x in one.accesses if x.is_write for loop in one.loops)
    ]
    if len(sums) != 1 or next(x.data for x in sums[0].accesses if x.is_write) in nest.local:
        return nest, ()
    behind = tuple(one for one in nest.statements if one.order > sums[0].order)
    before = [one for one in nest.statements if one.order < sums[0].order]
    if not behind or len(before) != 1 or any(one.loops != before[0].loops for one in behind):
        return nest, ()
    if nest.local or any(access.guards or access.indices is None for one in behind for access in one.accesses):
        return nest, ()
    return replace(nest, statements=(before[0], sums[0])), behind


def _pairs(
    facts: ContractionFacts, written: Access, nest: Nest, chain: Sequence[Nest], last: Nest | None
) -> tuple[tuple[Loop, Loop | None], ...] | Refusal:
    """The loops of the sum over its elements, in their order, with those of the last nest."""
    spatial = [loop for loop in nest.loops if loop in strides_of(written)]
    if len(_plain(written)) != len(spatial):
        return Refusal("its sum is not at its loops' place")
    if last is None:
        return tuple((loop, None) for loop in spatial)
    names = [next(at for at, var in enumerate(_plain(written)) if var is loop.var) for loop in spatial]
    found: dict[int, Loop] = {}
    inside = {access.data for one in chain for access in one.accesses() if access.is_write} | {written.data}
    for one in chain:
        places = [_plain(access) for access in one.accesses() if access.data in inside]
        if any(place != places[0] or len(place) != len(spatial) for place in places):
            return Refusal("what is done to its sum is not done in its place")
        if one is last:
            by_var = {loop.var: loop for loop in one.loops}
            found = {at: by_var[var] for at, var in enumerate(places[0])}
    pairs = tuple((loop, found[at]) for loop, at in zip(spatial, names, strict=True))
    for mine, other in pairs:
        if mine.extent is None or other.extent is None or mine.extent.key != other.extent.key:
            return Refusal("what is done to its sum is done to a part of it")
        if mine.start.key != other.start.key:
            return Refusal("what is done to its sum is done to another part of it")
    columns = next(other for loop, other in pairs if loop is facts.columns)
    if any(strides_of(access).get(columns, 0) not in (0, 1) for access in last.accesses()):
        return Refusal("what is done to its sum is not contiguous along its columns")
    return pairs


def _plain(access: Access) -> tuple[Var, ...]:
    """The loops that are the subscripts of an access; nothing where a subscript is no loop."""
    found: list[Var] = []
    for form in access.indices or ():
        [*variables] = form.terms
        if len(variables) != 1 or form.terms[variables[0]] != 1 or form.const or not isinstance(variables[0], Var):
            return ()
        found.append(variables[0])
    return tuple(found) if len(set(found)) == len(found) else ()
