"""What depends on constants alone, also on those whose contents came late; the graph without it computes the same."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tirlower.graph as tg
from tests.graph.fuzz.generate import generate
from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.debug import Assert, Said
from tirlower.graph.core.nodes import Const, Graph, Value
from tirlower.graph.core.numerics import Numerics
from tirlower.graph.ops.builder import rewritten
from tirlower.graph.passes.compare import bindings, outcome, random_inputs, said_differs
from tirlower.graph.passes.late_constants import split, with_constants


def flat(made: Any) -> list[Any]:
    return list(made.values()) if isinstance(made, dict) else list(made) if isinstance(made, tuple) else [made]


def torn(graph: Graph) -> tuple[Graph, dict[str, ConstantData]]:
    """The graph whose constants have no contents, and what they held."""
    contents: dict[str, ConstantData] = {}

    def visit(builder: Any, node: Any, operands: Any) -> Any:
        if not isinstance(node, Const):
            return None
        digest = f"{len(contents):08x}"
        contents[digest] = node.data
        return (builder.const(ConstantData.abstract(digest, node.data.shape, node.data.dtype), "late"),)

    return rewritten(graph, visit), contents


def late(graph: Graph, contents: dict[str, ConstantData]) -> dict[Value, ConstantData]:
    return {
        n.results[0]: contents[n.data.digest] for n in graph.nodes if isinstance(n, Const) and n.data.digest in contents
    }


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_graphs_give_the_same_bits(first: int) -> None:
    folded = failed = 0
    for seed in range(first, first + 20):
        graph = tg.passes.Expand()(generate(seed, 20))
        without, contents = torn(graph)
        bound = late(without, contents)
        with np.errstate(all="ignore"):
            found = split(without, bound)
            values: dict[Value, ConstantData] = {}
            if found is not None:
                part, outside = found
                tg.verify(part)
                assert not part.params and not part.dims
                made = flat(tg.interpret(part))
                values = {v: ConstantData(np.asarray(a)) for v, a in zip(outside, made, strict=True)}
                folded += len(values)
            after = with_constants(without, bound, values)
            tg.verify(after)
            assert not any(isinstance(n, Const) and n.data.is_abstract for n in after.nodes)
            assert split(after, {}) is None
            inputs = random_inputs(graph, random.Random(seed).choice(bindings(graph)), seed)
            was: list[Said] = []
            now: list[Said] = []
            try:
                wanted = outcome(graph, inputs, graph, said=was)  # goes on where an assertion does not hold
            except tg.GraphError:  # extents that the operations need equal
                continue
            for a, b in zip(outcome(after, inputs, graph, said=now), wanted, strict=True):
                assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes(), seed
            assert said_differs(was, now, was, Numerics.EXACT) is None, seed
            failed += not all(one.array.item() for one in was if one.kind is Assert)
    assert folded and failed  # graphs whose assertions do not hold are among them


def test_of_several_results_those_that_are_read_become_constants() -> None:
    w = np.arange(6, dtype="float32")

    b = tg.GraphBuilder()
    x = b.param("x", (2,), "float32")
    first, second, _ = b.ops("split", b.const(w), parts=(2, 2, 2))
    graph = b.finish((b.op("add", x, first), b.op("exp", second)))
    without, contents = torn(graph)
    bound = late(without, contents)
    part, values = split(without, bound)  # type: ignore[misc]
    assert [op.name for op in part.ops] == ["split", "exp"] and len(values) == 2
    made = [ConstantData(a) for a in flat(tg.interpret(part))]
    after = with_constants(without, bound, dict(zip(values, made, strict=True)))
    assert [op.name for op in after.ops] == ["add"]
    y, e = flat(tg.interpret(after, np.ones(2, "float32")))
    np.testing.assert_array_equal(y, [1, 2])
    np.testing.assert_array_equal(e, np.exp(w[2:4]))


def test_what_has_effects_dims_or_grows_is_no_part() -> None:
    B = tg.dim("B", 1, 9)
    w = np.ones((1, 2), "float32") * 3
    state = tg.state("s", (1, 2), "float32", 0.0)

    def f(x: Any) -> Any:
        state.store(np.exp(tg.constant("float32", (1, 2), 1.5)))
        return tg.broadcast_to(w, (x.shape[0], 2)), tg.broadcast_to(w, (20_000, 2)), x

    graph = tg.trace(f, tg.spec((B, 2), "float32"))
    without, contents = torn(graph)
    part, values = split(without, late(without, contents))  # type: ignore[misc]
    assert [op.name for op in part.ops] == ["exp"] and [v.name for v in values] == ["exp"]
