"""Long drivers in parts: bounded functions, parts that do the same are one, and calls, marks and files are what they were."""

from __future__ import annotations

import itertools
import pathlib
from typing import Any

import numpy as np
import pytest

import tirlower.graph as tg
from tirlower.analysis.call_graph import calls_of
from tirlower.graph.core.nodes import Graph, Value
from tirlower.graph.lower.driver import Lowered, lower
from tirlower.graph.lower.main import PART
from tirlower.graph.lower.parts import ROOM, in_parts, places_of
from tirlower.graph.lower.steps import Choice, KernelStep, Loop, Part, Step
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.passes.expand import expand
from tirlower.graph.run.plan import check_plan
from tirlower.graph.run.sites import sites_of
from tirlower.ir import PrimFunc, verify_well_formed

OPS = ("exp", "tanh", "negative", "sigmoid")
PLAIN = tg.Options(optimize=False)


def chain(count: int, extents: tuple[Any, ...] = (4,), dims: list[Any] | None = None) -> Graph:
    b = GraphBuilder("chain", dims or [])
    x = b.param("x", extents, "float32")
    for n in range(count):
        x = b.op(OPS[n % len(OPS)], x)
    return b.finish(x)


def parts_of(lowered: Lowered) -> dict[str, PrimFunc]:
    return {name: func for name, func in lowered.module.items() if PART in func.attrs}


def copies(count: int) -> list[Step]:
    b = GraphBuilder()
    places = [b.param(f"x{n}", (4,), "float32") for n in range(count + 1)]
    return [KernelStep(None, "copy", pair) for pair in itertools.pairwise(places)]  # type: ignore[arg-type]


def flat(steps: Any) -> list[Step]:
    """The steps without the parts around them."""
    made: list[Step] = []
    for step in steps:
        made += flat(step.steps) if isinstance(step, Part) else [step]
    return made


def test_parts_hold_the_steps_in_their_order_and_none_is_long() -> None:
    for count in (0, 1, 5, 170, 1000, 5000):
        steps = copies(count)
        cut = in_parts(steps, lambda place: False)
        assert flat(cut) == steps
        assert [p for s in flat(cut) for p in places_of([s])] == list(places_of(steps))
        lists: list[Any] = [cut]
        while lists:
            here = lists.pop()
            inner = [s for s in here if isinstance(s, Part)]
            assert 3 * (len(here) - len(inner)) + 2 * len(inner) <= ROOM
            lists += [part.steps for part in inner]


def test_lists_inside_choices_and_loops_have_parts_of_their_own() -> None:
    b = GraphBuilder()
    flag = b.param("flag", (), "bool")
    steps = tuple(copies(400))
    choice, loop = in_parts([Choice(flag, steps, ()), Loop(flag, steps, steps)], lambda place: False)
    assert isinstance(choice, Choice) and isinstance(loop, Loop)
    assert all(isinstance(s, Part) for several in (choice.then, loop.again, loop.body) for s in several)
    assert flat(choice.then) == flat(loop.body) == list(steps) and choice.otherwise == ()


def test_a_part_is_told_of_the_places_outside_of_the_arena() -> None:
    steps = copies(300)
    outside: set[Value] = {*list(places_of(steps))[:3]}
    first = in_parts(steps, outside.__contains__)[0]
    assert isinstance(first, Part) and set(first.outside) == outside and not outside & set(first.arena)
    assert {*first.outside, *first.arena} == set(places_of(first.steps))


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_work_of_a_chain_grows_with_its_kinds_of_parts_alone(dynamic: bool) -> None:
    """What is compiled of 4,000 nodes is about what is compiled of 1,000: parts that do the same are one prim func."""
    n = tg.dim("N", 0, 100)
    sizes = []
    for count in (1000, 4000):
        lowered = lower(chain(count, (n, 3), [n]) if dynamic else chain(count))
        verify_well_formed(lowered.module)
        check_plan(lowered)
        parts = parts_of(lowered)
        calls = [len(calls_of(func)) for func in (*parts.values(), lowered.module["main"])]
        assert max(calls) <= ROOM // 2 and len(sites_of(lowered.module)) == count
        sizes.append(sum(calls))
    assert sizes[1] <= 1.2 * sizes[0] < 1200


