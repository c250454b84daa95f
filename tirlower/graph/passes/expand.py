"""Opening macros: each becomes the graph of operations that its definition makes."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.graph.core.nodes import Graph, GraphNode, Op, Value
from tirlower.graph.ops.builder import GraphBuilder, rewritten
from tirlower.graph.ops.registry import definition
from tirlower.graph.passes.base import GraphPass
from tirlower.rewrite.context import PassContext

__all__ = ["Expand", "expand"]


class Expand(GraphPass):
    """Open macros: each becomes the operations of which it is made.

    >>> import tirlower.graph as tg
    >>> print(Expand()(tg.parse('''
    ... @tg.graph
    ... def halves(x: tg.Tensor((4, 8), "float32")):
    ...     low: tg.Tensor((2, 8), "float32")
    ...     high: tg.Tensor((2, 8), "float32")
    ...     low, high = tg.split(x, parts=2)
    ...     return high
    ... ''')))
    @tg.graph
    def halves(x: tg.Tensor((4, 8), "float32")):
        slice: tg.Tensor((2, 8), "float32") = tg.slice(x, starts=(0,), ends=(2,), axes=(0,))
        slice_1: tg.Tensor((2, 8), "float32") = tg.slice(x, starts=(2,), ends=(4,), axes=(0,))
        return slice_1
    """

    name = "graph.Expand"

    def transform(self, graph: Graph, ctx: PassContext) -> Graph:
        """The graph without macros."""
        return expand(graph)


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
