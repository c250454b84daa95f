"""Vectors: arithmetic of ramps and broadcasts becomes arithmetic of their scalars.

All but the divisions and comparisons of ramps hold for any element type, wrapping or rounding as it does: each lane
computes what it did before.
"""

from __future__ import annotations

from collections.abc import Callable

from tirlower import ir
from tirlower.arith.pattern import (
    Domain,
    Pat,
    PNode,
    RuleSet,
    broadcast,
    call,
    eq,
    if_then_else,
    ne,
    pmax,
    pmin,
    ramp,
    rule,
    select,
    tdiv,
    tmod,
)
from tirlower.arith.rules.names import c0, c1, c2, c3, lanes, p, q, s, t, w, x, y, z

_OPERATIONS: tuple[Callable[[Pat, Pat], PNode], ...] = (
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a // b,
    lambda a, b: a % b,
    tdiv,
    tmod,
    pmin,
    pmax,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a > b,
    lambda a, b: a >= b,
    eq,
    ne,
    lambda a, b: a & b,
    lambda a, b: a | b,
)

LANES = RuleSet(
    Domain.VECTOR,
    # the same in every lane
    *(rule(f(broadcast(x, lanes), broadcast(y, lanes)), broadcast(f(x, y), lanes)) for f in _OPERATIONS),
    rule(~broadcast(p, lanes), broadcast(~p, lanes)),
    rule(select(broadcast(p, lanes), broadcast(x, lanes), broadcast(y, lanes)), broadcast(select(p, x, y), lanes)),
    rule(select(p, x, x), x),
    rule(if_then_else(p, x, x), x),
    rule(call("likely", broadcast(p, lanes)), broadcast(call("likely", p), lanes)),
    # a step of nothing is no step
    rule(ramp(x, 0, lanes), broadcast(x, lanes)),
    # conditions, lane by lane
    rule(p & p, p),
    rule(p | p, p),
    rule(~(~p), p),
    rule(~(x < y), y <= x, when="integral(x)"),
    rule(~(x <= y), y < x, when="integral(x)"),
    rule(~eq(x, y), ne(x, y)),
    rule(~ne(x, y), eq(x, y)),
    rule(x > y, y < x),
    rule(x >= y, y <= x),
    rule((p & q) & p, p & q),
    rule((p | q) | p, p | q),
    rule(pmin(x, x), x),
    rule(pmax(x, x), x),
)

