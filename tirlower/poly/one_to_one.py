"""Memory of another shape, or allocated elsewhere: is each element of it one of the old memory, one to one?

``for i: B[i] = A[i]; C[i] = B[i] + 1`` with ``B`` allocated in front of the loop computes the same with a ``B`` of each iteration,
and the other way round with a dimension for the iterations. Subscripts tell, without a flow of values:

- every statement stays in its place; all accesses of memory ``X``, which is the function's own, are of new memory ``Y`` instead,
  and nothing else accesses it;
- an element is told by its subscripts and the iteration in which its memory was allocated; what tells an element of ``X`` tells
  the one of ``Y`` and the other way round: but for a number, each is one of the others, or the quotient of one.

So the two are one program in which the elements have other names. What does not fit says nothing: then the flow of values is
asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tirlower.ir import BufferLoad, BufferStore, Var
from tirlower.poly.boxes import Boxes, NotThis, named_values, need, same_place
from tirlower.poly.constraint_system import TooManyCases
from tirlower.poly.forms import Form, single
from tirlower.poly.instances import Instances
from tirlower.poly.scop import Access, Loop, Statement
from tirlower.poly.twins import Twin, same_bounds

__all__ = ["one_to_one"]

_Told = tuple[Access, Sequence[Form], Sequence[Form]]
"""An access of the new memory, with what tells its element of the old memory, and of the new one."""


def one_to_one(
    before: Instances,
    after: Instances,
    twins: Mapping[Access, Twin],
    changed: Collection[Statement],
    staying: Collection[Statement],
    also: Collection[Var] = (),
) -> bool:
    """Whether two programs, the second of which has other memory for some of the first one's, certainly compute the same values.

    ``also`` is memory whose accesses stay as they are, and that is allocated elsewhere.
    """
    try:
        _Proof(before, after, twins, changed, staying, also).run()
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
        also: Collection[Var],
    ) -> None:
        self.before = before.scop
        self.after = after.scop
        self.instances = after
        self.twins = twins
        self.changed = changed
        self.staying = staying
        self.also = also
        self.boxes = Boxes(after.scop, after.converter)

    def run(self) -> None:
        """Raises :class:`NotThis` where it is not so."""
        need(not self.changed and not (self.before.pointers.any_wild or self.after.pointers.any_wild))
        need(named_values(self.before) <= named_values(self.after))
        renamed: dict[Var, list[tuple[Access, Access]]] = {}
        for statement in self.after.statements:
            need(statement in self.staying)
            was: list[Access] = []
            for access in statement.accesses:
                twin = self.twins.get(access)
                need(twin is not None)
                assert twin is not None
                was.append(twin.access)
                need(not twin.values and twin.access.is_write == access.is_write)
                if access.data is twin.access.data:
                    need(same_place(access, twin.access))
                if access.data is not twin.access.data or access.data in self.also:
                    renamed.setdefault(twin.access.data, []).append((twin.access, access))
            need(len(set(was)) == len(was) == len(was[0].statement.accesses) if was else True)
        need(bool(renamed) and all(data in renamed for data in self.also))
        for data, pairs in renamed.items():
            self._memory(data, pairs)

    def _memory(self, data: Var, pairs: Sequence[tuple[Access, Access]]) -> None:
        """That one memory took the place of another, or of itself elsewhere."""
        new = pairs[0][1].data
        need(data in self.before.homes and new in self.after.homes)
        olds, news = {old for old, _ in pairs}, {access for _, access in pairs}
        need(all(access in olds for access in self.before.accesses if access.data is data))
        need(all(access in news for access in self.after.accesses if access.data is new))
        if new is not data:
            need(new not in self.before.homes and all(access.data is not new for access in self.before.accesses))
            need(all(access.data is not data for access in self.after.accesses))
        for old, access in pairs:
            need(old.buffer is pairs[0][0].buffer and access.buffer is pairs[0][1].buffer)
            for one in (old, access):
                node = one.node
                need(isinstance(node, (BufferLoad, BufferStore)) and node.predicate is None and one.site is None)
                need(one.buffer is not None and one.data is one.buffer.data and not one.buffer.strides)
            need(self.after.exact(access) and not self.instances.lanes(access))
        mine, theirs = self.before.homes[data], self.after.homes[new]
        depth = 0
        while depth < min(len(mine), len(theirs)) and _is_same(mine[depth], theirs[depth]):
            depth += 1
        told = [
            (access, [*self._iteration(mine[depth:]), *self.boxes.forms(old)],
             [*self._iteration(theirs[depth:]), *self.boxes.forms(access)])
            for old, access in pairs
        ]  # fmt: skip
        self._tells(told)
        self._tells([(access, new_forms, old_forms) for access, old_forms, new_forms in told])

    def _iteration(self, loops: Sequence[Loop]) -> list[Form]:
        return [self.boxes.without_single(single(loop.var)) for loop in loops]

    def _tells(self, told: Sequence[_Told]) -> None:
        """That each form of the second kind is known from those of the first."""
        known = [list(first) for _, first, _ in told]
        left = [
            n
            for n, form in enumerate(told[0][2])
            if form.terms
            or any(second[n].key != form.key for _, _, second in told)  # no number that is the same everywhere
        ]
        while left:
            now = [(access, mine, second) for (access, _, second), mine in zip(told, known, strict=True)]
            found = next(((m, n) for n in left for m in range(len(known[0])) if self._leads(now, m, n)), None)
            need(found is not None)
            assert found is not None
            m, n = found
            for (_, _, second), mine in zip(told, known, strict=True):
                mine.append(mine[m].plus(second[n], -max(_weight(mine[m], second[n]), 1)))  # the other digits
            left.remove(n)

    def _leads(self, told: Sequence[_Told], m: int, n: int) -> bool:
        return self._shifted(told, m, n) or self._quotient(told, m, n)

    @staticmethod
    def _shifted(told: Sequence[_Told], m: int, n: int) -> bool:
        """Whether a form is another one and a number, the same in all accesses."""
        rests = [other[n].plus(one[m], -1) for _, one, other in told]
        return all(not rest.terms and rest.const == rests[0].const for rest in rests)

    def _quotient(self, told: Sequence[_Told], m: int, n: int) -> bool:
        """Whether a form is a variable that is the leading digit of another one, with the same weight in all accesses."""
        [weight, *others] = {_weight(one[m], other[n]) for _, one, other in told}
        if others or weight < 1:
            return False
        try:
            for access, one, other in told:
                rest = one[m].plus(other[n], -weight)
                self.boxes.at_least(access, rest)
                self.boxes.at_least(access, (-rest).shifted(weight - 1))
        except NotThis:
            return False
        return True


def _weight(form: Form, digit: Form) -> int:
    """By what a variable alone is multiplied in a form; 0 where the other one is no variable."""
    if len(digit.terms) != 1 or digit.const:
        return 0
    [(dim, factor)] = digit.terms.items()
    return form.terms.get(dim, 0) if factor == 1 else 0


def _is_same(one: Loop, other: Loop) -> bool:
    return one.var is other.var and same_bounds(one, other)
