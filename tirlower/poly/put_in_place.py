"""A value computed where it is read: does each load see what the one statement that wrote it would compute there?

``for i: B[i] = f(A[i])`` and ``for j: C[j] = B[j] + 1`` become ``for j: C[j] = f(A[j]) + 1``. Subscripts, boxes and positions tell,
without a flow of values:

- one statement writes the memory, which is the function's own and is accessed nowhere afterwards; each element once in an
  iteration of the loops that it has in common with the reader, in front of that;
- what is read is what it writes in the iteration that is said, and that is one of its iterations;
- what it reads is written nowhere from its place to that of the reader, and is read there at the subscripts of that iteration;
- all other statements stay as they are, in their order, in their loops.

What does not fit says nothing: then the flow of values is asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tirlower.ir import BufferLoad, BufferStore, Expr, Var
from tirlower.poly.boxes import Boxes, NotThis, Positions, Touched, named_values, need, same_place
from tirlower.poly.constraint_system import TooManyCases
from tirlower.poly.execution_order import common_loops
from tirlower.poly.forms import Form, constant, single
from tirlower.poly.instances import Instances
from tirlower.poly.scop import Access, Loop, Statement
from tirlower.poly.twins import Handed, Twin, same_bounds

__all__ = ["put_in_place"]


def put_in_place(
    before: Instances,
    after: Instances,
    twins: Mapping[Access, Twin],
    handed: Sequence[Handed],
    changed: Collection[Statement],
    staying: Collection[Statement],
) -> bool:
    """Whether two programs, the second of which computes a value where the first reads it, certainly compute the same values."""
    try:
        _Proof(before, after, twins, handed, changed, staying).run()
    except (NotThis, TooManyCases):
        return False
    return True


class _Proof:
    def __init__(
        self,
        before: Instances,
        after: Instances,
        twins: Mapping[Access, Twin],
        handed: Sequence[Handed],
        changed: Collection[Statement],
        staying: Collection[Statement],
    ) -> None:
        self.before = before
        self.after = after
        self.twins = twins
        self.handed = handed
        self.changed = changed
        self.staying = staying
        self.old, self.new = Boxes(before.scop, before.converter), Boxes(after.scop, after.converter)

    def run(self) -> None:
        """Raises :class:`NotThis` where it is not so."""
        write = self._only_write()
        need(not (self.before.scop.pointers.any_wild or self.after.scop.pointers.any_wild))
        self._names_stay()
        readers = self._pairs(write.statement)
        for one in self.handed:
            self._sees(one, write)
        for was, now in readers:
            self._computes(was, now, write)

    def _only_write(self) -> Access:
        """The one write of the memory, which nobody accesses afterwards and which is read where it is said."""
        write = self.handed[0].write
        accesses = [access for access in self.before.scop.accesses if access.data is write.data]
        reads = {one.read for one in self.handed}
        need(all(one.write is write for one in self.handed) and len(reads) == len(self.handed))
        need({access for access in accesses if access is not write} == reads and write not in reads)
        need(write.data in self.before.scop.homes)
        need(all(access.data is not write.data for access in self.after.scop.accesses))
        need(sum(access.is_write for access in write.statement.accesses) == 1)
        for access in (*accesses, *write.statement.accesses):
            self._plain(self.before, access)
        return write

    def _plain(self, program: Instances, access: Access) -> None:
        """That an access is of the elements that its subscripts name, each time."""
        node = access.node
        need(isinstance(node, (BufferLoad, BufferStore)) and node.predicate is None and access.site is None)
        need(access.buffer is not None and access.data is access.buffer.data and not program.lanes(access))
        need(isinstance(access.statement.node, BufferStore) and access.statement.node.predicate is None)
        need(program.scop.exact(access))

    def _names_stay(self) -> None:
        """Names stand for the values that they stood for, but those that are no more."""
        mine, theirs = named_values(self.before.scop), named_values(self.after.scop)
        bound = {var for var, _ in theirs}
        need(not any(var in bound for var, _ in mine - theirs))

    def _pairs(self, gone: Statement) -> list[tuple[Statement, Statement]]:
        """The readers, as they were and as they are. All else stays, in its order and in its loops."""
        rest = [statement for statement in self.before.scop.statements if statement is not gone]
        need(len(rest) == len(self.after.scop.statements))
        there: dict[Loop, Loop] = {}
        readers: list[tuple[Statement, Statement]] = []
        for was, now in zip(rest, self.after.scop.statements, strict=True):
            need(len(was.loops) == len(now.loops) and len(was.conditions) == len(now.conditions))
            for old, new in zip(was.loops, now.loops, strict=True):
                need(there.setdefault(old, new) is new and old.var is new.var and same_bounds(old, new))
            if now in self.staying:
                for access in now.accesses:
                    twin = self.twins.get(access)
                    need(twin is not None and twin.access.statement is was and not twin.values)
                    need(twin is not None and same_place(access, twin.access))
                need(len(was.accesses) == len(now.accesses))
            else:
                need(was in self.changed and any(one.read.statement is was for one in self.handed))
                readers.append((was, now))
        need(len(set(there.values())) == len(there))
        return readers

    def _value(self, one: Handed, var: Var) -> Form:
        """Of which iteration of the writer's loop a read is."""
        value: Expr = one.values.get(var, var)
        return self.before.converter.lin(value)

    def _in_iteration(self, form: Form, own: Sequence[Loop], around: Sequence[Loop], one: Handed) -> Form:
        """A form over the loops of the writer in the iteration of which a read is."""
        free, mine = {loop.var for loop in around}, {loop.var for loop in own}
        made = constant(form.const)
        for dim, factor in form.terms.items():
            if isinstance(dim, Var) and dim in mine:
                made = made.plus(self._value(one, dim), factor)
            else:
                need(self.old.is_free(dim, free))
                made = made.plus(single(dim), factor)
        return made

    def _sees(self, one: Handed, write: Access) -> None:
        """That a read sees what the writer writes in the iteration that is said."""
        read = one.read
        around = common_loops(write, read)
        own = write.loops[len(around) :]
        place = Positions(around)
        need(place.of(write) < place.of(read))
        need(all(one.values.get(loop.var, loop.var) is loop.var for loop in around))
        need(all(any(given is other for other in read.conditions) for given in write.conditions))
        forms = self.old.forms(write)
        # Each element once: its subscripts are the digits of the loops.
        box = self.old.box(Touched(write, forms, ()), around)
        digits = {var for group in box.digits for var in group}
        for loop in own:
            need(loop.extent is not None and not loop.overflows)
            assert loop.extent is not None
            need(loop.var in digits or (loop.extent.is_constant and loop.extent.const == 1))
            value = self._value(one, loop.var)
            start = self._in_iteration(loop.start, own, around, one)
            extent = self._in_iteration(loop.extent, own, around, one)
            self.old.at_least(read, value.plus(start, -1))
            self.old.at_least(read, start.plus(extent).plus(value, -1).shifted(-1))
        for mine, theirs in zip(forms, self.old.forms(read), strict=True):
            need(self._in_iteration(mine, own, around, one).key == theirs.key)
        inputs = {access.data for access in write.statement.accesses if not access.is_write}
        for access in self.before.scop.accesses:
            if access.is_write and access.data in inputs and place.inside(access):
                need(not place.of(write) <= place.of(access) <= place.of(read))

    def _computes(self, was: Statement, now: Statement, write: Access) -> None:
        """That a reader does what it did, with what the writer reads in the iteration of a read."""
        need(isinstance(now.node, BufferStore) and now.node.predicate is None)
        told = [one for one in self.handed if one.read.statement is was]
        around = common_loops(write, told[0].read)
        own = write.loops[len(around) :]
        need(sum(access.is_write for access in now.accesses) == sum(access.is_write for access in was.accesses) == 1)
        for access in now.accesses:
            twin = self.twins.get(access)
            need(twin is not None and twin.access.is_write == access.is_write)
            assert twin is not None
            if twin.access.statement is was:
                need(not twin.values and same_place(access, twin.access))
                continue
            need(twin.access.statement is write.statement)
            self._plain(self.after, access)
            forms = [form.key for form in self.new.forms(access)]
            need(access.buffer is twin.access.buffer)
            need(any(self._is_in(twin, one, own, around, forms) for one in told))

    def _is_in(
        self, twin: Twin, one: Handed, own: Sequence[Loop], around: Sequence[Loop], forms: Sequence[object]
    ) -> bool:
        """Whether an access is the writer's in the iteration of a read."""
        for loop in own:
            said: Expr = twin.values.get(loop.var, loop.var)
            if self.before.converter.lin(said).key != self._value(one, loop.var).key:
                return False
        there = self.old.forms(twin.access)
        return [self._in_iteration(form, own, around, one).key for form in there] == forms
