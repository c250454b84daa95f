"""What an access touches in one iteration of some loops, as a box: where each subscript starts, and how far it goes.

The proofs that need no flow of values (:mod:`tirlower.poly.through_copies`, :mod:`tirlower.poly.begun_earlier`) are made of these.
Whatever is no box, or is not known, raises :class:`NotThis`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tirlower.ir import BufferLoad, BufferStore, Expr, Var
from tirlower.poly.conditions import AtLeast, Condition, Equal, at_least, equal
from tirlower.poly.constraint_system import BOTH, System
from tirlower.poly.expressions import Converter
from tirlower.poly.forms import Atom, Dim, Div, Form, constant
from tirlower.poly.implied import infeasible_at
from tirlower.poly.scop import Access, Loop, Scop

__all__ = [
    "Box", "Boxes", "NotThis", "Positions", "Touched", "alike", "at_first", "common_loops", "named_values", "need", "same_place"
]  # fmt: skip


class NotThis(Exception):
    """The two programs are of another kind, or something is not known."""


@dataclass(frozen=True)
class Box:
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
class Touched:
    """An access of the program after, with the subscripts of the element of the old memory that it is about, and of the new."""

    access: Access
    old: tuple[Form, ...]
    new: tuple[Form, ...]


class Boxes:
    """The boxes of one program. ``shared`` are the conditions, by their identity, under which all accesses at hand run."""

    def __init__(self, scop: Scop, converter: Converter | None = None) -> None:
        self.scop = scop
        self.converter = converter or Converter(scop.space, scop.pointers.changing)
        self.shared: set[int] = set()

    def is_free(self, dim: Dim, free: set[Var]) -> bool:
        """Whether a dim has one value in an iteration of the loops around."""
        if isinstance(dim, Atom):
            return dim.exact and dim.deps <= free
        return dim in free or dim not in self.scop.space.iterated

    def forms(self, access: Access) -> tuple[Form, ...]:
        """The subscripts of an access, of either program, in terms of the program after."""
        node = access.node
        assert isinstance(node, (BufferLoad, BufferStore))
        return tuple(self.without_single(self.converter.lin(index)) for index in node.indices)

    def without_single(self, form: Form) -> Form:
        """A form with the only value of each loop that has one: copies are written without these loops, accesses are not."""
        for dim in form.terms:
            low, high = self.scop.space.interval_of_dim(dim)
            if isinstance(dim, Var) and low == high and isinstance(low, int):
                form = form.without(dim).shifted(form.terms[dim] * low)
        return form

    def at_least(self, access: Access, form: Form) -> None:
        """That a form is at least 0 in every instance of an access of the program after."""
        need((not form.terms and form.const >= 0) or infeasible_at(self.scop, access, (-form).shifted(-1)))

    def never(self, around: tuple[Loop, ...], conditions: Sequence[Condition]) -> bool:
        """Whether some conditions hold together in no iteration of some loops."""
        system = System(self.scop.space, frozenset(self.scop.space.iterated))
        for condition in (*self.scop.context, *(c for loop in around for c in loop.conditions), *conditions):
            system.add(condition, BOTH)
        return system.is_empty()

    def box(
        self,
        touched: Touched,
        around: tuple[Loop, ...],
        starts: bool = False,
        conditions: Sequence[Condition] | None = None,
    ) -> Box:
        """What an access touches in one iteration of the loops around, of the old memory or the new; ``starts``: in the first one
        of loops that do not matter. ``conditions``: those that count, where not all that there are do."""
        given = touched.access.conditions if conditions is None else conditions
        try:
            return self._of(touched.access, touched.old, around, starts, False, given)
        except NotThis:
            need(bool(touched.new))
            return self._of(touched.access, touched.new, around, starts, True, given)

    def _of(
        self,
        access: Access,
        forms: Sequence[Form],
        around: tuple[Loop, ...],
        starts: bool,
        new: bool,
        conditions: Sequence[Condition],
    ) -> Box:
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
                if not self.is_free(dim, free):
                    need(isinstance(dim, Var) and dim in own and dim not in axes)
                    assert isinstance(dim, Var)
                    axes.add(dim)
                    mine[dim] = factor
                    rest = rest.without(dim)
            low, extent = rest, constant(1)
            for axis, factor in sorted(mine.items(), key=lambda one: one[1]):
                loop = own[axis]
                need(loop.extent is not None and not loop.overflows)
                assert loop.extent is not None
                for bound in (loop.start, loop.extent):
                    need(all(self.is_free(dim, free) for dim in bound.terms))
                # Each digit goes on where the ones below it end.
                need(extent.is_constant and extent.const == factor)
                low, extent = low.plus(loop.start, factor), loop.extent.scaled(factor)
            lows.append(low)
            extents.append(extent)
            digits.append(mine)
            rests.append(rest)
        firsts: dict[Var, Form] = {}
        empty: list[Condition] = []
        for var, loop in own.items():
            if var not in axes:
                # It has an iteration, and none matters more than the first.
                need(loop.extent is not None and not loop.overflows)
                assert loop.extent is not None
                need(all(self.is_free(dim, free) for bound in (loop.start, loop.extent) for dim in bound.terms))
                if not (loop.extent.is_constant and loop.extent.const > 0):
                    empty.append(at_least(-loop.extent))
                firsts[var] = loop.start
        inner: list[Condition] = []
        left: list[Condition] = []
        held: list[Condition] = []
        for given in conditions:
            shared = id(given) in self.shared
            condition = at_first(given, firsts) if starts and not shared else given
            deps = {dim for form in condition.forms() for dim in form.terms if not self.is_free(dim, free)}
            if condition.is_true:
                continue
            if shared:
                held += [] if deps else [condition]
            elif not deps:
                need(condition.is_exact)
                left.append(condition)
            else:
                need(deps <= axes and isinstance(condition, (AtLeast, Equal)))
                inner.append(condition)
        need(all(self.never(around, [*held, *left, none]) for none in empty))
        return Box(new, tuple(lows), tuple(extents), tuple(digits), tuple(rests), tuple(inner), tuple(left))

    def covers(self, box: Box, touched: Touched) -> bool:
        """Whether an access touches nothing outside of a box."""
        access, forms = touched.access, touched.new if box.new else touched.old
        try:
            for low, extent, form in zip(box.lows, box.extents, forms, strict=True):
                self.at_least(access, form - low)
                self.at_least(access, (low + extent - form).shifted(-1))
            for condition in box.inner:
                assert isinstance(condition, (AtLeast, Equal))
                lin = condition.lin
                for mine, rest, form in zip(box.digits, box.rests, forms, strict=True):
                    factor = next((lin.terms.get(axis, 0) for axis, one in mine.items() if one == 1), 0)
                    for axis, one in mine.items():
                        need(lin.terms.get(axis, 0) == factor * one)
                        lin = lin.without(axis)
                    lin = lin.plus(form - rest, factor)
                self.at_least(access, lin)
                if isinstance(condition, Equal):
                    self.at_least(access, -lin)
        except NotThis:
            return False
        return True


class Positions:
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


def need(what: bool) -> None:
    """Raise :class:`NotThis` where something is not so."""
    if not what:
        raise NotThis


def common_loops(nests: Iterable[tuple[Loop, ...]]) -> tuple[Loop, ...]:
    """The loops that several nests begin with."""
    every = list(nests)
    depth = 0
    while all(len(nest) > depth and nest[depth] is every[0][depth] for nest in every):
        depth += 1
    return every[0][:depth]


def same_place(access: Access, other: Access) -> bool:
    """Whether two accesses are of one buffer, at subscripts that are the same nodes."""
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


def alike(one: Form, other: Form) -> bool:
    """Whether two forms, each of either program, say the same: each program has quotients of its own."""
    if one.key == other.key:
        return True
    if one.const != other.const or len(one.terms) != len(other.terms):
        return False
    rest = [*other.terms.items()]
    for dim, factor in one.terms.items():
        found = next((at for at, (mine, by) in enumerate(rest) if by == factor and _same_dim(dim, mine)), None)
        if found is None:
            return False
        del rest[found]
    return True


def _same_dim(one: Dim, other: Dim) -> bool:
    if one is other:
        return True
    quotients = isinstance(one, Div) and isinstance(other, Div)
    return quotients and one.divisor == other.divisor and alike(one.of, other.of)  # type: ignore[union-attr]


def named_values(scop: Scop) -> set[tuple[Var, Expr]]:
    """The variables that stand for values in a program, and the values."""
    return {(op.var, op.value) for op in scop.names if op.value is not None}


def at_first(condition: Condition, firsts: Mapping[Var, Form]) -> Condition:
    """A condition in the first iteration of some loops."""
    if not firsts or not isinstance(condition, (AtLeast, Equal)):
        return condition
    lin = condition.lin
    for var, start in firsts.items():
        factor = lin.terms.get(var, 0)
        if factor:
            lin = lin.without(var).plus(start, factor)
    return at_least(lin) if isinstance(condition, AtLeast) else equal(lin)
