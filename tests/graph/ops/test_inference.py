"""Types are inferred once for each operation, types and attributes; what is assumed on the way is assumed again."""

from __future__ import annotations

import pytest

from tirlower.graph.core.dims import DimEnv, dim
from tirlower.graph.core.nodes import TensorType
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.ops.inference import inferred, loops
from tirlower.graph.ops.registry import definition
from tirlower.ir import DataType

FLOAT = DataType("float32")


def test_loops_are_made_once() -> None:
    n = dim("N")
    env = DimEnv([n])
    add = definition("add")

    def made(*extents: object, dtype: DataType = FLOAT) -> object:
        types = [TensorType((e,), dtype) for e in extents]
        return loops(add, types, (-1, -1), {}, env)

    assert made(4, 4) is made(4, 4)
    assert made(n.var * 2, n.var * 2) is made(n.var * 2, n.var * 2)
    others = [made(4, 4), made(4, 1), made(5, 5), made(n.var, n.var), made(4, 4, dtype=DataType("int8"))]
    assert len({id(o) for o in others}) == len(others)


def test_attributes_that_are_equal_but_not_the_same() -> None:
    b = GraphBuilder()
    x = b.param("x", (2, 3), "float32")
    assert [b.op("sum", x, axis=a).shape for a in (0, 1, (0, 1), -1, 0)] == [(3,), (2,), (), (2,), (3,)]
    assert b.op("sum", x, axis=1, keepdims=True).shape == (2, 1)


def test_what_is_assumed_is_assumed_in_each_graph() -> None:
    n, m = dim("N"), dim("M")
    env = DimEnv([n, m])
    found = []
    for name in "ab":
        b = GraphBuilder(name, env=env)
        found.append(b.finish(b.op("add", b.param("x", (n,), "float32"), b.param("y", (m,), "float32"))))
    assert [len(g.assumed) for g in found] == [1, 1] and len(env.assumed) == 1
    alone = GraphBuilder("c", env=env)
    assert alone.finish(alone.param("x", (n,), "float32")).assumed == ()


def test_macros_note_what_their_operations_assume() -> None:
    n, m = dim("N"), dim("M")
    env = DimEnv([n, m])
    for _ in range(2):
        b = GraphBuilder(env=env)
        x, scale = b.param("x", (2, n), "float32"), b.param("scale", (m,), "float32")
        g = b.finish(b.op("rms_norm", x, scale))
        assert len(g.assumed) == 1, g.assumed


def test_facts_that_change_are_inferred_again() -> None:
    env = DimEnv([n := dim("N")])
    types = [TensorType((n.var,), FLOAT), TensorType((4,), FLOAT)]
    add = definition("add")
    assert len(inferred(add, types, (-1, -1), {}, env, list)) == 1
    env.state("N", 5, 9)
    with pytest.raises(GraphError, match="broadcast"):
        inferred(add, types, (-1, -1), {}, env, list)


def test_errors_are_not_remembered_as_results() -> None:
    env = DimEnv()
    types = [TensorType((3,), FLOAT), TensorType((4,), FLOAT)]
    for _ in range(2):
        with pytest.raises(GraphError, match="broadcast"):
            inferred(definition("add"), types, (-1, -1), {}, env, list)


def test_a_chain_of_20_000_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = type(definition("exp"))
    plain, calls = kind.generic, []
    monkeypatch.setattr(kind, "generic", lambda self, *args: calls.append(self.name) or plain(self, *args))
    b = GraphBuilder()
    v = b.param("x", (4, 8), "float32")
    for n in range(20_000):
        v = b.op("exp" if n % 2 else "sin", v)
    assert sorted(calls) == ["exp", "sin"]
