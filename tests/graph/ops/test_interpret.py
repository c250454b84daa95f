"""Whole graphs run by the reference: against the NumPy that they were written from, with numbers and dims as extents."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph.ops.checking import floats
from tirlower.graph.core.dims import dim
from tirlower.graph.core.nodes import Graph, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.ops.interpret import interpret

pytestmark = pytest.mark.by_day

B = dim("B", 1, 64, multiple_of=1)
W1, W2, C1 = floats(784, 32, seed=1) / 28, floats(32, 10, seed=2), floats(32, seed=3)


def perceptron(batch: object) -> Graph:
    b = GraphBuilder("mlp", [B])
    x = b.param("x", (batch, 784), "float32")
    hidden = b.op("relu", b.op("add", b.op("matmul", x, W1), C1))
    return b.finish(b.op("softmax", b.op("matmul", hidden, W2)))


@pytest.mark.parametrize("batch", [3, B], ids=["number", "dim"])
def test_a_perceptron(batch: object) -> None:
    x = floats(3, 784)
    scores = np.maximum(x @ W1 + C1, 0) @ W2
    want = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    got = interpret(perceptron(batch), x)
    assert isinstance(got, np.ndarray) and got.dtype == np.float32
    np.testing.assert_allclose(got, want, rtol=1e-5)
    precise = interpret(perceptron(batch), x, precise=True)
    assert isinstance(precise, np.ndarray) and precise.dtype == np.float64
    np.testing.assert_allclose(precise, got, rtol=1e-5)


def test_results_come_back_as_they_were_given() -> None:
    b = GraphBuilder()
    x = b.param("x", (2,), "float32")
    y = b.op("add", x, 1.0)
    a = np.zeros(2, np.float32)
    assert isinstance(interpret(b.finish(y), a), np.ndarray)
    pair = interpret(b.finish((y, x)), a)
    assert isinstance(pair, tuple) and pair[0].tolist() == [1, 1] and pair[1].tolist() == [0, 0]
    named = interpret(b.finish((y, x), ("sum", "x")), a)
    assert isinstance(named, dict) and list(named) == ["sum", "x"]


def test_inputs_that_do_not_fit() -> None:
    n = dim("N", 2, 8, multiple_of=2)
    b = GraphBuilder("pair", [n])
    x, y = b.param("x", (n, 4), "float32"), b.param("y", (n,), "float32")
    graph = b.finish(b.op("multiply", y, b.op("sum", x, axis=1)))
    X, Y = floats(4, 4), floats(4)
    assert interpret(graph, X, Y).shape == (4,)  # type: ignore[union-attr]
    for arrays, match in (
        ([X], r"pair has 2 inputs \(x, y\), got 1"),
        ([X, floats(2)], "input 'y': axis 0 has extent 2, expected N = 4"),
        ([X[:, :3], Y], "input 'x': axis 1 has extent 3, expected 4"),
        ([X[0], Y], "input 'x' has 2 axes"),
        ([X.astype(np.float64), Y], "the input x is of float32, got float64"),
        ([X[:3], Y[:3]], r"dim N = 3 \(axis 0 of input 'x'\): stated is 2 <= N <= 8, a multiple of 2"),
        ([floats(10, 4), floats(10)], "dim N = 10"),
    ):
        with pytest.raises(GraphError, match=match):
            interpret(graph, *arrays)


def test_what_nothing_proves_is_checked_at_the_call() -> None:
    n, m = dim("N"), dim("M")
    b = GraphBuilder("sum", [n, m])
    graph = b.finish(b.op("add", b.param("x", (n,), "float32"), b.param("y", (m,), "float32")))
    assert [(str(p), str(q)) for p, q in graph.assumed] == [("N", "M")]
    assert interpret(graph, floats(3), floats(3)).shape == (3,)  # type: ignore[union-attr]
    with pytest.raises(GraphError, match="sum needs N and M to be equal, got 3 and 4"):
        interpret(graph, floats(3), floats(4))
    with pytest.raises(GraphError, match="sum needs N and M to be equal, got 3 and 1"):
        interpret(graph, floats(3), floats(1))  # broadcast only where the number 1 stands in the shape


def test_an_error_says_where_the_node_comes_from() -> None:
    b = GraphBuilder()
    x = b.param("x", (4,), "float32")
    b.origin = "model.py:12"
    graph = b.finish(b.op("gather", x, np.array([0, 9])))
    with pytest.raises(GraphError, match="index 9 of axis 0") as caught:
        interpret(graph, floats(4))
    assert "at model.py:12" in str(caught.value)


def test_values_that_nothing_needs_are_let_go() -> None:
    b = GraphBuilder()
    value: Value = b.param("x", (1000,), "float32")
    for _ in range(200):
        value = b.op("add", value, 1.0)
    assert interpret(b.finish(value), np.zeros(1000, np.float32))[0] == 200  # type: ignore[index]


def test_a_parameter_may_be_the_result() -> None:
    b = GraphBuilder()
    x = b.param("x", (2,), "int8")
    assert interpret(b.finish((x, x)), np.array([1, 2], np.int8))[1].tolist() == [1, 2]  # type: ignore[index]
