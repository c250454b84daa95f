"""Graphs under other dims: every kind of node, types, attributes, and what was assumed."""

from __future__ import annotations

import numpy as np
import pytest

from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.dims import DimEnv, dim
from tirlower.graph.core.effects import Extern, Global
from tirlower.graph.core.nodes import Graph
from tirlower.graph.core.verify import verify
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.ops.instantiate import instantiated
from tirlower.graph.ops.interpret import interpret

pytestmark = pytest.mark.by_day

N, B = dim("N", 1, 64), dim("B", 1, 8)
S = Global("s", (4,), "float32", ConstantData.splat(2.0, (4,), "float32"))


def inner(name: str) -> Graph:
    b = GraphBuilder(name, [N])
    x = b.param("p", (N, 4), "float32")
    return b.finish(b.op("reshape", b.op("reshape", x, shape=(N.var * 4,)), shape=(N.var, 4)))


def example(kernel: bool = False) -> Graph:
    b = GraphBuilder("g", [N])
    x = b.param("x", (N, 4), "float32")
    (v,) = b.call(inner("f"), x)
    (v,) = b.if_(b.const(np.asarray(True)), inner("t"), inner("e"), v)
    b.store(S, b.op("sum", v, axis=0))
    v = b.op("multiply", b.op("add", v, b.load(S)), b.op("dim_value", value=N.var, dtype="float32"))
    if kernel:
        (v,) = b.kernel(Extern("k", (N.var * 2,)), [v.type], v)
    return b.finish(v).with_attr("level", 2)


@pytest.mark.parametrize("extent", [3, B.var, B.var * 2 + 1])
def test_every_kind_of_node(extent: object) -> None:
    g = example(kernel=True)
    made = instantiated(g, {N.var: extent}, DimEnv([B]))
    verify(made)
    assert [type(n) for n in made.nodes] == [type(n) for n in g.nodes] and made.attrs == {"level": 2}
    g, made = example(), instantiated(example(), {N.var: extent}, DimEnv([B]))
    x = np.arange(12, dtype="float32").reshape(3, 4)
    if extent == 3 or extent is B.var:
        np.testing.assert_array_equal(interpret(made, x), interpret(g, x))


def test_its_own_dims_change_nothing() -> None:
    g = example()
    env = DimEnv([N])
    assert instantiated(g, {}, env) is g
    assert instantiated(g, {N.var: N.var}, env) is g


def test_what_is_assumed_is_assumed_of_the_new_extents() -> None:
    M = dim("M")
    b = GraphBuilder("g", [N, M])
    g = b.finish(b.op("add", b.param("x", (N,), "float32"), b.param("y", (M,), "float32")))
    env = DimEnv([B])
    assert len(g.assumed) == 1
    made = instantiated(g, {N.var: B.var, M.var: 4}, env)
    assert len(env.assumed) == 1
    verify(made.with_(dims=(B,), assumed=tuple(env.assumed)))
    with pytest.raises(GraphError, match=r"needs two extents to be equal: 4 and 5|broadcast"):
        instantiated(g, {N.var: 4, M.var: 5}, DimEnv())
