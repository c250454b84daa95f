"""A part of memory lives elsewhere for a while: do copies hand on what was there? Decided by the forms of subscripts alone.

Most steps that feed a program from elsewhere (caches, packed operands, tiles in registers) are of one kind: every statement
stays; some accesses of memory ``X`` are of new memory ``Y`` instead; copies bring ``X`` to ``Y`` before, and back behind. That
such a step keeps each value is a matter of boxes and positions, which needs no flow of values and costs a hundredth of it:

- all accesses of ``Y`` stand in the body of one loop (or of the function); during an iteration, first come the copies in, then
  what was redirected, then the copies out;
- one map, affine and one to one on the shape of ``Y``, gives for each access of ``Y`` the element of ``X`` that it stands for;
- meanwhile nothing else writes ``X``, and nothing else reads it where something writes ``Y``;
- every element of ``Y`` that is read was copied in, or written before; every one that is written is copied out, unless nothing
  accesses ``X`` any more, which ends with the function.

What does not fit says nothing: then the flow of values is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from tirlower.ir import Buffer, BufferLoad, BufferStore, IntImm, Var
from tirlower.poly.boxes import Boxes, NotThis, Positions, Touched, common_loops, named_values, need, same_place
from tirlower.poly.conditions import Condition, all_of, negate
from tirlower.poly.constraint_system import TooManyCases
from tirlower.poly.forms import Dim, Form
from tirlower.poly.instances import Instances
from tirlower.poly.scop import Access, Loop, Statement
from tirlower.poly.twins import Twin

__all__ = ["fed_through_copies"]


def fed_through_copies(
    before: Instances,
    after: Instances,
    twins: Mapping[Access, Twin],
    copies: Collection[Statement],
    changed: Collection[Statement],
    staying: Collection[Statement],
) -> bool:
    """Whether two programs, of which the second has copies that the first has not, certainly compute the same values."""
    try:
        _Proof(before, after, twins, copies, changed, staying).run()
    except (NotThis, TooManyCases):
        return False
    return True


@dataclass(eq=False)
class _Stage:
    """New memory: the accesses that were redirected to it, each with what it was; its copies, each as its access of the old
    memory and that of the new one."""

    old: Buffer
    new: Buffer
    redirected: list[tuple[Access, Access]] = field(default_factory=list)
    filled: list[tuple[Access, Access]] = field(default_factory=list)
    emptied: list[tuple[Access, Access]] = field(default_factory=list)

    @property
    def accesses(self) -> list[Access]:
        """The accesses of the new memory."""
        return [pair[0] for pair in self.redirected] + [pair[1] for pair in (*self.filled, *self.emptied)]


class _Proof:
    def __init__(
        self,
        before: Instances,
        after: Instances,
        twins: Mapping[Access, Twin],
        copies: Collection[Statement],
        changed: Collection[Statement],
        staying: Collection[Statement],
    ) -> None:
        self.before = before.scop
        self.after = after.scop
        self.instances = after
        self.twins = twins
        self.copies = copies
        self.changed = changed
        self.staying = staying
        self.stages: dict[Var, _Stage] = {}
        self.boxes = Boxes(after.scop, after.converter)
        self.old = {access.data for access in self.before.accesses}

    def run(self) -> None:
        """Raises :class:`NotThis` where it is not so."""
        need(all(statement in self.copies for statement in self.changed))
        need(named_values(self.before) <= named_values(self.after))
        for statement in self.after.statements:
            if statement in self.copies:
                self._copy(statement)
            else:
                self._stays(statement)
        need(len({stage.old.data for stage in self.stages.values()}) == len(self.stages))
        for stage in self.stages.values():
            self._stage(stage)

    # What there is

    def _copy(self, statement: Statement) -> None:
        need(len(statement.accesses) == 2)
        read, write = statement.accesses
        need(write.is_write and not read.is_write)
        into = self._is_new(write.data)
        need(into != self._is_new(read.data))
        old, new = (read, write) if into else (write, read)
        stage = self._of(old, new)
        (stage.filled if into else stage.emptied).append((old, new))

    def _stays(self, statement: Statement) -> None:
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
            else:
                need(self._is_new(access.data))
                self._of(twin.access, access).redirected.append((access, twin.access))
        need(len(set(was)) == len(was) == len(was[0].statement.accesses) if was else True)

    def _is_new(self, data: Var) -> bool:
        return data in self.after.homes and data not in self.before.homes and data not in self.old

    def _of(self, old: Access, new: Access) -> _Stage:
        for access in (old, new):
            need(access.buffer is not None and access.site is None and access.indices is not None and access.must)
            need(isinstance(access.node, (BufferLoad, BufferStore)) and access.node.predicate is None)
            need(access.buffer is access.node.buffer and access.data is access.node.buffer.data)  # type: ignore[union-attr]
            need(not self.instances.lanes(access))
        assert old.buffer is not None and new.buffer is not None
        found = self.stages.setdefault(new.data, _Stage(old.buffer, new.buffer))
        need(found.old is old.buffer and found.new is new.buffer and old.buffer.dtype == new.buffer.dtype)
        need(not old.buffer.strides and not new.buffer.strides)
        return found

    # Whether it hands on what was there

    def _stage(self, stage: _Stage) -> None:
        accesses = stage.accesses
        need(all(self.after.exact(access) for access in accesses))
        around = common_loops(access.loops for access in accesses)
        writes = any(access.is_write for access, _ in stage.redirected)
        place = Positions(around)
        need(bool(stage.redirected) and (bool(stage.emptied) or not writes or self._is_dead(stage.old.data)))
        used = [place.of(access) for access, _ in stage.redirected]
        fills = [place.of(new) for _, new in stage.filled]
        empties = [place.of(new) for _, new in stage.emptied]
        need(max(fills, default=-1) < min(used) and max(used) < min(empties, default=max(used) + 1))
        first, last = min([*fills, *used]), max([*empties, *used])
        own = {id(old) for old, _ in (*stage.filled, *stage.emptied)}
        for access in self.after.accesses:
            if access.data is stage.old.data and id(access) not in own and place.inside(access):
                need(not (first <= place.of(access) <= last and (writes or access.is_write)))
        self.boxes.shared = set.intersection(*({id(c) for c in access.conditions} for access in accesses))
        self._one_map(stage, around)
        self._filled(stage, around, place, writes)

    def _is_dead(self, data: Var) -> bool:
        """Whether nothing accesses memory of the function's own any more."""
        return data in self.before.homes and all(access.data is not data for access in self.after.accesses)

    def _one_map(self, stage: _Stage, around: tuple[Loop, ...]) -> None:
        """One affine map, one to one, gives the old element of each access of the new memory."""
        free = {loop.var for loop in around}
        pairs = [(self.boxes.forms(old), self.boxes.forms(new)) for old, new in (*stage.filled, *stage.emptied)]
        pairs += [(self.boxes.forms(old), self.boxes.forms(new)) for new, old in stage.redirected]
        shape = [extent.value if isinstance(extent, IntImm) else None for extent in stage.new.shape]
        olds, news = pairs[0]
        used: set[int] = set()
        for dim, old in enumerate(olds):
            factors = _combination(old, news, lambda one: self.boxes.is_free(one, free))
            for mine, other in pairs:
                rest = mine[dim]
                for axis, factor in factors.items():
                    rest = rest.plus(other[axis], -factor)
                if (mine, other) == pairs[0]:
                    kept = rest
                need(all(self.boxes.is_free(one, free) for one in rest.terms) and rest.key == kept.key)
            reach = 0
            for axis, factor in sorted(factors.items(), key=lambda one: abs(one[1])):
                need(axis not in used and abs(factor) > reach)
                used.add(axis)
                size = shape[axis]
                reach = reach + abs(factor) * (size - 1) if size is not None else 1 << 62
        need(all(axis in used or size == 1 for axis, size in enumerate(shape)))
        extents = [self.instances.converter.lin(extent) for extent in stage.new.shape]
        for access in stage.accesses:
            for index, extent in zip(self.boxes.forms(access), extents, strict=True):
                self.boxes.at_least(access, index)
                self.boxes.at_least(access, (extent - index).shifted(-1))

    def _filled(self, stage: _Stage, around: tuple[Loop, ...], place: Positions, writes: bool) -> None:
        """What is read of the new memory is there, what is written there is brought back."""
        touched = [Touched(access, self.boxes.forms(was), self.boxes.forms(access)) for access, was in stage.redirected]
        filled = [Touched(new, self.boxes.forms(old), self.boxes.forms(new)) for old, new in stage.filled]
        emptied = [Touched(new, self.boxes.forms(old), self.boxes.forms(new)) for old, new in stage.emptied]
        read = [one for one in touched if not one.access.is_write] + emptied
        rest: list[Condition] = []  # under which nothing is copied in
        boxes = [self.boxes.box(one, around) for one in filled]
        whole = [box for box in boxes if all(self.boxes.covers(box, one) for one in read)]
        if whole and not whole[0].left:
            read = []
        elif whole:
            rest = [negate(all_of(whole[0].left))]
        if read:
            written = [one for one in touched if one.access.is_write]
            need(any(self._written_before(one, around, place, read, rest) for one in written))
        ways = [self.boxes.box(one, around) for one in emptied]
        need(not any(box.left for box in ways))
        for one in touched:
            need(not (one.access.is_write and ways) or any(self.boxes.covers(box, one) for box in ways))
        if stage.old.data in self.after.homes:
            for old, _ in stage.filled:
                self._has_been_written(old)

    def _written_before(
        self,
        write: Touched,
        around: tuple[Loop, ...],
        place: Positions,
        read: Sequence[Touched],
        rest: Sequence[Condition],
    ) -> bool:
        """Whether a write is of all that is read, before that, in each iteration of the loops around under a condition."""
        try:
            box = self.boxes.box(write, around, starts=True)
        except NotThis:
            return False
        if box.left and not self.boxes.never(around, [*rest, negate(all_of(box.left))]):
            return False
        return all(self.boxes.covers(box, one) and self._comes_first(write, one, place) for one in read)

    def _comes_first(self, write: Touched, read: Touched, place: Positions) -> bool:
        """Whether the first write of an element comes before a read of it: by their places, or because both stand in the same
        loops, and that write in the first iteration of those that do not matter."""
        mine, other = write.access, read.access
        if place.of(mine) < place.of(other):
            return True
        same = [form.key for form in write.old] == [form.key for form in read.old]
        return same and mine.loops == other.loops and mine.order < other.order

    def _has_been_written(self, copy: Access) -> None:
        """That a statement before writes all that a copy reads of memory of the function's own."""
        for access in self.after.accesses:
            if access.data is copy.data and access.is_write and self.after.exact(access):
                around = common_loops((access.loops, copy.loops))
                place = Positions(around)
                plain = access.buffer is copy.buffer and access.site is None and not self.instances.lanes(access)
                if not plain or not isinstance(access.node, BufferStore) or place.of(access) >= place.of(copy):
                    continue
                self.boxes.shared = {id(c) for c in access.conditions} & {id(c) for c in copy.conditions}
                try:
                    box = self.boxes.box(Touched(access, self.boxes.forms(access), ()), around)
                except NotThis:
                    continue
                if not box.left and self.boxes.covers(box, Touched(copy, self.boxes.forms(copy), ())):
                    return
        raise NotThis


def _combination(form: Form, parts: Sequence[Form], is_free: Callable[[Dim], bool]) -> dict[int, int]:
    """Integers by which some forms are multiplied to give another one, but for what is free."""
    dims = [dim for dim in dict.fromkeys([*form.terms, *(d for p in parts for d in p.terms)]) if not is_free(dim)]
    rows = [[Fraction(p.terms.get(dim, 0)) for p in parts] + [Fraction(form.terms.get(dim, 0))] for dim in dims]
    pivots: list[int] = []
    for column in range(len(parts)):
        at = next((n for n in range(len(pivots), len(rows)) if rows[n][column]), None)
        if at is None:
            continue
        top = len(pivots)
        rows[top], rows[at] = rows[at], rows[top]
        rows[top] = [x / rows[top][column] for x in rows[top]]
        for n, row in enumerate(rows):
            if n != top and row[column]:
                rows[n] = [x - row[column] * y for x, y in zip(row, rows[top], strict=True)]
        pivots.append(column)
    need(not any(row[-1] for row in rows[len(pivots) :]))
    found = {column: rows[n][-1] for n, column in enumerate(pivots) if rows[n][-1]}
    need(all(value.denominator == 1 for value in found.values()))
    return {column: int(value) for column, value in found.items()}
