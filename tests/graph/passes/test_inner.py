"""Passes inside nodes: tests/graph/passes/test_canonical.py has shared graphs and composites too."""

import tirlower.graph as tg
from tirlower.graph.passes.inner import everywhere, with_inner


def test_choices_and_loops_hold_what_was_made_of_their_graphs():
    def graph(name, op):
        b = tg.GraphBuilder(name)
        return b.finish(b.op(op, b.param("x", (4,), "float32")))

    b = tg.GraphBuilder()
    c, x = b.param("c", (), "bool"), b.param("x", (4,), "float32")
    (y,) = b.if_(c, graph("yes", "exp"), graph("no", "sin"), x)
    whole = b.finish(b.op("negative", y))
    seen = []

    def mark(g):
        seen.append(g.name)
        return g.with_attr("seen", 1) if g.name == "yes" else g

    after = everywhere(whole, mark)
    assert seen == ["yes", "no", "main"]
    assert [g.attrs for g in after.nodes[0].graphs] == [{"seen": 1}, {}]
    assert after.nodes[1].inputs == after.nodes[0].results and after.nodes[1] is not whole.nodes[1]
    assert everywhere(whole, lambda g: g) is whole and with_inner(whole, {}) is whole
