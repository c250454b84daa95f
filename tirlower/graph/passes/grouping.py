"""Groups of nodes that become calls: which may be grouped without a cycle, and the graph in which they are.

A group stands for one node. Grouping nodes makes a cycle where a path leaves them and comes back, also through the nodes of
other groups: those are one node already.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tirlower.graph.core.analysis import analysis
from tirlower.graph.core.control import Call
from tirlower.graph.core.named_dims import of_named_dims
from tirlower.graph.core.nodes import Const, Graph, GraphNode, Op, Value

__all__ = ["Grouping", "Outlined", "outline", "results_of"]


@dataclass(frozen=True)
class Outlined:
    """Nodes as a graph of their own, and the values that it is called on and that it gives."""

    graph: Graph
    inputs: tuple[Value, ...]
    results: tuple[Value, ...]


class Grouping:
    """Disjoint groups of the nodes of a graph, each by the numbers of its members in the graph's order."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        known = analysis(graph)
        self.before, self.after = known.before, known.after
        self.owner: list[int | None] = [None] * len(graph.nodes)
        self.members: dict[int, frozenset[int]] = {}
        self._count = 0
        self._reach = _PrefixMax(len(graph.nodes))
        """How far groups reach that begin at a place or before it."""

    def add(self, members: frozenset[int]) -> int:
        """A new group."""
        made = self._count
        self._count += 1
        self.members[made] = members
        for n in members:
            self.owner[n] = made
        self._reach.put(min(members), max(members))
        return made

    def remove(self, group: int) -> None:
        """Take a group apart."""
        for n in self.members.pop(group):
            self.owner[n] = None

    def overlapping(self, members: frozenset[int]) -> list[int]:
        """The groups that have some of these nodes."""
        found = dict.fromkeys(self.owner[n] for n in sorted(members))
        return [group for group in found if group is not None]

    def way_back(self, members: frozenset[int]) -> Sequence[int] | None:
        """A path that leaves some nodes and comes back to them, groups taken as one node; None where there is none."""
        end = max(members)
        while (further := self._reach.most(end)) > end:
            end = further
        # No group reaches over `end`: behind it nothing leads back.
        came: dict[int, int] = {}
        queue = sorted(members)
        entered = set(members)
        for n in queue:
            for m in self.after[n]:
                if m in members:
                    if n not in members:
                        return self._path(came, n, m)
                    continue
                if m in entered or m > end:
                    continue
                group = self.owner[m]
                whole = (m,) if group is None else sorted(self.members[group] - members)
                for one in whole:
                    if one not in entered:
                        entered.add(one)
                        came[one] = n if one == m else m
                        queue.append(one)
        return None

    def _path(self, came: Mapping[int, int], last: int, target: int) -> Sequence[int]:
        path = [target, last]
        while path[-1] in came:
            path.append(came[path[-1]])
        return path[::-1]

    def outlined(
        self,
        made: Callable[[int, Outlined], Graph],
        embedded: Callable[[int, Const], bool] = lambda group, constant: True,
    ) -> Graph:
        """The graph with a call in the place of each group, in an order that keeps that of all else.

        ``made`` gives the graph that is called for a group; ``embedded`` says whether a constant stands inside it.
        """
        graph = self.graph
        new: dict[Value, Value] = {}
        nodes: list[GraphNode] = []
        for n in self._order():
            group = self.owner[n]
            node = graph.nodes[n]
            if group is None:
                operands = [new.get(v, v) for v in node.operands]
                if any(a is not b for a, b in zip(operands, node.operands, strict=True)):
                    node = node.with_operands([Value.of(v.type, v.name) for v in node.results], operands)
                    new.update(zip(graph.nodes[n].results, node.results, strict=True))
                nodes.append(node)
                continue
            inside = [graph.nodes[m] for m in sorted(self.members[group])]
            results = results_of(graph, self.members[group])
            part = outline(graph, inside, results, partial(embedded, group))
            called = made(group, part)
            fresh = [Value.of(v.type, v.name) for v in part.results]
            given = tuple(new.get(v, v) for v in part.inputs)
            call = Call(tuple(fresh), called, given, origin=inside[-1].origin)
            new.update(zip(part.results, fresh, strict=True))
            nodes.append(call)
        final = tuple(new.get(v, v) for v in graph.results)
        return graph.with_(nodes=_read(graph, nodes, final), results=final)

    def _order(self) -> Sequence[int]:
        """One node of each group, its last, and all others, in an order in which they can run."""
        head = [n if g is None else max(self.members[g]) for n, g in enumerate(self.owner)]
        waiting: dict[int, set[int]] = {n: set() for n in head}
        following: dict[int, list[int]] = {n: [] for n in head}
        for n, several in enumerate(self.before):
            for m in several:
                if head[m] != head[n] and head[m] not in waiting[head[n]]:
                    waiting[head[n]].add(head[m])
                    following[head[m]].append(head[n])
        ready = [n for n, needed in waiting.items() if not needed]
        heapq.heapify(ready)
        order: list[int] = []
        while ready:
            n = heapq.heappop(ready)
            order.append(n)
            for m in following[n]:
                waiting[m].discard(n)
                if not waiting[m]:
                    heapq.heappush(ready, m)
        assert len(order) == len(waiting), "groups depend on each other"
        return order


