"""Damaged graphs are found, each damage by its own words; whole graphs are not complained of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tirlower.graph as tg
from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.control import Call, If, While
from tirlower.graph.core.dims import Dim, dim
from tirlower.graph.core.effects import Extern, Global, KernelCall, Load, Store
from tirlower.graph.core.module import Module
from tirlower.graph.core.nodes import Const, Graph, GraphNode, Op, Value
from tirlower.graph.core.verify import verify
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.ir import Var
from tirlower.ir.dtype import INT64

N = dim("N", 1, 8)
S = Global("s", (4,), "float32", ConstantData.splat(0.0, (4,), "float32"))
FIXED = Global("k", (4,), "float32", ConstantData.splat(0.0, (4,), "float32"), mutable=False)


def unary(name: str, op: str) -> Graph:
    b = GraphBuilder(name, [N])
    return b.finish(b.op(op, b.param("p", (N, 4), "float32")))


def truth() -> Graph:
    b = GraphBuilder("again", [N])
    return b.finish(b.op("any", b.op("less", b.param("p", (N, 4), "float32"), 1.0)))


def example() -> Graph:
    b = GraphBuilder("g", [N])
    b.origin = "model.py:1"
    x, y = b.param("x", (N, 4), "float32"), b.param("y", (N, 4), "float32")
    v = b.op("add", x, y)  # 0
    w = b.op("concat", x, v, axis=0)  # 1
    c = b.const(np.asarray(True))  # 2
    (v,) = b.call(unary("f", "exp"), v)  # 3
    (v,) = b.if_(c, unary("t", "sin"), unary("e", "cos"), v)  # 4
    (v,) = b.while_(truth(), unary("body", "exp"), v)  # 5
    b.load(S)  # 6
    b.store(S, b.op("sum", v, axis=0))  # 7, 8
    (k,) = b.kernel(Extern("k", (N.var,)), [v.type], v)  # 9
    return b.finish([v, w, k])


def put(at: int, change: Callable[[GraphNode], GraphNode]) -> Graph:
    """The example with a node in the place of another; who read that one's results reads its own."""
    g = example()
    node = change(g.nodes[at])
    new = dict(zip(g.nodes[at].results, node.results, strict=False))
    nodes = list(g.nodes)
    nodes[at] = node
    for n in range(at + 1, len(nodes)):
        old = nodes[n]
        if any(v in new for v in old.operands):
            nodes[n] = old.with_operands(fresh(old), [new.get(v, v) for v in old.operands])
            new.update(zip(old.results, nodes[n].results, strict=True))
    return g.with_(nodes=tuple(nodes), results=tuple(new.get(v, v) for v in g.results))


def fresh(node: GraphNode, *types: object) -> tuple[Value, ...]:
    return tuple(Value.of(v.type, v.name) for v in node.results)


def typed(node: GraphNode, shape: tuple[object, ...], dtype: str = "float32") -> GraphNode:
    return node.with_(results=(Value(shape, dtype, "r"),))


def changed(at: int, **fields: object) -> Graph:
    return put(at, lambda n: n.with_(results=fresh(n), **fields))


def nodes(*places: int) -> Graph:
    g = example()
    return g.with_(nodes=tuple(g.nodes[n] for n in places))


def wider(b: GraphBuilder, extent: Dim | int = 5) -> Value:
    return b.param("p", (extent, 4), "float32")


def of(name: str, extent: Dim | int) -> Graph:
    b = GraphBuilder(name, [extent] if isinstance(extent, Dim) else [])
    return b.finish(b.op("exp", wider(b, extent)))


def other_dims() -> Graph:
    g = of("f", dim("M"))
    return changed(3, graph=g)


M = dim("M")
FIVE = of("five", 5)
ALL = range(10)

