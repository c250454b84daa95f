"""Dims of graphs inside others: those that they name."""

from __future__ import annotations

from typing import Any

import numpy as np

import tirlower.graph as tg
from tirlower.graph.core.control import If, While
from tirlower.graph.core.named_dims import of_named_dims, variables

B, C = tg.dim("B", 1, 9), tg.dim("C", 2, 9)


def graph_of_two() -> tg.Graph:
    return tg.trace(lambda x, y: (x.reshape(-1), y.sum()), tg.spec((B, 2), "float32"), tg.spec((C,), "float32"))


def test_dims_of_types_attributes_and_assumptions_are_named() -> None:
    graph = graph_of_two()
    assert variables(graph.params[:1], ()) == {B.var}
    assert variables((), graph.nodes[:1]) == {B.var}
    assert variables((), (), ((B * 2, C + 1),)) == {B.var, C.var}
    assert of_named_dims(graph) is graph


def test_what_nothing_names_any_more_goes() -> None:
    graph = graph_of_two()
    part = graph.with_(params=graph.params[1:], nodes=graph.nodes[-1:], results=graph.results[-1:])
    assert [one.name for one in of_named_dims(part).dims] == ["C"]


def test_choices_and_loops_keep_no_dims_that_they_do_not_name() -> None:
    """By construction, whichever pass makes them: their text, which states no dims, is read back as the same graph."""

    def f(x: Any, y: Any, c: Any) -> object:
        chosen = tg.cond(c, lambda: y + 1, lambda: y)
        return tg.while_loop(lambda v: (v < 3).all(), lambda v: v + 1, chosen), x

    graph = tg.trace(f, tg.spec((B, 2), "float32"), tg.spec((C,), "float32"), tg.spec((), "bool"))
    for node in graph.nodes:
        if isinstance(node, If | While):
            wide = [inner.with_(dims=graph.dims) for inner in node.graphs]
            made = node.with_graphs(wide)
            assert [[d.name for d in inner.dims] for inner in made.graphs] == [["C"], ["C"]]
    x, y = np.ones((2, 2), "float32"), np.zeros(4, "float32")
    np.testing.assert_array_equal(tg.compile(graph)(x, y, np.array(True))[0], np.full(4, 3, "float32"))
