"""Choices: Select (both values are computed) and if_then_else (one of them is)."""

from __future__ import annotations

from tirlower.arith.pattern import FALSE, TRUE, Domain, RuleSet, call, if_then_else, rule, select
from tirlower.arith.rules.names import p, q, w, x, y

ANY = RuleSet(
    Domain.ANY,
    rule(select(TRUE, x, y), x),
    rule(select(FALSE, x, y), y),
    rule(select(p, x, x), x),
    rule(select(~p, x, y), select(p, y, x)),
    rule(select(p, select(p, x, y), w), select(p, x, w)),
    rule(select(p, x, select(p, y, w)), select(p, x, w)),
    rule(select(p, select(q, x, y), y), select(p & q, x, y)),
    rule(select(p, x, select(q, x, y)), select(p | q, x, y)),
    rule(if_then_else(TRUE, x, y), x),
    rule(if_then_else(FALSE, x, y), y),
    rule(if_then_else(p, x, x), x),
    rule(if_then_else(p, if_then_else(p, x, y), w), if_then_else(p, x, w)),
    rule(if_then_else(p, x, if_then_else(p, y, w)), if_then_else(p, x, w)),
    rule(if_then_else(p, if_then_else(q, x, y), y), if_then_else(p & q, x, y)),
    rule(if_then_else(p, if_then_else(q, y, x), y), if_then_else(p & ~q, x, y)),
    rule(if_then_else(p, x, if_then_else(q, x, y)), if_then_else(p | q, x, y)),
    rule(if_then_else(p, x, if_then_else(q, y, x)), if_then_else(p | ~q, x, y)),
)

BOOL = RuleSet(
    Domain.BOOL,
    rule(select(p, TRUE, FALSE), p),
    rule(select(p, FALSE, TRUE), ~p),
    rule(select(p, q, FALSE), p & q),
    rule(select(p, TRUE, q), p | q),
    rule(if_then_else(p, TRUE, FALSE), p),
    rule(if_then_else(p, FALSE, TRUE), ~p),
    rule(if_then_else(p, q, FALSE), p & q),
    rule(if_then_else(p, TRUE, q), p | q),
    rule(call("likely", TRUE), TRUE),
    rule(call("likely", FALSE), FALSE),
)

RULES = (BOOL, ANY)
