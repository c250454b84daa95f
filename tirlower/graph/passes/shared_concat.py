"""Concatenations that others begin again with: one tensor holds both, and who reads the small one reads a part of it."""

from __future__ import annotations

from tirlower.graph.core.analysis import analysis, bits
from tirlower.graph.core.dims import DimEnv, Extent
from tirlower.graph.core.nodes import Graph, GraphNode, Op, Value
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.ops.joining import plus

__all__ = ["shared_concats"]


def shared_concats(graph: Graph) -> Graph:
    """The graph in which a concatenation that is a part of another one is a slice of that; the same object for none.

    ``c = concat(a, b); y = concat(c, d)`` with other readers of ``c``: the parts are copied once, to ``y``. Left alone
    where ``y`` needs one of these readers, where ``c`` is a result of the graph, and where the two lie along other axes
    or are of other dtypes than a part.

    >>> import tirlower.graph as tg
    >>> print(shared_concats(tg.parse('''
    ... @tg.graph
    ... def f(a: tg.Tensor((2,), "float32"), b: tg.Tensor((3,), "float32"), d: tg.Tensor((4,), "float32")):
    ...     c: tg.Tensor((5,), "float32") = tg.concat(a, b)
    ...     z: tg.Tensor((5,), "float32") = tg.exp(c)
    ...     y: tg.Tensor((9,), "float32") = tg.concat(c, d)
    ...     return y, z
    ... ''')))
    @tg.graph
    def f(a: tg.Tensor((2,), "float32"), b: tg.Tensor((3,), "float32"), d: tg.Tensor((4,), "float32")):
        y: tg.Tensor((9,), "float32") = tg.concat(a, b, d)
        c: tg.Tensor((5,), "float32") = tg.slice(y, starts=(0,), ends=(5,), axes=(0,))
        z: tg.Tensor((5,), "float32") = tg.exp(c)
        return y, z
    """
    before = None
    while graph is not before:
        before, graph = graph, _one(graph)
    return graph


def _one(graph: Graph) -> Graph:
    known = analysis(graph)
    for node in graph.nodes:
        if not isinstance(node, Op) or node.name != "concat":
            continue
        for at, part in enumerate(node.inputs):
            inner = part.node
            if not isinstance(inner, Op) or inner.name != "concat" or known.is_result(part) or not _alike(inner, node):
                continue
            others = [user for user, _ in known.users(part) if user is not node]
            once = len(others) == len(known.users(part)) - 1
            if others and once and not any(known.reaches(user, node) for user in others):
                made = _merged(graph, inner, node, at)
                if made is not None:
                    return made
    return graph


def _alike(inner: Op, outer: Op) -> bool:
    """Whether the parts of one concatenation may be parts of another, of the same axis and dtype."""
    rank, kind = len(outer.results[0].shape), outer.results[0].dtype
    axes = [op.attrs["axis"] for op in (inner, outer)]
    same = (
        all(isinstance(axis, int) for axis in axes)
        and len({axis % rank for axis in axes if isinstance(axis, int)}) == 1
    )
    return same and all(v.dtype == kind for v in (*inner.inputs, *outer.inputs))


def _merged(graph: Graph, inner: Op, outer: Op, at: int) -> Graph | None:
    """The graph with one concatenation of all parts; who read the inner one reads a slice of it. None where that needs
    more to be known of the dims.
    """
    builder = GraphBuilder(graph.name, env=DimEnv(graph.dims))
    builder.env.assume_all(graph.assumed)
    axis = outer.attrs["axis"]
    assert isinstance(axis, int)
    axis %= len(outer.results[0].shape)
    start: Extent = 0
    for before in outer.inputs[:at]:
        start = plus(start, before.shape[axis])
    start, stop = (builder.env.simplify(e) for e in (start, plus(start, inner.results[0].shape[axis])))
    builder.origin, builder.exact = outer.origin, [outer.results[0].name]
    whole = builder.op("concat", *outer.inputs[:at], *inner.inputs, *outer.inputs[at + 1 :], axis=axis)
    builder.origin, builder.exact = inner.origin, [inner.results[0].name]
    part = builder.op("slice", whole, starts=(start,), ends=(stop,), axes=(axis,))
    fits = all(
        builder.env.equal(a, b)
        for old, new in ((outer.results[0], whole), (inner.results[0], part))
        for a, b in zip(old.shape, new.shape, strict=True)
    )
    if not fits or len(builder.env.assumed) > len(graph.assumed):
        return None
    new: dict[Value, Value] = {outer.results[0]: whole, inner.results[0]: part}
    nodes: list[GraphNode] = []
    for node in _readers_behind(graph, inner, outer):
        if node is inner:
            continue
        if node is outer:
            nodes += builder.nodes
            continue
        operands = tuple(new.get(v, v) for v in node.operands)
        made = node
        if any(a is not b for a, b in zip(operands, node.operands, strict=True)):
            made = node.with_operands(tuple(Value.of(v.type, v.name) for v in node.results), operands)
            new.update(zip(node.results, made.results, strict=True))
        nodes.append(made)
    return graph.with_(nodes=tuple(nodes), results=tuple(new.get(v, v) for v in graph.results))


def _readers_behind(graph: Graph, inner: Op, outer: Op) -> tuple[GraphNode, ...]:
    """The nodes in an order in which those that need another reader of the inner concatenation stand behind the outer one."""
    known = analysis(graph)
    late = 0
    for user, _ in known.users(inner.results[0]):
        late |= 0 if user is outer else known.descendants[known.index[user]]
    end = known.index[outer]
    behind = [n for n in bits(late) if n < end]
    first = set(behind)
    before = [node for n, node in enumerate(graph.nodes[: end + 1]) if n not in first]
    return (*before, *(graph.nodes[n] for n in behind), *graph.nodes[end + 1 :])
