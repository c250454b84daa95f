"""Scattered elements against loops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tirlower as tl
import tirlower.graph as tg
from tests.graph.ops.checking import check, floats, integers, refused
from tirlower.ir.dtype import DataType

pytestmark = pytest.mark.by_day

X = floats(4, 5, 3)
COMBINE: dict[str, Callable[[np.float32, np.float32], np.float32]] = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "max": np.maximum,
    "min": np.minimum,
}


@pytest.mark.parametrize("reduction", COMBINE)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter_elements(axis: int, reduction: str) -> None:
    for shape in ((4, 5, 3), (2, 3, 2), (1, 1, 1), (0, 2, 1)):
        size = X.shape[axis]
        at, new = integers(*shape, low=-size, high=size), floats(*shape, seed=1)
        want = X.copy()
        for place in np.ndindex(*shape):
            there = list(place)
            there[axis] = int(at[place]) % size
            want[tuple(there)] = COMBINE[reduction](want[tuple(there)], new[place])
        check("scatter_elements", want, X, at, new, axis=axis, reduction=reduction)


@pytest.mark.parametrize("reduction", COMBINE)
def test_scatter_nd(reduction: str) -> None:
    for at in (np.array([[0, 1], [-1, 2], [0, 1]]), np.array([[[1], [3]], [[1], [0]]]), np.zeros((0, 2), np.int64)):
        depth = at.shape[-1]
        new = floats(*at.shape[:-1], *X.shape[depth:], seed=1)
        want = X.copy()
        for place in np.ndindex(*at.shape[:-1]):
            there = tuple(at[place])
            want[there] = COMBINE[reduction](want[there], new[place])
        check("scatter_nd", want, X, at, new, fixed={2}, reduction=reduction)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("reduction", COMBINE)
def test_every_dtype_in_the_order_of_the_updates_compiled_too(dtype: str, reduction: str) -> None:
    kind = DataType(dtype).numpy
    rng = np.random.default_rng(3)
    x, new = ((rng.integers(0, 9, n) / (4 if dtype[0] not in "iu" else 1)).astype(kind) for n in (5, 40))
    if DataType(dtype).is_float:
        new[7] = np.nan
    at = rng.integers(0, 5, 40).astype("uint8")
    want = x.copy()
    for place, one in zip(at, new, strict=True):
        want[place] = COMBINE[reduction](want[place], one)
    b = tg.GraphBuilder()
    given = [b.param(n, a.shape, a.dtype.name) for n, a in (("x", x), ("at", at), ("new", new))]
    one = b.op("scatter_elements", *given, reduction=reduction)
    two = b.op("scatter_nd", given[0], b.op("reshape", given[1], shape=(40, 1)), given[2], reduction=reduction)
    graph = b.finish([one, two])
    for made in (tg.interpret(graph, x, at, new), tg.compile(graph)(x, at, new)):
        for got in made:
            assert got.dtype == kind and np.array_equal(got.astype(float), want.astype(float), equal_nan=True)


def test_tuples_of_no_index_name_the_whole() -> None:
    new = floats(3, 4, 5, 3, seed=1)
    check("scatter_nd", new[-1], X, np.zeros((3, 0), np.int64), new, dynamic=False)
    check("scatter_nd", X + new.sum(0), X, np.zeros((3, 0), np.int64), new, dynamic=False, reduction="add")


@pytest.mark.parametrize("wrong", [5, -6])
def test_places_outside_end_a_call(wrong: int) -> None:
    b = tg.GraphBuilder()
    x, at, new = b.param("x", (5,), "float32"), b.param("at", (2,), "int64"), b.param("new", (2,), "float32")
    graph = b.finish(b.op("scatter_elements", x, at, new))
    given = floats(5), np.array([1, wrong]), floats(2)
    with pytest.raises(tg.GraphError, match="scatter_elements: x is written outside its bounds"):
        tg.interpret(graph, *given)
    with pytest.raises(tl.TirError, match="out"):
        tg.compile(graph)(*given)


def test_many_updates_take_a_step_each() -> None:
    n = 200_000
    b = tg.GraphBuilder()
    x, at, new = b.param("x", (n,), "int32"), b.param("at", (n,), "int64"), b.param("new", (n,), "int32")
    exe = tg.compile(b.finish(b.op("scatter_elements", x, at, new)))
    order = np.random.default_rng(0).permutation(n)
    assert np.array_equal(exe(np.zeros(n, "int32"), order, order.astype("int32")), np.arange(n))


def test_refusals() -> None:
    at = np.zeros((4, 5, 3), np.int64)
    refused("updates is of float64, x of float32", "scatter_elements", X, at, X.astype(np.float64))
    refused("has the reductions", "scatter_elements", X, at, X, reduction="mean")
    refused("scatter_elements takes integers as indices", "scatter_elements", X, X, X)
    refused("axis 1 of indices and updates differ", "scatter_elements", X, at[:, :2], X)
    refused("does not index x", "scatter_nd", X, np.zeros((2, 4), np.int64), floats(2))
    refused("updates has the shape", "scatter_nd", X, np.zeros((2, 1), np.int64), floats(2))
