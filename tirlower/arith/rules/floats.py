"""Floats: only what keeps every bit of every result (the payload of a NaN apart).

``x + 0.0`` is not ``x`` (of -0.0 it makes 0.0), ``x - x`` is not 0.0 (infinities), and no sum is reordered.
"""

from __future__ import annotations

from tirlower import ir
from tirlower.arith.pattern import FALSE, Domain, Operand, PFloat, PNode, RuleSet, pmax, pmin, rule
from tirlower.arith.rules.names import x, y

_ONE, _MINUS_ONE, _ZERO, _MINUS_ZERO = PFloat(1.0), PFloat(-1.0), PFloat(0.0), PFloat(-0.0)


def _div(a: Operand, b: Operand) -> PNode:
    return PNode(ir.Div, a, b)


RULES = (
    RuleSet(
        Domain.FLOAT,
        rule(x * _ONE, x),
        rule(PNode(ir.Mul, _ONE, x), x),
        rule(_div(x, _ONE), x),
        rule(x - _ZERO, x),
        rule(x + _MINUS_ZERO, x),
        rule(PNode(ir.Add, _MINUS_ZERO, x), x),
        # the product with -1 is a change of sign
        rule((x * _MINUS_ONE) * _MINUS_ONE, x),
        rule(x + y * _MINUS_ONE, x - y),
        rule(x - y * _MINUS_ONE, x + y),
        rule(_div(x, _MINUS_ONE), x * _MINUS_ONE),
        rule((x * _MINUS_ONE) * (y * _MINUS_ONE), x * y),
        rule(_div(x * _MINUS_ONE, y * _MINUS_ONE), _div(x, y)),
        rule(pmin(x, x), x),
        rule(pmax(x, x), x),
        rule(x > y, y < x),
        rule(x >= y, y <= x),
        rule(x < x, FALSE),
    ),
)
