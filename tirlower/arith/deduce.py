"""What a condition says of one variable, for all values of others: the set of its values that make it true."""

from __future__ import annotations

from collections.abc import Mapping

from tirlower import ir
from tirlower.arith.analyzer import Analyzer
from tirlower.arith.arguments import domains_of, need
from tirlower.arith.int_set import IntervalSet, SetEvaluator
from tirlower.arith.linear import EXCHANGED, linear_coefficients
from tirlower.ir import Expr, Range, Var, as_expr, build, is_const_int
from tirlower.ir.expr import ExprLike
from tirlower.ir.query import mentions

__all__ = ["deduce_bound"]


def deduce_bound(
    var: Var,
    cond: ExprLike,
    hint_map: Mapping[Var, IntervalSet | Range],
    relax_map: Mapping[Var, IntervalSet | Range],
) -> IntervalSet:
    """An interval of a variable in which a comparison is true whatever the variables of ``relax_map`` are.

    ``hint_map`` gives the domains of variables that stay in the ends: they tell the signs of factors. The set is empty
    (``is_nothing()``) where the condition is no comparison of integers, or cannot be solved for the variable.

    >>> a, b, c = Var("a"), Var("b"), Var("c")
    >>> deduce_bound(a, a * 4 + b < c, {}, {b: Range(0, 4)})
    IntervalSet[neg_inf, c // 4 - 1]
    """
    need(var, Var, "deduce_bound", "var", "give the variable that the condition is solved for")
    for name, domains in (("hint_map", hint_map), ("relax_map", relax_map)):
        domains_of(domains, "deduce_bound", name, (Range, IntervalSet))
    analyzer = Analyzer()
    for other, dom in {**hint_map, **relax_map}.items():
        analyzer.update(other, IntervalSet.from_range(dom) if isinstance(dom, Range) else dom, override=True)
    condition = as_expr(cond)
    if condition.__class__ not in EXCHANGED or not isinstance(condition, ir.CompareOp) or not condition.a.dtype.is_int:
        return IntervalSet.nothing()
    return _Solver(analyzer, var, relax_map).solve(condition.__class__, condition.a, condition.b)


class _Solver:
    """Solves ``left kind right`` for a variable, one operation after another."""

    def __init__(self, analyzer: Analyzer, var: Var, relax_map: Mapping[Var, IntervalSet | Range]) -> None:
        self.analyzer = analyzer
        self.var = var
        self.relaxed = frozenset(relax_map)
        self.sets = SetEvaluator(analyzer, relax_map)

    def solve(self, kind: type[ir.CompareOp], left: Expr, right: Expr) -> IntervalSet:
        """The interval of the variable in which ``left kind right`` is certainly true."""
        if kind is ir.LT:
            kind, right = ir.LE, build.sub(right, 1)
        elif kind is ir.GT:
            kind, right = ir.GE, build.add(right, 1)
        if kind is ir.EQ:
            both = (self.solve(ir.LE, left, right), self.solve(ir.GE, left, right))
            if any(one.is_nothing() for one in both):
                return IntervalSet.nothing()
            low, high = both[1].min_value, both[0].max_value
            return IntervalSet(low, high) if low is not None and high is not None else IntervalSet.nothing()
        found = linear_coefficients(build.sub(left, right), (self.var,))
        if found is not None:
            factor = self.analyzer.simplify(found.get(self.var, build.const(0, left.dtype)))
            base = found.get(None, build.const(0, left.dtype))
            return self._divided(kind, factor, build.sub(0, base))
        # One side has the variable under a quotient.
        if mentions(right, (self.var,)):
            left, right, kind = right, left, EXCHANGED[kind]
        return IntervalSet.nothing() if mentions(right, (self.var,)) else self._peeled(kind, left, right)

    def _divided(self, kind: type[ir.CompareOp], factor: Expr, limit: Expr) -> IntervalSet:
        """``factor * var kind limit``, the kind being at most or at least."""
        prove = self.analyzer.can_prove
        if is_const_int(factor, 0) or mentions(factor, self.relaxed):
            return IntervalSet.nothing()
        positive = prove(build.gt(factor, 0))
        if not positive and not prove(build.lt(factor, 0)):
            return IntervalSet.nothing()
        worst = self._worst(kind, limit)
        if worst is None:
            return IntervalSet.nothing()
        if not positive:
            factor, worst, kind = build.sub(0, factor), build.sub(0, worst), EXCHANGED[kind]
        simplify = self.analyzer.simplify
        if kind is ir.LE:
            return IntervalSet(None, simplify(build.floordiv(worst, factor)))
        return IntervalSet(simplify(build.add(build.floordiv(build.sub(worst, 1), factor), 1)), None)

    def _worst(self, kind: type[ir.CompareOp], limit: Expr) -> Expr | None:
        """The least (for at most) or greatest value of a limit over the relaxed variables; None without one."""
        found = self.sets.of(self.analyzer.simplify(limit))
        if found.is_nothing():
            return None
        return found.min_value if kind is ir.LE else found.max_value

    def _peeled(self, kind: type[ir.CompareOp], left: Expr, right: Expr) -> IntervalSet:
        """``left kind right`` where ``left`` alone has the variable, and is not linear in it."""
        if left.__class__ is ir.Add or left.__class__ is ir.Sub:
            if not mentions(left.b, (self.var,)):
                back = build.sub if left.__class__ is ir.Add else build.add
                return self.solve(kind, left.a, back(right, left.b))
            if not mentions(left.a, (self.var,)):
                if left.__class__ is ir.Add:
                    return self.solve(kind, left.b, build.sub(right, left.a))
                return self.solve(EXCHANGED[kind], left.b, build.sub(left.a, right))
            return IntervalSet.nothing()
        if left.__class__ is ir.Mul:
            factor, inner = (left.a, left.b) if mentions(left.b, (self.var,)) else (left.b, left.a)
            if mentions(factor, (self.var,)) or mentions(factor, self.relaxed):
                return IntervalSet.nothing()
            if self.analyzer.can_prove(build.lt(factor, 0)):
                factor, right, kind = build.sub(0, factor), build.sub(0, right), EXCHANGED[kind]
            elif not self.analyzer.can_prove(build.gt(factor, 0)):
                return IntervalSet.nothing()
            if kind is ir.LE:
                return self.solve(kind, inner, build.floordiv(right, factor))
            return self.solve(kind, inner, build.add(build.floordiv(build.sub(right, 1), factor), 1))
        if left.__class__ is ir.FloorDiv and not mentions(left.b, (self.var,)):
            if mentions(left.b, self.relaxed) or not self.analyzer.can_prove(build.gt(left.b, 0)):
                return IntervalSet.nothing()
            limit = build.mul(right, left.b)
            if kind is ir.LE:
                limit = build.sub(build.add(limit, left.b), 1)
            return self.solve(kind, left.a, limit)
        return IntervalSet.nothing()
