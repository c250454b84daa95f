"""Groups of nodes: when a path leaves and comes back, and the graph in which each is one call."""

from __future__ import annotations

import numpy as np

import tirlower.graph as tg
from tirlower.graph.core.nodes import Const
from tirlower.graph.passes.grouping import Grouping, outline, results_of

X = tg.spec((4,), "float32")


def diamond() -> tg.Graph:
    return tg.trace(lambda x: (lambda e: tg.relu(e) + tg.sin(e))(tg.exp(x)), X)  # exp, relu, sin, add


def test_a_path_that_leaves_and_comes_back_is_named() -> None:
    g = diamond()
    grouping = Grouping(g)
    assert grouping.way_back(frozenset([0, 1])) is None and grouping.way_back(frozenset([0, 1, 2, 3])) is None
    assert grouping.way_back(frozenset([0, 1, 3])) == [0, 2, 3]
    assert grouping.way_back(frozenset([1, 2])) is None


def test_a_group_is_one_node_on_a_path() -> None:
    """Between exp and cos there is no path, but through the two nodes of a group that begins before and ends behind."""

    def crossed(x: tg.Tensor, y: tg.Tensor) -> tuple[tg.Tensor, ...]:
        a = tg.exp(x)
        b = tg.sin(y)
        return tg.tanh(a), tg.cos(b)

    g = tg.trace(crossed, X, X)  # exp, sin, tanh, cos
    assert [op.name for op in g.ops] == ["exp", "sin", "tanh", "cos"]
    grouping = Grouping(g)
    assert grouping.way_back(frozenset([0, 3])) is None
    group = grouping.add(frozenset([1, 2]))
    assert grouping.overlapping(frozenset([2, 3])) == [group]
    assert grouping.way_back(frozenset([0, 3])) == [0, 2, 1, 3]
    grouping.remove(group)
    assert grouping.way_back(frozenset([0, 3])) is None


def test_paths_agree_with_going_through_all() -> None:
    """Random graphs and groups; the judge takes nodes without open needs away."""
    rng = np.random.default_rng(0)
    kinds = {True: 0, False: 0}
    for _ in range(200):
        b = tg.GraphBuilder()
        values = [b.param("x", (4,), "float32")]
        for _ in range(10):
            values.append(b.op("add", *[values[i] for i in rng.integers(max(0, len(values) - 5), len(values), 2)]))
        g = b.finish(values[-1])
        grouping = Grouping(g)
        home = list(range(10))
        for _ in range(4):
            free = [n for n in range(10) if grouping.owner[n] is None]
            if len(free) < 2:
                break
            members = frozenset(int(n) for n in rng.choice(free, 2, replace=False))
            after = [min(members) if n in members else h for n, h in enumerate(home)]
            needs = {h: {after[m] for n in range(10) if after[n] == h for m in grouping.before[n]} - {h} for h in after}
            while any(not (open_ & needs.keys()) for open_ in needs.values()):
                needs = {h: open_ for h, open_ in needs.items() if open_ & needs.keys()}
            assert (grouping.way_back(members) is not None) == bool(needs)
            kinds[bool(needs)] += 1
            if not needs:
                grouping.add(members)
                home = after
    assert min(kinds.values()) > 50


def test_nodes_become_a_graph_of_their_own() -> None:
    two = np.full((4,), 2, "float32")
    g = tg.trace(lambda x: tg.relu(x * two) + tg.exp(x * two), X)
    inside = [n for n in g.nodes if not isinstance(n, Const)][:2]
    assert [n.name for n in inside] == ["multiply", "relu"]
    made = outline(g, inside, [inside[-1].results[0]])
    assert made.graph.name == "fused_multiply_relu" and [v.name for v in made.graph.params] == ["x"]
    lifted = outline(g, inside, [inside[-1].results[0]], lambda constant: False)
    assert [v.name for v in lifted.graph.params] == ["x", "param_0"] and lifted.inputs[1].node in g.nodes
    x = np.arange(-2, 2, dtype="float32")
    np.testing.assert_array_equal(tg.interpret(made.graph, x), np.maximum(x * 2, 0))
    assert all(v.node not in g.nodes for v in made.graph.results)


def test_results_are_what_others_read() -> None:
    g = diamond()
    names = lambda members: [v.node.name for v in results_of(g, frozenset(members))]
    assert names([0, 1]) == ["exp", "relu"] and names([1, 2]) == ["relu", "sin"] and names([3]) == ["add"]
    dead = tg.trace(lambda x: x, X).with_(nodes=diamond().nodes)
    assert [v.node.name for v in results_of(dead, frozenset([0, 1, 2, 3]))] == ["add"]
