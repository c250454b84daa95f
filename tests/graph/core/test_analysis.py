"""Uses, orders, reachability, dominators and liveness of graphs, each against a search by the book on random graphs."""

from __future__ import annotations

import itertools
import random

import pytest

from tirlower.graph.core.analysis import analysis, bits, inner_graphs, order
from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.effects import Global
from tirlower.graph.core.nodes import Graph, GraphNode, Op, TensorType, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.ir import DataType

FLOATS = TensorType((4,), DataType("float32"))


def state(name: str) -> Global:
    return Global(name, (4,), "float32", ConstantData.splat(0.0, (4,), "float32"))


def random_graph(seed: int, count: int = 14) -> Graph:
    rng = random.Random(seed)
    b = GraphBuilder()
    values = [b.param("x", (4,), "float32"), b.param("y", (4,), "float32")]
    states = [state("s"), state("t")]
    for _ in range(count):
        kind = rng.randrange(8)
        if kind == 0:
            values.append(b.load(rng.choice(states)))
        elif kind == 1:
            b.store(rng.choice(states), rng.choice(values))
        elif kind == 2:
            values.append(b.const(ConstantData.splat(rng.random(), (4,), "float32")))
        else:
            values.append(b.op("add", rng.choice(values[-6:]), rng.choice(values)))
    return b.finish(rng.sample(values, 3))


def edges(graph: Graph) -> set[tuple[GraphNode, GraphNode]]:
    """What must come before what, pair by pair."""
    found = {(v.node, n) for n in graph.nodes for v in n.operands if v.node is not None}
    for i, a in enumerate(graph.nodes):
        for b in graph.nodes[i + 1 :]:
            if any(g in a.writes or g in b.writes for g in set(a.effects) & set(b.effects)):
                found.add((a, b))
    return found


def search(start: GraphNode, pairs: set[tuple[GraphNode, GraphNode]], without: GraphNode | None) -> set[GraphNode]:
    """What is reached from a node by a path that leaves one node out."""
    seen, stack = set(), [start]
    while stack:
        node = stack.pop()
        if node is not without and node not in seen:
            seen.add(node)
            stack += [b for a, b in pairs if a is node]
    return seen


SEEDS = range(60)


@pytest.mark.parametrize("seed", SEEDS)
def test_uses(seed: int) -> None:
    g = random_graph(seed)
    a = analysis(g)
    for value in (*g.params, *(v for n in g.nodes for v in n.results)):
        wanted = [(n, i) for n in g.nodes for i, v in enumerate(n.operands) if v is value]
        assert list(a.users(value)) == wanted
        assert a.uses(value) == len(wanted) + sum(v is value for v in g.results)
        assert a.is_result(value) is any(v is value for v in g.results)
    assert analysis(g) is a


@pytest.mark.parametrize("seed", SEEDS)
def test_reachability_and_convex_sets(seed: int) -> None:
    g = random_graph(seed)
    a, pairs = analysis(g), edges(g)
    reached = {n: search(n, pairs, None) for n in g.nodes}
    for x in g.nodes:
        assert [g.nodes[n] for n in bits(a.descendants[a.index[x]])] == [n for n in g.nodes if n in reached[x]]
        for y in g.nodes:
            assert a.reaches(x, y) is (y in reached[x])
    rng = random.Random(seed)
    for _ in range(10):
        some = rng.sample(g.nodes, 3)
        torn = any(
            z not in some and any(z in reached[x] for x in some) and any(y in reached[z] for y in some) for z in g.nodes
        )
        assert a.is_convex(some) is not torn


