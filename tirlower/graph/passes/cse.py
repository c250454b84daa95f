"""Common subexpressions: what is computed twice is computed once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.control import Call, If, While
from tirlower.graph.core.effects import KernelCall, Load
from tirlower.graph.core.nodes import Const, Graph, GraphNode, Op, Value
from tirlower.graph.ops.builder import GraphBuilder, rewritten
from tirlower.graph.passes.base import GraphPass
from tirlower.rewrite.context import PassContext

__all__ = ["CSE", "commutes"]

_ALWAYS = frozenset(
    [
        "add",
        "multiply",
        "equal",
        "not_equal",
        "logical_and",
        "logical_or",
        "logical_xor",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
    ]
)
_OF_INTEGERS = frozenset({"maximum", "minimum"})
"""Of 0.0 and -0.0 they give the one that stands first, or last."""


def commutes(op: Op) -> bool:
    """Whether an operation gives the same bits when its two operands are exchanged."""
    return op.name in _ALWAYS or (op.name in _OF_INTEGERS and not any(v.dtype.is_float for v in op.inputs))


class CSE(GraphPass):
    """Compute once what is computed twice: equal operations on the same values, and equal constants.

    Operands of an operation that commutes to the bit may stand in either order. What has an effect is done as often as it
    is written.

    >>> import tirlower.graph as tg
    >>> print(CSE()(tg.parse('''
    ... @tg.graph
    ... def f(x: tg.Tensor((4,), "float32"), y: tg.Tensor((4,), "float32")):
    ...     a: tg.Tensor((4,), "float32") = tg.add(x, y)
    ...     b: tg.Tensor((4,), "float32") = tg.add(y, x)
    ...     c: tg.Tensor((4,), "float32") = tg.multiply(a, b)
    ...     return c
    ... ''')))
    @tg.graph
    def f(x: tg.Tensor((4,), "float32"), y: tg.Tensor((4,), "float32")):
        a: tg.Tensor((4,), "float32") = tg.add(x, y)
        c: tg.Tensor((4,), "float32") = tg.multiply(a, a)
        return c
    """

    name = "graph.CSE"

    def transform(self, graph: Graph, ctx: PassContext) -> Graph:
        """The graph in which each is computed once."""
        return rewritten(graph, _Seen(graph).earlier)


class _Seen:
    """What has been computed, by what it is computed of."""

    def __init__(self, graph: Graph) -> None:
        self.places = {value: n for n, value in enumerate(graph.params)}
        self.made: dict[object, tuple[Value, ...]] = {}
        self.constants: dict[object, list[tuple[ConstantData, tuple[Value, ...]]]] = {}

    def earlier(self, builder: GraphBuilder, node: GraphNode, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        """The values that a node's results have already."""
        if isinstance(node, Const):
            return self._constant(node)
        key = self._key(node, [self.places.setdefault(v, len(self.places)) for v in operands])
        if key is None:
            return None
        known = self.made.get(key)
        if known is None:
            # Kept under its own results: where its operands were replaced it is built anew, and remembered then.
            self.made[key] = builder_results(builder, node, operands)
            return self.made[key]
        return known

    def _constant(self, node: Const) -> Sequence[Value] | None:
        data = node.data
        several = self.constants.setdefault((str(data.dtype), data.shape, _sample(data)), [])
        for other, values in several:
            if other == data:
                return values
        several.append((data, node.results))
        return None

    def _key(self, node: GraphNode, places: list[int]) -> object:
        if node.effects:
            return None
        types = tuple(str(v.type) for v in node.results)
        if isinstance(node, Op):
            ordered = sorted(places) if commutes(node) else places
            return (node.name, tuple(ordered), node.groups, repr(node.attrs), types)
        if isinstance(node, (Call, If, While)):
            return (type(node).__name__, node.graphs, tuple(places), types)
        if isinstance(node, KernelCall):
            return (node.kernel, tuple(places), types, tuple(map(str, node.numbers)))
        return (node.source,) if isinstance(node, Load) else None


def builder_results(builder: GraphBuilder, node: GraphNode, operands: tuple[Value, ...]) -> tuple[Value, ...]:
    """The results of a node on operands in a graph under construction; the node itself where they are its own."""
    if any(a is not b for a, b in zip(operands, node.operands, strict=True)):
        node = node.with_operands([Value.of(v.type, v.name) for v in node.results], operands)
    builder.nodes.append(node)
    return node.results


def _sample(data: ConstantData) -> object:
    """A part of a constant's contents: most constants differ there, and need no digest."""
    if data.value is not None:
        return repr(data.value)
    if data.is_abstract:
        return data.digest[:8]
    array = data.numpy()
    return array.reshape(-1)[:16].tobytes() if array.flags.c_contiguous else np.asarray(array.flat[:16]).tobytes()
