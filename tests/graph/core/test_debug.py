"""Assertions and prints as nodes of a graph: their text, their order, what the reference does with them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import tirlower as tl
import tirlower.graph as tg
from tirlower.graph.core.analysis import analysis, order
from tirlower.graph.core.debug import Assert, Print, Said
from tirlower.graph.core.draw import dot_text

B = tg.dim("B", 0, 8)


def watched() -> tg.Graph:
    def f(x, mask):
        tg.print_(x, 'say "x"\n{x} é')
        tg.assert_(mask.all(), "all are there")
        y = np.exp(x)
        tg.assert_((y > 0).all())
        tg.print_(y)
        return y

    return tg.trace(f, tg.spec((B, 2), "float32"), tg.spec((B,), "bool"))


def test_text_is_read_back_and_runs_as_python_to_the_same_graph():
    graph = watched()
    tg.verify(graph)
    assert [type(n) for n in graph.nodes if isinstance(n, (Assert, Print))] == [Print, Assert, Assert, Print]
    text = str(graph)
    tg.assert_structural_equal(tg.parse(text), graph)
    space = {"tg": tg}
    exec(text, space)
    tg.assert_structural_equal(space["f"], graph)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('tg.assert_(x, "all")', "what is asserted is a bool without axes, got float32[4]"),
        ("tg.assert_(x, 3)", "the text of tg.assert_ is a string"),
        ("tg.print_()", "tg.print_ takes a value and a text"),
        ("y = tg.print_(x)", "no operation 'print_'"),
    ],
)
def test_wrong_lines_are_underlined(text, message):
    with pytest.raises(tl.TirError) as caught:
        tg.parse(f'@tg.graph\ndef f(x: tg.Tensor((4,), "float32")):\n    {text}\n    return x')
    assert message in str(caught.value) and text in str(caught.value)


def test_texts_and_kinds_count_in_equality():
    def made(watch):
        b = tg.GraphBuilder()
        x = b.param("x", (), "bool")
        watch(b, x)
        return b.finish(x)

    several = [
        made(lambda b, x: None),
        made(lambda b, x: b.print_(x, "a")),
        made(lambda b, x: b.print_(x, "b")),
        made(lambda b, x: b.assert_(x, "a")),
    ]
    assert [[tg.structural_equal(a, b) for b in several] for a in several] == np.eye(4, dtype=bool).tolist()
    assert len({tg.structural_hash(one) for one in several}) == 4
    assert tg.structural_equal(several[1], made(lambda b, x: b.print_(x, "a")))


def test_they_keep_their_order_and_verify_knows_them():
    graph = watched()
    known = analysis(graph)
    said = [n for n in graph.nodes if isinstance(n, (Assert, Print))]
    assert all(known.reaches(a, b) for a, b in pairwise(said))
    # Last first, as far as that may be: none overtakes another.
    assert [n for n in order(graph, priority=lambda n: -graph.nodes.index(n)) if n in said] == said
    x = tg.Value.of(graph.params[0].type, "x")
    bad = graph.with_(params=(x,), nodes=(Assert((), (x,), "no bool"),), results=(x,))
    with pytest.raises(tg.GraphError, match="asserts is float32"):
        tg.verify(bad)
    with pytest.raises(tg.GraphError, match="is of one value, got 2"):
        tg.verify(graph.with_(params=(x,), nodes=(Print((), (x, x), ""),), results=(x,)))


def test_the_reference_prints_checks_or_tells_a_listener(capsys):
    graph, x = watched(), np.zeros((3, 2), "float32")
    tg.interpret(graph, x, np.ones(3, bool))
    shown = np.array2string(x, separator=", ")
    ones = np.array2string(x + 1, separator=", ")
    assert capsys.readouterr().out == f'say "x"\n{{x}} é: float32[3, 2] {shown}\nfloat32[3, 2] {ones}\n'
    with pytest.raises(tl.RuntimeAssertError, match=r"all are there \(test_debug.py:\d+\)"):
        tg.interpret(graph, x, np.arange(3) > 0)
    capsys.readouterr()
    said: list[Said] = []
    tg.interpret(graph, x, np.arange(3) > 0, said=said)
    assert [(one.kind, one.text) for one in said] == [
        (Print, 'say "x"\n{x} é'),
        (Assert, "all are there"),
        (Assert, ""),
        (Print, ""),
    ]
    assert [one.array.tolist() for one in said[:3]] == [x.tolist(), False, True]
    assert capsys.readouterr().out == ""


def test_one_without_a_text_names_its_value(capsys):
    with pytest.raises(tl.RuntimeAssertError, match=r"'all_1' is not true \(test_debug.py:\d+\)"):
        tg.interpret(watched(), np.full((1, 2), -np.inf, "float32"), np.ones(1, bool))


def test_a_picture_has_them():
    text = dot_text(watched())
    assert r'label="assert\nall are there\ntest_debug.py:' in text and text.count('"print') == 2
