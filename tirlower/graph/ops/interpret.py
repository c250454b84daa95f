"""A graph run node by node by the reference of each operation: what everything else is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tirlower.graph.core.control import Call, If, While
from tirlower.graph.core.debug import Assert, Debug, Said, check, tensor_text
from tirlower.graph.core.dims import DimEnv
from tirlower.graph.core.effects import OUTSIDE, Extern, KernelCall, Load, Store
from tirlower.graph.core.nodes import Const, Graph, GraphNode, Op, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.binding import bound_dims
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.ops.evaluate import evaluate, extent_value
from tirlower.graph.ops.inference import loops, opaque
from tirlower.graph.ops.kernels import closed, numbers_of
from tirlower.graph.ops.opaque import run_reference
from tirlower.graph.ops.registry import definition
from tirlower.ir import Var
from tirlower.ir.dtype import Array, DataType

__all__ = ["bound", "interpret", "run_nodes"]


def interpret(
    graph: Graph,
    *arrays: object,
    precise: bool = False,
    state: dict[str, Array] | None = None,
    said: list[Said] | None = None,
) -> Array | tuple[Array, ...] | dict[str, Array]:
    """The results of a graph on arrays, as the graph gives them back: one, a tuple, or a dict.

    Macros are opened, and each operation is computed by NumPy from its definition; ``precise`` computes floats, and returns
    them, in float64. ``state`` holds what the states of the graph hold, by name, and is changed; without it they hold what
    they do at first. What assertions and prints say goes to the list ``said``; without it a print prints, and an assertion
    that does not hold is a :class:`tirlower.RuntimeAssertError`. Raises :class:`GraphError` for inputs that do not fit, naming the input and the dim.

    >>> b = GraphBuilder()
    >>> x = b.param("x", (2, 3), "float32")
    >>> interpret(b.finish(b.op("sum", b.op("multiply", x, 2.0), axis=1)), np.ones((2, 3), "float32")).tolist()
    [6.0, 6.0]
    """
    given = [np.asarray(array) for array in arrays]
    dims = bound(graph, given)
    values: dict[Value, Array] = {}
    for param, array in zip(graph.params, given, strict=True):
        values[param] = array.astype(np.float64) if precise and param.dtype.is_float else array
    held = {} if state is None else state
    for one in graph.effects:
        if one is not OUTSIDE:
            held.setdefault(one.name, one.initial.numpy().copy())
    run = _Run(DimEnv(graph.dims), dims, precise, held, said)
    run.nodes(graph.nodes, values, keep=graph.results)
    made = tuple(values[value] for value in graph.results)
    if graph.structure == "one":
        return made[0]
    return made if graph.structure == "tuple" else dict(zip(graph.structure, made, strict=True))


def bound(graph: Graph, arrays: Sequence[Array]) -> dict[Var, int]:
    """The values of a graph's dims, from the shapes of its inputs. Raises :class:`GraphError` where an input does not fit."""
    if len(arrays) != len(graph.params):
        names = ", ".join(p.name for p in graph.params)
        raise GraphError(
            f"{graph.name} has {len(graph.params)} inputs ({names}), got {len(arrays)}",
            help="give an array for each, in this order",
        )
    for param, array in zip(graph.params, arrays, strict=True):
        if array.dtype != param.dtype.numpy:
            raise GraphError(
                f"the input {param.name} is of {param.dtype!s}, got {array.dtype}",
                help=f'array.astype("{param.dtype!s}")',
            )
    return bound_dims(graph, [array.shape for array in arrays])


def run_nodes(
    nodes: Sequence[GraphNode],
    values: dict[Value, Array],
    env: DimEnv,
    dims: Mapping[Var, int],
    precise: bool,
    keep: Sequence[Value] = (),
) -> None:
    """Compute the results of nodes, in order, into ``values``, out of which goes what neither they nor ``keep`` need.

    Assertions and prints say nothing.
    """
    _Run(env, dims, precise, {}, []).nodes(nodes, values, keep)


def _given(node: GraphNode, values: Mapping[Value, Array]) -> list[Array]:
    """What a node reads. Raises :class:`GraphError` for a value that nothing before it has made."""
    for value in node.operands:
        if value not in values:
            raise GraphError(
                f"{node!r} reads {value.name!r}, which is no parameter and made by no node before it",
                help="build a graph of its own values; what a graph inside a node reads is a parameter of it",
            )
    return [values[value] for value in node.operands]


