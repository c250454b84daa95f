"""The domains of variables where a condition holds: what its linear parts leave of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tirlower import ir
from tirlower.arith.affine import Affine, affine_of
from tirlower.arith.bounds import is_index_type
from tirlower.arith.conditions import conjuncts, is_pure
from tirlower.ir import Expr, IntImm, Var, build

if TYPE_CHECKING:
    from tirlower.arith.analyzer import Analyzer
    from tirlower.arith.int_set import IntervalSet

__all__ = ["Clip", "clips"]

Clip = tuple[Var, Expr | None, Expr | None]
"""A variable with the least and the greatest value that a condition leaves it; None where it says nothing."""

MAX_PARTS = 8
"""Conjunctions of more parts are looked at in their first ones only."""

MAX_TERMS = 8


def clips(
    analyzer: Analyzer, condition: Expr, domains: Mapping[Var, IntervalSet], of: Callable[[Expr], IntervalSet]
) -> list[Clip]:
    """What a condition leaves of the variables of ``domains``; ``of`` is what an expression ranges over there.

    Each conjunct that is a comparison of sums of integers bounds each of its variables by what the rest of it can be.
    """
    found: list[Clip] = []
    for part in conjuncts(condition)[:MAX_PARTS]:
        if part.__class__ not in (ir.LT, ir.LE, ir.GT, ir.GE, ir.EQ) or not is_pure(part):
            continue
        a, b = part.a, part.b
        if not (is_index_type(a.dtype) and a.dtype.is_scalar):
            continue
        if any(not side.is_leaf and analyzer.wraps_around(side) for side in (a, b)):
            continue  # a sum of data says nothing of its terms
        if part.__class__ is ir.GT or part.__class__ is ir.GE:
            a, b = b, a
        left, right = (affine_of(analyzer.interner, e, MAX_TERMS) for e in (a, b))
        if left is None or right is None:
            continue
        form = left - right  # at most 0, or -1
        strict = 1 if part.__class__ is ir.LT or part.__class__ is ir.GT else 0
        found += _of_form(analyzer, form.plus(Affine({}, strict)), domains, of)
        if part.__class__ is ir.EQ:
            found += _of_form(analyzer, -form, domains, of)
    return found


def _of_form(
    analyzer: Analyzer, form: Affine[Expr], domains: Mapping[Var, IntervalSet], of: Callable[[Expr], IntervalSet]
) -> list[Clip]:
    """The clips of ``form <= 0``: each variable is on one side of the least that the other terms come to."""
    found: list[Clip] = []
    most = max([abs(factor) for factor in form.terms.values()], default=0)
    for var, factor in form.terms.items():
        if max(most, abs(form.const)) > var.dtype.max_value:
            break  # no constant of the type holds it
        if var.__class__ is not Var or var not in domains:
            continue
        least: Expr | None = IntImm(var.dtype, 0)
        for atom, coefficient in form.terms.items():
            if atom is var or least is None:
                continue
            ends = of(atom)
            end = ends.min_value if coefficient > 0 else ends.max_value
            if atom.dtype is not var.dtype or end is None or ends.is_nothing():
                least = None
            else:
                least = build.add(least, build.mul(end, IntImm(var.dtype, coefficient)))
        if least is None:
            continue
        least = build.add(least, IntImm(var.dtype, form.const))
        if factor > 0:
            found.append((var, None, analyzer.simplify(build.floordiv(build.sub(0, least), factor))))
        else:
            up = build.sub(0, build.floordiv(build.sub(0, least), -factor))
            found.append((var, analyzer.simplify(up), None))
    return found
