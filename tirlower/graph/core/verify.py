"""Whether a graph is one: every value made once and before it is used, types as inference has them, dims in scope.

>>> from tirlower.graph.ops.builder import GraphBuilder
>>> b = GraphBuilder("g")
>>> g = b.finish(b.op("exp", b.param("x", (4,), "float32")))
>>> verify(g)
>>> verify(g.with_(params=()))
Traceback (most recent call last):
    ...
tirlower.graph.errors.GraphError: error: the graph 'g': operand 0 of <Op exp -> float32[4]>, 'x', is no parameter and made by no node of it
  = help: what a graph inside a node reads is a parameter of it
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Never, NoReturn, cast

from tirlower.graph.core.analysis import inner_graphs
from tirlower.graph.core.control import Call, If, While
from tirlower.graph.core.debug import Assert, Debug, Print
from tirlower.graph.core.dims import DimEnv
from tirlower.graph.core.effects import Extern, Global, KernelCall, Load, Store
from tirlower.graph.core.module import Module
from tirlower.graph.core.nodes import Const, Graph, GraphNode, Op, TensorType, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.ops.kernels import fit
from tirlower.graph.ops.registry import definition
from tirlower.ir import Expr, Var
from tirlower.ir.dtype import BOOL
from tirlower.ir.query import each

__all__ = ["verify"]


def verify(graph: Graph | Module) -> None:
    """Raise :class:`GraphError`, naming the node and where it came from, unless a graph or a module is whole.

    Each value is made once, and before it is used; types are those that inference gives, and extents that it needs equal
    are assumed by a graph; dims are stated; graphs inside nodes read parameters alone; names that callers use are unique.
    """
    several = tuple(graph.graphs.values()) if isinstance(graph, Module) else (graph,)
    _globals([g for one in several for g in one.effects], graph.globals if isinstance(graph, Module) else ())
    for outermost in several:
        inner = inner_graphs(outermost)
        env = DimEnv()
        for one in outermost.dims:
            if env.dims.get(one.name) is not None:
                raise GraphError(f"the graph {outermost.name!r} has two dims that are named {one.name!r}")
            env.add(one)
        for each_graph in (*inner, outermost):
            env.assume_all(each_graph.assumed)
        for each_graph in (*inner, outermost):
            _Verifier(each_graph, env).run()


def _globals(used: Iterable[Global], stated: Iterable[Global]) -> None:
    by_name: dict[str, Global] = {}
    for one in (*stated, *used):
        if by_name.setdefault(one.name, one) is not one:
            raise GraphError(f"two states are named {one.name!r}", help="give one of them another name")


class _Verifier:
    def __init__(self, graph: Graph, env: DimEnv) -> None:
        self.graph = graph
        self.env = env
        self.builder = GraphBuilder(graph.name, env=env)
        self.assumed = len(env.assumed)
        self.rules: dict[type, Callable[[Never], Sequence[TensorType]]] = {
            Op: self._operation,
            Store: self._store,
            Call: self._call,
            If: self._if,
            While: self._while,
            KernelCall: self._kernel,
            Assert: self._debug,
            Print: self._debug,
        }
        self.vars = {one.var for one in graph.dims}
        self.seen: set[int] = set()
        """The identities of extents that are made of the graph's dims."""

    def fail(self, what: str, node: GraphNode | None = None, help: str | None = None) -> NoReturn:
        """Raise the error."""
        where = [f"at {node.origin}"] if node is not None and node.origin else []
        raise GraphError(f"the graph {self.graph.name!r}: {what}", notes=where, help=help)

    def run(self) -> None:
        """Everything about the graph, but not what stands in the graphs inside."""
        graph = self.graph
        outer = {one.var for one in self.env}
        for one in graph.dims:
            if one.var not in outer:
                self.fail(f"its dim {one.name} is none of the graph around it")
        for a, b in graph.assumed:
            self._scope("what it assumes", (a, b))
        names: set[str] = set()
        made: set[Value] = set()
        for value in graph.params:
            if value.node is not None or value in made:
                self.fail(f"its parameter {value.name!r} is made by {value.node!r}, or given twice")
            if value.name in names:
                self.fail(f"two parameters are named {value.name!r}")
            names.add(value.name)
            made.add(value)
            self._scope(f"the parameter {value.name!r}", value.extents)
        everything = {v for n in graph.nodes for v in n.results}
        for node in graph.nodes:
            for at, value in enumerate(node.operands):
                if value not in made:
                    self._unmade(f"operand {at} of {node!r}", value, everything, node)
            for at, value in enumerate(node.results):
                if value.node is not node or value.index != at or value in made:
                    self.fail(f"result {at} of {node!r}, {value.name!r}, is made elsewhere too", node)
                made.add(value)
                self._scope(f"{value.name!r}", value.extents, node)
            self._node(node)
        for value in graph.results:
            if value not in made:
                self._unmade("a result of it", value, everything, None)
        self._structure()

    def _unmade(self, what: str, value: Value, everything: set[Value], node: GraphNode | None) -> NoReturn:
        if value in everything:
            self.fail(f"{what}, {value.name!r}, is made only behind it", node)
        self.fail(
            f"{what}, {value.name!r}, is no parameter and made by no node of it",
            node,
            "what a graph inside a node reads is a parameter of it",
        )

    def _structure(self) -> None:
        graph = self.graph
        how, count = graph.structure, len(graph.results)
        if isinstance(how, tuple):
            if len(how) != count or len(set(how)) != count:
                self.fail(f"its {count} results are given back under the keys {how}")
        elif how not in ("one", "tuple") or (how == "one" and count != 1):
            self.fail(f"its {count} results are given back as {how!r}")
        several = [n for n in graph.nodes if not isinstance(n, (Op, Const))]
        for kept, of_node in ((graph.effects, "effects"), (graph.writes, "writes")):
            if kept != tuple(dict.fromkeys(g for n in several for g in getattr(n, of_node))):
                self.fail(f"the {of_node} that it keeps are not those of its nodes")

    def _scope(self, what: str, extents: Iterable[object], node: GraphNode | None = None) -> None:
        for extent in extents:
            if isinstance(extent, tuple):
                self._scope(what, extent, node)
            elif isinstance(extent, Expr) and id(extent) not in self.seen:
                for var in each(Var, extent):
                    if var not in self.vars:
                        self.fail(
                            f"{what} has an extent of {var.name!r}, which is no dim of it",
                            node,
                            "a dim is known from the shape of an input: give one that has it, or a number in its place",
                        )
                self.seen.add(id(extent))

    # Types

    def _node(self, node: GraphNode) -> None:
        wanted = self._types(node)
        if len(wanted) != len(node.results):
            self.fail(f"{node!r} has {len(node.results)} results, and makes {len(wanted)}", node)
        for value, kind in zip(node.results, wanted, strict=True):
            self._same(f"{value.name!r} is stated as {value.type}, and is {kind}", value.type, kind, node)
        if len(self.env.assumed) > self.assumed:
            a, b = self.env.assumed[-1]
            self.fail(f"{node!r} needs {a} and {b} to be equal, and the graph does not assume it", node)

    def _same(self, what: str, a: TensorType, b: TensorType, node: GraphNode) -> None:
        if not self.env.equal_types(a, b):
            self.fail(what, node)

    def _taken(self, what: str, params: Sequence[Value], given: Sequence[Value], node: GraphNode) -> None:
        if len(params) != len(given):
            self.fail(f"{what} of {node!r} takes {len(params)} values, got {len(given)}", node)
        for param, value in zip(params, given, strict=True):
            about = f"{what} of {node!r} takes {param.type} for {param.name!r}, got {value.type}"
            self._same(about, param.type, value.type, node)

    def _types(self, node: GraphNode) -> Sequence[TensorType]:
        """The types of a node's results, by what it is."""
        if isinstance(node, Const):
            return [TensorType(node.data.shape, node.data.dtype)]
        if isinstance(node, Load):
            return [node.source.type]
        rule = self.rules.get(type(node))
        if rule is None:
            self.fail(f"{type(node).__name__} is no node that is known", node)
        return rule(cast(Never, node))

    def _store(self, node: Store) -> Sequence[TensorType]:
        if len(node.inputs) != 1 or not self.env.equal_types(node.inputs[0], node.target):
            self.fail(f"{node!r} stores another type than {node.target.type}", node)
        if not node.target.mutable:
            self.fail(f"{node!r} stores to a state that never changes", node)
        return []

    def _call(self, node: Call) -> Sequence[TensorType]:
        self._taken("the graph", node.graph.params, node.inputs, node)
        return [v.type for v in node.graph.results]

    def _if(self, node: If) -> Sequence[TensorType]:
        if node.condition.type != ((), BOOL):
            self.fail(f"the condition of {node!r} is {node.condition.type}, and no bool without axes", node)
        self._taken("the graph for true", node.then_graph.params, node.inputs, node)
        self._taken("the graph for false", node.else_graph.params, node.inputs, node)
        if len(node.then_graph.results) != len(node.else_graph.results):
            self.fail(f"the two ways of {node!r} give different numbers of results", node)
        for a, b in zip(node.then_graph.results, node.else_graph.results, strict=True):
            self._same(f"the two ways of {node!r} give {a.type} and {b.type}", a.type, b.type, node)
        return [v.type for v in node.then_graph.results]

    def _while(self, node: While) -> Sequence[TensorType]:
        self._taken("the condition", node.condition.params, node.inputs, node)
        self._taken("the body", node.body.params, node.inputs, node)
        if [v.type for v in node.condition.results] != [((), BOOL)]:
            self.fail(f"the condition of {node!r} gives no bool without axes", node)
        if len(node.body.results) != len(node.inputs):
            self.fail(f"{node!r} carries {len(node.inputs)} values, its body gives {len(node.body.results)}", node)
        for a, b in zip(node.inputs, node.body.results, strict=True):
            self._same(f"{a.name!r}, which {node!r} carries, becomes {b.type}", a.type, b.type, node)
        return [v.type for v in node.inputs]

    def _debug(self, node: Debug) -> Sequence[TensorType]:
        if len(node.inputs) != 1:
            self.fail(f"{node!r} is of one value, got {len(node.inputs)}", node)
        if isinstance(node, Assert) and node.inputs[0].type != ((), BOOL):
            self.fail(f"what {node!r} asserts is {node.inputs[0].type}, and no bool without axes", node)
        return []

    def _operation(self, node: Op) -> Sequence[TensorType]:
        try:
            found = definition(node.name)
        except GraphError as error:
            self.fail(error.message, node, error.help)
        if len(node.groups) != len(found.parameters) or sum(abs(g or 0) for g in node.groups) != len(node.inputs):
            self.fail(f"{node!r} has {len(node.inputs)} operands in the groups {node.groups}", node)
        for parameter, group in zip(found.parameters, node.groups, strict=True):
            single = group is None and parameter.optional
            if not (group is not None and group >= 0 if parameter.variadic else group == -1 or single):
                self.fail(f"the operand {parameter.name!r} of {node!r} is given {group}", node)
        if set(node.attrs) != set(found.attributes):
            self.fail(f"{node!r} has the attributes {list(node.attrs)}, of {list(found.attributes)}", node)
        self._scope(f"an attribute of {node!r}", tuple(node.attrs.values()), node)
        try:
            return self.builder.infer(found, node.inputs, node.groups, dict(node.attrs))
        except GraphError as error:
            self.fail(f"{node!r} does not take its operands: {error.message}", node)

    def _kernel(self, node: KernelCall) -> Sequence[TensorType]:
        self._scope(f"a number of {node!r}", node.numbers, node)
        if isinstance(node.kernel, Extern):
            self._scope(f"a number of {node!r}", node.kernel.numbers, node)
        else:
            try:
                operands, results = ([v.type for v in several] for several in (node.inputs, node.results))
                fit(node.kernel, operands, results, node.numbers, self.env)
            except GraphError as error:
                self.fail(f"{node!r}: {error.message}", node)
        return [v.type for v in node.results]
