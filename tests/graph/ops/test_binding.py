"""Dims bound by shapes: one rule for calls and for the reference, also where an expression stands before its dim."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
import tirlower.graph as tg
from tirlower.graph.core.dims import dim
from tirlower.graph.core.nodes import Graph
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.binding import bound_dims
from tirlower.graph.ops.builder import GraphBuilder


def pair() -> tuple[Graph, tg.Dim]:
    n = dim("N", 2, 8, multiple_of=2)
    b = GraphBuilder("pair", [n])
    x, y = b.param("x", (n * 3, 4), "float32"), b.param("y", (n,), "float32")
    return b.finish((b.op("exp", x), b.op("exp", y))), n


def test_an_expression_may_stand_before_its_dim() -> None:
    graph, n = pair()
    assert bound_dims(graph, [(12, 4), (4,)]) == {n.var: 4}


WRONG = [
    ([(12, 4), (3,)], r"input 'x': axis 0 has extent 12, expected N \* .*3.* = 9"),
    ([(9, 4), (3,)], r"dim N = 3 \(axis 0 of input 'y'\): stated is 2 <= N <= 8, a multiple of 2"),
    ([(12, 5), (4,)], "input 'x': axis 1 has extent 5, expected"),
    ([(12,), (4,)], r"input 'x' has 2 axes, got shape \(12,\)"),
    ([(30, 4), (10,)], "dim N = 10"),
]


@pytest.mark.parametrize(("shapes", "match"), WRONG)
def test_the_same_words_in_a_call_and_in_the_reference(shapes: list[tuple[int, ...]], match: str) -> None:
    graph, _ = pair()
    arrays = [np.zeros(s, "float32") for s in shapes]
    with pytest.raises(GraphError, match=match) as first:
        tg.interpret(graph, *arrays)
    with pytest.raises(tl.ArgumentValueError, match=match) as second:
        tg.compile(graph)(*arrays)
    assert first.value.message == second.value.message and first.value.help == second.value.help


def test_a_dim_of_no_input() -> None:
    n = dim("N")
    b = GraphBuilder("f", [n])
    graph = b.finish(b.op("exp", b.param("x", (n * 2,), "float32")))
    assert bound_dims(graph, [(6,)]) == {} and bound_dims(graph, [None]) == {}
    with pytest.raises(GraphError, match=r"the dim N of .* has no value|no input says what the dim N is"):
        bound_dims(graph, [(6,)], whole=True)