DAMAGED: list[tuple[str, Callable[[], Graph | Module]]] = [
    ("'x', is no parameter and made by no node", lambda: example().with_(params=example().params[1:])),
    ("operand 1 of <Op concat .*is no parameter and made by no node", lambda: nodes(1, 2)),
    ("is made only behind it", lambda: nodes(1, 0, 2, 3, 4, 5, 6, 7, 8, 9)),
    ("is made only behind it", lambda: nodes(0, 1, 2, 4, 3, 5, 6, 7, 8, 9)),
    ("result 0 of <Op add .*is made elsewhere too", lambda: nodes(0, 0, *ALL[1:])),
    ("a result of it, .*is no parameter and made by no node", lambda: nodes(*ALL[:9])),
    ("parameter .* is made by|given twice", lambda: (g := example()).with_(params=(g.params[0], *g.params))),
    (
        "its parameter 'add' is made by",
        lambda: (g := example()).with_(params=(*g.params, g.nodes[0].results[0])),
    ),
    (
        "two parameters are named 'x'",
        lambda: (g := example()).with_(params=(*g.params, Value((), "float32", "x"))),
    ),
    ("'N', which is no dim of it", lambda: unary("f", "exp").with_(dims=())),
    ("what it assumes has an extent of 'Q'", lambda: example().with_(assumed=((Var("Q", INT64), N.var),))),
    ("two dims that are named 'N'", lambda: example().with_(dims=(N, dim("N")))),
    ("its dim M is none of the graph around it", other_dims),
    ("'r' is stated as float32.8, 4. and is|'r' is stated as float32", lambda: put(0, lambda n: typed(n, (8, 4)))),
    ("'r' is stated as float16", lambda: put(0, lambda n: typed(n, (N, 4), "float16"))),
    ("'r' is stated as float32.N.", lambda: put(0, lambda n: typed(n, (N,)))),
    ("there is no operation 'ad'", lambda: changed(0, name="ad")),
    ("in the groups", lambda: changed(0, groups=(-1,))),
    ("in the groups", lambda: changed(1, groups=(3,))),
    ("the operand 'a' of <Op add .* is given 1|the operand .* is given 1", lambda: changed(0, groups=(1, 1))),
    ("has the attributes", lambda: changed(1, attrs={})),
    ("has the attributes", lambda: changed(0, attrs={"axis": 1})),
    ("does not take its operands", lambda: changed(1, attrs={"axis": 7})),
    ("an attribute of <Op concat .* 'Q', which is no dim", lambda: changed(1, attrs={"axis": Var("Q", INT64)})),
    ("<Op add .* has 2 results, and makes 1", lambda: put(0, two_results)),
    (r"'r' is stated as bool\[2\], and is bool", lambda: put(2, lambda n: typed(n, (2,), "bool"))),
    ("the graph of <Call five .* takes float32.5, 4. for 'p', got float32.N, 4.", lambda: changed(3, graph=FIVE)),
    (
        "the graph of <Call f .* takes 1 values, got 2",
        lambda: put(3, lambda n: n.with_(results=fresh(n), inputs=n.operands * 2)),
    ),
    ("'N', which is no dim|no parameter", lambda: changed(4, condition=Value((), "bool", "z"))),
    ("the condition of <If .* and no bool without axes", lambda: float_condition()),
    ("the graph for true of <If", lambda: changed(4, then_graph=FIVE)),
    ("the graph for false of <If", lambda: changed(4, else_graph=FIVE)),
    ("the two ways of <If .* give bool", lambda: changed(4, then_graph=truth())),
    ("give different numbers of results", lambda: changed(4, then_graph=twice(unary("t", "exp")))),
    ("the condition of <While .* takes", lambda: changed(5, condition=FIVE)),
    ("the condition of <While .* gives no bool", lambda: changed(5, condition=unary("c", "exp"))),
    ("the body of <While .* takes", lambda: changed(5, body=FIVE)),
    ("carries 1 values, its body gives 2", lambda: changed(5, body=twice(unary("t", "exp")))),
    (r"which <While .* carries, becomes bool\[\]", lambda: changed(5, body=truth())),
    ("'r' is stated as float32.5", lambda: put(6, lambda n: typed(n, (5,)))),
    ("<Store k> stores to a state that never changes", lambda: changed(8, target=FIXED)),
    ("<Store s> stores another type", lambda: put(8, lambda n: n.with_(inputs=n.operands[0].node.operands))),
    ("a number of <KernelCall k .*'Q'", lambda: changed(9, kernel=Extern("k", (Var("Q", INT64),)))),
    ("its 3 results are given back as 'one'", lambda: example().with_(structure="one")),
    ("its 3 results are given back as 'several'", lambda: example().with_(structure="several")),
    ("given back under the keys", lambda: example().with_(structure=("a", "b"))),
    ("given back under the keys", lambda: example().with_(structure=("a", "b", "a"))),
    ("needs N and M to be equal, and the graph does not assume it", lambda: assuming(with_it=False)),
    ("the graph 'inner': operand 0 of <Op exp .*'x', is no parameter", lambda: closing_over()),
    ("two states are named 's'", lambda: two_states()),
    ("two states are named 's'", lambda: Module({"a": example()}, [Global("s", S.extents, "float32", S.initial)])),
    ("the graph 'f': its 1 results", lambda: changed(3, graph=unary("f", "exp").with_(structure=()))),
]


