"""Systems of linear equations and inequalities over the integers.

Equations are brought to Smith normal form, which parametrises all integer solutions by new variables; inequalities are
eliminated variable by variable (Fourier and Motzkin), which bounds each variable by those after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, overload

from tirlower import ir
from tirlower.arith.analyzer import Analyzer
from tirlower.arith.arguments import domains_of, list_of
from tirlower.arith.linear import EXCHANGED, linear_coefficients
from tirlower.arith.region import eval_set
from tirlower.diagnostics import TirError
from tirlower.ir import Expr, IntImm, Range, Var, build, is_const_int, substitute
from tirlower.ir.dtype import DataType
from tirlower.ir.query import each

__all__ = [
    "IntConstraints",
    "IntConstraintsTransform",
    "IntGroupBounds",
    "smith_normal_form",
    "solve_linear_equations",
    "solve_linear_inequalities",
]

Matrix = list[list[int]]
MAX_INEQUALITIES = 400
"""Elimination can square the number of inequalities at each step; beyond this it gives up on new ones."""


@dataclass
class IntConstraints:
    """Relations (conditions that all hold) over variables with ranges."""

    variables: list[Var]
    ranges: dict[Var, Range]
    relations: list[Expr]
    bounds: dict[Var, IntGroupBounds] = field(default_factory=dict)
    """After :func:`solve_linear_inequalities`: what bounds each variable, in terms of those after it."""


@dataclass
class IntConstraintsTransform:
    """``src`` rewritten to ``dst`` in new variables, with the maps between the two."""

    src: IntConstraints
    dst: IntConstraints
    src_to_dst: dict[Var, Expr]
    dst_to_src: dict[Var, Expr]


@dataclass
class IntGroupBounds:
    """``coef * var`` is at least each of ``lower``, at most each of ``upper``, and equal to each of ``equal``."""

    coef: int
    lower: list[Expr]
    equal: list[Expr]
    upper: list[Expr]


def smith_normal_form(a: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """``(u, d, v)`` with ``u * a * v == d``, ``d`` diagonal with each entry dividing the next, ``u``, ``v`` unimodular.

    >>> smith_normal_form([[2, 4]])[1]
    [[2, 0]]
    """
    rows, columns = len(a), len(a[0]) if a else 0
    d = [list(row) for row in a]
    u = [[int(i == j) for j in range(rows)] for i in range(rows)]
    v = [[int(i == j) for j in range(columns)] for i in range(columns)]

    def add_row(target: int, source: int, factor: int) -> None:
        for m in (d, u):
            m[target] = [x + factor * y for x, y in zip(m[target], m[source], strict=True)]

    def add_column(target: int, source: int, factor: int) -> None:
        for m in (d, v):
            for row in m:
                row[target] += factor * row[source]

    for t in range(min(rows, columns)):
        while True:
            entries = [(abs(d[i][j]), i, j) for i in range(t, rows) for j in range(t, columns) if d[i][j]]
            if not entries:
                return u, d, v
            _, i, j = min(entries)
            d[t], d[i] = d[i], d[t]
            u[t], u[i] = u[i], u[t]
            for m in (d, v):
                for row in m:
                    row[t], row[j] = row[j], row[t]
            pivot = d[t][t]
            for i in range(t + 1, rows):
                add_row(i, t, -(d[i][t] // pivot))
            for j in range(t + 1, columns):
                add_column(j, t, -(d[t][j] // pivot))
            if any(d[i][t] for i in range(t + 1, rows)) or any(d[t][j] for j in range(t + 1, columns)):
                continue
            odd = next((i for i in range(t + 1, rows) if any(d[i][j] % pivot for j in range(t + 1, columns))), None)
            if odd is None:
                break
            add_row(t, odd, 1)
        if d[t][t] < 0:
            d[t] = [-x for x in d[t]]
            u[t] = [-x for x in u[t]]
    return u, d, v


def _as_equation(analyzer: Analyzer, equation: Expr, variables: Sequence[Var]) -> tuple[list[int], Expr] | None:
    """``coefficients . variables + base == 0`` of an equation with constant coefficients."""
    if equation.__class__ is not ir.EQ:
        return None
    found = linear_coefficients(build.sub(equation.a, equation.b), variables)
    if found is None:
        return None
    row = []
    for var in variables:
        factor = analyzer.simplify(found.get(var, IntImm(equation.a.dtype, 0)))
        if not isinstance(factor, IntImm):
            return None
        row.append(factor.value)
    return row, analyzer.simplify(found.get(None, IntImm(equation.a.dtype, 0)))


def _conditions(given: Sequence[Expr] | Expr, function: str) -> list[Expr]:
    """Conditions as a list: one alone, or several."""
    if isinstance(given, Expr):
        return [given]
    return list_of(given, Expr, function, "conditions", "give a condition, or a list of them: [x + y == 4, x - y == 2]")


def solve_linear_equations(
    equations: Sequence[Expr] | Expr,
    variables: Sequence[Var] | None = None,
    ranges: Mapping[Var, Range] | None = None,
    analyzer: Analyzer | None = None,
) -> IntConstraintsTransform:
    """All integer solutions of equations, parametrised by as many new variables as are free.

    Conditions that are no linear equations with constant coefficients stay as relations, in the new variables, as do
    the ranges of the old ones. A system without solution has the relation False. Without ``variables`` those of the
    equations are solved for, in the order in which they are met.
    """
    analyzer = analyzer if analyzer is not None else Analyzer()
    ranges = dict(domains_of(ranges or {}, "solve_linear_equations", "ranges"))
    parts = _conditions(equations, "solve_linear_equations")
    if variables is None:
        variables = _variables_of(parts)
    rows: Matrix = []
    bases: list[Expr] = []
    rest: list[Expr] = []
    for part in parts:
        found = _as_equation(analyzer, part, variables)
        if found is None:
            rest.append(part)
        else:
            rows.append(found[0])
            bases.append(found[1])
    dtype = variables[0].dtype if variables else ir.INT32
    source = IntConstraints(list(variables), ranges, parts)
    u, d, v = smith_normal_form(rows) if rows else ([], [], [[int(i == j) for j in variables] for i in variables])
    if not rows:
        v = [[int(i == j) for j in range(len(variables))] for i in range(len(variables))]
    relations: list[Expr] = []
    # u a v y = u (-base): each new coordinate y is determined where the diagonal is not zero.
    right = [_dot(dtype, row, [build.sub(0, base) for base in bases], analyzer) for row in u]
    fixed: dict[int, Expr] = {}
    for k in range(len(rows)):
        pivot = d[k][k] if k < len(variables) else 0
        if pivot == 0:
            condition = analyzer.simplify(build.eq(right[k], 0))
        else:
            fixed[k] = analyzer.simplify(build.floordiv(right[k], pivot)) if pivot != 1 else right[k]
            condition = analyzer.simplify(build.eq(build.floormod(right[k], pivot), 0))
        if not (isinstance(condition, IntImm) and condition.value):
            relations.append(condition)
    new_vars = [Var(f"n{k}", dtype) for k in range(len(variables) - len(fixed))]
    coordinates: list[Expr] = []
    remaining = iter(new_vars)
    for k in range(len(variables)):
        coordinates.append(fixed[k] if k in fixed else next(remaining))
    old_to_new = {var: _dot(dtype, v[i], coordinates, analyzer) for i, var in enumerate(variables)}
    inverse = _inverse_unimodular(v)
    new_to_old: dict[Var, Expr] = {}
    free = [k for k in range(len(variables)) if k not in fixed]
    for var, k in zip(new_vars, free, strict=True):
        new_to_old[var] = _dot(dtype, inverse[k], list(variables), analyzer)
    new_ranges: dict[Var, Range] = {}
    for var, value in old_to_new.items():
        dom = ranges.get(var)
        if dom is None:
            continue
        single = next((n for n in new_vars if n is value), None)
        if single is not None:
            new_ranges[single] = dom
            continue
        for condition in (build.ge(value, dom.min), build.lt(value, build.add(dom.min, dom.extent))):
            simple = analyzer.simplify(condition)
            if not (isinstance(simple, IntImm) and simple.value):
                relations.append(simple)
    relations += [analyzer.simplify(substitute(part, old_to_new)) for part in rest]
    if any(isinstance(r, IntImm) and not r.value for r in relations):
        relations = [IntImm(ir.BOOL, 0)]
    destination = IntConstraints(new_vars, new_ranges, relations)
    return IntConstraintsTransform(source, destination, old_to_new, new_to_old)


def _dot(dtype: DataType, row: Sequence[int], values: Sequence[Expr], analyzer: Analyzer) -> Expr:
    total: Expr = IntImm(dtype, 0)
    for factor, value in zip(row, values, strict=True):
        if factor:
            total = build.add(total, build.mul(value, IntImm(dtype, factor)))
    return analyzer.simplify(total)


def _inverse_unimodular(v: Matrix) -> Matrix:
    """The inverse of a matrix of determinant 1 or -1, by integer row operations."""
    n = len(v)
    work = [list(row) + [int(i == j) for j in range(n)] for i, row in enumerate(v)]
    for t in range(n):
        while True:
            entries = [(abs(work[i][t]), i) for i in range(t, n) if work[i][t]]
            _, i = min(entries)
            work[t], work[i] = work[i], work[t]
            for i in range(t + 1, n):
                factor = work[i][t] // work[t][t]
                work[i] = [x - factor * y for x, y in zip(work[i], work[t], strict=True)]
            if not any(work[i][t] for i in range(t + 1, n)):
                break
        if work[t][t] < 0:
            work[t] = [-x for x in work[t]]
    for t in reversed(range(n)):
        for i in range(t):
            factor = work[i][t]
            work[i] = [x - factor * y for x, y in zip(work[i], work[t], strict=True)]
    return [row[n:] for row in work]


@dataclass
class _Inequality:
    """``sum(coefficient * var) + base <= 0``."""

    factors: dict[Var, int]
    base: Expr


@overload
def solve_linear_inequalities(
    conditions: Sequence[Expr] | Expr,
    variables: Sequence[Var] | None = None,
    ranges: Mapping[Var, Range] | None = None,
    deskew_range: Literal[False] = False,
    analyzer: Analyzer | None = None,
) -> IntConstraints: ...


@overload
def solve_linear_inequalities(
    conditions: Sequence[Expr] | Expr,
    variables: Sequence[Var] | None = None,
    ranges: Mapping[Var, Range] | None = None,
    *,
    deskew_range: Literal[True],
    analyzer: Analyzer | None = None,
) -> IntConstraintsTransform: ...


def solve_linear_inequalities(
    conditions: Sequence[Expr] | Expr,
    variables: Sequence[Var] | None = None,
    ranges: Mapping[Var, Range] | None = None,
    deskew_range: bool = False,
    analyzer: Analyzer | None = None,
) -> IntConstraints | IntConstraintsTransform:
    """Bounds of each variable in terms of those after it, by eliminating them in order.

    The result's ``bounds`` maps variables to :class:`IntGroupBounds`; conditions that are not linear with constant
    coefficients, or that mention no variable, stay in ``relations``. The ranges are conditions too. Without
    ``variables`` those of the conditions are solved for, in the order in which they are met.

    With ``deskew_range`` the result is a transform to new variables that begin at 0: each old one is its least value
    plus a new one, whose range is the least that is known; what the ranges do not say stays in the relations of
    ``dst``.
    Raises :class:`TirError` when there are more inequalities than elimination can take.

    >>> x, y = Var("x"), Var("y")
    >>> found = solve_linear_inequalities([x >= y, x <= y + 3, y >= 2, y < 6], [x, y], deskew_range=True)
    >>> [str(found.src_to_dst[var]) for var in (x, y)], [str(dom) for dom in found.dst.ranges.values()]
    (['y_0 + x_0 + 2', 'y_0 + 2'], ['0:4', '0:4'])
    """
    analyzer = analyzer if analyzer is not None else Analyzer()
    ranges = dict(domains_of(ranges or {}, "solve_linear_inequalities", "ranges"))
    parts = _conditions(conditions, "solve_linear_inequalities")
    if variables is None:
        variables = _variables_of(parts)
    solved = _eliminated(parts, variables, ranges, analyzer)
    return _deskewed(parts, solved) if deskew_range else solved


def _variables_of(parts: Sequence[Expr]) -> list[Var]:
    return list(dict.fromkeys(var for part in parts for var in each(Var, part)))


def _deskewed(parts: Sequence[Expr], solved: IntConstraints) -> IntConstraintsTransform:
    """The transform to variables that begin at 0, from the last variable on: its bounds mention no other."""
    analyzer = Analyzer()
    forward: dict[Var, Expr] = {}
    back: dict[Var, Expr] = {}
    domains: dict[Var, Range] = {}
    made: list[Var] = []
    for var in reversed(solved.variables):
        group = solved.bounds[var]
        best: tuple[int | None, Expr, Expr] | None = None
        for low in (*group.equal, *group.lower):
            start = build.add(build.floordiv(build.sub(low, 1), group.coef), 1) if group.coef != 1 else low
            for high in (*group.equal, *group.upper):
                end = build.floordiv(high, group.coef) if group.coef != 1 else high
                size = build.add(build.sub(end, start), 1)
                widest = eval_set(substitute(size, forward), domains, analyzer).max_value
                if widest is None:
                    continue
                constant = widest.value if isinstance(widest, IntImm) else None
                if best is None or (constant is not None and (best[0] is None or constant < best[0])):
                    best = (constant, start, widest)
        if best is None:
            forward[var] = var
            made.append(var)
            continue
        _, start, extent = best
        new = Var(f"{var.name}_0", var.dtype)
        made.append(new)
        forward[var] = analyzer.simplify(build.add(substitute(start, forward), new))
        back[new] = analyzer.simplify(build.sub(var, start))
        domains[new] = Range.from_extent(analyzer.simplify(extent))
        analyzer.bind(
            new, domains[new] if not is_const_int(extent, 1) else Range.from_extent(build.const(2, var.dtype))
        )
    relations: list[Expr] = []
    bounded = [c for var, dom in solved.ranges.items() for c in (var >= dom.min, var < dom.min + dom.extent)]
    for part in (*parts, *bounded):
        condition = analyzer.simplify(substitute(part, forward))
        if not (isinstance(condition, IntImm) and condition.value):
            relations.append(condition)
    sizes = [dom.extent.value for dom in domains.values() if isinstance(dom.extent, IntImm)]
    if any(isinstance(r, IntImm) for r in relations) or any(size <= 0 for size in sizes):
        relations = [IntImm(ir.BOOL, 0)]
    source = IntConstraints(solved.variables, solved.ranges, list(parts))
    ordered = {new: domains[new] for new in reversed(made) if new in domains}
    destination = IntConstraints(list(reversed(made)), ordered, relations)
    return IntConstraintsTransform(source, destination, forward, back)


def _eliminated(
    parts: Sequence[Expr], variables: Sequence[Var], ranges: dict[Var, Range], analyzer: Analyzer
) -> IntConstraints:
    """The variables bounded, each by those after it."""
    current: list[_Inequality] = []
    relations: list[Expr] = []
    for part in parts:
        found = _inequalities(analyzer, part, variables)
        if found is None:
            relations.append(part)
        else:
            current += found
    for var, dom in ranges.items():
        if var in variables:
            for condition in (build.ge(var, dom.min), build.lt(var, build.add(dom.min, dom.extent))):
                current += _inequalities(analyzer, condition, variables) or []
    bounds: dict[Var, IntGroupBounds] = {}
    for var in variables:
        below = [q for q in current if q.factors.get(var, 0) < 0]
        above = [q for q in current if q.factors.get(var, 0) > 0]
        current = [q for q in current if not q.factors.get(var, 0)]
        bounds[var] = _group(analyzer, var, below, above)
        if len(below) * len(above) + len(current) > MAX_INEQUALITIES:
            raise TirError(
                f"eliminating {var.name!r} gives {len(below) * len(above)} inequalities",
                origin="solve_linear_inequalities",
                help="state fewer conditions, or give ranges that make some of them redundant",
            )
        for low in below:
            for high in above:
                joined = _joined(analyzer, var, low, high)
                if joined is not None:
                    current.append(joined)
        current = _distinct(analyzer, current)
    for left in current:
        condition = analyzer.simplify(build.le(left.base, 0))
        if not (isinstance(condition, IntImm) and condition.value):
            relations.append(condition)
    return IntConstraints(list(variables), ranges, relations, bounds)


def _inequalities(analyzer: Analyzer, condition: Expr, variables: Sequence[Var]) -> list[_Inequality] | None:
    if condition.__class__ not in EXCHANGED:
        return None
    kind, a, b = condition.__class__, condition.a, condition.b
    if kind in (ir.GT, ir.GE):
        a, b = b, a
    found = linear_coefficients(build.sub(a, b), variables)
    if found is None:
        return None
    factors: dict[Var, int] = {}
    for var in variables:
        if var in found:
            factor = analyzer.simplify(found[var])
            if not isinstance(factor, IntImm):
                return None
            if factor.value:
                factors[var] = factor.value
    base = found.get(None, IntImm(a.dtype, 0))
    strict = 1 if kind in (ir.LT, ir.GT) else 0
    result = [_tightened(_Inequality(factors, analyzer.simplify(build.add(base, strict))))]
    if kind is ir.EQ:
        opposite = {var: -factor for var, factor in factors.items()}
        result.append(_tightened(_Inequality(opposite, analyzer.simplify(build.sub(0, base)))))
    return result


def _tightened(one: _Inequality) -> _Inequality:
    """The inequality divided by what its factors share, the constant rounded toward the integers that fit."""
    shared = 0
    for factor in one.factors.values():
        shared = _gcd(shared, abs(factor))
    if shared <= 1 or not isinstance(one.base, IntImm):
        return one
    base = IntImm(one.base.dtype, -(-one.base.value // shared))
    return _Inequality({var: factor // shared for var, factor in one.factors.items()}, base)


def _without(inequality: _Inequality, var: Var, sign: int) -> Expr:
    """``sign`` times the terms of an inequality other than those of a variable."""
    total: Expr = inequality.base if sign > 0 else build.sub(0, inequality.base)
    for other, factor in inequality.factors.items():
        if other is not var:
            total = build.add(total, build.mul(other, sign * factor))
    return total


def _group(analyzer: Analyzer, var: Var, below: list[_Inequality], above: list[_Inequality]) -> IntGroupBounds:
    """What inequalities say of a variable, over one coefficient: the least common multiple of theirs."""
    factors = [abs(q.factors[var]) for q in (*below, *above)]
    common = 1
    for factor in factors:
        common = common * factor // _gcd(common, factor)
    lower, upper = [], []
    for q in below:
        lower.append(analyzer.simplify(build.mul(_without(q, var, 1), common // abs(q.factors[var]))))
    for q in above:
        upper.append(analyzer.simplify(build.mul(_without(q, var, -1), common // q.factors[var])))
    interner = analyzer.interner
    equal_keys = {interner.representative(e) for e in lower} & {interner.representative(e) for e in upper}
    equal = list({interner.representative(e): e for e in lower if interner.representative(e) in equal_keys}.values())
    return IntGroupBounds(
        common,
        list({interner.representative(e): e for e in lower if interner.representative(e) not in equal_keys}.values()),
        equal,
        list({interner.representative(e): e for e in upper if interner.representative(e) not in equal_keys}.values()),
    )


def _gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


def _joined(analyzer: Analyzer, var: Var, low: _Inequality, high: _Inequality) -> _Inequality | None:
    """The consequence of two inequalities that does not mention the variable; None when it is certainly true."""
    p, q = -low.factors[var], high.factors[var]
    shared = _gcd(p, q)
    p, q = p // shared, q // shared
    factors: dict[Var, int] = {}
    for other in {*low.factors, *high.factors} - {var}:
        factor = low.factors.get(other, 0) * q + high.factors.get(other, 0) * p
        if factor:
            factors[other] = factor
    base = analyzer.simplify(build.add(build.mul(low.base, q), build.mul(high.base, p)))
    if not factors and isinstance(base, IntImm) and base.value <= 0:
        return None
    return _tightened(_Inequality(factors, base))


def _distinct(analyzer: Analyzer, inequalities: list[_Inequality]) -> list[_Inequality]:
    """Of inequalities with the same factors and constant bases only the tightest."""
    kept: dict[object, _Inequality] = {}
    for one in inequalities:
        base = one.base
        key = (
            frozenset(one.factors.items()),
            None if isinstance(base, IntImm) else analyzer.interner.representative(base),
        )
        have = kept.get(key)
        if have is None or (
            isinstance(base, IntImm) and isinstance(have.base, IntImm) and base.value > have.base.value
        ):
            kept[key] = one
    return list(kept.values())
