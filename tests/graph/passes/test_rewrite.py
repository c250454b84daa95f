"""Rewriting: to a fixpoint, alternative by alternative, with an end; everything judged by the interpreter too."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

import tirlower.graph as tg
from tirlower.graph.core.analysis import inner_graphs
from tirlower.graph.core.effects import Global, Store
from tirlower.graph.core.nodes import Graph, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.passes.rewrite import (
    PatternMatchingRewriter,
    rewrite,
    rewrite_bindings,
    rewrite_call,
)
from tirlower.graph.passes.rule import DFPatternCallback, Rule
from tirlower.graph.patterns import DFPattern, PatternContext, is_const, is_op, wildcard
from tirlower.graph.patterns.match import Match

X = tg.spec((4, 4), "float32")
A = np.random.default_rng(0).uniform(0.5, 2, (4, 4)).astype("float32")


def ops(graph: Graph) -> list[str]:
    return [op.name for op in graph.ops]


def same(before: Graph, after: Graph, *arrays: np.ndarray) -> None:
    """Both compute the same, and the second is whole."""
    tg.verify(after)
    want, got = tg.interpret(before, *arrays), tg.interpret(after, *arrays)
    for a, b in zip(
        want if isinstance(want, tuple) else (want,), got if isinstance(got, tuple) else (got,), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def exp_of_log() -> Rule:
    x = wildcard()
    return Rule(is_op("exp")(is_op("log")(x)), lambda m, b: m[x], "exp_of_log")


def test_what_matches_is_replaced_and_what_is_unused_goes() -> None:
    g = tg.trace(lambda x: tg.exp(tg.log(x)) + 1, X)
    after = rewrite(g, exp_of_log())
    assert ops(after) == ["add"]
    same(g, after, A)


def test_where_nothing_matches_the_graph_stays_the_same_object() -> None:
    g = tg.trace(lambda x: tg.log(tg.exp(x)), X)
    assert rewrite(g, [exp_of_log()]) is g and rewrite(g, []) is g


def test_a_second_time_changes_nothing() -> None:
    g = tg.trace(lambda x: tg.exp(tg.log(tg.exp(tg.log(x)))) + tg.exp(tg.log(x)), X)
    after = rewrite(g, exp_of_log())
    assert rewrite(after, exp_of_log()) is after and ops(after) == ["add"]


def test_what_is_used_elsewhere_stays() -> None:
    g = tg.trace(lambda x: (lambda l: (tg.exp(l), l))(tg.log(x)), X)
    after = rewrite(g, exp_of_log())
    assert ops(after) == ["log"] and after.results[0] is after.params[0]


def test_what_a_rule_makes_is_rewritten_too() -> None:
    """negative is pushed to the front past any number of multiplications, and there meets another."""
    x, y = wildcard(), wildcard()
    push = Rule(
        is_op("negative")(is_op("multiply")(x, y)),
        lambda m, b: b.op("multiply", b.op("negative", m[x]), m[y]),
        "push",
    )
    z = wildcard()
    cancel = Rule(is_op("negative")(is_op("negative")(z)), lambda m, b: m[z], "cancel")
    g = tg.trace(lambda x: tg.negative(tg.negative(x) * x * x), X)
    after = rewrite(g, [cancel, push])
    assert ops(after) == ["multiply", "multiply"]
    same(g, after, A)


def test_none_and_the_value_itself_mean_the_next_way() -> None:
    x, y = wildcard(), wildcard()
    pattern = is_op("multiply")(x, y)
    for refusal in (lambda m: None, lambda m: m.value):
        seen = []

        def only_if_first_is_log(m: Match, b: GraphBuilder) -> Value | None:
            seen.append(m[x].name)  # noqa: B023
            if m[x].node is None or m[x].node.name != "log":
                return refusal(m)  # noqa: B023
            return b.op("add", m[y], m[y])

        g = tg.trace(lambda x: tg.multiply(x, tg.log(x)), X)
        assert ops(rewrite(g, (pattern, only_if_first_is_log))) == ["add"]
        assert seen == ["x", "log"]


def test_constants_of_a_way_that_was_refused_do_not_get_lost() -> None:
    two = np.full((4, 4), 2, "float32")
    x = wildcard()

    def rule(m: Match, b: GraphBuilder) -> Value | None:
        made = b.op("multiply", m[x], two)
        return made if m[x].node is None else None

    g = tg.trace(lambda x: (tg.exp(tg.log(x)), tg.exp(x)), X)
    after = rewrite(g, (is_op("exp")(x), rule))
    assert ops(after) == ["log", "exp", "multiply"]
    assert np.array_equal(tg.interpret(after, A)[1], A * 2)


def test_rules_are_tried_in_order() -> None:
    x = wildcard()
    to_sin = (is_op("exp")(x), lambda m, b: b.op("sin", m[x]))
    to_cos = (is_op("exp")(x), lambda m, b: b.op("cos", m[x]))
    g = tg.trace(lambda x: tg.exp(x), X)
    assert ops(rewrite(g, [to_sin, to_cos])) == ["sin"] and ops(rewrite(g, [to_cos, to_sin])) == ["cos"]


def test_a_rule_of_two_graphs_holds_for_all_shapes() -> None:
    before = tg.trace(lambda x, y: tg.multiply(x, y) + tg.multiply(x, x), X, X)
    after = tg.trace(lambda x, y: tg.multiply(x, y + x), X, X)
    b = tg.dim("B", 1, 8)
    g = tg.trace(lambda x, y: tg.exp(tg.multiply(y, y) + tg.multiply(y, x)), *[tg.spec((b, 3), "float64")] * 2)
    made = rewrite(g, (before, after))
    assert ops(made) == ["add", "multiply", "exp"]
    arrays = np.random.default_rng(1).standard_normal((2, 5, 3))
    same(g, made, *arrays)


def test_a_rule_of_two_graphs_compares_attributes_and_numbers() -> None:
    before = tg.trace(lambda x: tg.sum(x * 2.0, axis=0), X)
    after = tg.trace(lambda x: tg.sum(x, axis=0) * 2.0, X)
    good = tg.trace(lambda x: tg.sum(x * 2.0, axis=0), X)
    for other in (lambda x: tg.sum(x * 2.0, axis=1), lambda x: tg.sum(x * 3.0, axis=0)):
        g = tg.trace(other, X)
        assert rewrite(g, (before, after)) is g
    made = rewrite(good, (before, after))
    assert ops(made) == ["sum", "multiply"]
    same(good, made, A)


def test_a_rule_of_two_graphs_that_gives_another_type_does_not_apply() -> None:
    before = tg.trace(lambda x, y: tg.add(x, y) - y, X, X)
    after = tg.trace(lambda x, y: x, X, X)
    g = tg.trace(
        lambda x, y: tg.add(x, y) - y, tg.spec((4,), "float32"), X
    )  # x is spread: the result is greater than x
    assert rewrite(g, (before, after)) is g
    assert ops(rewrite(before, (before, after))) == []


def test_functions_that_give_another_type_are_wrong() -> None:
    g = tg.trace(lambda x: tg.exp(x), X)
    with pytest.raises(GraphError, match=r"float32\[4\] in the place of exp at `exp`, which is float32\[4, 4\]"):
        rewrite(g, (is_op("exp"), lambda m, b: b.op("sum", m.value.node.operands[0], axis=0)))


def test_a_circle_of_rules_is_said_with_its_last_two_forms() -> None:
    x, y = wildcard(), wildcard()
    swap = Rule(
        is_op("subtract")(x, y), lambda m, b: b.op("negative", b.op("add", b.op("negative", m[x]), m[y])), "open"
    )
    z = wildcard()
    back = Rule(is_op("add")(is_op("negative")(z), y), lambda m, b: b.op("subtract", m[y], m[z]), "close")
    g = tg.trace(lambda x, y: x - y, X, X)
    with pytest.raises(GraphError, match=r"in a circle: 7 rewrites of one value by (open, close|close, open)") as error:
        rewrite(g, [swap, back], max_iter=7)
    first, second = error.value.notes
    assert "subtract(" in first + second and "negative(" in first + second


def test_a_rule_that_wraps_its_value_comes_to_no_end_unless_it_is_applied_once() -> None:
    def wrap(m: Match, b: GraphBuilder) -> Value:
        return b.op("relu", m.value)

    g = tg.trace(lambda x: tg.exp(tg.exp(x)), X)
    with pytest.raises(GraphError, match="still rewritten after 100 rounds by wrap"):
        rewrite(g, (is_op("exp")(wildcard()), wrap))
    once = rewrite(g, Rule(is_op("exp")(wildcard()), wrap, once=True))
    assert ops(once) == ["exp", "relu", "exp", "relu"]


def test_a_result_of_several_is_replaced_alone() -> None:
    g = tg.trace(lambda x: (lambda a, b: tg.concat(a, b))(*tg.split(x, parts=(2, 2))), X)
    x = wildcard()
    after = rewrite(g, (is_op("split")(x)[1], lambda m, b: b.op("slice", m[x], starts=(2,), ends=(4,), axes=(0,))))
    assert ops(after) == ["split", "slice", "concat"]
    same(g, after, A)

    def both(m: Match, b: GraphBuilder) -> list[Value]:
        return [b.op("slice", m[x], starts=(n,), ends=(n + 2,), axes=(0,)) for n in (0, 2)]

    after = rewrite(g, (is_op("split")(x), both))
    assert ops(after) == ["slice", "slice", "concat"]
    same(g, after, A)


def test_graphs_inside_nodes_are_rewritten_and_composites_are_not() -> None:
    inner = tg.trace(lambda x: tg.exp(tg.log(x)), X)
    composite = inner.with_attr("Composite", "test.exp")
    b = GraphBuilder("outer")
    x, p = b.param("x", (4, 4), "float32"), b.param("p", (), "bool")
    (a,) = b.call(inner, x)
    (c,) = b.call(composite, a)
    (d,) = b.if_(p, inner, tg.trace(lambda x: tg.sin(x), X), c)
    g = b.finish(d)
    after = rewrite(g, exp_of_log())
    called = inner_graphs(after)
    assert sorted(len(h.ops) for h in called) == [0, 1, 2]
    assert composite in called and inner not in called


def test_accesses_of_states_stay_in_order() -> None:
    state = Global("s", (4, 4), "float32", tg.ConstantData(A))
    b = GraphBuilder()
    x = b.param("x", (4, 4), "float32")
    before = b.load(state)
    b.store(state, b.op("exp", b.op("log", x)))
    after = b.load(state)
    g = b.finish([before, after])
    made = rewrite(g, exp_of_log())
    assert [type(n).__name__ for n in made.nodes] == ["Load", "Store", "Load"]
    assert isinstance(made.nodes[1], Store) and made.nodes[1].inputs == made.params


def test_a_long_chain_is_rewritten_in_one_go() -> None:
    b = GraphBuilder()
    value = b.param("x", (4,), "float32")
    for _ in range(5_000):
        value = b.op("exp", b.op("log", value))
    g = b.finish(value)
    assert ops(rewrite(g, exp_of_log())) == []


def test_a_rewriter_composes() -> None:
    x = wildcard()
    one = PatternMatchingRewriter.from_pattern(is_op("exp")(is_op("log")(x)), lambda m, b: m[x])
    two = PatternMatchingRewriter.from_graphs(tg.trace(lambda x: x * x, X), tg.trace(lambda x: tg.square(x), X))
    g = tg.trace(lambda x: tg.exp(tg.log(x * x)), X)
    assert ops((one | two)(g)) == ["square"] and ops(one(g)) == ["multiply"]
    assert one(tg.trace(lambda x: x * x, X)).ops


def test_a_callback_is_a_rule() -> None:
    class Twice(DFPatternCallback):
        def __init__(self, **options: bool) -> None:
            super().__init__(**options)
            self.x = wildcard()
            self.pattern = is_op("add")(self.x, self.x)

        def callback(self, value: Value, match: Match, builder: GraphBuilder) -> Value:
            assert value is match.value
            return builder.op("multiply", match[self.x], 2.0)

    g = tg.trace(lambda x: (x + x) + (x + x), X)
    after = rewrite(g, Twice(require_type=True))
    assert ops(after) == ["multiply", "multiply", "add"]  # the two sums are two values
    same(g, after, A)

    class Deeper(Twice):
        def callback(self, value: Value, match: Match, builder: GraphBuilder) -> Value:
            return builder.op("add", builder.op("exp", match[self.x]), builder.op("exp", match[self.x]))

    h = tg.trace(lambda x: tg.add(x, x), X)
    assert ops(rewrite(h, Deeper(rewrite_once=True))) == ["exp", "exp", "add"]


def test_rewrite_call_gives_the_value_the_match_and_a_builder() -> None:
    x = wildcard()
    g = tg.trace(lambda x: tg.exp(x), X)

    def rewriter(value: Value, match: Match, builder: GraphBuilder) -> Value:
        return value if match[x].node is None else builder.op("sin", match[x])

    assert rewrite_call(is_op("exp")(x), rewriter, g) is g
    assert ops(rewrite_call(is_op("exp")(x), rewriter, tg.trace(lambda x: tg.exp(tg.log(x)), X))) == ["log", "sin"]


def merged_products() -> tuple[
    PatternContext, Callable[[Mapping[DFPattern, Value], GraphBuilder], Mapping[Value, Value]]
]:
    """Two products of one left operand become one, whose columns are theirs."""
    with PatternContext() as context:
        x, first, second = wildcard(), is_const(), is_const()
        a, b = is_op("matmul")(x, first), is_op("matmul")(x, second)
        first ^ a
        second ^ b

    def merge(found: Mapping[DFPattern, Value], builder: GraphBuilder) -> Mapping[Value, Value]:
        both = builder.op("concat", found[first], found[second], axis=1)
        whole = builder.op("matmul", found[a].node.operands[0], both)
        width = found[first].shape[1]
        left = builder.op("slice", whole, starts=(0,), ends=(width,), axes=(1,))
        right = builder.op("slice", whole, starts=(width,), ends=(2 * width,), axes=(1,))
        return {found[a]: left, found[b]: right}

    return context, merge


def test_bindings_are_rewritten_together() -> None:
    w, v = A, A + 1
    g = tg.trace(lambda x: tg.exp(x @ w) + x @ v, X)
    after = rewrite_bindings(*merged_products(), g)
    assert sorted(ops(after)) == ["add", "concat", "exp", "matmul", "slice", "slice"]
    same(g, after, A)
    same(g, rewrite_bindings(*merged_products(), after), A)


def test_bindings_that_are_left_alone_end_the_search() -> None:
    context, _ = merged_products()
    g = tg.trace(lambda x: x @ A + x @ (A + 1), X)
    calls = []
    assert rewrite_bindings(context, lambda found, b: calls.append(found) or {}, g) is g
    assert len(calls) == 2  # either product may be the first


def test_bindings_that_depend_on_themselves_are_refused() -> None:
    with PatternContext() as context:
        relu, exp = is_op("relu"), is_op("exp")
        relu ^ exp
    g = tg.trace(lambda x: tg.exp(tg.relu(x)), X)
    with pytest.raises(GraphError, match="would depend on itself"):
        rewrite_bindings(context, lambda found, b: {found[relu]: b.op("sin", found[exp])}, g)


def test_bindings_without_an_end_are_said() -> None:
    with PatternContext() as context:
        relu, exp = is_op("relu"), is_op("exp")
        relu ^ exp
    g = tg.trace(lambda x: tg.exp(tg.relu(x)), X)
    with pytest.raises(GraphError, match="still rewritten after 5 replacements") as error:
        rewrite_bindings(context, lambda f, b: {f[exp]: b.op("exp", b.op("relu", f[relu]))}, g, max_iter=5)
    assert str(error.value).count("@tg.graph") == 2


@pytest.mark.parametrize("given", [3, (1, 2), ("add", lambda m, b: None), (is_op("add"), 3)])
def test_what_is_no_rule_is_said(given: object) -> None:
    with pytest.raises(GraphError, match="no rule"):
        rewrite(tg.trace(lambda x: x + 1, X), [given])  # type: ignore[list-item]
    one = tg.trace(lambda x: x + 1, X)
    with pytest.raises(GraphError, match="take the same inputs"):
        rewrite(one, (one, tg.trace(lambda x, y: x + y, X, X)))
