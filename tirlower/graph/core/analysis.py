"""Questions to a graph: who uses a value, orders, reachability, dominators, liveness.

Each answer is computed when it is first asked for and kept with the graph, which does not change. Nothing recurses over
nodes; sets of nodes are the bits of Python's integers, of which bit ``n`` stands for ``graph.nodes[n]``.

>>> from tirlower.graph.ops.builder import GraphBuilder
>>> b = GraphBuilder()
>>> x = b.param("x", (4,), "float32")
>>> e = b.op("exp", x)
>>> g = b.finish(b.op("add", e, b.op("sin", e)))
>>> a = analysis(g)
>>> [(n.name, i) for n, i in a.users(e)]
[('sin', 0), ('add', 0)]
>>> a.reaches(g.nodes[0], g.nodes[2]), a.reaches(g.nodes[1], g.nodes[0])
(True, False)
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from tirlower.graph.core.nodes import Graph, GraphNode, Value
from tirlower.graph.errors import GraphError

if TYPE_CHECKING:
    from tirlower.graph.core.effects import Global

__all__ = ["Analysis", "analysis", "bits", "inner_graphs", "order"]

Use: TypeAlias = tuple[GraphNode, int]
"""A node, and which of its operands is meant."""


def analysis(graph: Graph) -> Analysis:
    """What is known of a graph: the same object each time."""
    known = graph.analysis
    if isinstance(known, Analysis):
        return known
    graph.analysis = made = Analysis(graph)
    return made


def bits(several: int) -> list[int]:
    """The places of the bits that are set, lowest first.

    >>> bits(0b100101)
    [0, 2, 5]
    """
    # By bytes: taking bits from a long integer one at a time would be quadratic.
    found: list[int] = []
    for at, byte in enumerate(several.to_bytes((several.bit_length() + 7) // 8, "little")):
        if byte:
            found += [8 * at + n for n in range(8) if byte >> n & 1]
    return found


class Analysis:
    """The answers for one graph (:func:`analysis`)."""

    def __init__(self, graph: Graph) -> None:
        self.nodes = graph.nodes
        self.params = graph.params
        self.results = graph.results

    # Uses

    @cached_property
    def index(self) -> Mapping[GraphNode, int]:
        """The place of each node in the graph's order."""
        return {node: n for n, node in enumerate(self.nodes)}

    @cached_property
    def _users(self) -> Mapping[Value, Sequence[Use]]:
        found: dict[Value, list[Use]] = {}
        for node in self.nodes:
            for at, value in enumerate(node.operands):
                found.setdefault(value, []).append((node, at))
        return found

    def users(self, value: Value) -> Sequence[Use]:
        """The nodes that read a value, in order, each with the number of the operand; results of the graph are no use."""
        return self._users.get(value, ())

    @cached_property
    def _returned(self) -> Mapping[Value, int]:
        return Counter(self.results)

    def is_result(self, value: Value) -> bool:
        """Whether the graph gives a value back."""
        return value in self._returned

    def uses(self, value: Value) -> int:
        """How often a value is used: as an operand, and as a result of the graph."""
        return len(self.users(value)) + self._returned.get(value, 0)

    # What must come before what

    @cached_property
    def before(self) -> Sequence[tuple[int, ...]]:
        """Of each node, by place, the nodes that must come before it: of its operands, and accesses of the same global.

        An access that writes comes after all since the write before it; one that reads comes after that write.
        """
        found: list[tuple[int, ...]] = []
        written: dict[Global, int] = {}
        read: dict[Global, list[int]] = {}
        for n, node in enumerate(self.nodes):
            needed = [self.index[v.node] for v in node.operands if v.node is not None]
            effects = node.effects
            if effects:
                writes = set(node.writes)
                for one in effects:
                    if one in writes:
                        needed += read.pop(one, [])
                        needed += [written[one]] if one in written else []
                        written[one] = n
                    else:
                        needed += [written[one]] if one in written else []
                        read.setdefault(one, []).append(n)
            found.append(tuple(sorted(set(needed))))
        return found

    @cached_property
    def after(self) -> Sequence[tuple[int, ...]]:
        """Of each node, by place, the nodes that must come after it."""
        found: list[list[int]] = [[] for _ in self.nodes]
        for n, several in enumerate(self.before):
            for m in several:
                found[m].append(n)
        return [tuple(several) for several in found]

    # Reachability

    @cached_property
    def ancestors(self) -> Sequence[int]:
        """Of each node, by place, the set of nodes that it depends on, itself included."""
        found: list[int] = []
        for n, several in enumerate(self.before):
            whole = 1 << n
            for m in several:
                whole |= found[m]
            found.append(whole)
        return found

    @cached_property
    def descendants(self) -> Sequence[int]:
        """Of each node, by place, the set of nodes that depend on it, itself included."""
        found = [0] * len(self.nodes)
        for n in reversed(range(len(self.nodes))):
            whole = 1 << n
            for m in self.after[n]:
                whole |= found[m]
            found[n] = whole
        return found

    def reaches(self, a: GraphNode, b: GraphNode) -> bool:
        """Whether ``b`` depends on ``a``, which a node does on itself."""
        x, y = self.index[a], self.index[b]
        return x <= y and bool(self.ancestors[y] >> x & 1)

    def mask(self, nodes: Sequence[GraphNode]) -> int:
        """The set of some nodes."""
        found = 0
        for node in nodes:
            found |= 1 << self.index[node]
        return found

    def is_convex(self, nodes: Sequence[GraphNode]) -> bool:
        """Whether no path leaves some nodes and comes back: they can become one node."""
        inside = self.mask(nodes)
        below = above = 0
        for node in nodes:
            below |= self.descendants[self.index[node]]
            above |= self.ancestors[self.index[node]]
        return not below & above & ~inside

    # Dominators

    @cached_property
    def _post_dominators(self) -> Sequence[int | None]:
        # By Cooper, Harvey and Kennedy, on a graph without cycles: one sweep, from the last node to the first. The exit,
        # behind all results and all nodes that nobody reads, is number `end`.
        end = len(self.nodes)
        parent = [end] * (end + 1)
        depth = [0] * (end + 1)
        for n in reversed(range(end)):
            node = self.nodes[n]
            at: int | None = None
            uses = [self.index[user] for value in node.results for user, _ in self.users(value)]
            if not uses or any(value in self._returned for value in node.results):
                uses.append(end)
            for m in dict.fromkeys(uses):
                if at is None:
                    at = m
                while at != m:
                    if depth[at] >= depth[m]:
                        at = parent[at]
                    else:
                        m = parent[m]
            parent[n] = end if at is None else at
            depth[n] = depth[parent[n]] + 1
        return [None if p == end else p for p in parent[:end]]

    def post_dominator(self, node: GraphNode) -> GraphNode | None:
        """The nearest node behind a node that every path from it to a result goes through; None where there is none."""
        found = self._post_dominators[self.index[node]]
        return None if found is None else self.nodes[found]

    @cached_property
    def _dominators(self) -> Sequence[int | None]:
        # The entry, before all parameters and constants, is number -1: at the end of the lists.
        parent = [-1] * (len(self.nodes) + 1)
        depth = [0] * (len(self.nodes) + 1)
        for n, node in enumerate(self.nodes):
            at: int | None = None
            for m in dict.fromkeys(-1 if v.node is None else self.index[v.node] for v in node.operands):
                if at is None:
                    at = m
                while at != m:
                    if depth[at] >= depth[m]:
                        at = parent[at]
                    else:
                        m = parent[m]
            parent[n] = -1 if at is None else at
            depth[n] = depth[parent[n]] + 1
        return [None if p == -1 else p for p in parent[:-1]]

    def dominator(self, node: GraphNode) -> GraphNode | None:
        """The nearest node before a node that every path to it from parameters and constants goes through, or None."""
        found = self._dominators[self.index[node]]
        return None if found is None else self.nodes[found]

    # Liveness

    @cached_property
    def last_use(self) -> Mapping[Value, int]:
        """Of each value that is used, the place of the node that reads it last; results are read behind all nodes."""
        found: dict[Value, int] = {}
        for n, node in enumerate(self.nodes):
            for value in node.operands:
                found[value] = n
        for value in self.results:
            found[value] = len(self.nodes)
        return found

    @cached_property
    def dying(self) -> Sequence[tuple[Value, ...]]:
        """Of each node, by place, the values that nobody needs behind it, its own results among them."""
        found: list[tuple[Value, ...]] = []
        for n, node in enumerate(self.nodes):
            several = dict.fromkeys((*node.operands, *node.results))
            found.append(tuple(v for v in several if self.last_use.get(v, n) == n))
        return found

    def live_after(self, node: GraphNode) -> tuple[Value, ...]:
        """The values that are made (or given) up to a node and read behind it, in the order in which they are made."""
        place = self.index[node]
        made = [*self.params, *(v for n in self.nodes[: place + 1] for v in n.results)]
        return tuple(v for v in made if self.last_use.get(v, -1) > place)


