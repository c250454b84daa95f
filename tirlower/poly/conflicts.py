"""Whether two accesses can meet in one element, and which pairs of accesses need to be asked about.

Questions go through the cheap test first (:mod:`tirlower.poly.digit_test`), then to isl as a conjunction of the domains, the
relation of the loops and the equality of the coordinates. Families of accesses that differ by constants, as unrolling
makes them, are tested as one before they are taken apart.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tirlower.arith.affine import Affine
from tirlower.arith.intervals import INF, num
from tirlower.ir import Var
from tirlower.poly.conditions import at_least
from tirlower.poly.constraint_system import BOTH, EMPTY, SINK, SOURCE, Outcome, System
from tirlower.poly.digit_test import Meeting, Sign, disjoint, meeting
from tirlower.poly.evaluate import evaluate
from tirlower.poly.execution_order import common_loops
from tirlower.poly.forms import Computed, Dim, Div, Form, Product, SymbolicDiv, single
from tirlower.poly.guarded_ranges import Ranges, guarded_ranges
from tirlower.poly.isl import TOO_MUCH, Solver, default_solver
from tirlower.poly.points import Points
from tirlower.poly.scop import Access, Loop, Scop
from tirlower.poly.verdict import Point, Witness

__all__ = ["MAX_PAIRS", "Conflicts", "Relation"]

_MAX_VALUES = 1024
"""The iterations of a loop in which the values of a form are computed one by one."""

_MANY_DIVISIONS = 6
"""The divisions in a form from which that is cheaper than a question to isl."""

MAX_PAIRS = 20_000
"""The pairs of accesses that are asked about one by one for one loop."""

Relation = tuple[Form, Form, Sign]
"""A form of the source that is equal to one of the sink, or less, or greater."""


class Conflicts:
    """Asks about accesses of one scop."""

    def __init__(self, scop: Scop, solver: Solver | None = None) -> None:
        self.scop = scop
        self.solver = solver or default_solver()
        self.points = Points(scop)
        self._guarded: dict[Access, Ranges] = {}

    # One pair

    def ask(self, a: Access, b: Access, signs: Mapping[Loop, Sign], relations: Sequence[Relation] = ()) -> Outcome:
        """Instances of ``a`` and ``b`` that meet in one element while the common loops relate as ``signs`` say.

        The sign is that of ``a``'s iteration to ``b``'s; loops without one are independent.
        """
        forms = self.forms(a, b)
        if forms is None:
            return EMPTY
        return self._asked(a, b, forms, signs, relations, self._meeting(a, b, forms, signs))

    def _meeting(
        self, a: Access, b: Access, forms: Sequence[tuple[Form, Form]], signs: Mapping[Loop, Sign]
    ) -> Meeting | None:
        quick = {loop.var: sign for loop, sign in signs.items()}
        return meeting(self.scop.space, forms, quick, None, (self._ranges(a), self._ranges(b)))

    def _asked(
        self,
        a: Access,
        b: Access,
        forms: Sequence[tuple[Form, Form]],
        signs: Mapping[Loop, Sign],
        relations: Sequence[Relation],
        met: Meeting | None,
    ) -> Outcome:
        """The answer, with what the cheap test knows."""
        if met is None:
            return EMPTY
        different = [loop for loop, sign in signs.items() if sign == "!"]
        if a is b and len(different) == 1 and self._told_apart(forms, signs, different[0]):
            return EMPTY
        if different:
            return self._either_way(a, b, forms, signs, relations, different[0], met)
        found = self.solved(a, b, forms, signs, relations)
        if found.status == "found" and found.exact:
            why = self._why_inexact(a, b)
            if why:
                return Outcome("found", False, found.values, why)
        return found

    def _ranges(self, access: Access) -> Ranges:
        found = self._guarded.get(access)
        if found is None:
            found = self._guarded[access] = guarded_ranges(self.scop.space, access)
        return found

    def _told_apart(self, forms: Sequence[tuple[Form, Form]], signs: Mapping[Loop, Sign], loop: Loop) -> bool:
        """Whether a form has other values in each iteration of a loop, found by computing them all.

        For swizzled layouts, whose many divisions isl takes long to relate, and loops of few iterations, such as threads.
        """
        space = self.scop.space
        low, high = space.interval_of_dim(loop.var)
        if not (isinstance(low, int) and isinstance(high, int)) or high - low >= _MAX_VALUES:
            return False
        fixed = {other.var for other, sign in signs.items() if sign == "="}
        for lin, other in forms:
            if lin.key != other.key or sum(isinstance(dim, Div) for dim in lin.terms) < _MANY_DIVISIONS:
                continue
            moving: dict[Dim, int] = {}
            spread: num = 0
            for dim, c in lin.terms.items():
                deps = space.deps(single(dim))
                if loop.var in deps:
                    moving[dim] = c
                elif dim in space.lanes:
                    least, most = space.interval_of_dim(dim)
                    spread += abs(c) * (most - least)
                elif not deps <= fixed:
                    spread = INF
            if spread == INF:
                continue
            part = Affine(moving)
            values = [evaluate(part, {loop.var: index}) for index in range(low, high + 1)]
            known = sorted(value for value in values if value is not None)
            if len(known) == len(values) and all(y - x > spread for x, y in itertools.pairwise(known)):
                return True
        return False

    def _either_way(
        self,
        a: Access,
        b: Access,
        forms: Sequence[tuple[Form, Form]],
        signs: Mapping[Loop, Sign],
        relations: Sequence[Relation],
        loop: Loop,
        met: Meeting,
    ) -> Outcome:
        def directed(sign: Sign) -> Outcome:
            told = {**signs, loop: sign}
            known = met.directed(loop.var, sign) if met.settled else self._meeting(a, b, forms, told)
            return self._asked(a, b, forms, told, relations, known)

        first = directed("<")
        if (first.status == "found" and first.exact) or (a is b and _is_symmetric(signs, relations)):
            return first
        second = directed(">")
        if second.status == "found" and (second.exact or first.status == "empty"):
            return second
        return second if first.status == "empty" else first

    def solved(
        self,
        a: Access,
        b: Access,
        forms: Sequence[tuple[Form, Form]],
        signs: Mapping[Loop, Sign],
        relations: Sequence[Relation],
    ) -> Outcome:
        """isl's answer, or that of the enumerated points: first where isl knows nothing or takes long."""
        hard = any(isinstance(dim, (Computed, Product)) for pair in forms for lin in pair for dim in lin.terms)
        hard = hard or any(sum(isinstance(d, Div) for d in x.terms) >= _MANY_DIVISIONS for x, _ in forms)
        told = self.points.meeting(a, b, signs, relations) if hard else None
        if told is not None:
            return told
        if self.solver.spent:
            found = Outcome("unknown", reason=TOO_MUCH)
        else:
            found = self.system(a, b, forms, signs, relations).solve(self.solver)
        if hard or found.status == "empty" or (found.status == "found" and found.exact):
            return found
        return self.points.meeting(a, b, signs, relations) or found

    def _why_inexact(self, a: Access, b: Access) -> str:
        """Why a solution is no certain meeting; nothing if it is one."""
        if a.data is not b.data:
            wild = a.data if self.scop.pointers.is_wild(a.data) else b.data
            return f"which memory the pointer {wild.name} points into is not known"
        if self.scop.irregular:
            return self.scop.irregular
        for access in (a, b):
            if not access.must:
                return f"what {access.text} touches is up to the callee"
            for loop in access.loops:
                if not loop.regular:
                    return "how often a loop runs depends on what it computes"
        return ""

    def forms(self, a: Access, b: Access) -> list[tuple[Form, Form]] | None:
        """The pairs of forms that are equal where the accesses meet; None where they cannot."""
        if a.data is not b.data:
            return [] if self.scop.pointers.may_meet(a.data, b.data) else None
        if a.indices is None or b.indices is None:
            return []
        if a.digits is not None and b.digits is not None and len(a.digits) == len(b.digits):
            pairs = list(zip(a.digits, b.digits, strict=True))
        elif len(a.coordinates) != len(b.coordinates):
            return []
        else:
            pairs = list(zip(a.coordinates, b.coordinates, strict=True))
        return self._joined(pairs)

    def _joined(self, pairs: list[tuple[Form, Form]]) -> list[tuple[Form, Form]]:
        """Subscripts ``x // n`` and ``x % n`` by one size, in source and sink alike, are equal where ``x`` is."""
        quotients = {}
        for at, (a, b) in enumerate(pairs):
            x, y = _lone(a), _lone(b)
            if x is None or y is None or x.divisor.key != y.divisor.key or x.remainder != y.remainder:
                continue
            if not self.scop.space.deps(x.divisor):
                quotients[at] = (x, y)
        if len(quotients) < 2:
            return pairs
        made = list(pairs)
        for at, (x, y) in quotients.items():
            for other, (p, q) in quotients.items():
                if x.remainder or not p.remainder:
                    continue
                if x.divisor.key == p.divisor.key and x.of.key == p.of.key and y.of.key == q.of.key:
                    made[at] = (x.of, y.of)
                    made[other] = (x.of, y.of)
        return made

    def system(
        self,
        a: Access,
        b: Access,
        forms: Sequence[tuple[Form, Form]],
        signs: Mapping[Loop, Sign],
        relations: Sequence[Relation],
        fixed: Mapping[Var, int] | None = None,
        inside: bool = False,
    ) -> System:
        """The constraints of a question; ``inside`` adds that both accesses are within their buffers."""
        scop = self.scop
        equal = frozenset(loop.var for loop, sign in signs.items() if sign == "=")
        system = System(scop.space, equal, fixed)
        for condition in scop.context:
            system.add(condition, BOTH)
        for access, side in ((a, SOURCE), (b, SINK)):
            shared = side == SINK
            for loop in access.loops:
                # The bounds of a loop in one iteration for both are one condition if the loops around it are too.
                shared = shared and loop.var in equal
                if not shared:
                    for condition in loop.conditions:
                        system.add(condition, side)
            for condition in access.conditions:
                system.add(condition, side)
        for loop, sign in signs.items():
            if sign != "=":
                own = single(loop.var)
                _relate(system, own, own, sign)
        for mine, other, sign in relations:
            _relate(system, mine, other, sign)
        for one, other in forms:
            system.add_same(one, other)
        if inside:
            for access, side in ((a, SOURCE), (b, SINK)):
                self.add_inside(system, access, side)
        system.maker = lambda sizes: self.system(a, b, forms, signs, relations, sizes, inside)
        return system

    def add_inside(self, system: System, access: Access, side: int) -> None:
        """That an access is within its buffer."""
        if access.buffer is None or access.indices is None or access.extents is None:
            return
        for index, extent in zip(access.indices, access.extents, strict=True):
            system.add(at_least(index), side)
            system.add(at_least((extent - index).shifted(-1)), side)

    # Witnesses

    def witness(
        self, a: Access, b: Access, signs: Mapping[Loop, Sign], relations: Sequence[Relation], found: Outcome
    ) -> Witness | None:
        """Two iterations for an exact outcome, with both accesses inside their buffers where there are such."""
        with self.solver.verdict(renew=True):  # a refutation is shown, whatever it took to find
            return self._witness(a, b, signs, relations, found)

    def _witness(
        self, a: Access, b: Access, signs: Mapping[Loop, Sign], relations: Sequence[Relation], found: Outcome
    ) -> Witness | None:
        if "!" in signs.values():
            kept: Witness | None = None
            for sign in "<>":
                chosen = {loop: (sign if s == "!" else s) for loop, s in signs.items()}
                made = self.ask(a, b, chosen, relations)
                if made.status == "found" and made.exact:
                    shown = self.witness(a, b, chosen, relations, made)
                    if shown is not None and min(shown.parameters.values(), default=0) >= 0:
                        return shown
                    # With a negative size or offset the program may leave its buffers elsewhere.
                    kept = kept or shown
            return kept
        forms = self.forms(a, b) or []
        with self.solver.soon():
            nicer = self.system(a, b, forms, signs, relations, inside=True).solve(self.solver)
        if nicer.status == "found" and nicer.exact and not self._why_inexact(a, b):
            found = nicer
        if found.values is None:
            return None
        points = [self.point(access, side, found.values) for access, side in ((a, SOURCE), (b, SINK))]
        if any(point is None for point in points):
            return None
        first, second = points
        assert first is not None and second is not None
        if _later(points, signs, a, b):
            first, second = second, first
        return Witness(first, second, self.parameters(found.values))

    def point(self, access: Access, side: int, values: Mapping[tuple[int, Dim], int]) -> Point | None:
        """One iteration of a solution."""
        mine = {dim: value for (s, dim), value in values.items() if s in (BOTH, side)}
        loops = []
        for loop in access.loops:
            value = mine.get(loop.var)
            if value is None:
                return None
            if loop.regular:
                loops.append((loop.name, value))
        indices: list[int] = []
        for lin in access.indices or ():
            value = evaluate(lin, mine)
            if value is None:
                return None
            indices.append(value)
        span = getattr(access.node, "span", None) or access.statement.node.span
        name = access.buffer.name if access.buffer is not None else access.data.name
        statement = access.statement.node
        return Point(tuple(loops), access.is_write, name, tuple(indices), access.text, span, access.node, statement)

    def parameters(self, values: Mapping[tuple[int, Dim], int]) -> dict[str, int]:
        """The sizes and scalars of a solution."""
        iterated = self.scop.space.iterated
        return {dim.name: v for (_, dim), v in values.items() if isinstance(dim, Var) and dim not in iterated}

    # Many accesses

    def pairs(self, accesses: Iterable[Access], signs: Mapping[Loop, Sign]) -> Iterator[tuple[Access, Access] | None]:
        """The pairs of accesses of one buffer, at least one a write, that the cheap test leaves.

        ``signs`` relate loops around all of them. None is given once when there are too many pairs to go on.
        """
        groups: dict[Var, list[Access]] = {}
        for access in accesses:
            groups.setdefault(access.data, []).append(access)
        budget = MAX_PAIRS
        pointers = self.scop.pointers
        tables = {data: _families(group) for data, group in groups.items()}
        for data, families in tables.items():
            others: list[_Family] = []
            if pointers.any_wild:
                later = itertools.islice(tables, list(tables).index(data) + 1, None)
                others = [family for each in later if pointers.may_meet(data, each) for family in tables[each]]
            elif not any(family.writes for family in families):
                continue
            for n, family in enumerate(families):
                for other in (*families[n:], *others):
                    if not (family.writes or other.writes) or self._apart(family, other, signs):
                        continue
                    for a, b in _members(family, other):
                        budget -= 1
                        if budget < 0:
                            yield None
                            return
                        yield a, b

    def _apart(self, one: _Family, other: _Family, signs: Mapping[Loop, Sign]) -> bool:
        """Whether no member of one family meets one of another: their constants as one unknown for each dimension."""
        if len(one.members) * len(other.members) <= 2:
            return False
        a, b = one.members[0], other.members[0]
        forms = self.forms(a, b)
        if not forms:
            return forms is None
        if len(forms) != len(one.consts[0]) or len(forms) != len(other.consts[0]):
            return False
        extra = []
        bare = []
        for axis, (x, y) in enumerate(forms):
            mine, others = [c[axis] for c in one.consts], [c[axis] for c in other.consts]
            low, high = min(mine) - max(others), max(mine) - min(others)
            base = mine[0] - others[0]
            step = math.gcd(*(c - mine[0] for c in mine), *(c - others[0] for c in others))
            # The differences are base + step * t.
            bare.append((Affine(x.terms, 0), Affine(y.terms, -base)))
            extra.append((step, (low - base) // step if step else 0, (high - base) // step if step else 0))
        quick = {loop.var: sign for loop, sign in signs.items()}
        return disjoint(self.scop.space, bare, quick, extra)


class _Family:
    """Accesses whose coordinates differ by constants only."""

    def __init__(self) -> None:
        self.members: list[Access] = []
        self.consts: list[tuple[int, ...]] = []
        self.writes = False

    def add(self, access: Access, consts: tuple[int, ...]) -> None:
        self.members.append(access)
        self.consts.append(consts)
        self.writes = self.writes or access.is_write


def _families(group: Sequence[Access]) -> list[_Family]:
    table: dict[object, _Family] = {}
    for access in group:
        forms = access.digits if access.digits is not None else access.coordinates
        if access.indices is None:
            key: object = None
            consts: tuple[int, ...] = ()
        else:
            key = tuple(frozenset(lin.terms.items()) for lin in forms)
            consts = tuple(lin.const for lin in forms)
        table.setdefault((key, access.digits is None), _Family()).add(access, consts)
    return list(table.values())


def _members(one: _Family, other: _Family) -> Iterator[tuple[Access, Access]]:
    for n, a in enumerate(one.members):
        for b in one.members[n:] if other is one else other.members:
            if a.is_write or b.is_write:
                yield a, b


def _is_symmetric(signs: Mapping[Loop, Sign], relations: Sequence[Relation]) -> bool:
    """Whether the same is asked of two instances of one access when they change places."""
    return all(sign in "=!" for sign in signs.values()) and all(
        sign == "=" and x.key == y.key for x, y, sign in relations
    )


def _relate(system: System, source: Form, sink: Form, sign: Sign) -> None:
    if sign == "=":
        system.add_same(source, sink)
    elif sign == "<":
        system.add_before(source, sink)
    elif sign == ">":
        system.add_after(source, sink)


def _lone(lin: Form) -> SymbolicDiv | None:
    if len(lin.terms) != 1 or lin.const:
        return None
    ((dim, c),) = lin.terms.items()
    return dim if c == 1 and isinstance(dim, SymbolicDiv) else None


def _later(points: Sequence[Point | None], signs: Mapping[Loop, Sign], a: Access, b: Access) -> bool:
    """Whether the first point comes after the second in the order of the script."""
    for loop in common_loops(a, b):
        sign = signs.get(loop)
        values = [dict(point.loops).get(loop.name) for point in points if point is not None]
        if sign == "=" or len(values) < 2 or None in values or values[0] == values[1]:
            continue
        return bool(values[0] > values[1])  # type: ignore[operator]
    return (a.order, a.phase) > (b.order, b.phase)
