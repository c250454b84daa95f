"""Dead code: nodes whose results nothing needs, and what else nothing refers to."""

from __future__ import annotations

from tirlower.graph.core.analysis import inner_graphs
from tirlower.graph.core.effects import KernelCall, Load
from tirlower.graph.core.module import PRIVATE, Module
from tirlower.graph.core.nodes import Graph
from tirlower.graph.passes.base import GraphPass
from tirlower.graph.passes.liveness import live
from tirlower.ir import Call, GlobalVar, IRModule, PrimFunc
from tirlower.ir.query import each
from tirlower.rewrite.context import PassContext

__all__ = ["DCE", "DropUnused"]


class DCE(GraphPass):
    """Drop the nodes whose results nothing needs.

    What is assumed of dims stays: calls are refused as before.

    >>> import tirlower.graph as tg
    >>> print(DCE()(tg.parse('''
    ... @tg.graph
    ... def first(x: tg.Tensor((4,), "float32")):
    ...     y: tg.Tensor((4,), "float32") = tg.exp(x)
    ...     z: tg.Tensor((4,), "float32") = tg.sqrt(y)
    ...     return y
    ... ''')))
    @tg.graph
    def first(x: tg.Tensor((4,), "float32")):
        y: tg.Tensor((4,), "float32") = tg.exp(x)
        return y
    """

    name = "graph.DCE"

    def transform(self, graph: Graph, ctx: PassContext) -> Graph:
        """The graph without them."""
        needed = live(graph.nodes, graph.results)
        return graph if len(needed) == len(graph.nodes) else graph.with_(nodes=needed)


class DropUnused(GraphPass):
    """Drop of a module what neither a caller can name nor anything that is left refers to: graphs, states, kernels.

    The entry stays, and so do graphs without the attribute ``private``, public states, and kernels with a
    ``global_symbol``. A single graph holds what it uses and stays as it is.

    >>> import tirlower.graph as tg
    >>> f, g, h = (tg.trace(lambda x: x + 1, tg.spec((4,), "float32")) for _ in range(3))
    >>> module = tg.Module({"main": f, "other": g, "inner": h.with_attr("private", True)})
    >>> print(list(DropUnused()(module).graphs))
    ['main', 'other']
    """

    name = "graph.DropUnused"

    def transform(self, graph: Graph, ctx: PassContext) -> Graph:
        """The graph itself."""
        return graph

    def on_module(self, module: Module, ctx: PassContext) -> Module:
        """The module without what is of no use."""
        roots = {n: g for n, g in module.graphs.items() if g is module.entry or PRIVATE not in g.attrs}
        reached = (*roots.values(), *inner_graphs(*roots.values()))
        called = set(reached)
        graphs = {name: graph for name, graph in module.graphs.items() if name in roots or graph in called}
        nodes = [node for graph in reached for node in graph.nodes]
        used = {one for graph in reached for one in graph.effects} | {n.source for n in nodes if isinstance(n, Load)}
        states = [one for one in module.globals if one.public or one in used]
        kernels = _needed(module.kernels, {node.kernel for node in nodes if isinstance(node, KernelCall)})
        if len(graphs) == len(module.graphs) and len(states) == len(module.globals) and kernels is module.kernels:
            return module
        return module.with_(graphs, states, kernels)


def _needed(kernels: IRModule, called: set[object]) -> IRModule:
    """The functions that are called, public, or called by such; the same module where all are."""
    waiting = [name for name, f in kernels.functions.items() if f in called or "global_symbol" in f.attrs]
    needed = set(waiting)
    while waiting:
        func: PrimFunc = kernels.functions[waiting.pop()]
        for call in each(Call, func.body):
            name = call.op.name if isinstance(call.op, GlobalVar) else None
            if name in kernels.functions and name not in needed:
                needed.add(name)
                waiting.append(name)
    if len(needed) == len(kernels.functions):
        return kernels
    return IRModule({name: f for name, f in kernels.functions.items() if name in needed}, kernels.attrs)
