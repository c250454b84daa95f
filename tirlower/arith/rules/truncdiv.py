"""Division and remainder that truncate toward zero: C's, with what the signs allow."""

from __future__ import annotations

from tirlower import ir
from tirlower.arith.pattern import Domain, RuleSet, pmax, pmin, rule, tdiv, tmod
from tirlower.arith.rules.names import c0, c1, c2, x, y, z

INTEGER = RuleSet(
    Domain.INTEGER,
    rule(tdiv(x, 1), x),
    rule(tmod(x, 1), 0),
    rule(tdiv(0, x), 0),
    rule(tmod(0, x), 0),
    rule(tdiv(x, x), 1),
    rule(tmod(x, x), 0),
    rule(tdiv(tdiv(x, c0), c1), tdiv(x, c0 * c1), when="c0 > 0 and c1 > 0"),
    rule(tmod(tmod(x, c0), c1), tmod(x, c0), when="c0 > 0 and c1 >= c0"),
    rule(tmod(tmod(x, c0), c1), tmod(x, c1), when="c0 > 0 and c1 > 0 and c0 % c1 == 0"),
    rule(tdiv(tmod(x, c0), c1), 0, when="c0 > 0 and c1 >= c0"),
)

INDEX = RuleSet(
    Domain.INDEX,
    rule(tdiv(x, c0), 0, when="c0 > 0 and -c0 < x and x < c0"),
    rule(tmod(x, c0), x, when="c0 > 0 and -c0 < x and x < c0"),
    rule(tdiv(x, y), 0, when="0 <= x and x < y"),
    rule(tmod(x, y), x, when="0 <= x and x < y"),
    # signs come out
    rule(tdiv(x, -1), 0 - x),
    rule(tmod(x, -1), 0),
    rule(tmod(x, c0), tmod(x, 0 - c0), when="c0 < -1"),
    rule(tmod(x, c0), 0, when="c0 > 0 and divides(c0, x)"),
    # multiples of the divisor: exact for any sign alone, for one sign in sums
    rule(tdiv(x * c0, c1), x * tdiv(c0, c1), when="c1 != 0 and c0 % c1 == 0"),
    rule(tdiv(x * c0, c1), tdiv(x, tdiv(c1, c0)), when="c0 > 0 and c1 % c0 == 0"),
    rule(tmod(x * c0, c1), 0, when="c1 > 0 and c0 % c1 == 0"),
    rule(tmod(x * c0, c1), tmod(x, tdiv(c1, c0)) * c0, when="c0 > 1 and c1 > c0 and c1 % c0 == 0"),
    rule(
        tdiv(y + x * c0, c1),
        tdiv(y, c1) + x * tdiv(c0, c1),
        when="c0 > 0 and c1 > 0 and c0 % c1 == 0 and x >= 0 and y >= 0",
        fixed=(ir.Add,),
    ),
    rule(
        tdiv(x * c0 + y, c1),
        x * tdiv(c0, c1) + tdiv(y, c1),
        when="c0 > 0 and c1 > 0 and c0 % c1 == 0 and x >= 0 and y >= 0",
    ),
    rule(tmod(x * c0 + y, c1), tmod(y, c1), when="c0 > 0 and c1 > 0 and c0 % c1 == 0 and x >= 0 and y >= 0"),
    rule(tmod(x * c0 + y, c1), tmod(y, c1), when="c0 < 0 and c1 > 0 and c0 % c1 == 0 and x <= 0 and y >= 0"),
    rule(
        tdiv(x * c0 + y + z, c1),
        x * tdiv(c0, c1) + tdiv(y + z, c1),
        when="c0 > 0 and c1 > 0 and c0 % c1 == 0 and x >= 0 and y >= 0 and z >= 0",
    ),
    rule(
        tmod(x * c0 + y + z, c1),
        tmod(y + z, c1),
        when="c0 > 0 and c1 > 0 and c0 % c1 == 0 and x >= 0 and y >= 0 and z >= 0",
    ),
    rule(
        tdiv(x * c0 + y, c1),
        tdiv(x, tdiv(c1, c0)),
        when="c0 > 0 and c1 > 0 and c1 % c0 == 0 and x >= 0 and 0 <= y and y < c0",
    ),
    rule(
        tmod(x * c0 + y, c1),
        tmod(x, tdiv(c1, c0)) * c0 + y,
        when="c0 > 1 and c1 > c0 and c1 % c0 == 0 and x >= 0 and 0 <= y and y < c0",
    ),
    rule(tdiv(x + c0, c1), tdiv(x, c1) + tdiv(c0, c1), when="c0 > 0 and c1 > 0 and c0 % c1 == 0 and x >= 0"),
    rule(tmod(x + c0, c1), tmod(x, c1), when="c0 > 0 and c1 > 0 and c0 % c1 == 0 and x >= 0"),
    rule(tmod(x + c0, c1), tmod(x + tmod(c0, c1), c1), when="c1 > 0 and c0 >= c1 and x >= 0"),
    rule(tdiv(tdiv(x, c0) + c1, c2), tdiv(x + c0 * c1, c0 * c2), when="c0 > 0 and c1 >= 0 and c2 > 0 and x >= 0"),
    # symbolic divisors: one that is not negative is positive, as it is not zero
    rule(tdiv(x * y, y), x),
    rule(tmod(x * y, y), 0),
    rule(tdiv(z + x * y, y), tdiv(z, y) + x, when="y >= 0 and x >= 0 and z >= 0", fixed=(ir.Add,)),
    rule(tdiv(x * y + z, y), x + tdiv(z, y), when="y >= 0 and x >= 0 and z >= 0"),
    rule(tdiv(x * y * c0, y), x * c0),
    rule(tmod(x * y * c0, y), 0),
    rule(tmod(x * y + z, y), tmod(z, y), when="y >= 0 and x >= 0 and z >= 0"),
    rule(tdiv(x * y + z, y), x, when="x >= 0 and 0 <= z and z < y"),
    rule(tmod(x * y + z, y), z, when="x >= 0 and 0 <= z and z < y"),
    rule(tdiv(x + y, x), tdiv(y, x) + 1, when="x >= 0 and y >= 0"),
    rule(tdiv(x + y + z, x), tdiv(y + z, x) + 1, when="x >= 0 and y >= 0 and z >= 0"),
    rule(tmod(x + y + z, x), tmod(y + z, x), when="x >= 0 and y >= 0 and z >= 0"),
    rule(tmod(x + y, x), tmod(y, x), when="x >= 0 and y >= 0"),
    # min and max of multiples
    rule(
        tdiv(pmin(y, x * c0), c1),
        pmin(tdiv(y, c1), x * tdiv(c0, c1)),
        when="c1 > 0 and c0 % c1 == 0",
        fixed=(ir.Min,),
    ),
    rule(
        tdiv(pmax(y, x * c0), c1),
        pmax(tdiv(y, c1), x * tdiv(c0, c1)),
        when="c1 > 0 and c0 % c1 == 0",
        fixed=(ir.Max,),
    ),
    rule(tdiv(pmin(x * c0, y), c1), pmin(x * tdiv(c0, c1), tdiv(y, c1)), when="c1 > 0 and c0 % c1 == 0"),
    rule(tdiv(pmax(x * c0, y), c1), pmax(x * tdiv(c0, c1), tdiv(y, c1)), when="c1 > 0 and c0 % c1 == 0"),
)

RULES = (INTEGER, INDEX)
