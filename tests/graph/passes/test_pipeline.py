"""Pipelines of passes over graphs, as values."""

import numpy as np
import pytest

import tirlower as tl
import tirlower.graph as tg
from tirlower.graph.passes.base import GraphPass
from tirlower.graph.passes.pipeline import Fixpoint, Pipeline, Step


class DropLast(GraphPass):
    """Drop the last node, as long as there are more than some."""

    keep: int = 1

    def transform(self, graph, ctx):
        return graph if len(graph.nodes) <= self.keep else graph.with_(nodes=graph.nodes[:-1], results=graph.params)


def chain(n):
    def model(x):
        for _ in range(n):
            x = np.exp(x)
        return x

    return tg.trace(model, tg.spec((2,), "float32"))


def test_a_pipeline_prints_its_reasons():
    text = str(tg.passes.DEFAULT).splitlines()
    assert all("#" in line and line.split("#")[1].strip() for line in text)
    assert sum("Expand()" in line for line in text) >= 1
    pipeline = Pipeline((Fixpoint((Step(DropLast(), "one goes"),), "as long as one goes"),))
    assert str(pipeline).splitlines() == [
        "until nothing changes:       # as long as one goes",
        "    DropLast()                   # one goes",
    ]


def test_a_fixpoint_ends_where_nothing_changes_and_at_its_limit():
    runs = []

    class Count:
        def run_before_pass(self, graph, info):
            runs.append(info.name)

    with tl.PassContext(instruments=[Count()]):
        once = Pipeline((Fixpoint((Step(DropLast(keep=3), ""),), "", limit=20),)).run(chain(6))
        assert len(once.nodes) == 3 and len(runs) == 4
        runs.clear()
        some = Pipeline((Fixpoint((Step(DropLast(), ""),), "", limit=2),)).run(chain(6))
        assert len(some.nodes) == 4 and len(runs) == 2


def test_until_stops_behind_a_pass():
    graph = tg.trace(tg.nn.softmax, tg.spec((2, 3), "float32"))
    assert [op.name for op in tg.passes.PLAIN.run(graph, until="graph.Expand").ops][0] == "max"
    with pytest.raises(tg.GraphError, match="no pass 'Expend' in the pipeline") as caught:
        tg.passes.PLAIN.run(graph, until="Expend")
    assert caught.value.help == "did you mean 'Expand'?"


def test_an_executable_tells_the_graph_after_each_pass():
    exe = tg.compile(tg.trace(tg.nn.softmax, tg.spec((2, 3), "float32")))
    assert [op.name for op in exe.graph.ops] == ["softmax"]
    assert "softmax" not in [op.name for op in exe.graph_after["Expand"].ops]
    assert exe.graph_after is exe.graph_after


def test_a_chain_of_twenty_thousand_operations_passes_everything():
    b = tg.GraphBuilder()
    x = y = b.param("x", (8,), "float32")
    for n in range(5_000):
        y = b.op("multiply", b.op("tanh", b.op("add", b.op("exp", y), x)), 1.0 if n % 2 else 0.5)
    graph = b.finish(y)
    assert len(graph.ops) == 20_000
    runs = []

    class Count:
        def run_after_pass(self, graph, info):
            runs.append(info.name)

    with tl.PassContext(instruments=[Count()]):
        after = tg.passes.DEFAULT.run(graph)
    assert len(after.ops) == 17_500  # the products with 1 are gone
    # A sweep finds what there is to find; the next one sees that nothing is left.
    assert runs.count("graph.Canonicalize") <= 4 and runs.count("graph.CSE") <= 4
