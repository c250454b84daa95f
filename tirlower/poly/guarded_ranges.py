"""What the guards around an access say of one variable alone: ``tx < 256`` of ``if tx // 32 != 8``, ``tx`` below 288."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tirlower.arith import intervals
from tirlower.arith.intervals import INF, Bound
from tirlower.ir import Var
from tirlower.poly.affine import Space
from tirlower.poly.conditions import AnyOf, AtLeast, Condition, conjuncts
from tirlower.poly.forms import Dim, Div
from tirlower.poly.scop import Access

__all__ = ["Ranges", "bound_within", "guarded_ranges"]

Ranges = Mapping[Dim, Bound]
"""The bounds of variables at one access, where its guards narrow them."""


def guarded_ranges(space: Space, access: Access) -> Ranges:
    """The variables that the guards of an access narrow, with what is left of their bounds."""
    found: dict[Dim, Bound] = {}
    for condition in conjuncts(access.conditions):
        for var, bound in _said(space, condition):
            kept = intervals.intersection(found.get(var, space.interval_of_dim(var)), bound)
            # Contradicting guards are left to isl.
            if kept[0] <= kept[1] and kept != space.interval_of_dim(var):
                found[var] = kept
    return found


def bound_within(space: Space, dim: Dim, ranges: Ranges) -> Bound:
    """The bounds of a dim where variables are in some ranges.

    >>> from tirlower.poly.forms import single
    >>> space, tx = Space(), Var("tx")
    >>> space.ranges[tx] = (0, 287)
    >>> (warp,) = space.floordiv(single(tx), 32).terms
    >>> bound_within(space, warp, {}), bound_within(space, warp, {tx: (0, 255)})
    ((0, 8), (0, 7))
    """
    own = space.interval_of_dim(dim)
    if not ranges:
        return own
    if isinstance(dim, Div):
        of = dim.of.bound(lambda part: bound_within(space, part, ranges))
        return intervals.intersection(own, intervals.floordiv(of, (dim.divisor, dim.divisor)))
    return ranges.get(dim, own)


def _said(space: Space, condition: Condition) -> Iterator[tuple[Var, Bound]]:
    """What a condition says of a variable alone; a disjunction, by the one part that is possible."""
    if isinstance(condition, AnyOf):
        possible = [part for part in condition.parts if not _is_impossible(space, part)]
        if len(possible) == 1:
            for part in conjuncts(possible):
                yield from _said(space, part)
    elif isinstance(condition, AtLeast) and len(condition.lin.terms) == 1:
        ((dim, c),) = condition.lin.terms.items()
        if isinstance(dim, Var):
            # c * dim + const >= 0
            least = -(condition.lin.const // abs(c))
            yield dim, (least, INF) if c > 0 else (-INF, -least)


def _is_impossible(space: Space, condition: Condition) -> bool:
    return any(isinstance(part, AtLeast) and space.interval(part.lin)[1] < 0 for part in conjuncts([condition]))
