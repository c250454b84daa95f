"""Which dims a part of a graph names: a graph inside another has those, and no others."""

from __future__ import annotations

from collections.abc import Iterable

from tirlower.graph.core.effects import Extern, KernelCall
from tirlower.graph.core.nodes import Graph, GraphNode, Op, Value
from tirlower.ir import Expr, IntImm, Var
from tirlower.ir.query import each

__all__ = ["of_named_dims", "variables"]


def variables(
    params: Iterable[Value], nodes: Iterable[GraphNode], assumed: Iterable[tuple[Expr, Expr]] = ()
) -> set[Var]:
    """The variables in types, attributes, graphs inside, kernels, and what is assumed."""
    extents: dict[Expr, None] = {}
    stack: list[object] = [*(v.extents for v in params), *assumed]
    found: set[Var] = set()
    for node in nodes:
        stack += [v.extents for v in node.results]
        stack += node.attrs.values() if isinstance(node, Op) else ()
        if isinstance(node, KernelCall):
            stack += [node.numbers, *([node.kernel.numbers] if isinstance(node.kernel, Extern) else [])]
        found |= {one.var for inner in node.graphs for one in inner.dims}
    while stack:
        item = stack.pop()
        if isinstance(item, tuple):
            stack += item
        elif isinstance(item, Expr) and not isinstance(item, IntImm):
            extents[item] = None
    return found | set(each(Var, *extents))


def of_named_dims(graph: Graph) -> Graph:
    """The graph without the dims that nothing in it names: the same object where all are named.

    >>> from tirlower.graph.core.dims import dim
    >>> from tirlower.graph.ops.builder import GraphBuilder
    >>> b = GraphBuilder("f", (dim("B"),))
    >>> g = b.finish(b.param("x", (2,), "float32"))
    >>> len(g.dims), len(of_named_dims(g).dims)
    (1, 0)
    """
    if not graph.dims:
        return graph
    named = variables(graph.params, graph.nodes, graph.assumed)
    kept = tuple(one for one in graph.dims if one.var in named)
    return graph if len(kept) == len(graph.dims) else graph.with_(dims=kept)
