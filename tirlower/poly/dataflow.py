"""Whose value does a read see? Value-based flow: what is overwritten in between is taken out.

Memory-based dependences (:mod:`tirlower.poly.dependences`) say what must stay in order; these questions say whether a value may be
computed elsewhere: is each read covered by writes before it, does anything change between two places, which writes are
the last before a read. Proofs count what may happen, and only what certainly happens as covering or overwriting, so that
what is not known makes answers "unknown", or lets more writes be the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tirlower.diagnostics import TirError
from tirlower.ir import PrimFunc
from tirlower.poly.conditions import Condition
from tirlower.poly.conflicts import Conflicts, Relation
from tirlower.poly.constraint_system import BOTH, SINK, SOURCE, Outcome, System, TooManyCases
from tirlower.poly.cover import Key, covered
from tirlower.poly.digit_test import Sign
from tirlower.poly.execution_order import Position, common_loops, place_of, ways_before, ways_related
from tirlower.poly.expressions import Converter
from tirlower.poly.extract import extract
from tirlower.poly.forms import Dim, single
from tirlower.poly.isl import Solver, available, isl
from tirlower.poly.order_kept import Coordinate, LoopLike, form_of
from tirlower.poly.scop import Access, Loop, Scop
from tirlower.poly.to_isl import map_of, parameters
from tirlower.poly.verdict import PROVED, Verdict, Witness

__all__ = ["Flow", "LastWriters", "covers", "last_writer", "unchanged_between"]

_BETWEEN = 3
"""The side of the write that comes between two others."""

_NO_ISL = "islpy is not installed, which would tell (pip install islpy)"


# -- coverage -------------------------------------------------------------------------------------------------------


def covers(
    func: PrimFunc | Scop,
    writes: Sequence[Access],
    reads: Sequence[Access],
    at: LoopLike | None = None,
    *,
    solver: Solver | None = None,
) -> Verdict:
    """Whether each instance of the reads comes after an instance of the writes that writes its element; with ``at``, one
    in the same iteration of that loop (which is around the reads).

    Refuted with a read that none of the writes comes before.

    >>> from tirlower.script import parse
    >>> scop = extract(parse('''
    ... @T.prim_func
    ... def shift(A: T.Buffer((9,), "int32"), B: T.Buffer((8,), "int32")):
    ...     for i in range(8):
    ...         A[i] = i
    ...     for j in range(8):
    ...         B[j] = A[j + 1]
    ... '''))
    >>> write, read, _ = scop.accesses
    >>> str(covers(scop, [write], [read]).witness)
    'iteration (j = 7) reads A[8]'
    """
    scop = extract(func)
    conflicts = Conflicts(scop, solver)
    loop = None if at is None else scop.loop(at)
    unknown: Verdict | None = None
    for read in reads:
        found = _covered(conflicts, writes, read, loop)
        if found.refuted:
            return found
        if found.unknown and unknown is None:
            unknown = found
    return PROVED if unknown is None else unknown


def _covered(conflicts: Conflicts, writes: Sequence[Access], read: Access, loop: Loop | None) -> Verdict:
    scop = conflicts.scop
    where = "" if loop is None else f" in the same iteration of {loop.name!r}"
    doubt = f"whether {read.text} is always written before it is read{where} is not known"
    if read.indices is None:
        return Verdict("unknown", f"{doubt}: which elements are read is up to the callee")
    if not available():
        return Verdict("unknown", f"{doubt}: {_NO_ISL}")
    depth = 0 if loop is None else read.loops.index(loop) + 1
    dims = [*parameters(scop), *(each.var for each in read.loops), *_lanes(scop, read)]
    usable = [write for write in writes if _overwrites(scop, write, read)]
    systems = [
        conflicts.system(write, read, conflicts.forms(write, read) or [], signs, ())
        for write in usable
        for signs in _before(scop, write, read, depth)
    ]
    others = [(system, [(system.side_of(dim, SINK), dim) for dim in dims]) for system in systems]
    missing: list[tuple[int, ...]] = []
    keys: list[Key] = [(BOTH, dim) for dim in dims]
    try:
        found = covered(_instances(scop, read), keys, others, conflicts.solver, missing)
    except TooManyCases:
        found = None
    if found:
        return PROVED
    if found is None or not scop.exact(read) or len(usable) < len(writes):
        return Verdict("unknown", doubt, help="state what is known with T.assume(…)")
    witness = None
    if missing:
        values = dict(zip(keys, missing[0], strict=True))
        point = conflicts.point(read, BOTH, values)
        witness = None if point is None else Witness(point, None, conflicts.parameters(values))
    return Verdict("refuted", f"{read.text} is read where nothing has written it before{where}", witness)


def _before(scop: Scop, write: Access, read: Access, depth: int) -> Iterator[dict[Loop, Sign]]:
    """The ways in which a write comes before a read in one iteration of so many loops around the read, and of the loops in
    which the memory is allocated."""
    common = common_loops(write, read)
    depth = max(depth, _home(scop, write, common))
    if depth <= len(common):
        outer: dict[Loop, Sign] = dict.fromkeys(common[:depth], "=")
        for signs in ways_before(write, read, common[depth:]):
            yield {**outer, **signs}


def _home(scop: Scop, access: Access, loops: Sequence[Loop]) -> int:
    """How many of some loops, from the outermost, are around the allocation of what is accessed."""
    home = scop.homes.get(access.data, ())
    return sum(1 for mine, other in zip(home, loops, strict=False) if mine is other)


def _overwrites(scop: Scop, write: Access, read: Access) -> bool:
    """Whether a write certainly happens, to the elements that its forms name, which compare with those of a read."""
    if write.data is not read.data or write.indices is None or read.indices is None or not scop.exact(write):
        return False
    if len(write.coordinates) != len(read.coordinates) or write.buffer is None or read.buffer is None:
        return False
    return write.buffer.dtype == read.buffer.dtype


def _instances(scop: Scop, access: Access) -> System:
    system = System(scop.space, frozenset(scop.space.iterated))
    for condition in (*scop.context, *access.conditions, *(c for loop in access.loops for c in loop.conditions)):
        system.add(condition, BOTH)
    return system


def _lanes(scop: Scop, access: Access) -> list[Dim]:
    return [dim for form in access.coordinates for dim in form.terms if dim in scop.space.lanes]


# -- what changes ---------------------------------------------------------------------------------------------------


def unchanged_between(
    func: PrimFunc | Scop,
    elements: Access,
    here: Sequence[Coordinate],
    there: Sequence[Coordinate],
    *,
    under: Sequence[LoopLike] = (),
    where: Sequence[Condition] = (),
    solver: Solver | None = None,
) -> Verdict:
    """Whether nothing writes what an access touches in an instance between two moments, whichever is the earlier.

    The moments are positions (:func:`~tirlower.poly.execution_order.place_of` gives that of a statement) over the loops
    around the access, and over the loops ``under``, whose iterations are then all looked at, of those ``where`` conditions hold. A position
    that is the beginning of others is the moment before them: ``(loop.order, loop)`` the start of an iteration. What
    happens at the very moments does not count.

    Refuted with the access and the write that gets in between.

    >>> from tirlower.script import parse
    >>> scop = extract(parse('''
    ... @T.prim_func
    ... def twice(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    ...     for i in range(8):
    ...         B[i] = A[i]
    ...     for j in range(4):
    ...         A[j] = 0
    ...     for k in range(8):
    ...         B[k] = B[k] + 1
    ... '''))
    >>> (i, j, k), read = scop.loops, scop.accesses[0]
    >>> str(unchanged_between(scop, read, place_of(read.statement), [k.order, i]).witness)
    'iteration (i = 0) reads A[0] and iteration (j = 0) writes A[0]'
    >>> unchanged_between(scop, read, place_of(read.statement), [j.order]).proved
    True
    """
    scop = extract(func)
    conflicts = Conflicts(scop, solver)
    converter = Converter(scop.space, scop.pointers.changing)
    moments = [tuple([form_of(converter, x) for x in given]) for given in (here, there)]
    more = [condition for loop in under for condition in scop.loop(loop).conditions]
    unknown: Verdict | None = None
    with conflicts.solver.verdict():
        for write in scop.accesses:
            if not write.is_write or conflicts.forms(elements, write) is None:
                continue
            for signs, relations in _in_between(scop, elements, write, moments):
                found = _written(conflicts, elements, write, signs, relations, (*more, *where))
                if found.refuted:
                    return found
                if found.unknown and unknown is None:
                    unknown = found
    return PROVED if unknown is None else unknown


def _in_between(
    scop: Scop, elements: Access, write: Access, moments: Sequence[Position]
) -> Iterator[tuple[dict[Loop, Sign], tuple[Relation, ...]]]:
    """The ways in which a write (the sink) is after one of two moments of an access (the source) and before the other."""
    common = common_loops(elements, write)
    outer: dict[Loop, Sign] = dict.fromkeys(common[: _home(scop, elements, common)], "=")
    at = place_of(write.statement)
    for first, last in (moments, moments[::-1]):
        for after in ways_related(scop.space, first, at, "<", outer, common):
            if after.ended and len(first) >= len(at):
                continue
            for before in ways_related(scop.space, last, at, ">", after.signs, common):
                if not before.ended:
                    yield before.signs, (*after.relations, *before.relations)


def _written(
    conflicts: Conflicts,
    elements: Access,
    write: Access,
    signs: dict[Loop, Sign],
    relations: tuple[Relation, ...],
    more: Sequence[Condition],
) -> Verdict:
    scop = conflicts.scop
    found = conflicts.ask(elements, write, signs, relations)
    if found.status != "empty" and more:
        system = conflicts.system(elements, write, conflicts.forms(elements, write) or [], signs, relations)
        for condition in more:
            system.add(condition, SOURCE)
        system.maker = None
        found = system.solve(conflicts.solver)
        if found.status == "found" and not (scop.exact(elements) and scop.exact(write)):
            found = Outcome("found", False, None, "what is computed decides it")
    if found.status == "empty":
        return PROVED
    if found.status != "found" or not found.exact or found.values is None:
        doubt = f"whether {write.text} writes what {elements.text} touches in between is not known: {found.reason}"
        return Verdict("unknown", doubt, help="state what is known with T.assume(…)")
    if more:
        points = conflicts.point(elements, SOURCE, found.values), conflicts.point(write, SINK, found.values)
        witness = None if points[0] is None else Witness(points[0], points[1], conflicts.parameters(found.values))
    else:
        witness = conflicts.witness(elements, write, signs, relations, found)
    return Verdict("refuted", f"{write.text} writes what {elements.text} touches in between", witness)


# -- the last write -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Flow:
    """A write that may be the last one before a read of its element. ``certain`` says that it is, in some instance."""

    write: Access
    read: Access
    certain: bool
    pairs: tuple[System, ...] = field(repr=False)
    overwritten: tuple[System, ...] = field(repr=False)
    scop: Scop = field(repr=False)

    @cached_property
    def relation(self) -> isl.Map:
        """The instances of the write, each with those of the read that see its value, as an isl Map. Raises ImportError
        without islpy, and :class:`TirError` where the conditions have too many cases."""
        try:
            return self._relation()
        except TooManyCases as error:
            reads = f"which instances of {self.write.text} are last before {self.read.text}"
            raise TirError(f"{reads} depends on too many cases of conditions", origin="poly.dataflow") from error

    def _relation(self) -> isl.Map:
        keys = _both_loops(self.write, self.read)
        names = self.write.statement.name, self.read.statement.name
        maps = [map_of(self.scop, system, keys, len(self.write.loops), names) for system in self.pairs]
        found = maps[0]
        for each in maps[1:]:
            found = found.union(each)
        for system in self.overwritten:
            found = found.subtract(map_of(self.scop, system, keys, len(self.write.loops), names))
        return found.coalesce()


@dataclass(frozen=True)
class LastWriters:
    """The writes whose values a read may see. ``initial`` says whether it may also see what was there before: False if
    certainly not, None where that is not known."""

    flows: tuple[Flow, ...]
    initial: bool | None

    @property
    def writes(self) -> tuple[Access, ...]:
        """The writes."""
        return tuple(flow.write for flow in self.flows)


def last_writer(func: PrimFunc | Scop, read: Access, *, solver: Solver | None = None) -> LastWriters:
    """The writes that are the last before some instance of a read, in its element: those that certainly are not are left out.

    >>> from tirlower.script import parse
    >>> scop = extract(parse('''
    ... @T.prim_func
    ... def last(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    ...     for i in range(8):
    ...         A[i] = 1
    ...         A[i] = 2
    ...         B[i] = A[i]
    ... '''))
    >>> found = last_writer(scop, scop.accesses[2])
    >>> [str(flow.write.statement.node) for flow in found.flows], found.flows[0].certain, found.initial
    (['A[i] = 2'], True, False)
    """
    scop = extract(func)
    conflicts = Conflicts(scop, solver)
    writes = [x for x in scop.accesses if x.is_write and conflicts.forms(x, read) is not None]
    known = all(_overwrites(scop, write, read) for write in writes) and scop.exact(read)
    flows = [flow for write in writes for flow in _flow(conflicts, write, read, writes, known)]
    found = _covered(conflicts, writes, read, None)
    return LastWriters(tuple(flows), False if found.proved else True if found.refuted else None)


def _flow(conflicts: Conflicts, write: Access, read: Access, writes: Sequence[Access], known: bool) -> Iterator[Flow]:
    scop = conflicts.scop
    pairs = []
    with conflicts.solver.verdict():
        for signs in _before(scop, write, read, 0):
            if conflicts.ask(write, read, signs).status != "empty":
                related = [(single(loop.var), single(loop.var), sign) for loop, sign in signs.items()]
                pairs.append(conflicts.system(write, read, conflicts.forms(write, read) or [], {}, related))
    if not pairs:
        return
    keys: list[Key] = [*((BOTH, var) for var in parameters(scop)), *_both_loops(write, read)]
    lanes = _lanes(scop, read)
    keys += [(SINK, dim) for dim in lanes]
    systems = [
        system
        for other in writes
        if _overwrites(scop, other, read)
        for system in _killed(conflicts, write, other, read)
    ]
    answers: list[bool | None] = []
    for pair in pairs:
        try:
            answers.append(covered(pair, keys, [(system, keys) for system in systems], conflicts.solver))
        except TooManyCases:
            answers.append(None)
    if not all(answers):
        certain = known and any(answer is False for answer in answers)
        yield Flow(write, read, certain, tuple(pairs), tuple(systems), scop)


def _both_loops(write: Access, read: Access) -> list[Key]:
    return [*((SOURCE, loop.var) for loop in write.loops), *((SINK, loop.var) for loop in read.loops)]


def _killed(conflicts: Conflicts, write: Access, other: Access, read: Access) -> Iterator[System]:
    """The instances of a write (source) and a read (sink) with one of another write to the read's element in between."""
    scop = conflicts.scop
    at = place_of(other.statement)
    home = read.loops[: _home(scop, read, read.loops)]
    if other.loops[: len(home)] != home:
        return
    for after in ways_related(scop.space, place_of(write.statement), at, "<", {}, ()):
        if after.ended:
            continue
        for before in ways_related(scop.space, at, place_of(read.statement), "<", {}, ()):
            if before.ended:
                continue
            system = conflicts.system(write, read, [], {}, ())
            system.maker = None
            for condition in (*other.conditions, *(c for loop in other.loops for c in loop.conditions)):
                system.add(condition, _BETWEEN)
            for x, y in conflicts.forms(other, read) or ():
                system.relate(x, _BETWEEN, "=", y, SINK)
            for loop in home:
                system.relate(single(loop.var), _BETWEEN, "=", single(loop.var), SINK)
            for x, y, sign in after.relations:
                system.relate(x, SOURCE, sign, y, _BETWEEN)
            for x, y, sign in before.relations:
                system.relate(x, _BETWEEN, sign, y, SINK)
            yield system
