"""Modules as text: read back, run as Python, and compiled they are the same; what is no module is pointed at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower.graph as tg
from tests.graph.fuzz.generate import generate
from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.module_text import parse_module
from tirlower.graph.core.nodes import Const
from tirlower.graph.errors import GraphError
from tirlower.ir import IRModule
from tirlower.script.parse import parse as parse_script

TOTAL = tg.state("total", (2,), "float32", 0.0)
B = tg.dim("B", 1, 9)


def add_up(x: Any) -> Any:
    TOTAL.store(TOTAL.load() + x.sum(axis=0))
    return {"now": TOTAL.load()}


def look(x: Any) -> Any:
    return x + TOTAL.load(), tg.cond(x.sum() > 0, lambda: x * 2, lambda: x)


KERNEL = parse_script("""
@T.prim_func
def doubled(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        C[i] = A[i] * T.float32(2)
""")


def module() -> tg.Module:
    spec = tg.spec((B, 2), "float32")
    other = tg.state("unused", (), "int8", 3, mutable=False)
    graphs = {"step": tg.trace(add_up, spec), "look at it": tg.trace(look, spec)}
    return tg.module(graphs, globals=(other, TOTAL), kernels=IRModule({"doubled": KERNEL}))  # type: ignore[dict-item]


def constants(one: tg.Module) -> dict[str, ConstantData]:
    found = [n.data for g in one.graphs.values() for n in g.nodes if isinstance(n, Const)]
    return {data.digest: data for data in found}


def run(text: str) -> tg.Module:
    space: dict[str, Any] = {}
    exec(compile("import tirlower.graph as tg\n" + text, "<text>", "exec"), space)
    made: tg.Module = space["module"]
    return made


def test_text_and_back() -> None:
    one = module()
    text = str(one)
    assert text.count("tg.state(") == 2 and 'tg.module({"step": step, "look at it": look_at_it}' in text
    for back in (parse_module(text), run(text)):
        assert tg.structural_equal(back, one) and str(back) == text
        assert tg.structural_hash(back) == tg.structural_hash(one)
        tg.assert_structural_equal(back, one)
        tg.verify(back)
        # One state is one object in all graphs.
        assert {id(g) for graph in back.graphs.values() for g in graph.effects} <= {id(g) for g in back.globals}


@pytest.mark.parametrize("seed", range(0, 40, 2))
def test_random_graphs_in_one_module(seed: int) -> None:
    one = tg.Module({"main": generate(seed, 12), "total": generate(seed + 1, 12)}, [TOTAL.held])
    back = parse_module(str(one), constants(one))
    assert tg.structural_equal(back, one) and str(back) == str(one)


def test_any_graph_of_it_is_compiled() -> None:
    one = module()
    x = np.ones((3, 2), "float32")
    exe = tg.compile(one)
    assert exe(x)["now"].tolist() == [3, 3] and exe(x)["now"].tolist() == [6, 6]  # type: ignore[index]
    y, z = tg.compile(one, entry="look at it")(x)  # type: ignore[misc]
    np.testing.assert_array_equal([y, z], [x, x * 2])
    with pytest.raises(GraphError, match=r"no graph 'stepp'.*\n.*did you mean 'step'"):
        tg.compile(one, entry="stepp")
    with pytest.raises(GraphError, match="no graph 'x'"):
        tg.compile(one.entry, entry="x")
    assert tg.compile(one.entry, entry=one.entry.name).graph is one.entry


def test_what_makes_modules_different() -> None:
    one = module()
    f, g = one.graphs.values()
    others = [
        tg.Module({"step": f}, one.globals, one.kernels),
        tg.Module({"look at it": g, "step": f}, one.globals, one.kernels),
        tg.Module({"step": f, "look": g}, one.globals, one.kernels),
        tg.Module({"step": f, "look at it": f}, one.globals, one.kernels),
        tg.Module(one.graphs, [TOTAL.held], one.kernels),
        tg.Module(one.graphs, one.globals[::-1], one.kernels),
        tg.Module(one.graphs, one.globals),
    ]
    for n, other in enumerate(others):
        assert not tg.structural_equal(one, other) and not tg.structural_equal(other, one), n
        assert tg.structural_hash(one) != tg.structural_hash(other), n
        with pytest.raises(Exception, match=r".") as caught:
            tg.assert_structural_equal(one, other)
        assert type(caught.value).__name__ in ("StructuralMismatch", "GraphError")
    assert not tg.structural_equal(one, f) and not tg.structural_equal(f, one)


def test_two_states_of_one_name_are_no_module() -> None:
    other = tg.state("total", (), "int8", 0)
    with pytest.raises(GraphError, match="two states are named 'total'"):
        tg.verify(tg.Module(module().graphs, [other.held]))


GRAPH = """@tg.graph
def f(x: tg.Tensor((4,), "float32")):
    y: tg.Tensor((4,), "float32") = tg.add(x, x)
    return y
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the text has no module"),
        (GRAPH, "the text has no module"),
        (GRAPH + "module = tg.module({'f': g})", "no graph that stands before this line: g"),
        (GRAPH + "module = tg.module({'f': f, 'f': f})", "a name of its own"),
        (GRAPH + "module = tg.module({1: f})", "a name of its own"),
        (GRAPH + "module = tg.module(f)", "a dict of graphs"),
        (GRAPH + "module = tg.module({})", "a module has a graph"),
        (GRAPH + "module = tg.module({'f': f}, globals=(s,))", "no state that stands before this line: s"),
        (GRAPH + "module = tg.module({'f': f}, kernels=tg.kernels('def'))", "no script of kernels"),
        (GRAPH + "module = tg.module({'f': f}, extra=1)", "graphs, globals and kernels"),
        (GRAPH + "module = tg.module({'f': f})\nx = 1", "nothing stands behind the module"),
        (GRAPH + GRAPH + "module = tg.module({'f': f})", "'f' is made twice"),
        ('s = tg.state("s", (), "int8", 0)\ns = tg.state("s", (), "int8", 0)', "'s' is made twice"),
        ("import os", "no state, graph or module"),
        ("module = open('x')", "no state, graph or module"),
        ("def f(:", "invalid|expected|closed"),
    ],
)
def test_what_is_no_module(text: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        parse_module(text)


def test_the_text_of_a_module_is_no_graph() -> None:
    with pytest.raises(GraphError, match=r"tg\.parse_module"):
        tg.parse(str(module()))
