"""The smallest graph on which something still goes wrong."""

import numpy as np

import tirlower.graph as tg
from tirlower.graph.passes.shrink import GraphCase, reduce_graph


def test_a_graph_of_many_nodes_becomes_the_two_that_matter():
    B = tg.dim("B", 1, 8)

    def model(x, y):
        for _ in range(10):
            x = np.exp(x - 1) + np.abs(x)
        z = np.sqrt(np.abs(x)) * y
        for _ in range(10):
            y = np.tanh(z) + y
        return y, x

    graph = tg.trace(model, tg.spec((B, 3), "float32"), tg.spec((B, 3), "float32"))
    case = GraphCase(graph, (np.ones((2, 3), "float32"), np.full((2, 3), 2, "float32")))

    def fails(candidate):
        made = tg.interpret(candidate.graph, *candidate.inputs)  # what is tried runs
        assert made is not None
        return any(
            op.name == "multiply" and op.inputs[0].node is not None and op.inputs[0].node.name == "sqrt"
            for op in candidate.graph.ops
        )

    small = reduce_graph(case, fails)
    assert [op.name for op in small.graph.ops] == ["sqrt", "multiply"]
    assert len(small.graph.params) == len(small.inputs) == 2
    assert tg.parse(str(small.graph)) is not None


def test_what_does_not_shrink_comes_back():
    graph = tg.trace(np.exp, tg.spec((2,), "float32"))
    case = GraphCase(graph, (np.zeros(2, "float32"),))
    assert reduce_graph(case, lambda candidate: False) is case
