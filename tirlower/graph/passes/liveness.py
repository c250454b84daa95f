"""Which nodes a graph's results need, or write globals."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.graph.core.nodes import GraphNode, Value

__all__ = ["live"]


def live(nodes: Sequence[GraphNode], results: Sequence[Value]) -> tuple[GraphNode, ...]:
    """The nodes that some results need, and those that write globals, in their order.

    >>> import tirlower.graph as tg
    >>> g = tg.trace(lambda x: (x + 1, x * x), tg.spec((4,), "float32"))
    >>> [node.name for node in live(g.nodes, g.results[1:])]
    ['multiply']
    """
    needed = set(results)
    kept: list[GraphNode] = []
    for node in reversed(nodes):
        if node.writes or any(value in needed for value in node.results):
            kept.append(node)
            needed.update(node.operands)
    return tuple(reversed(kept))
