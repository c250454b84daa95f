"""The steps of graphs: what is copied and what is not, and results that alias nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import tirlower.graph as tg
from tirlower.graph.errors import GraphError
from tirlower.graph.lower.driver import lower
from tirlower.graph.lower.steps import Choice, ExternStep, KernelStep, Step

X = tg.spec((3,), "float32")


def kernels(steps: Sequence[Step]) -> Iterator[str]:
    for step in steps:
        if isinstance(step, KernelStep):
            yield step.kernel
        elif isinstance(step, ExternStep):
            yield step.extern.symbol
        elif isinstance(step, Choice):
            yield "if"
            yield from kernels(step.then)
            yield "else"
            yield from kernels(step.otherwise)
        else:
            yield from kernels(step.again)
            yield "while"
            yield from kernels(step.body)


def steps(function: Callable[..., object], *specs: object) -> list[str]:
    return list(kernels(lower(tg.trace(function, *specs)).steps))


def test_a_choice_makes_its_results_in_place() -> None:
    made = steps(lambda x, c: tg.cond(c, lambda: x + 1, lambda: x), X, tg.spec((), "bool"))
    assert made == ["if", "add_3", "else", "identity_3"]


def test_a_loop_copies_only_what_changes() -> None:
    made = steps(lambda x, w: tg.while_loop(lambda v: (v < 9).all(), lambda v: v + w, x), X, X)
    # The first value to its place; then in each trip the new one. The weights are read where they are.
    assert made == ["identity_3", "less_3", "all_scalar", "while", "add_3", "identity_3"]


def test_loads_are_copied_only_where_the_state_changes_meanwhile() -> None:
    s = tg.state("s", (3,), "float32")

    def late(x: Any) -> object:
        old = s.load()
        s.store(x)
        return old + 1

    def soon(x: Any) -> object:
        s.store(s.load() + x)
        return s.load() * 2

    assert steps(late, X) == ["identity_3", "identity_3", "add_3"]
    assert steps(soon, X) == ["add_3", "identity_3", "multiply_3"]


def test_results_of_calls_alias_nothing() -> None:
    def f(x: Any, c: Any) -> object:
        a, b = tg.cond(c, lambda: (x, x), lambda: (x + 1, x))
        return a, a, b, x, np.ones(3, np.float32)

    g = tg.trace(f, X, tg.spec((), "bool"))
    exe = tg.compile(g)
    for c in (True, False):
        x = np.arange(3, dtype="float32")
        made = exe(x, np.array(c))
        wanted = [np.array(a) for a in tg.interpret(g, x, np.array(c))]
        for n, array in enumerate(made):
            np.testing.assert_array_equal(array, wanted[n])
            array += 100  # none of the others changes
            assert x.tolist() == [0, 1, 2]


def test_the_same_graph_in_two_places_has_the_places_of_each() -> None:
    @tg.graph
    def twice(x: tg.Tensor((3,), "float32")):  # type: ignore[valid-type]
        return x + 1, x * 2

    def f(x: Any, c: Any) -> object:
        a, b = twice(x)
        p, q = tg.cond(c, twice, lambda v: (v, v), a)
        return (*twice(q), b, p)

    g = tg.trace(f, X, tg.spec((), "bool"))
    exe = tg.compile(g)
    for c in (True, False):
        given = np.arange(3, dtype="float32"), np.array(c)
        for a, b in zip(exe(*given), tg.interpret(g, *given), strict=True):
            np.testing.assert_array_equal(a, b)


def test_what_cannot_be_compiled_says_so() -> None:
    class Odd(tg.Op):
        pass

    b = tg.GraphBuilder()
    x = b.param("x", (3,), "float32")
    odd = Odd((tg.Value.of(x.type, "y"),), "exp", (x,), (-1,), {})
    b.nodes.append(odd)
    with pytest.raises(GraphError, match="Odd cannot be compiled"):
        lower(b.finish(odd.results[0]))
