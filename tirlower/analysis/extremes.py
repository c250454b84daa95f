"""The least and greatest value of an index while loops run, exact where everything is linear.

A variable is eliminated by putting its bound in its place, innermost first: as the bound is an expression of the outer
variables, what an index has in common with it cancels. Over ``j < i + 1`` inside ``i < 8`` the index ``i - j`` is at
most ``i``, so 7, where intervals would add 7 and 0 independently. Conditions give bounds like the loops do. With
several bounds of a variable (``min`` in an extent, a guard) each gives a valid extreme, and the tightest one counts.

This is elimination of variables from linear inequalities (Fourier and Motzkin's), one chain of bounds at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tirlower.arith import Analyzer, estimate_region_upper_bound
from tirlower.arith.linear import linear_coefficients
from tirlower.ir import build
from tirlower.ir.buffer import Range
from tirlower.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    Broadcast,
    Expr,
    IntImm,
    Max,
    Min,
    Not,
    Ramp,
    Sub,
    Var,
    const,
)
from tirlower.ir.query import mentions

__all__ = ["Domain", "Extremes", "plainer_start"]

MAX_CHAINS = 32
"""How many combinations of bounds are followed for one extreme; the first ones come from the loops themselves."""

Linear = dict[Var | None, Expr]


@dataclass
class Domain:
    """A variable with what bounds it: each of ``lows`` and ``highs`` is an inclusive bound of outer variables."""

    var: Var
    lows: list[Expr] = field(default_factory=list)
    highs: list[Expr] = field(default_factory=list)

    @classmethod
    def of_loop(cls, var: Var, start: Expr, extent: Expr) -> Domain:
        """The iterations of a loop."""
        last = build.sub(build.add(start, extent), const(1, start.dtype))
        return cls(var, _alternatives(start, Max), _alternatives(last, Min))


def _alternatives(expr: Expr, choice: type[Min | Max]) -> list[Expr]:
    """The operands of a minimum (maximum), what is added around it put into each."""
    if expr.__class__ is choice:
        return _alternatives(expr.a, choice) + _alternatives(expr.b, choice)
    if expr.__class__ is Add and expr.b.__class__ is not choice:
        parts = _alternatives(expr.a, choice)
        return [build.add(part, expr.b) for part in parts] if len(parts) > 1 else [expr]
    if expr.__class__ is Add:
        parts = _alternatives(expr.b, choice)
        return [build.add(expr.a, part) for part in parts]
    if expr.__class__ is Sub:
        parts = _alternatives(expr.a, choice)
        return [build.sub(part, expr.b) for part in parts] if len(parts) > 1 else [expr]
    return [expr]


class Extremes:
    """Extremes of expressions over domains, given outermost first, under conditions that hold.

    Variables that have no domain stay in the result. An extreme that cannot be told is None.

    >>> from tirlower.ir import Var, as_expr; import tirlower.script
    >>> i, j, n = Var("i"), Var("j"), Var("n")
    >>> loops = [Domain.of_loop(i, as_expr(0), as_expr(8)), Domain.of_loop(j, as_expr(0), i + 1)]
    >>> triangle = Extremes(Analyzer(), loops)
    >>> str(triangle.least(i - j)), str(triangle.greatest(n + i - j))
    ('0', 'n + 7')
    """

    def __init__(self, analyzer: Analyzer, domains: Sequence[Domain], conditions: Iterable[Expr] = ()) -> None:
        self._analyzer = analyzer
        self._domains = [Domain(d.var, list(d.lows), list(d.highs)) for d in domains]
        self._vars = [d.var for d in domains]
        self._level = {var: level for level, var in enumerate(self._vars)}
        self._conditions = [c for c in conditions if mentions(c, self._level)]
        self._linear: dict[Expr, Linear | None] = {}
        self._ranges: dict[Var, Range] | None = None
        self._chains = 0
        for condition in self._conditions:
            self._use(condition)

    def least(self, expr: Expr) -> Expr | None:
        """The least value, as an expression free of the variables."""
        return self._extreme(expr, -1)

    def greatest(self, expr: Expr) -> Expr | None:
        """The greatest value."""
        return self._extreme(expr, 1)

    def interval(self, index: Expr) -> tuple[Expr, Expr] | None:
        """The least and greatest value of an index, which may be a vector of lanes; None without either."""
        if index.__class__ is Broadcast:
            return self.interval(index.value)
        if index.__class__ is Ramp:
            if not isinstance(index.lanes, int) or not isinstance(index.stride, IntImm):
                return None
            reach = const((index.lanes - 1) * index.stride.value, index.base.dtype)
            first, last = index.base, build.add(index.base, reach)
            if index.stride.value < 0:
                first, last = last, first
            low, high = self.least(first), self.greatest(last)
        elif index.dtype.is_vector or not index.dtype.is_integral:
            return None
        else:
            low, high = self.least(index), self.greatest(index)
        return None if low is None or high is None else (low, high)

    # Elimination

    def _extreme(self, expr: Expr, sign: int) -> Expr | None:
        expr = self._analyzer.simplify(expr)
        if not mentions(expr, self._level):
            return expr
        form = self._form(expr)
        if form is not None:
            self._chains = 0
            found = self._eliminate(form, len(self._vars) - 1, sign, expr)
            if found is not None:
                return found
        return self._estimate(expr, sign)

    def _form(self, expr: Expr) -> Linear | None:
        if expr not in self._linear:
            self._linear[expr] = linear_coefficients(expr, self._vars)
        return self._linear[expr]

    def _eliminate(self, form: Linear, level: int, sign: int, like: Expr) -> Expr | None:
        while level >= 0 and self._vars[level] not in form:
            level -= 1
        if level < 0:
            return self._analyzer.simplify(form.get(None, const(0, like.dtype)))
        domain = self._domains[level]
        factor = self._analyzer.simplify(form[domain.var])
        direction = self._sign(factor)
        if direction is None:
            return None
        rest = {key: value for key, value in form.items() if key is not domain.var}
        if direction == 0:
            return self._eliminate(rest, level - 1, sign, like)
        best: Expr | None = None
        for position, bound in enumerate(domain.highs if direction == sign else domain.lows):
            if position and self._chains >= MAX_CHAINS:
                break
            self._chains += 1
            linear = self._bound_form(bound, level, sign * direction)
            if linear is None:
                continue
            found = self._eliminate(self._sum(rest, linear, factor), level - 1, sign, like)
            if found is not None:
                best = found if best is None else self._tighter(best, found, sign)
        return best

    def _bound_form(self, bound: Expr, level: int, sign: int) -> Linear | None:
        """A bound as a linear form of outer variables; where it is none, its own extreme."""
        form = self._form(bound)
        if form is not None and all(var is None or self._level[var] < level for var in form):
            return form
        if any(mentions(bound, (var,)) for var in self._vars[level:]):
            return None
        end = Extremes(self._analyzer, self._domains[:level])._estimate(bound, sign)
        return None if end is None else {None: end}

    def _sum(self, form: Linear, other: Linear, factor: Expr) -> Linear:
        made = dict(form)
        for key, value in other.items():
            term = build.mul(value, factor)
            have = made.get(key)
            total = term if have is None else build.add(have, term)
            made[key] = total if isinstance(total, IntImm) else self._analyzer.simplify(total)
        return {key: value for key, value in made.items() if not (isinstance(value, IntImm) and value.value == 0)}

    def _sign(self, factor: Expr) -> int | None:
        if isinstance(factor, IntImm):
            return (factor.value > 0) - (factor.value < 0)
        if self._analyzer.can_prove(build.ge(factor, const(0, factor.dtype))):
            return 1
        return -1 if self._analyzer.can_prove(build.le(factor, const(0, factor.dtype))) else None

    def _tighter(self, a: Expr, b: Expr, sign: int) -> Expr:
        return self._analyzer.simplify(build.min_(a, b) if sign > 0 else build.max_(a, b))

    # Conditions

    def _use(self, condition: Expr) -> None:
        """Take a comparison of linear sums as a bound of its innermost variable."""
        if condition.__class__ is Not and condition.a.__class__ is EQ:
            condition = NE(condition.a.a, condition.a.b)
        kind = condition.__class__
        if (
            not isinstance(condition, (LT, LE, GT, GE, EQ, NE))
            or not condition.a.dtype.is_integral
            or condition.a.dtype.is_vector
        ):
            return
        a, b = condition.a, condition.b
        if kind is NE:
            self._differs(a, b)
        if kind in (LE, LT, EQ):
            self._at_most(a, b, 0 if kind is not LT else 1)
        if kind in (GE, GT, EQ):
            self._at_most(b, a, 0 if kind is not GT else 1)

    def _differs(self, a: Expr, b: Expr) -> None:
        """``a != b``: where one end of a variable's range is left out, the next value is the end."""
        form = linear_coefficients(self._analyzer.simplify(build.sub(a, b)), self._vars)
        inner = max((self._level[var] for var in form or () if var is not None), default=None)
        if form is None or inner is None:
            return
        var = self._vars[inner]
        factor = form.pop(var)
        if not isinstance(factor, IntImm) or abs(factor.value) != 1 or any(other is not None for other in form):
            return
        rest = form.get(None, const(0, var.dtype))
        left_out = rest if factor.value < 0 else build.sub(const(0, rest.dtype), rest)
        domain = self._domains[inner]
        for ends, step in ((domain.lows, 1), (domain.highs, -1)):
            if any(self._analyzer.can_prove_equal(end, left_out) for end in ends):
                ends.append(self._analyzer.simplify(build.add(left_out, const(step, left_out.dtype))))

    def _at_most(self, a: Expr, b: Expr, gap: int) -> None:
        """``a + gap <= b``."""
        form = linear_coefficients(self._analyzer.simplify(build.add(build.sub(a, b), const(gap, a.dtype))), self._vars)
        if form is None:
            return
        inner = max((self._level[var] for var in form if var is not None), default=None)
        if inner is None:
            return
        var = self._vars[inner]
        factor = form.pop(var)
        if not isinstance(factor, IntImm) or factor.value == 0:
            return
        rest: Expr = form.pop(None, const(0, var.dtype))
        outer = Extremes(self._analyzer, self._domains[:inner])
        for other, coefficient in form.items():
            if other is not None:
                rest = build.add(rest, build.mul(other, coefficient))
        if abs(factor.value) != 1:
            # factor * var <= -rest: the division must not see outer variables, so the extreme of the sum stands in.
            end = outer._extreme(rest, -1) if form else rest
            if end is None:
                return
            rest = end
        domain = self._domains[inner]
        if factor.value > 0:  # var <= floor(-rest / factor)
            bound = build.floordiv(build.sub(const(0, rest.dtype), rest), factor)
            domain.highs.append(self._analyzer.simplify(bound))
        else:  # var >= ceil(rest / -factor)
            size = -factor.value
            bound = build.floordiv(build.add(rest, const(size - 1, rest.dtype)), const(size, rest.dtype))
            domain.lows.append(self._analyzer.simplify(bound))

    # What is not linear

    def _estimate(self, expr: Expr, sign: int) -> Expr | None:
        """Divisions and the like: iteration maps where they apply, else interval arithmetic."""
        expr = self._analyzer.simplify(expr)
        if not mentions(expr, self._level):
            return expr
        if not expr.dtype.is_integral or expr.dtype.is_vector:
            return None
        ranges = self._independent()
        if any(var not in ranges for var in self._vars if mentions(expr, (var,))):
            return None
        predicate = build.all_of(*self._conditions)
        domains = {var: ranges[var] for var in self._vars if var in ranges}
        found = estimate_region_upper_bound(
            [Range(expr, const(1, expr.dtype))], domains, predicate, analyzer=self._analyzer
        )
        if not found or found[0].is_nothing():
            return None
        end = found[0].max_value if sign > 0 else found[0].min_value
        return None if end is None or mentions(end, self._level) else self._analyzer.simplify(end)

    def _independent(self) -> dict[Var, Range]:
        """The range of each variable, those around it relaxed too."""
        if self._ranges is None:
            self._ranges = {}
            for var in self._vars:
                form: Linear = {var: const(1, var.dtype)}
                low = self._eliminate(form, self._level[var], -1, var)
                self._chains = 0
                high = self._eliminate(form, self._level[var], 1, var)
                self._chains = 0
                if low is not None and high is not None:
                    extent = build.add(build.sub(high, low), const(1, low.dtype))
                    self._ranges[var] = Range(low, self._analyzer.simplify(extent))
        return self._ranges


def plainer_start(low: Expr, high: Expr, analyzer: Analyzer) -> Expr:
    """The first index of a range; where that is a maximum, its first operand that leaves the number of indices constant
    and no larger than the maximum allows.

    >>> from tirlower.ir import Var; import tirlower.script
    >>> i = Var("i")
    >>> analyzer = Analyzer()
    >>> analyzer.bind(i, Range(0, 4))
    >>> [str(plainer_start(build.max_(first, 0), i + 7, analyzer)) for first in (i - 1, i * 8 - 1)]
    ['i - 1', 'T.max(i * 8 - 1, 0)']
    """
    if not isinstance(low, Max):
        return low
    one = const(1, low.dtype)
    most = analyzer.const_int_bound(analyzer.simplify(build.add(build.sub(high, low), one))).max_value
    for part in (low.a, low.b):
        extent = analyzer.simplify(build.add(build.sub(high, part), one))
        if isinstance(extent, IntImm) and extent.value <= most:
            return part
    return low
