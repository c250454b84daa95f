"""A part of memory lives elsewhere for a while: do copies hand on what was there? Decided by the forms of subscripts alone.

Most steps that feed a program from elsewhere (caches, packed operands, tiles in registers) are of one kind: every statement
stays; some accesses of memory ``X`` are of new memory ``Y`` instead; copies bring ``X`` to ``Y`` before, and back behind. That
such a step keeps each value is a matter of boxes and positions, which needs no flow of values and costs a hundredth of it:

- all accesses of ``Y`` stand in the body of one loop (or of the function); during an iteration, first come the copies in, then
  what was redirected, then the copies out;
- one map, affine and one to one on the shape of ``Y``, gives for each access of ``Y`` the element of ``X`` that it stands for;
- meanwhile nothing else writes ``X``, and nothing else reads it where something writes ``Y``;
- every element of ``Y`` that is read was copied in, or written before; every one that is written is copied out.

What does not fit says nothing: then the flow of values is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from tirlower.ir import Bind, BlockIter, Buffer, BufferLoad, BufferStore, Expr, IntImm, Var
from tirlower.ir.query import statements
from tirlower.poly.conditions import AtLeast, Condition, Equal, all_of, at_least, equal, negate
from tirlower.poly.constraint_system import BOTH, System, TooManyCases
from tirlower.poly.forms import Atom, Dim, Form, constant
from tirlower.poly.implied import infeasible_at
from tirlower.poly.instances import Instances
from tirlower.poly.scop import Access, Loop, Scop, Statement
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
    except (_NotThis, TooManyCases):
        return False
    return True


class _NotThis(Exception):
    """The two programs are of another kind, or something is not known."""


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


@dataclass(frozen=True)
class _Box:
    """The elements that a statement touches in one iteration of the loops around: for each dimension where it starts and how far it
    goes, the loops of its own that are its ``digits`` with their weights, and the rest of the subscript. ``left`` are the
    conditions that say nothing of those loops, ``inner`` the others. ``new``: elements of the new memory."""

    new: bool
    lows: tuple[Form, ...]
    extents: tuple[Form, ...]
    digits: tuple[dict[Var, int], ...]
    rests: tuple[Form, ...]
    inner: tuple[Condition, ...]
    left: tuple[Condition, ...]


@dataclass(frozen=True)
class _Touched:
    """An access of the program after, with the subscripts of the element of the old memory that it is about, and of the new."""

    access: Access
    old: tuple[Form, ...]
    new: tuple[Form, ...]


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
        self.shared: set[int] = set()
        """The conditions, by their identity, under which all accesses at hand run."""
        self.old = {access.data for access in self.before.accesses}

    def run(self) -> None:
        """Raises :class:`_NotThis` where it is not so."""
        _need(all(statement in self.copies for statement in self.changed))
        _need(_names(self.before) <= _names(self.after))
        for statement in self.after.statements:
            if statement in self.copies:
                self._copy(statement)
            else:
                self._stays(statement)
        _need(len({stage.old.data for stage in self.stages.values()}) == len(self.stages))
        for stage in self.stages.values():
            self._stage(stage)

    # What there is

    def _copy(self, statement: Statement) -> None:
        _need(len(statement.accesses) == 2)
        read, write = statement.accesses
        _need(write.is_write and not read.is_write)
        into = self._is_new(write.data)
        _need(into != self._is_new(read.data))
        old, new = (read, write) if into else (write, read)
        stage = self._of(old, new)
        (stage.filled if into else stage.emptied).append((old, new))

    def _stays(self, statement: Statement) -> None:
        _need(statement in self.staying)
        was: list[Access] = []
        for access in statement.accesses:
            twin = self.twins.get(access)
            _need(twin is not None)
            assert twin is not None
            was.append(twin.access)
            _need(not twin.values and twin.access.is_write == access.is_write)
            if access.data is twin.access.data:
                _need(_same_place(access, twin.access))
            else:
                _need(self._is_new(access.data))
                self._of(twin.access, access).redirected.append((access, twin.access))
        _need(len(set(was)) == len(was) == len(was[0].statement.accesses) if was else True)

    def _is_new(self, data: Var) -> bool:
        return data in self.after.homes and data not in self.before.homes and data not in self.old

    def _of(self, old: Access, new: Access) -> _Stage:
        for access in (old, new):
            _need(access.buffer is not None and access.site is None and access.indices is not None and access.must)
            _need(isinstance(access.node, (BufferLoad, BufferStore)) and access.node.predicate is None)
            _need(access.buffer is access.node.buffer and access.data is access.node.buffer.data)  # type: ignore[union-attr]
            _need(not self.instances.lanes(access))
        assert old.buffer is not None and new.buffer is not None
        found = self.stages.setdefault(new.data, _Stage(old.buffer, new.buffer))
        _need(found.old is old.buffer and found.new is new.buffer and old.buffer.dtype == new.buffer.dtype)
        _need(not old.buffer.strides and not new.buffer.strides)
        return found

    # Whether it hands on what was there

    def _stage(self, stage: _Stage) -> None:
        accesses = stage.accesses
        _need(all(self.after.exact(access) for access in accesses))
        around = _common(access.loops for access in accesses)
        writes = any(access.is_write for access, _ in stage.redirected)
        place = _Positions(around)
        _need(bool(stage.redirected) and (bool(stage.emptied) or not writes))
        used = [place.of(access) for access, _ in stage.redirected]
        fills = [place.of(new) for _, new in stage.filled]
        empties = [place.of(new) for _, new in stage.emptied]
        _need(max(fills, default=-1) < min(used) and max(used) < min(empties, default=max(used) + 1))
        first, last = min([*fills, *used]), max([*empties, *used])
        own = {id(old) for old, _ in (*stage.filled, *stage.emptied)}
        for access in self.after.accesses:
            if access.data is stage.old.data and id(access) not in own and place.inside(access):
                _need(not (first <= place.of(access) <= last and (writes or access.is_write)))
        self.shared = set.intersection(*({id(c) for c in access.conditions} for access in accesses))
        self._one_map(stage, around)
        self._filled(stage, around, place, writes)

    def _one_map(self, stage: _Stage, around: tuple[Loop, ...]) -> None:
        """One affine map, one to one, gives the old element of each access of the new memory."""
        free = {loop.var for loop in around}
        pairs = [(self._forms(old), self._forms(new)) for old, new in (*stage.filled, *stage.emptied)]
        pairs += [(self._forms(old), self._forms(new)) for new, old in stage.redirected]
        shape = [extent.value if isinstance(extent, IntImm) else None for extent in stage.new.shape]
        olds, news = pairs[0]
        used: set[int] = set()
        for dim, old in enumerate(olds):
            factors = _combination(old, news, lambda one: self._is_free(one, free))
            for mine, other in pairs:
                rest = mine[dim]
                for axis, factor in factors.items():
                    rest = rest.plus(other[axis], -factor)
                if (mine, other) == pairs[0]:
                    kept = rest
                _need(all(self._is_free(one, free) for one in rest.terms) and rest.key == kept.key)
            reach = 0
            for axis, factor in sorted(factors.items(), key=lambda one: abs(one[1])):
                _need(axis not in used and abs(factor) > reach)
                used.add(axis)
                size = shape[axis]
                reach = reach + abs(factor) * (size - 1) if size is not None else 1 << 62
        _need(all(axis in used or size == 1 for axis, size in enumerate(shape)))
        extents = [self.instances.converter.lin(extent) for extent in stage.new.shape]
        for access in stage.accesses:
            for index, extent in zip(self._forms(access), extents, strict=True):
                self._at_least(access, index)
                self._at_least(access, (extent - index).shifted(-1))

    def _is_free(self, dim: Dim, free: set[Var]) -> bool:
        """Whether a dim has one value in an iteration of the loops around."""
        if isinstance(dim, Atom):
            return dim.exact and dim.deps <= free
        return dim in free or dim not in self.after.space.iterated

    def _forms(self, access: Access) -> tuple[Form, ...]:
        """The subscripts of an access, of either program, in terms of the program after."""
        node = access.node
        assert isinstance(node, (BufferLoad, BufferStore))
        return tuple(self.instances.converter.lin(index) for index in node.indices)

    def _at_least(self, access: Access, form: Form) -> None:
        """That a form is at least 0 in every instance of an access of the program after."""
        _need((not form.terms and form.const >= 0) or infeasible_at(self.after, access, (-form).shifted(-1)))

    # Boxes

    def _filled(self, stage: _Stage, around: tuple[Loop, ...], place: _Positions, writes: bool) -> None:
        """What is read of the new memory is there, what is written there is brought back."""
        touched = [_Touched(access, self._forms(was), self._forms(access)) for access, was in stage.redirected]
        filled = [_Touched(new, self._forms(old), self._forms(new)) for old, new in stage.filled]
        emptied = [_Touched(new, self._forms(old), self._forms(new)) for old, new in stage.emptied]
        read = [one for one in touched if not one.access.is_write] + emptied
        rest: list[Condition] = []  # under which nothing is copied in
        boxes = [self._box(one, around) for one in filled]
        whole = [box for box in boxes if all(self._covers(box, one) for one in read)]
        if whole and not whole[0].left:
            read = []
        elif whole:
            rest = [negate(all_of(whole[0].left))]
        if read:
            written = [one for one in touched if one.access.is_write]
            _need(any(self._written_before(one, around, place, read, rest) for one in written))
        ways = [self._box(one, around) for one in emptied]
        _need(not any(box.left for box in ways))
        for one in touched:
            _need(not one.access.is_write or any(self._covers(box, one) for box in ways))
        if stage.old.data in self.after.homes:
            for old, _ in stage.filled:
                self._has_been_written(old)

    def _written_before(
        self,
        write: _Touched,
        around: tuple[Loop, ...],
        place: _Positions,
        read: Sequence[_Touched],
        rest: Sequence[Condition],
    ) -> bool:
        """Whether a write is of all that is read, before that, in each iteration of the loops around under a condition."""
        try:
            box = self._box(write, around, starts=True)
        except _NotThis:
            return False
        if box.left and not self._never(around, [*rest, negate(all_of(box.left))]):
            return False
        return all(self._covers(box, one) and self._comes_first(write, one, place) for one in read)

    def _comes_first(self, write: _Touched, read: _Touched, place: _Positions) -> bool:
        """Whether the first write of an element comes before a read of it: by their places, or because both stand in the same
        loops, and that write in the first iteration of those that do not matter."""
        mine, other = write.access, read.access
        if place.of(mine) < place.of(other):
            return True
        same = [form.key for form in write.old] == [form.key for form in read.old]
        return same and mine.loops == other.loops and mine.order < other.order

    def _never(self, around: tuple[Loop, ...], conditions: Sequence[Condition]) -> bool:
        """Whether some conditions hold together in no iteration of some loops."""
        system = System(self.after.space, frozenset(self.after.space.iterated))
        for condition in (*self.after.context, *(c for loop in around for c in loop.conditions), *conditions):
            system.add(condition, BOTH)
        return system.is_empty()

    def _has_been_written(self, copy: Access) -> None:
        """That a statement before writes all that a copy reads of memory of the function's own."""
        for access in self.after.accesses:
            if access.data is copy.data and access.is_write and self.after.exact(access):
                around = _common((access.loops, copy.loops))
                place = _Positions(around)
                plain = access.buffer is copy.buffer and access.site is None and not self.instances.lanes(access)
                if not plain or not isinstance(access.node, BufferStore) or place.of(access) >= place.of(copy):
                    continue
                self.shared = {id(c) for c in access.conditions} & {id(c) for c in copy.conditions}
                try:
                    box = self._box(_Touched(access, self._forms(access), ()), around)
                except _NotThis:
                    continue
                if not box.left and self._covers(box, _Touched(copy, self._forms(copy), ())):
                    return
        raise _NotThis

    def _box(self, touched: _Touched, around: tuple[Loop, ...], starts: bool = False) -> _Box:
        """What an access touches in one iteration of the loops around, of the old memory or the new; ``starts``: in the first one
        of loops that do not matter."""
        try:
            return self._box_of(touched.access, touched.old, around, starts, False)
        except _NotThis:
            _need(bool(touched.new))
            return self._box_of(touched.access, touched.new, around, starts, True)

    def _box_of(self, access: Access, forms: Sequence[Form], around: tuple[Loop, ...], starts: bool, new: bool) -> _Box:
        free = {loop.var for loop in around}
        own = {loop.var: loop for loop in access.loops[len(around) :]}
        lows: list[Form] = []
        extents: list[Form] = []
        digits: list[dict[Var, int]] = []
        rests: list[Form] = []
        axes: set[Var] = set()
        for form in forms:
            mine: dict[Var, int] = {}
            rest = form
            for dim, factor in form.terms.items():
                if not self._is_free(dim, free):
                    _need(isinstance(dim, Var) and dim in own and dim not in axes)
                    assert isinstance(dim, Var)
                    axes.add(dim)
                    mine[dim] = factor
                    rest = rest.without(dim)
            low, extent = rest, constant(1)
            for axis, factor in sorted(mine.items(), key=lambda one: one[1]):
                loop = own[axis]
                _need(loop.extent is not None and not loop.overflows)
                assert loop.extent is not None
                for bound in (loop.start, loop.extent):
                    _need(all(self._is_free(dim, free) for dim in bound.terms))
                # Each digit goes on where the ones below it end.
                _need(extent.is_constant and extent.const == factor)
                low, extent = low.plus(loop.start, factor), loop.extent.scaled(factor)
            lows.append(low)
            extents.append(extent)
            digits.append(mine)
            rests.append(rest)
        firsts: dict[Var, Form] = {}
        for var, loop in own.items():
            if var not in axes:
                # It has an iteration, and none matters more than the first.
                _need(loop.extent is not None and loop.extent.is_constant and loop.extent.const > 0)
                _need(all(self._is_free(dim, free) for dim in loop.start.terms))
                firsts[var] = loop.start
        inner: list[Condition] = []
        left: list[Condition] = []
        for given in access.conditions:
            if id(given) in self.shared:
                continue
            condition = _at_first(given, firsts) if starts else given
            deps = {dim for form in condition.forms() for dim in form.terms if not self._is_free(dim, free)}
            if condition.is_true:
                continue
            if not deps:
                _need(condition.is_exact)
                left.append(condition)
            else:
                _need(deps <= axes and isinstance(condition, (AtLeast, Equal)))
                inner.append(condition)
        return _Box(new, tuple(lows), tuple(extents), tuple(digits), tuple(rests), tuple(inner), tuple(left))

    def _covers(self, box: _Box, touched: _Touched) -> bool:
        """Whether an access touches nothing outside of a box."""
        access, forms = touched.access, touched.new if box.new else touched.old
        try:
            for low, extent, form in zip(box.lows, box.extents, forms, strict=True):
                self._at_least(access, form - low)
                self._at_least(access, (low + extent - form).shifted(-1))
            for condition in box.inner:
                assert isinstance(condition, (AtLeast, Equal))
                lin = condition.lin
                for mine, rest, form in zip(box.digits, box.rests, forms, strict=True):
                    factor = next((lin.terms.get(axis, 0) for axis, one in mine.items() if one == 1), 0)
                    for axis, one in mine.items():
                        _need(lin.terms.get(axis, 0) == factor * one)
                        lin = lin.without(axis)
                    lin = lin.plus(form - rest, factor)
                self._at_least(access, lin)
                if isinstance(condition, Equal):
                    self._at_least(access, -lin)
        except _NotThis:
            return False
        return True


