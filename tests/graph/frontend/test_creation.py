"""Tensors made from numbers are of the graph in a trace, and arrays elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower.graph as tg
from tests.graph.frontend.oracle import run
from tirlower.graph import GraphError

RNG = np.random.default_rng(3)


def test_tensors_are_made_in_a_trace_and_arrays_elsewhere():
    n = tg.dim("N", 1)

    def model(x):
        total = tg.xp.zeros((n, 3), "float32") + tg.xp.ones(3, "float32") + x
        return (
            total,
            tg.xp.arange(x.shape[0]),
            tg.xp.eye(3) @ total.T,
            tg.xp.full((2,), 7, "int8"),
            tg.xp.arange(1, 4, 2),
        )

    x = RNG.random((4, 3)).astype("float32")
    g = tg.trace(model, tg.spec((n, 3), "float32"))
    total = x + 1
    for got, want in zip(
        run(g, x), (total, np.arange(4), np.eye(3) @ total.T, np.full(2, 7, "int8"), [1, 3]), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    assert isinstance(tg.xp.zeros((2, 3)), np.ndarray)
    np.testing.assert_array_equal(tg.xp.arange(3), np.arange(3))
    np.testing.assert_array_equal(tg.xp.eye(2, 3, k=1), np.eye(2, 3, 1))
    with pytest.raises(GraphError, match="has dims, outside of a trace"):
        tg.xp.zeros((n, 2))
