"""One operation run by the reference and compared with arrays that something else computed.

Each check runs the operation three times: with its shapes as numbers, with every extent above 1 as a dim (equal ones as one
dim), and precisely.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pytest

from tirlower.graph.core.dims import Dim, dim
from tirlower.graph.core.nodes import Graph
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.ops.evaluate import extent_value
from tirlower.graph.ops.interpret import bound, interpret

TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-5, "float64": 1e-11}


def built(name: str, arrays: Sequence[np.ndarray | None], dims: dict[int, Dim], attrs: dict[str, object]) -> Graph:
    """A graph of one operation on inputs like arrays, with a dim where an extent has one."""
    b = GraphBuilder(name, dims.values())
    operands = [
        None if a is None else b.param(f"x{n}", tuple(dims.get(e, e) for e in a.shape), a.dtype.name)
        for n, a in enumerate(arrays)
    ]
    return b.finish(b.ops(name, *operands, **attrs))


def run(name: str, *arrays: np.ndarray | None, **attrs: object) -> tuple[np.ndarray, ...]:
    """The results of an operation on arrays."""
    made = interpret(built(name, arrays, {}, attrs), *[a for a in arrays if a is not None])
    assert isinstance(made, tuple)
    return made


def check(
    name: str,
    want: object,
    *arrays: np.ndarray | None,
    dynamic: bool = True,
    fixed: Collection[int] = (),
    rtol: float | None = None,
    **attrs: object,
) -> None:
    """The operation gives what is wanted: an array, or a tuple of them. Extents that are ``fixed`` stay numbers."""
    wanted = want if isinstance(want, tuple) else (want,)
    given = [a for a in arrays if a is not None]
    sizes = sorted({e for a in given for e in a.shape if e > 1 and e not in fixed}) if dynamic else []
    for dims in ({}, {e: dim(f"D{e}", 1) for e in sizes}) if sizes else ({},):
        graph = built(name, arrays, dims, attrs)
        made = interpret(graph, *given)
        assert isinstance(made, tuple) and len(made) == len(wanted)
        values = bound(graph, given)
        for value, got, expected in zip(graph.results, made, wanted, strict=True):
            same(got, np.asarray(expected), rtol)
            assert tuple(extent_value(e, values) for e in value.shape) == got.shape
            assert value.dtype.numpy == got.dtype
    for got, expected in zip(interpret(graph, *given, precise=True), wanted, strict=True):
        if TOLERANCE.get(np.asarray(expected).dtype.name):
            assert got.dtype == np.float64
            widest = rtol or TOLERANCE[np.asarray(expected).dtype.name] * 4
            np.testing.assert_allclose(got, np.asarray(expected, np.float64), rtol=widest, atol=widest)


def same(got: np.ndarray, want: np.ndarray, rtol: float | None = None) -> None:
    """Equal in dtype, shape and elements, floats nearly."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    near = TOLERANCE.get(want.dtype.name)
    if near is None:
        np.testing.assert_array_equal(got, want)
    else:
        near = rtol or near
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=near, atol=near)


def refused(match: str, name: str, *arrays: np.ndarray | None, **attrs: object) -> None:
    """The operation is refused for these operands, with a message that says so."""
    with pytest.raises(GraphError, match=match):
        run(name, *arrays, **attrs)


def floats(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    """Normally distributed numbers."""
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


def integers(*shape: int, low: int = -9, high: int = 10, seed: int = 0, dtype: str = "int32") -> np.ndarray:
    """Whole numbers from ``low`` to below ``high``."""
    return np.random.default_rng([seed, *shape]).integers(low, high, size=shape).astype(dtype)
