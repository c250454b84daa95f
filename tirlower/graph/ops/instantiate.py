"""A graph under the dims of another: what calling a graph that was made alone takes."""

from __future__ import annotations

from collections.abc import Mapping

from tirlower.graph.core.analysis import inner_graphs
from tirlower.graph.core.dims import DimEnv, Extent, extent_expr
from tirlower.graph.core.effects import Extern, KernelCall
from tirlower.graph.core.nodes import Const, Graph, GraphNode, Op, TensorType, Value
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.ops.registry import definition
from tirlower.ir import Expr, Var
from tirlower.ir.functor import substitute

__all__ = ["instantiated"]


def instantiated(graph: Graph, extents: Mapping[Var, Extent], env: DimEnv) -> Graph:
    """The graph with extents of other dims, of ``env``, in the place of its own; the same object if those are its own.

    >>> from tirlower.graph.core.dims import dim
    >>> N, B = dim("N"), dim("B")
    >>> b = GraphBuilder("g", [N])
    >>> g = b.finish(b.op("exp", b.param("x", (N, 4), "float32")))
    >>> str(instantiated(g, {N.var: B * 2}, DimEnv([B])).results[0].type)
    'float32[B * 2, 4]'
    """
    if all(extents.get(one.var, one.var) is one.var for one in graph.dims):
        env.assume_all(graph.assumed)
        return graph
    made: dict[Graph, Graph] = {}
    for each in (*inner_graphs(graph), graph):
        made[each] = _Instance(each, {v: extent_expr(e) for v, e in extents.items()}, env, made).graph()
    return made[graph]


class _Instance:
    def __init__(self, old: Graph, extents: Mapping[Var, Expr], env: DimEnv, inner: Mapping[Graph, Graph]) -> None:
        self.old = old
        self.extents = extents
        self.builder = GraphBuilder(old.name, env=env)
        self.inner = inner
        self.values: dict[Value, Value] = {}

    def graph(self) -> Graph:
        """The whole."""
        old, builder = self.old, self.builder
        for a, b in old.assumed:
            x, y = builder.env.simplify(self.extent(a)), builder.env.simplify(self.extent(b))
            builder.env.same(x, y, f"{old.name} needs two extents to be equal")
        for value in old.params:
            self.values[value] = builder.param(value.name, self.type(value).shape, value.dtype)
        for node in old.nodes:
            builder.origin = node.origin
            self.values.update(zip(node.results, self.node(node), strict=True))
        made = builder.finish([self.values[v] for v in old.results], old.structure)
        return made.with_(attrs=dict(old.attrs))

    def extent(self, extent: Expr) -> Extent:
        """An extent under the other dims."""
        return self.builder.env.simplify(substitute(extent, self.extents))

    def numbers(self, numbers: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """What a kernel is given beside tensors under the other dims."""
        return tuple(extent_expr(self.extent(e)) for e in numbers)

    def type(self, value: Value) -> TensorType:
        """A type under the other dims."""
        return TensorType(tuple(e if isinstance(e, int) else self.extent(e) for e in value.shape), value.dtype)

    def node(self, node: GraphNode) -> tuple[Value, ...]:
        """The results of a node of the new graph."""
        operands = [self.values[v] for v in node.operands]
        if isinstance(node, Op):
            attrs = {k: self.attribute(v) for k, v in node.attrs.items()}
            types = self.builder.infer(definition(node.name), operands, node.groups, attrs)
            return self.emit(node.with_(results=self.fresh(node, types), inputs=tuple(operands), attrs=attrs))
        if isinstance(node, Const):
            return self.emit(node.with_(results=self.fresh(node)))
        graphs = [self.inner[g] for g in node.graphs]
        plain = node.with_graphs(graphs).with_operands(self.fresh(node), operands)
        if isinstance(node, KernelCall):
            kernel = node.kernel
            if isinstance(kernel, Extern):
                kernel = kernel.with_(numbers=self.numbers(kernel.numbers))
            plain = plain.with_(results=self.fresh(node), kernel=kernel, numbers=self.numbers(node.numbers))
        return self.emit(plain)

    def fresh(self, node: GraphNode, types: tuple[TensorType, ...] | None = None) -> tuple[Value, ...]:
        """Values for the results of a node."""
        several = types or [self.type(v) for v in node.results]
        return tuple(Value.of(t, self.builder.named(v.name)) for t, v in zip(several, node.results, strict=True))

    def emit(self, node: GraphNode) -> tuple[Value, ...]:
        """Put a node into the graph."""
        self.builder.nodes.append(node)
        return node.results

    def attribute(self, value: object) -> object:
        """An attribute under the other dims."""
        if isinstance(value, tuple):
            return tuple(self.attribute(v) for v in value)
        return self.extent(value) if isinstance(value, Expr) else value
