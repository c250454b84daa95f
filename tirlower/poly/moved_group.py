"""Statements that run elsewhere: which of its old iterations each new one is, told by forms.

The proofs that need no flow of values for what moves (:mod:`tirlower.poly.computed_again`, :mod:`tirlower.poly.run_earlier`) have this
in common: all other statements stay, those that moved were in one nest and are in one nest again, each does what it did in the
iteration that is said, and the iterations that write one element come in their old order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tirlower.ir import BufferLoad, BufferStore, Expr, Var
from tirlower.ir.query import mentions
from tirlower.poly.boxes import Box, Boxes, Touched, named_values, need, same_place
from tirlower.poly.conditions import AtLeast, Condition, Equal, at_least, equal, negate
from tirlower.poly.constraint_system import BOTH, System
from tirlower.poly.forms import Dim, Div, Form, constant, single
from tirlower.poly.instances import Instances
from tirlower.poly.scop import Access, Loop, Statement
from tirlower.poly.twins import Twin, same_bounds

__all__ = ["MovedGroup", "are_alike"]


class MovedGroup:
    """The statements that moved, as they were (``old``) and as they are (``new``), in the order of the text.

    ``around`` and ``there`` are the loops that both nests have in common, of either program; ``own`` and ``mine`` the further ones.
    ``values`` are the old loops in terms of the new ones. Raises :class:`NotThis` where the programs are of another kind.
    """

    def __init__(
        self,
        before: Instances,
        after: Instances,
        twins: Mapping[Access, Twin],
        changed: Collection[Statement],
        staying: Collection[Statement],
    ) -> None:
        self.before, self.after = before, after
        self.twins = twins
        self.staying = staying
        self.before_boxes = Boxes(before.scop, before.converter)
        self.after_boxes = Boxes(after.scop, after.converter)
        need(not (before.scop.pointers.any_wild or after.scop.pointers.any_wild))
        self.changed = moved = set(changed)
        self.old = [one for one in before.scop.statements if one in moved]
        self.new = [one for one in after.scop.statements if one in moved]
        need(bool(self.old) and bool(self.new))
        self.same_loop: dict[Loop, Loop] = {}
        self.renamed: set[Var] = set()
        self.stayed: dict[Statement, Statement] = {}

    # The others

    def others_stay(self) -> None:
        """All other statements stay, with the names that they use."""
        mine, theirs = named_values(self.before.scop), named_values(self.after.scop)
        other = self.renamed = {var for var, _ in mine ^ theirs}
        rest = [one for one in self.before.scop.statements if one not in self.changed]
        stay = [one for one in self.after.scop.statements if one not in self.changed]
        need(len(rest) == len(stay))
        loops: dict[Loop, Loop] = {}
        for was, now in zip(rest, stay, strict=True):
            need(now in self.staying and len(was.loops) == len(now.loops))
            need(len(was.accesses) == len(now.accesses) and len(was.conditions) == len(now.conditions))
            for old, new in zip(was.loops, now.loops, strict=True):
                need(loops.setdefault(old, new) is new and old.var is new.var and same_bounds(old, new))
            for access in now.accesses:
                twin = self.twins.get(access)
                need(twin is not None and twin.access.statement is was and not twin.values)
                need(twin is not None and twin.access.is_write == access.is_write and same_place(access, twin.access))
                need(twin is not None and self.home(self.before, twin.access) == self.home(self.after, access))
            need(not other or not mentions(now.node, other))
            need(not other or not any(mentions(bound, other) for loop in now.loops for bound in _bounds(loop)))
        need(len(set(loops.values())) == len(loops))
        self.same_loop = loops
        self.stayed = dict(zip(rest, stay, strict=True))

    @staticmethod
    def home(program: Instances, access: Access) -> list[Var] | None:
        """The variables of the loops around the allocation of what is accessed; None where it is not the function's own."""
        found = program.scop.homes.get(access.data)
        return None if found is None else [loop.var for loop in found]

    # Those that moved

    def pair(self, olds: Sequence[Statement], news: Sequence[Statement]) -> None:
        """Each of some statements is one of the old ones, all in one iteration of one nest."""
        need(len(olds) == len(news))
        need(all(one.loops == olds[0].loops for one in olds) and all(one.loops == news[0].loops for one in news))
        self.writes: list[tuple[Access, Access]] = []
        for before, after in zip(olds, news, strict=True):
            self.writes.append((_written(before), _written(after)))
            need(self.twin(self.writes[-1][1]).access is self.writes[-1][0])
        write, new = self.writes[0]
        given = self.twin(new).values
        depth = 0
        for mine, other in zip(write.loops, new.loops, strict=False):
            if (
                mine.var is not other.var
                or not same_bounds(mine, other)
                or given.get(mine.var, mine.var) is not mine.var
            ):
                break
            depth += 1
        self.around, self.there = write.loops[:depth], new.loops[:depth]
        need(all(self.same_loop.get(mine, other) is other for mine, other in zip(self.around, self.there, strict=True)))
        need(not any(mentions(bound, self.renamed) for loop in self.around for bound in _bounds(loop)))
        self.own, self.mine = write.loops[depth:], new.loops[depth:]
        self._free = {loop.var for loop in self.around}
        self._bound = {loop.var for loop in new.loops}
        self._params = self.before.scop.space.iterated | self.after.scop.space.iterated
        self.values: dict[Var, Form] = {}
        for loop in self.own:
            self.values[loop.var] = self._value(given.get(loop.var, loop.var))
        for was, now in self.writes:
            for program, one in ((self.before, was), (self.after, now)):
                self.plain_element(program, one)
                need(isinstance(one.node, BufferStore) and one.statement.node is one.node)
                need(program.scop.exact(one) and self.within(program, one))
            need(was.buffer is write.buffer and now.buffer is new.buffer and was.buffer is now.buffer)
            need(self.same_element(now, was))
        forms = [form.key for form in self.before_boxes.forms(write)]
        need(all([form.key for form in self.before_boxes.forms(was)] == forms for was, _ in self.writes))
        self.forms = forms

    def twin(self, access: Access) -> Twin:
        """What an access was."""
        found = self.twins.get(access)
        need(found is not None and found.access.is_write == access.is_write)
        assert found is not None
        return found

    def plain_element(self, program: Instances, access: Access) -> None:
        """That an access is of the element that its subscripts name."""
        node = access.node
        need(isinstance(node, (BufferLoad, BufferStore)) and node.predicate is None and access.site is None)
        need(access.buffer is not None and access.data is access.buffer.data and not program.lanes(access))

    def within(self, program: Instances, access: Access) -> bool:
        """Whether what is accessed is allocated around the loops in common, in both programs alike, or not at all."""
        home = self.home(program, access)
        around = [loop.var for loop in self.around]
        return home is None or home == around[: len(home)]

    def reads_the_same(self, access: Access, old: Access) -> None:
        """That a read of a new statement is of the element of one of the old statement, in the iteration that is said."""
        for program, one in ((self.before, old), (self.after, access)):
            self.plain_element(program, one)
            need(self.within(program, one))
        self.said(access)
        need(access.buffer is old.buffer and self.same_element(access, old))

    def said(self, access: Access) -> None:
        """That an access is said to be one in the same iterations as the writes."""
        given = self.twin(access).values
        for loop in self.own:
            need(self._value(given.get(loop.var, loop.var)).key == self.values[loop.var].key)
        need(all(given.get(loop.var, loop.var) is loop.var for loop in self.around))

    def same_element(self, now: Access, was: Access) -> bool:
        """Whether an access is of the element of an old one, in the iteration that is said."""
        mine = [self.after_boxes.without_single(self.moved(form)) for form in self.before_boxes.forms(was)]
        return [form.key for form in mine] == [form.key for form in self.after_boxes.forms(now)]

    def _value(self, value: Expr) -> Form:
        """An old loop in terms of the new ones."""
        made = self.after.converter.lin(value)
        need(all(map(self._known, made.terms)))
        return made

    def _known(self, dim: Dim) -> bool:
        """Whether a dim means the same wherever the new statements run."""
        if isinstance(dim, Div):
            return all(map(self._known, dim.of.terms))
        return isinstance(dim, Var) and (dim in self._bound or dim not in self._params)

    def moved(self, form: Form) -> Form:
        """A form over the old loops in terms of the new ones."""
        made = constant(form.const)
        for dim, factor in form.terms.items():
            if isinstance(dim, Div):
                value = self.after.scop.space.floordiv(self.moved(dim.of), dim.divisor)
            else:
                need(isinstance(dim, Var))
                assert isinstance(dim, Var)
                known = self.values.get(dim)
                need(known is not None or dim in self._free or dim not in self._params)
                value = single(dim) if known is None else known
            made = made.plus(value, factor)
        return made

    def _condition(self, condition: Condition) -> Condition:
        need(isinstance(condition, (AtLeast, Equal)))
        assert isinstance(condition, (AtLeast, Equal))
        form = self.moved(condition.lin)
        return at_least(form) if isinstance(condition, AtLeast) else equal(form)

    # The iterations

    def are_old(self, freely: bool = False) -> None:
        """That each new instance is an old one, and that nothing but ``further`` says which of the old ones there are: conditions of the
        new writes, the same of all. ``freely``: that there are none."""
        every: list[list[Condition]] = []
        for was, now in self.writes:
            left = list(now.conditions)
            for condition in map(self._condition, was.conditions):
                same = next((one for one in left if are_alike(one, condition)), None)
                if same is not None:
                    left.remove(same)
                elif not condition.is_true:
                    need(isinstance(condition, (AtLeast, Equal)))
                    assert isinstance(condition, (AtLeast, Equal))
                    self.always(now, condition.lin, now.conditions)
                    if isinstance(condition, Equal):
                        self.always(now, -condition.lin, now.conditions)
            every.append(left)
        self.further = every[0]
        need(not (freely and self.further))
        for left in every[1:]:
            need(len(left) == len(self.further))
            need(all(any(are_alike(one, other) for other in left) for one in self.further))
            need(all(any(are_alike(one, other) for other in self.further) for one in left))
        for _, now in self.writes:
            for loop in self.own:
                need(loop.extent is not None and not loop.overflows and loop.regular)
                assert loop.extent is not None
                value, start = self.values[loop.var], self.moved(loop.start)
                self.always(now, value - start, self.further)
                self.always(now, (start + self.moved(loop.extent) - value).shifted(-1), self.further)

    def always(self, access: Access, form: Form, conditions: Sequence[Condition]) -> None:
        """That a form is at least 0 in all iterations of an access where some conditions hold."""
        scop = self.after.scop
        if scop.space.interval(form)[0] >= 0:
            return
        system = System(scop.space, frozenset(scop.space.iterated))
        for condition in (*scop.context, *conditions, *(c for loop in access.loops for c in loop.conditions)):
            system.add(condition, BOTH)
        system.add(negate(at_least(form)), BOTH)
        need(system.is_empty())

    def boxes(self, around: Sequence[Loop]) -> tuple[Box, Box]:
        """What the statements wrote in an iteration of the loops in common, and what they write in one of other loops, whatever their
        conditions: each element in one iteration of the loops that are its digits. Sets ``sums`` and ``inner``, the further loops."""
        was, now = self.writes[0]
        old = self.before_boxes.box(Touched(was, self.before_boxes.forms(was), ()), self.around, conditions=())
        new = self.after_boxes.box(Touched(now, self.after_boxes.forms(now), ()), tuple(around), conditions=())
        digits = [{var for one in box.digits for var in one} for box in (old, new)]
        self.sums = [loop for loop in self.own if loop.var not in digits[0] and not self.is_single(self.before, loop)]
        self.inner = [
            loop
            for loop in now.loops[len(around) :]
            if loop.var not in digits[1] and not self.is_single(self.after, loop)
        ]
        return old, new

    @staticmethod
    def is_single(program: Instances, loop: Loop) -> bool:
        """Whether a loop has one iteration."""
        low, high = program.scop.space.interval_of_dim(loop.var)
        return low == high and loop.extent is not None and loop.extent.is_constant and loop.extent.const == 1

    def same_sums(self) -> None:
        """That the iterations that write one element come in their old order, each once: numbered one after another, the new loops
        beside the digits count as the old ones do."""
        old, new = self._numbered(self.before, self.sums), self._numbered(self.after, self.inner)
        need(old[1].key == new[1].key)
        need(self.moved(old[0]).key == new[0].key)

    def _numbered(self, program: Instances, loops: Sequence[Loop]) -> tuple[Form, Form]:
        """The number of an iteration of some loops, and how many there are."""
        number, count = constant(0), constant(1)
        for loop in reversed(loops):
            need(loop.extent is not None and not loop.overflows and loop.regular and count.is_constant)
            assert loop.extent is not None
            for bound in (loop.start, loop.extent):
                need(
                    all(isinstance(dim, Var) and (dim in self._free or dim not in self._params) for dim in bound.terms)
                )
            number = number.plus(single(loop.var) - loop.start, count.const)
            count = loop.extent.scaled(count.const)
        return number, count


def _written(statement: Statement) -> Access:
    """The one write of a statement."""
    found = [access for access in statement.accesses if access.is_write]
    need(len(found) == 1)
    return found[0]


def _bounds(loop: Loop) -> list[Expr]:
    return [
        bound for bound in (getattr(loop.node, "min", None), getattr(loop.node, "extent", None)) if bound is not None
    ]


def are_alike(one: Condition, other: Condition) -> bool:
    """Whether two conditions of one program are comparisons of the same form."""
    if isinstance(one, AtLeast) and isinstance(other, AtLeast):
        return one.lin.key == other.lin.key
    return isinstance(one, Equal) and isinstance(other, Equal) and one.lin.key in (other.lin.key, (-other.lin).key)
