"""Nodes: how they are shown, and that a value is made once."""

import numpy as np
import pytest

import tirlower.graph as tg
from tirlower.graph import Const, ConstantData, Graph, GraphError, Op, Value


def test_nodes_show_themselves():
    g = tg.trace(lambda x: x + np.ones(4), tg.spec((tg.dim("B"), 4), "float32"))
    const, add = g.nodes
    assert str(g.params[0]) == repr(g.params[0]) == "<Value x: float32[B, 4]>"
    assert str(const).startswith("<Const ConstantData(float64, (4,), ")
    assert str(add) == "<Op add -> float64[B, 4]>"
    assert repr(g) == "<Graph main: 1 inputs, 1 operations, 1 results>"
    assert str(g).startswith("@tg.graph\ndef main(")


def test_a_value_is_made_once():
    value = Value((), "float32", "v")
    node = Const((value,), ConstantData.splat(1.0, (), "float32"))
    assert value.node is node
    with pytest.raises(GraphError, match="the value 'v' is made by another node already"):
        Const((value,), ConstantData.splat(1.0, (), "float32"))


def test_operands_and_operations():
    g = tg.trace(lambda x, y: np.concatenate([x, y]) + 1, tg.spec((2,), "float32"), tg.spec((3,), "float32"))
    concat, add = g.ops
    assert concat.operands == g.params
    assert concat.groups == (2,)
    assert add.inputs[0] is concat.results[0]
    assert all(isinstance(n, Op) for n in g.ops)
    assert isinstance(g.with_attr("level", 3), Graph)
    assert g.with_attr({"level": 3}).attrs == {"level": 3}
