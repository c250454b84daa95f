"""An analyzer to which data wraps: errors of divisions stay, ends of intervals are no arithmetic that wraps."""

from __future__ import annotations

from tirlower.analysis.data_analyzer import DataAnalyzer
from tirlower.arith import IntervalSet
from tirlower.ir import Var, const, pre_order_visit, structural_equal
from tirlower.script import tir as T


def test_a_division_by_data_that_may_be_zero_stays():
    x, d, n = Var("x", "int32"), Var("d", "int32"), Var("n", "int32")
    analyzer = DataAnalyzer({x, d})
    for whole in (d // d, x % d - x % d, (x // d) * d + x % d, T.Mul(x // d, const(0, "int32")) + x):
        assert "d" in {op.name for op in _variables(analyzer.simplify(whole))}
    assert structural_equal(analyzer.simplify(n // n), const(1, "int32"))
    with analyzer.constraint_scope(d > 0), analyzer.constraint_scope(d < 100):
        assert structural_equal(analyzer.simplify(d // d), const(1, "int32"))
    assert structural_equal(analyzer.simplify(T.if_then_else(x - x > 0, x // d, 3)), const(3, "int32"))


def _variables(expr):
    found = []
    pre_order_visit(expr, lambda op: found.append(op) if isinstance(op, Var) else None)
    return found


def test_an_interval_has_no_end_that_stands_for_arithmetic_that_wraps():
    k, n, i = Var("k"), Var("n"), Var("i")
    analyzer = DataAnalyzer({k})
    assert analyzer.int_set(k * 5).is_everything()
    found = analyzer.int_set(T.max(k * 5, n))
    assert found.min_value is None and found.max_value is None
    half = analyzer.int_set(T.max(k * 5, 0) + i, {i: IntervalSet(n, n + 3)})
    assert half.is_everything()
    assert structural_equal(analyzer.int_set(n + 1).max_value, n + 1)
