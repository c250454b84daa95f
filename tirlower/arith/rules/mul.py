"""Products."""

from __future__ import annotations

from tirlower import ir
from tirlower.arith.pattern import Domain, RuleSet, pmax, pmin, rule
from tirlower.arith.rules.names import c0, c1, s, x, y

RING = RuleSet(
    Domain.RING,
    # canonical form: the constant last, one constant
    rule(c0 * x, x * c0),
    rule(x * 0, 0),
    rule(x * 1, x),
    rule((x * c0) * c1, x * (c0 * c1)),
    rule((x * c0) * s, (x * s) * c0, fixed=(ir.Mul,)),
    rule(s * (y * c0), (s * y) * c0, fixed=(ir.Mul,)),
    rule((x + c0) * c1, x * c1 + c0 * c1),
    rule((c0 - x) * c1, x * (0 - c1) + c0 * c1),
    rule((0 - x) * y, 0 - x * y),
    rule(pmin(x, y) * pmax(x, y), x * y),
)

INDEX = RuleSet(
    Domain.INDEX,
    rule((x - y) * c0, (y - x) * (0 - c0), when="c0 < 0"),
    # a whole number of divisors
    rule((x // c0) * c0, x, when="c0 != 0 and divides(c0, x)"),
)

RULES = (RING, INDEX)
