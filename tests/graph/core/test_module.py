"""Modules: their entry, the globals that their graphs reach, and other parts."""

from __future__ import annotations

import pytest

from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.effects import Extern, Global
from tirlower.graph.core.module import Module
from tirlower.graph.core.nodes import Graph, TensorType
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.ir import DataType

S = Global("s", (), "float32", ConstantData.splat(0.0, (), "float32"))


def graph(name: str) -> Graph:
    b = GraphBuilder(name)
    x = b.param("x", (), "float32")
    b.store(S, x)
    return b.finish(b.kernel(Extern("f"), [TensorType((), DataType("float32"))], x, effect=True))


def test_the_parts_of_a_module() -> None:
    a, b = graph("a"), graph("b")
    m = Module({"a": a, "b": b})
    assert m.entry is a and m.globals == (S,)
    assert repr(m) == "<Module a, b: 1 globals, 0 kernels>"
    assert m.with_() is m and m.with_(graphs={"a": a, "b": b}) is m
    assert m.with_(graphs={"b": b}).entry is b
    other = Global("t", (), "float32", ConstantData.splat(0.0, (), "float32"))
    assert m.with_(globals=[other]).globals == (other, S)
    with pytest.raises(GraphError, match="a module has a graph"):
        Module({})