def two_results(node: GraphNode) -> GraphNode:
    return node.with_(results=(*fresh(node), Value((), "float32", "z")))


def float_condition() -> Graph:
    return put(2, lambda _: Const((Value((), "float32", "c"),), ConstantData.splat(1.0, (), "float32")))


def twice(graph: Graph) -> Graph:
    return graph.with_(results=graph.results * 2, structure="tuple")


def assuming(with_it: bool) -> Graph:
    b = GraphBuilder("g", [N, M])
    g = b.finish(b.op("add", b.param("x", (N,), "float32"), b.param("y", (M,), "float32")))
    assert len(g.assumed) == 1
    return g if with_it else g.with_(assumed=())


def closing_over() -> Graph:
    b = GraphBuilder("outer")
    x = b.param("x", (4,), "float32")
    inner = GraphBuilder("inner")
    g = inner.finish(inner.op("exp", x))
    return b.finish(b.call(g))


def two_states() -> Graph:
    b = GraphBuilder()
    b.store(Global("s", (), "float32", ConstantData.splat(0.0, (), "float32")), 1.0)
    return b.finish(b.load(S))


@pytest.mark.parametrize("n", range(len(DAMAGED)))
def test_damage_is_found(n: int) -> None:
    message, make = DAMAGED[n]
    with pytest.raises(GraphError, match=message):
        verify(make())


def test_damage_is_found_in_graphs_inside() -> None:
    bad = unary("f", "exp")
    bad = bad.with_(params=())
    for at, field in ((3, "graph"), (4, "then_graph"), (4, "else_graph"), (5, "condition"), (5, "body")):
        with pytest.raises(GraphError, match=r"the graph 'f': operand 0 of <Op exp"):
            verify(changed(at, **{field: bad}))


def test_errors_say_where() -> None:
    with pytest.raises(GraphError, match=r"at model\.py:1"):
        verify(changed(0, name="ad"))


def test_whole_graphs() -> None:
    verify(example())
    verify(assuming(with_it=True))
    verify(Module({"a": example(), "b": unary("b", "exp")}))
    B = tg.dim("B", 1, 8)
    w = np.ones((8, 8), np.float32)
    verify(tg.trace(lambda x: {"y": tg.nn.softmax(x @ w + x.shape[0]), "z": x[1:, ::2]}, tg.spec((B, 8), "float32")))
    assert {type(n) for n in example().nodes} == {Op, Const, Call, If, While, Load, Store, KernelCall}


def test_a_chain_of_20_000_nodes() -> None:
    b = GraphBuilder(dims=[N])
    v = b.param("x", (N, 4), "float32")
    for _ in range(20_000):
        v = b.op("exp", v)
    g = b.finish(v)
    verify(g)