@pytest.mark.parametrize("seed", SEEDS)
def test_dominators(seed: int) -> None:
    g = random_graph(seed)
    a = analysis(g)
    data = {(v.node, n) for n in g.nodes for v in n.operands if v.node is not None}
    back = {(y, x) for x, y in data}
    last = [n for n in g.nodes if not any(x is n for x, _ in data) or any(v in g.results for v in n.results)]
    first = [n for n in g.nodes if not n.operands or any(v.node is None for v in n.operands)]
    for node in g.nodes:
        behind = [d for d in g.nodes if d is not node and not search(node, data, d) & set(last)]
        found = a.post_dominator(node)
        assert found is (behind[0] if behind else None), (node, behind)  # the nearest stands first in the order
        ahead = [d for d in g.nodes if d is not node and not search(node, back, d) & set(first)]
        assert a.dominator(node) is (ahead[-1] if ahead else None), (node, ahead)


@pytest.mark.parametrize("seed", SEEDS)
def test_liveness(seed: int) -> None:
    g = random_graph(seed)
    a = analysis(g)
    values = [*g.params, *(v for n in g.nodes for v in n.results)]
    for n, node in enumerate(g.nodes):
        later = {v for m in g.nodes[n + 1 :] for v in m.operands} | set(g.results)
        made = [v for v in values if v.node is None or a.index[v.node] <= n]
        assert list(a.live_after(node)) == [v for v in made if v in later]
        touched = set(node.operands) | set(node.results)
        assert set(a.dying[n]) == {v for v in touched if v not in later}


@pytest.mark.parametrize("seed", SEEDS)
def test_orders_keep_what_must_come_before(seed: int) -> None:
    g = random_graph(seed)
    assert order(g) == g.nodes
    rng = random.Random(seed)
    weight = {n: rng.randrange(3) for n in g.nodes}
    made = order(g, lambda n: weight[n])
    assert sorted(map(g.nodes.index, made)) == list(range(len(g.nodes)))
    pairs = edges(g)
    for x, y in pairs:
        assert made.index(x) < made.index(y)
    for n, node in enumerate(made):  # greedy: nothing heavier was ready, and of equal ones the first of the graph
        ready = [m for m in made[n:] if not any(y is m and x in made[n:] for x, y in pairs)]
        assert node is max(ready, key=lambda m: (weight[m], -g.nodes.index(m)))


def test_nodes_that_need_one_another_have_no_order() -> None:
    x, y = Value.of(FLOATS, "x"), Value.of(FLOATS, "y")
    a = Op((x,), "exp", (y,), (-1,), {})
    b = Op((y,), "exp", (x,), (-1,), {})
    with pytest.raises(GraphError, match="need one another"):
        order(Graph("g", (), (), (a, b), (y,)))


def test_a_chain_of_20_000_nodes() -> None:
    values = [Value.of(FLOATS, "v") for _ in range(20_001)]
    nodes = [Op((y,), "exp", (x,), (-1,), {}) for x, y in itertools.pairwise(values)]
    g = Graph("g", (), (values[0],), tuple(nodes), (values[-1],))
    a = analysis(g)
    assert a.reaches(nodes[0], nodes[-1]) and a.is_convex(nodes[5:9])
    assert not a.is_convex([nodes[5], nodes[7]])
    assert a.post_dominator(nodes[0]) is nodes[1] and a.dominator(nodes[-1]) is nodes[-2]
    assert order(g, lambda n: -g.nodes.index(n) if n is nodes[3] else 0) == g.nodes
    assert a.live_after(nodes[7]) == (values[8],)


def test_bits() -> None:
    rng = random.Random(1)
    for _ in range(50):
        several = sorted(rng.sample(range(400), rng.randrange(60)))
        assert bits(sum(1 << n for n in several)) == several


def test_graphs_inside_come_once_and_behind_theirs() -> None:
    def unary(name: str, inside: Graph | None = None, times: int = 2) -> Graph:
        b = GraphBuilder(name)
        x = b.param("x", (4,), "float32")
        for _ in range(times):
            x = b.op("exp", x) if inside is None else b.call(inside, x)[0]
        return b.finish(x)

    g = unary("leaf")
    chain = [g]
    for n in range(40):  # each calls the one before twice: the paths are 2**40
        chain.append(unary(f"g{n}", chain[-1]))
    assert list(inner_graphs(chain[-1])) == chain[:-1]
    assert inner_graphs(g) == ()
