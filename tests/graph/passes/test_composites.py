"""Composites: what their attributes are called, merging those of one backend, opening them again."""

from __future__ import annotations

import numpy as np

import tirlower.graph as tg
from tirlower.graph.core.control import Call
from tirlower.graph.passes import composites
from tirlower.graph.passes.composites import backend_of, flat_form, inline_calls, mapped
from tirlower.graph.patterns import is_op, wildcard
from tirlower.ir.structural import structural_equal


def test_the_attributes_have_the_names_of_the_field() -> None:
    values = {name: getattr(composites, name) for name in composites.__all__ if name.isupper()}
    assert values == {
        "CODEGEN": "Codegen",
        "COMPOSITE": "Composite",
        "GLOBAL_SYMBOL": "global_symbol",
        "PARTITIONED": "PartitionedFromPattern",
        "PRIMITIVE": "Primitive",
    }


X = tg.spec((4,), "float32")
A = np.linspace(-1, 2, 4, dtype="float32")


def each(*names: str) -> list[tuple[str, object]]:
    """A pattern of one operation for each name ``backend.operation``."""
    return [(name, is_op(name.split(".")[1])(wildcard())) for name in names]


def merged(graph: tg.Graph) -> list[tuple[str, int]]:
    """The backends of the calls of a graph, and how many composites each calls."""
    calls = [n for n in graph.nodes if isinstance(n, Call)]
    return [(str(c.graph.attrs["Codegen"]), len(c.graph.nodes)) for c in calls]


def test_composites_of_one_backend_that_follow_each_other_become_one_graph() -> None:
    g = tg.trace(lambda x: tg.tanh(tg.sin(tg.relu(tg.exp(x)))), X)
    parted = tg.partition(g, each("a.exp", "a.relu", "b.sin", "a.tanh"))
    made = tg.passes.MergeCompositeFunctions()(parted)
    assert merged(made) == [("a", 2), ("b", 1), ("a", 1)]
    symbols = [n.graph.attrs["global_symbol"] for n in made.nodes]
    assert len(set(symbols)) == 3 and [n.graph.name for n in made.nodes] == symbols
    assert tg.passes.MergeCompositeFunctions()(made) is made
    np.testing.assert_array_equal(tg.interpret(inline_calls(made), A), tg.interpret(g, A))


def test_no_path_leaves_a_merged_graph_and_comes_back() -> None:
    """exp and add are of one backend, with another's sin between them on one of two paths."""
    g = tg.trace(lambda x: (lambda e: tg.relu(e) + tg.sin(e))(tg.exp(x)), X)
    patterns = [*each("a.exp", "a.relu", "b.sin"), ("a.add", is_op("add")(wildcard(), wildcard()))]
    made = tg.passes.MergeCompositeFunctions()(tg.partition(g, patterns))
    assert sorted(merged(made)) == [("a", 1), ("a", 2), ("b", 1)]
    alone = tg.passes.MergeCompositeFunctions()(tg.partition(g, [p for p in patterns if p[0] != "b.sin"]))
    assert [type(n).__name__ for n in alone.nodes] == ["Call", "Op", "Call"]  # nor through a node of nobody
    for one in (made, alone):
        np.testing.assert_array_equal(tg.interpret(inline_calls(one), A), tg.interpret(g, A))


def test_a_graph_without_composites_stays() -> None:
    g = tg.trace(lambda x: tg.exp(x), X)
    assert tg.passes.MergeCompositeFunctions()(g) is g and inline_calls(g) is g


def test_some_calls_are_opened_and_others_stay() -> None:
    g = tg.trace(lambda x: tg.relu(tg.exp(x)), X)
    parted = tg.partition(g, each("a.exp", "b.relu"))
    opened = inline_calls(parted, lambda graph: backend_of(graph) == "b")
    assert [type(n).__name__ for n in opened.nodes] == ["Call", "Op"]
    assert backend_of(g) is None
    twice = tg.partition(g, each("a.exp", "b.relu"), annotate_codegen=True)
    assert [op.name for op in inline_calls(twice).ops] == ["exp", "relu"]


def test_changes_go_into_graphs_inside_and_not_into_composites() -> None:
    inner = tg.trace(lambda x: tg.exp(x), X)
    b = tg.GraphBuilder()
    x, p = b.param("x", (4,), "float32"), b.param("p", (), "bool")
    (chosen,) = b.if_(p, inner, inner.with_attr("Composite", "a.exp"), x)
    g = b.finish(chosen)
    met = []
    assert mapped(g, lambda one: met.append(one) or one) is g
    assert met == [inner, g]
    marked = mapped(g, lambda one: one.with_attr("seen", 1))
    first, second = marked.nodes[0].graphs
    assert first.attrs == {"seen": 1} and second.attrs == {"Composite": "a.exp"} and marked.attrs == {"seen": 1}


def test_graphs_have_one_flat_form_exactly_if_they_are_equal():
    """Against structural equality, on pairs that differ in one thing each."""
    b, c = tg.dim("B", 1, 8), tg.dim("C", 1, 8)
    functions = [lambda x, y: x + y, lambda x, y: y + x, lambda x, y: x * y, lambda x, y: (x + y, x), lambda x, y: (x,)]
    functions += [
        lambda x, y: x.sum(axis=0) + 0 * y.sum(axis=0),
        lambda x, y: tg.softmax(x, axis=0),
        lambda x, y: x + x,
    ]
    functions += [lambda x, y: tg.softmax(x, axis=1), lambda x, y: tg.softmax(x, axis=-1), lambda x, y: {"a": x + y}]
    arrays = [np.zeros(3, "float32"), np.array([0, 0, -0.0], "float32"), np.array([0, 0, 1], "float32")]
    functions += [lambda x, y, c=c: x * c for c in (1, 2, 0.0, -0.0, *arrays)]
    specs = [
        tg.spec(s, d) for s, d in (((2, 3), "float32"), ((2, 3), "float64"), ((b, 3), "float32"), ((c, 3), "float32"))
    ]
    several = [tg.trace(f, x, x) for f in functions for x in specs]
    several += [several[0].with_attr("Composite", "a.b"), several[0].with_attr("Composite", "a.c")]
    plain = [g for g in several if flat_form(g) is not None]
    chosen = tg.trace(lambda x: tg.cond((x > 0).all(), lambda: x, lambda: x + 1), specs[0])
    assert len(plain) > 60 and flat_form(chosen) is None
    equal = 0
    for g in plain:
        for h in plain:
            same = structural_equal(g, h) and [d.var for d in g.dims] == [d.var for d in h.dims]
            assert (flat_form(g) == flat_form(h)) == same, f"{g}\n{h}"
            equal += same
    assert equal >= len(plain)
