"""Systems of constraints over one or two statement instances, and whether they have a solution.

A dim of a form belongs to the source instance, to the sink, or to both where all loops that it depends on are in the
same iteration. Each gets a column; the atoms bring their definitions along. Disjunctions are tried one after another.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tirlower.arith.intervals import Bound
from tirlower.ir import Var
from tirlower.poly.affine import Space
from tirlower.poly.conditions import (
    AllOf,
    AnyOf,
    AtLeast,
    Condition,
    Equal,
    Unknown,
    all_of,
    any_of,
    definition_of,
    equal,
)
from tirlower.poly.forms import Atom, Dim, Div, Form, Piecewise, Product, SymbolicDiv, constant, single
from tirlower.poly.isl import TOO_MUCH, Row, Solver, default_solver

__all__ = ["BOTH", "SINK", "SOURCE", "Outcome", "System"]

BOTH, SOURCE, SINK = 0, 1, 2
MAX_CASES = 96
"""The disjuncts of one question that are tried."""

_TRIED_SIZES = ((2,), (3,), (33,), (2, 3), (3, 2), (1,), (257,), (4, 2), (2, 5), (1, 3), (3, 1), (5,))
"""What sizes are tried for, in turn, where a product of them stands in the way; the large ones are more than a tile."""

Terms = dict[int, int]


@dataclass(frozen=True)
class Outcome:
    """The answer to a question about instances.

    ``status`` is "empty", "found" (a solution; ``exact`` says that it is certain, ``values`` gives the dims of each
    side) or "unknown", with the reason.
    """

    status: str
    exact: bool = True
    values: Mapping[tuple[int, Dim], int] | None = None
    reason: str = ""


EMPTY = Outcome("empty")


class System:
    """Constraints being collected. ``equal`` holds the loop variables whose iteration both sides share; ``fixed``
    gives parameters a value (products by them become affine)."""

    def __init__(self, space: Space, equal: frozenset[Var], fixed: Mapping[Var, int] | None = None) -> None:
        self.space = space
        self.equal = equal
        self.fixed = fixed or {}
        self.columns: dict[tuple[int, Dim], int] = {}
        self.hidden = 0
        self.equations: list[tuple[int, Terms]] = []
        self.inequalities: list[tuple[int, Terms]] = []
        self.choices: list[tuple[AnyOf, int]] = []
        self.inexact: list[str] = []
        self.symbolic: set[Var] = set()
        self.impossible = False

    def copy(self) -> System:
        """A system that can be extended on its own."""
        made = System(self.space, self.equal, self.fixed)
        made.columns = dict(self.columns)
        made.hidden = self.hidden
        made.equations = list(self.equations)
        made.inequalities = list(self.inequalities)
        made.choices = list(self.choices)
        made.inexact = list(self.inexact)
        made.symbolic = set(self.symbolic)
        made.impossible = self.impossible
        return made

    # Rows

    def side_of(self, dim: Dim, side: int) -> int:
        """The side that a dim belongs to."""
        if isinstance(dim, Atom):
            return side if dim.deps - self.equal else BOTH
        return side if dim in self.space.iterated and dim not in self.equal else BOTH

    def column(self, dim: Dim, side: int) -> int:
        """The column of a dim; a new one brings its facts."""
        key = (self.side_of(dim, side), dim)
        found = self.columns.get(key)
        if found is None:
            found = self.columns[key] = len(self.columns) + self.hidden
            if isinstance(dim, Atom):
                self._define(dim, found, side)
            elif dim not in self.space.iterated or dim in self.space.lanes:
                self._bound(found, self.space.interval_of_dim(dim))
        return found

    def _bound(self, column: int, interval: Bound) -> None:
        low, high = interval
        if isinstance(low, int):
            self.inequalities.append((-low, {column: 1}))
        if isinstance(high, int):
            self.inequalities.append((high, {column: -1}))

    def _define(self, atom: Atom, column: int, side: int) -> None:
        if isinstance(atom, Div):
            self._divide(atom.of, atom.divisor, column, side)
        elif isinstance(atom, Piecewise):
            self.add(definition_of(atom, single(atom)), side)
        elif (isinstance(atom, Product) and self._linear(atom, column, side)) or (
            isinstance(atom, SymbolicDiv)
            and (self._fixed_division(atom, column, side) or self._divided_by_few(atom, column, side))
        ):
            return
        else:
            self.inexact.append(atom.name)
            self._bound(column, atom.interval)
            if isinstance(atom, SymbolicDiv) and atom.remainder and atom.interval[0] >= 0:
                # The remainder by a size is below it.
                self.add(AtLeast((atom.divisor - single(atom)).shifted(-1)), side)
            if isinstance(atom, (Product, SymbolicDiv)):
                self.symbolic |= self._parameters(atom)

    def _divide(self, of: Form, divisor: int, column: int, side: int) -> None:
        const, terms = self.row(of, side)
        self.inequalities.append((const, _plus(terms, column, -divisor)))
        self.inequalities.append((divisor - 1 - const, _plus({c: -x for c, x in terms.items()}, column, divisor)))

    def _linear(self, product: Product, column: int, side: int) -> bool:
        factor, rest = 1, []
        for dim in product.factors:
            value = self.fixed.get(dim) if isinstance(dim, Var) else None
            if value is None:
                rest.append(dim)
            else:
                factor *= value
        if len(rest) > 1:
            return False
        lin = constant(factor) if not rest else single(rest[0]).scaled(factor)
        const, terms = self.row(lin, side)
        self.equations.append((const, _plus(terms, column, -1)))
        return True

    def _fixed_division(self, atom: SymbolicDiv, column: int, side: int) -> bool:
        by = self._value(atom.divisor)
        if by is None or by == 0:
            return False
        value = self.space.floormod(atom.of, by) if atom.remainder else self.space.floordiv(atom.of, by)
        const, terms = self.row(value, side)
        self.equations.append((const, _plus(terms, column, -1)))
        return True

    def _divided_by_few(self, atom: SymbolicDiv, column: int, side: int) -> bool:
        """A division by each of the few values of a divisor; its quotient and its remainder in the same cases."""
        if not atom.by:
            return False
        self._bound(column, atom.interval)
        parts = [atom]
        other = self.space.other_part(atom)
        if other is not None:
            key = (self.side_of(other, side), other)
            if key not in self.columns:
                self.columns[key] = len(self.columns) + self.hidden
                self._bound(self.columns[key], other.interval)
                parts.append(other)
        ways = [
            all_of([equal(atom.divisor.shifted(-by)), *(Equal(single(part) - part.by[by]) for part in parts)])
            for by in atom.by
        ]
        self.add(any_of(ways), side)
        return True

    def _value(self, lin: Form) -> int | None:
        total = lin.const
        for dim, c in lin.terms.items():
            factors = dim.factors if isinstance(dim, Product) else (dim,)
            for factor in factors:
                value = self.fixed.get(factor) if isinstance(factor, Var) else None
                if value is None:
                    return None
                c *= value
            total += c
        return total

    def _parameters(self, atom: Product | SymbolicDiv) -> set[Var]:
        dims: Iterable[Dim] = atom.factors if isinstance(atom, Product) else (*atom.of.terms, *atom.divisor.terms)
        found: set[Var] = set()
        for dim in dims:
            if isinstance(dim, Var):
                if dim not in self.space.iterated:
                    found.add(dim)
            elif isinstance(dim, (Product, SymbolicDiv)):
                found |= self._parameters(dim)
        return found

    def row(self, lin: Form, side: int) -> tuple[int, Terms]:
        """A form as a constant and coefficients by column."""
        terms: Terms = {}
        const = lin.const
        for dim, c in lin.terms.items():
            column = self.column(dim, side)
            terms[column] = terms.get(column, 0) + c
        return const, terms

    # Constraints

    def add(self, condition: Condition, side: int) -> None:
        """A condition on one side's instance."""
        if condition.__class__ is AtLeast or condition.__class__ is Equal:
            rows = self.inequalities if condition.__class__ is AtLeast else self.equations
            rows.append(self.row(condition.lin, side))
        elif condition.__class__ is AllOf:
            for part in condition.parts:
                self.add(part, side)
        elif isinstance(condition, AnyOf):
            if condition.is_false:
                self.impossible = True
            else:
                self.choices.append((condition, side))
        elif isinstance(condition, Unknown):
            self.inexact.append(condition.text)

    def add_same(self, source: Form, sink: Form) -> None:
        """That a form of the source equals one of the sink."""
        self.equations.append(self._difference(source, sink))

    def add_before(self, source: Form, sink: Form, least: int = 1) -> None:
        """That a form of the sink exceeds one of the source by ``least``."""
        const, terms = self._difference(sink, source, SINK, SOURCE)
        self.inequalities.append((const - least, terms))

    def add_after(self, source: Form, sink: Form, least: int = 1) -> None:
        """That a form of the source exceeds one of the sink by ``least``."""
        const, terms = self._difference(source, sink)
        self.inequalities.append((const - least, terms))

    def relate(self, a: Form, a_side: int, sign: str, b: Form, b_side: int) -> None:
        """That a form of one side equals one of another ("="), or is less ("<"); there may be more than two sides."""
        if sign == "=":
            self.equations.append(self._difference(a, b, a_side, b_side))
        else:
            const, terms = self._difference(b, a, b_side, a_side)
            self.inequalities.append((const - 1, terms))

    def _difference(self, a: Form, b: Form, a_side: int = SOURCE, b_side: int = SINK) -> tuple[int, Terms]:
        const, terms = self.row(a, a_side)
        other, more = self.row(b, b_side)
        for column, c in more.items():
            terms[column] = terms.get(column, 0) - c
        return const - other, {column: c for column, c in terms.items() if c}

    # Solving

    def cases(self, solver: Solver | None = None) -> Iterator[System]:
        """The conjunctions that the system is the union of. Raises :class:`TooManyCases` past a limit.

        With a solver, parts that have no solution already are not split further.
        """
        budget = [MAX_CASES]
        yield from self._cases(budget, solver)

    def _cases(self, budget: list[int], solver: Solver | None) -> Iterator[System]:
        if self.impossible:
            return
        if not self.choices:
            budget[0] -= 1
            if budget[0] < 0:
                raise TooManyCases
            yield self
            return
        choice, side = self.choices.pop()
        many = len(self.choices) >= 2
        for part in choice.parts:
            made = self.copy()
            made.add(part, side)
            if many and solver is not None and made._certainly_empty(solver):
                continue
            yield from made._cases(budget, solver)

    def _certainly_empty(self, solver: Solver) -> bool:
        rows = self.matrices()
        if rows is None:
            return True
        with solver.soon():
            return solver.solve(*rows).empty

    def matrices(self) -> tuple[int, list[Row], list[Row]] | None:
        """Columns, equations and inequalities as sorted dense rows; None where a row without terms is false."""
        width = len(self.columns) + self.hidden + 1
        made: list[list[Row]] = []
        for rows, is_equation in ((self.equations, True), (self.inequalities, False)):
            dense: set[Row] = set()
            for const, terms in rows:
                row = [0] * width
                row[0] = const
                some = False
                for column, c in terms.items():
                    if c:
                        row[column + 1] = c
                        some = True
                if some:
                    dense.add(tuple(row))
                elif const < 0 or (is_equation and const):
                    return None
            made.append(sorted(dense))
        return width - 1, made[0], made[1]

    def ordered_cases(self, keys: Sequence[tuple[int, Dim]]) -> Iterator[tuple[int, list[Row], list[Row]]]:
        """The columns, equations and inequalities of each case, with the columns of ``keys`` first."""
        for case in self.copy().cases():
            rows = case.matrices()
            if rows is None:
                continue
            columns, equations, inequalities = rows
            first = [case.columns[key] for key in keys]
            order = [0, *(c + 1 for c in first), *(c + 1 for c in range(columns) if c not in set(first))]
            made = [[tuple([row[at] for at in order]) for row in kind] for kind in (equations, inequalities)]
            yield columns, made[0], made[1]

    def solve(self, solver: Solver) -> Outcome:
        """A solution of the system: an exact one where there is one.

        Where exactness is lost to products or divisions by symbols, a few sizes are tried in their place.
        """
        inexact: Outcome | None = None
        unknown: Outcome | None = None
        symbolic: set[Var] = set()
        if solver.spent:
            return Outcome("unknown", reason=TOO_MUCH)
        try:
            for case in self.copy().cases(solver):
                if solver.spent:
                    unknown = Outcome("unknown", reason=TOO_MUCH)
                    break
                found = case._solve_case(solver)
                if found.status == "unknown":
                    if unknown is None:
                        unknown = found
                elif found.status == "found":
                    if found.exact:
                        return found
                    inexact = inexact or found
                    symbolic |= case.symbolic
        except TooManyCases:
            unknown = Outcome("unknown", reason=f"gave up after {MAX_CASES} cases of its conditions")
        if inexact is not None:
            return self._with_sizes(solver, symbolic) or inexact
        return EMPTY if unknown is None else unknown

    def _solve_case(self, solver: Solver) -> Outcome:
        rows = self.matrices()
        if rows is None:
            return EMPTY
        answer = solver.solve(*rows)
        if answer.empty:
            return EMPTY
        if answer.point is None:
            return Outcome("unknown", reason=answer.reason)
        if self.inexact:
            return Outcome("found", False, None, self.inexact[0])
        nonneg = [column for (_, dim), column in self.columns.items() if isinstance(dim, Var)]
        point = solver.smallest(*rows, nonneg) or solver.smallest(*rows, ()) or answer.point
        return Outcome("found", True, {key: point[column] for key, column in self.columns.items()})

    def is_empty(self, solver: Solver | None = None) -> bool:
        """Whether it certainly has no solution. Much cheaper than :meth:`solve`, which looks for one that can be shown."""
        asked = solver or default_solver()
        if asked.spent:
            return False
        try:
            for case in self.copy().cases(asked):
                rows = case.matrices()
                if rows is not None and (asked.spent or not asked.solve(*rows).empty):
                    return False
        except TooManyCases:
            return False
        return True

    def _with_sizes(self, solver: Solver, symbolic: set[Var]) -> Outcome | None:
        if not symbolic or self.fixed:
            return None
        order = [var for _, var in self.columns if isinstance(var, Var) and var in symbolic]
        order += [var for var in symbolic if var not in order]
        for sizes in _TRIED_SIZES:
            if len(sizes) > len(order):
                continue
            trial = self.rebuild(dict(zip(order, itertools.cycle(sizes), strict=False)))
            if trial is None:
                return None
            found = trial.solve(solver)
            if found.status == "found" and found.exact:
                return found
        return None

    def rebuild(self, fixed: Mapping[Var, int]) -> System | None:
        """The same system with parameters fixed, where it knows how it was made."""
        if self.maker is None:
            return None
        made = self.maker(fixed)
        for var, value in fixed.items():
            made.equations.append((-value, {made.column(var, BOTH): 1}))
        return made

    maker: Callable[[Mapping[Var, int]], System] | None = None


class TooManyCases(Exception):
    """More disjuncts than are tried."""


def _plus(terms: Terms, column: int, by: int) -> Terms:
    made = dict(terms)
    made[column] = made.get(column, 0) + by
    return made