class _Run:
    def __init__(
        self, env: DimEnv, dims: Mapping[Var, int], precise: bool, states: dict[str, Array], said: list[Said] | None
    ) -> None:
        self.env = env
        self.dims = dims
        self.precise = precise
        self.states = states
        self.said = said

    def nodes(self, nodes: Sequence[GraphNode], values: dict[Value, Array], keep: Sequence[Value] = ()) -> None:
        """Compute the results of nodes, in order, into ``values``; out of it goes what neither they nor ``keep`` need."""
        last: dict[Value, GraphNode] = {}
        for each in nodes:
            for value in (*each.results, *each.operands):
                last[value] = each
        for value in keep:
            last.pop(value, None)
        for each in nodes:
            try:
                made = self.node(each, _given(each, values))
            except GraphError as error:
                if each.origin:
                    error.notes.append(f"at {each.origin}")
                raise
            values.update(zip(each.results, made, strict=True))
            for value in dict.fromkeys((*each.results, *each.operands)):
                if last.get(value) is each:
                    values.pop(value, None)

    def graph(self, graph: Graph, arrays: Sequence[Array]) -> list[Array]:
        """The results of a graph inside a node."""
        values = dict(zip(graph.params, arrays, strict=True))
        self.nodes(graph.nodes, values, keep=(*graph.params, *graph.results))
        return [values[v] for v in graph.results]

    def node(self, node: GraphNode, given: Sequence[Array]) -> Sequence[Array]:
        """The results of a node on its operands."""
        if isinstance(node, Op):
            return self.operation(node, given)
        if isinstance(node, Const):
            return [self._kept(node.data.numpy())]
        if isinstance(node, (Load, Store)):
            return self.access(node, given)
        if isinstance(node, KernelCall):
            return self.kernel(node, given)
        return self.control(node, given)

    def operation(self, node: Op, given: Sequence[Array]) -> Sequence[Array]:
        """By its definition."""
        found = definition(node.name)
        if found.is_macro:
            inside = GraphBuilder(found.name, env=self.env)
            made = found.expand(inside, node.inputs, node.groups, node.attrs)
            values = dict(zip(node.inputs, given, strict=True))
            self.nodes(inside.nodes, values, keep=(*node.inputs, *made))
            return [values[value] for value in made]
        if found.is_opaque:
            made_of = opaque(found, [value.type for value in node.inputs], node.groups, node.attrs, self.env)
            return run_reference(made_of, given, self.dims, self.precise)
        generic = loops(found, [value.type for value in node.inputs], node.groups, node.attrs, self.env)
        return evaluate(generic, *given, dims=self.dims, precise=self.precise)

    def control(self, node: GraphNode, given: Sequence[Array]) -> Sequence[Array]:
        """What has graphs inside; and what watches."""
        if isinstance(node, Debug):
            return self.debug(node, given[0])
        if isinstance(node, Call):
            return self.graph(node.graph, given)
        if isinstance(node, If):
            return self.graph(node.then_graph if given[0].item() else node.else_graph, given[1:])
        if isinstance(node, While):
            while self.graph(node.condition, given)[0].item():
                given = self.graph(node.body, given)
            return given
        raise GraphError(f"the reference does not run {type(node).__name__}")

    def access(self, node: Load | Store, given: Sequence[Array]) -> Sequence[Array]:
        """What a state holds, and what it holds from here on."""
        if isinstance(node, Load):
            held = self.states.get(node.source.name) if node.source.mutable else None
            return [self._kept(node.source.initial.numpy() if held is None else held.copy())]
        self.states[node.target.name] = given[0].astype(node.target.dtype.numpy)
        return []

    def debug(self, node: Debug, given: Array) -> Sequence[Array]:
        """What an assertion or a print says, to whoever listens."""
        if self.said is not None:
            self.said.append(Said(type(node), node.text, given.copy()))
        elif isinstance(node, Assert):
            check(node, given)
        else:
            print(tensor_text(given, node.text))
        return []

    def kernel(self, node: KernelCall, given: Sequence[Array]) -> Sequence[Array]:
        """By the interpreter of prim funcs."""
        if isinstance(node.kernel, Extern):
            raise GraphError(f"the reference knows nothing of {node.kernel.symbol!r}, which is machine code")
        from tirlower.interp import interpret as interpret_function

        kernel = closed(node.kernel)
        types = [v.type for v in (*node.inputs, *node.results)]
        numbers = numbers_of(kernel, types, node.numbers)
        plain = [np.ascontiguousarray(a.astype(v.dtype.numpy)) for a, v in zip(given, node.inputs, strict=True)]
        shapes = [tuple(extent_value(e, self.dims) for e in v.extents) for v in node.results]
        made = [np.zeros(s, v.dtype.numpy) for s, v in zip(shapes, node.results, strict=True)]
        tensors = iter([*plain, *made])
        interpret_function(
            kernel,
            *[next(tensors) if p in kernel.buffer_map else extent_value(numbers[p], self.dims) for p in kernel.params],
        )
        return [self._kept(a) for a in made]

    def _kept(self, array: Array) -> Array:
        return array.astype(np.float64) if self.precise and DataType.from_numpy(array.dtype).is_float else array
