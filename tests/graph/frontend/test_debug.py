"""``tg.assert_`` and ``tg.print_``: in traces, inside choices and loops, on arrays."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
import tirlower.graph as tg
from tirlower.graph.core.analysis import inner_graphs
from tirlower.graph.core.debug import Assert, Debug, Print


def said(graph, *arrays):
    listener = []
    tg.interpret(graph, *arrays, said=listener)
    return [(one.kind, one.text, one.array.tolist()) for one in listener]


def test_given_arrays_they_check_and_print_at_once(capsys):
    def f(x):
        tg.print_(x, "x")
        tg.assert_((x > 0).all(), "positive")
        return x

    f(np.ones(2, "int8"))
    assert capsys.readouterr().out == "x: int8[2] [1, 1]\n"
    with pytest.raises(tl.RuntimeAssertError, match="positive"):
        f(np.zeros(2, "int8"))
    with pytest.raises(AssertionError, match=r"what is asserted at test_debug.py:\d+ is not true"):
        tg.assert_(False)
    for wrong in (np.ones(2, bool), 1, np.float32(1)):
        with pytest.raises(tg.GraphError, match="bool without axes"):
            tg.assert_(wrong)


def test_numbers_and_extents_become_operands():
    n = tg.dim("N", 1)

    def f(x):
        tg.print_(x.shape[0], "extent")
        tg.print_(2.5)
        tg.assert_(True, "known")
        return x

    assert said(tg.trace(f, tg.spec((n,), "float32")), np.ones(3, "float32")) == [
        (Print, "extent", 3),
        (Print, "", 2.5),
        (Assert, "known", True),
    ]


def test_what_is_wrong_says_where():
    with pytest.raises(tg.GraphError, match="what is asserted is a bool without axes") as caught:
        tg.trace(lambda x: tg.assert_(x > 0), tg.spec((2,), "float32"))
    assert "test_debug.py" in str(caught.value)
    with pytest.raises(tg.GraphError, match=r"an operand at .*test_debug\.py"):
        tg.trace(lambda x: tg.print_("text", x), tg.spec((2,), "float32"))


def test_inside_choices_and_loops_they_are_done_as_often_as_these_run():
    def f(x, flag):
        def body(n):
            tg.print_(x, "outer value")  # captured
            tg.assert_(n < 10, "few")
            return n + 1

        n = tg.while_loop(lambda n: n < 2, body, 0)

        def one():
            tg.print_(n, "then")
            return n

        return tg.cond(flag, one, lambda: n * 2)

    graph = tg.trace(f, tg.spec((1,), "int32"), tg.spec((), "bool"))
    tg.verify(graph)
    tg.assert_structural_equal(tg.parse(str(graph)), graph)
    assert sum(isinstance(n, Debug) for one in inner_graphs(graph) for n in one.nodes) == 3
    x = np.array([7], "int32")
    turn = [(Print, "outer value", [7]), (Assert, "few", True)]
    assert said(graph, x, np.array(True)) == [*turn, *turn, (Print, "then", 2)]
    assert said(graph, x, np.array(False)) == [*turn, *turn]


def test_a_graph_that_is_called_says_what_it_says():
    n, m = tg.dim("N"), tg.dim("M")

    def inner(x):
        tg.print_(x, "inner")
        return x + 1

    g = tg.trace(inner, tg.spec((n,), "int32"))
    h = tg.trace(lambda x: g(x) + g(x), tg.spec((m,), "int32"))
    tg.verify(h)
    assert said(h, np.zeros(2, "int32")) == [(Print, "inner", [0, 0])] * 2
    assert said(tg.passes.CSE()(h), np.zeros(2, "int32")) == [(Print, "inner", [0, 0])] * 2
