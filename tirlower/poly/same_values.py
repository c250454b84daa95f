"""Do two programs compute the same values? The one question behind every step that moves, repeats, drops or feeds from
elsewhere what a program computes.

A step says what each access of the program after is: an access of the program before, in which of its instances
(:class:`Twin`), or a copy, which hands on what it reads. The programs are the same where each read sees, through
copies, the value of the very instance that it saw before, or of the same element of the input; and where the last values of what outlives the
function come from the same instances. That covers all at once: a read that nothing covers, inputs that something
writes between the old place and the new one, results that are overwritten or never written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property

from tirlower.ir import Assert, Call, Evaluate, Expr, Op, Purity, Stmt, Var
from tirlower.ir.query import each as each_node
from tirlower.poly.begun_earlier import begun_earlier
from tirlower.poly.computed_again import computed_again
from tirlower.poly.conditions import Condition
from tirlower.poly.constraint_system import TooManyCases
from tirlower.poly.instances import (
    Instances,
    NotKnown,
    at_the_end,
    inexact_conditions,
    renamed,
    tuple_space,
    union_of,
)
from tirlower.poly.isl import available, isl
from tirlower.poly.left_out import is_quiet
from tirlower.poly.one_to_one import one_to_one
from tirlower.poly.put_in_place import put_in_place
from tirlower.poly.run_earlier import run_earlier
from tirlower.poly.scop import Access, Scop, Statement
from tirlower.poly.through_copies import fed_through_copies
from tirlower.poly.to_isl import parameters
from tirlower.poly.twins import Handed, Matching, Twin
from tirlower.poly.value_witness import ASSUME, refuted
from tirlower.poly.verdict import PROVED, Verdict

__all__ = ["Handed", "Twin", "at_most", "same_values"]

MAX_OPERATIONS = 20_000_000
"""isl's operations for one question: some ten seconds; a tiled product with two packed operands takes a hundredth."""

_MOST: ContextVar[int] = ContextVar("isl's operations for one question", default=MAX_OPERATIONS)

MAX_CHAIN = 12
"""Through how many copies a value is followed."""


def same_values(
    before: Scop,
    after: Scop,
    twins: Mapping[Access, Twin],
    copies: Collection[Statement] = (),
    *,
    handed_before: Sequence[Handed] = (),
    handed_after: Sequence[Handed] = (),
    where: Mapping[Statement, Condition] | None = None,
    also: Collection[Var] = (),
) -> Verdict:
    """Whether two programs compute the same values.

    ``twins`` says of accesses of the program after what they are in the program before; accesses of a statement that
    both programs have need none. ``copies`` are statements of the program after that store what they load.
    ``handed_before`` are values that the program before passes through memory and the one after does not (an
    expression put in the place of a load), ``handed_after`` the other way round. ``where`` restricts in which
    instances a statement of the program after has twins: in others what it writes must never be seen. ``also`` is memory that
    is to be looked at though no access of it changed.

    Refuted with a read of the program before, and the write that it sees, or that comes in its way.
    """
    if not available():
        return Verdict("unknown", "islpy is not installed, which would tell (pip install islpy)")
    context = isl.DEFAULT_CONTEXT
    limit = context.get_max_operations()
    context.set_max_operations(_MOST.get())
    context.reset_operations()
    try:
        question = _Question(before, after, dict(twins), set(copies), where or {}, also)
        found = question.structural()
        if found is None and not (handed_before or handed_after or where):
            found = question.by_boxes(also)
        if found is None and handed_before and not (handed_after or where or also or copies):
            found = question.in_place(handed_before)
        if found is None:
            found = question.ambiguous()
        return found if found is not None else question.verdict(handed_before, handed_after)
    except TooManyCases:
        return Verdict("unknown", "the conditions have too many cases", help=ASSUME)
    except isl.Error as error:
        return Verdict("unknown", f"isl gave up: {str(error).splitlines()[0]}", help=ASSUME)
    except NotKnown as error:
        return Verdict("unknown", str(error), help=ASSUME)
    except _Undefined as error:
        return Verdict("refuted", str(error))
    finally:
        context.set_max_operations(limit)
        context.reset_operations()


