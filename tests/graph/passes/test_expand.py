"""Opening macros."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower.graph as tg
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.ops.registry import definition
from tirlower.graph.passes.expand import expand


def attention() -> tg.Graph:
    b = GraphBuilder()
    q, k, v = (b.param(name, (1, 2, 5, 4), "float32") for name in "qkv")
    b.origin = "model.py:7"
    return b.finish(b.op("relu", b.op("attention", q, k, v)))


def test_no_macro_is_left_and_values_are_the_same() -> None:
    graph = attention()
    opened = expand(graph)
    assert not any(definition(op.name).is_macro for op in opened.ops)
    assert len(opened.ops) > len(graph.ops)
    arrays = [np.random.default_rng(n).standard_normal((1, 2, 5, 4), dtype="float32") for n in range(3)]
    np.testing.assert_array_equal(tg.interpret(graph, *arrays), tg.interpret(opened, *arrays))


def test_what_has_no_macro_is_the_same_object() -> None:
    opened = expand(attention())
    assert expand(opened) is opened


def test_the_origin_is_that_of_the_macro() -> None:
    assert {op.origin for op in expand(attention()).ops} == {"model.py:7"}


def test_dims_and_assumptions_stay() -> None:
    m, n = tg.dim("M", 1, 8), tg.dim("N", 1, 8)
    graph = tg.trace(lambda a, b: tg.nn.softmax(a + b), tg.spec((m, 3), "float32"), tg.spec((n, 3), "float32"))
    opened = expand(graph)
    assert len(graph.assumed) == 1 and opened.assumed[: len(graph.assumed)] == graph.assumed
    assert [d.name for d in opened.dims] == ["M", "N"]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_attributes_reach_the_parts(axis: int) -> None:
    b = GraphBuilder()
    graph = b.finish(b.op("softmax", b.param("x", (3, 4), "float32"), axis=axis))
    x = np.random.default_rng(1).standard_normal((3, 4), dtype="float32")
    e = np.exp(x - x.max(axis, keepdims=True))
    np.testing.assert_allclose(tg.interpret(expand(graph), x), e / e.sum(axis, keepdims=True), rtol=1e-5)
