"""Which nodes results need."""

import numpy as np

import tirlower.graph as tg
from tirlower.graph.passes.liveness import live


def test_what_results_need_keeps_its_order():
    def model(x):
        a, b = np.exp(x), np.sqrt(x)
        return a + b, a - 1, b * b

    graph = tg.trace(model, tg.spec((4,), "float32"))
    names = [[getattr(n, "name", "const") for n in live(graph.nodes, (v,))] for v in graph.results]
    assert names == [["exp", "sqrt", "add"], ["exp", "const", "subtract"], ["sqrt", "multiply"]]
    assert live(graph.nodes, graph.results) == graph.nodes
    assert live(graph.nodes, graph.params) == ()
