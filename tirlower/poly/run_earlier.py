"""A consumer that runs in the loops of what it reads: does each of its iterations run there once, on what it read before?

``for i, j: B[i, j] = f(A[i, j])`` and ``for i, j: C[i, j] = B[i, j] + 1`` become one nest ``for i``, with the second statement behind
the first one in each iteration; or one statement, ``C[i, j] = f(A[i, j]) + 1``. Boxes and positions tell, without a flow of values:

- the statements that moved write one memory, which nothing else accesses between their new place and the old one; both nests write
  the same box, each element in one iteration of the loops that are its digits, and those of the others come in their old order;
- what they read is written in between only in the loops that they moved into, in front of them, in that iteration of these loops in
  which it is read: the element tells the iteration;
- where the value of a statement that is no more has taken the place of a load: it was the only write of its memory, which nobody
  else read, of each element in one iteration, and the new statement stands at its place and reads what it read.

What does not fit says nothing: then the flow of values is asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tirlower.ir import Var
from tirlower.ir.query import mentions
from tirlower.poly.boxes import NotThis, Positions, Touched, need, same_place
from tirlower.poly.constraint_system import TooManyCases
from tirlower.poly.instances import Instances
from tirlower.poly.moved_group import MovedGroup
from tirlower.poly.scop import Access, Loop, Statement
from tirlower.poly.twins import Handed, Twin, same_bounds

__all__ = ["run_earlier"]


def run_earlier(
    before: Instances,
    after: Instances,
    twins: Mapping[Access, Twin],
    handed: Sequence[Handed],
    changed: Collection[Statement],
    staying: Collection[Statement],
) -> bool:
    """Whether two programs, in the second of which something runs in the loops of what it reads, certainly compute the same values."""
    try:
        _Proof(before, after, twins, handed, changed, staying).run()
    except (NotThis, TooManyCases):
        return False
    return True


class _Proof(MovedGroup):
    def __init__(
        self,
        before: Instances,
        after: Instances,
        twins: Mapping[Access, Twin],
        handed: Sequence[Handed],
        changed: Collection[Statement],
        staying: Collection[Statement],
    ) -> None:
        super().__init__(before, after, twins, changed, staying)
        self.handed = handed

    def run(self) -> None:
        """Raises :class:`NotThis` where it is not so."""
        gone = self.handed[0].write if self.handed else None
        self.others_stay()
        self.pair([one for one in self.old if gone is None or one is not gone.statement], self.new)
        self.place = Positions(self.around)
        if gone is None:
            begin = self._beside()
        else:
            self._replaces(gone)
            begin = self.place.of(gone)
        self.first, self.last = begin, max(self.place.of(was) for was, _ in self.writes)
        need(begin < min(self.place.of(was) for was, _ in self.writes))
        data = self.writes[0][0].data
        for access in self.before.scop.accesses:
            if access.data is data and access.statement not in self.changed:
                need(not self._between(access))
        reads = self._reads(data, gone)
        for access in self.before.scop.accesses:
            if (
                access.is_write
                and access.data in reads
                and self._between(access)
                and access.statement not in self.changed
            ):
                need(gone is None)
                self._comes_before(access, reads[access.data])
        self._each_once()

    def _between(self, access: Access) -> bool:
        """Whether an access happens from the new place to the old one."""
        return self.place.inside(access) and self.first <= self.place.of(access) <= self.last

    def _beside(self) -> int:
        """The loops that the statements moved into, ``into``: as many as they share with one that stays. Gives the old place of these."""
        mine = self.new[0].loops
        found: Access | None = None
        self.into: tuple[Loop, ...] = self.there
        for was, now in self.stayed.items():
            depth = 0
            while depth < min(len(mine), len(now.loops)) and mine[depth] is now.loops[depth]:
                depth += 1
            if depth > len(self.into) and was.accesses:
                found, self.into = was.accesses[0], mine[:depth]
        need(found is not None)
        assert found is not None
        need(self.place.inside(found))
        return self.place.of(found)

    def _reads(self, data: Var, gone: Access | None) -> dict[Var, list[Access]]:
        """The reads of the statements, by memory: each of the element of the old one."""
        found: dict[Var, list[Access]] = {}
        for was, now in self.writes:
            for access in now.statement.accesses:
                if access is now:
                    continue
                old = self.twin(access).access
                if gone is not None and old.statement is gone.statement:
                    need(access.data is not data and self._is_kept(access, old))
                    continue
                need(old.statement is was.statement)
                self.reads_the_same(access, old)
                if access.data is data:
                    need([form.key for form in self.before_boxes.forms(old)] == self.forms)
                else:
                    found.setdefault(access.data, []).append(access)
        return found

    def _is_kept(self, access: Access, old: Access) -> bool:
        """Whether a read of the statement that is no more is read at its place as it was."""
        given = self.twin(access).values
        return (
            all(given.get(loop.var, loop.var) is loop.var for loop in old.loops)
            and same_place(access, old)
            and not mentions(access.node, self.renamed)
            and self.home(self.before, old) == self.home(self.after, access)
        )

    def _comes_before(self, access: Access, reads: Sequence[Access]) -> None:
        """That a write in between comes in front of the statements in the loops that they moved into, and that what they read is written
        there in this very iteration."""
        statement = self.stayed[access.statement]
        write = statement.accesses[access.statement.accesses.index(access)]
        there = Positions(self.into)
        need(there.inside(write) and there.of(write) < min(there.of(now) for _, now in self.writes))
        self.plain_element(self.after, write)
        need(write.is_write and self.after.scop.exact(write))
        touched = Touched(write, self.after_boxes.forms(write), ())
        digits = self.after_boxes.box(touched, self.there, conditions=()).digits
        told = {var for one in digits for var in one}
        need(all(loop.var in told or self.is_single(self.after, loop) for loop in self.into[len(self.there) :]))
        box = self.after_boxes.box(touched, self.into, starts=True)
        need(not box.left)
        for read in reads:
            need(read.buffer is write.buffer)
            need(self.after_boxes.covers(box, Touched(read, self.after_boxes.forms(read), ())))

    def _replaces(self, gone: Access) -> None:
        """That the one new statement stands where the one that is no more stood, and does with its value what was done with what it
        wrote."""
        need(len(self.writes) == 1)
        was, now = self.writes[0]
        write = gone.statement
        need({write, was.statement, now.statement} == self.changed)
        need(sum(access.is_write for access in write.accesses) == 1 and not gone.conditions)
        self.plain_element(self.before, gone)
        need(self.before.scop.exact(gone) and self.within(self.before, gone) and self.place.inside(gone))
        # It stands where that one stood.
        need(len(now.loops) == len(write.loops))
        for mine, other in zip(now.loops, write.loops, strict=True):
            need(mine.var is other.var and same_bounds(mine, other) and self.same_loop.get(other, mine) is mine)
        in_front = [one for one in self.stayed if one.order < write.order]
        need([self.stayed[one] for one in in_front] == [one for one in self.stayed.values() if one.order < now.order])
        # Nobody else reads what it wrote.
        need(gone.data in self.before.scop.homes)
        told = {one.read for one in self.handed}
        need(all(one.write is gone and one.read.statement is was.statement for one in self.handed))
        need({one for one in self.before.scop.accesses if one.data is gone.data} == {gone, *told})
        need(all(one.data is not gone.data for one in self.after.scop.accesses))
        # Each element once, and the reader's in this iteration is that of this iteration.
        need(not any(mentions(index, self.renamed) for index in gone.node.indices))  # type: ignore[union-attr]
        forms = self.before_boxes.forms(gone)
        digits = self.before_boxes.box(Touched(gone, forms, ()), self.around, conditions=()).digits
        known = {var for one in digits for var in one}
        need(all(one.var in known or self.is_single(self.before, one) for one in gone.loops[len(self.around) :]))
        written = [form.key for form in self.after_boxes.forms(gone)]
        for read in told:
            self.plain_element(self.before, read)
            need(read.buffer is gone.buffer and read.is_write is False)
            there = [self.after_boxes.without_single(self.moved(form)) for form in self.before_boxes.forms(read)]
            need([form.key for form in there] == written)

    def _each_once(self) -> None:
        """That each iteration runs once, and those of one element in their order."""
        self.are_old(freely=True)
        old, new = self.boxes(self.there)
        for mine, theirs in ((old.lows, new.lows), (old.extents, new.extents)):
            need([self.moved(form).key for form in mine] == [form.key for form in theirs])
        self.same_sums()
