"""The oracle of traced functions: the same function on arrays. Graphs are run by the reference."""

from __future__ import annotations

import numpy as np

import tirlower.graph as tg


def run(graph, *arrays):
    """The results of a graph, as a list."""
    made = tg.interpret(graph, *arrays)
    several = made.values() if isinstance(made, dict) else made if isinstance(made, tuple) else [made]
    for value, array in zip(graph.results, several, strict=True):
        assert array.dtype.name == value.dtype, (value, array.dtype)
    return list(several)


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
    """The traced function computes what it computes on arrays: shapes, dtypes and values."""
    wanted = function(*arrays)
    several = list(wanted.values()) if isinstance(wanted, dict) else wanted
    several = list(several) if isinstance(several, (tuple, list)) else [several]
    for how in dynamic:
        graph = traced(function, *arrays, dynamic=how)
        for got, want in zip(run(graph, *arrays), map(np.asarray, several), strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype), how
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    return graph
