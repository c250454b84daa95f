"""Differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tirlower import ir
from tirlower.arith.pattern import Domain, Operand, PNode, Rule, RuleSet, pmax, pmin, rule, select, tdiv, tmod
from tirlower.arith.rules.names import c0, c1, c2, c3, p, s, t, w, x, y, z

RING = RuleSet(
    Domain.RING,
    rule(x - x, 0),
    rule(x - 0, x),
    # terms that cancel
    rule((x + y) - y, x),
    rule(x - (x + y), 0 - y),
    rule((x - y) - x, 0 - y),
    rule(x - (x - y), y),
    rule((x + y) - (x + z), y - z),
    rule((x - y) - (x - z), z - y),
    rule((x - y) - (z - y), x - z),
    rule((x + y) - (x - z), y + z),
    rule(((x + y) + z) - x, y + z),
    rule(((x - y) + z) - x, z - y),
    rule(x - ((x + y) + z), 0 - (y + z)),
    rule(x - ((x - y) + z), y - z),
    rule(((x + y) + z) - (x + w), (y + z) - w),
    # a difference of a difference
    rule(0 - (x - y), y - x),
    rule(x - (0 - y), x + y),
    rule(c0 - (x + c1), (c0 - c1) - x),
    rule(c0 - (c1 - x), x + (c0 - c1)),
    rule((c0 - x) - c1, (c0 - c1) - x),
    # common factors
    rule(s - s * c0, s * (1 - c0)),
    rule(s * c0 - s, s * (c0 - 1)),
    rule(s * c0 - s * c1, s * (c0 - c1)),
    rule(s * t - s, (t - 1) * s),
    rule(s - s * t, (1 - t) * s),
    rule(s * y - s * z, (y - z) * s),
    rule((x + s * c0) - s * c1, x + s * (c0 - c1)),
    rule((x + s * c0) - s, x + s * (c0 - 1)),
    rule((x - s * c0) - s * c1, x - s * (c0 + c1)),
    rule((x - s) - s * c0, x - s * (c0 + 1)),
    rule((x - s * c0) - s, x - s * (c0 + 1)),
    rule((x - s) - s, x - s * 2),
    # the remainder of a split
    rule(x - (x // c0) * c0, x % c0, when="c0 != 0"),
    rule((x // c0) * c0 - x, 0 - x % c0, when="c0 != 0"),
    rule(x - (x // y) * y, x % y),
    rule((x // y) * y - x, 0 - x % y),
    rule(x - x % c0, (x // c0) * c0, when="c0 != 0"),
    rule(x % c0 - x, (x // c0) * (0 - c0), when="c0 != 0"),
    rule(x - tdiv(x, c0) * c0, tmod(x, c0), when="c0 != 0"),
    rule(tdiv(x, c0) * c0 - x, 0 - tmod(x, c0), when="c0 != 0"),
    rule(x - tdiv(x, y) * y, tmod(x, y)),
    rule(tdiv(x, y) * y - x, 0 - tmod(x, y)),
    rule(x - tmod(x, c0), tdiv(x, c0) * c0, when="c0 != 0"),
    rule((w + x) - (x // c0) * c0, w + x % c0, when="c0 != 0"),
    rule((w + x) - x % c0, w + (x // c0) * c0, when="c0 != 0"),
    rule(x - ((x + y) // c0) * c0, (x + y) % c0 - y, when="c0 != 0"),
    rule(((x + y) // c0) * c0 - x, y - (x + y) % c0, when="c0 != 0"),
    rule(x - ((x - y) // c0) * c0, (x - y) % c0 + y, when="c0 != 0"),
    rule(((x - y) // c0) * c0 - x, (0 - (x - y) % c0) - y, when="c0 != 0"),
    rule(x - tdiv(x + y, c0) * c0, tmod(x + y, c0) - y, when="c0 != 0"),
    rule(tdiv(x + y, c0) * c0 - x, y - tmod(x + y, c0), when="c0 != 0"),
    rule(x - tdiv(x - y, c0) * c0, tmod(x - y, c0) + y, when="c0 != 0"),
    rule(tdiv(x - y, c0) * c0 - x, (0 - tmod(x - y, c0)) - y, when="c0 != 0"),
    # min and max of the same two
    rule((x + y) - pmin(x, y), pmax(x, y)),
    rule((x + y) - pmax(x, y), pmin(x, y)),
    rule(pmin(x, y) - pmin(y, x), 0),
    rule(pmax(x, y) - pmax(y, x), 0),
    rule(select(p, x, y) - select(p, z, w), select(p, x - z, y - w)),
)


def _into(f: Callable[[Operand, Operand], PNode], g: Callable[[Operand, Operand], PNode]) -> Iterator[Rule]:
    """What a difference takes away from min and max, ``g`` being the other one of ``f``; operands keep their order."""
    order = (ir.Min, ir.Max)
    yield rule(f(x, y) - x, f(0, y - x), fixed=order)
    yield rule(f(x, y) - y, f(x - y, 0), fixed=order)
    yield rule(x - f(x, y), g(0, x - y), fixed=order)
    yield rule(y - f(x, y), g(y - x, 0), fixed=order)
    yield rule(f(x + y, z) - x, f(y, z - x), fixed=order)
    yield rule(f(z, x + y) - x, f(z - x, y), fixed=order)
    yield rule(x - f(x + y, z), g(0 - y, x - z), fixed=order)
    yield rule(x - f(z, x + y), g(x - z, 0 - y), fixed=order)
    yield rule(f(x - y, z) - x, f(0 - y, z - x), fixed=order)
    yield rule(f(z, x - y) - x, f(z - x, 0 - y), fixed=order)
    yield rule(x - f(x - y, z), g(y, x - z), fixed=order)
    yield rule(x - f(z, x - y), g(x - z, y), fixed=order)
    yield rule((x + f(y, z)) - y, x + f(z - y, 0))


# Unsigned results would read x + 4294967295, so these two are for index types.
INDEX = RuleSet(
    Domain.INDEX,
    rule(x - c0, x + (0 - c0)),
    rule((x + c0) - s, (x - s) + c0),
    rule(s - (y + c0), (s - y) + (0 - c0)),
    rule(s - (c0 - y), (s + y) + (0 - c0)),
    rule(x - y * c0, x + y * (0 - c0), when="c0 < 0"),
    rule(0 - y * c0, y * (0 - c0)),
    rule(x - (y - z), (x + z) - y),
    # scaled remainders
    rule(x * c1 - (x // c0) * c2, (x % c0) * c1, when="c0 != 0 and c2 == c0 * c1"),
    rule((x // c0) * c2 - x * c1, (x % c0) * (0 - c1), when="c0 != 0 and c2 == c0 * c1"),
    rule(x * c1 - ((x + y) // c0) * c2, ((x + y) % c0 - y) * c1, when="c0 != 0 and c2 == c0 * c1"),
    rule(((x + y) // c0) * c2 - x * c1, (y - (x + y) % c0) * c1, when="c0 != 0 and c2 == c0 * c1"),
    rule(x * c1 - ((x - y) // c0) * c2, ((x - y) % c0 + y) * c1, when="c0 != 0 and c2 == c0 * c1"),
    rule(((x - y) // c0) * c2 - x * c1, ((0 - (x - y) % c0) - y) * c1, when="c0 != 0 and c2 == c0 * c1"),
    rule(x * c1 - tdiv(x + y, c0) * c2, (tmod(x + y, c0) - y) * c1, when="c0 != 0 and c2 == c0 * c1"),
    rule(tdiv(x + y, c0) * c2 - x * c1, (y - tmod(x + y, c0)) * c1, when="c0 != 0 and c2 == c0 * c1"),
    rule(x * c1 - tdiv(x - y, c0) * c2, (tmod(x - y, c0) + y) * c1, when="c0 != 0 and c2 == c0 * c1"),
    rule(tdiv(x - y, c0) * c2 - x * c1, ((0 - tmod(x - y, c0)) - y) * c1, when="c0 != 0 and c2 == c0 * c1"),
    rule(x * c1 - tdiv(x, c0) * c2, tmod(x, c0) * c1, when="c0 != 0 and c2 == c0 * c1"),
    rule(tdiv(x, c0) * c2 - x * c1, tmod(x, c0) * (0 - c1), when="c0 != 0 and c2 == c0 * c1"),
    # quotients of shifted operands
    rule(
        (x + c1) // c0 - (x + c2) // c0,
        ((x + (c2 % c0)) % c0 + (c1 - c2)) // c0,
        when="c0 > 0",
    ),
    rule((x + c1) // c0 - x // c0, (x % c0 + c1) // c0, when="c0 > 0"),
    rule(x // c0 - (x + c2) // c0, 0 - ((x % c0 + c2) // c0), when="c0 > 0"),
    rule((x + y) // c0 - x // c0, (x % c0 + y) // c0, when="c0 > 0"),
    rule(tdiv(x + c1, c0) - tdiv(x, c0), tdiv(tmod(x, c0) + c1, c0), when="c0 > 0 and c1 >= 0 and x >= 0"),
    rule(
        tdiv(x + c1, c0) - tdiv(x + c2, c0),
        tdiv(tmod(x + c2, c0) + (c1 - c2), c0),
        when="c0 > 0 and c1 >= c2 and x >= -c2",
    ),
    # min and max
    *_into(pmin, pmax),
    *_into(pmax, pmin),
    rule(pmin(x + c0, y + c1) - pmin(x, y), c0, when="c0 == c1"),
    rule(pmin(x, y) - pmin(x + c0, y + c1), 0 - c0, when="c0 == c1"),
    rule(pmin(x + c0, y + c1) - pmin(x + c2, y + c3), c0 - c2, when="c0 - c2 == c1 - c3"),
    rule(pmin(x + c0, y) - pmin(x, y + c1), c0, when="c0 == -c1"),
    rule(pmin(x + c0, y + c1) - pmin(x, y + c2), c0, when="c0 == c1 - c2"),
    rule(pmin(x, y + c1) - pmin(x + c0, y + c2), 0 - c0, when="c0 == c2 - c1"),
    rule(pmax(x + c0, y + c1) - pmax(x, y), c0, when="c0 == c1"),
    rule(pmax(x, y) - pmax(x + c0, y + c1), 0 - c0, when="c0 == c1"),
    rule(pmax(x + c0, y + c1) - pmax(x + c2, y + c3), c0 - c2, when="c0 - c2 == c1 - c3"),
    rule(pmax(x + c0, y) - pmax(x, y + c1), c0, when="c0 == -c1"),
    rule(pmax(x + c0, y + c1) - pmax(x, y + c2), c0, when="c0 == c1 - c2"),
    rule(pmax(x, y + c1) - pmax(x + c0, y + c2), 0 - c0, when="c0 == c2 - c1"),
)

RULES = (RING, INDEX)
