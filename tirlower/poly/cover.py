"""Whether the values that dims take in one system are all taken in others: a question with both quantifiers.

isl answers such a question with ``is_subset`` and ``subtract``, for which it computes the quotients that are left out of
the sets; when its operations run out in the midst of that, it reads through a null pointer, and the process is gone
(isl 0.28; ``sample_point`` and ``lexmin`` end with an error at whatever operation they are stopped). So the dims that do
not matter are taken out of the others here, as the Omega test does it, and isl is asked for points alone.

A dim that an equation gives is put in its place, where its factor is not 1 with the condition that the rest is divisible;
from a lower bound ``a x >= l`` and an upper bound ``b x <= u`` follows ``a u - b l >= (a - 1) (b - 1)``, under which
there surely is an x (the dark shadow; exact where a or b is 1). So what is found covered is covered.

Source: W. Pugh, The Omega test: a fast and practical integer programming algorithm for dependence analysis,
Communications of the ACM 35(8), 1992.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tirlower.poly.constraint_system import System
from tirlower.poly.forms import Dim
from tirlower.poly.isl import Row, Solver

__all__ = ["Key", "covered", "projected"]

Key = tuple[int, Dim]

_MOST_ROWS = 200
"""Constraints of a projection, past which it is given up: pairs of bounds multiply."""

_MOST_BITS = 62
"""Bits of their numbers."""

_MOST_QUESTIONS = 100
"""What one question of this module may ask isl."""


@dataclass
class Projection:
    """Values of dims: rows that are 0, that are at least 0, and that are divisible; ``exact`` if no value is missing."""

    equations: list[Row] = field(default_factory=list)
    inequalities: list[Row] = field(default_factory=list)
    divisible: list[tuple[Row, int]] = field(default_factory=list)
    exact: bool = True


class _GivenUp(Exception):
    """A projection that is not found, or has too many constraints."""


def covered(
    inner: System,
    keys: Sequence[Key],
    outers: Iterable[tuple[System, Sequence[Key]]],
    solver: Solver,
    missing: list[tuple[int, ...]] | None = None,
) -> bool | None:
    """Whether the values of ``keys`` in a system are all values of the keys of others, taken together.

    None where that is not known. Where they are not, one that is no value of the others is added to ``missing``, which
    also is looked for where projections leave out some values. Raises :class:`~tirlower.poly.constraint_system.TooManyCases`.
    """
    known = list(_rows_of(inner, keys))
    parts: list[Projection] = []
    exact = True
    others: list[tuple[int, list[Row], list[Row]]] = []
    for system, names in outers:
        for columns, equations, inequalities in _rows_of(system, names):
            others.append((columns, equations, inequalities))
            try:
                parts.append(projected(columns, equations, inequalities, len(names)))
            except _GivenUp:
                exact = False
    exact = exact and all(part.exact for part in parts)
    left = [_MOST_QUESTIONS]
    outside: list[tuple[int, ...]] = []
    with solver.verdict():
        for columns, equations, inequalities in known:
            found = _inside(columns, equations, inequalities, parts, len(keys), solver, left, outside)
            if not found:
                if found is None or not (exact or (missing is not None and _is_missing(outside[0], others, solver))):
                    return None
                if missing is not None:
                    missing += outside
                return False
    return True


def _is_missing(point: Sequence[int], others: Iterable[tuple[int, list[Row], list[Row]]], solver: Solver) -> bool:
    """Whether certainly none of some systems has a solution in which the first columns have the given values."""
    for columns, equations, inequalities in others:
        rest = len(point)
        made: list[list[Row]] = []
        for rows in (equations, inequalities):
            made.append([(_value(row[: rest + 1], point), *row[rest + 1 :]) for row in rows])
        if not solver.solve(columns - rest, *made).empty:
            return False
    return True


def _rows_of(system: System, keys: Sequence[Key]) -> Iterator[tuple[int, list[Row], list[Row]]]:
    for side, dim in keys:
        system.column(dim, side)
    return system.ordered_cases(keys)


def _inside(
    columns: int,
    equations: list[Row],
    inequalities: list[Row],
    parts: Sequence[Projection],
    keys: int,
    solver: Solver,
    left: list[int],
    outside: list[tuple[int, ...]],
) -> bool | None:
    """Whether all points are in one of the parts; None where isl does not tell. One that is not is added to ``outside``."""
    if left[0] <= 0:
        return None
    left[0] -= 1
    answer = solver.solve(columns, equations, inequalities)
    if answer.empty:
        return True
    if answer.point is None:
        return None
    # A point in no part decides at once; one in a part says which to take out.
    point = answer.point
    at = next((n for n, part in enumerate(parts) if _holds(part, point)), None)
    if at is None:
        outside.append(point[:keys])
        return False
    part, rest = parts[at], [*parts[:at], *parts[at + 1 :]]
    for extra, more_equations, more in _outside(part, columns, keys):
        found = _inside(
            columns + extra,
            [*(row + (0,) * extra for row in equations), *more_equations],
            [*(row + (0,) * extra for row in inequalities), *more],
            rest,
            keys,
            solver,
            left,
            outside,
        )
        if not found:
            return found
    return True


def _value(row: Row, point: Sequence[int]) -> int:
    return row[0] + sum(c * x for c, x in zip(row[1:], point, strict=False))


def _holds(part: Projection, point: Sequence[int]) -> bool:
    return (
        all(_value(row, point) == 0 for row in part.equations)
        and all(_value(row, point) >= 0 for row in part.inequalities)
        and all(_value(row, point) % by == 0 for row, by in part.divisible)
    )


def _outside(part: Projection, columns: int, keys: int) -> Iterator[tuple[int, list[Row], list[Row]]]:
    """The ways not to be in a part: how many columns each adds, its equations and its inequalities."""
    rest = (0,) * (columns - keys)
    for row in part.equations:
        for sign in (1, -1):
            yield 0, [], [_moved(row, sign) + rest]
    for row in part.inequalities:
        yield 0, [], [_moved(row, -1) + rest]
    for row, by in part.divisible:
        # row == by * quotient + remainder, 1 <= remainder < by
        zeros = (0,) * columns
        yield 2, [row + rest + (-by, -1)], [(-1, *zeros, 0, 1), (by - 1, *zeros, 0, -1)]


def _moved(row: Row, sign: int) -> Row:
    """The row that is at least 0 where one, times the sign, is at least 1."""
    return (sign * row[0] - 1, *(sign * c for c in row[1:]))


def projected(columns: int, equations: Sequence[Row], inequalities: Sequence[Row], keys: int) -> Projection:
    """Values that the first ``keys`` columns take in the solutions: all of them if ``exact``, else some.

    >>> found = projected(2, [(0, 1, -2)], [(0, 0, 1), (9, 0, -1)], 1)  # 2 x, 0 <= x <= 9
    >>> found.inequalities, found.divisible, found.exact
    ([(0, 1), (18, -1)], [((0, 1), 2)], True)
    """
    out = Projection()
    equal, least = list(equations), list(inequalities)
    divisible: list[tuple[Row, int]] = []
    todo = set(range(keys + 1, columns + 1))
    while todo:
        column = _next_column(equal, least, divisible, todo)
        by = next((row for row in equal if abs(row[column]) == 1), None) or next(
            (row for row in equal if row[column] and not any(row[c] for c in todo if c != column)), None
        )
        if by is not None:
            equal.remove(by)
            factor = by[column]
            if abs(factor) != 1:
                divisible.append((_without(by, column), abs(factor)))
            equal = [_substituted(row, by, column) for row in equal]
            least = [_substituted(row, by, column) for row in least]
            divisible = [_divided(row, modulus, by, column) for row, modulus in divisible]
        elif any(row[column] for row in equal) or any(row[column] for row, _ in divisible):
            raise _GivenUp
        else:
            least, exact = _shadow(least, column)
            out.exact &= exact
        todo.discard(column)
        equal, least = _reduced(equal, least)
    out.equations = [row[: keys + 1] for row in equal]
    out.inequalities = [row[: keys + 1] for row in least]
    for row, modulus in divisible:
        small = tuple([c % modulus for c in row[: keys + 1]])
        if any(small):
            out.divisible.append((small, modulus))
    return out


def _next_column(equal: list[Row], least: list[Row], divisible: list[tuple[Row, int]], todo: set[int]) -> int:
    """The column to take out next: one that an equation gives, else the one of fewest pairs of bounds."""

    def cost(column: int) -> tuple[int, int]:
        if any(abs(row[column]) == 1 for row in equal):
            return 0, column
        if any(row[column] and not any(row[c] for c in todo if c != column) for row in equal):
            return 1, column
        if any(row[column] for row in equal) or any(row[column] for row, _ in divisible):
            return 1_000_000, column
        above = sum(row[column] > 0 for row in least)
        below = sum(row[column] < 0 for row in least)
        uneven = any(abs(row[column]) > 1 for row in least)
        return 2 + above * below + (1000 if uneven and above and below else 0), column

    return min(todo, key=cost)


def _without(row: Row, column: int) -> Row:
    return (*row[:column], 0, *row[column + 1 :])


def _substituted(row: Row, by: Row, column: int) -> Row:
    """A row, times a positive number, without a column that the equation ``by`` gives."""
    if not row[column]:
        return row
    factor = by[column]
    scale, sign = abs(factor), 1 if factor > 0 else -1
    return tuple([scale * r - sign * row[column] * b for r, b in zip(row, by, strict=True)])


def _divided(row: Row, modulus: int, by: Row, column: int) -> tuple[Row, int]:
    """The same of a row that is divisible: times a number, so is what it is divided by."""
    return (_substituted(row, by, column), modulus * abs(by[column])) if row[column] else (row, modulus)


def _shadow(rows: list[Row], column: int) -> tuple[list[Row], bool]:
    """The dark shadow: the constraints under which a column has a value, and whether it has one nowhere else."""
    above = [row for row in rows if row[column] > 0]
    below = [row for row in rows if row[column] < 0]
    made = [row for row in rows if not row[column]]
    if len(made) + len(above) * len(below) > _MOST_ROWS:
        raise _GivenUp
    exact = True
    for low in above:
        for high in below:
            a, b = low[column], -high[column]
            row = [a * h + b * l for h, l in zip(high, low, strict=True)]
            loss = (a - 1) * (b - 1)
            row[0] -= loss
            if any(row[1:]):
                exact &= not loss
            elif row[0] >= 0:
                continue
            else:
                exact &= row[0] + loss < 0
            made.append(tuple(row))
    return made, exact


def _reduced(equal: list[Row], least: list[Row]) -> tuple[list[Row], list[Row]]:
    """The rows divided by what their coefficients share, each once. Raises :class:`_GivenUp` for great numbers."""
    equations = dict.fromkeys(equal)
    tightest: dict[Row, int] = {}
    for row in least:
        by = math.gcd(*row[1:]) or 1
        const, terms = row[0] // by, tuple([c // by for c in row[1:]])
        tightest[terms] = min(const, tightest.get(terms, const))
    rows = [(const, *terms) for terms, const in tightest.items() if any(terms) or const < 0]
    if any(abs(c).bit_length() > _MOST_BITS for row in (*equations, *rows) for c in row):
        raise _GivenUp
    return list(equations), rows
