"""The canonical form of graphs: rules applied until none does, and the check that no question about shapes is left."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.graph.core.nodes import Graph
from tirlower.graph.core.numerics import Numerics
from tirlower.graph.errors import GraphError
from tirlower.graph.passes.base import GraphPass, policy
from tirlower.graph.passes.rules import Rule, apply_rules, rule_table
from tirlower.graph.passes.rules_algebra import ALGEBRA
from tirlower.graph.passes.rules_noops import NOOPS
from tirlower.graph.passes.rules_shapes import SHAPES
from tirlower.graph.passes.shared_concat import shared_concats
from tirlower.ir import Var
from tirlower.ir.query import each
from tirlower.rewrite.context import PassContext

__all__ = ["RULES", "Canonicalize", "CheckNoShapeQueries"]

RULES: Sequence[Rule] = (*NOOPS.rules, *SHAPES.rules, *ALGEBRA.rules)
"""All rules, in the order in which they are tried."""

_ROUNDS = 100


class Canonicalize(GraphPass):
    """Apply rules until none applies: drop what changes nothing, merge views, and bring algebra into one form.

    Each rule says what it may do to numbers, and runs where the context's ``graph.numerics`` admits it.

    >>> import tirlower.graph as tg
    >>> print(Canonicalize()(tg.parse('''
    ... @tg.graph
    ... def f(x: tg.Tensor((4, 6), "float32")):
    ...     a: tg.Tensor((6, 4), "float32") = tg.transpose(x)
    ...     b: tg.Tensor((4, 6), "float32") = tg.transpose(a)
    ...     c: tg.Tensor((4, 6), "float32") = tg.multiply(1.0, b)
    ...     d: tg.Tensor((24,), "float32") = tg.reshape(c, shape=(24,))
    ...     e: tg.Tensor((2, 12), "float32") = tg.reshape(d, shape=(2, 12))
    ...     return e
    ... ''')))
    @tg.graph
    def f(x: tg.Tensor((4, 6), "float32")):
        reshape: tg.Tensor((2, 12), "float32") = tg.reshape(x, shape=(2, 12))
        return reshape
    """

    name = "graph.Canonicalize"
    reaches = Numerics.FAST

    def transform(self, graph: Graph, ctx: PassContext) -> Graph:
        """The graph in the form that no rule changes. Raises :class:`GraphError` where rules undo one another."""
        table = rule_table(RULES, policy(ctx))
        for _ in range(_ROUNDS):
            before, graph = graph, apply_rules(graph, table)
            graph = shared_concats(graph) if graph is before else graph
            if graph is before:
                return graph
        raise GraphError(
            f"rules undo one another in {graph.name}: it changes after {_ROUNDS} rounds",
            notes=[str(before), str(graph)],
        )


class CheckNoShapeQueries(GraphPass):
    """Check that no extent is left for run time but those that dims say, and leave the graph as it is.

    Raises :class:`GraphError` naming a value whose shape has a variable that is no dim of the graph.

    >>> import tirlower.graph as tg
    >>> g = tg.trace(lambda x: x + 1, tg.spec((tg.dim("B"),), "float32"))
    >>> CheckNoShapeQueries()(g) is g
    True
    >>> CheckNoShapeQueries()(g.with_(dims=()))
    Traceback (most recent call last):
    ...
    tirlower.graph.errors.GraphError: error[graph.CheckNoShapeQueries]: the shape of 'x', (B,), has 'B', which is no dim of main
      = help: make it a dim (tg.dim) of an input's shape
    """

    name = "graph.CheckNoShapeQueries"

    def transform(self, graph: Graph, ctx: PassContext) -> Graph:
        """The graph itself."""
        known = {one.var for one in graph.dims}
        for value in (*graph.params, *(v for n in graph.nodes for v in n.results)):
            for extent in value.extents:
                for var in each(Var, extent):
                    if var not in known:
                        shown = f"({', '.join(map(str, value.shape))}{',' * (len(value.shape) == 1)})"
                        origin = value.node.origin if value.node is not None else ""
                        raise GraphError(
                            f"the shape of {value.name!r}, {shown}, has {var.name!r}, which is no dim of {graph.name}",
                            notes=[f"at {origin}"] if origin else [],
                            help="make it a dim (tg.dim) of an input's shape",
                        )
        return graph
