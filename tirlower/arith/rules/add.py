"""Sums."""

from __future__ import annotations

from tirlower.arith.pattern import Domain, RuleSet, pmax, pmin, rule, tdiv, tmod
from tirlower.arith.rules.names import c0, c1, c2, s, t, w, x, y, z

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
    rule(s * t + s, s * (t + 1)),
    rule(s * y + s * z, s * (y + z)),
    rule((x + s * c0) + s * c1, x + s * (c0 + c1)),
    rule((x + s) + s * c0, x + s * (c0 + 1)),
    rule((x + s * c0) + s, x + s * (c0 + 1)),
    rule((x + s) + s, x + s * 2),
    rule((x - s * c0) + s * c1, x + s * (c1 - c0)),
    # constants move outward
    rule((x + c0) + s, (x + s) + c0),
    rule(s + (y + c0), (s + y) + c0),
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
)

# Identities that need integers without overflow.
INDEX = RuleSet(
    Domain.INDEX,
    rule((x // c0) * c1 + (x % c0) * c2, x * c2, when="c0 != 0 and c1 == c0 * c2"),
    rule(((x // c0) % c1) * c0 + x % c0, x % (c0 * c1), when="c0 > 0 and c1 > 0"),
    rule(((x + c0) // c1) * c1 + (x + c2) % c1, x + c0, when="c1 > 0 and (c0 - c2) % c1 == 0"),
    rule((w + ((x + c0) // c1) * c1) + (x + c2) % c1, w + (x + c0), when="c1 > 0 and (c0 - c2) % c1 == 0"),
    rule(x // 2 + x % 2, (x + 1) // 2),
    # a sum reaches into min and max where something cancels
    rule(pmin(x, y - z) + z, pmin(x + z, y)),
    rule(pmax(x, y - z) + z, pmax(x + z, y)),
    rule(pmin(x, y - s * c0) + s * c0, pmin(x + s * c0, y)),
    rule(pmax(x, y - s * c0) + s * c0, pmax(x + s * c0, y)),
    rule(pmin(x, y + s * c0) + s * c1, pmin(x + s * c1, y), when="c0 == -c1"),
    rule(pmax(x, y + s * c0) + s * c1, pmax(x + s * c1, y), when="c0 == -c1"),
    rule(pmin(x, y + c0) + c1, pmin(x + c1, y), when="c0 == -c1"),
    rule(pmax(x, y + c0) + c1, pmax(x + c1, y), when="c0 == -c1"),
    rule(pmin(x + c0, y + c1) + c2, pmin(x + (c0 + c2), y + (c1 + c2)), when="c0 == -c2 or c1 == -c2"),
    rule(pmax(x + c0, y + c1) + c2, pmax(x + (c0 + c2), y + (c1 + c2)), when="c0 == -c2 or c1 == -c2"),
)

RULES = (RING, INDEX)
