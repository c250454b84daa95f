"""Conditions as a conjunction of disjunctions, simplified pairwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tirlower import ir
from tirlower.ir import Expr, IntImm
from tirlower.ir.node import Node

if TYPE_CHECKING:
    from tirlower.arith.analyzer import Analyzer

__all__ = ["and_of_ors"]

MAX_CLAUSES = 64
"""Beyond this the distribution would cost more than it shows; the condition stays."""


def and_of_ors(analyzer: Analyzer, condition: Expr) -> Expr:
    """The condition as a conjunction of disjunctions.

    Within a clause and between clauses, parts that decide one another are dropped by the rules of the rewriter. A
    condition whose normal form is too large comes back unchanged.
    """
    clauses = _clauses(condition)
    if clauses is None:
        return condition
    rewriter = analyzer.rewriter
    true, false = rewriter.true, rewriter.false
    kept: list[list[Expr]] = []
    for clause in clauses:
        parts = _reduce(analyzer, clause, ir.Or)
        if any(part is true or _is(part, 1) for part in parts):
            continue
        parts = [part for part in parts if not _is(part, 0)]
        if not parts:
            return false
        kept.append(parts)
    kept = _absorb(analyzer, _merged(analyzer, kept))
    whole = _reduce(analyzer, [_join(ir.Or, parts) for parts in kept], ir.And)
    if any(_is(part, 0) for part in whole):
        return false
    whole = [part for part in whole if not _is(part, 1)]
    if not whole:
        return true
    result = _join(ir.And, whole)
    return condition if analyzer.interner.same(result, condition) else result


def _is(expr: Node, value: int) -> bool:
    return expr.__class__ is IntImm and expr.value == value


def _join(kind: type, parts: list[Expr]) -> Expr:
    result = parts[0]
    for part in parts[1:]:
        result = kind(result, part)
    return result


def _clauses(condition: Expr) -> list[list[Expr]] | None:
    if condition.__class__ is ir.And:
        left, right = _clauses(condition.a), _clauses(condition.b)
        if left is None or right is None or len(left) + len(right) > MAX_CLAUSES:
            return None
        return left + right
    if condition.__class__ is ir.Or:
        left, right = _clauses(condition.a), _clauses(condition.b)
        if left is None or right is None or len(left) * len(right) > MAX_CLAUSES:
            return None
        return [p + q for p in left for q in right]
    return [[condition]]


def _reduce(analyzer: Analyzer, parts: list[Expr], kind: type) -> list[Expr]:
    """Drop parts until no two of them simplify when joined."""
    parts = list(parts)
    changed = True
    while changed:
        changed = False
        for i in range(len(parts)):
            for j in range(i + 1, len(parts)):
                joined = analyzer.rewriter.binary(kind, parts[i], parts[j])
                if joined.__class__ is not kind:
                    parts[i] = joined
                    del parts[j]
                    changed = True
                    break
            if changed:
                break
    return parts


def _merged(analyzer: Analyzer, clauses: list[list[Expr]]) -> list[list[Expr]]:
    """Join clauses that differ in one part: ``(a or x) and (a or y)`` is ``a or (x and y)``, where that is simple."""
    clauses = list(clauses)
    rep = analyzer.interner.representative
    changed = True
    while changed:
        changed = False
        for i in range(len(clauses)):
            for j in range(i + 1, len(clauses)):
                p = {rep(part): part for part in clauses[i]}
                q = {rep(part): part for part in clauses[j]}
                mine, other = p.keys() - q.keys(), q.keys() - p.keys()
                if len(mine) != 1 or len(other) != 1:
                    continue
                joined = analyzer.rewriter.binary(ir.And, p[next(iter(mine))], q[next(iter(other))])
                if joined.__class__ is ir.And:
                    continue
                # In the place of the later clause, and of its part, as TIR has it.
                whole = [joined if key in other else part for key, part in q.items()]
                rest = [part for key, part in q.items() if key not in other]
                clauses[j] = rest if _is(joined, 0) and rest else whole
                del clauses[i]
                changed = True
                break
            if changed:
                break
    return clauses


def _absorb(analyzer: Analyzer, clauses: list[list[Expr]]) -> list[list[Expr]]:
    """Drop clauses that another one implies by being a part of them."""
    sets = [frozenset(analyzer.interner.representative(part) for part in clause) for clause in clauses]
    kept = []
    for i, clause in enumerate(clauses):
        if not any((sets[j] < sets[i]) or (sets[j] == sets[i] and j < i) for j in range(len(clauses)) if j != i):
            kept.append(clause)
    return kept