@contextmanager
def at_most(operations: int) -> Iterator[None]:
    """In the block questions take so many of isl's operations, and are unknown beyond: of one who has other ways to try."""
    before = _MOST.set(operations)
    try:
        yield
    finally:
        _MOST.reset(before)


class _Question:
    """The question for two programs."""

    def __init__(
        self,
        before: Scop,
        after: Scop,
        twins: dict[Access, Twin],
        copies: set[Statement],
        where: Mapping[Statement, Condition],
        also: Collection[Var],
    ) -> None:
        self.before = Instances(before, "B")
        self.after = Instances(after, "A")
        matching = Matching(self.before, self.after, twins, copies, where)
        self.twins = matching.twins
        self.copies = copies
        self.where = where
        self.changed = matching.changed
        self.staying = matching.staying
        self.relevant = touched = matching.relevant | set(also)
        self.elements: dict[tuple[Instances, Access], isl.Map] = {}
        self.memories: dict[Var, str] = {}
        self.dims: dict[Var, int] = {}
        for scop in (before, after):
            for access in scop.accesses:
                if access.data in touched:
                    self.memories.setdefault(access.data, f"M{len(self.memories)}")
                    self.dims[access.data] = max(self.dims.get(access.data, 0), len(access.coordinates))

    def structural(self) -> Verdict | None:
        """A refusal for effects, jumps, assertions, pointers of unknown targets."""
        if self.before.scop.pointers.any_wild and self.changed:
            return Verdict("unknown", "a pointer of unknown target may point into what is moved")
        for statement in self.changed:
            call = _effect(statement.node)
            if call is not None:
                return Verdict("refuted", f"{call} has effects, and would run in another place, more or fewer times")
        if self.before.scop.barriers and self.changed:
            return Verdict("unknown", "threads meet at barriers, and what they do between these is moved")
        return self._fixtures()

    def ambiguous(self) -> Verdict | None:
        """A refusal for sizes that isl could not tell apart."""
        names = [[var.name for var in parameters(program.scop)] for program in (self.before, self.after)]
        if len(set(names[0])) < len(names[0]) or len(set(names[1])) < len(names[1]):
            return Verdict("unknown", "two sizes have one name", help="give sizes names of their own")
        return None

    def by_boxes(self, also: Collection[Var]) -> Verdict | None:
        """A proof that needs no flow of values, where all that changed is that memory is copied elsewhere and used there, has
        another shape or place, or that a reduction begins earlier."""
        given = self.before, self.after, self.twins
        proved = not self.copies and one_to_one(*given, self.changed, self.staying, also)
        if proved or also:
            return PROVED if proved else None
        if self.copies or not self.changed:
            proved = fed_through_copies(*given, self.copies, self.changed, self.staying)
        else:
            moved = *given, self.changed, self.staying
            proved = begun_earlier(*moved) or computed_again(*moved)
            proved = proved or run_earlier(*given, (), self.changed, self.staying)
        return PROVED if proved else None

    def in_place(self, handed: Sequence[Handed]) -> Verdict | None:
        """A proof that needs no flow of values, where all that changed is that a value is computed where it was read."""
        given = self.before, self.after, self.twins
        more = handed, self.changed, self.staying
        return PROVED if put_in_place(*given, *more) or run_earlier(*given, *more) else None

    def _fixtures(self) -> Verdict | None:
        if not self.changed:
            return None
        for program in (self.before, self.after):
            scop = program.scop
            if scop.irregular:
                return Verdict("unknown", scop.irregular)
            mine = [s.order for s in self.changed if s in set(scop.statements)]
            if not mine:
                continue
            idle = {id(op) for _, op in scop.idle_jumps}
            for order, _, node in scop.fixtures:
                if not isinstance(node, (Assert, Evaluate)) or id(node) in idle or not min(mine) <= order <= max(mine):
                    continue
                if isinstance(node, Evaluate) or not all(
                    is_quiet(s.node) for s in self.changed if not isinstance(s.node, (Assert, Evaluate))
                ):
                    what = "an assertion that may fail" if isinstance(node, Assert) else "a jump"
                    return Verdict("unknown", f"{what} stands between the old place and the new one")
        return None

    # The verdict

    def verdict(self, handed_before: Sequence[Handed], handed_after: Sequence[Handed]) -> Verdict:
        """The verdict."""
        self._after_to_before()
        for program, handed in ((self.before, handed_before), (self.after, handed_after)):
            for one in handed:
                found = self._is_handed(program, one)
                if found is None and program is self.before:
                    found = self._folded(one, handed)
                if found is not None:
                    return found
        for access, twin in self.twins.items():
            if access.statement in self.staying:
                continue
            found = self._runs_before(access, twin)
            if found is not None:
                return found
        if not self.relevant:
            return PROVED
        return self._compare(handed_before, handed_after)

    def _dims(self, access: Access) -> int:
        return self.dims.get(access.data, len(access.coordinates))

    def _after_to_before(self) -> None:
        """The instances of the program after with those of the program before that they are."""
        self.related: dict[Access, isl.Map] = {}
        for access, twin in self.twins.items():
            if access.data not in self.relevant and twin.access.data not in self.relevant:
                continue
            self.related[access] = self._related(access, twin)

    def _related(self, access: Access, twin: Twin) -> isl.Map:
        other = twin.access
        values = [twin.values.get(loop.var, loop.var) for loop in other.loops]
        lanes = len(self.before.lanes(other))
        spread = self.before.spread(other, self._dims(other))
        mine = self.after.spread(access, self._dims(access))
        if lanes != len(self.after.lanes(access)):
            raise NotKnown(f"{access.text} has other lanes than {other.text}")
        if spread != mine or (spread and access.data is not other.data):
            raise NotKnown(f"which elements {other.text} touches is not known")
        return self.after.to(
            access,
            self._dims(access),
            self.before.names[other],
            values,
            lanes,
            spread,
            self.where.get(access.statement),
        )

    def _runs_before(self, access: Access, twin: Twin) -> Verdict | None:
        """An instance of the program after that has no twin among those that run before."""
        if inexact_conditions(access) != inexact_conditions(twin.access):
            return Verdict(
                "unknown",
                f"whether {access.text} is computed only where it was before depends on what is computed",
                help=ASSUME,
            )
        if access not in self.related:
            self.related[access] = self._related(access, twin)
        other = twin.access
        known = self.before.to(
            other,
            self._dims(other),
            self.before.names[other],
            [loop.var for loop in other.loops],
            len(self.before.lanes(other)),
            self.before.spread(other, self._dims(other)),
        ).domain()
        new = self.related[access].range().subtract(known)
        if new.is_empty():
            return None
        return Verdict("refuted", f"{other.text} would be computed in iterations that there were not before")

    def _is_handed(self, program: Instances, one: Handed) -> Verdict | None:
        """A read that does not see the value that it is said to see."""
        values = [one.values.get(loop.var, loop.var) for loop in one.write.loops]
        flow = self._flow(program, [one.read], None)
        stated = program.to(one.read, self._dims(one.read), program.names[one.write], values)
        seen = isl.UnionMap.from_map(stated)
        wrong = flow.seen.subtract(seen)
        missing = seen.subtract(flow.seen)
        if wrong.is_empty() and missing.is_empty() and flow.certain:
            return None
        if not flow.certain or not (program.scop.exact(one.read) and program.scop.exact(one.write)):
            return Verdict(
                "unknown",
                f"whether {one.read.text} always sees what {one.write.text} writes is not known",
                help=ASSUME,
            )
        if program is not self.before:
            return Verdict("refuted", f"{one.read.text} would not see what {one.write.text} writes")
        sample = wrong if not wrong.is_empty() else missing
        return refuted(self.before, sample, sample, f"{one.read.text} does not always see what {one.write.text} writes")

    def _folded(self, one: Handed, handed: Sequence[Handed]) -> Verdict | None:
        """A statement of the program after that computes what a read was handed, and does with it what the reader did, but in
        the iteration of another one."""
        # A statement may be handed several values of one writer.
        pairs = [
            x for x in handed if x.read.statement is one.read.statement and x.write.statement is one.write.statement
        ]
        stated = [
            self.before.to(
                x.read, self._dims(x.read), "Z", [x.values.get(loop.var, loop.var) for loop in x.write.loops]
            ).set_tuple_name(isl.dim_type.in_, "Y")
            for x in pairs
        ]
        for statement in self.after.scop.statements:
            told = [(a, self.twins[a].access) for a in statement.accesses if a in self.twins]
            ends = [a for a, was in told if a.is_write and was.statement is one.read.statement]
            starts = [a for a, was in told if not a.is_write and was.statement is one.write.statement]
            for end in ends:
                for start in starts:
                    if self._loops_of(end) != self._loops_of(start):
                        raise NotKnown(f"{end.text} is of vectors")
                    there, mine = self._plain(end), self._plain(start, "Z")
                    if not any(mine.is_subset(there.apply_range(way)) for way in stated):
                        return Verdict("refuted", f"{start.text} would be handed to the reader of another iteration")
        return None

    def _loops_of(self, access: Access) -> list[Var]:
        return [dim for _, dim in self.after.instance(access)]  # type: ignore[misc]

    def _plain(self, access: Access, name: str = "Y") -> isl.Map:
        """The instances of an access with its twins' loops, under plain names."""
        twin = self.twins[access]
        values = [twin.values.get(loop.var, loop.var) for loop in twin.access.loops]
        made = self.after.to(access, self._dims(access), name, values, where=self.where.get(access.statement))
        return made.set_tuple_name(isl.dim_type.in_, "W")

    def _compare(self, handed_before: Sequence[Handed], handed_after: Sequence[Handed]) -> Verdict:
        """Each read sees the same instance, in both programs."""
        gone = {one.read for one in handed_after}
        for statement in self.after.scop.statements:
            if statement not in self.copies:
                for access in statement.accesses:
                    if not access.is_write and access not in self.twins and access not in gone:
                        raise NotKnown(f"what {access.text} was in the program before is not known")
        reads = [
            access
            for access in self.after.scop.accesses
            if not access.is_write and access in self.related and access not in gone
        ]
        outputs = self._outputs()
        mine = self._flow(self.after, reads, outputs)
        others = list(dict.fromkeys(self.twins[access].access for access in reads))
        theirs = self._flow(self.before, others, outputs)
        relation = union_of(self.related[access] for access in self.after.scop.accesses if access in self.related)
        ends = union_of(
            isl.Map.identity(tuple_space(self.params, f"E{memory}", dims).map_from_set())
            for memory, dims in outputs.values()
        )
        inputs = union_of(
            isl.Map.identity(tuple_space(self.params, memory, self.dims[data]).map_from_set())
            for data, memory in self.memories.items()
            if data not in self.before.scop.homes and data not in self.after.scop.homes
        )
        # Where the program before reads what nobody wrote, anything will do.
        readers = union_of(self.related[access] for access in reads).union(ends)
        wanted = readers.apply_range(theirs.seen)
        defined = wanted.intersect_range(relation.range().union(inputs.range()).union(self._writers(self.before)))
        undefined = wanted.subtract(defined).domain()
        defined = defined.subtract_domain(undefined)
        seen = mine.seen.apply_range(relation.union(inputs)).subtract_domain(undefined)
        missing = defined.subtract(seen)
        extra = seen.subtract(defined)
        if missing.is_empty() and extra.is_empty():
            if mine.certain and theirs.certain:
                return PROVED
            return self._same_order(mine, theirs, relation)
        certain = mine.certain and theirs.certain
        if not certain:
            return Verdict("unknown", "whether each read sees the same value as before is not known", help=ASSUME)
        sample = missing if not missing.is_empty() else extra
        back = readers.reverse()
        return refuted(
            self.before,
            back.apply_range(sample).coalesce(),
            back.apply_range(extra),
            "",
        )

    @cached_property
    def params(self) -> isl.Space:
        """A space of the parameters of both programs."""
        space = isl.Space.params_alloc(isl.DEFAULT_CONTEXT, 0)
        for program in (self.before, self.after):
            for access in program.scop.accesses[:1]:
                space = space.align_params(program.time(access, self._dims(access)).get_space().params())
        return space

    def _writers(self, program: Instances) -> isl.UnionSet:
        """The instances of all writes."""
        found = isl.UnionSet.empty(isl.Space.params_alloc(isl.DEFAULT_CONTEXT, 0))
        for access in program.scop.accesses:
            if access.is_write and access.data in self.relevant:
                found = found.union(isl.UnionSet.from_set(self._element(program, access).domain()))
        return found

    def _outputs(self) -> dict[Var, tuple[str, int]]:
        """The memory that outlives the function, of what may differ."""
        return {
            data: (memory, self.dims[data])
            for data, memory in self.memories.items()
            if data not in self.before.scop.homes and data not in self.after.scop.homes
        }

    def _element(self, program: Instances, access: Access) -> isl.Map:
        found = self.elements.get((program, access))
        if found is None:
            memory = self.memories.setdefault(access.data, f"M{len(self.memories)}")
            dims = self.dims.setdefault(access.data, len(access.coordinates))
            if access.indices is not None and len(access.coordinates) != dims:
                raise NotKnown(f"{access.text} sees memory in another shape than other accesses do")
            found = self.elements[program, access] = program.element(access, memory, dims)
        return found

    def _flow(
        self, program: Instances, reads: Sequence[Access], outputs: Mapping[Var, tuple[str, int]] | None
    ) -> _Flow:
        """What reads see, through copies: writes, and elements that nothing wrote before."""
        copies = {} if program is self.before else self._copied()
        sinks = list(dict.fromkeys([*reads, *(read for read, _ in copies.values())]))
        data = {access.data for access in sinks} | set(outputs or ())
        writes = [access for access in program.scop.accesses if access.is_write and access.data in data]
        certain = all(program.scop.exact(access) for access in (*sinks, *writes))
        sink = union_of(self._element(program, access) for access in sinks)
        times = union_of(program.time(access, self._dims(access)) for access in (*sinks, *writes))
        if outputs:
            for memory, dims in outputs.values():
                space = tuple_space(self.params, f"E{memory}", dims)
                sink = sink.union(isl.UnionMap.from_map(renamed(space, memory)))
                times = times.union(isl.UnionMap.from_map(at_the_end(space, 2 * program.depth + 2, program.last)))
        must = union_of(self._element(program, w) for w in writes if program.scop.exact(w))
        may = union_of(self._element(program, w) for w in writes if not program.scop.exact(w))
        info = isl.UnionAccessInfo.from_sink(sink).set_must_source(must).set_may_source(may).set_schedule_map(times)
        flow = info.compute_flow()
        seen = flow.get_may_dependence().reverse()
        first = flow.get_may_no_source()
        if copies:
            self._copies_something(first, [read for read, _ in copies.values()])
        total = seen.union(first)
        if copies:
            total = self._through(total, copies)
        asked = isl.UnionSet.empty(isl.Space.params_alloc(isl.DEFAULT_CONTEXT, 0))
        for access in reads:
            asked = asked.union(isl.UnionSet.from_set(self._element(program, access).domain()))
        if outputs:
            for memory, dims in outputs.values():
                universe = isl.Set.universe(tuple_space(self.params, f"E{memory}", dims))
                asked = asked.union(isl.UnionSet.from_set(universe))
        return _Flow(total.intersect_domain(asked), certain, times)

    def _copies_something(self, first: isl.UnionMap, reads: Sequence[Access]) -> None:
        """No copy may read memory of the function's own that nothing has written. Raises :class:`_Undefined`."""
        homes = self.after.scop.homes
        own = {self.memories[data] for data in self.memories if data in homes}
        by_name = {self.after.names[read]: read for read in reads}
        maps: list[isl.Map] = []
        first.foreach_map(maps.append)
        kind = isl.dim_type
        for one in maps:
            read = by_name.get(one.get_tuple_name(kind.in_) or "")
            if read is not None and one.get_tuple_name(kind.out) in own and not one.is_empty():
                raise _Undefined(f"{read.text} would be copied where nothing has written it")

    def _copied(self) -> dict[Access, tuple[Access, isl.Map]]:
        """The writes of copies, each with the read whose value it hands on, and their instances."""
        found: dict[Access, tuple[Access, isl.Map]] = {}
        for statement in self.copies:
            write = next((access for access in statement.accesses if access.is_write), None)
            reads = [access for access in statement.accesses if not access.is_write]
            if write is None or len(reads) != 1 or write.data not in self.memories:
                raise NotKnown(f"{statement.node} is no copy")
            [read] = reads
            lanes = len(self.after.lanes(read))
            way = self.after.to(
                write, self._dims(write), self.after.names[read], [loop.var for loop in read.loops], lanes
            ).intersect_range(self._element(self.after, read).domain())
            found[write] = read, way
        return found

    def _through(self, total: isl.UnionMap, copies: Mapping[Access, tuple[Access, isl.Map]]) -> isl.UnionMap:
        """What is seen where a copy is taken for what it copied."""
        ways = union_of(way for _, way in copies.values())
        written = isl.UnionSet.empty(isl.Space.params_alloc(isl.DEFAULT_CONTEXT, 0))
        for write in copies:
            written = written.union(isl.UnionSet.from_set(self._element(self.after, write).domain()))
        step = ways.apply_range(total)
        for _ in range(MAX_CHAIN):
            through = total.intersect_range(written)
            if through.is_empty():
                return total
            total = total.subtract(through).union(through.apply_range(step)).coalesce()
        raise NotKnown("values are handed on by copies in a circle")

    def _same_order(self, mine: _Flow, theirs: _Flow, relation: isl.UnionMap) -> Verdict:
        """Where it is not known which of several writes a read sees, these keep their order."""
        rivals = theirs.seen.reverse().apply_range(theirs.seen)
        then = theirs.times.lex_lt_union_map(theirs.times)
        now = mine.times.lex_lt_union_map(mine.times)
        turned = relation.reverse().apply_range(now.reverse()).apply_range(relation).intersect(then).intersect(rivals)
        if turned.is_empty():
            return PROVED
        return Verdict(
            "unknown",
            "writes of which it is not known whether a read sees them would come in another order",
            help=ASSUME,
        )


class _Undefined(Exception):
    """A copy of what nothing has written."""


@dataclass(frozen=True)
class _Flow:
    """What reads see, whether that is certain, and when everything happens."""

    seen: isl.UnionMap
    certain: bool
    times: isl.UnionMap


def _effect(node: Stmt) -> Call | None:
    """A call of a statement (not of those in it) that has effects."""
    for child in node.children():
        if isinstance(child, Expr):
            for call in each_node(Call, child):
                if not isinstance(call.op, Op) or call.op.purity > Purity.READS:
                    return call
    return None
