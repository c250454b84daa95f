"""Conditions that are decided where they stand: by the facts in scope, by constants, by bounds of all lanes.

An and or an or loses the parts that are decided; chains of either lean to the left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tirlower import ir
from tirlower.ir import Broadcast, Expr, FloatImm
from tirlower.ir.expr import Binary, vscale
from tirlower.ir.integers import EXACT

if TYPE_CHECKING:
    from tirlower.arith.rewrite import Rewriter

__all__ = ["decided_comparison", "decided_logic", "stated"]

MAX_CHAIN = 16
"""How many conditions joined on the right of an and (or) move to its left."""


def stated(rewriter: Rewriter, condition: Expr) -> Expr:
    """A condition, or its value where a fact in scope states it."""
    known = rewriter.analyzer.facts.literals.get(rewriter.analyzer.interner.representative(condition))
    return condition if known is None else rewriter.true if known else rewriter.false


def _literal(rewriter: Rewriter, kind: type[Binary], a: Expr, b: Expr) -> bool | None:
    """What a fact in scope states of a comparison."""
    interner, literals = rewriter.analyzer.interner, rewriter.analyzer.facts.literals
    p, q = interner.representative(a), interner.representative(b)
    rep = interner.table.get((kind, p, q))
    known = literals.get(rep) if rep is not None else None
    if known is None and (kind is ir.EQ or kind is ir.NE):
        rep = interner.table.get((kind, q, p))
        known = literals.get(rep) if rep is not None else None
    return known


def decided_comparison(rewriter: Rewriter, kind: type[Binary], a: Expr, b: Expr) -> Expr | None:
    """A comparison that a fact in scope states, or that bounds decide in every lane."""
    if a.dtype.is_vector:
        return _decided_lanes(rewriter, kind, a, b)
    if rewriter.analyzer.facts.literals:
        known = _literal(rewriter, kind, a, b)
        if known is not None:
            return rewriter.true if known else rewriter.false
        if kind is ir.LE and a.dtype.is_integral and _literal(rewriter, ir.EQ, a, b) is False:
            return rewriter.binary(ir.LT, a, b)
    if a.__class__ is FloatImm and b.__class__ is FloatImm:
        return rewriter.true if EXACT[kind](a.value, b.value) else rewriter.false
    return None


def _decided_lanes(rewriter: Rewriter, kind: type[Binary], a: Expr, b: Expr) -> Expr | None:
    if not a.dtype.is_int or a.dtype.bits not in (32, 64):
        return None
    low, high = rewriter.lane_difference(a, b)
    less, greater, at_most, at_least = high < 0, low > 0, high <= 0, low >= 0
    decided: dict[object, tuple[bool, bool]] = {
        ir.LT: (less, at_least),
        ir.LE: (at_most, greater),
        ir.GT: (greater, at_most),
        ir.GE: (at_least, less),
        ir.EQ: (at_most and at_least, less or greater),
        ir.NE: (less or greater, at_most and at_least),
    }
    yes, no = decided[kind]
    if yes or no:
        lanes = a.dtype.lanes
        return Broadcast(rewriter.true if yes else rewriter.false, vscale(lanes) if a.dtype.scalable else lanes)
    return None


def decided_logic(rewriter: Rewriter, kind: type[Binary], a: Expr, b: Expr) -> Expr | None:
    """And, or: a conjunct that a fact decides drops out, or decides the whole."""
    facts = rewriter.analyzer.facts
    if facts.literals and kind in (ir.And, ir.Or):
        interner = rewriter.analyzer.interner
        rep = interner.table.get((kind, interner.representative(a), interner.representative(b)))
        whole = facts.literals.get(rep) if rep is not None else None
        if whole is not None:
            return rewriter.true if whole else rewriter.false
        for part, other in ((a, b), (b, a)):
            known = facts.literals.get(interner.representative(part))
            if known is not None:
                if kind is ir.And:
                    return stated(rewriter, other) if known else rewriter.false
                return rewriter.true if known else stated(rewriter, other)
    if b.__class__ is kind:
        # Chains lean to the left. Long ones on the right stay, else a chain's cost would be the square of its length.
        parts = [b.b]
        while b.a.__class__ is kind and len(parts) < MAX_CHAIN:
            b = b.a
            parts.append(b.b)
        if b.a.__class__ is not kind:
            result = rewriter.binary(kind, a, b.a)
            for part in reversed(parts):
                result = rewriter.binary(kind, result, part)
            return result
    return None
