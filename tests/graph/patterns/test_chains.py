"""Patterns of chains in any grouping: against all groupings and orders, tried one by one."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np
import pytest

import tirlower.graph as tg
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.patterns import is_const, is_op, is_tuple, wildcard
from tirlower.graph.patterns.match import Matcher

S = tg.spec((2, 2), "float32")


def groupings(value: tg.Value, name: str, dtype: object) -> Iterator[tuple[tg.Value, ...]]:
    """All lists of operands of which a value is made by a chain: by definition, without a stack or a count."""
    yield (value,)
    node = value.node
    if isinstance(node, tg.Op) and node.name == name and value.dtype == dtype:
        for left in groupings(node.inputs[0], name, dtype):
            for right in groupings(node.inputs[1], name, dtype):
                yield (*left, *right)


def brute(value: tg.Value, name: str, kinds: list[str], commutes: bool) -> set[tuple[tg.Value, ...]]:
    """What the wildcards of a pattern can stand for: a kind is the name of the operation below, or empty; one in
    capitals is the first operand again.
    """
    found = set()
    for operands in groupings(value, name, value.dtype):
        if len(operands) != len(kinds):
            continue
        for order in itertools.permutations(operands) if commutes else [operands]:
            if all(
                (kind == "")
                or (kind == "SAME" and one is order[0])
                or (isinstance(one.node, tg.Op) and one.node.name == kind)
                for kind, one in zip(kinds, order, strict=True)
            ):
                found.add(order)
    return found


@pytest.mark.parametrize("name", ["add", "maximum", "matmul"])
@pytest.mark.parametrize("seed", range(12))
def test_all_groupings_and_orders_are_found_and_no_others(name, seed):
    rng = random.Random(f"{name} {seed}")
    b = GraphBuilder()
    values = [b.param(f"x{n}", (2, 2), "float32") for n in range(2)]
    for _ in range(rng.randint(3, 8)):
        made = rng.choice([name, name, name, "exp", "subtract"])
        operands = [rng.choice(values[-4:]) for _ in range(1 if made == "exp" else 2)]
        values.append(b.op(made, *operands))
    graph = b.finish(values[-1])
    commutes = name != "matmul"
    for count in (2, 3, 4):
        kinds = [rng.choice(["", "", "exp", name, "SAME"]) for _ in range(count)]
        kinds[0] = kinds[0].replace("SAME", "")
        leaves = [wildcard() if not kind or kind == "SAME" else is_op(kind) for kind in kinds]
        leaves = [leaves[0] if kind == "SAME" else leaf for kind, leaf in zip(kinds, leaves, strict=True)]
        pattern = is_op(name, associative=True)(*leaves)
        for value in values[2:]:
            if not isinstance(value.node, tg.Op) or value.node.name != name:
                assert pattern.match(value) is None
                continue
            found = [tuple(match[leaf] for leaf in leaves) for match in pattern.matches(value)]
            wanted = brute(value, name, kinds, commutes)
            # Patterns that stand for nothing else are told apart by their object.
            assert set(found) == wanted, (str(graph), kinds)
            assert all(match.value is value for match in pattern.matches(value))


def test_it_covers_the_nodes_between_and_binds_none_of_them():
    g = tg.trace(lambda x, y, z: (x + y) + (y + z), S, S, S)
    a, b = wildcard(), wildcard()
    match = is_op("add", associative=True)(a, b, b, wildcard()).match(g.results[0])
    assert match is not None and match.nodes == g.nodes and match[b].name == "y"
    assert is_op("add", associative=True)(a, b).match(g.results[0]).nodes == (g.nodes[2],)
    assert is_op("add", associative=True)(*[wildcard() for _ in range(5)]).match(g.results[0]) is None


def test_a_pattern_in_it_is_a_value_of_its_own():
    g = tg.trace(lambda x, y, z: x + (y + z), S, S, S)
    inner = is_op("add")(wildcard(), wildcard())
    match = is_op("add", associative=True)(inner, wildcard()).match(g.results[0])
    assert match is not None and match[inner] is g.nodes[0].results[0]
    assert is_op("add", associative=True)(inner, wildcard(), wildcard()).match(g.results[0]) is None


def test_where_a_number_wraps_it_is_another_chain():
    def f(x, y, z):
        return (x + y).astype("int32") + z, x + y + z.astype("int8")

    g = tg.trace(f, tg.spec((2,), "int8"), tg.spec((2,), "int8"), tg.spec((2,), "int32"))
    three = is_op("add", associative=True)(wildcard(), wildcard(), wildcard())
    assert three.match(g.results[0]) is None and three.match(g.results[1]) is not None
    b = GraphBuilder()
    x, y = b.param("x", (2,), "int8"), b.param("y", (2,), "int32")
    mixed = b.finish(b.op("add", b.op("add", x, x), y))  # 100 + 100 wraps before y is added
    assert three.match(mixed.results[0]) is None


def test_closed_nodes_are_not_opened_and_long_chains_are_given_up_with_an_error():
    g = tg.trace(lambda x, y, z: x + (y + z), S, S, S)
    three = is_op("add", associative=True)(wildcard(), wildcard(), wildcard())
    assert next(Matcher(g, closed={g.nodes[0]}).matches(three, g.results[0]), None) is None
    b = GraphBuilder()
    value = b.param("x", (2,), "float32")
    for _ in range(20_000):
        value = b.op("add", value, 1.0)
    long = b.finish(value)
    constant = is_const(1.0)
    match = is_op("add", associative=True)(wildcard(), constant, wildcard()).match(long.results[0])
    assert match is not None and len(match.nodes) == 3
    wide = is_op("add", associative=True)(*[is_op("exp")(wildcard()) for _ in range(12)])
    values = [b.param(f"y{n}", (2,), "float32") for n in range(64)]
    while len(values) > 1:
        values = [b.op("add", *values[n : n + 2]) for n in range(0, len(values), 2)]
    with pytest.raises(GraphError, match="given up after 1000 steps"):
        next(Matcher(b.finish(values[0]), limit=1000).matches(wide, values[0]), None)


def test_wrong_ones_are_named():
    with pytest.raises(GraphError, match="a chain of subtract is not the same in another grouping"):
        is_op("subtract", associative=True)
    for args in ((wildcard(),), (wildcard(), None), ()):
        with pytest.raises(GraphError, match="a chain of add is of two operands at least"):
            is_op("add", associative=True)(*args)
    g = tg.trace(lambda x, y: x + y, S, S)
    three = is_op("add", associative=True)(wildcard(), wildcard(), wildcard())
    assert three.explain(g.results[0]) == "wanted add on 3 operands, found 2 at `add`"
    assert is_op("add", associative=True)(is_op("exp")(None), wildcard()).explain(g.results[0])
    assert is_op("concat")(is_tuple(None)).match(g.results[0]) is None


def test_rewriting_and_partition_with_it():
    x, w, b, r = (wildcard() for _ in range(4))
    product = is_op("matmul")(x, w)
    fused = is_op("add", associative=True)(product, b, r)

    def f(x, w, b, r):
        return (tg.exp(b) + (x @ w)) + r, r + (b + x @ w), b + r

    g = tg.trace(f, S, S, S, S)
    parted = tg.partition(g, [("lib.gemm", fused)])
    composites = [n.graph for n in parted.nodes if hasattr(n, "graph")]
    assert [c.attrs["PartitionedFromPattern"] for c in composites] == ["matmul_add_add"] * 2

    def gemm(match, builder):
        return builder.op("add", builder.op("add", match[product], match[b]), match[r])

    arrays = [np.arange(n, n + 4, dtype="float32").reshape(2, 2) for n in range(4)]
    for wanted, got, again in zip(
        tg.interpret(g, *arrays),
        tg.interpret(parted, *arrays),
        tg.interpret(tg.rewrite(g, [tg.Rule(fused, gemm, once=True)]), *arrays),
        strict=True,
    ):
        assert np.array_equal(wanted, got) and np.array_equal(np.round(wanted), np.round(again))
