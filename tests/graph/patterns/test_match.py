"""The matcher: it misses nothing, remembers what it found out, stops with an error, and uses no stack of Python's."""

from __future__ import annotations

import pytest

import tirlower.graph as tg
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.patterns import DFPattern, dominates, is_op, is_tuple, is_var, wildcard
from tirlower.graph.patterns.match import Matcher

X = tg.spec((4, 4), "float32")


def chain(name: str, count: int) -> tg.Graph:
    b = GraphBuilder()
    value = b.param("x", (4,), "float32")
    for _ in range(count):
        value = b.op(name, value)
    return b.finish(value)


def test_a_match_has_nodes_in_order_and_inputs_in_order_of_use() -> None:
    g = tg.trace(lambda x, w, b: tg.relu(x @ w + b), X, X, tg.spec((4,), "float32"))
    x, w, b = wildcard(), wildcard(), wildcard()
    product = is_op("matmul")(x, w)
    root = is_op("relu")(is_op("add")(b, product))
    found = root.match(g.results[0])
    assert found is not None
    assert [n.name for n in found.nodes] == ["matmul", "add", "relu"]
    assert [v.name for v in found.inputs] == ["x", "w", "b"]
    assert found[b].name == "b" and found[product] is found.nodes[0].results[0] and found[root] is g.results[0]


def test_what_was_not_taken_stands_for_nothing() -> None:
    g = tg.trace(lambda x: tg.exp(x), X)
    relu, exp = is_op("relu")(wildcard()), is_op("exp")(wildcard())
    found = (relu | exp).match(g.results[0])
    assert found is not None and exp in found and relu not in found
    with pytest.raises(GraphError, match="stands for nothing"):
        found[relu]


def test_a_group_is_several_values() -> None:
    g = tg.trace(lambda x, y: tg.concat(x, y), X, X)
    fields = is_tuple(None)
    found = is_op("concat")(fields).match(g.results[0])
    assert found is not None and found.group(fields) == g.params and found.inputs == g.params
    with pytest.raises(GraphError, match="stands for 2 values"):
        found[fields]


def test_a_wildcard_alone_takes_no_node() -> None:
    g = tg.trace(lambda x: tg.exp(x), X)
    found = wildcard().match(g.results[0])
    assert found is not None and found.nodes == () and found.inputs == g.results


def test_alternatives_inside_operands_are_retried() -> None:
    """The first arm fits an operand, but only the second leaves the shared object one value."""
    g = tg.trace(lambda x, y: tg.add(tg.multiply(x, y), x), X, X)
    a, b = wildcard(), wildcard()
    product = is_op("multiply")(a, b) | is_op("multiply")(b, a)
    found = is_op("subtract")(product, b).match(g.results[0])
    assert found is None
    found = is_op("add")(product, b).match(g.results[0])
    assert found is not None and found[b].name == "x" and found[a].name == "y"


def test_swapped_operands_are_retried_at_every_level() -> None:
    g = tg.trace(lambda x, y, z: tg.add(tg.multiply(tg.add(x, y), z), y), X, X, X)
    x, y, z = is_var("x"), wildcard(), wildcard()
    found = is_op("add")(y, is_op("multiply")(z, is_op("add")(y, x))).match(g.results[0])
    assert found is not None and (found[y].name, found[z].name) == ("y", "z")


def test_all_ways_are_found_and_none_twice() -> None:
    g = tg.trace(lambda x, y: (tg.add(x, y), tg.add(x, x)), X, X)
    a, b = wildcard(), wildcard()
    ways = [(m[a].name, m[b].name) for m in is_op("add")(a, b).matches(g.results[0])]
    assert ways == [("x", "y"), ("y", "x")]
    assert len(list(is_op("add")(a, b).matches(g.results[1]))) == 1
    three = tg.trace(lambda x, y, z: tg.concat(x, y, z), X, X, X)
    fields = [wildcard(), wildcard(), wildcard()]
    found = list(is_op("concat")(is_tuple(fields, unordered=True)).matches(three.results[0]))
    assert len({tuple(m[f].name for f in fields) for m in found}) == len(found) == 6


