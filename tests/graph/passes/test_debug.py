"""StripDebug, and what the other passes do with assertions and prints."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
import tirlower.graph as tg
from tests.graph.passes.checking import check_graph, parsed
from tirlower.diagnostics import TransformError
from tirlower.graph.core.analysis import inner_graphs
from tirlower.graph.core.debug import Assert, Debug, Print
from tirlower.graph.passes.base import GraphPass
from tirlower.rewrite.options import option
from tirlower.script import tir as T

BEFORE = """
def f(x: tg.Tensor(("B", 4), "float32"), ready: tg.Tensor((), "bool")):
    tg.dims(B=(0, None))
    tg.assert_(ready, "ready")
    y: tg.Tensor(("B", 4), "float32") = tg.exp(x)
    tg.print_(y, "y")
    z: tg.Tensor(("B", 4), "float32") = tg.negative(y)
    tg.print_(z)
    return z
"""


def without(*lines: str) -> str:
    return "\n".join(line for line in BEFORE.splitlines() if not any(one in line for one in lines))


def test_all_or_one_kind_goes():
    check_graph(tg.passes.StripDebug(), BEFORE, without("assert_", "print_"))
    check_graph(tg.passes.StripDebug(prints=False), BEFORE, without("assert_"))
    check_graph(tg.passes.StripDebug(asserts=False), BEFORE, without("print_"))
    check_graph(tg.passes.StripDebug(asserts=False, prints=False), BEFORE, BEFORE)
    check_graph(tg.passes.StripDebug(), without("assert_", "print_"), without("assert_", "print_"))


def test_graphs_inside_too_and_kernels_with_an_effect_stay():
    def inner(x):
        tg.print_(x, "inner")
        return x + 1

    g = tg.trace(inner, tg.spec((2,), "float32"))

    @T.prim_func
    def kernel(a: T.Buffer((2,), "float32"), b: T.Buffer((2,), "float32")):
        for i in range(2):
            b[i] = a[i]

    def f(x):
        y = tg.call(kernel, x, out=tg.spec((2,), "float32"), effect=True)
        tg.print_(y)
        y = tg.while_loop(lambda v: (v < 3).all(), lambda v: g(tg.cond(v.sum() > 1, lambda: inner(v), lambda: v)), x)
        return y

    graph = tg.trace(f, tg.spec((2,), "float32"))
    after = check_graph(tg.passes.StripDebug(), graph)
    assert not any(isinstance(n, Debug) for one in (after, *inner_graphs(after)) for n in one.nodes)
    assert len(after.effects) == 1 and [type(n).__name__ for n in after.nodes if n.writes] == ["KernelCall"]


def test_every_pass_leaves_what_is_said():
    def f(x):
        a, b = np.exp(x), np.exp(x)
        tg.print_(a, "same")
        tg.print_(b, "same")
        tg.print_(a, "same")
        tg.assert_(tg.all(a == a), "same")
        tg.assert_(tg.all(a == a), "same")
        tg.print_(np.arange(4) + 1, "folded")  # dead but for the print
        dead = tg.while_loop(lambda n: n < 2, lambda n: tg.print_(n, "turn") or n + 1, 0)
        tg.cond(dead > 1, lambda: tg.print_(a, "way"), lambda: tg.print_(a, "way"))
        tg.print_(tg.nn.softmax(x), "macro")
        return x

    graph = tg.trace(f, tg.spec((3,), "float32"))
    with tl.PassContext(config={"graph.StripDebug": {"asserts": False, "prints": False}}, validate=True):
        after = tg.passes.DEFAULT.run(graph)
    kinds = [type(n) for n in after.nodes if isinstance(n, Debug)]
    assert kinds == [Print, Print, Print, Assert, Assert, Print, Print, Print]  # the ways of the choice are equal
    assert [op.name for op in after.ops].count("exp") == 2  # of x, and of softmax
    said, again = [], []
    x = np.ones(3, "float32")
    tg.interpret(graph, x, said=said)
    tg.interpret(after, x, said=again)
    assert [one[:2] for one in said] == [one[:2] for one in again] and len(said) == 10
    assert all(np.array_equal(a.array, b.array) for a, b in zip(said, again, strict=True))


def test_choices_that_say_something_else_are_not_equal_and_stay():
    def f(x):
        tg.cond(x[0] > 1, lambda: tg.print_(x, "then"), lambda: tg.print_(x, "else"))
        return x

    graph = tg.trace(f, tg.spec((3,), "float32"))
    check_graph(tg.passes.CanonicalizeControl(), graph, graph)
    check_graph(tg.passes.DCE(), graph, graph)


class Breaks(GraphPass):
    """Drops, turns round, or repeats what is said."""

    name = "graph.Breaks"
    how: str = option(default="drop")

    def transform(self, graph: tg.Graph, ctx: tl.PassContext) -> tg.Graph:
        plain = [n for n in graph.nodes if not isinstance(n, Debug)]
        said = [n for n in graph.nodes if isinstance(n, Debug)]
        if len(said) != 3:
            return graph
        made = {
            "drop": said[:2],
            "turn": said[::-1],
            "other value": [*said[:2], Print((), (graph.params[0],), "")],
            "other text": [said[0].with_(text="other"), *said[1:]],
            "twice": [*said, said[-1].with_(results=())],
        }
        return graph.with_(nodes=(*plain, *made[self.how]))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("drop", "assert 'ready' comes where print '' came"),
        ("turn", "print '' comes where assert 'ready' came"),
        ("other value", "changes what is said: number 2 is"),
        ("other text", "assert 'other' comes where assert 'ready' came"),
        ("twice", "print '' comes where assert 'ready' came"),
    ],
)
def test_validation_sees_it(how, message):
    # A graph with an effect is called twice: its first word comes again where the last one was.
    with tl.PassContext(validate=True), pytest.raises(TransformError, match=message):
        Breaks(how=how)(parsed(BEFORE))


def test_validation_lets_it_go_where_that_is_what_a_pass_does():
    with tl.PassContext(validate=True):
        assert len(tg.passes.StripDebug()(parsed(BEFORE)).nodes) == 2


def test_a_program_whose_assertion_never_holds_is_validated_all_the_same():
    def f(x):
        tg.assert_(tg.all(x > np.inf), "never")
        return -x

    class First(GraphPass):
        name = "graph.First"

        def transform(self, graph: tg.Graph, ctx: tl.PassContext) -> tg.Graph:
            return graph.with_(results=graph.params)

    graph = tg.trace(f, tg.spec((2,), "float32"))
    with tl.PassContext(validate=True):
        tg.passes.DEFAULT.run(graph)
        with pytest.raises(TransformError, match=r"graph\.First changes what result 0 is"):
            First()(graph)
