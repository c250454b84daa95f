"""The counts of an analyzer's work follow what it does."""

from __future__ import annotations

from tirlower.arith import Analyzer, RewriteSimplifyStats
from tirlower.ir import Add, And, Mul, Range, Var

x, y, z = Var("x"), Var("y"), Var("z")


def counts(analyzer: Analyzer) -> RewriteSimplifyStats:
    return analyzer.rewrite_simplify_stats


def test_nothing_is_counted_before_the_first_question():
    assert counts(Analyzer()) == RewriteSimplifyStats(0, 0, 0, 0, 0, 0)


def test_what_no_rule_changes_is_visited_and_offered_only():
    analyzer = Analyzer()
    analyzer.rewrite_simplify(x * 4 + y)
    found = counts(analyzer)
    assert found.nodes_visited == 2 and found.rewrites_attempted >= 2
    assert found.rewrites_performed == found.num_recursive_rewrites == found.max_recursive_depth == 0


def test_what_is_remembered_is_not_walked_again():
    analyzer = Analyzer()
    expr = Mul(Add(x, 0), 1) + y
    analyzer.rewrite_simplify(expr)
    before = counts(analyzer)
    analyzer.rewrite_simplify(expr)
    assert counts(analyzer) == before and before.rewrites_performed == 2


def test_rewrites_inside_rewrites_are_counted():
    analyzer = Analyzer()
    analyzer.bind(x, Range(0, 8))
    analyzer.bind(y, Range(0, 4))
    assert str(analyzer.rewrite_simplify((x * 4 + y) // 4 - x + (z * 8 + x) % 8 - x)) == "0"
    found = counts(analyzer)
    assert 0 < found.num_recursive_rewrites < found.rewrites_performed <= found.rewrites_attempted
    assert 1 <= found.max_recursive_depth


def test_conditions_are_counted():
    analyzer = Analyzer()
    with analyzer.constraint_scope(And(x > 0, x < 4)):
        assert analyzer.can_prove(x < 5)
    assert counts(analyzer).constraints_entered == 1


def test_a_snapshot_stays_and_a_reset_starts_at_zero():
    analyzer = Analyzer()
    analyzer.rewrite_simplify(Add(x, 0))
    before = counts(analyzer)
    analyzer.rewrite_simplify(Add(y, 0))
    assert before.rewrites_performed == 1 and counts(analyzer).rewrites_performed == 2
    analyzer.reset_rewrite_simplify_stats()
    assert counts(analyzer) == RewriteSimplifyStats()


def test_whether_a_variable_has_bounds():
    analyzer = Analyzer()
    assert not analyzer.const_int_bound_is_bound(x)
    analyzer.bind(x, Range(0, 8))
    assert analyzer.const_int_bound_is_bound(x) and not analyzer.const_int_bound_is_bound(y)
