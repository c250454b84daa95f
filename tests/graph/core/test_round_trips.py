"""The text of every graph that the tests build, as it is and after every pass, is read back as the same graph."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import tirlower as tl
import tirlower.graph as tg
from tests.graph.fuzz.generate import generate
from tirlower.graph.backends.registry import offload
from tirlower.graph.core import printer
from tirlower.graph.core.analysis import inner_graphs
from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.effects import Load, Store
from tirlower.graph.core.nodes import Const, Graph
from tirlower.graph.passes.default import DEFAULT, PLAIN
from tirlower.rewrite.registry import GRAPH_PASSES


def store_of(graph: Graph) -> dict[str, ConstantData]:
    """All constants of a graph by their digests."""
    nodes = [n for one in (graph, *inner_graphs(graph)) for n in one.nodes]
    states = [(n.source if isinstance(n, Load) else n.target).initial for n in nodes if isinstance(n, (Load, Store))]
    return {data.digest: data for data in [*(n.data for n in nodes if isinstance(n, Const)), *states]}


def check(graph: Graph, what: str) -> None:
    text = str(graph)
    back = tg.parse(text, store_of(graph))
    assert tg.structural_equal(back, graph), f"{what}\n{text}"
    assert tg.structural_hash(back) == tg.structural_hash(graph), what
    assert str(back) == text, what
    tg.verify(back)


def every_pass(graph: Graph, what: str) -> None:
    """As it is, and after each pass of both pipelines and each other pass that needs no option."""
    check(graph, what)
    for pipeline in (DEFAULT, PLAIN):
        before = graph
        for name, after in pipeline.trace(graph, tl.PassContext()).items():
            if after is not before:
                check(after, f"{what} after {name}")
            before = after


MODELS = ["mlp", "small_cnn", "resnet18", "mobilenet_v2", "bert_layer", "gpt2_block", "vit_block"]


@pytest.mark.parametrize("batch", [2, "N"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.skipif(find_spec("onnx") is None, reason="onnx writes the models")
@pytest.mark.by_day
def test_models(name: str, batch: int | str) -> None:
    makers = importlib.import_module("tests.graph.models").MODELS
    every_pass(tg.from_onnx(makers[name]("small", batch=batch)), name)


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.nightly) for first in (10, 20))])
def test_random_graphs(first: int) -> None:
    for seed in range(first, first + 10):
        every_pass(generate(seed, 25), f"seed {seed}")


def controlled() -> list[Graph]:
    """What random graphs have not: choices, loops, states, calls, kernels of backends, dicts of results."""
    B = tg.dim("B", 1, 256, multiple_of=2, hints=(2, 8))
    total = tg.state("total", (2,), "float32", np.array([1, 2], "float32"))
    fixed = tg.state("fixed", (), "bfloat16", 0.5, mutable=False)
    w = np.random.default_rng(0).standard_normal((2, 3)).astype("float32")

    def halved(x: Any) -> Any:
        n, y = tg.while_loop(lambda n, v: (v > 1).any(), lambda n, v: (n + 1, v / 2), 0, x)
        return tg.cond(x.sum() > 10, lambda: tg.cond(y.max() > 0, lambda: y + 100, lambda: y), lambda: y), n

    def add_up(x: Any) -> Any:
        total.store(total.load() + x.sum(axis=0))
        return {"now": total.load(), "fixed": fixed.load(), "x": tg.nn.softmax(x @ w)}

    inner = tg.trace(lambda x: np.tanh(x) + w[:, 0], tg.spec((B, 2), "float32"))
    spec = tg.spec((B, 2), "float32")
    return [tg.trace(f, spec) for f in (halved, add_up, lambda x: inner(inner(x)) @ w)]


def test_choices_loops_states_calls_and_composites() -> None:
    for n, graph in enumerate(controlled()):
        every_pass(graph, f"graph {n}")
        every_pass(offload(graph, ["numpy"]), f"graph {n} with kernels")


def test_passes_that_stand_in_no_pipeline() -> None:
    product = tg.dpl.is_op("matmul")(tg.dpl.wildcard(), tg.dpl.wildcard())
    given: dict[str, dict[str, object]] = {
        "FuseOpsByPattern": {"patterns": [("lib.product", product)], "annotate_codegen": True},
        "MergeComposite": {"table": [("lib.product", product)]},
    }
    inside = {type(step.pass_).__name__ for pipeline in (DEFAULT, PLAIN) for step in pipeline}
    others = sorted({*GRAPH_PASSES} - inside - {"BindConstants"})  # which needs a graph without constants
    assert {*given} <= {*others}
    changed = set()
    for name in others:
        pass_ = getattr(tg.passes, name)(**given.get(name, {}))
        for graph in [*controlled(), generate(3, 20)]:
            after = pass_(graph)
            check(after, name)
            if after is not graph:
                changed.add(name)
    assert {*given} <= changed


def test_constants_that_are_not_there() -> None:
    for graph in controlled():
        back = tg.parse(str(graph))
        assert str(back) == str(graph) and tg.structural_equal(back, graph)
        every_pass(back, "without constants")


def test_a_text_that_says_less_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check itself: a printer that forgets attributes is caught."""
    monkeypatch.setattr(printer, "_is_default", lambda *given: True)
    with pytest.raises((AssertionError, tg.GraphError)):
        for seed in range(20):
            check(generate(seed, 25), "forgetful")
