"""A graph as a pattern: its inputs match anything, its computation itself."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower.graph as tg
from tirlower.graph.errors import GraphError
from tirlower.graph.patterns import pattern_of

X, V = tg.spec((4, 4), "float32"), tg.spec((4,), "float32")


def test_inputs_match_anything_and_one_input_one_value() -> None:
    pattern = pattern_of(tg.trace(lambda x, y: tg.multiply(x + y, x), V, V))
    good = tg.trace(lambda a, b: tg.multiply(tg.exp(a) + b, tg.exp(a)), X, X)
    assert pattern.match(good.results[0]) is None  # two values of exp
    shared = tg.trace(lambda a, b: (lambda e: tg.multiply(e + b, e))(tg.exp(a)), X, X)
    found = pattern.match(shared.results[0])
    assert found is not None and [n.name for n in found.nodes] == ["add", "multiply"]


def test_attributes_count_when_they_are_asked_for() -> None:
    rows = tg.trace(lambda x: tg.softmax(x, axis=1), X)
    columns = tg.trace(lambda x: tg.softmax(x, axis=0), X)
    assert pattern_of(rows).match(columns.results[0])
    assert not pattern_of(rows, attrs=True).match(columns.results[0])
    assert pattern_of(rows, attrs=True).match(rows.results[0])


def test_constants_count_by_what_they_are() -> None:
    scaled = pattern_of(tg.trace(lambda x: x * 2.0, X))
    table = pattern_of(tg.trace(lambda x: x * np.arange(4, dtype="float32"), X))
    assert scaled.match(tg.trace(lambda x: x * 2.0, X).results[0])
    assert not scaled.match(tg.trace(lambda x: x * 3.0, X).results[0])
    same, other = np.arange(4, dtype="float32"), np.arange(1, 5, dtype="float32")
    assert table.match(tg.trace(lambda x: same * x, X).results[0])  # in the other order
    assert not table.match(tg.trace(lambda x: other * x, X).results[0])


def test_groups_and_results_of_several() -> None:
    def halves(x: tg.Tensor) -> tg.Tensor:
        a, b = tg.split(x, parts=(2, 2))
        return tg.concat(b, a, tg.clip(x, None, 1.0))

    g = tg.trace(halves, X)
    other = tg.trace(lambda x: (lambda a, b: tg.concat(a, b, tg.clip(x, None, 1.0)))(*tg.split(x, parts=(2, 2))), X)
    assert pattern_of(g).match(g.results[0]) and not pattern_of(g).match(other.results[0])


def test_an_input_that_is_returned_is_a_wildcard() -> None:
    assert pattern_of(tg.trace(lambda x: x, X)).wanted == "anything"


def test_a_pattern_has_one_result_and_operations_alone() -> None:
    with pytest.raises(GraphError, match="has 2 results"):
        pattern_of(tg.trace(lambda x: (x + 1, x), X))
    b = tg.GraphBuilder()
    (called,) = b.call(tg.trace(lambda x: x + 1, X), b.param("x", (4, 4), "float32"))
    with pytest.raises(GraphError, match="Call is no part of a pattern"):
        pattern_of(b.finish(called))
