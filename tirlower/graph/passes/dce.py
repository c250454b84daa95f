"""Dead code: nodes whose results nothing needs, and what else nothing refers to."""

from __future__ import annotations

from tirlower.graph.core.nodes import Graph
from tirlower.graph.passes.base import GraphPass
from tirlower.graph.passes.liveness import live
from tirlower.rewrite.context import PassContext

__all__ = ["DCE"]


class DCE(GraphPass):
    """Drop the nodes whose results nothing needs.

    What is assumed of dims stays: calls are refused as before.

    >>> import tirlower.graph as tg
    >>> print(DCE()(tg.parse('''
    ... @tg.graph
    ... def first(x: tg.Tensor((4,), "float32")):
    ...     y: tg.Tensor((4,), "float32") = tg.exp(x)
    ...     z: tg.Tensor((4,), "float32") = tg.sqrt(y)
    ...     return y
    ... ''')))
    @tg.graph
    def first(x: tg.Tensor((4,), "float32")):
        y: tg.Tensor((4,), "float32") = tg.exp(x)
        return y
    """

    name = "graph.DCE"

    def transform(self, graph: Graph, ctx: PassContext) -> Graph:
        """The graph without them."""
        needed = live(graph.nodes, graph.results)
        return graph if len(needed) == len(graph.nodes) else graph.with_(nodes=needed)
