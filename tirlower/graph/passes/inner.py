"""Passes inside the graphs that nodes hold: each inner graph is rewritten once, before the nodes that hold it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tirlower.graph.core.analysis import inner_graphs
from tirlower.graph.core.nodes import Graph, GraphNode, Value

__all__ = ["everywhere", "with_inner"]


def everywhere(graph: Graph, transform: Callable[[Graph], Graph]) -> Graph:
    """A graph rewritten, and the graphs inside its nodes first; composites (attribute ``Composite``) are left as matched.

    >>> from tirlower.graph.ops.builder import GraphBuilder
    >>> inner, outer = GraphBuilder("inner"), GraphBuilder("outer")
    >>> f = inner.finish(inner.op("exp", inner.param("x", (4,), "float32")))
    >>> g = outer.finish(outer.call(f, outer.param("x", (4,), "float32")))
    >>> everywhere(g, lambda graph: graph.with_attr("seen", 1)).nodes[0].graphs[0].attrs
    {'seen': 1}
    """
    done: dict[Graph, Graph] = {}
    for inner in inner_graphs(graph):
        done[inner] = inner if "Composite" in inner.attrs else transform(with_inner(inner, done))
    return transform(with_inner(graph, done))


def with_inner(graph: Graph, done: Mapping[Graph, Graph]) -> Graph:
    """A graph whose nodes hold other graphs; the same object where none does."""
    if all(done.get(inner, inner) is inner for node in graph.nodes for inner in node.graphs):
        return graph
    new: dict[Value, Value] = {}
    nodes: list[GraphNode] = []
    for node in graph.nodes:
        made = node.with_graphs([done.get(inner, inner) for inner in node.graphs])
        operands = tuple(new.get(v, v) for v in node.operands)
        if any(a is not b for a, b in zip(operands, node.operands, strict=True)):
            made = made.with_operands([Value.of(v.type, v.name) for v in node.results], operands)
        new.update((a, b) for a, b in zip(node.results, made.results, strict=True) if a is not b)
        nodes.append(made)
    return graph.with_(nodes=tuple(nodes), results=tuple(new.get(v, v) for v in graph.results))
