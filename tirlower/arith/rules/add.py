"""Sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tirlower import ir
from tirlower.arith.pattern import Domain, Operand, PNode, Rule, RuleSet, pmax, pmin, rule, select, tdiv, tmod
from tirlower.arith.rules.names import c0, c1, c2, p, s, t, w, x, y, z

# Identities of the ring: exact modulo 2**bits.
RING = RuleSet(
    Domain.RING,
    # canonical form: the constant last, one constant
    rule(c0 + x, x + c0),
    rule(x + 0, x),
    rule((x + c0) + c1, x + (c0 + c1)),
    rule((c0 - x) + c1, (c0 + c1) - x),
    rule(x + (0 - y), x - y),
    # terms that cancel
    rule((x - y) + y, x),
    rule((x - y) + (y - z), x - z),
    rule((x - y) + (z - x), z - y),
    rule((x + y) + (z - y), x + z),
    rule((x - (y + z)) + y, x - z),
    rule((x - (y + z)) + (y + w), (x - z) + w),
    # common factors
    rule(x + x, x * 2),
    rule(s + s * c0, s * (c0 + 1)),
    rule(s * c0 + s * c1, s * (c0 + c1)),
    rule(s * t + s, (t + 1) * s),
    rule(s * y + s * z, (y + z) * s),
    rule((x + s * c0) + s * c1, x + s * (c0 + c1)),
    rule((x + s) + s * c0, x + s * (c0 + 1)),
    rule((x + s * c0) + s, x + s * (c0 + 1)),
    rule((x + s) + s, x + s * 2),
    rule((x - s * c0) + s * c1, x + s * (c1 - c0)),
    # constants move outward
    rule((x + c0) + s, (x + s) + c0, fixed=(ir.Add,)),
    rule(s + (y + c0), (s + y) + c0, fixed=(ir.Add,)),
    rule(s + (c0 - y), (s - y) + c0),
    rule((c0 - x) + s, (s - x) + c0),
    # what a split leaves behind: exact for every divisor and every rounding
    rule((x // y) * y + x % y, x),
    rule((x // c0) * c0 + x % c0, x, when="c0 != 0"),
    rule(tdiv(x, y) * y + tmod(x, y), x),
    rule(tdiv(x, c0) * c0 + tmod(x, c0), x, when="c0 != 0"),
    rule((w + (x // c0) * c0) + x % c0, w + x, when="c0 != 0"),
    rule((w + x % c0) + (x // c0) * c0, w + x, when="c0 != 0"),
    rule((w + tdiv(x, c0) * c0) + tmod(x, c0), w + x, when="c0 != 0"),
    rule((w - (x // c0) * c0) + x, w + x % c0, when="c0 != 0"),
    rule(pmin(x, y) + pmax(x, y), x + y),
    rule(select(p, x, y) + select(p, z, w), select(p, x + z, y + w)),
)


def _reaching(f: Callable[[Operand, Operand], PNode]) -> Iterator[Rule]:
    """A sum reaches into min or max where something cancels; the operands keep their order."""
    order = (ir.Min, ir.Max)
    yield rule(f(x, y - z) + z, f(x + z, y), fixed=order)
    yield rule(f(x - z, y) + z, f(x, y + z), fixed=order)
    yield rule(f(x, y - s * c0) + s * c0, f(x + s * c0, y), fixed=order)
    yield rule(f(x - s * c0, y) + s * c0, f(x, y + s * c0), fixed=order)
    yield rule(f(x, y + s * c0) + s * c1, f(x + s * c1, y), when="c0 == -c1", fixed=order)
    yield rule(f(x + s * c0, y) + s * c1, f(x, y + s * c1), when="c0 == -c1", fixed=order)
    yield rule(f(x, y + c0) + c1, f(x + c1, y), when="c0 == -c1", fixed=order)
    yield rule(f(x + c0, y) + c1, f(x, y + c1), when="c0 == -c1", fixed=order)
    both = "c0 == -c2 or c1 == -c2"
    yield rule(f(x + c0, y + c1) + c2, f(x + (c0 + c2), y + (c1 + c2)), when=both, fixed=order)


# Identities that need integers without overflow.
INDEX = RuleSet(
    Domain.INDEX,
    rule((x // c0) * c1 + (x % c0) * c2, x * c2, when="c0 != 0 and c1 == c0 * c2"),
    rule(((x // c0) % c1) * c0 + x % c0, x % (c0 * c1), when="c0 > 0 and c1 > 0"),
    rule(((x + c0) // c1) * c1 + (x + c2) % c1, x + c0, when="c1 > 0 and (c0 - c2) % c1 == 0"),
    rule((w + ((x + c0) // c1) * c1) + (x + c2) % c1, w + (x + c0), when="c1 > 0 and (c0 - c2) % c1 == 0"),
    rule(x // 2 + x % 2, (x + 1) // 2),
    # one of two neighbours is odd
    rule(x % 2 + (x + c0) % 2, 1, when="c0 % 2 == 1"),
    rule((w + x % 2) + (x + c0) % 2, w + 1, when="c0 % 2 == 1"),
    rule((w + (x + c0) % 2) + x % 2, w + 1, when="c0 % 2 == 1"),
    rule(x // c0 + (x % c0 + c1) // c0, (x + c1) // c0, when="c0 > 0"),
    *_reaching(pmin),
    *_reaching(pmax),
)

RULES = (RING, INDEX)