def test_twenty_thousand_nodes_are_lowered() -> None:
    lowered = lower(chain(20_000))
    functions = [*parts_of(lowered).values(), lowered.module["main"]]
    assert sum(len(calls_of(func)) for func in functions) < 2000
    names = [site.kernel for site in sites_of(lowered.module)]
    assert names == [f"{OPS[n % len(OPS)]}_4" for n in range(20_000)]


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_long_chain_computes_what_its_nodes_do(dynamic: bool, tmp_path: pathlib.Path) -> None:
    n = tg.dim("N", 0, 100)
    graph = chain(220, (n, 3), [n]) if dynamic else chain(220, (2, 3))
    exe = tg.compile(graph, options=PLAIN)
    x = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)
    x.setflags(write=False)
    wanted = tg.interpret(graph, x)
    np.testing.assert_allclose(exe(x), wanted, rtol=1e-5)
    assert len(parts_of(exe._lowered)) > 1 and set(exe.kernels) == {k for k in exe.module if "_" in k}
    seen: list[str] = []
    with exe.trace(lambda kernel, inputs, outputs: seen.append(kernel.name) or outputs[0].sum()):
        np.testing.assert_array_equal(exe(x), exe(x))
    assert len(seen) == 440 and seen[:220] == [site.kernel for site in sites_of(exe.module)]
    assert sum(one.calls for one in exe.profile(x, rounds=1).kernels) == 220
    assert sum(row.calls for row in exe.report().kernels) == 220
    exe.save(tmp_path / "a.tg")
    again = tg.load(tmp_path / "a.tg")
    np.testing.assert_array_equal(again(x), exe(x))
    again.save(tmp_path / "b.tg")
    assert (tmp_path / "a.tg").read_bytes() == (tmp_path / "b.tg").read_bytes()
    if dynamic:
        assert exe(np.ones((0, 3), "float32")).shape == (0, 3)  # type: ignore[attr-defined]


def test_what_kernels_of_parts_are_given_is_what_they_computed() -> None:
    """The views that a hook gets of a kernel in a part are those of its own memory: each value is the next one's operand."""
    n = tg.dim("N", 1, 100)
    exe = tg.compile(chain(400, (n, 3), [n]), options=PLAIN)
    functions = {"exp": np.exp, "tanh": np.tanh, "negative": np.negative, "sigmoid": tg.sigmoid}
    last: list[Any] = []

    def hook(kernel: Any, inputs: Any, outputs: Any) -> None:
        if last:
            np.testing.assert_array_equal(inputs[0], last[0])
        np.testing.assert_allclose(outputs[0], functions[kernel.name.split("_")[0]](inputs[0]), rtol=1e-5, atol=1e-6)
        last[:] = [outputs[0].copy()]

    with exe.trace(hook):
        exe(np.linspace(-1, 1, 12, dtype="float32").reshape(4, 3))
    assert last


def test_parts_with_states_constants_choices_and_loops() -> None:
    total = tg.state("total", (3,), "float32", 0.0)

    def program(x: Any) -> Any:
        for n in range(100):
            x = np.tanh(x * np.full(3, n / 100, "float32")) + np.float32(n % 3)
            if n == 50:
                total.store(total.load() + x)

        def long(y: Any) -> Any:
            for _ in range(150):
                y = np.sin(y) + np.cos(y)
            return y

        z = tg.cond(x.sum() > 0, lambda: long(x), lambda: x)
        k, z = tg.while_loop(lambda k, v: k < 3, lambda k, v: (k + 1, long(v)), 0, z)
        return z + total.load(), k

    graph = tg.trace(program, tg.spec((3,), "float32"))
    x = np.array([0.5, -1, 2], "float32")
    exe = tg.compile(graph, options=PLAIN)
    wanted = tg.interpret(graph, x)
    for got, one in zip(exe(x), wanted, strict=True):  # type: ignore[call-overload]
        np.testing.assert_allclose(got, one, rtol=1e-4)
    assert len(parts_of(exe._lowered)) > 2
    second = exe(x)
    np.testing.assert_allclose(exe.state["total"], 2 * np.asarray(second[0] * 0 + exe.state["total"] / 2))  # type: ignore[index]
    with exe.trace(lambda kernel, inputs, outputs: None):
        np.testing.assert_array_equal(exe(x)[1], 3)  # type: ignore[index]


def test_wide_nodes_weigh_what_they_name() -> None:
    b = GraphBuilder("wide")
    params = [b.param(f"x{n}", (2,), "float32") for n in range(300)]
    rows = [b.op("exp", p) for p in params]
    y = b.op("concat", *[[b.op("concat", rows, axis=0) for _ in range(2)]], axis=0)
    graph = b.finish(y)
    lowered = lower(expand(graph))
    x = [np.full(2, n / 300, "float32") for n in range(300)]
    np.testing.assert_allclose(tg.compile(graph, options=PLAIN)(*x), tg.interpret(graph, *x), rtol=1e-6)
    assert len(sites_of(lowered.module)) == 303
