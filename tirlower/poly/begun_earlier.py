"""A reduction that begins earlier: do its updates find what its init wrote, where that is written in front of the nest at once?

``for k, i: { if k == 0: C[i] = 0; C[i] += A[k, i] }`` becomes ``for i: C[i] = 0`` and the nest without its init. Boxes and positions
tell, without a flow of values:

- the init writes a number, once to each element, in the first iteration of the loops that it does not go along;
- whatever else accesses that memory in its nest does so in the same loops, at the same element, after it;
- the new init writes the same box under the same conditions, in front of the nest, and between the two nothing accesses it.

What does not fit says nothing: then the flow of values is asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tirlower.ir import BufferLoad, BufferStore, Call, Expr, Var
from tirlower.ir.query import has
from tirlower.ir.structural import structural_equal
from tirlower.poly.boxes import Boxes, NotThis, Positions, Touched, alike, named_values, need, same_place
from tirlower.poly.conditions import all_of, negate
from tirlower.poly.constraint_system import TooManyCases
from tirlower.poly.forms import single
from tirlower.poly.instances import Instances
from tirlower.poly.scop import Access, Loop, Statement
from tirlower.poly.twins import Twin

__all__ = ["begun_earlier"]


def begun_earlier(
    before: Instances,
    after: Instances,
    twins: Mapping[Access, Twin],
    changed: Collection[Statement],
    staying: Collection[Statement],
) -> bool:
    """Whether two programs, of which the second has one init elsewhere, certainly compute the same values."""
    try:
        _Proof(before, after, twins, changed, staying).run()
    except (NotThis, TooManyCases):
        return False
    return True


class _Proof:
    def __init__(
        self,
        before: Instances,
        after: Instances,
        twins: Mapping[Access, Twin],
        changed: Collection[Statement],
        staying: Collection[Statement],
    ) -> None:
        self.before = before
        self.after = after
        self.twins = twins
        self.changed = changed
        self.staying = staying
        self.old, self.new = Boxes(before.scop, before.converter), Boxes(after.scop, after.converter)

    def run(self) -> None:
        """Raises :class:`NotThis` where it is not so."""
        were = set(self.before.scop.statements)
        need(len(self.changed) == 2)
        first, then = sorted(self.changed, key=lambda one: one not in were)
        need(first in were and then not in were)
        init, new = self._number(self.before, first), self._number(self.after, then)
        twin = self.twins.get(new)
        need(twin is not None and twin.access is init and new.buffer is init.buffer)
        need(structural_equal(_value(first), _value(then)))
        need(named_values(self.before.scop) <= named_values(self.after.scop))
        self._others_stay(then)
        depth, place, at = self._nest(init, new)
        for access in self.after.scop.accesses:
            if access.data is new.data and access is not new and place.inside(access):
                need(not place.of(new) <= place.of(access) < at)
        around = self._first_of_each(init, depth)
        self._same_box(init, new, around, place.around)

    def _number(self, program: Instances, statement: Statement) -> Access:
        """The one access of a statement that stores a number."""
        node = statement.node
        need(isinstance(node, BufferStore) and node.predicate is None and len(statement.accesses) == 1)
        assert isinstance(node, BufferStore)
        need(not any(has(kind, node.value) for kind in (Var, BufferLoad, Call)))
        [access] = statement.accesses
        need(access.site is None and access.data is node.buffer.data and not program.lanes(access))
        need(program.scop.exact(access))
        return access

    def _others_stay(self, new: Statement) -> None:
        for statement in self.after.scop.statements:
            if statement is new:
                continue
            need(statement in self.staying)
            for access in statement.accesses:
                twin = self.twins.get(access)
                need(twin is not None)
                assert twin is not None
                need(not twin.values and twin.access.is_write == access.is_write and same_place(access, twin.access))
                need(len(twin.access.statement.accesses) == len(statement.accesses))

    def _nest(self, init: Access, new: Access) -> tuple[int, Positions, int]:
        """How many loops the new init has in common with the nest of the old one, the places in them, and that of the nest."""
        for statement in self.after.scop.statements:
            twins = [self.twins[access].access for access in statement.accesses if access in self.twins]
            if statement is new.statement or not twins or twins[0].statement.loops != init.loops:
                continue
            depth = 0
            while depth < min(len(new.loops), len(statement.loops)) and new.loops[depth] is statement.loops[depth]:
                depth += 1
            need(len(init.loops) > depth)
            place = Positions(new.loops[:depth])
            at = place.of(statement.accesses[0])
            need(place.of(new) < at)
            return depth, place, at
        raise NotThis

    def _first_of_each(self, init: Access, depth: int) -> tuple[Loop, ...]:
        """That the init is the first access of each element in its nest, and comes once; the loops around the nest."""
        forms = [form.key for form in self.old.forms(init)]
        around = init.loops[:depth]
        for access in self.before.scop.accesses:
            if access is init or access.data is not init.data or access.loops[: depth + 1] != init.loops[: depth + 1]:
                continue
            need(access.loops == init.loops and access.order > init.order and self.before.scop.exact(access))
            need(isinstance(access.node, (BufferLoad, BufferStore)) and access.buffer is init.buffer)
            need(access.site is None and not self.before.lanes(access))
            need([form.key for form in self.old.forms(access)] == forms)
        axes = {dim for form in self.old.forms(init) for dim in form.terms}
        for loop in init.loops[depth:]:
            if loop.var not in axes:
                self.old.at_least(init, loop.start - single(loop.var))
        return around

    def _same_box(self, init: Access, new: Access, around: tuple[Loop, ...], there: tuple[Loop, ...]) -> None:
        """That both inits write the same elements in each iteration of the loops around."""
        one = self.old.box(Touched(init, self.old.forms(init), ()), around, starts=True)
        other = self.new.box(Touched(new, self.new.forms(new), ()), there)
        for mine, theirs in ((one.lows, other.lows), (one.extents, other.extents)):
            need(all(map(alike, mine, theirs)))
        need(not one.inner and not other.inner)
        need(self.new.never(there, [*one.left, negate(all_of(other.left))]))
        need(self.new.never(there, [*other.left, negate(all_of(one.left))]))


def _value(statement: Statement) -> Expr:
    assert isinstance(statement.node, BufferStore)
    return statement.node.value
