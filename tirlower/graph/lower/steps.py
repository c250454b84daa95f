"""What a compiled graph does, as statements: kernels on places, choices, loops.

A place is named by the value that has memory of its own: an input, a result, a constant, what a state holds, or a value of
the arena. Other values stand for the place of one of these: the parameters of a graph inside a node for what it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Never, TypeAlias, cast

from tirlower.graph.core.analysis import analysis
from tirlower.graph.core.control import Call, If, While
from tirlower.graph.core.debug import Assert, Debug, Print
from tirlower.graph.core.dims import DimEnv
from tirlower.graph.core.effects import Extern, Global, KernelCall, Load, Store
from tirlower.graph.core.nodes import Const, Graph, GraphNode, Op, TensorType, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.ops.kernels import closed, numbers_of, scalars_of
from tirlower.graph.passes.expand import expand
from tirlower.ir import Expr, PrimFunc, build
from tirlower.ir.dtype import DataType

__all__ = ["Choice", "DebugStep", "ExternStep", "KernelStep", "Loop", "Part", "Step", "steps_of", "with_copied_results"]


@dataclass(frozen=True)
class KernelStep:
    """A call of a kernel on places, operands first; ``numbers`` are its scalars, None where they are dims of its own names."""

    node: GraphNode
    kernel: str
    places: tuple[Value, ...]
    numbers: tuple[Expr, ...] | None = None


@dataclass(frozen=True)
class ExternStep:
    """A call of machine code on places; ``workspace`` is the place of the memory that it wants."""

    node: KernelCall
    extern: Extern
    places: tuple[Value, ...]
    workspace: Value | None


@dataclass(frozen=True)
class DebugStep:
    """An assertion or a print of what is at a place."""

    node: Debug
    place: Value

    @property
    def places(self) -> tuple[Value, ...]:
        """The one place."""
        return (self.place,)


@dataclass(frozen=True)
class Choice:
    """One of two lists of steps, by a bool at a place."""

    condition: Value
    then: tuple[Step, ...]
    otherwise: tuple[Step, ...]


@dataclass(frozen=True)
class Loop:
    """Steps that are repeated as long as a bool at a place is true; ``again`` makes it, before them and after them."""

    condition: Value
    again: tuple[Step, ...]
    body: tuple[Step, ...]


@dataclass(frozen=True)
class Part:
    """Steps that a prim func of their own makes, and the places that they name: outside of the arena, and in it."""

    steps: tuple[Step, ...]
    outside: tuple[Value, ...]
    arena: tuple[Value, ...]


UINT8 = DataType("uint8")
Step: TypeAlias = "KernelStep | ExternStep | DebugStep | Choice | Loop | Part"

OpKernel: TypeAlias = Callable[[Op], tuple[str, tuple[Value, ...]]]
"""The kernel of an operation, and the operands that it takes as tensors."""


def with_copied_results(graph: Graph) -> Graph:
    """The graph with a copy for each result that no node of it makes in memory of its own: results never alias."""
    builder = GraphBuilder(graph.name, env=DimEnv(graph.dims))
    builder.env.assume_all(graph.assumed)
    builder.nodes += graph.nodes
    for value in (*graph.params, *(v for n in graph.nodes for v in n.results)):
        builder.named(value.name)
    results: list[Value] = []
    for value in graph.results:
        own = _has_place(value) and value not in results
        results.append(value if own else builder.op("identity", value))
    if all(a is b for a, b in zip(results, graph.results, strict=True)):
        return graph
    return graph.with_(nodes=tuple(builder.nodes), results=tuple(results))


def _has_place(value: Value) -> bool:
    """Whether the node of a value writes it to where it is wanted."""
    if isinstance(value.node, While):  # what a loop does not change is read where it is
        body = value.node.body
        return body.results[value.index] is not body.params[value.index]
    return isinstance(value.node, (Op, If, Call, KernelCall))


def steps_of(
    graph: Graph,
    states: Mapping[Global, Value],
    op_kernel: OpKernel,
    prim_func: Callable[[PrimFunc, GraphNode], str],
) -> tuple[Step, ...]:
    """The steps of a graph whose results have memory of their own (:func:`with_copied_results`)."""
    return tuple(_Planner(states, op_kernel, prim_func).graph(graph, {}))


class _Planner:
    def __init__(
        self,
        states: Mapping[Global, Value],
        op_kernel: OpKernel,
        prim_func: Callable[[PrimFunc, GraphNode], str],
    ) -> None:
        self.states = states
        self.op_kernel = op_kernel
        self.prim_func = prim_func
        self.copied: dict[Graph, Graph] = {}
        self.rules: dict[type, Callable[[Never, dict[Value, Value], Graph], list[Step]]] = {
            Op: self._op,
            Load: self._load,
            Store: self._store,
            KernelCall: self._kernel,
            Call: self._call,
            If: self._if,
            While: self._while,
            Assert: self._debug,
            Print: self._debug,
        }

    def graph(self, graph: Graph, places: dict[Value, Value]) -> list[Step]:
        """The steps of a graph, of whose values ``places`` says where some are; it learns where the others are."""
        made: list[Step] = []
        for node in graph.nodes:
            if isinstance(node, Const):
                continue
            rule = self.rules.get(type(node))
            if rule is None:
                raise GraphError(f"{type(node).__name__} cannot be compiled")
            made += rule(cast(Never, node), places, graph)
        return made

    def inside(self, graph: Graph, given: Sequence[Value], results: Sequence[Value] | None) -> tuple[Graph, list[Step]]:
        """A graph inside a node, whose results are to be made in places (their own, without); and its steps."""
        copied = self.copied.get(graph)
        if copied is None:
            copied = self.copied[graph] = with_copied_results(expand(graph))
        places = dict(zip(copied.params, given, strict=True))
        places.update(zip(copied.results, copied.results if results is None else results, strict=True))
        return copied, self.graph(copied, places)

    def copy(self, source: Value, target: Value) -> list[Step]:
        """A step that copies what is at a place to another."""
        if source is target:
            return []
        node = Op((Value.of(source.type, target.name),), "identity", (source,), (-1,), {}, origin="")
        name, operands = self.op_kernel(node)
        return [KernelStep(node, name, (*operands, target))]

    def _op(self, node: Op, places: dict[Value, Value], graph: Graph) -> list[Step]:
        name, operands = self.op_kernel(node)
        return [KernelStep(node, name, tuple(places.get(v, v) for v in (*operands, *node.results)))]

    def _kernel(self, node: KernelCall, places: dict[Value, Value], graph: Graph) -> list[Step]:
        several = tuple(places.get(v, v) for v in (*node.inputs, *node.results))
        if isinstance(node.kernel, Extern):
            size = node.kernel.workspace
            work = Value.of(TensorType((size,), UINT8), f"{node.name}_workspace") if size else None
            return [ExternStep(node, node.kernel, several, work)]
        kernel = closed(node.kernel)
        numbers = numbers_of(kernel, [v.type for v in (*node.inputs, *node.results)], node.numbers)
        given = tuple(build.cast(p.dtype, numbers[p]) for p in scalars_of(kernel))
        return [KernelStep(node, self.prim_func(kernel, node), several, given)]

    def _load(self, node: Load, places: dict[Value, Value], graph: Graph) -> list[Step]:
        value, state = node.results[0], self.states[node.source]
        if self._is_stable(node, graph):
            places[value] = state
            return []
        return self.copy(state, places.get(value, value))

    def _is_stable(self, node: Load, graph: Graph) -> bool:
        """Whether the state holds the value as long as it is read: no copy is needed."""
        known, value = analysis(graph), node.results[0]
        users = known.users(value)
        # What reads a value through graphs inside may give it back under another name.
        if known.is_result(value) or any(not isinstance(user, (Op, Store, KernelCall, Debug)) for user, _ in users):
            return not node.source.mutable
        first, last = known.index[node], known.last_use.get(value, 0)
        return not any(node.source in other.writes for other in graph.nodes[first + 1 : last])

    def _store(self, node: Store, places: dict[Value, Value], graph: Graph) -> list[Step]:
        value = node.inputs[0]
        return self.copy(places.get(value, value), self.states[node.target])

    def _call(self, node: Call, places: dict[Value, Value], graph: Graph) -> list[Step]:
        given = [places.get(v, v) for v in node.inputs]
        return self.inside(node.graph, given, [places.get(v, v) for v in node.results])[1]

    def _debug(self, node: Debug, places: dict[Value, Value], graph: Graph) -> list[Step]:
        return [DebugStep(node, places.get(node.inputs[0], node.inputs[0]))]

    def _if(self, node: If, places: dict[Value, Value], graph: Graph) -> list[Step]:
        given = [places.get(v, v) for v in node.inputs]
        results = [places.get(v, v) for v in node.results]
        then, otherwise = (tuple(self.inside(g, given, results)[1]) for g in node.graphs)
        return [Choice(places.get(node.condition, node.condition), then, otherwise)]

    def _while(self, node: While, places: dict[Value, Value], graph: Graph) -> list[Step]:
        """What is carried is copied to the places of the results, and there from the places of the body's results."""
        made: list[Step] = []
        carried: list[Value] = []
        kept = [a is b for a, b in zip(node.body.params, node.body.results, strict=True)]
        for value, result, same in zip(node.inputs, node.results, kept, strict=True):
            place = places.get(value, value)
            if same:  # what never changes is read where it is
                places[result] = place
            else:
                made += self.copy(place, places.get(result, result))
                place = places.get(result, result)
            carried.append(place)
        condition, again = self.inside(node.condition, carried, None)
        new = [r for r, same in zip(node.body.results, kept, strict=True) if not same]
        body, steps = self.inside(node.body.with_(results=tuple(new), structure="tuple"), carried, None)
        changing = [place for place, same in zip(carried, kept, strict=True) if not same]
        for source, target in zip(body.results, changing, strict=True):
            steps += self.copy(source, target)
        return [*made, Loop(condition.results[0], tuple(again), tuple(steps))]
