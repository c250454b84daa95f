"""A wrong pass is found, named, reduced, and shown by a file that runs."""

import re
import subprocess
import sys

import numpy as np
import pytest

import tirlower as tl
import tirlower.graph as tg
from tirlower.graph.core.nodes import Op
from tirlower.graph.ops.builder import rewritten
from tirlower.graph.passes.base import GraphPass


class SwapSubtract(GraphPass):
    """Exchange the operands of a difference, as if it commuted."""

    def transform(self, graph, ctx):
        return rewritten(
            graph,
            lambda b, node, ops: (
                (b.op("subtract", ops[1], ops[0]),)
                if isinstance(node, Op) and node.name == "subtract" and not node.origin.startswith("seen")
                else None
            ),
        )


def model(x, y):
    a = np.exp(x) + np.tanh(y)
    for _ in range(6):
        a = np.sqrt(np.abs(a)) * y
    return np.maximum(a - y, 0) + x, a


def graph():
    B = tg.dim("B", 1, 64)
    return tg.trace(model, tg.spec((B, 3), "float32"), tg.spec((B, 3), "float32"))


def test_the_guilty_pass_is_named_and_the_graph_reduced(tmp_path):
    key = {"tir.validate.reproducer_dir": str(tmp_path)}
    with pytest.raises(tl.TransformError) as caught, tl.PassContext(validate=True, config=key):
        SwapSubtract()(tg.passes.DCE()(graph()))
    error = caught.value
    assert error.origin == "SwapSubtract" and error.message.startswith("SwapSubtract changes what result 0 is")
    shown = "\n".join(error.notes)
    assert shown.count("tg.subtract") == 1 and "tg.exp" not in shown and "tg.tanh" not in shown
    (path,) = tmp_path.iterdir()
    assert str(path) in shown
    ran = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=100)
    assert ran.returncode == 1 and "mismatch" in ran.stdout and "result 0 was" in ran.stdout, ran.stderr


def test_a_right_pass_passes_and_heavy_graphs_are_left_alone():
    with tl.PassContext(validate=True):
        tg.passes.DEFAULT.run(graph())
        heavy = tg.trace(lambda x, y: (x - y) @ y, *[tg.spec((2048, 2048), "float32")] * 2)
        assert SwapSubtract()(heavy) is not heavy


def test_a_pass_that_changes_inputs_is_refused():
    class Fewer(GraphPass):
        """Drop an input."""

        def transform(self, graph, ctx):
            return graph.with_(params=graph.params[:1], nodes=(), results=graph.params[:1])

    with pytest.raises(tl.TransformError, match="2 inputs and 2 results were 1 and 1"), tl.PassContext(validate=True):
        Fewer()(graph())


def test_a_pass_whose_result_fails_is_guilty(tmp_path):
    class Far(GraphPass):
        """Read what is not there."""

        def transform(self, graph, ctx):
            return rewritten(
                graph,
                lambda b, node, ops: (b.op("gather", ops[0], np.full(8, 9), axis=0),) if node is graph.ops[0] else None,
            )

    key = {"tir.validate.reproducer_dir": str(tmp_path)}
    with (
        pytest.raises(tl.TransformError, match="Far fails where its input runs"),
        tl.PassContext(validate=True, config=key),
    ):
        Far()(tg.trace(np.exp, tg.spec((8,), "float32")))


def test_compile_validates_where_it_is_asked_to(monkeypatch, tmp_path):
    monkeypatch.setattr(tg.passes.DCE, "transform", SwapSubtract.transform)
    monkeypatch.setattr("tirlower.graph.api.DEFAULT", tg.passes.Pipeline((tg.passes.Step(tg.passes.DCE(), ""),)))
    key = {"tir.validate.reproducer_dir": str(tmp_path)}
    with pytest.raises(tl.TransformError, match=r"graph\.DCE changes"), tl.PassContext(config=key):
        tg.compile(graph(), options=tg.Options(validate=True))
    (path,) = tmp_path.iterdir()
    assert re.search(r"AFTER = tg\.passes\.DCE\(\)\(BEFORE\)", path.read_text())


def test_a_graph_that_is_not_whole_is_an_error():
    class Torn(GraphPass):
        """Drop a node that is needed."""

        def transform(self, graph, ctx):
            return graph.with_(nodes=graph.nodes[1:])

    with pytest.raises(tl.TransformError, match="Torn makes a graph that is not whole"), tl.PassContext(validate=True):
        Torn()(graph())
