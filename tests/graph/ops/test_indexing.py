"""Elements chosen by data against NumPy's own indexing."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph.ops.checking import check, floats, integers, refused, run
from tirlower.graph.errors import GraphError

pytestmark = pytest.mark.by_day

X = floats(3, 4, 5)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather(axis: int, dtype: str) -> None:
    size = X.shape[axis]
    for shape in ((), (2,), (2, 1, 6), (0,)):
        at = integers(*shape, low=0 if dtype == "uint8" else -size, high=size, dtype=dtype)
        at = np.asarray(at, dtype)
        check("gather", np.take(X, at.astype(np.int64) % size, axis), X, at, axis=axis)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_elements(axis: int) -> None:
    size = X.shape[axis]
    at = integers(3, 4, 5, low=-size, high=size)
    check("gather_elements", np.take_along_axis(X, at.astype(np.int64) % size, axis), X, at, axis=axis)
    small = at[:2, :3, :2]
    want = np.empty(small.shape, X.dtype)
    for place in np.ndindex(*small.shape):
        there = list(place)
        there[axis] = small[place] % size
        want[place] = X[tuple(there)]
    check("gather_elements", want, X, small, axis=axis)
    refused("x has 3 axes, indices has 1", "gather_elements", X, at[0, 0])
    refused("axis 2 of indices has 6 elements", "gather_elements", X, integers(3, 4, 6, low=0, high=3), axis=0)


def test_gather_nd() -> None:
    at = np.array([[[0, 1], [2, -1]], [[1, 0], [-3, 3]]])
    check("gather_nd", X[at[..., 0], at[..., 1]], X, at, fixed={2})
    check("gather_nd", X[at[..., 0] % 3], X, at[..., :1] % 3)
    batch = np.array([[1], [0], [3]])
    check("gather_nd", X[np.arange(3), batch[:, 0]], X, batch, batch_dims=1, dynamic=False)
    refused("do not fit", "gather_nd", X, at, batch_dims=2)
    refused("gather_nd takes integers as indices", "gather_nd", X, floats(2, 2))


def test_one_hot() -> None:
    at = np.array([[0, -1], [2, 9]])
    want = (np.arange(4) == np.where(at < 0, at + 4, at)[..., None]).astype(np.float32)
    check("one_hot", want, at, depth=4)
    check(
        "one_hot", (np.moveaxis(want, -1, 0) * 4 + 1).astype(np.int32), at, depth=4, axis=0, on=5, off=1, dtype="int32"
    )


def test_an_index_outside_is_an_error_that_names_it() -> None:
    with pytest.raises(GraphError, match="x is read outside its bounds: index 7 of axis 1, whose extent is 4"):
        run("gather", X, np.array([0, 7]), axis=1)
    with pytest.raises(GraphError, match="index -1 of axis 1"):
        run("gather", X, np.array([0, -5]), axis=1)
    refused("gather takes integers as indices, got float32", "gather", X, floats(2))
    refused("gather takes integers as indices, got bool", "gather", X, np.array([True]))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_resample(axis: int) -> None:
    """Weighted sums of the elements at places: what a table of rows says."""
    places = integers(6, 3, low=0, high=X.shape[axis], dtype="int64")
    weights = floats(6, 3)
    taken = np.moveaxis(np.take(X, places, axis), (axis % 3, axis % 3 + 1), (0, 1))
    want = np.moveaxis(np.einsum("nk...,nk->n...", taken, weights), 0, axis)
    check("resample", want.astype(X.dtype), X, places, weights, axis=axis)
    refused("tables of two axes", "resample", X, places[0], weights, axis=axis)
    refused("the columns of the tables differ", "resample", X, places, weights[:, :2], axis=axis)
