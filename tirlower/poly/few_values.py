"""The values of a form that has few: those of ``min(10 - 8 * q, 8)`` with ``0 <= q < 2`` are 2 and 8.

A division by such a form is one of a few divisions by numbers, which isl knows.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tirlower.arith.intervals import Bound, intersection
from tirlower.poly.forms import Form, Piecewise

__all__ = ["MAX_VALUES", "few_values"]

MAX_VALUES = 8
"""The values of a divisor that are taken one by one: each is a case more of a question to isl."""


def few_values(lin: Form, interval: Callable[[Form], Bound]) -> tuple[int, ...]:
    """All values that a form may have, in order, where they are at most ``MAX_VALUES``; nothing where they may be more.

    >>> from tirlower.ir import Var
    >>> from tirlower.poly.affine import Space
    >>> from tirlower.poly.forms import constant, single
    >>> space, q = Space(), Var("q")
    >>> space.ranges[q] = (0, 1)
    >>> left = single(q).scaled(-8).shifted(10)
    >>> few_values(left, space.interval), few_values(space.extremum([left, constant(8)], False), space.interval)
    ((2, 10), (2, 8))
    """
    found = _within(lin, interval(lin), interval)
    return () if found is None else tuple(sorted(found))


def _within(lin: Form, bound: Bound, interval: Callable[[Form], Bound]) -> set[int] | None:
    """The values of a form that lie in a bound; None where they may be too many."""
    step = math.gcd(*lin.terms.values())
    if not step:
        return {lin.const} if bound[0] <= lin.const <= bound[1] else set()
    if len(lin.terms) == 1:
        ((dim, c),) = lin.terms.items()
        if isinstance(dim, Piecewise):
            found: set[int] = set()
            for option in dim.options:
                # Another value than one in the piece's own bounds is never the one that is taken.
                values = _within(option, intersection(interval(option), dim.interval), interval)
                if values is None:
                    return None
                found |= values
            values = {c * value + lin.const for value in found}
            values = {value for value in values if bound[0] <= value <= bound[1]}
            return values if len(values) <= MAX_VALUES else None
    low, high = bound
    if not (isinstance(low, int) and isinstance(high, int)) or (high - low) // step >= MAX_VALUES:
        return None
    return set(range(low + (lin.const - low) % step, high + 1, step))