class _Positions:
    """The places in the text of accesses in the body of the innermost of some loops."""

    def __init__(self, around: tuple[Loop, ...]) -> None:
        self.around = around

    def inside(self, access: Access) -> bool:
        """Whether an access stands in that body."""
        return access.loops[: len(self.around)] == self.around

    def of(self, access: Access) -> int:
        """The number of the statement of the body that an access is in."""
        depth = len(self.around)
        return access.loops[depth].order if len(access.loops) > depth else access.order


def _need(what: bool) -> None:
    if not what:
        raise _NotThis


def _common(nests: Iterable[tuple[Loop, ...]]) -> tuple[Loop, ...]:
    """The loops that several nests begin with."""
    every = list(nests)
    depth = 0
    while all(len(nest) > depth and nest[depth] is every[0][depth] for nest in every):
        depth += 1
    return every[0][:depth]


def _same_place(access: Access, other: Access) -> bool:
    if access.node is other.node:
        return True
    mine, theirs = (getattr(one.node, "indices", None) for one in (access, other))
    return (
        access.buffer is other.buffer
        and mine is not None
        and theirs is not None
        and len(mine) == len(theirs)
        and all(a is b for a, b in zip(mine, theirs, strict=True))
        and getattr(access.node, "predicate", None) is getattr(other.node, "predicate", None)
    )


def _names(scop: Scop) -> set[tuple[Var, Expr]]:
    """The variables that stand for values in a program, and the values."""
    found: set[tuple[Var, Expr]] = set()
    for op in statements(scop.func.body):
        if isinstance(op, (BlockIter, Bind)) and op.value is not None:
            found.add((op.var, op.value))
    return found


def _at_first(condition: Condition, firsts: Mapping[Var, Form]) -> Condition:
    """A condition in the first iteration of some loops."""
    if not firsts or not isinstance(condition, (AtLeast, Equal)):
        return condition
    lin = condition.lin
    for var, start in firsts.items():
        factor = lin.terms.get(var, 0)
        if factor:
            lin = lin.without(var).plus(start, factor)
    return at_least(lin) if isinstance(condition, AtLeast) else equal(lin)


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
    _need(not any(row[-1] for row in rows[len(pivots) :]))
    found = {column: rows[n][-1] for n, column in enumerate(pivots) if rows[n][-1]}
    _need(all(value.denominator == 1 for value in found.values()))
    return {column: int(value) for column, value in found.items()}
