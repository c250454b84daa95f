"""Linear equations and clip bounds: coefficients of variables, and what a condition says of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tirlower import ir
from tirlower.arith.analyzer import Analyzer
from tirlower.arith.arguments import list_of
from tirlower.arith.conditions import conjuncts
from tirlower.ir import Expr, IntImm, Var, as_expr, build
from tirlower.ir.expr import ExprLike
from tirlower.ir.query import mentions

__all__ = ["detect_clip_bound", "detect_linear_equation", "linear_coefficients"]

_Form = dict[Var | None, Expr]

EXCHANGED: dict[type[ir.CompareOp], type[ir.CompareOp]] = {
    ir.LT: ir.GT,
    ir.LE: ir.GE,
    ir.GT: ir.LT,
    ir.GE: ir.LE,
    ir.EQ: ir.EQ,
}
"""The comparisons that bound their sides, and what each is with its sides exchanged."""


def linear_coefficients(expr: Expr, variables: Sequence[Var]) -> _Form | None:
    """``{var: coefficient, …, None: base}`` of an expression that is linear in the variables; None if it is not.

    Coefficients and base are expressions free of the variables; variables that do not occur are absent.
    """
    wanted = frozenset(variables)
    memo: dict[Expr, _Form | None] = {}
    stack: list[Expr] = [expr]
    while stack:
        op = stack[-1]
        if op in memo:
            stack.pop()
            continue
        kind = op.__class__
        if op.__class__ is Var and op in wanted:
            memo[op] = {op: IntImm(op.dtype, 1)}
            stack.pop()
            continue
        if not isinstance(op, (ir.Add, ir.Sub, ir.Mul)):
            memo[op] = None if mentions(op, wanted) else {None: op}
            stack.pop()
            continue
        waiting = [c for c in (op.b, op.a) if c not in memo]
        if waiting:
            stack += waiting
            continue
        stack.pop()
        memo[op] = _combined(kind, memo[op.a], memo[op.b])
    return memo[expr]


def _combined(kind: type, a: _Form | None, b: _Form | None) -> _Form | None:
    if a is None or b is None:
        return None
    if kind is ir.Mul:
        if any(key is not None for key in b):
            a, b = b, a
        if any(key is not None for key in b):
            return None  # a product of two variables
        factor = b[None] if b else None
        return {} if factor is None else {key: build.mul(value, factor) for key, value in a.items()}
    result = dict(a)
    for key, value in b.items():
        have = result.get(key)
        if have is None:
            result[key] = value if kind is ir.Add else build.sub(0, value)
        else:
            result[key] = build.add(have, value) if kind is ir.Add else build.sub(have, value)
    return result


_VARIABLES: Final = "give a list of variables: [i, j]"


def detect_linear_equation(expr: ExprLike, variables: Sequence[Var], analyzer: Analyzer | None = None) -> list[Expr]:
    """``[c0, c1, …, base]`` with ``expr == sum(c * var) + base``; an empty list when it is not linear.

    Coefficients may be symbolic, but mention none of the variables.
    """
    list_of(variables, Var, "detect_linear_equation", "variables", _VARIABLES)
    analyzer = analyzer if analyzer is not None else Analyzer()
    expr = as_expr(expr)
    found = linear_coefficients(expr, variables)
    if found is None:
        return []
    zero = IntImm(expr.dtype, 0)
    return [analyzer.simplify(found.get(key, zero)) for key in (*variables, None)]


def detect_clip_bound(
    condition: ExprLike, variables: Sequence[Var], analyzer: Analyzer | None = None
) -> list[Expr | None]:
    """``[min0, max0, min1, max1, …]``: what a conjunction says of each variable, None where it says nothing.

    Each conjunct that mentions variables must be, or simplify to, a comparison linear in exactly one of them, with a
    constant coefficient; an empty list says that one is not.
    """
    analyzer = analyzer if analyzer is not None else Analyzer()
    wanted = frozenset[Var](list_of(variables, Var, "detect_clip_bound", "variables", _VARIABLES))
    lows: dict[Var, Expr] = {}
    highs: dict[Var, Expr] = {}
    pending = [(part, False) for part in reversed(conjuncts(as_expr(condition)))]
    while pending:
        part, simplified = pending.pop()
        if not mentions(part, wanted):
            continue
        if (
            part.__class__ not in EXCHANGED
            or not part.a.dtype.is_int
            or (found := linear_coefficients(build.sub(part.a, part.b), variables)) is None
        ):
            if simplified:
                return []
            # not (x < 3), min(x, y) > 3, x // 2 < 3
            pending += [(simple, True) for simple in reversed(conjuncts(analyzer.rewrite_simplify(part)))]
            continue
        present = [key for key in found if key is not None]
        terms = [(var, analyzer.simplify(found[var])) for var in present]
        terms = [(var, c) for var, c in terms if not (isinstance(c, IntImm) and c.value == 0)]
        if len(terms) != 1:
            return []
        var, factor = terms[0]
        if not isinstance(factor, IntImm):
            return []
        base = found.get(None, IntImm(var.dtype, 0))
        _note(analyzer, part.__class__, var, factor.value, base, lows, highs)
    result: list[Expr | None] = []
    for var in variables:
        result += [lows.get(var), highs.get(var)]
    return result


def _note(
    analyzer: Analyzer,
    kind: type[ir.CompareOp],
    var: Var,
    factor: int,
    base: Expr,
    lows: dict[Var, Expr],
    highs: dict[Var, Expr],
) -> None:
    """``factor * var + base kind 0`` as ends of the variable's interval."""
    if factor < 0:
        factor, base = -factor, build.sub(0, base)
        kind = EXCHANGED[kind]
    strict = 1 if kind in (ir.LT, ir.GT) else 0
    if kind in (ir.LT, ir.LE, ir.EQ):
        high = analyzer.simplify(build.floordiv(build.sub(build.sub(0, base), strict), factor))
        highs[var] = high if var not in highs else analyzer.simplify(build.min_(highs[var], high))
    if kind in (ir.GT, ir.GE, ir.EQ):
        low = analyzer.simplify(build.ceildiv(build.add(build.sub(0, base), strict), factor))
        lows[var] = low if var not in lows else analyzer.simplify(build.max_(lows[var], low))