def order(graph: Graph, priority: Callable[[GraphNode], float] | None = None) -> tuple[GraphNode, ...]:
    """The nodes in an order in which each stands behind what it needs, accesses of one global as they stand.

    Of the nodes that may come next that of the greatest priority does, of equal ones the one that stands first in the
    graph: without a priority this is the order of the graph. Raises :class:`GraphError` where nodes need one another.

    >>> from tirlower.graph.ops.builder import GraphBuilder
    >>> b = GraphBuilder()
    >>> x = b.param("x", (4,), "float32")
    >>> g = b.finish([b.op("exp", x), b.op("tile", x, repeats=(8,))])
    >>> [n.name for n in order(g, lambda node: node.results[0].shape[0])]
    ['tile', 'exp']
    """
    known = analysis(graph)
    waiting = [len(several) for several in known.before]
    weight = [0.0 if priority is None else -priority(node) for node in graph.nodes]
    ready = [(weight[n], n) for n, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    made: list[GraphNode] = []
    while ready:
        _, n = heapq.heappop(ready)
        made.append(graph.nodes[n])
        for m in known.after[n]:
            waiting[m] -= 1
            if not waiting[m]:
                heapq.heappush(ready, (weight[m], m))
    if len(made) != len(graph.nodes):
        first = next(n for n, count in enumerate(waiting) if count)
        raise GraphError(f"the nodes of {graph.name} need one another: {graph.nodes[first]!r} can never come")
    return tuple(made)


def inner_graphs(*graphs: Graph) -> tuple[Graph, ...]:
    """All graphs inside the nodes of some graphs, and inside theirs: each once, and behind those that it holds.

    >>> from tirlower.graph.ops.builder import GraphBuilder
    >>> inner, outer = GraphBuilder("inner"), GraphBuilder("outer")
    >>> g = inner.finish(inner.op("exp", inner.param("x", (4,), "float32")))
    >>> h = outer.finish(outer.call(g, outer.param("x", (4,), "float32")))
    >>> inner_graphs(h)
    (<Graph inner: 1 inputs, 1 operations, 1 results>,)
    """
    outermost = set(graphs)
    found: dict[Graph, None] = {}
    seen: set[Graph] = set()
    stack = [(graph, False) for graph in reversed(graphs)]
    while stack:
        graph, done = stack.pop()
        if done:
            if graph not in outermost:
                found[graph] = None
            continue
        if graph in seen:
            continue
        seen.add(graph)
        stack.append((graph, True))
        stack += [(inner, False) for node in reversed(graph.nodes) for inner in reversed(node.graphs)]
    return tuple(found)
