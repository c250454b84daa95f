"""Composites: graphs that are one match of a pattern each, called where it was found; merged for a backend, opened again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final

from tirlower.graph.core.analysis import inner_graphs
from tirlower.graph.core.control import Call
from tirlower.graph.core.nodes import Const, Graph, GraphNode, Op, Value
from tirlower.graph.ops.builder import GraphBuilder, rewritten
from tirlower.graph.passes.base import GraphPass
from tirlower.graph.passes.grouping import Grouping, Outlined
from tirlower.rewrite.context import PassContext

__all__ = [
    "CODEGEN",
    "COMPOSITE",
    "GLOBAL_SYMBOL",
    "PARTITIONED",
    "PRIMITIVE",
    "MergeCompositeFunctions",
    "backend_of",
    "flat_form",
    "inline_calls",
    "mapped",
    "spliced",
]

COMPOSITE: Final = "Composite"
"""The attribute of a composite that names its pattern: ``backend.what``."""
PRIMITIVE: Final = "Primitive"
"""The attribute of graphs that passes do not take apart."""
PARTITIONED: Final = "PartitionedFromPattern"
"""The attribute of a composite that names its operations, in order, joined by ``_``."""
CODEGEN: Final = "Codegen"
"""The attribute of a graph that a backend compiles: the backend's name."""
GLOBAL_SYMBOL: Final = "global_symbol"
"""The attribute that is the name of what a backend makes of a graph."""
OPAQUE: Final = (COMPOSITE, PRIMITIVE, CODEGEN)


def backend_of(graph: Graph) -> str | None:
    """The backend of a composite: its name up to the first dot; None for other graphs."""
    name = graph.attrs.get(COMPOSITE)
    return name.split(".")[0] if isinstance(name, str) else None


def mapped(graph: Graph, change: Callable[[Graph], Graph]) -> Graph:
    """A graph after a change to all graphs inside its nodes, and to itself; composites stay as they are."""
    new: dict[Graph, Graph] = {}
    for one in (*inner_graphs(graph), graph):
        outer = _with_graphs(one, new)
        new[one] = outer if any(name in one.attrs for name in OPAQUE) else change(outer)
    return new[graph]


