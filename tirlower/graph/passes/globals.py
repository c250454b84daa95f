"""Accesses of states: none that the graph can do without, and states that need not be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tirlower.graph.core.analysis import inner_graphs
from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.effects import OUTSIDE, Global, Load, Store
from tirlower.graph.core.module import Module
from tirlower.graph.core.nodes import Const, Graph, GraphNode, Value
from tirlower.graph.ops.builder import GraphBuilder, rewritten
from tirlower.graph.passes.base import GraphPass, policy
from tirlower.graph.passes.composites import OPAQUE
from tirlower.graph.passes.inner import everywhere
from tirlower.rewrite.context import PassContext

__all__ = ["FoldGlobals", "SimplifyGlobals"]


class SimplifyGlobals(GraphPass):
    """Access a state once where that is enough: a load behind a store or a load gives what was stored or loaded, a store
    that the next one overwrites is dropped, and so is one of what the state holds already.

    Nothing is known of a state behind a call, a choice or a loop that writes it; one that reads it needs the store before,
    and so does an assertion, at which a call may end.

    >>> import tirlower.graph as tg
    >>> print(SimplifyGlobals()(tg.parse('''
    ... @tg.graph
    ... def step(x: tg.Tensor((4,), "float32")):
    ...     h = tg.state("h", (4,), "float32", 0.0)
    ...     h.store(x)
    ...     a: tg.Tensor((4,), "float32") = h.load()
    ...     b: tg.Tensor((4,), "float32") = tg.exp(a)
    ...     h.store(b)
    ...     return a
    ... ''')))
    @tg.graph
    def step(x: tg.Tensor((4,), "float32")):
        h = tg.state("h", (4,), "float32", 0.0)
        b: tg.Tensor((4,), "float32") = tg.exp(x)
        h.store(b)
        return x
    """

    name = "graph.SimplifyGlobals"

    def transform(self, graph: Graph, ctx: PassContext) -> Graph:
        """The graph with fewer accesses."""
        before = None
        while graph is not before:  # a store that is gone may leave behind it one of what was there before
            before, graph = graph, _without_overwritten(_forwarded(graph))
        return graph


def _forwarded(graph: Graph) -> Graph:
    """The graph with what a state holds where it is known."""
    held: dict[Global, Value] = {}

    def visit(builder: GraphBuilder, node: GraphNode, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if isinstance(node, Load):
            known = held.setdefault(node.source, node.results[0])
            return None if known is node.results[0] else (known,)
        if isinstance(node, Store):
            if held.get(node.target) is operands[0]:
                return ()
            held[node.target] = operands[0]
            return None
        for one in node.writes:
            held.pop(one, None)
        return None

    return rewritten(graph, visit)


def _without_overwritten(graph: Graph) -> Graph:
    """The graph without stores that nobody reads before the next store."""
    covered: set[Global] = set()
    kept: list[GraphNode] = []
    for node in reversed(graph.nodes):
        if isinstance(node, Store):
            if node.target in covered:
                continue
            covered.add(node.target)
        elif OUTSIDE in node.effects:
            covered.clear()  # a call may end here, and states are seen when it has
        else:
            covered.difference_update(node.effects)
        kept.append(node)
    return graph if len(kept) == len(graph.nodes) else graph.with_(nodes=tuple(reversed(kept)))


class FoldGlobals(GraphPass):
    """Fold away states that nobody outside the graph sees (``tg.state(..., public=False)``).

    One that is never stored to is a constant, and so is one that only ever holds one constant; one that is never loaded
    is dropped; of two that hold the same all the time one is left. Public states are kept as they are.

    >>> import tirlower.graph as tg
    >>> print(FoldGlobals()(tg.parse('''
    ... @tg.graph
    ... def f(x: tg.Tensor((4,), "float32")):
    ...     scale = tg.state("scale", (4,), "float32", 2.0, public=False)
    ...     seen = tg.state("seen", (4,), "float32", 0.0, public=False)
    ...     a: tg.Tensor((4,), "float32") = scale.load()
    ...     b: tg.Tensor((4,), "float32") = tg.multiply(x, a)
    ...     seen.store(b)
    ...     return b
    ... ''')))
    @tg.graph
    def f(x: tg.Tensor((4,), "float32")):
        a = tg.constant("float32", (4,), 2.0)
        b: tg.Tensor((4,), "float32") = tg.multiply(x, a)
        return b
    """

    name = "graph.FoldGlobals"

    def on_module(self, module: Module, ctx: PassContext) -> Module:
        """The module with its graphs rewritten, in which states that several of them access are left."""
        count = Counter(one for graph in module.graphs.values() for one in dict.fromkeys(_states(graph)))
        shared = {one for one, n in count.items() if n > 1}
        return module.with_({name: self._all(graph, ctx, shared) for name, graph in module.graphs.items()})

    def rewritten(self, program: Graph, ctx: PassContext) -> Graph:
        """The graph with fewer states: what is done with one is decided for all graphs inside it at once."""
        return self._all(program, ctx, ())

    def _all(self, program: Graph, ctx: PassContext, shared: Collection[Global]) -> Graph:
        before = None
        while program is not before and self.numerics <= policy(ctx):
            before, program = program, _folded(program, shared)
        return program


def _states(graph: Graph) -> Iterator[Global]:
    for one in (*inner_graphs(graph), graph):
        yield from (n.source if isinstance(n, Load) else n.target for n in one.nodes if isinstance(n, (Load, Store)))


@dataclass
class _Accesses:
    """All accesses of a state, by the graphs in which they stand."""

    loads: int = 0
    stores: list[Store] = field(default_factory=list)
    written: dict[Graph, list[Value]] = field(default_factory=dict)
    """What each graph stores, in order."""


def _folded(graph: Graph, shared: Collection[Global]) -> Graph:
    several = (*inner_graphs(graph), graph)
    found: dict[Global, _Accesses] = {}
    kept: set[Global] = set(shared)
    for one in several:
        for node in one.nodes:
            if not isinstance(node, (Load, Store)):
                continue
            state = node.source if isinstance(node, Load) else node.target
            accesses = found.setdefault(state, _Accesses())
            if state.public or any(name in one.attrs for name in OPAQUE):
                kept.add(state)
            if isinstance(node, Load):
                accesses.loads += 1
            else:
                accesses.stores.append(node)
                accesses.written.setdefault(one, []).append(node.inputs[0])
    private = {state: accesses for state, accesses in found.items() if state not in kept}
    constant: dict[Global, ConstantData] = {}
    for state, accesses in private.items():
        data = _only(state, accesses, graph)
        if data is not None:
            constant[state] = data
    dropped = {state for state, accesses in private.items() if not accesses.loads} | set(constant)
    same = _twins({state: a for state, a in private.items() if state not in dropped})
    if not dropped and not same:
        return graph

    def visit(builder: GraphBuilder, node: GraphNode, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if isinstance(node, Load) and node.source in constant:
            return (builder.const(constant[node.source], node.results[0].name),)
        if isinstance(node, Load) and node.source in same:
            return (builder.load(same[node.source]),)
        return () if isinstance(node, Store) and (node.target in dropped or node.target in same) else None

    return everywhere(graph, lambda one: rewritten(one, visit))


def _only(state: Global, accesses: _Accesses, entry: Graph) -> ConstantData | None:
    """The contents that a state has whenever it is loaded; None where they may be of two kinds."""
    if not accesses.stores:
        return state.initial
    made = [store.inputs[0].node for store in accesses.stores]
    several = [node.data for node in made if isinstance(node, Const)]
    if len(several) < len(made) or any(data != several[0] for data in several):
        return None
    first = next(node for node in entry.nodes if state in node.effects)
    # A call that begins with the store never sees what was there at first.
    return several[0] if isinstance(first, Store) or several[0] == state.initial else None


def _twins(states: Mapping[Global, _Accesses]) -> Mapping[Global, Global]:
    """The states that always hold what another one does, and which."""
    alike: dict[object, list[Global]] = {}
    for state, accesses in states.items():
        written = tuple((graph, tuple(values)) for graph, values in accesses.written.items())
        alike.setdefault((str(state.type), written), []).append(state)
    same: dict[Global, Global] = {}
    for group in alike.values():
        for n, state in enumerate(group):
            others = (one for one in group[:n] if one not in same and one.initial == state.initial)
            twin = next((one for one in others if _together(one, state, states[state].written)), None)
            if twin is not None:
                same[state] = twin
    return same


def _together(a: Global, b: Global, graphs: Iterable[Graph]) -> bool:
    """Whether two states are always stored to one right behind the other, as far as their accesses go."""
    for graph in graphs:
        # Where a call may end between the two stores, one is done and the other is not.
        touching = [node for node in graph.nodes if any(one in node.effects for one in (a, b, OUTSIDE))]
        places = [n for n, node in enumerate(touching) if isinstance(node, Store)]
        for x, y in zip(places[::2], places[1::2], strict=True):
            first, second = touching[x], touching[y]
            assert isinstance(first, Store) and isinstance(second, Store)
            if y != x + 1 or first.target is second.target or first.inputs[0] is not second.inputs[0]:
                return False
    return True
