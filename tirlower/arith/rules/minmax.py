"""Minimum and maximum. Each rule of one has its mirror image for the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tirlower import ir
from tirlower.arith.pattern import Domain, Pat, PNode, Rule, RuleSet, pmax, pmin, rule, select, tdiv
from tirlower.arith.rules.names import c0, c1, p, s, v, w, x, y, z


def _lattice(f: Callable[[Pat, Pat], PNode], g: Callable[[Pat, Pat], PNode]) -> Iterator[Rule]:
    """What holds in any order: true of every integer type, wrapping or not."""
    yield rule(f(x, x), x)
    yield rule(f(f(x, c0), c1), f(x, f(c0, c1)))
    yield rule(f(f(x, c0), s), f(f(x, s), c0), fixed=(ir.Min, ir.Max))
    yield rule(f(s, f(y, c0)), f(f(s, y), c0), fixed=(ir.Min, ir.Max))
    yield rule(f(f(x, y), x), f(x, y))
    yield rule(f(g(x, y), x), x)
    yield rule(f(g(x, y), f(y, x)), f(x, y), fixed=(ir.Min, ir.Max))
    yield rule(f(g(x, y), f(x, y)), f(x, y))
    yield rule(f(f(f(x, y), z), x), f(f(x, y), z))
    yield rule(f(f(f(f(x, y), z), w), x), f(f(f(x, y), z), w))
    yield rule(f(f(f(f(f(x, y), z), w), v), x), f(f(f(f(x, y), z), w), v))
    yield rule(f(f(x, y), f(x, z)), f(f(y, z), x))
    yield rule(f(g(x, y), g(x, z)), g(f(y, z), x))
    yield rule(f(select(p, x, y), select(p, z, w)), select(p, f(x, z), f(y, w)))


LATTICE = RuleSet(
    Domain.INTEGER,
    *_lattice(pmin, pmax),
    *_lattice(pmax, pmin),
    # clamps whose limits cross
    rule(pmin(pmax(x, c0), c1), c1, when="c0 > c1"),
    rule(pmax(pmin(x, c0), c1), c1, when="c0 <= c1"),
)

# Decided by bounds, modular sets and facts; then what needs sums without overflow.
INDEX = RuleSet(
    Domain.INDEX,
    rule(pmin(x, y), x, when="x <= y"),
    rule(pmin(x, y), y, when="y <= x"),
    rule(pmax(x, y), x, when="y <= x"),
    rule(pmax(x, y), y, when="x <= y"),
    rule(pmin(pmin(x, y), z), pmin(x, z), when="z <= y"),
    rule(pmin(pmin(x, y), z), pmin(x, y), when="y <= z"),
    rule(pmax(pmax(x, y), z), pmax(x, z), when="y <= z"),
    rule(pmax(pmax(x, y), z), pmax(x, y), when="z <= y"),
    # the shared part of two sums comes out
    rule(pmin(y + x, z + x), pmin(y, z) + x),
    rule(pmax(y + x, z + x), pmax(y, z) + x),
    rule(pmin(y - x, z - x), pmin(y, z) - x),
    rule(pmax(y - x, z - x), pmax(y, z) - x),
    rule(pmin(x - y, x - z), x - pmax(y, z)),
    rule(pmax(x - y, x - z), x - pmin(y, z)),
    rule(pmin(x - y, x + z), x + pmin(z, 0 - y)),
    rule(pmax(x - y, x + z), x + pmax(z, 0 - y)),
    rule(pmin(c0 - x, c1), c0 - pmax(x, c0 - c1)),
    rule(pmax(c0 - x, c1), c0 - pmin(x, c0 - c1)),
    rule(pmin(c0 - x, c1 - y), c0 - pmax(x, y + (c0 - c1))),
    rule(pmax(c0 - x, c1 - y), c0 - pmin(x, y + (c0 - c1))),
    # one of several, shifted, against the same shifted otherwise
    rule(pmax(pmax(x, y) + c0, x + c1), pmax(y + c0, x + c1), when="c0 <= c1"),
    rule(pmax(pmax(x, y) + c0, x + c1), pmax(x, y) + c0, when="c1 < c0"),
    rule(pmin(pmin(x, y) + c0, x + c1), pmin(y + c0, x + c1), when="c1 <= c0"),
    rule(pmin(pmin(x, y) + c0, x + c1), pmin(x, y) + c0, when="c0 < c1"),
    rule(pmax(pmax(x, y) + c0, x), pmax(y + c0, x), when="c0 <= 0"),
    rule(pmax(pmax(x, y) + c0, x), pmax(x, y) + c0, when="0 < c0"),
    rule(pmin(pmin(x, y) + c0, x), pmin(y + c0, x), when="0 <= c0"),
    rule(pmin(pmin(x, y) + c0, x), pmin(x, y) + c0, when="c0 < 0"),
    # a shared factor comes out
    rule(pmin(x * c0, y * c0), pmin(x, y) * c0, when="c0 > 0"),
    rule(pmin(x * c0, y * c0), pmax(x, y) * c0, when="c0 < 0"),
    rule(pmax(x * c0, y * c0), pmax(x, y) * c0, when="c0 > 0"),
    rule(pmax(x * c0, y * c0), pmin(x, y) * c0, when="c0 < 0"),
    rule(pmin(x * c0, c1), pmin(x, c1 // c0) * c0, when="c0 > 1 and c1 % c0 == 0"),
    rule(pmin(x * c0, c1), pmax(x, c1 // c0) * c0, when="c0 < 0 and c1 % c0 == 0"),
    rule(pmax(x * c0, c1), pmax(x, c1 // c0) * c0, when="c0 > 1 and c1 % c0 == 0"),
    rule(pmax(x * c0, c1), pmin(x, c1 // c0) * c0, when="c0 < 0 and c1 % c0 == 0"),
    rule(pmin(x * z, y * z), pmin(x, y) * z, when="z > 0"),
    rule(pmax(x * z, y * z), pmax(x, y) * z, when="z > 0"),
    # division is monotone
    rule(pmin(x // c0, y // c0), pmin(x, y) // c0, when="c0 > 0"),
    rule(pmin(x // c0, y // c0), pmax(x, y) // c0, when="c0 < 0"),
    rule(pmax(x // c0, y // c0), pmax(x, y) // c0, when="c0 > 0"),
    rule(pmax(x // c0, y // c0), pmin(x, y) // c0, when="c0 < 0"),
    rule(pmin(tdiv(x, c0), tdiv(y, c0)), tdiv(pmin(x, y), c0), when="c0 > 0"),
    rule(pmin(tdiv(x, c0), tdiv(y, c0)), tdiv(pmax(x, y), c0), when="c0 < 0"),
    rule(pmax(tdiv(x, c0), tdiv(y, c0)), tdiv(pmax(x, y), c0), when="c0 > 0"),
    rule(pmax(tdiv(x, c0), tdiv(y, c0)), tdiv(pmin(x, y), c0), when="c0 < 0"),
    # rounding up and down to a multiple
    rule(pmin(((x + c0) // c1) * c1, x), x, when="c1 > 0 and c0 + 1 == c1"),
    rule(pmax(((x + c0) // c1) * c1, x), ((x + c0) // c1) * c1, when="c1 > 0 and c0 + 1 == c1"),
    rule(pmin((x // c1) * c1, x), (x // c1) * c1, when="c1 > 0"),
    rule(pmax((x // c1) * c1, x), x, when="c1 > 0"),
    rule(pmin(((x + c0) // c1) * c1, pmax(x, c1)), pmax(x, c1), when="c1 > 0 and c0 + 1 == c1 and x > 0"),
    rule(pmax(((x + c0) // c1) * c1, pmax(x, c1)), ((x + c0) // c1) * c1, when="c1 > 0 and c0 + 1 == c1 and x > 0"),
    rule(pmin(tdiv(x + c0, c1) * c1, x), x, when="c1 > 0 and c0 + 1 == c1 and x >= 0"),
    rule(pmax(tdiv(x + c0, c1) * c1, x), tdiv(x + c0, c1) * c1, when="c1 > 0 and c0 + 1 == c1 and x >= 0"),
    # clamps of shifted operands
    rule(pmax(pmin(x, y + c0), y + c1), y + c1, when="c0 <= c1"),
    rule(pmin(pmax(x, y), z), z, when="z <= y"),
    rule(pmax(pmin(x, y), z), z, when="y <= z"),
    rule(pmin(x + c0, y + c0), pmin(x, y) + c0),
    rule(pmax(x + c0, y + c0), pmax(x, y) + c0),
)

RULES = (LATTICE, INDEX)