def test_diamonds_are_told_from_parallel_arms() -> None:
    g = tg.trace(lambda x: (tg.exp(tg.relu(x)) + tg.sin(tg.relu(x)),), X)
    one = tg.trace(lambda x: (lambda r: (tg.exp(r) + tg.sin(r),))(tg.relu(x)), X)
    relu = is_op("relu")(wildcard())
    diamond = is_op("add")(is_op("exp")(relu), is_op("sin")(relu))
    arms = is_op("add")(is_op("exp")(is_op("relu")(wildcard())), is_op("sin")(is_op("relu")(wildcard())))
    assert diamond.match(one.results[0]) and arms.match(one.results[0])
    assert not diamond.match(g.results[0]) and arms.match(g.results[0])


def test_what_does_not_fit_is_found_out_once() -> None:
    """Without memory, 2 ** 40 ways: each level has both operands in both orders."""
    b = GraphBuilder()
    x = b.param("x", (4,), "float32")
    left, right = b.op("exp", x), b.op("sin", x)
    for _ in range(40):
        left, right = b.op("add", left, right), b.op("add", right, left)
    g = b.finish(left)

    def pattern(depth: int) -> DFPattern:
        below: DFPattern = is_op("cos")(wildcard())
        for _ in range(depth):
            below = is_op("add")(below, wildcard())
        return below

    assert pattern(40).match(g.results[0]) is None


def test_too_many_steps_are_an_error() -> None:
    """Which of 12 equal operands is which: all parts fit, and no way leaves the two that are shared equal."""
    b = GraphBuilder()
    params = [b.param(f"x{n}", (4,), "float32") for n in range(12)]
    g = b.finish(b.op("add", b.op("concat", *params), b.op("concat", *reversed(params), axis=0)))
    fields = [wildcard() for _ in range(12)]
    pattern = is_op("add")(
        is_op("concat")(is_tuple(fields, unordered=True)), is_op("concat")(is_tuple([fields[0]] * 12))
    )
    with pytest.raises(GraphError, match="given up after 5000 steps"):
        next(Matcher(g, limit=5000).matches(pattern, g.results[0]), None)


def test_closed_nodes_are_never_taken() -> None:
    g = tg.trace(lambda x: tg.exp(tg.relu(x)), X)
    relu = g.nodes[0]
    pattern = is_op("exp")(is_op("relu")(wildcard()))
    assert next(Matcher(g).matches(pattern, g.results[0]), None)
    assert not next(Matcher(g, closed={relu}).matches(pattern, g.results[0]), None)
    assert next(Matcher(g, closed={relu}).matches(is_op("exp")(wildcard()), g.results[0]), None)


def test_deep_patterns_and_deep_graphs_need_no_stack() -> None:
    count = 20_000
    g = chain("relu", count)
    deep: DFPattern = wildcard()
    for _ in range(count):
        deep = is_op("relu")(deep)
    found = Matcher(g, limit=10 * count)
    match = next(found.matches(deep, g.results[0]), None)
    assert match is not None and match.nodes == g.nodes
    assert deep.dup() is not deep
    over = is_op("relu")(deep)
    assert next(found.matches(over, g.results[0]), None) is None
    assert "wanted relu, found the input `x`" in over.explain(g.results[0])


def test_a_dominator_goes_up_a_long_way() -> None:
    b = GraphBuilder()
    value = b.op("exp", b.param("x", (4,), "float32"))
    for _ in range(20_000):
        value = b.op("relu", value)
    g = b.finish(b.op("sin", value))
    parent = is_op("exp")(wildcard())
    pattern = dominates(parent, is_op("relu"), is_op("sin"))
    match = next(Matcher(g).matches(pattern, g.results[0]), None)
    assert match is not None and len(match.nodes) == 20_002
