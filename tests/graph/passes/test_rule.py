"""What a rule is made of: graphs, functions, classes; and what it is called."""

from __future__ import annotations

import pytest

import tirlower.graph as tg
from tirlower.graph.core.numerics import Numerics
from tirlower.graph.errors import GraphError
from tirlower.graph.passes.rewrite import rewrite
from tirlower.graph.passes.rule import DFPatternCallback, Rule, rule_of
from tirlower.graph.patterns import is_op, wildcard

X = tg.spec((4,), "float32")


def test_rules_have_names_for_messages() -> None:
    def squared(match: object, builder: object) -> None: ...

    assert rule_of((is_op("exp"), squared)).name == "squared"
    before, after = tg.trace(lambda x: x + x, X), tg.trace(lambda x: x * 2, X)
    assert rule_of((before, after)).name == "main -> main"

    class Doubled(DFPatternCallback):
        pattern = is_op("add")

    made = rule_of(Doubled(rewrite_once=True))
    assert made.name == "Doubled" and made.once and made.numerics is Numerics.EXACT
    assert rule_of(made) is made


def test_the_right_graph_may_have_constants_groups_and_parameters_that_are_left_out() -> None:
    before = tg.trace(lambda x, y: tg.maximum(tg.minimum(x, 1.0), y), X, X)
    after = tg.trace(lambda x, y: tg.concat(tg.clip(x, None, 1.0), y, axis=0)[:4], X, X)
    g = tg.trace(lambda x, y: tg.maximum(tg.minimum(x, 1.0), y), X, X)
    made = rewrite(g, (before, after))
    assert [op.name for op in made.ops] == ["clip", "concat", "slice"]
    assert made.ops[0].groups == (-1, None, -1)


def test_a_right_graph_that_is_not_defined_on_the_operands_does_not_apply() -> None:
    before = tg.trace(lambda x, y: tg.add(x, y), X, X)
    after = tg.trace(lambda x, y: tg.matmul(x, y) + x, X, X)
    g = tg.trace(lambda x, y: tg.add(x, y), tg.spec((2, 3), "float32"), tg.spec((2, 3), "float32"))
    assert rewrite(g, (before, after)) is g


def test_a_rule_without_a_class_method_says_so() -> None:
    class Nothing(DFPatternCallback):
        pattern = is_op("add")(wildcard(), wildcard())

    with pytest.raises(GraphError, match=r"Nothing says not what stands for a match(.|\n)*define callback\("):
        rewrite(tg.trace(lambda x: x + x, X), Nothing())


def test_the_left_graph_has_one_result() -> None:
    two = tg.trace(lambda x: (x + x, x * x), X)
    with pytest.raises(GraphError, match="give one result"):
        rule_of((two, two))
    assert isinstance(rule_of((tg.trace(lambda x: x * x, X), tg.trace(lambda x: x, X))), Rule)
