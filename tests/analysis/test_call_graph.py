"""Which functions call which: order, circles, what a call names."""

from __future__ import annotations

import random

import pytest

from tirlower.analysis.call_graph import CallGraph
from tirlower.ir.func import IRModule
from tirlower.script import parse


def module(edges: dict[str, list[str]]) -> IRModule:
    lines = ["@I.ir_module", "class Module:"]
    for name, callees in edges.items():
        lines += ["    @T.prim_func(private=True)", f"    def {name}(n: T.int32):"]
        lines += [f"        Module.{callee}(n)" for callee in callees] or ["        T.evaluate(0)"]
    return parse("\n".join(lines))


def reaches(edges: dict[str, list[str]], start: str) -> set[str]:
    found: set[str] = set()
    stack = list(edges[start])
    while stack:
        name = stack.pop()
        if name not in found:
            found.add(name)
            stack += edges[name]
    return found


@pytest.mark.parametrize("seed", range(40))
def test_order_and_circles_of_random_graphs(seed: int) -> None:
    rng = random.Random(seed)
    names = [f"f{i}" for i in range(rng.randint(1, 9))]
    edges = {name: rng.sample(names, rng.randint(0, min(3, len(names)))) for name in names}
    graph = CallGraph(module(edges))
    beyond = {name: reaches(edges, name) for name in names}
    assert graph.callees == {name: tuple(callees) for name, callees in edges.items()}
    assert {frozenset(circle) for circle in graph.circles} == {
        frozenset({name} | {other for other in beyond[name] if name in beyond[other]}) for name in names
    }
    assert graph.recursive == {name for name in names if name in beyond[name]}
    position = {name: at for at, circle in enumerate(graph.circles) for name in circle}
    assert all(position[callee] <= position[name] for name in names for callee in edges[name])
    assert sorted(graph.order) == names
    for name in names:
        assert set(graph.below(name)) == {name} | beyond[name]
        assert set(graph.callers[name]) == {other for other in names if name in edges[other]}


def test_a_long_chain_is_no_recursion_of_ours() -> None:
    edges = {f"f{i}": [f"f{i + 1}"] for i in range(3000)} | {"f3000": []}
    graph = CallGraph(module(edges))
    assert graph.order == tuple(f"f{i}" for i in range(3000, -1, -1)) and not graph.recursive
    assert len(graph.below("f0")) == 3001


def test_a_call_names_a_key_or_a_symbol() -> None:
    mod = module({"main": ["inner", "inner"], "inner": []})
    renamed = IRModule({"main": mod["main"], "other": mod["inner"].with_attr("global_symbol", "inner")})
    assert CallGraph(renamed).callees == {"main": ("other",), "other": ()}
    assert CallGraph(IRModule({"main": mod["main"]})).callees == {"main": ()}
