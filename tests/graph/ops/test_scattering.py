"""Scattered elements against loops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.graph.ops.checking import check, floats, integers, refused

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


def test_refusals() -> None:
    at = np.zeros((4, 5, 3), np.int64)
    refused("updates is of float64, x of float32", "scatter_elements", X, at, X.astype(np.float64))
    refused("has the reductions", "scatter_elements", X, at, X, reduction="mean")
    refused("scatter_elements takes integers as indices", "scatter_elements", X, X, X)
    refused("axis 1 of indices and updates differ", "scatter_elements", X, at[:, :2], X)
    refused("does not index x", "scatter_nd", X, np.zeros((2, 4), np.int64), floats(2))
    refused("updates has the shape", "scatter_nd", X, np.zeros((2, 1), np.int64), floats(2))
