"""Nodes with graphs inside: operands, graphs, effects, other operands and graphs, and what does not fit."""

from __future__ import annotations

import pytest

from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.control import Call, If, While
from tirlower.graph.core.dims import dim
from tirlower.graph.core.effects import Global
from tirlower.graph.core.extents import extent_text
from tirlower.graph.core.nodes import Graph, GraphNode, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.builder import GraphBuilder, rewritten


def unary(name: str, *ops: str, shape: tuple[int, ...] = (4,), store: Global | None = None) -> Graph:
    b = GraphBuilder(name)
    x = b.param("x", shape, "float32")
    for op in ops:
        x = b.op(op, x)
    if store is not None:
        b.store(store, x)
    return b.finish(x)


def truth(name: str = "c") -> Graph:
    b = GraphBuilder(name)
    return b.finish(b.op("any", b.op("less", b.param("x", (4,), "float32"), 1.0)))


def nodes() -> list[tuple[GraphNode, tuple[Value, ...]]]:
    b = GraphBuilder()
    x, c = b.param("x", (4,), "float32"), b.param("c", (), "bool")
    b.call(unary("g", "exp"), x)
    b.if_(c, unary("t", "exp"), unary("e", "sin"), x)
    b.while_(truth(), unary("body", "exp"), x)
    return list(zip(b.nodes, [(x,), (c, x), (x,)], strict=True))


def test_operands_graphs_and_copies() -> None:
    for node, operands in nodes():
        assert node.operands == operands
        fresh = [Value.of(v.type, "y") for v in operands]
        results = [Value.of(v.type, "r") for v in node.results]
        made = node.with_operands(results, fresh)
        assert type(made) is type(node)
        assert list(made.operands) == fresh and list(made.results) == results and made.graphs == node.graphs
        assert all(v.node is made for v in results)
        with pytest.raises(GraphError, match="operands, got"):
            node.with_operands([Value.of(v.type) for v in node.results], [*fresh, fresh[0]])
        assert node.with_graphs(node.graphs) is node
        others = [g.with_(name=f"{g.name}_2") for g in node.graphs]
        made = node.with_graphs(others)
        assert list(made.graphs) == others and made.operands == operands
        assert made.results[0] is not node.results[0]
        with pytest.raises(GraphError, match="graphs inside, got 0"):
            node.with_graphs([])


def test_effects_are_those_of_the_graphs_inside() -> None:
    s = Global("s", (4,), "float32", ConstantData.splat(0.0, (4,), "float32"))
    fixed = Global("f", (4,), "float32", ConstantData.splat(0.0, (4,), "float32"), mutable=False)
    inner = GraphBuilder("inner")
    x = inner.param("x", (4,), "float32")
    reading = inner.finish(inner.op("add", inner.op("add", x, inner.load(s)), inner.load(fixed)))
    assert (reading.effects, reading.writes) == ((s,), ())
    b = GraphBuilder()
    x, c = b.param("x", (4,), "float32"), b.param("c", (), "bool")
    b.if_(c, reading, unary("e", store=s), x)
    b.call(reading, x)
    assert [(n.effects, n.writes) for n in b.nodes] == [((s,), (s,)), ((s,), ())]
    assert b.finish(x).writes == (s,)


def test_rewriting_keeps_every_kind() -> None:
    b = GraphBuilder()
    s = Global("s", (4,), "float32", ConstantData.splat(0.0, (4,), "float32"))
    x, c = b.param("x", (4,), "float32"), b.param("c", (), "bool")
    y = b.op("identity", x)
    (y,) = b.call(unary("g", "exp"), y)
    (y,) = b.if_(c, unary("t", "exp"), unary("e", "sin"), y)
    (y,) = b.while_(truth(), unary("body", "exp"), y)
    b.store(s, y)
    g = b.finish(b.op("add", b.load(s), y))
    assert rewritten(g, lambda *_: None) is g
    made = rewritten(g, lambda _, n, operands: operands if getattr(n, "name", "") == "identity" else None)
    assert [type(n) for n in made.nodes] == [type(n) for n in g.nodes[1:]]
    assert made.nodes[0].operands == (x,)
    for old, new in zip(g.nodes[2:], made.nodes[1:], strict=True):
        # A load reads no value: it stands as it is.
        assert (new is old) is not old.operands and new.graphs == old.graphs


def test_what_does_not_fit() -> None:
    b = GraphBuilder()
    b.origin = "model.py:3"
    N = dim("N", 5)
    x, c, d = b.param("x", (4,), "float32"), b.param("c", (), "bool"), b.param("d", (2,), "bool")
    g, wide = unary("g", "exp"), unary("w", "exp", shape=(5,))
    with pytest.raises(GraphError, match=r"the graph 'w' takes something else for 'x': float32\[5\] and float32\[4\]"):
        b.call(wide, x)
    with pytest.raises(GraphError, match=r"the graph 'g' takes 1 values \(x\), got 2"):
        b.call(g, x, x)
    with pytest.raises(GraphError, match=r"the condition of a choice is a bool without axes, got bool\[2\]"):
        b.if_(d, g, g, x)
    with pytest.raises(GraphError, match=r"result 0 of the two ways of a choice is of two types: .*\[4\] and .*\[8\]"):
        two = GraphBuilder("two")
        p = two.param("x", (4,), "float32")
        b.if_(c, g, two.finish(two.op("tile", p, repeats=(2,))), x)
    with pytest.raises(GraphError, match="the two ways of a choice give 1 and 2 results"):
        two = GraphBuilder("two")
        p = two.param("x", (4,), "float32")
        b.if_(c, g, two.finish([p, p]), x)
    with pytest.raises(
        GraphError, match=r"'x', which a loop carries, changes: float32\[4\] and float32\[8\]"
    ) as caught:
        two = GraphBuilder("two")
        p = two.param("x", (4,), "float32")
        b.while_(truth(), two.finish(two.op("tile", p, repeats=(2,))), x)
    assert "model.py:3" in str(caught.value) and "greatest shape" in str(caught.value)
    with pytest.raises(GraphError, match="the condition of a loop is a bool without axes"):
        b.while_(g, g, x)
    with pytest.raises(GraphError, match=r"float32\[4\] and float32\[N\]"):
        b.env.add(N)
        b.call(g, b.param("n", (N,), "float32"))
    assert b.nodes == []


def test_extents_that_may_be_equal_are_checked_by_the_call() -> None:
    N = dim("N")
    b = GraphBuilder(dims=[N])
    b.call(unary("g", "exp"), b.param("n", (N,), "float32"))
    assert [tuple(map(extent_text, p)) for p in b.env.assumed] == [("4", "N")]


def test_nodes_show_themselves() -> None:
    shown = [repr(n) for n, _ in nodes()]
    assert shown == ["<Call g -> float32[4]>", "<If c -> float32[4]>", "<While body -> float32[4]>"]
    assert [type(n) for n, _ in nodes()] == [Call, If, While]
