"""Graphs without what only watches them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tirlower.graph.core.debug import Assert, Print
from tirlower.graph.core.nodes import Graph, GraphNode, Value
from tirlower.graph.ops.builder import GraphBuilder, rewritten
from tirlower.graph.passes.base import GraphPass
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.options import option

__all__ = ["StripDebug"]


class StripDebug(GraphPass):
    """Drop assertions and prints, in graphs inside nodes too.

    What was computed for them alone is left to :class:`DCE`. What checks the inputs of a call stays: the shapes, the
    ranges of dims, the extents that are assumed to be equal.

    >>> import tirlower.graph as tg
    >>> print(StripDebug()(tg.parse('''
    ... @tg.graph
    ... def f(x: tg.Tensor((4,), "float32"), ready: tg.Tensor((), "bool")):
    ...     tg.assert_(ready, "it is ready")
    ...     y: tg.Tensor((4,), "float32") = tg.exp(x)
    ...     tg.print_(y, "exp of x")
    ...     return y
    ... ''')))
    @tg.graph
    def f(x: tg.Tensor((4,), "float32"), ready: tg.Tensor((), "bool")):
        y: tg.Tensor((4,), "float32") = tg.exp(x)
        return y
    """

    name = "graph.StripDebug"
    keeps_debug: ClassVar[bool] = False
    asserts: bool = option(default=True, about="whether assertions are dropped")
    prints: bool = option(default=True, about="whether prints are dropped")

    def transform(self, graph: Graph, ctx: PassContext) -> Graph:
        """The graph without them."""
        gone = (*((Assert,) if self.asserts else ()), *((Print,) if self.prints else ()))

        def visit(builder: GraphBuilder, node: GraphNode, operands: tuple[Value, ...]) -> Sequence[Value] | None:
            return () if isinstance(node, gone) else None

        return rewritten(graph, visit)