class _PrefixMax:
    """The greatest of the numbers that were put at a place or before it, in logarithmic time."""

    def __init__(self, size: int) -> None:
        self.tree = [-1] * (size + 1)

    def put(self, at: int, value: int) -> None:
        """Put a number at a place."""
        at += 1
        while at < len(self.tree):
            self.tree[at] = max(self.tree[at], value)
            at += at & -at

    def most(self, at: int) -> int:
        """The greatest up to a place; -1 where there is none."""
        at += 1
        found = -1
        while at > 0:
            found = max(found, self.tree[at])
            at -= at & -at
        return found


def results_of(graph: Graph, members: frozenset[int]) -> tuple[Value, ...]:
    """The values of some nodes that others read, in the order in which they first do; those of the last one if none is."""
    known = analysis(graph)
    first: dict[Value, int] = {}
    for n in sorted(members):
        for value in graph.nodes[n].results:
            outside = [m for m in (known.index[user] for user, _ in known.users(value)) if m not in members]
            if outside or known.is_result(value):
                first[value] = min(outside) if outside else len(graph.nodes) + graph.results.index(value)
    return tuple(sorted(first, key=lambda v: first[v])) or graph.nodes[max(members)].results


def outline(
    graph: Graph,
    inside: Sequence[GraphNode],
    results: Sequence[Value],
    embedded: Callable[[Const], bool] = lambda constant: True,
) -> Outlined:
    """Some nodes, in order, as a graph of their own.

    Its parameters are the values that they read, in the order of their first use; constants that are not embedded are among
    them, as ``param_0``, ``param_1``, ...
    """
    new: dict[Value, Value] = {}
    inputs: list[Value] = []
    nodes: list[GraphNode] = []
    own = {v for node in inside for v in node.results}
    lifted = 0
    for node in inside:
        for value in node.operands:
            if value in new or value in own:
                continue
            constant = value.node if isinstance(value.node, Const) else None
            if constant is not None and embedded(constant):
                nodes.append(constant.with_operands([Value.of(value.type, value.name)], ()))
                new[value] = nodes[-1].results[0]
                continue
            new[value] = Value.of(value.type, value.name if constant is None else f"param_{lifted}")
            lifted += constant is not None
            inputs.append(value)
        fresh = [Value.of(v.type, v.name) for v in node.results]
        nodes.append(node.with_operands(fresh, [new[v] for v in node.operands]))
        new.update(zip(node.results, fresh, strict=True))
    names = "_".join(node.name for node in inside if isinstance(node, Op)) or inside[-1].results[0].name
    given = tuple(new[v] for v in results)
    params = tuple(new[v] for v in inputs)
    structure = "one" if len(given) == 1 else "tuple"
    made = of_named_dims(Graph(f"fused_{names}", graph.dims, params, tuple(nodes), given, (), structure))
    return Outlined(made, tuple(inputs), tuple(results))


def _read(graph: Graph, nodes: Sequence[GraphNode], results: Sequence[Value]) -> tuple[GraphNode, ...]:
    """The nodes without the constants that were read in a graph before and are not any more."""
    before = {*graph.results, *(v for n in graph.nodes for v in n.operands)}
    now = {*results, *(v for n in nodes for v in n.operands)}
    return tuple(n for n in nodes if not isinstance(n, Const) or n.results[0] in now or n.results[0] not in before)
