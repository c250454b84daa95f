"""Flooring division, the one of indices."""

from __future__ import annotations

from tirlower import ir
from tirlower.arith.pattern import Domain, RuleSet, gcd, pmax, pmin, rule
from tirlower.arith.rules.names import c0, c1, c2, w, x, y, z

# True whatever overflow does, as the operands are compared, not computed with.
INTEGER = RuleSet(
    Domain.INTEGER,
    rule(x // 1, x),
    rule(0 // x, 0),
    rule(x // x, 1),
    rule(x // c0, 0, when="c0 > 0 and 0 <= x and x < c0"),
    rule((x // c0) // c1, x // (c0 * c1), when="c0 > 0 and c1 > 0"),
    rule((x % c0) // c1, 0, when="c0 > 0 and c1 >= c0"),
)

INDEX = RuleSet(
    Domain.INDEX,
    rule(x // c0, -1, when="c0 > 0 and x < 0 and x >= -c0"),
    rule(x // y, 0, when="0 <= x and x < y"),
    rule(x // y, -1, when="x < 0 and 0 <= x + y"),
    rule(x // -1, 0 - x),
    # a split of a split
    rule((x // c0 + c1) // c2, (x + c0 * c1) // (c0 * c2), when="c0 > 0 and c2 > 0"),
    rule(((x // c0) % c1) // c2, (x // (c0 * c2)) % (c1 // c2), when="c0 > 0 and c2 > 0 and c1 % c2 == 0 and c1 > c2"),
    rule((x - x % c0) // c0, x // c0, when="c0 != 0"),
    rule((x - x % y) // y, x // y),
    rule((x % 2 + 1) // 2, x % 2),
    # multiples of the divisor come out
    rule((x * c0) // c1, x * (c0 // c1), when="c1 != 0 and c0 % c1 == 0"),
    rule((x * c0) // c1, x // (c1 // c0), when="c0 > 0 and c1 > 0 and c1 % c0 == 0"),
    rule((x * c0 + y) // c1, x * (c0 // c1) + y // c1, when="c1 > 0 and c0 % c1 == 0"),
    rule((x * c0 - y) // c1, x * (c0 // c1) + (0 - y) // c1, when="c1 > 0 and c0 % c1 == 0"),
    rule((y - x * c0) // c1, y // c1 - x * (c0 // c1), when="c1 > 0 and c0 % c1 == 0"),
    rule((x * c0 + y + z) // c1, x * (c0 // c1) + (y + z) // c1, when="c1 > 0 and c0 % c1 == 0"),
    rule((x * c0 + y - z) // c1, x * (c0 // c1) + (y - z) // c1, when="c1 > 0 and c0 % c1 == 0"),
    rule((x * c0 - y + z) // c1, x * (c0 // c1) + (z - y) // c1, when="c1 > 0 and c0 % c1 == 0"),
    rule((y - x * c0 + z) // c1, (y + z) // c1 - x * (c0 // c1), when="c1 > 0 and c0 % c1 == 0"),
    rule((x * c0 + y + z + w) // c1, x * (c0 // c1) + (y + z + w) // c1, when="c1 > 0 and c0 % c1 == 0"),
    rule((x + c0) // c1, x // c1 + c0 // c1, when="c1 > 0 and c0 % c1 == 0"),
    rule((c0 - x) // c1, (0 - x) // c1 + c0 // c1, when="c1 > 0 and c0 != 0 and c0 % c1 == 0"),
    # what is smaller than the common factor does not count
    rule((x * c0 + y) // c1, x // (c1 // c0), when="c0 > 0 and c1 > 0 and c1 % c0 == 0 and 0 <= y and y < c0"),
    rule(
        (x * c0 + c2) // c1,
        x // (c1 // c0) + c2 // c1,
        when="c0 > 1 and c1 % c0 == 0 and c1 > c0 and c2 % c1 < c0",
    ),
    rule(
        (x * c0 + y + c2) // c1,
        (x + c2 // c0) // (c1 // c0),
        when="c0 > 1 and c1 % c0 == 0 and c1 > c0 and c2 % c0 == 0 and 0 <= y and y < c0",
    ),
    rule((x + y) // c0, x // c0 + y // c0, when="c0 > 1 and divides(c0, y)"),
    rule((x - y) // c0, x // c0 - y // c0, when="c0 > 1 and divides(c0, y)"),
    # min and max of multiples
    rule(pmin(y, x * c0) // c1, pmin(y // c1, x * (c0 // c1)), when="c1 > 0 and c0 % c1 == 0", fixed=(ir.Min,)),
    rule(pmax(y, x * c0) // c1, pmax(y // c1, x * (c0 // c1)), when="c1 > 0 and c0 % c1 == 0", fixed=(ir.Max,)),
    rule(pmin(x * c0, y) // c1, pmin(x * (c0 // c1), y // c1), when="c1 > 0 and c0 % c1 == 0"),
    rule(pmax(x * c0, y) // c1, pmax(x * (c0 // c1), y // c1), when="c1 > 0 and c0 % c1 == 0"),
    rule(pmin(x, c0) // c1, pmin(x // c1, c0 // c1), when="c1 > 1"),
    rule(pmax(x, c0) // c1, pmax(x // c1, c0 // c1), when="c1 > 1"),
    # symbolic divisors: one that is not negative is positive, as it is not zero
    rule((x * y) // y, x),
    rule((x * y * c0) // y, x * c0),
    rule((x * y * c0 + z) // y, x * c0 + z // y),
    rule((z + x * y) // y, z // y + x, fixed=(ir.Add,)),
    rule((x * y + z) // y, x + z // y),
    rule((z - x * y) // y, z // y - x),
    rule((x * y - z) // y, x + (0 - z) // y),
    rule((x * y + z + w) // y, x + (z + w) // y),
    rule((x + y) // x, y // x + 1),
    rule((y + (x + z)) // x, (y + z) // x + 1, fixed=(ir.Add,)),
    rule((y + (z + x)) // x, (y + z) // x + 1, fixed=(ir.Add,)),
    rule((x + y + z) // x, (y + z) // x + 1),
    rule((y - x) // x, y // x - 1),
    rule((x * y) // (z * y), x // z),
    rule((x * c0) // (z * c0), x // z, when="c0 != 0"),
    rule((x * y) // (y * c0), x // c0, when="c0 != 0"),
    rule((x * y * c0) // (y * c1), (x * c0) // c1, when="c1 != 0"),
    rule((x * y * c0) // (z * y * c1), (x * c0) // (z * c1), when="c1 != 0"),
    rule((x * y * c0) // (z * y), (x * c0) // z),
    rule((x * y) // (z * y * c1), x // (z * c1), when="c1 != 0"),
    rule(
        (x * c0) // (z * c1), (x * (c0 // gcd(c0, c1))) // (z * (c1 // gcd(c0, c1))), when="c1 != 0 and gcd(c0, c1) > 1"
    ),
    rule((x * y * c0 + z) // (y * c1), x * (c0 // c1) + z // (y * c1), when="c1 != 0 and c0 % c1 == 0"),
    rule((x * y * c0 - z) // (y * c1), x * (c0 // c1) + (0 - z) // (y * c1), when="c1 != 0 and c0 % c1 == 0"),
    rule((z - x * y * c0) // (y * c1), z // (y * c1) - x * (c0 // c1), when="c1 != 0 and c0 % c1 == 0"),
    rule((x * y + z) // (y * c0), x // c0, when="c0 > 0 and 0 <= z and z < y"),
    rule((x * y + z) // y, x, when="0 <= z and z < y"),
    rule((x * y + z) // (w * y), x // w, when="w >= 0 and 0 <= z and z < y"),
)

RULES = (INTEGER, INDEX)
