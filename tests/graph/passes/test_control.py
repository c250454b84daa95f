"""Choices and loops in one form, before and after, and what must stay as it is."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower.graph as tg
from tests.graph.passes.checking import check_graph
from tirlower.graph.core.control import If, While

CONTROL = tg.passes.CanonicalizeControl()
X = tg.spec((2,), "float32")
N = tg.spec((), "int64")
YES = tg.spec((), "bool")


def _nodes(graph: tg.Graph, kind: type) -> list:
    return [node for node in graph.nodes if isinstance(node, kind)]


def test_a_known_condition_chooses() -> None:
    b = tg.GraphBuilder()
    then, other = (tg.trace(lambda x, f=f: f(x), X) for f in (lambda x: x + 1, lambda x: x * 2))
    x = b.param("x", (2,), "float32")
    made = [b.if_(b.const(np.asarray(value)), then, other, x)[0] for value in (True, False)]
    after = check_graph(CONTROL, b.finish(made))
    assert [op.name for op in after.ops] == ["add", "multiply"] and not _nodes(after, If)


def test_equal_ways_are_one() -> None:
    graph = tg.trace(lambda c, x: tg.cond(c, lambda: tg.exp(x) + 1, lambda: tg.exp(x) + 1), YES, X)
    after = check_graph(CONTROL, graph)
    assert [op.name for op in after.ops] == ["exp", "add"] and not _nodes(after, If)
    differ = tg.trace(lambda c, x: tg.cond(c, lambda: tg.exp(x) + 1, lambda: tg.exp(x) + 2), YES, X)
    assert check_graph(CONTROL, differ, differ) is differ


def test_results_and_operands_of_a_choice_that_say_nothing_are_gone() -> None:
    def model(c, x, y):
        p, q, r, _ = tg.cond(c, lambda a, b, d: (a + 1, b, a + 1, a * d), lambda a, b, d: (a - 1, b, a - 1, a), x, y, x)
        return p, q, r

    graph = tg.trace(model, YES, X, X)
    after = check_graph(CONTROL, graph)
    (choice,) = _nodes(after, If)
    assert len(choice.results) == 2  # the first and the third are one
    assert [v.name for v in choice.operands] == ["c", "x"]
    assert after.results[1] is after.params[2]


def test_stores_of_a_choice_stay() -> None:
    h = tg.state("h", (2,), "float32")

    def model(c, x):
        tg.cond(c, lambda: h.store(x), lambda: None)
        return x

    graph = tg.trace(model, YES, X)
    assert check_graph(CONTROL, graph, graph) is graph


def test_a_loop_carries_what_changes_and_is_needed_once() -> None:
    def model(x, n):
        i, a, b, _, same = tg.while_loop(
            lambda i, a, b, u, s: i < n, lambda i, a, b, u, s: (i + 1, a * s, b * s, u + a, s), 0, x, x, x, x
        )
        return a, b, same, i

    graph = tg.trace(model, X, N)
    after = check_graph(CONTROL, graph)
    (loop,) = _nodes(after, While)
    assert len(loop.results) == 4  # i, a, x, n: b is a, the sum is nobody's
    assert after.results[0] is after.results[1] and after.results[2] is after.params[0]
    exe, x = tg.compile(after), np.array([2, -1], "float32")
    for n in (0, 1, 3):
        for got, wanted in zip(exe(x, np.int64(n)), tg.interpret(graph, x, np.int64(n)), strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_values_that_begin_equal_and_part_are_both_carried() -> None:
    def model(x, n):
        return tg.while_loop(lambda i, a, b: i < n, lambda i, a, b: (i + 1, b * 2, a + 1), 0, x, x)

    graph = tg.trace(model, X, N)
    after = check_graph(CONTROL, graph, graph)
    assert after is graph
    turned = tg.trace(lambda x, n: tg.while_loop(lambda i, a, b: i < n, lambda i, a, b: (i + 1, b, a), 0, x, x), X, N)
    check_graph(CONTROL, turned)


def test_a_constant_that_never_changes_is_inside() -> None:
    w = np.array([2, 3], "float32")
    graph = tg.trace(lambda x, n: tg.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a * w), 0, x), X, N)
    b = tg.GraphBuilder()
    x, n = b.param("x", (2,), "float32"), b.param("n", (), "int64")
    carried = tg.trace(lambda i, a, c, n: (i + 1, a * c, c, n), N, X, X, N)
    test = tg.trace(lambda i, a, c, n: i < n, N, X, X, N)
    made = b.while_(test, carried, b.const(np.asarray(0)), x, b.const(w), n)
    after = check_graph(CONTROL, b.finish(made[1]))
    (loop,) = _nodes(after, While)
    assert len(loop.inputs) == 3
    check_graph(CONTROL, graph)


def test_a_loop_that_never_runs_and_one_that_stores() -> None:
    never = tg.trace(lambda x: tg.while_loop(lambda a: np.asarray(False), lambda a: a + 1, x), X)
    assert not check_graph(CONTROL, never).nodes
    h = tg.state("h", (), "int64")

    def model(n):
        def body(i, j):
            h.store(h.load() + j)
            return i + 1, j + 1

        i, _ = tg.while_loop(lambda i, j: i < n, body, 0, 5)
        return i

    graph = tg.trace(model, N)
    after = check_graph(CONTROL, graph)
    assert after is graph  # j is in no result, and in the state
    for n in (0, 1, 4):
        was, now = {}, {}
        tg.interpret(graph, np.int64(n), state=was)
        tg.interpret(after, np.int64(n), state=now)
        assert was == now


@pytest.mark.parametrize("depth", [1, 3])
def test_inside_one_another(depth: int) -> None:
    def nested(x, n, depth):
        if not depth:
            return x * 2
        return tg.while_loop(
            lambda i, a, b: i < n,
            lambda i, a, b: (i + 1, tg.cond(i > 1, lambda: nested(a, n, depth - 1), lambda: a), b),
            0,
            x,
            x,
        )[1]

    graph = tg.trace(lambda x, n: nested(x, n, depth), X, N)
    after = check_graph(CONTROL, graph)
    (loop,) = _nodes(after, While)
    assert len(loop.inputs) == 3
