"""Nodes with graphs inside: a call, a choice, a loop.

A graph inside a node closes over nothing: each value that it reads is a parameter. Its dims are those of the graph around.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from tirlower.graph.core.named_dims import of_named_dims
from tirlower.graph.core.nodes import Graph, GraphNode, Value
from tirlower.ir.node import child, node

__all__ = ["Call", "If", "While"]


@node
class Call(GraphNode):
    """A graph called on values: a composite, or a function that several places share."""

    node_name = "graph.Call"
    graph: Graph = child()
    inputs: tuple[Value, ...] = child(convert=tuple)

    @property
    def operands(self) -> tuple[Value, ...]:
        """The values that it reads."""
        return self.inputs

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The graph that is called."""
        return (self.graph,)

    def with_operands(self, results: Sequence[Value], operands: Sequence[Value]) -> Self:
        """A call of the same graph on other values."""
        self._count(operands, len(self.inputs))
        return self.with_(results=tuple(results), inputs=tuple(operands))

    def _with_graphs(self, results: Sequence[Value], graphs: Sequence[Graph]) -> Self:
        return self.with_(results=tuple(results), graph=graphs[0])

    def __repr__(self) -> str:
        return f"<Call {self.graph.name} -> {self._shown()}>"


@node
class If(GraphNode):
    """One of two graphs, by a condition that is a bool without axes; both take ``inputs`` and give the same types."""

    node_name = "graph.If"
    condition: Value = child()
    then_graph: Graph = child(convert=of_named_dims)
    else_graph: Graph = child(convert=of_named_dims)
    inputs: tuple[Value, ...] = child(convert=tuple)

    @property
    def operands(self) -> tuple[Value, ...]:
        """The condition, and what the graphs take."""
        return (self.condition, *self.inputs)

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """What is computed where the condition holds, and where it does not."""
        return (self.then_graph, self.else_graph)

    def with_operands(self, results: Sequence[Value], operands: Sequence[Value]) -> Self:
        """The same choice on other values."""
        self._count(operands, len(self.inputs) + 1)
        return self.with_(results=tuple(results), condition=operands[0], inputs=tuple(operands[1:]))

    def _with_graphs(self, results: Sequence[Value], graphs: Sequence[Graph]) -> Self:
        return self.with_(results=tuple(results), then_graph=graphs[0], else_graph=graphs[1])

    def __repr__(self) -> str:
        return f"<If {self.condition.name} -> {self._shown()}>"


@node
class While(GraphNode):
    """A loop: as long as ``condition`` of the carried values gives true, ``body`` makes the next ones of them.

    ``inputs`` are the first carried values; the results are the last ones, of the same types.
    """

    node_name = "graph.While"
    condition: Graph = child(convert=of_named_dims)
    body: Graph = child(convert=of_named_dims)
    inputs: tuple[Value, ...] = child(convert=tuple)

    @property
    def operands(self) -> tuple[Value, ...]:
        """The first carried values."""
        return self.inputs

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The condition and the body."""
        return (self.condition, self.body)

    def with_operands(self, results: Sequence[Value], operands: Sequence[Value]) -> Self:
        """The same loop from other values on."""
        self._count(operands, len(self.inputs))
        return self.with_(results=tuple(results), inputs=tuple(operands))

    def _with_graphs(self, results: Sequence[Value], graphs: Sequence[Graph]) -> Self:
        return self.with_(results=tuple(results), condition=graphs[0], body=graphs[1])

    def __repr__(self) -> str:
        return f"<While {self.body.name} -> {self._shown()}>"
