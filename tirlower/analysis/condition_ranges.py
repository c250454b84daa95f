"""For which values of a loop variable a condition certainly holds: conditions solved for one variable.

``solve(condition, var)`` peels the operations between a comparison and the variable, each by its inverse on integers,
so the ends are exact for fixed values of the other variables; variables of inner loops are then relaxed over their
domains to the worst case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tirlower.analysis.purity import side_effect
from tirlower.arith import Analyzer, IntervalSet
from tirlower.arith.bounds import is_index_type
from tirlower.arith.conditions import negated
from tirlower.ir import build
from tirlower.ir.expr import EQ, GE, GT, LE, LT, Add, And, Call, Expr, FloorDiv, IntImm, Mul, Not, Or, Sub, Var, const
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import is_small, mentions

__all__ = ["Interval", "Solver", "mentions"]

Interval = tuple[Expr | None, Expr | None]
"""Least and greatest value, both included; None where there is no such end."""

_LIKELY = Op.get("tir.likely")
MAX_END = 24
"""Distinct nodes of an end worth computing at run time; longer ones come from ends clamped again and again."""


class Solver:
    """Solves conditions for ``var``. ``domains`` are the variables of inner loops, ``inside`` all that is defined
    inside the loop of ``var`` (an end may not mention it)."""

    def __init__(self, analyzer: Analyzer, var: Var) -> None:
        self.analyzer = analyzer
        self.var = var
        self.domains: dict[Var, IntervalSet] = {}
        self.inside: set[Var] = {var}

    def enter_loop(self, var: Var, start: Expr, extent: Expr) -> None:
        """The variable of an inner loop, relaxed over the loops around it."""
        self.inside.add(var)
        last = build.sub(build.add(start, extent), const(1, start.dtype))
        low, high = self._relaxed(start, self.domains), self._relaxed(last, self.domains)
        self.domains[var] = IntervalSet(low.min_value, high.max_value)

    def leave_loop(self, var: Var) -> None:
        """What was inside that loop."""
        self.domains.pop(var, None)

    def holds(self, condition: Expr) -> Interval | None:
        """The values for which a condition holds, whatever the inner variables; None where they are no interval."""
        if condition.__class__ is Call and condition.op is _LIKELY:
            return self.holds(condition.args[0])
        if condition.__class__ is Not:
            return self.fails(condition.a)
        if condition.__class__ is And:
            return self._both(self.holds(condition.a), self.holds(condition.b))
        return self._comparison(condition)

    def fails(self, condition: Expr) -> Interval | None:
        """The values for which a condition certainly does not hold."""
        if condition.__class__ is Call and condition.op is _LIKELY:
            return self.fails(condition.args[0])
        if condition.__class__ is Not:
            return self.holds(condition.a)
        if condition.__class__ is Or:
            return self._both(self.fails(condition.a), self.fails(condition.b))
        opposite = negated(condition)
        return None if opposite.__class__ is Not else self._comparison(opposite)

    def _both(self, a: Interval | None, b: Interval | None) -> Interval | None:
        if a is None or b is None:
            return None
        return self.pick(build.max_, a[0], b[0]), self.pick(build.min_, a[1], b[1])

    def pick(self, choose: Callable[[Expr, Expr], Expr], a: Expr | None, b: Expr | None) -> Expr | None:
        """The stricter of two ends."""
        if a is None or b is None:
            return b if a is None else a
        return self.analyzer.simplify(choose(a, b))

    def _comparison(self, op: Expr) -> Interval | None:
        kind = op.__class__
        if (
            not isinstance(op, (LT, LE, GT, GE, EQ))
            or not is_index_type(op.a.dtype)
            or side_effect(op) is not Purity.PURE
        ):
            return None
        if not mentions(op, (self.var,)):
            return None
        a, b = (op.b, op.a) if kind in (GT, GE) else (op.a, op.b)
        # a <= b, a < b or a == b, as form <= limit (form == limit)
        form = self.analyzer.simplify(build.sub(a, b))
        if not mentions(form, (self.var,)):
            return None
        limit = const(-1 if kind in (LT, GT) else 0, a.dtype)
        ends = self._solve(form, limit, limit if kind is EQ else None)
        if ends is None:
            return None
        low, high = ends
        worst_low = None if low is None else self._worst(low, greatest=True)
        worst_high = None if high is None else self._worst(high, greatest=False)
        if (low is not None and worst_low is None) or (high is not None and worst_high is None):
            return None
        return worst_low, worst_high

    def _solve(self, form: Expr, upper: Expr | None, lower: Expr | None) -> Interval | None:
        """The ends of the variable where ``lower <= form <= upper``; sides without limit are None."""
        while form is not self.var:
            if form.__class__ is Add or form.__class__ is Sub:
                left, right = mentions(form.a, (self.var,)), mentions(form.b, (self.var,))
                if left and right:
                    return None
                other = form.b if left else form.a
                if form.__class__ is Add:
                    upper, lower = _each(build.sub, upper, other), _each(build.sub, lower, other)
                elif left:
                    upper, lower = _each(build.add, upper, other), _each(build.add, lower, other)
                else:  # other - form
                    upper, lower = _flipped(other, lower), _flipped(other, upper)
                form = form.a if left else form.b
            elif form.__class__ is Mul:
                form, factor = (form.a, form.b) if mentions(form.a, (self.var,)) else (form.b, form.a)
                if mentions(factor, self.inside):
                    return None
                if self.analyzer.can_prove_less(factor, 0):
                    factor = build.sub(0, factor)
                    zero = const(0, factor.dtype)
                    upper, lower = _flipped(zero, lower), _flipped(zero, upper)
                elif not self.analyzer.can_prove_greater_equal(factor, 1):
                    return None
                upper, lower = _each(build.floordiv, upper, factor), _each(build.ceildiv, lower, factor)
            elif form.__class__ is FloorDiv and isinstance(form.b, IntImm) and form.b.value > 0:
                size = form.b
                if upper is not None:
                    upper = build.add(build.mul(upper, size), const(size.value - 1, size.dtype))
                lower = _each(build.mul, lower, size)
                form = form.a
            else:
                return None
        return lower, upper

    def _worst(self, end: Expr, greatest: bool) -> Expr | None:
        """An end over all values of the inner variables; None where it has no such value."""
        found = self._relaxed(end, self.domains)
        value = found.max_value if greatest else found.min_value
        if value is None or mentions(value, self.inside):
            return None
        value = self.analyzer.simplify(value)
        return value if is_small(MAX_END, value) else None

    def _relaxed(self, expr: Expr, domains: Mapping[Var, IntervalSet]) -> IntervalSet:
        return self.analyzer.int_set(expr, domains)


def _each(fn: Callable[[Expr, Expr], Expr], limit: Expr | None, other: Expr) -> Expr | None:
    return None if limit is None else fn(limit, other)


def _flipped(from_: Expr, limit: Expr | None) -> Expr | None:
    return None if limit is None else build.sub(from_, limit)
