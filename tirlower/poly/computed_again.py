"""A computation run where its results are read: is each of them there, as it was, whenever it is read?

``for i: B[i] = f(A[i])`` and ``for j: for k: C[j] += B[j + k]`` become one nest ``for j``, in which the part of ``B`` that an iteration
reads is computed first, be it several times in all. Boxes and positions tell, without a flow of values:

- the statements that moved write one memory, the function's own, of which all that others do is to read it later; each of its
  elements is written by the iterations of the loops that are no digits of its subscripts, which come in their old order;
- in an iteration of the loops that are around both, what moved comes first, and writes all that is read there;
- whatever reads of the result there are in the group come after a write of the element in the same iteration;
- what the group reads is written nowhere between its old place and the readers, nor between its new place and them.

What does not fit says nothing: then the flow of values is asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tirlower.ir import Var
from tirlower.poly.boxes import NotThis, Positions, Touched, at_first, common_loops, need
from tirlower.poly.conditions import Condition
from tirlower.poly.constraint_system import TooManyCases
from tirlower.poly.instances import Instances
from tirlower.poly.moved_group import MovedGroup, are_alike
from tirlower.poly.scop import Access, Statement
from tirlower.poly.twins import Twin

__all__ = ["computed_again"]


def computed_again(
    before: Instances,
    after: Instances,
    twins: Mapping[Access, Twin],
    changed: Collection[Statement],
    staying: Collection[Statement],
) -> bool:
    """Whether two programs, the second of which computes something where it is read, certainly compute the same values."""
    try:
        _Proof(before, after, twins, changed, staying).run()
    except (NotThis, TooManyCases):
        return False
    return True


class _Proof(MovedGroup):
    def run(self) -> None:
        """Raises :class:`NotThis` where it is not so."""
        self.others_stay()
        self.pair(self.old, self.new)
        data = self.writes[0][0].data
        need(data in self.before.scop.homes)
        place = Positions(self.around)
        at = [place.of(was) for was, _ in self.writes]
        before = self._readers(self.before, data)
        need(all(place.inside(read) and place.of(read) > max(at) for read in before))
        readers = self._readers(self.after, data)
        common = common_loops([self.writes[0][1].loops, *(read.loops for read in readers)])
        need(len(common) >= len(self.there))
        there = Positions(common)
        need(max(there.of(now) for _, now in self.writes) < min(map(there.of, readers)))
        inputs = self._inputs(data)
        self._kept(self.before, inputs, place, at, before)
        outside = Positions(self.there)
        self._kept(self.after, inputs, outside, [outside.of(now) for _, now in self.writes], readers)
        self.are_old()
        self.boxes(common)
        self.same_sums()
        self._begins(data)
        self._covers(readers)

    def _readers(self, program: Instances, data: Var) -> list[Access]:
        """The accesses of the result by others: reads."""
        found = [one for one in program.scop.accesses if one.data is data and one.statement not in self.changed]
        need(bool(found) and not any(one.is_write for one in found))
        for read in found:
            self.plain_element(program, read)
            need(read.buffer is self.writes[0][0].buffer)
        return found

    def _inputs(self, data: Var) -> set[Var]:
        """What the group reads, which is the same at both places, and is no result of its own."""
        inputs: set[Var] = set()
        self.sums_up: set[Statement] = set()
        for was, now in self.writes:
            for access in now.statement.accesses:
                if access is now:
                    continue
                old = self.twin(access).access
                need(old.statement is was.statement)
                self.reads_the_same(access, old)
                if access.data is data:
                    need([form.key for form in self.before_boxes.forms(old)] == self.forms)
                    self.sums_up.add(was.statement)
                else:
                    inputs.add(access.data)
        return inputs

    def _kept(
        self, program: Instances, inputs: set[Var], place: Positions, at: list[int], readers: list[Access]
    ) -> None:
        """That what the group reads is written nowhere from its place on to the readers: between the two places, either of which may
        be the first, neither."""
        last = max(map(place.of, readers))
        for access in program.scop.accesses:
            if access.is_write and access.data in inputs and place.inside(access):
                need(not min(at) <= place.of(access) <= last)

    def _begins(self, data: Var) -> None:
        """That no old value of the result has a part in a new one: an element is written in the first iteration, by something that does
        not read it, wherever it is written at all."""
        firsts = {loop.var: loop.start for loop in self.sums}
        fresh = not self.around or len(self.before.scop.homes[data]) == len(self.around)
        if fresh and not self.sums_up:
            return
        for was, _ in self.writes:
            if was.statement in self.sums_up:
                break
            left = [one for one in (at_first(given, firsts) for given in was.conditions) if not one.is_true]
            if not left or (fresh and all(self._holds(one) for one in left)):
                return
        raise NotThis

    def _holds(self, condition: Condition) -> bool:
        """Whether a condition holds wherever a statement reads the result."""
        sums = {loop.var for loop in self.sums}
        if any(sums & self.before.scop.space.deps(form) for form in condition.forms()):
            return False
        reading = [was for was, _ in self.writes if was.statement in self.sums_up]
        return all(any(are_alike(condition, one) for one in was.conditions) for was in reading)

    def _covers(self, readers: list[Access]) -> None:
        """That all that is read in an iteration of the loops in common is written in it."""
        _, now = self.writes[0]
        inner = {loop.var for loop in self.inner}
        space = self.after.scop.space
        need(not any(inner & space.deps(form) for one in self.further for form in one.forms()))
        common = common_loops([now.loops, *(read.loops for read in readers)])
        touched = Touched(now, self.after_boxes.forms(now), ())
        box = self.after_boxes.box(touched, common, conditions=self.further)
        need(not box.left)
        for read in readers:
            need(self.after_boxes.covers(box, Touched(read, self.after_boxes.forms(read), ())))
