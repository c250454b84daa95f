"""Structural equality and hashing of graphs: up to names, constants by content, and nothing else forgiven."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.dims import Dim, dim
from tirlower.graph.core.effects import Extern, Global
from tirlower.graph.core.nodes import Graph, Op, Value
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.ir import assert_structural_equal, structural_equal, structural_hash


def inner(name: str, op: str, N: Dim) -> Graph:
    b = GraphBuilder(name, [N])
    return b.finish(b.op(op, b.param("p", (N, 4), "float32")))


def example(
    *,
    names: str = "xyz",
    high: int = 8,
    hints: tuple[int, ...] = (),
    weight: float = 2.0,
    op: str = "exp",
    axis: int = 1,
    swapped: bool = False,
    inside: str = "sin",
    state: str = "s",
    initial: float = 0.0,
    symbol: str = "f",
    effect: bool = False,
    structure: str | tuple[str, ...] = "tuple",
    level: int = 0,
    shared: bool = True,
    assumed: bool = False,
    dtype: str = "float32",
) -> Graph:
    N = dim(names[0], 1, high, hints=hints)
    b = GraphBuilder(names, [N])
    x, y = b.param(names[1], (N, 4), "float32"), b.param(names[2], (N, 4), "float32")
    w = np.full(4, 1.0, dtype)
    w[2] = weight
    s = Global(state, (4,), "float32", ConstantData.splat(initial, (4,), "float32"))
    v = b.op("add", *((y, x) if swapped else (x, y)))
    v = b.op("multiply", b.op(op, v), b.op("cast", b.const(w), dtype="float32"))
    graphs = [inner("a", inside, N)]
    graphs.append(graphs[0] if shared else inner("other", inside, N))
    (v,) = b.call(graphs[0], v)
    (v,) = b.if_(b.const(np.asarray(True)), graphs[0], graphs[1], v)
    b.store(s, b.op("sum", v, axis=0))
    (v,) = b.kernel(Extern(symbol, (N.var,)), [v.type], v, effect=effect)
    if assumed:
        b.env.assumed.append((N.var * 2, N.var + 4))
    g = b.finish([b.op("sum", v, axis=axis), b.load(s)], structure)
    return g.with_attr("level", level) if level else g


def test_names_and_sharing_do_not_matter() -> None:
    g = example()
    for other in (example(names="abc"), example(shared=False), example(names="qrs", shared=False)):
        assert structural_equal(g, other) and structural_equal(other, g)
        assert structural_hash(g) == structural_hash(other)
        assert_structural_equal(g, other)


CHANGES: list[Callable[[], Graph]] = [
    lambda: example(high=9),
    lambda: example(hints=(4,)),
    lambda: example(weight=3.0),
    lambda: example(op="cos"),
    lambda: example(axis=0),
    lambda: example(swapped=True),
    lambda: example(inside="cos"),
    lambda: example(inside="cos", shared=False),
    lambda: example(state="t"),
    lambda: example(initial=1.0),
    lambda: example(initial=-0.0),
    lambda: example(symbol="g"),
    lambda: example(effect=True),
    lambda: example(structure=("a", "b")),
    lambda: example(level=1),
    lambda: example(assumed=True),
    lambda: example(dtype="float64"),
]


@pytest.mark.parametrize("n", range(len(CHANGES)))
def test_everything_else_does(n: int) -> None:
    g, other = example(), CHANGES[n]()
    assert not structural_equal(g, other) and not structural_equal(other, g)
    assert structural_hash(g) != structural_hash(other)
    assert structural_equal(other, CHANGES[n]())
    with pytest.raises(AssertionError, match="the two differ"):
        assert_structural_equal(g, other)


def test_the_error_says_where() -> None:
    with pytest.raises(AssertionError, match=r"differ at `nodes\[1\].name`: 'exp' and 'cos'"):
        assert_structural_equal(example(), example(op="cos"))


def test_values_of_other_places_are_others() -> None:
    """The same operations, of which the last reads another value of the same type."""

    def graph(which: int) -> Graph:
        b = GraphBuilder()
        x = b.param("x", (4,), "float32")
        several = [b.op("exp", x), b.op("exp", x)]
        return b.finish(b.op("sin", several[which]))

    assert not structural_equal(graph(0), graph(1))
    assert structural_hash(graph(0)) != structural_hash(graph(1))
    g = graph(0)
    stray = g.with_(results=(Value.of(g.results[0].type),))
    assert not structural_equal(g, stray) and not structural_equal(stray, g)


def test_dims_are_paired_one_to_one() -> None:
    def graph(a: Dim, b: Dim, first: Dim, second: Dim) -> Graph:
        builder = GraphBuilder(dims=[a, b])
        x = builder.param("x", (first, second), "float32")
        return builder.finish(builder.op("exp", x))

    a, b, c, d = (dim(n) for n in "abcd")
    assert structural_equal(graph(a, b, a, b), graph(c, d, c, d))
    assert not structural_equal(graph(a, b, a, b), graph(c, d, d, c))
    assert not structural_equal(graph(a, b, a, b), graph(c, d, c, c))


def test_an_abstract_constant_equals_what_it_may_be() -> None:
    data = ConstantData(np.arange(4, dtype="float32"))

    def graph(held: ConstantData) -> Graph:
        b = GraphBuilder()
        return b.finish(b.op("exp", b.const(held)))

    known, abstract = graph(data), graph(ConstantData.abstract(data.digest[:8], (4,), "float32"))
    assert structural_equal(known, abstract) and structural_hash(known) == structural_hash(abstract)


def test_a_chain_of_20_000_nodes_and_calls_of_calls() -> None:
    def chain() -> Graph:
        b = GraphBuilder()
        x = b.param("x", (4,), "float32")
        v = x
        for _ in range(20_000):
            node = Op((Value.of(x.type, "v"),), "exp", (v,), (-1,), {})
            b.nodes.append(node)
            v = node.results[0]
        return b.finish(v)

    def nested() -> Graph:
        made = inner("g", "exp", N)
        for _ in range(40):  # each calls the one before twice: the paths are 2**40
            b = GraphBuilder(dims=[N])
            v = b.param("x", (N, 4), "float32")
            (v,) = b.call(made, v)
            made = b.finish(b.call(made, v))
        return made

    N = dim("N")
    for make in (chain, nested):
        a, b = make(), make()
        assert structural_equal(a, b) and structural_hash(a) == structural_hash(b)
