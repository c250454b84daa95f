"""Contexts: edges between patterns, one value each, incremental ones, and searches of whole graphs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tirlower.graph as tg
from tirlower.graph.errors import GraphError
from tirlower.graph.patterns import PatternContext, is_const, is_op, wildcard

X = tg.spec((4, 4), "float32")


def test_used_by_and_only_used_by_differ_at_a_second_reader() -> None:
    one = tg.trace(lambda x: tg.exp(tg.relu(x)), X)
    two = tg.trace(lambda x: (lambda r: (tg.exp(r), tg.sin(r)))(tg.relu(x)), X)
    result = tg.trace(lambda x: (lambda r: (tg.exp(r), r))(tg.relu(x)), X)
    with PatternContext() as some:
        _ = is_op("relu") ^ is_op("exp")
    with PatternContext() as only:
        _ = is_op("relu") >> is_op("exp")
    assert all(some.match_dfb(g) for g in (one, two, result))
    assert [bool(only.match_dfb(g)) for g in (one, two, result)] == [True, False, False]


def test_the_operand_may_have_a_number() -> None:
    g = tg.trace(lambda x: tg.subtract(x, tg.relu(x)), X)
    for index, found in [(-1, True), (0, False), (1, True), (2, False)]:
        with PatternContext() as context:
            is_op("relu").used_by(is_op("subtract"), index)
        assert bool(context.match_dfb(g)) == found


def test_different_patterns_have_different_values() -> None:
    one = tg.trace(lambda x: tg.exp(tg.relu(x)), X)
    with PatternContext() as context:
        exp = is_op("exp")
        first, second = is_op("relu"), is_op("relu")
        first ^ exp
        second ^ exp
    assert context.match_dfb(one) is None
    two = tg.trace(lambda x: tg.concat(tg.relu(x), tg.relu(x)), X)
    with PatternContext() as context:
        both = is_op("concat")
        first, second = is_op("relu"), is_op("relu")
        first >> both
        second >> both
    found = context.match_dfb(two)
    assert found is not None and found[first] is not found[second]


def test_a_diamond_and_two_arms() -> None:
    diamond = tg.trace(lambda x: (lambda r: tg.exp(r) + tg.sin(r))(tg.relu(x)), X)
    arms = tg.trace(lambda x: tg.exp(tg.relu(x)) + tg.sin(tg.relu(x)), X)
    with PatternContext() as context:
        relu, exp, sin, add = is_op("relu"), is_op("exp"), is_op("sin"), is_op("add")
        relu.fork_to(exp, sin)
        exp >> add
        sin >> add
    assert context.match_dfb(diamond) is not None
    assert context.match_dfb(arms) is None


def test_sequences_join_at_their_ends() -> None:
    g = tg.trace(lambda x: tg.sin(tg.exp(tg.relu(x))), X)
    with PatternContext() as context:
        sequence = is_op("relu") >> is_op("exp") >> is_op("sin")
    assert [p.wanted for p in sequence.patterns] == ["relu", "exp", "sin"]
    found = context.match_dfb(g)
    assert found is not None and [v.node.name for v in found.values()] == ["relu", "exp", "sin"]
    with PatternContext() as context:
        (is_op("relu") ^ is_op("exp")) ^ (is_op("sin") ^ is_op("cos"))
    assert [(e.source.wanted, e.target.wanted) for e in context.edges] == [
        ("relu", "exp"),
        ("sin", "cos"),
        ("exp", "sin"),
    ]
    assert context.match_dfb(g) is None


def test_a_copy_of_a_sequence_has_its_edges() -> None:
    two = tg.trace(lambda x, y: (tg.exp(tg.relu(x)), tg.exp(tg.relu(y))), X, X)
    with PatternContext() as context:
        first = is_op("relu") >> is_op("exp")
        second = first.dup()
    found = context.match_dfb(two)
    assert found is not None and len(set(found.values())) == 4
    assert found[second.patterns[0]] in found[second.patterns[1]].node.operands


def test_an_incremental_context_adds_to_the_one_around_it() -> None:
    g = tg.trace(lambda x: (tg.exp(tg.relu(x)), tg.sin(tg.exp(tg.relu(x)))), X)
    with PatternContext() as outer:
        exp = is_op("exp")
        is_op("relu") >> exp
        with PatternContext(incremental=True) as inner:
            exp >> is_op("sin")
            found = inner.match_dfb(g)
            assert found is not None and found[exp] is g.results[1].node.operands[0]
        assert len(outer.edges) == 1 and len(inner.edges) == 2
        assert outer.match_dfb(g) is not None
    with pytest.raises(GraphError, match="inside another one"), PatternContext(incremental=True):
        pass


def test_values_have_one_shape() -> None:
    same = tg.trace(lambda x, y: tg.add(tg.relu(x), tg.exp(y)), X, X)
    other = tg.trace(lambda x, y: tg.add(tg.relu(x), tg.exp(y)), X, tg.spec((4,), "float32"))
    with PatternContext() as context:
        relu, exp, add = is_op("relu"), is_op("exp"), is_op("add")
        relu >> add
        exp >> add
        relu.same_shape_as(exp)
    assert context.match_dfb(same) and not context.match_dfb(other)


def test_parts_of_trees_are_shared_between_patterns() -> None:
    """One wildcard in two trees of a context: the products read one tensor."""
    w = np.eye(4, dtype="float32")
    shared = tg.trace(lambda x: tg.concat(x @ w, x @ (w + 1)), X)
    apart = tg.trace(lambda x, y: tg.concat(x @ w, y @ (w + 1)), X, X)
    with PatternContext() as context:
        x = wildcard()
        first, second, cat = is_op("matmul")(x, is_const()), is_op("matmul")(x, is_const()), is_op("concat")
        first >> cat
        second >> cat
    assert context.match_dfb(shared) is not None
    assert context.match_dfb(apart) is None


def test_results_of_a_node_are_followed() -> None:
    g = tg.trace(lambda x: (lambda a, b: tg.concat(tg.exp(b), a))(*tg.split(x, parts=(2, 2))), X)
    with PatternContext() as context:
        split, exp = is_op("split"), is_op("exp")
        split ^ exp
    found = context.match_dfb(g)
    assert found is not None and found[split].node.name == "split"
    with PatternContext() as only:
        is_op("split") >> is_op("exp")
    assert only.match_dfb(g) is None  # its other result is read by concat


def test_hints_choose_among_several() -> None:
    g = tg.trace(lambda x, y: (tg.exp(tg.relu(x)), tg.exp(tg.relu(y))), X, X)
    second = g.results[1]
    with PatternContext() as context:
        relu, exp = is_op("relu"), is_op("exp")
        relu >> exp
    first = context.match_dfb(g)
    assert first is not None and first[exp] is g.results[0]
    hinted = context.match_dfb(g, start_hint=second, must_include_hint=True)
    assert hinted is not None and hinted[exp] is second
    assert context.match_dfb(g, start_hint=g.params[0], must_include_hint=True) is None
    assert len(list(context.matches(g))) == 2


def test_a_context_without_constraints_is_said() -> None:
    g = tg.trace(lambda x: tg.exp(x), X)
    with PatternContext() as context:
        is_op("exp")
    with pytest.raises(GraphError, match="no constraints"):
        context.match_dfb(g)


def every_way(g: tg.Graph, names: list[str], edges: list[tuple[int, int, bool]]) -> set[tuple[int, ...]]:
    """Each assignment of different values for which all edges hold, tried one by one."""
    made = [v for n in g.nodes for v in n.results]
    named = sorted({n for e in edges for n in e[:2]})
    ways = set()
    for chosen in itertools.permutations(made, len(named)):
        pick = dict(zip(named, chosen, strict=True))
        good = all(pick[i].node.name == names[i] for i in named)
        for i, j, only in edges:
            reads = pick[j].node.operands
            others = [n for n in g.nodes if pick[i] in n.operands and n is not pick[j].node]
            good = good and pick[i] in reads and not (only and (others or pick[i] in g.results))
        if good:
            ways.add(tuple(id(v) for v in chosen))
    return ways


def test_searches_agree_with_trying_all_values() -> None:
    """Random edges over random small graphs."""
    rng = np.random.default_rng(0)
    found_some = 0
    for _ in range(300):
        b = tg.GraphBuilder()
        values = [b.param("x", (4,), "float32")]
        for _ in range(5):
            picked = [values[i] for i in rng.integers(0, len(values), 2)]
            values.append(b.op("add", *picked) if rng.random() < 0.6 else b.op("relu", picked[0]))
        g = b.finish(values[-1])
        edges: list[tuple[int, int, bool]] = []
        names = [["add", "relu"][i] for i in rng.integers(0, 2, 3)]
        with PatternContext() as context:
            patterns = [is_op(n) for n in names]
            for _ in range(2):
                i, j = (int(n) for n in rng.choice(3, 2, replace=False))
                edges.append((i, j, bool(rng.random() < 0.4)))
                patterns[i].only_used_by(patterns[j]) if edges[-1][2] else patterns[i].used_by(patterns[j])
        ways = every_way(g, names, edges)
        named = sorted({n for e in edges for n in e[:2]})
        got = [tuple(id(m[patterns[i]]) for i in named) for m in context.matches(g)]
        assert set(got) == ways and len(got) == len(ways)
        found_some += bool(ways)
    assert found_some > 20