def _with_graphs(graph: Graph, new: Mapping[Graph, Graph]) -> Graph:
    """The graph with others inside its nodes."""

    def changed(builder: GraphBuilder, node: GraphNode, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        graphs = [new[g] for g in node.graphs]
        if all(a is b for a, b in zip(graphs, node.graphs, strict=True)):
            return None
        fresh = [Value.of(v.type, v.name) for v in node.results]
        made = node.with_operands(fresh, operands).with_graphs(graphs)
        builder.nodes.append(made)
        return made.results

    return rewritten(graph, changed) if any(new[g] is not g for n in graph.nodes for g in n.graphs) else graph


def flat_form(graph: Graph) -> Hashable | None:
    """What two graphs of operations and constants over the same dims share if they are equal, and only then; None for others.

    >>> import tirlower.graph as tg
    >>> x = tg.spec((4,), "float32")
    >>> f, g, h = (tg.trace(of, x) for of in (lambda x: tg.exp(x), lambda y: tg.exp(y), lambda x: tg.sin(x)))
    >>> flat_form(f) == flat_form(g), flat_form(f) == flat_form(h)
    (True, False)
    """
    if not all(isinstance(node, (Op, Const)) for node in graph.nodes):
        return None
    place = {value: n for n, value in enumerate((*graph.params, *(v for node in graph.nodes for v in node.results)))}
    nodes = tuple(
        (
            node.name,
            tuple(place[v] for v in node.inputs),
            node.groups,
            repr(node.attrs),
            tuple(str(v.type) for v in node.results),
        )
        if isinstance(node, Op)
        else _constant_form(node)
        for node in graph.nodes
    )
    params, results = tuple(str(v.type) for v in graph.params), tuple(place[v] for v in graph.results)
    assumed = tuple((str(a), str(b)) for a, b in graph.assumed)
    facts = tuple(one.facts for one in graph.dims)
    return (
        params,
        nodes,
        results,
        assumed,
        graph.structure,
        repr(graph.attrs),
        tuple(d.var for d in graph.dims),
        facts,
    )


def _constant_form(node: GraphNode) -> Hashable:
    assert isinstance(node, Const)
    data = node.data
    # 0.0 and -0.0 are equal, and so are 1 and True: neither are the same constant.
    return (str(node.results[0].type), data.digest if data.value is None else repr(data.value))


def spliced(builder: GraphBuilder, inside: Graph, operands: Sequence[Value]) -> Sequence[Value]:
    """The results of a graph on operands, its nodes copied into the one that is built."""
    new = dict(zip(inside.params, operands, strict=True))
    for one in inside.nodes:
        fresh = [Value.of(v.type, builder.named(v.name)) for v in one.results]
        made = one.with_operands(fresh, [new[v] for v in one.operands])
        builder.nodes.append(made)
        new.update(zip(one.results, made.results, strict=True))
    return [new[v] for v in inside.results]


def inline_calls(graph: Graph, which: Callable[[Graph], bool] = lambda graph: True) -> Graph:
    """The graph with the graphs of calls in the place of the calls, for those that ``which`` admits.

    >>> import tirlower.graph as tg
    >>> from tirlower.graph.patterns import is_op, wildcard
    >>> g = tg.trace(lambda x: tg.relu(tg.exp(x)), tg.spec((4,), "float32"))
    >>> parted = tg.partition(g, [("test.relu", is_op("relu")(is_op("exp")(wildcard())))])
    >>> [op.name for op in parted.ops], [op.name for op in inline_calls(parted).ops]
    ([], ['exp', 'relu'])
    """

    def opened(builder: GraphBuilder, node: GraphNode, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if not isinstance(node, Call) or not which(node.graph):
            return None
        return spliced(builder, node.graph, operands)

    def all_opened(one: Graph) -> Graph:
        while any(isinstance(n, Call) and which(n.graph) for n in one.nodes):
            one = rewritten(one, opened)
        return one

    new: dict[Graph, Graph] = {}
    for one in (*inner_graphs(graph), graph):
        new[one] = all_opened(_with_graphs(one, new))
    return new[graph]


class MergeCompositeFunctions(GraphPass):
    """Merge composites of one backend that follow each other into one graph, which the backend compiles as a whole.

    The graph has the attributes ``Codegen``, the backend's name, and ``global_symbol``; the composites are called in it. No
    path leaves a graph and comes back to it, through whatever else.

    >>> import tirlower.graph as tg
    >>> from tirlower.graph.patterns import is_op, wildcard
    >>> g = tg.trace(lambda x: tg.relu(tg.exp(x)), tg.spec((4,), "float32"))
    >>> parted = tg.partition(g, [("lib.exp", is_op("exp")(wildcard())), ("lib.relu", is_op("relu")(wildcard()))])
    >>> merged = MergeCompositeFunctions()(parted)
    >>> [node.graph.attrs["Codegen"] for node in merged.nodes], len(merged.nodes[0].graph.nodes)
    (['lib'], 2)
    """

    name = "graph.MergeCompositeFunctions"

    def transform(self, graph: Graph, ctx: PassContext) -> Graph:
        """The graph with fewer calls, also in the graphs inside its nodes."""
        count = 0

        def merge(one: Graph) -> Graph:
            nonlocal count
            made = _merged(one, count)
            count += made[1]
            return made[0]

        return mapped(graph, merge)


def _merged(graph: Graph, start: int) -> tuple[Graph, int]:
    """A graph with the composites of each backend merged, and how many graphs were made; symbols count from ``start``."""
    grouping = Grouping(graph)
    backend: dict[int, str] = {}
    for n, node in enumerate(graph.nodes):
        found = backend_of(node.graph) if isinstance(node, Call) else None
        if found is None or node.effects:
            continue
        members = frozenset([n])
        beside = dict.fromkeys(grouping.owner[m] for m in grouping.before[n] if grouping.owner[m] is not None)
        for group in beside:
            assert group is not None
            if backend[group] != found or group not in grouping.members:
                continue
            wider = members | grouping.members[group]
            if grouping.way_back(wider) is None:
                grouping.remove(group)
                members = wider
        backend[grouping.add(members)] = found

    def outline(group: int, made: Outlined) -> Graph:
        name = f"fused_{backend[group]}_{start + order[group]}"
        return made.graph.with_(name=name).with_attr({CODEGEN: backend[group], GLOBAL_SYMBOL: name})

    groups = sorted(grouping.members, key=lambda g: min(grouping.members[g]))
    order = {group: n for n, group in enumerate(groups)}
    return (grouping.outlined(outline), len(order)) if order else (graph, 0)
