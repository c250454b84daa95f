"""Lets of one variable with several values: what is known of one is not taken for the other."""

from __future__ import annotations

import pytest
from evaluate import evaluate

from tirlower.arith import Analyzer
from tirlower.ir import Add, Expr, Let, Range, Select, Var, build, const
from tirlower.ir.structural import structural_equal

x, y, z = Var("x"), Var("y"), Var("z")
BODY = x * 2 + 1
TWICE: dict[str, Expr] = {
    "constants": Add(Let(x, const(5), BODY), Let(x, const(9), BODY)),
    "sums": Add(Let(x, y + 5, BODY), Let(x, y * 3 + 9, BODY)),
    "variables": Add(Let(x, y, BODY), Let(x, z, x * 2 + 1)),
    "nested": Let(x, y + 1, x * x + Let(x, x + 2, x * x)),
    "in the value": Let(x, Let(x, y * 4, x + 1), x * 3),
    "outer ones differ": Add(Let(y, const(1), Let(x, y, BODY)), Let(y, const(2), Let(x, y, BODY))),
    "arms": Select(z > 1, Let(x, y + 1, BODY), Let(x, y + 7, BODY)),
}
POINTS = [{y: a, z: b} for a in range(4) for b in range(4)]


def analyzer() -> Analyzer:
    found = Analyzer()
    found.bind(y, Range(0, 4))
    found.bind(z, Range(0, 4))
    return found


@pytest.mark.parametrize("expr", TWICE.values(), ids=TWICE)
@pytest.mark.parametrize("method", [Analyzer.simplify, Analyzer.rewrite_simplify, Analyzer.canonical_simplify])
def test_each_let_keeps_its_value(method, expr):
    ours = analyzer()
    simple = method(ours, expr)
    for point in POINTS:
        assert evaluate(simple, point) == evaluate(expr, point), (simple, point)
    assert structural_equal(method(ours, expr), simple)


@pytest.mark.parametrize("expr", TWICE.values(), ids=TWICE)
def test_bounds_moduli_and_sets_hold_at_every_point(expr):
    ours = analyzer()
    bound, modular = ours.const_int_bound(expr), ours.modular_set(expr)
    span = analyzer().int_set(expr)
    for point in POINTS:
        value = evaluate(expr, point)
        assert bound.min_value <= value <= bound.max_value
        assert (value - modular.base) % modular.coeff == 0 if modular.coeff else value == modular.base
        assert evaluate(span.min_value, {}) <= value <= evaluate(span.max_value, {})


def test_a_let_whose_variable_has_a_range_already_is_bounded_by_its_value():
    ours = Analyzer()
    ours.bind(x, Range(0, 4))
    assert ours.const_int_bound(Let(x, const(20), BODY)) == Analyzer().const_int_bound(const(41))
    assert ours.const_int_bound(x).max_value == 3


def test_a_set_knows_the_free_variable_from_the_one_of_the_let():
    span = Analyzer().int_set(Add(y, Let(y, z + 1, y * 2)), {z: Range(0, 4), y: Range(0, 2)})
    assert (evaluate(span.min_value, {}), evaluate(span.max_value, {})) == (2, 9)


def test_a_let_without_another_keeps_its_variable():
    expr = Let(x, y + 5, x * x)
    assert Analyzer().simplify(expr) is expr


def test_a_let_whose_body_is_a_constant_is_the_constant_unless_its_value_has_an_effect():
    assert analyzer().can_prove(Let(x, y + 1, x < 5)) and not analyzer().can_prove(Let(x, y + 2, x < 5))
    with analyzer().constraint_scope(y < 2) as ours:
        assert ours.can_prove(Let(x, y * 3, x < 4))
    called = Let(x, build.call("tir.call_extern", "f", dtype="int32"), x - x)
    for method in (Analyzer.simplify, Analyzer.rewrite_simplify, Analyzer.canonical_simplify):
        assert isinstance(method(Analyzer(), called), Let)
