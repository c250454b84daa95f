"""The smallest graph on which something still goes wrong, found by trying: results, nodes, and inputs go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from tirlower.diagnostics import TirError
from tirlower.graph.core.dims import DimEnv
from tirlower.graph.core.nodes import Const, Graph, GraphNode, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.interpret import bound, run_nodes
from tirlower.graph.passes.liveness import live
from tirlower.ir import Var
from tirlower.ir.dtype import Array
from tirlower.validate.shrink import shrink

__all__ = ["GraphCase", "reduce_graph"]


class GraphCase(NamedTuple):
    """A graph and its inputs."""

    graph: Graph
    inputs: tuple[Array, ...]


_Try = Callable[[], GraphCase | None]


def reduce_graph(case: GraphCase, fails: Callable[[GraphCase], bool], seconds: float = 10.0) -> GraphCase:
    """The smallest case found on which ``fails`` is still true, within a time; ``case`` itself where nothing smaller fails.

    >>> import tirlower.graph as tg
    >>> g = tg.trace(lambda x: (np.sqrt(np.exp(x) + 1), -x), tg.spec((4,), "float32"))
    >>> case = GraphCase(g, (np.ones(4, "float32"),))
    >>> [op.name for op in reduce_graph(case, lambda c: any(op.name == "add" for op in c.graph.ops)).graph.ops]
    ['add']
    """
    return shrink(case, (_results, _heads, _cuts, _params), _candidate, fails, seconds)


def _candidate(attempt: _Try) -> GraphCase | None:
    try:
        return attempt()
    except TirError:
        return None


def _results(case: GraphCase) -> Iterator[_Try]:
    """One result alone, or all but one."""
    several = case.graph.results
    if len(several) > 1:
        for value in several:
            yield lambda value=value: _of(case, case.graph.nodes, (value,))  # type: ignore[misc]
        for n in range(len(several)):
            yield lambda n=n: _of(case, case.graph.nodes, several[:n] + several[n + 1 :])  # type: ignore[misc]


def _heads(case: GraphCase) -> Iterator[_Try]:
    """A value from further up as the result."""
    for node in case.graph.nodes:
        for value in node.results:
            if value not in case.graph.results and not isinstance(node, Const):
                yield lambda value=value: _of(case, case.graph.nodes, (value,))  # type: ignore[misc]


def _cuts(case: GraphCase) -> Iterator[_Try]:
    """What nodes make given as inputs instead: half of the nodes, a quarter, and so on."""
    nodes = case.graph.nodes
    size = max(1, len(nodes) // 2)
    while size:
        for at in range(0, len(nodes), size):
            yield lambda at=at, size=size: _cut(case, nodes[at : at + size])  # type: ignore[misc]
        size //= 2


def _params(case: GraphCase) -> Iterator[_Try]:
    """Zeros as inputs, and ones."""
    for at, array in enumerate(case.inputs):
        for simple in (np.zeros_like(array), np.ones_like(array)):
            if array.tobytes() == simple.tobytes():
                break
            yield (
                lambda at=at, simple=simple: case._replace(  # type: ignore[misc]
                    inputs=(*case.inputs[:at], simple, *case.inputs[at + 1 :])
                )
            )


def _of(case: GraphCase, nodes: tuple[GraphNode, ...], results: tuple[Value, ...]) -> GraphCase | None:
    """The case with these results alone, without what they do not need."""
    graph = case.graph
    needed = live(nodes, results)
    used = {v for node in needed for v in node.operands} | set(results)
    says = _says(graph, used)
    kept = [n for n, value in enumerate(graph.params) if value in used or value in says]
    made = graph.with_(params=tuple(graph.params[n] for n in kept), nodes=needed, results=results, structure="tuple")
    if len(made.nodes) == len(graph.nodes) and len(results) == len(graph.results) and len(kept) == len(graph.params):
        return None
    return GraphCase(made, tuple(case.inputs[n] for n in kept))


def _says(graph: Graph, used: set[Value]) -> set[Value]:
    """Parameters that say what the dims are that those in use do not."""
    first: dict[Var, Value] = {}
    for value in sorted(graph.params, key=lambda value: value not in used):
        for extent in value.extents:
            if isinstance(extent, Var):
                first.setdefault(extent, value)
    return set(first.values())


def _cut(case: GraphCase, gone: tuple[GraphNode, ...]) -> GraphCase | None:
    """The case with what some nodes make as inputs."""
    graph = case.graph
    away = set(gone)
    left = tuple(node for node in graph.nodes if node not in away)
    used = {v for node in left for v in node.operands} | set(graph.results)
    wanted = [v for node in gone for v in node.results if v in used]
    if any(not v.name for v in wanted):
        raise GraphError("a value without a name is no parameter")
    values: dict[Value, Array] = dict(zip(graph.params, case.inputs, strict=True))
    run_nodes(graph.nodes, values, DimEnv(graph.dims), bound(graph, case.inputs), False, keep=wanted)
    fresh = {v: Value.of(v.type, v.name) for v in wanted}
    new = dict[Value, Value](fresh)
    nodes: list[GraphNode] = []
    for node in left:
        operands = tuple(new.get(v, v) for v in node.operands)
        if all(a is b for a, b in zip(operands, node.operands, strict=True)):
            nodes.append(node)
            continue
        made = tuple(Value.of(v.type, v.name) for v in node.results)
        new.update(zip(node.results, made, strict=True))
        nodes.append(node.with_(results=made, inputs=operands))
    results = tuple(new.get(v, v) for v in graph.results)
    cut = graph.with_(params=(*graph.params, *fresh.values()), nodes=tuple(nodes), results=results)
    inputs = (*case.inputs, *[np.array(values[v]) for v in wanted])
    return _of(GraphCase(cut, inputs), cut.nodes, cut.results) or GraphCase(cut, inputs)
