"""What is computed twice is computed once, and what only looks alike twice."""

import numpy as np

import tirlower.graph as tg
from tests.graph.passes.checking import check_graph
from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.effects import Global

CSE = tg.passes.CSE()


def test_a_duplicated_elementwise_part_becomes_one_with_several_users():
    def model(x, y):
        a = np.maximum(x + y, 0) * 2
        b = np.maximum(y + x, 0) * 2
        return a, b - x

    spec = tg.spec((tg.dim("B"), 4), "float32")
    after = check_graph(CSE, tg.trace(model, spec, spec))
    assert [op.name for op in after.ops] == ["add", "maximum", "multiply", "subtract"]
    assert after.results[0] is after.ops[-1].inputs[0]


def test_what_differs_in_attributes_types_or_order_stays():
    def model(x, y):
        return (
            [x - y, y - x, x.sum(axis=0), x.sum(axis=1), x.astype("int32"), x.astype("int64")]
            + [np.maximum(x, y), np.maximum(y, x)]  # of 0.0 and -0.0
        )

    graph = tg.trace(model, tg.spec((4, 4), "float32"), tg.spec((4, 4), "float32"))
    assert check_graph(CSE, graph, graph) is graph


def test_constants_are_compared_to_the_bit():
    b = tg.GraphBuilder()
    x = b.param("x", (1000,), "float32")
    w = np.arange(1000, dtype="float32")
    v = w.copy()
    v[-1] = -5  # its first elements are those of w
    several = [
        w,
        w.copy(),
        v,
        np.float32(0.0),
        np.float32(-0.0),
        np.float32(np.nan),
        np.float32(np.nan),
        w.astype("float64"),
    ]
    graph = b.finish([b.op("add", x, ConstantData(np.asarray(c))) for c in several])
    after = check_graph(CSE, graph)
    assert len(after.nodes) - len(after.ops) == 6 and len(after.ops) == 6


def test_more_is_seen_where_operands_become_equal():
    b = tg.GraphBuilder()
    x = b.param("x", (2,), "float32")
    for _ in range(3000):
        x = b.op("multiply", b.op("exp", x), b.op("exp", x))
    after = CSE(b.finish(x))
    assert len(after.ops) == 6000


def test_states_are_loaded_as_often_as_they_may_have_changed():
    state = Global("s", (2,), "float32", ConstantData.splat(0.0, (2,), "float32"))
    fixed = Global("f", (2,), "float32", ConstantData.splat(1.0, (2,), "float32"), False)
    b = tg.GraphBuilder()
    one = b.load(state)
    b.store(state, b.op("add", one, 1.0))
    two = b.load(state)
    graph = b.finish([one, two, b.load(fixed), b.load(fixed)])
    after = CSE(graph)
    assert len(graph.nodes) - len(after.nodes) == 1
    assert after.results[0] is not after.results[1] and after.results[2] is after.results[3]


def test_calls_of_one_graph_on_the_same_values_are_one():
    inner, outer = tg.GraphBuilder("inner"), tg.GraphBuilder("outer")
    f = inner.finish(inner.op("exp", inner.param("x", (4,), "float32")))
    y, z = outer.param("y", (4,), "float32"), outer.param("z", (4,), "float32")
    graph = outer.finish([v for x in (y, y, z) for v in outer.call(f, x)])
    assert len(CSE(graph).nodes) == 2
