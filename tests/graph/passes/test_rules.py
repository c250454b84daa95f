"""Each rule by its examples, on every dtype that they are well-formed in, against the reference."""

import dataclasses

import numpy as np
import pytest

import tirlower.graph as tg
from tests.graph.passes.checking import check_graph, parsed, same_graph
from tirlower.graph.core.nodes import Op
from tirlower.graph.core.numerics import Numerics
from tirlower.graph.passes.canonical import RULES
from tirlower.graph.passes.compare import bindings, compare, random_inputs
from tirlower.graph.passes.rules import Rule, apply_rules, rule_table

DTYPES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float64",
)


def with_text(name, text):
    return f"@tg.graph\ndef {name}{text}"


def alone(rule):
    """A pass that applies one rule."""

    def run(graph):
        for _ in range(20):
            before, graph = graph, apply_rules(graph, rule_table([rule], Numerics.FAST))
            if graph is before:
                return graph
        raise AssertionError("the rule never ends")

    return run


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
class TestEachRule:
    def test_its_example_becomes_what_it_says(self, rule):
        check_graph(alone(rule), with_text("f", rule.before), with_text("f", rule.after), numerics=rule.numerics)

    def test_what_it_refuses_stays_as_it_is(self, rule):
        text = with_text("f", rule.refused)
        check_graph(alone(rule), text, text)

    def test_it_is_right_on_every_dtype(self, rule):
        ran = 0
        texts = {
            text.replace(f'"{old}"', f'"{dtype}"'): None  # in their order, and each once: few name all five
            for text in (rule.before, rule.refused)
            for dtype in DTYPES
            for old in ("float32", "int32", "int8", "uint8", "float16")
        }
        for text in texts:
            try:
                graph = parsed(with_text("f", text))
            except tg.GraphError:
                continue
            after = alone(rule)(graph)
            for seed, values in enumerate(bindings(graph)):
                for special in (False, True):
                    inputs = random_inputs(graph, values, seed, special)
                    found = compare(graph, after, rule.numerics, inputs)
                    assert found is None, f"{found.message}\n{graph}\nbecame\n{after}"
                    ran += 1
        assert ran > 3

    def test_it_says_what_it_does_and_admits_what_it_may(self, rule):
        assert rule.doc.strip().endswith(".")
        for policy in Numerics:
            table = rule_table([rule], policy)
            assert bool(table) == (rule.numerics <= policy)


def test_a_rule_of_another_type_or_with_new_assumptions_does_not_apply():
    def wider(site):
        return site.builder.op("cast", site.inputs[0], dtype="float64")

    def assuming(site):
        return site.builder.op("add", site.graph.params[0], site.graph.params[1])

    m, n = tg.dim("M"), tg.dim("N")
    graph = tg.trace(lambda x, y: np.exp(x), tg.spec((m,), "float32"), tg.spec((n,), "float32"))
    for function in (wider, assuming):
        rule = Rule("wrong", ("exp",), function, "", "", "")
        assert apply_rules(graph, rule_table([rule], Numerics.FAST)) is graph


def test_rules_that_undo_one_another_are_an_error():
    def flip(name):
        return lambda site: site.builder.op(name, site.inputs[0])

    rules = [Rule("there", ("exp",), flip("sin"), "", "", ""), Rule("back", ("sin",), flip("exp"), "", "", "")]
    graph = tg.trace(np.exp, tg.spec((2,), "float32"))
    with pytest.raises(tg.GraphError, match="rules on exp undo one another"):
        apply_rules(graph, rule_table(rules, Numerics.EXACT))


def test_a_wrong_rule_would_be_seen():
    good = next(rule for rule in RULES if rule.name == "transpose_of_transpose")

    def wrong(site):
        inner = site.made_by(site.inputs[0], "transpose")
        return (
            None
            if inner is None
            else site.builder.op("transpose", inner.inputs[0], axes=(2, 1, 0)[: len(site.result.shape)])
        )

    with pytest.raises(AssertionError):
        TestEachRule().test_it_is_right_on_every_dtype(
            dataclasses.replace(
                good,
                apply=wrong,
                before=good.before.replace("2, 3, 4", "3, 3, 3")
                .replace("3, 4, 2", "3, 3, 3")
                .replace("2, 4, 3", "3, 3, 3"),
            )
        )


def test_intermediates_and_operations_of_other_origin():
    graph = tg.trace(lambda x: x.reshape(6).reshape(3, 2), tg.spec((2, 3), "float32"))
    after = apply_rules(graph, rule_table(RULES, Numerics.EXACT))
    assert [op.name for op in after.ops] == ["reshape"]
    assert all(isinstance(node, Op) and node.origin for node in after.nodes)
    same_graph(after, after)
