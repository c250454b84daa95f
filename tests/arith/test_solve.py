"""Linear systems over the integers, against enumeration."""

from __future__ import annotations

import itertools
import random

import pytest
from evaluate import evaluate, show

from tirlower.arith import solve_linear_equations, solve_linear_inequalities
from tirlower.arith.solve import smith_normal_form
from tirlower.diagnostics import TirError
from tirlower.ir import EQ, IntImm, Range, Var, build

x, y, z = (Var(name) for name in "xyz")
n = Var("n")


def _multiply(a, b):
    return [[sum(p * q for p, q in zip(row, column, strict=True)) for column in zip(*b, strict=True)] for row in a]


def test_smith_normal_form():
    rng = random.Random(3)
    for _ in range(200):
        rows, columns = rng.randint(1, 4), rng.randint(1, 4)
        a = [[rng.randint(-6, 6) for _ in range(columns)] for _ in range(rows)]
        u, d, v = smith_normal_form(a)
        assert _multiply(_multiply(u, a), v) == d
        diagonal = [d[t][t] for t in range(min(rows, columns))]
        assert all(d[p][q] == 0 for p in range(rows) for q in range(columns) if p != q)
        assert all(t >= 0 for t in diagonal)
        for first, second in itertools.pairwise(diagonal):
            assert second == 0 or (first != 0 and second % first == 0)


def _equation(row, right):
    total = IntImm("int32", 0)
    for factor, var in zip(row, (x, y, z), strict=False):
        total = build.add(total, build.mul(var, factor))
    return EQ(build.as_expr(total), IntImm("int32", right))


def test_all_solutions_and_no_others():
    rng = random.Random(5)
    box = range(-5, 6)
    for case in range(60):
        count = rng.choice((1, 1, 2))
        rows = [[rng.randint(-4, 4) for _ in range(3)] for _ in range(count)]
        rights = [rng.randint(-6, 6) for _ in range(count)]
        equations = [_equation(row, right) for row, right in zip(rows, rights, strict=True)]
        found = solve_linear_equations(equations, [x, y, z])
        true = {
            p
            for p in itertools.product(box, box, box)
            if all(sum(f * v for f, v in zip(row, p, strict=True)) == r for row, r in zip(rows, rights, strict=True))
        }
        empty = any(isinstance(r, IntImm) and not r.value for r in found.dst.relations)
        assert not (empty and true), (case, rows, rights)
        for point in true:
            env = dict(zip((x, y, z), point, strict=True))
            inner = {v: evaluate(e, env) for v, e in found.dst_to_src.items()}
            for var, value in env.items():
                assert evaluate(found.src_to_dst[var], inner) == value, (case, rows, rights, point)
        if not empty:
            for values in itertools.product((-2, 0, 3), repeat=len(found.dst.variables)):
                inner = dict(zip(found.dst.variables, values, strict=True))
                point = [evaluate(found.src_to_dst[v], inner) for v in (x, y, z)]
                for row, right in zip(rows, rights, strict=True):
                    assert sum(f * v for f, v in zip(row, point, strict=True)) == right, (case, rows, rights)


def test_symbolic_right_sides_and_ranges():
    found = solve_linear_equations([EQ(x + y, n)], [x, y], {x: Range(0, 10)})
    env = {found.dst.variables[0]: 3, n: 8}
    assert evaluate(found.src_to_dst[x], env) + evaluate(found.src_to_dst[y], env) == 8
    assert found.dst.ranges or found.dst.relations
    assert show(found.dst_to_src[found.dst.variables[0]])


def test_a_system_without_solution():
    found = solve_linear_equations([EQ(x * 2, IntImm("int32", 7))], [x])
    assert [r.value for r in found.dst.relations] == [0]


def test_conditions_that_are_no_equations_are_carried_along():
    found = solve_linear_equations([EQ(x, y * 2), build.lt(x, 10)], [x, y])
    (relation,) = found.dst.relations
    (free,) = found.dst.variables
    for value in range(-20, 20):
        y_value = evaluate(found.src_to_dst[y], {free: value})
        assert evaluate(relation, {free: value}) == (y_value * 2 < 10)


