"""The oracle of traced functions: the same function on arrays. Graphs are run by the reference."""

from __future__ import annotations

import numpy as np

import tirlower.graph as tg
from tirlower.graph import Const, Graph


def run(graph, *arrays):
    """The results of a graph, as a list."""
    made = tg.interpret(graph, *arrays)
    several = made.values() if isinstance(made, dict) else made if isinstance(made, tuple) else [made]
    for value, array in zip(graph.results, several, strict=True):
        assert array.dtype.name == value.dtype, (value, array.dtype)
    return list(several)


def store_of(graph):
    """The constants of a graph by digest."""
    return {n.data.digest: n.data for n in graph.nodes if isinstance(n, Const)}


def described(graph):
    """A graph without its names: values by number, everything else as it is."""
    numbers = {v: n for n, v in enumerate([*graph.params, *(v for node in graph.nodes for v in node.results)])}
    nodes = []
    for node in graph.nodes:
        types = [str(v.type) for v in node.results]
        if isinstance(node, Const):
            nodes.append((node.data, types))
        else:
            attrs = {k: (type(v), repr(v)) for k, v in node.attrs.items()}
            nodes.append((node.name, [numbers[v] for v in node.inputs], node.groups, attrs, types))
    return (
        [repr(d) + str(d.hints) for d in graph.dims],
        [str(v.type) for v in graph.params],
        nodes,
        [numbers[v] for v in graph.results],
        [(str(a), str(b)) for a, b in graph.assumed],
        graph.structure,
        graph.attrs,
    )


def run_as_python(text):
    """The graph that the text of one makes when Python runs it."""
    scope = {}
    exec(compile("import tirlower.graph as tg\n" + text, "<text>", "exec"), scope)
    return next(v for v in scope.values() if isinstance(v, Graph))


def check_text(graph):
    """The text of a graph parses to the same graph, and runs as Python to it. The parsed graph."""
    text = str(graph)
    parsed = tg.parse(text, constants=store_of(graph))
    assert described(parsed) == described(graph)
    assert str(parsed) == text
    assert described(run_as_python(text)) == described(graph)
    return parsed


def traced(function, *arrays, dynamic=False):
    """The graph of a function for arrays like these; ``dynamic``: their first axes are dims, equal ones the same."""
    dims = {}

    def spec(array):
        if not dynamic or not array.ndim:
            return tg.spec(array.shape, array.dtype)
        n = array.shape[0]
        return tg.spec((dims.setdefault(n, tg.dim(f"N{n}", 1)), *array.shape[1:]), array.dtype)

    return tg.trace(function, *map(spec, arrays))


def check(function, *arrays, dynamic=(False, True), tolerance=1e-6):
    """The traced function computes what it computes on arrays: shapes, dtypes and values, also behind its text."""
    wanted = function(*arrays)
    several = list(wanted.values()) if isinstance(wanted, dict) else wanted
    several = list(several) if isinstance(several, (tuple, list)) else [several]
    for how in dynamic:
        graph = traced(function, *arrays, dynamic=how)
        parsed = check_text(graph)
        for got, want in zip(run(parsed, *arrays), map(np.asarray, several), strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype), how
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    return graph
