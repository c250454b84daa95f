"""A graph run node by node by the reference of each operation: what everything else is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tirlower.graph.core.dims import Dim, DimEnv
from tirlower.graph.core.nodes import Const, Graph, GraphNode, Op, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.ops.evaluate import bind_dims, evaluate, extent_value
from tirlower.graph.ops.inference import loops
from tirlower.graph.ops.registry import definition
from tirlower.ir import Var
from tirlower.ir.dtype import Array

__all__ = ["bound", "interpret", "run_nodes"]


def interpret(graph: Graph, *arrays: object, precise: bool = False) -> Array | tuple[Array, ...] | dict[str, Array]:
    """The results of a graph on arrays, as the graph gives them back: one, a tuple, or a dict.

    Macros are opened, and each operation is computed by NumPy from its definition; ``precise`` computes floats, and returns
    them, in float64. Raises :class:`GraphError` for inputs that do not fit, naming the input and the dim.

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
    run_nodes(graph.nodes, values, DimEnv(graph.dims), dims, precise, keep=graph.results)
    made = tuple(values[value] for value in graph.results)
    if graph.structure == "one":
        return made[0]
    return made if graph.structure == "tuple" else dict(zip(graph.structure, made, strict=True))


def bound(graph: Graph, arrays: Sequence[Array]) -> dict[Var, int]:
    """The values of a graph's dims, from the shapes of its inputs. Raises :class:`GraphError` where an input does not fit."""
    if len(arrays) != len(graph.params):
        names = ", ".join(p.name for p in graph.params)
        raise GraphError(f"{graph.name} has {len(graph.params)} inputs ({names}), got {len(arrays)}")
    values: dict[Var, int] = {}
    for _ in range(2):  # an expression may stand before the dim that it is of
        for param, array in zip(graph.params, arrays, strict=True):
            if array.dtype != param.dtype.numpy:
                raise GraphError(f"the input {param.name} is of {param.dtype!s}, got {array.dtype}")
            bind_dims(f"the input {param.name}", param.shape, array.shape, values)
    for one in graph.dims:
        _admitted(one, values)
    for a, b in graph.assumed:
        x, y = extent_value(a, values), extent_value(b, values)
        if x != y:
            raise GraphError(f"{graph.name} needs {a} and {b} equal, got {x} and {y}")
    return values


def _admitted(one: Dim, values: Mapping[Var, int]) -> None:
    value = values.get(one.var)
    if value is not None and not one.admits(value):
        raise GraphError(f"the dim {one.name} is {value}, but {one.facts} is stated")


def run_nodes(
    nodes: Sequence[GraphNode],
    values: dict[Value, Array],
    env: DimEnv,
    dims: Mapping[Var, int],
    precise: bool,
    keep: Sequence[Value] = (),
) -> None:
    """Compute the results of nodes, in order, into ``values``, out of which goes what neither they nor ``keep`` need."""
    last: dict[Value, GraphNode] = {}
    for each in nodes:
        for value in (*each.results, *each.operands):
            last[value] = each
    for value in keep:
        last.pop(value, None)
    for each in nodes:
        try:
            _run(each, values, env, dims, precise)
        except GraphError as error:
            if each.origin:
                error.notes.append(f"at {each.origin}")
            raise
        for value in dict.fromkeys((*each.results, *each.operands)):
            if last.get(value) is each:
                values.pop(value, None)


def _run(node: GraphNode, values: dict[Value, Array], env: DimEnv, dims: Mapping[Var, int], precise: bool) -> None:
    if isinstance(node, Const):
        array = node.data.numpy()
        values[node.results[0]] = array.astype(np.float64) if precise and node.data.dtype.is_float else array
        return
    if not isinstance(node, Op):
        raise GraphError(f"the reference does not run {type(node).__name__}")
    found = definition(node.name)
    if found.is_macro:
        inside = GraphBuilder(found.name, env=env)
        made = found.expand(inside, node.inputs, node.groups, node.attrs)
        inner = {value: values[value] for value in node.inputs}
        run_nodes(inside.nodes, inner, env, dims, precise, keep=(*node.inputs, *made))
        values.update(zip(node.results, [inner[value] for value in made], strict=True))
        return
    generic = loops(found, [value.type for value in node.inputs], node.groups, node.attrs, env)
    arrays = evaluate(generic, *[values[value] for value in node.inputs], dims=dims, precise=precise)
    values.update(zip(node.results, arrays, strict=True))