def test_inequalities_bound_each_variable_by_those_after_it():
    rng = random.Random(11)
    box = range(-6, 7)
    for case in range(40):
        conditions = []
        for _ in range(rng.choice((2, 3, 4))):
            p, q, r = rng.randint(-3, 3), rng.randint(-3, 3), rng.randint(-6, 6)
            conditions.append(build.le(x * p + y * q, r))
        conditions = [e for e in conditions if not isinstance(e, IntImm)]
        found = solve_linear_inequalities(conditions, [x, y], {x: Range(-6, 13), y: Range(-6, 13)})
        for p, q in itertools.product(box, box):
            env = {x: p, y: q}
            if not all(evaluate(e, env) for e in conditions):
                continue
            for var, value in ((x, p), (y, q)):
                group = found.bounds[var]
                for low in (*group.lower, *group.equal):
                    assert evaluate(low, env) <= group.coef * value, (case, [show(e) for e in conditions], env)
                for high in (*group.upper, *group.equal):
                    assert group.coef * value <= evaluate(high, env), (case, [show(e) for e in conditions], env)
            assert all(evaluate(r, env) for r in found.relations)


def test_triangular_bounds():
    found = solve_linear_inequalities([x + y < 10, x >= y, y >= 2], [x, y])
    assert [show(e) for e in found.bounds[x].lower] == ["y"]
    assert [show(e) for e in found.bounds[x].upper] == ["(9 - y)"]
    assert ([e.value for e in found.bounds[y].lower], [e.value for e in found.bounds[y].upper]) == ([2], [4])
    equal = solve_linear_inequalities([build.eq(x, y + 1)], [x, y])
    assert [show(e) for e in equal.bounds[x].equal] == ["(y + 1)"]


def test_deskewed_variables_begin_at_zero_and_stand_for_the_same_points():
    rng = random.Random(5)
    box = range(-5, 6)
    ranged = 0
    for case in range(60):
        conditions = []
        for _ in range(rng.choice((1, 2, 3))):
            p, q, r = rng.randint(-3, 3), rng.randint(-3, 3), rng.randint(-6, 6)
            kind = rng.choice((build.le, build.lt, build.ge, build.eq))
            conditions.append(kind(x * p + y * q, r))
        conditions = [e for e in conditions if not isinstance(e, IntImm)]
        found = solve_linear_inequalities(conditions, [x, y], {x: Range(-5, 11), y: Range(-5, 11)}, deskew_range=True)
        points = {(p, q) for p, q in itertools.product(box, box) if all(evaluate(e, {x: p, y: q}) for e in conditions)}
        seen = set()
        extents = []
        for var in found.dst.variables:
            dom = found.dst.ranges[var]
            assert dom.min.value == 0
            extents.append(range(dom.extent.value) if isinstance(dom.extent, IntImm) else range(12))
        for values in itertools.product(*extents):
            env = dict(zip(found.dst.variables, values, strict=True))
            if all(evaluate(r, env) for r in found.dst.relations):
                seen.add(tuple(evaluate(found.src_to_dst[var], env) for var in (x, y)))
        assert seen == points, (case, [show(e) for e in conditions])
        ranged += all(isinstance(dom.extent, IntImm) for dom in found.dst.ranges.values())
        for p, q in points:
            env = {var: evaluate(value, {x: p, y: q}) for var, value in found.dst_to_src.items()}
            assert (p, q) == tuple(evaluate(found.src_to_dst[var], env) for var in (x, y))
    assert ranged == 60


def test_without_bounds_a_variable_stays():
    found = solve_linear_inequalities([x >= y], deskew_range=True)
    assert found.src_to_dst == {x: x, y: y} and not found.dst.ranges and len(found.dst.relations) == 1
    assert (
        solve_linear_inequalities([build.lt(x, 3), build.lt(3, x)], [x], deskew_range=True).dst.relations[0].value == 0
    )


def test_too_many_inequalities_are_refused():
    many = [build.le(x * p + Var(f"v{p}"), 3) for p in range(1, 30)]
    many += [build.le(x * -p + Var(f"w{p}"), 3) for p in range(1, 30)]
    with pytest.raises(TirError, match="inequalities"):
        solve_linear_inequalities(many, [x])


def test_equations_are_solved_for_the_variables_that_they_have():
    x, y = Var("x"), Var("y")
    solved = solve_linear_equations([(x + y).equal(20), (x - y).equal(10)])
    assert {var.name: value.value for var, value in solved.src_to_dst.items()} == {"x": 15, "y": 5}
    assert solve_linear_equations(x.equal(3)).src_to_dst[x].value == 3
