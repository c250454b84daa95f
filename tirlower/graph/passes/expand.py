"""Opening macros: each becomes the graph of operations that its definition makes."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.graph.core.nodes import Graph, GraphNode, Op, Value
from tirlower.graph.ops.builder import GraphBuilder, rewritten
from tirlower.graph.ops.registry import definition

__all__ = ["expand"]


def expand(graph: Graph) -> Graph:
    """The graph without macros; the same object if it has none.

    >>> b = GraphBuilder("probabilities")
    >>> g = expand(b.finish(b.op("softmax", b.param("x", (4, 8), "float32"))))
    >>> [op.name for op in g.ops]
    ['max', 'subtract', 'exp', 'sum', 'divide']
    """
    while any(definition(op.name).is_macro for op in graph.ops):  # macros may be made of macros
        graph = rewritten(graph, _opened)
    return graph


def _opened(builder: GraphBuilder, node: GraphNode, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    if not isinstance(node, Op):
        return None
    found = definition(node.name)
    return found.expand(builder, operands, node.groups, node.attrs) if found.is_macro else None
