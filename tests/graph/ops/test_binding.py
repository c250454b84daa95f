"""Dims bound by shapes: one rule for calls and for the reference, also where an expression stands before its dim."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
import tirlower.graph as tg
from tirlower.graph.core.dims import dim
from tirlower.graph.core.nodes import Graph
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.binding import bound_dims, maybe_negative
from tirlower.graph.ops.builder import GraphBuilder

pytestmark = pytest.mark.by_day


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


def test_a_negative_extent_ends_a_call_before_anything_runs() -> None:
    B = tg.dim("B", 0, 64)

    def graph(inner: bool, low: int = 0) -> tg.Graph:
        b = tg.GraphBuilder("shorter")
        x = b.param("x", (B if not low else tg.dim("C", low, 64), 2), "float32")
        y = b.op("pad", x, pads=((-3, 0), (0, 0)))
        z = b.op("exp", b.op("concat", x, x))  # which stood where the shorter one ends
        return b.finish([b.op("sum", b.op("exp", y), axis=0), z] if inner else y)

    for inner in (False, True):
        exe = tg.compile(graph(inner))
        for rows in (0, 2):
            with pytest.raises(
                tl.ArgumentValueError, match=rf"'pad' is negative: B - 3 is {rows - 3} where B = {rows}"
            ):
                exe(np.ones((rows, 2), "float32"))
            with pytest.raises(tg.GraphError, match="an extent is negative"):
                tg.interpret(graph(inner), np.ones((rows, 2), "float32"))
        for rows in (3, 5):
            x = np.ones((rows, 2), "float32")
            for a, c in zip(flat(exe(x)), flat(tg.interpret(graph(inner), x)), strict=True):
                np.testing.assert_allclose(a, c, rtol=1e-6)
    assert maybe_negative(graph(True)) and not maybe_negative(graph(True, low=3))


def flat(made: object) -> tuple[object, ...]:
    return made if isinstance(made, tuple) else (made,)
