"""Remainder of the flooring division."""

from __future__ import annotations

from tirlower import ir
from tirlower.arith.pattern import Domain, RuleSet, rule
from tirlower.arith.rules.names import c0, c1, c2, w, x, y, z

INTEGER = RuleSet(
    Domain.INTEGER,
    rule(x % 1, 0),
    rule(0 % x, 0),
    rule(x % x, 0),
    rule(x % c0, x, when="c0 > 0 and 0 <= x and x < c0"),
    rule((x % c0) % c1, x % c0, when="c0 > 0 and c1 >= c0"),
    rule((x % c0) % c1, x % c1, when="c1 > 0 and c0 > 0 and c0 % c1 == 0"),
    rule((x % y) % y, x % y),
)

INDEX = RuleSet(
    Domain.INDEX,
    rule(x % y, x, when="0 <= x and x < y"),
    rule(x % -1, 0),
    rule(x % c0, 0, when="c0 != 0 and divides(c0, x)"),
    # multiples of the divisor vanish, other factors are reduced
    rule((x * c0) % c1, (x * (c0 % c1)) % c1, when="c1 > 0 and (c0 >= c1 or c0 < 0)"),
    rule((x * c0) % c1, (x % (c1 // c0)) * c0, when="c0 > 1 and c1 > c0 and c1 % c0 == 0"),
    rule((x * c0 + y) % c1, (x * (c0 % c1) + y) % c1, when="c1 > 0 and (c0 >= c1 or c0 < 0)"),
    rule((x * c0 - y) % c1, (x * (c0 % c1) - y) % c1, when="c1 > 0 and (c0 >= c1 or c0 < 0)"),
    rule((y - x * c0) % c1, (y + x * ((0 - c0) % c1)) % c1, when="c1 > 0 and (c0 >= c1 or c0 % c1 == 0)"),
    rule((x * c0 + y + z) % c1, (x * (c0 % c1) + y + z) % c1, when="c1 > 0 and (c0 >= c1 or c0 < 0)"),
    rule((x * c0 + y - z) % c1, (x * (c0 % c1) + y - z) % c1, when="c1 > 0 and (c0 >= c1 or c0 < 0)"),
    rule((y - x * c0 + z) % c1, (y + z) % c1, when="c1 > 0 and c0 % c1 == 0"),
    rule((x * c0 + y + z + w) % c1, (x * (c0 % c1) + y + z + w) % c1, when="c1 > 0 and (c0 >= c1 or c0 < 0)"),
    rule((x + c0) % c1, (x + c0 % c1) % c1, when="c1 > 0 and (c0 >= c1 or c0 < 0)"),
    rule((c0 - x) % c1, (c0 % c1 - x) % c1, when="c1 > 0 and (c0 >= c1 or c0 < 0)"),
    rule((x + y % c0) % c1, (x + y) % c1, when="c1 > 0 and c0 % c1 == 0"),
    rule((x - y % c0) % c1, (x - y) % c1, when="c1 > 0 and c0 % c1 == 0"),
    rule((y % c0 - x) % c1, (y - x) % c1, when="c1 > 0 and c0 % c1 == 0"),
    rule((x + (y % c0) * c2) % c1, (x + y * c2) % c1, when="c1 > 0 and (c0 * c2) % c1 == 0"),
    rule((x + y) % c0, x % c0, when="c0 > 1 and divides(c0, y)"),
    rule((x - y) % c0, x % c0, when="c0 > 1 and divides(c0, y)"),
    # a part below the common factor passes through
    rule(
        (x * c0 + y) % c1,
        (x % (c1 // c0)) * c0 + y,
        when="c0 > 1 and c1 > c0 and c1 % c0 == 0 and 0 <= y and y < c0",
    ),
    rule(
        (x * c0 + c2) % c1,
        (x % (c1 // c0)) * c0 + c2 % c1,
        when="c0 > 1 and c1 > c0 and c1 % c0 == 0 and c2 % c1 < c0",
    ),
    rule(
        (x * c0 + y + z) % c1,
        (x % (c1 // c0)) * c0 + (y + z),
        when="c0 > 1 and c1 > c0 and c1 % c0 == 0 and 0 <= y and 0 <= z and y + z < c0",
    ),
    # symbolic divisors: one that is not negative is positive, as it is not zero
    rule((x - x % y) % y, 0),
    rule((x + (0 - x) % y) % y, 0),
    rule((x + (x * -1) % y) % y, 0),
    rule((x * y) % y, 0),
    rule((x * y * c0) % y, 0),
    rule((x * y * c0 + z) % y, z % y),
    rule((x * y + z) % y, z % y),
    rule((z - x * y) % y, z % y),
    rule((x * y - z) % y, (0 - z) % y),
    rule((x * y + z + w) % y, (z + w) % y),
    rule((x + y) % x, y % x),
    rule((y + (x + z)) % x, (y + z) % x, fixed=(ir.Add,)),
    rule((y + (z + x)) % x, (y + z) % x, fixed=(ir.Add,)),
    rule((x + y + z) % x, (y + z) % x),
    rule((y - x) % x, y % x),
    rule((x * y) % (z * y), (x % z) * y),
    rule((x * y) % (y * c0), (x % c0) * y, when="c0 != 0"),
    rule((x * y * c0) % (y * c1), ((x * c0) % c1) * y, when="c1 != 0"),
    rule((x * y + z) % (y * c0), (x % c0) * y + z, when="c0 > 0 and 0 <= z and z < y"),
    rule((x * y * c0 + z) % (y * c1), z % (y * c1), when="c1 != 0 and c0 % c1 == 0"),
    rule((x * y + z) % (w * y), (x % w) * y + z, when="w >= 0 and 0 <= z and z < y"),
    rule((x % (y * c0)) % c0, x % c0, when="y >= 0 and c0 > 0"),
    rule((x % (y * z)) % y, x % y, when="y >= 0 and z >= 0"),
)

RULES = (INTEGER, INDEX)