RAMPS = RuleSet(
    Domain.INT_VECTOR,
    rule(ramp(x, y, lanes) + ramp(z, w, lanes), ramp(x + z, y + w, lanes)),
    rule(ramp(x, y, lanes) + broadcast(z, lanes), ramp(x + z, y, lanes), fixed=(ir.Add,)),
    rule(broadcast(z, lanes) + ramp(x, y, lanes), ramp(z + x, y, lanes), fixed=(ir.Add,)),
    rule(ramp(x, y, lanes) - ramp(z, w, lanes), ramp(x - z, y - w, lanes)),
    rule(ramp(x, y, lanes) - broadcast(z, lanes), ramp(x - z, y, lanes)),
    rule(broadcast(z, lanes) - ramp(x, y, lanes), ramp(z - x, 0 - y, lanes)),
    rule(ramp(x, y, lanes) * broadcast(z, lanes), ramp(x * z, y * z, lanes)),
    rule((s + broadcast(x, lanes)) + broadcast(y, lanes), s + broadcast(x + y, lanes)),
    rule((s * broadcast(x, lanes)) * broadcast(y, lanes), s * broadcast(x * y, lanes)),
    rule(pmin(pmin(s, broadcast(x, lanes)), broadcast(y, lanes)), pmin(s, broadcast(pmin(x, y), lanes))),
    rule(pmax(pmax(s, broadcast(x, lanes)), broadcast(y, lanes)), pmax(s, broadcast(pmax(x, y), lanes))),
    rule((x + y) - y, x),
    rule((x - y) + y, x),
    rule((x + y) - (x + z), y - z),
    rule(s + broadcast(0, lanes), s),
    rule(s - broadcast(0, lanes), s),
    rule(s * broadcast(1, lanes), s),
    rule(s * broadcast(0, lanes), broadcast(0, lanes)),
    rule(s // broadcast(1, lanes), s),
    rule(s % broadcast(1, lanes), broadcast(0, lanes)),
    rule(tdiv(s, broadcast(1, lanes)), s),
    rule(tmod(s, broadcast(1, lanes)), broadcast(0, lanes)),
    rule(eq(ramp(x, y, lanes), ramp(z, y, lanes)), broadcast(eq(x, z), lanes)),
    rule(ne(ramp(x, y, lanes), ramp(z, y, lanes)), broadcast(ne(x, z), lanes)),
)

# What needs lanes that do not wrap.
INDEX = RuleSet(
    Domain.INDEX_VECTOR,
    rule(ramp(x, c0, lanes) // broadcast(c1, lanes), ramp(x // c1, c0 // c1, lanes), when="c1 > 0 and c0 % c1 == 0"),
    rule(
        ramp(x, c0, lanes) // broadcast(c1, lanes),
        broadcast(x // c1, lanes),
        when="c1 > 0 and in_block(x, c0, c1, lanes)",
    ),
    rule(ramp(x, c0, lanes) % broadcast(c1, lanes), broadcast(x % c1, lanes), when="c1 > 0 and c0 % c1 == 0"),
    rule(
        ramp(x, c0, lanes) % broadcast(c1, lanes),
        ramp(x % c1, c0, lanes),
        when="c1 > 0 and in_block(x, c0, c1, lanes)",
    ),
    rule(
        ramp(x, c0, lanes) // broadcast(t, lanes),
        broadcast(x // t, lanes),
        when="c0 >= 0 and t > 0 and in_block(x, c0, t, lanes)",
    ),
    rule(
        ramp(x, c0, lanes) % broadcast(t, lanes),
        ramp(x % t, c0, lanes),
        when="c0 >= 0 and t > 0 and in_block(x, c0, t, lanes)",
    ),
    # multiples of the divisor in the base do not count
    rule(
        ramp(x * c2 + c3, c0, lanes) % broadcast(c1, lanes),
        ramp(c3 % c1, c0, lanes) % broadcast(c1, lanes),
        when="c1 > 0 and c2 % c1 == 0",
    ),
    rule(
        ramp(x * c2, c0, lanes) % broadcast(c1, lanes),
        ramp(0, c0, lanes) % broadcast(c1, lanes),
        when="c1 > 0 and c2 % c1 == 0",
    ),
    rule(
        tdiv(ramp(x * c2, c0, lanes), broadcast(c1, lanes)),
        ramp(x * tdiv(c2, c1), tdiv(c0, c1), lanes),
        when="c1 > 0 and c0 % c1 == 0 and c2 % c1 == 0",
    ),
    rule(
        tdiv(ramp(x, c0, lanes), broadcast(c1, lanes)),
        ramp(tdiv(x, c1), tdiv(c0, c1), lanes),
        when="c0 >= 0 and c1 > 0 and c0 % c1 == 0 and x >= 0",
    ),
    rule(
        tdiv(ramp(x, c0, lanes), broadcast(c1, lanes)),
        broadcast(tdiv(x, c1), lanes),
        when="c0 >= 0 and c1 > 0 and x >= 0 and in_block(x, c0, c1, lanes)",
    ),
    rule(
        tmod(ramp(x, c0, lanes), broadcast(c1, lanes)),
        broadcast(tmod(x, c1), lanes),
        when="c0 >= 0 and c1 > 0 and c0 % c1 == 0 and x >= 0",
    ),
    rule(
        tmod(ramp(x, c0, lanes), broadcast(c1, lanes)),
        ramp(tmod(x, c1), c0, lanes),
        when="c0 >= 0 and c1 > 0 and x >= 0 and in_block(x, c0, c1, lanes)",
    ),
    rule(
        tmod(ramp(x * c2 + c3, c0, lanes), broadcast(c1, lanes)),
        tmod(ramp(tmod(c3, c1), c0, lanes), broadcast(c1, lanes)),
        when="c1 > 0 and c2 > 0 and c2 % c1 == 0 and c3 >= 0 and c0 >= 0 and x >= 0",
    ),
    rule(
        tmod(ramp(x * c2, c0, lanes), broadcast(c1, lanes)),
        tmod(ramp(0, c0, lanes), broadcast(c1, lanes)),
        when="c1 > 0 and c2 > 0 and c2 % c1 == 0 and c0 >= 0 and x >= 0",
    ),
    rule(pmin(ramp(x, y, lanes), ramp(z, y, lanes)), ramp(pmin(x, z), y, lanes)),
    rule(pmax(ramp(x, y, lanes), ramp(z, y, lanes)), ramp(pmax(x, z), y, lanes)),
    rule(ramp(x, y, lanes) < ramp(z, y, lanes), broadcast(x < z, lanes)),
    rule(ramp(x, y, lanes) <= ramp(z, y, lanes), broadcast(x <= z, lanes)),
    rule(
        (s * broadcast(c0, lanes) + w) // broadcast(c1, lanes),
        s * broadcast(c0 // c1, lanes) + w // broadcast(c1, lanes),
        when="c1 > 0 and c0 % c1 == 0",
    ),
    rule(
        (s * broadcast(c0, lanes) + w) % broadcast(c1, lanes), w % broadcast(c1, lanes), when="c1 > 0 and c0 % c1 == 0"
    ),
)

RULES = (LANES, RAMPS, INDEX)
