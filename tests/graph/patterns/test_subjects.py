"""Values, groups and their nodes: what messages call them, and how attributes and shapes are compared."""

from __future__ import annotations

import tirlower.graph as tg
from tirlower.graph.core.dims import DimEnv
from tirlower.graph.patterns import wildcard
from tirlower.graph.patterns.subjects import equal_shapes, node_of, shown


def test_what_values_are_called() -> None:
    x = tg.spec((4,), "float32")
    g = tg.trace(lambda x: (*tg.split(tg.exp(x), parts=(2, 2)), x + 2), x)
    first, second, added = g.results
    assert shown(g.params[0]) == "the input `x`"
    assert shown(added) == f"add at `{added.name}`"
    assert shown(first) == f"result 0 of split at `{first.name}`"
    assert shown((first, second)) == f"split at `{first.name}`"
    assert shown((second, first)) == f"2 values ({second.name}, {first.name})"
    assert node_of((first, second)) is first.node and node_of((second, first)) is None and node_of(()) is None
    constant = next(n for n in g.nodes if isinstance(n, tg.Const)).results[0]
    assert shown(constant) == f"a constant at `{constant.name}`"


def test_attributes_are_equal_with_their_kinds() -> None:
    g = tg.trace(lambda x: tg.sum(x, axis=1, keepdims=True), tg.spec((4, 2), "float32"))
    total = g.results[0]
    assert wildcard().has_attr({"keepdims": True}).match(total)
    assert not wildcard().has_attr({"keepdims": 1}).match(total)
    assert wildcard().has_attr({"axis": 1}).match(total)
    assert not wildcard().has_attr({"axis": True}).match(total)


def test_an_attribute_may_be_an_expression_of_dims() -> None:
    b = tg.dim("B", 1, 8)
    g = tg.trace(lambda x: x.reshape(b * 2, 2), tg.spec((b, 4), "float32"))
    reshaped = g.results[0]
    assert wildcard().has_attr({"shape": (b * 2, 2)}).match(reshaped)
    assert not wildcard().has_attr({"shape": (b * 4, 2)}).match(reshaped)


def test_shapes_of_other_ranks_differ() -> None:
    env = DimEnv()
    assert equal_shapes((), (), env) and equal_shapes((None,), (3,), env)
    assert not equal_shapes((None,), (), env) and not equal_shapes((0,), (1,), env)
