"""The judge of last resort: iterations enumerated, their elements computed, and compared one with another.

Where loops have constant bounds and subscripts are computed from them alone, however, (bits, squares, casts), all instances
of an access are a table of numbers. Two accesses meet where rows of their tables are equal: that is exact, and no more work
than a budget allows. What a table cannot say (a load, a size) makes it cover more than happens, never less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from tirlower.ir import Var
from tirlower.ir.integers import LIMIT, magnitude
from tirlower.poly.affine import Space
from tirlower.poly.conditions import AllOf, AnyOf, AtLeast, Condition, Equal
from tirlower.poly.constraint_system import BOTH, EMPTY, SINK, SOURCE, Outcome, System
from tirlower.poly.digit_test import Sign
from tirlower.poly.evaluate import Valuation
from tirlower.poly.forms import Dim, Form
from tirlower.poly.scop import Access, Loop, Scop

__all__ = ["Points", "Table", "may_happen"]

MAX_ROWS = 1 << 16
"""The instances of one access that are enumerated."""

MAX_WORK = 1 << 19
"""The rows that are looked at for one question about a loop: some 0.1 s."""

MAX_PAIRS = 1 << 18
"""The pairs of rows with equal elements that are compared one by one."""

Numbers: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"
"""The values of something, by row."""
Mask: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]"
"""Which rows: a bool stands for all of them, or none."""
Places: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.intp]]"
"""Numbers of rows."""


class _GiveUp(Exception):
    """More work than the budget, or numbers past 64 bits."""


class _NeedsLane(Exception):
    def __init__(self, lane: Var) -> None:
        self.lane = lane


class Table(Valuation):
    """Iterations: ``columns`` gives the values of the loops' variables (and lanes) by row. ``exact`` says that all rows
    certainly happen, not only that no other does."""

    def __init__(self, space: Space, columns: dict[Dim, Numbers], rows: int, exact: bool = True) -> None:
        super().__init__(columns)
        self.space, self.columns, self.rows, self.exact = space, columns, rows, exact

    def value(self, lin: Form) -> Numbers | None:
        """The values of a form; None where it has a part of unknown value."""
        reach = abs(lin.const)
        if reach >= LIMIT:
            raise _GiveUp
        total: Numbers = np.full(self.rows, lin.const, np.int64)
        for dim, c in lin.terms.items():
            part = self.of(dim)
            if part is None:
                return None
            reach += abs(c) * magnitude(part)
            if reach >= LIMIT:
                raise _GiveUp
            total = total + c * part
        return total

    def of(self, dim: Dim) -> Numbers | None:
        """The values of a dim."""
        if isinstance(dim, Var) and dim in self.space.lanes and dim not in self.columns:
            raise _NeedsLane(dim)
        found: Numbers | None = super().of(dim)
        return found

    def holds(self, condition: Condition) -> Mask | bool | None:
        """The rows in which a condition holds; None where it is not known of some."""
        rows, certain = self.may_hold(condition)
        return rows if certain else None

    def may_hold(self, condition: Condition) -> tuple[Mask | bool, bool]:
        """The rows in which a condition may hold, and whether it certainly does in those."""
        if isinstance(condition, (AtLeast, Equal)):
            value = self.value(condition.lin)
            if value is None:
                return True, False
            return (value >= 0 if isinstance(condition, AtLeast) else value == 0), True
        if isinstance(condition, (AllOf, AnyOf)):
            conjunction = isinstance(condition, AllOf)
            result: Mask = np.full(self.rows, conjunction)
            exact = True
            for part in condition.parts:
                mask, certain = self.may_hold(part)
                result = result & mask if conjunction else result | mask
                exact = exact and certain
            return result, exact
        return True, False

    def where(self, mask: Mask) -> Table:
        """The rows of a mask."""
        if np.all(mask):
            return self
        columns = {dim: values[mask] for dim, values in self.columns.items()}
        return Table(self.space, columns, int(np.count_nonzero(mask)), self.exact)

    def extended(self, var: Var, start: Numbers, extent: Numbers) -> Table:
        """Each row as often as ``extent`` says, with a variable that counts from ``start``."""
        counts = np.maximum(extent, 0)
        rows = int(counts.sum())
        if rows > MAX_ROWS:
            raise _GiveUp
        columns: dict[Dim, Numbers] = {dim: np.repeat(values, counts) for dim, values in self.columns.items()}
        firsts = np.repeat(np.cumsum(counts) - counts, counts)
        columns[var] = np.repeat(start, counts) + np.arange(rows) - firsts
        return Table(self.space, columns, rows, self.exact)

    def point(self, row: int) -> dict[Dim, int]:
        """The values of one row."""
        return {dim: int(values[row]) for dim, values in self.columns.items()}


class Points:
    """Enumerates the accesses of a scop, each once, within a budget."""

    def __init__(self, scop: Scop) -> None:
        self.scop = scop
        self.work = 0
        self._tables: dict[int, Table | None] = {}

    def table(self, access: Access) -> Table | None:
        """The instances of an access; None where there are too many, or not known how many."""
        if id(access) not in self._tables:
            self._tables[id(access)] = self.domain(access.loops, access.conditions, access.coordinates)
        return self._tables[id(access)]

    def domain(
        self, loops: Sequence[Loop], conditions: Sequence[Condition], forms: Iterable[Form] = ()
    ) -> Table | None:
        """The iterations of some loops in which conditions may hold, with the lanes that conditions and forms have."""
        forms, lanes = tuple(forms), list[Var]()
        while True:
            try:
                return self._domain(loops, conditions, forms, lanes)
            except _NeedsLane as need:
                if need.lane in lanes:
                    return None
                lanes.append(need.lane)
            except _GiveUp:
                return None

    def _domain(
        self, loops: Sequence[Loop], conditions: Sequence[Condition], forms: Iterable[Form], lanes: Sequence[Var]
    ) -> Table | None:
        space = self.scop.space
        table = Table(space, {}, 1)
        for loop in loops:
            start = table.value(loop.start)
            extent = None if loop.extent is None else table.value(loop.extent)
            if start is None or extent is None or loop.var in table.columns:
                return None
            table = table.extended(loop.var, start, extent)
            self.spend(table.rows)
        for lane in lanes:
            low, high = space.interval_of_dim(lane)
            if not (isinstance(low, int) and isinstance(high, int)):
                return None
            ones = np.ones(table.rows, np.int64)
            table = table.extended(lane, low * ones, (high - low + 1) * ones)
        for condition in conditions:
            mask, certain = table.may_hold(condition)
            self.spend(table.rows)
            table = table.where(np.broadcast_to(mask, table.rows))
            table.exact = table.exact and certain
        for lin in forms:
            if table.value(lin) is None:
                table.exact = False
        return table

    def spend(self, rows: int) -> None:
        """Count work. Raises where there was too much."""
        self.work += rows + 64
        if self.work > MAX_WORK:
            raise _GiveUp

    def violation(self, access: Access, ways: Sequence[Condition]) -> Outcome | None:
        """Whether one of some conditions holds in an instance of an access; None where this cannot tell."""
        table = self.table(access)
        if table is None:
            return None
        if not table.rows:
            return EMPTY
        try:
            found = [table.may_hold(way) for way in ways]
        except (_GiveUp, _NeedsLane):
            return None
        mask: Mask = np.zeros(table.rows, bool)
        for holds, _ in found:
            mask = mask | holds
        hits = np.flatnonzero(mask)
        if not hits.size:
            return EMPTY
        if not table.exact or not all(certain for _, certain in found):
            return None
        return Outcome("found", True, {(BOTH, dim): value for dim, value in table.point(hits[0]).items()})

    def static(self, access: Access, ways: Sequence[Condition]) -> bool:
        """Whether some conditions on an access hold alike for all sizes and all contents of memory."""
        table = self.table(access)
        if table is None or not table.exact:
            return False
        try:
            return all(table.may_hold(way)[1] for way in ways)
        except (_GiveUp, _NeedsLane):
            return False

    def meeting(
        self,
        a: Access,
        b: Access,
        signs: Mapping[Loop, Sign],
        relations: Sequence[tuple[Form, Form, Sign]],
    ) -> Outcome | None:
        """What isl is asked of two accesses; None where this cannot tell.

        Empty is certain; a meeting is given only if it certainly happens.
        """
        if a.data is not b.data or a.indices is None or b.indices is None or len(a.coordinates) != len(b.coordinates):
            return None
        one, other = self.table(a), self.table(b)
        if one is None or other is None:
            return None
        if not one.rows or not other.rows:
            return EMPTY
        try:
            return self._meeting(a, b, one, other, signs, relations)
        except _GiveUp:
            return None

    def _meeting(
        self,
        a: Access,
        b: Access,
        one: Table,
        other: Table,
        signs: Mapping[Loop, Sign],
        relations: Sequence[tuple[Form, Form, Sign]],
    ) -> Outcome | None:
        self.spend(one.rows + other.rows)
        exact = one.exact and other.exact
        same: list[tuple[Numbers | None, Numbers | None]] = [
            (one.value(x), other.value(y)) for x, y in zip(a.coordinates, b.coordinates, strict=True)
        ]
        unequal: list[tuple[Numbers, Numbers, Sign]] = []
        pairs = [(one.of(loop.var), other.of(loop.var), sign) for loop, sign in signs.items()]
        pairs += [(one.value(x), other.value(y), sign) for x, y, sign in relations]
        for x, y, sign in pairs:
            if x is None or y is None:
                exact = exact and sign == "*"
            elif sign == "=":
                same.append((x, y))
            elif sign != "*":
                unequal.append((x, y, sign))
        compared = [(x, y) for x, y in same if x is not None and y is not None]
        if not compared:
            return None
        found = self._matching(_keys(compared), unequal)
        if found is None:
            return EMPTY
        if not exact:
            return None
        equal = {loop.var for loop, sign in signs.items() if sign == "="}
        values: dict[tuple[int, Dim], int] = {}
        for table, row, side in ((one, found[0], SOURCE), (other, found[1], SINK)):
            for dim, value in table.point(row).items():
                values[BOTH if dim in equal else side, dim] = value
        return Outcome("found", True, values)

    def _matching(
        self, keys: tuple[Numbers, Numbers], unequal: Sequence[tuple[Numbers, Numbers, Sign]]
    ) -> tuple[int, int] | None:
        """A row of each side with equal keys and the relations wanted: the first of the first side."""
        mine, theirs = keys
        order = np.argsort(theirs, kind="stable")
        ranked = theirs[order]
        low = np.searchsorted(ranked, mine, "left")
        high = np.searchsorted(ranked, mine, "right")
        counts = high - low
        rows = np.flatnonzero(counts)
        if not rows.size:
            return None
        total = int(counts.sum())
        if total > MAX_PAIRS:
            if len(unequal) > 1:
                raise _GiveUp
            return self._extreme(rows, order, low, high, unequal)
        self.spend(total)
        source = np.repeat(rows, counts[rows])
        firsts = np.repeat(np.cumsum(counts[rows]) - counts[rows], counts[rows])
        sink = order[np.repeat(low[rows], counts[rows]) + np.arange(total) - firsts]
        mask = np.ones(total, bool)
        for x, y, sign in unequal:
            mask &= _COMPARE[sign](x[source], y[sink])
        hits = np.flatnonzero(mask)
        return (int(source[hits[0]]), int(sink[hits[0]])) if hits.size else None

    @staticmethod
    def _extreme(
        rows: Places, order: Places, low: Places, high: Places, unequal: Sequence[tuple[Numbers, Numbers, Sign]]
    ) -> tuple[int, int] | None:
        """The same for one relation and many pairs: the least and the greatest of each group are enough."""
        if not unequal:
            return int(rows[0]), int(order[low[rows[0]]])
        x, y, sign = unequal[0]
        values = y[order]
        starts = np.unique(np.concatenate([low[rows], high[rows], [0]]))
        starts = starts[starts < values.size]
        group = np.searchsorted(starts, low[rows])
        ends = np.minimum.reduceat(values, starts)[group], np.maximum.reduceat(values, starts)[group]
        hits = rows[_COMPARE[sign](x[rows], ends[0]) | _COMPARE[sign](x[rows], ends[1])]
        if not hits.size:
            return None
        row = int(hits[0])
        return row, int(order[low[row] + np.flatnonzero(_COMPARE[sign](x[row], values[low[row] : high[row]]))[0]])


def may_happen(scop: Scop, loops: Sequence[Loop], conditions: Sequence[Condition]) -> bool:
    """Whether conditions hold in some iteration of loops, as far as isl and the enumeration know."""
    system = System(scop.space, frozenset(scop.space.iterated))
    for condition in (*scop.context, *conditions, *(c for loop in loops for c in loop.conditions)):
        system.add(condition, BOTH)
    if system.is_empty():
        return False
    table = Points(scop).domain(loops, conditions)
    return table is None or bool(table.rows)


def _keys(pairs: Sequence[tuple[Numbers, Numbers]]) -> tuple[Numbers, Numbers]:
    """One number for the values of several, equal where all of them are."""
    mine = theirs = np.zeros(1, np.int64)
    reach = 1
    for x, y in pairs:
        least = min(int(x.min()), int(y.min()))
        span = max(int(x.max()), int(y.max())) - least + 1
        reach *= span
        if reach >= LIMIT:
            raise _GiveUp
        mine, theirs = mine * span + (x - least), theirs * span + (y - least)
    return mine, theirs


_COMPARE: dict[Sign, np.ufunc] = {"<": np.less, ">": np.greater, "!": np.not_equal}
