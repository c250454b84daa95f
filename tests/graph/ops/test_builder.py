"""Graphs built and rebuilt: names, weak numbers, constants, errors, and nodes that are kept."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest

from tirlower.graph.core.dims import dim
from tirlower.graph.core.nodes import Const, GraphNode, Op, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.builder import GraphBuilder, rewritten
from tirlower.graph.ops.interpret import interpret

pytestmark = pytest.mark.by_day


def test_names_are_free_identifiers() -> None:
    b = GraphBuilder()
    assert [b.named(n) for n in ("x", "x", "x", "x_1", "a/b", "1st")] == ["x", "x_1", "x_2", "x_1_1", "a_b", "v_1st"]


@pytest.mark.parametrize(
    ("dtype", "number", "wanted"),
    [
        ("float32", 2.0, "float32"),
        ("float16", 2, "float16"),
        ("bfloat16", 2.5, "bfloat16"),
        ("bfloat16", 2, "bfloat16"),
        ("int8", 2, "int8"),
        ("int8", 2.0, "float64"),
        ("bool", 2, "int64"),
        ("uint8", True, "uint8"),
    ],
)
def test_python_numbers_are_weak(dtype: str, number: float, wanted: str) -> None:
    b = GraphBuilder()
    assert b.op("multiply", b.param("x", (2,), dtype), number).dtype == wanted


def test_numpy_numbers_are_not() -> None:
    b = GraphBuilder()
    assert b.op("multiply", b.param("x", (2,), "float32"), np.float64(2)).dtype == "float64"


def test_a_number_out_of_range() -> None:
    b = GraphBuilder()
    x = b.param("x", (2,), "int8")
    with pytest.raises((GraphError, OverflowError)):
        b.op("add", x, 300)
    with pytest.raises(GraphError, match="an operand is a value, an array or a number, got str: 'y'"):
        b.op("add", x, "y")


def test_an_array_given_twice_is_one_constant() -> None:
    b = GraphBuilder()
    x, w = b.param("x", (2,), "float32"), np.ones(2, np.float32)
    graph = b.finish(b.op("add", b.op("multiply", x, w), w))
    assert sum(isinstance(n, Const) for n in graph.nodes) == 1
    np.testing.assert_array_equal(interpret(graph, np.array([1, 2], np.float32)), [2, 3])


def test_several_results() -> None:
    b = GraphBuilder()
    x = b.param("x", (4,), "float32")
    assert len(b.ops("split", x, parts=2)) == 2
    with pytest.raises(GraphError, match="split has 2 results"):
        b.op("split", x, parts=2)


def test_errors_show_the_operands_and_the_origin() -> None:
    b = GraphBuilder()
    b.origin = "model.py:7"
    n = dim("N")
    with pytest.raises(GraphError, match="cannot be broadcast") as caught:
        b.op("add", b.param("x", (n, 3), "float32"), b.param("y", (4,), "int8"))
    assert "in add(x: float32[N, 3], y: int8[4]) at model.py:7" in str(caught.value)


def test_a_graph_in_which_nothing_changes_is_the_same_object() -> None:
    b = GraphBuilder()
    graph = b.finish(b.op("exp", b.op("add", b.param("x", (2,), "float32"), 1.0)))
    assert rewritten(graph, lambda *_: None) is graph


def test_nodes_are_replaced() -> None:
    def rewrite(b: GraphBuilder, node: GraphNode, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if isinstance(node, Op) and node.name == "square":
            return (b.op("multiply", operands[0], operands[0]),)
        return operands if isinstance(node, Op) and node.name == "identity" else None

    b = GraphBuilder("g", [dim("N")])
    x = b.param("x", (2,), "float32")
    graph = b.finish(b.op("exp", b.op("square", b.op("identity", b.op("add", x, x)))))
    made = rewritten(graph, rewrite)
    assert [op.name for op in made.ops] == ["add", "multiply", "exp"]
    assert made.ops[0] is graph.ops[0] and made.ops[2] is not graph.ops[3]
    given = np.array([0.5, 1], np.float32)
    np.testing.assert_array_equal(interpret(made, given), interpret(graph, given))


def test_bfloat16_constants() -> None:
    b = GraphBuilder()
    w = np.ones(2, ml_dtypes.bfloat16)
    assert b.op("add", b.param("x", (2,), "bfloat16"), w).dtype == "bfloat16"
