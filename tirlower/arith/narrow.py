"""Predicates narrowed to what holds for all values of some variables, without these variables."""

from __future__ import annotations

from collections.abc import Mapping

from tirlower import ir
from tirlower.arith.analyzer import Analyzer
from tirlower.arith.arguments import domains_of
from tirlower.arith.conditions import is_pure
from tirlower.arith.int_set import IntervalSet, SetEvaluator
from tirlower.ir import BOOL, Expr, IntImm, Range, Var, as_expr, build
from tirlower.ir.expr import ExprLike
from tirlower.ir.query import mentions

__all__ = ["NarrowPredicateExpression", "narrow_predicate_expression"]

_NEGATED: dict[type[ir.CompareOp], type[ir.CompareOp]] = {
    ir.LT: ir.GE,
    ir.GE: ir.LT,
    ir.LE: ir.GT,
    ir.GT: ir.LE,
    ir.EQ: ir.NE,
    ir.NE: ir.EQ,
}


def narrow_predicate_expression(expr: ExprLike, free_parameters: Mapping[Var, Range]) -> Expr:
    """A condition without the variables of ``free_parameters`` that implies ``expr`` for all their values.

    It is conservative: it may be false where ``expr`` is always true, never the other way round. Raises :class:`TirError`
    for a domain that is no range.

    >>> i, n = Var("i"), Var("n")
    >>> narrow_predicate_expression(i < n, {i: Range(0, 8)})
    LT(7 < n)
    """
    analyzer = Analyzer()
    for var, dom in domains_of(free_parameters, "narrow_predicate_expression", "free_parameters").items():
        analyzer.bind(var, Range(dom.min, build.const(2, dom.extent.dtype)) if _is_point(dom) else dom)
    return analyzer.simplify(_Narrower(analyzer, free_parameters).of(as_expr(expr), True))


NarrowPredicateExpression = narrow_predicate_expression
"""TIR's name of it."""


def _is_point(dom: Range) -> bool:
    """Whether a range has one value: `bind` would replace the variable by it, which the walk does itself."""
    return isinstance(dom.extent, IntImm) and dom.extent.value == 1


class _Narrower:
    """Walks a condition; ``holds`` says whether a part or its negation is to be implied."""

    def __init__(self, analyzer: Analyzer, free: Mapping[Var, Range]) -> None:
        self.free = free
        self.simplify = analyzer.simplify
        self.sets = SetEvaluator(analyzer, free)

    def of(self, op: Expr, holds: bool) -> Expr:
        """What implies a condition (or its negation) for all values."""
        if op.__class__ is IntImm:
            return IntImm(BOOL, int(bool(op.value) is holds))
        if not mentions(op, self.free) and op.dtype is BOOL:
            return op if holds else build.logical_not(op)
        if op.__class__ is ir.Not:
            return self.of(op.a, not holds)
        if op.__class__ is ir.And or op.__class__ is ir.Or:
            join = build.logical_and if (op.__class__ is ir.And) is holds else build.logical_or
            return join(self.of(op.a, holds), self.of(op.b, holds))
        if isinstance(op, ir.CompareOp) and op.a.dtype.is_int and op.a.dtype.is_scalar and is_pure(op):
            return self._compared(op.__class__ if holds else _NEGATED[op.__class__], op.a, op.b)
        return IntImm(BOOL, 0)

    def _compared(self, kind: type[ir.CompareOp], a: Expr, b: Expr) -> Expr:
        if kind is ir.GT or kind is ir.GE:
            a, b = b, a
            kind = ir.LT if kind is ir.GT else ir.LE
        # The terms that both sides share must not be taken apart: i <= i.
        rest = self.sets.of(self.simplify(build.sub(a, b)))
        zero = build.const(0, a.dtype)
        if kind is ir.NE:
            return build.logical_or(self._below(ir.LT, rest, zero), self._above(ir.GT, rest, zero))
        if kind is ir.EQ:
            return build.logical_and(self._below(ir.LE, rest, zero), self._above(ir.GE, rest, zero))
        return self._below(kind, rest, zero)

    def _below(self, kind: type[ir.CompareOp], rest: IntervalSet, zero: Expr) -> Expr:
        high = rest.max_value
        return IntImm(BOOL, 0) if high is None or mentions(high, self.free) else kind(high, zero)

    def _above(self, kind: type[ir.CompareOp], rest: IntervalSet, zero: Expr) -> Expr:
        low = rest.min_value
        return IntImm(BOOL, 0) if low is None or mentions(low, self.free) else kind(low, zero)
