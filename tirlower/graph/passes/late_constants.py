"""Constants that are bound when a graph is compiled already: what depends on them alone, and the graph without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.effects import Extern, KernelCall
from tirlower.graph.core.nodes import Const, Graph, GraphNode, Op, Value
from tirlower.graph.ops.builder import GraphBuilder, rewritten
from tirlower.graph.passes.constants import FREE, has_dims
from tirlower.graph.passes.liveness import live

__all__ = ["split", "with_constants"]


def split(graph: Graph, bound: Mapping[Value, ConstantData]) -> tuple[Graph, tuple[Value, ...]] | None:
    """The part of a graph that depends on constants alone, one of ``bound`` at least; and the values that the rest reads of it.

    None where there is none. A node whose results are larger by more than 64 KB than what it reads is not in it.

    >>> import tirlower.graph as tg
    >>> g = tg.parse('''
    ... @tg.graph
    ... def f(x: tg.Tensor((4,), "float32")):
    ...     w = tg.constant("float32", (4,), "5f3ac19e")
    ...     a: tg.Tensor((4,), "float32") = tg.exp(w)
    ...     b: tg.Tensor((4,), "float32") = tg.negative(a)
    ...     y: tg.Tensor((4,), "float32") = tg.add(x, b)
    ...     return y
    ... ''')
    >>> first, values = split(g, {g.nodes[0].results[0]: ConstantData.splat(1.0, (4,), "float32")})
    >>> [op.name for op in first.ops], [v.name for v in values]
    (['exp', 'negative'], ['b'])
    """
    inside: dict[Value, None] = {}
    late = set(bound)
    for node in graph.nodes:
        if isinstance(node, Const):
            inside.update(dict.fromkeys(node.results))
        elif all(v in inside for v in node.operands) and any(v in late for v in node.operands) and _fit(node):
            inside.update(dict.fromkeys(node.results))
            late.update(node.results)
    computed = {v for v in late if not isinstance(v.node, Const)}
    outside = [v for n in graph.nodes for v in n.operands if not any(r in computed for r in n.results)]
    values = tuple(v for v in dict.fromkeys((*outside, *graph.results)) if v in computed)
    if not values:
        return None
    several = tuple(n for n in graph.nodes if n.results and all(r in inside for r in n.results))
    part = graph.with_(
        dims=(), params=(), nodes=live(several, values), results=values, assumed=(), structure="tuple", attrs={}
    )
    return with_constants(part, bound, {}), values


def with_constants(graph: Graph, bound: Mapping[Value, ConstantData], computed: Mapping[Value, ConstantData]) -> Graph:
    """The graph with contents for its constants, and with constants for values that were computed of them."""

    def visit(builder: GraphBuilder, node: GraphNode, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if isinstance(node, Const):
            data = bound.get(node.results[0])
            return None if data is None else (builder.const(data, node.results[0].name),)
        if not any(v in computed for v in node.results):
            return None
        # Results that only what was computed reads are dropped with the node.
        fresh = tuple(Value.of(v.type, v.name) for v in node.results)
        builder.nodes.append(node.with_operands(fresh, operands))
        return tuple(
            builder.const(computed[v], v.name) if v in computed else own
            for v, own in zip(node.results, fresh, strict=True)
        )

    after = rewritten(graph, visit)
    return after if after is graph else after.with_(nodes=live(after.nodes, after.results))


def _fit(node: GraphNode) -> bool:
    if isinstance(node, KernelCall):
        good = not node.effect and not has_dims(node.numbers)
        good = good and not (isinstance(node.kernel, Extern) and has_dims(node.kernel.numbers))
    else:
        good = isinstance(node, Op) and not has_dims(node.attrs.values())
    return (
        good
        and not has_dims(e for v in node.results for e in v.shape)
        and _size(node.results) <= _size(node.operands) + FREE
    )


def _size(values: Sequence[Value]) -> int:
    total = 0
    for value in dict.fromkeys(values):
        size = (value.dtype.bits + 7) // 8
        for extent in value.shape:
            size *= extent if isinstance(extent, int) else 1
        total += size
    return total
