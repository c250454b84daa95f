"""Backends: known by name, asked once for each distinct composite; what they do not take is opened again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pytest

import tirlower.graph as tg
from tirlower.graph.backends import reference, registry
from tirlower.graph.backends.registry import backend, backend_names, offload, register_backend
from tirlower.graph.core.effects import Extern, KernelCall
from tirlower.graph.core.nodes import Graph
from tirlower.graph.errors import GraphError
from tirlower.graph.passes.partition import Skipped
from tirlower.graph.patterns import PatternCheckContext, is_op, wildcard
from tirlower.ir import PrimFunc
from tirlower.script.parse import parse

X = tg.spec((4,), "float32")
DOUBLED = """
def doubled(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        B[i] = A[i] * 2.0
"""


@pytest.fixture(autouse=True)
def only_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_BACKENDS", dict(registry._BACKENDS))
    return


def doubling(asked: list[str]) -> tg.Graph:
    def codegen(graph: Graph, attrs: Mapping[str, object]) -> PrimFunc | None:
        asked.append(str(attrs["Composite"]))
        return parse(DOUBLED) if attrs["Composite"] == "mine.double" else None

    x = wildcard()
    patterns = [("mine.double", is_op("add")(x, x)), ("mine.none", is_op("exp")(wildcard()))]
    register_backend("mine", patterns, codegen)
    return tg.trace(lambda x: tg.exp((x + x) + (x + x)), X)


def test_each_distinct_composite_is_asked_for_once() -> None:
    asked: list[str] = []
    g = doubling(asked)
    made = offload(g, ["mine"])
    assert sorted(asked) == ["mine.double", "mine.none"]
    assert [type(n).__name__ for n in made.nodes] == ["KernelCall", "KernelCall", "Op", "Op"]
    x = np.arange(4, dtype="float32")
    np.testing.assert_allclose(tg.compile(g, backends=["mine"])(x), np.exp(4 * x), rtol=1e-6)


def test_a_constraint_is_one_more_check() -> None:
    seen: list[PatternCheckContext] = []
    own = ("mine.exp", is_op("exp")(wildcard()), lambda c: False)
    other = ("mine.sin", is_op("sin")(wildcard()))
    register_backend("mine", [own, other], lambda g, a: Extern("f"), lambda c: seen.append(c) or True)
    made = offload(tg.trace(lambda x: tg.sin(tg.exp(x)), X), ["mine"])
    assert [type(n).__name__ for n in made.nodes] == ["Op", "KernelCall"] and len(seen) == 2
    register_backend("mine", [other], lambda g, a: Extern("f"), lambda c: False)
    g = tg.trace(lambda x: tg.sin(x), X)
    assert offload(g, ["mine"]) is g


def test_a_symbol_is_a_kernel_too() -> None:
    register_backend("mine", [("mine.exp", is_op("exp")(wildcard()))], lambda g, a: Extern("fast_exp"))
    (call,) = offload(tg.trace(lambda x: tg.exp(x), X), ["mine"]).nodes
    assert isinstance(call, KernelCall) and call.name == "fast_exp"


def test_the_first_backend_comes_first() -> None:
    for name in ("one", "two"):
        register_backend(name, [(f"{name}.exp", is_op("exp")(wildcard()))], lambda g, a, n=name: Extern(n))
    g = tg.trace(lambda x: tg.exp(x), X)
    assert [offload(g, order).nodes[0].name for order in (["one", "two"], ["two", "one"])] == ["one", "two"]
    assert offload(g, []) is g


def test_choices_of_partitioning_and_what_was_left_out() -> None:
    pattern = is_op("exp")(is_op("sin")(wildcard()))
    register_backend("mine", [("mine.both", pattern)], lambda g, a: Extern("f"), escape="reject")
    g = tg.trace(lambda x: (lambda s: (tg.exp(s), s))(tg.sin(x)), X)
    skipped: list[Skipped] = []
    assert offload(g, ["mine"], skipped) is g and "used outside" in str(skipped[0])


def test_a_dim_inside_an_extent_alone_is_given_to_the_kernel() -> None:
    B = tg.dim("B", 1, 8)
    register_backend("mine", [("mine.exp", is_op("exp")(wildcard()))], reference.codegen)
    g = tg.trace(lambda x: tg.exp(tg.concat(x, x)), tg.spec((B, 3), "float32"))
    made = offload(g, ["mine"])
    tg.verify(made)
    (call,) = [node for node in made.nodes if isinstance(node, KernelCall)]
    assert call.numbers == (B.var,) and len(call.inputs) == 1
    tg.assert_structural_equal(tg.parse(str(made)), made)
    exe = tg.compile(g, backends=["mine"])
    for n in (1, 5):
        x = np.linspace(-1, 1, 3 * n, dtype="float32").reshape(n, 3)
        np.testing.assert_allclose(exe(x), np.exp(np.concatenate([x, x])), rtol=1e-6)
    # The symbol of a function has its numbers from whoever makes it.
    register_backend("mine", [("mine.exp", is_op("exp")(wildcard()))], lambda g, a: Extern("f", (g.dims[0].var,)))
    (call,) = [node for node in offload(g, ["mine"]).nodes if isinstance(node, KernelCall)]
    assert isinstance(call.kernel, Extern) and call.kernel.numbers == (B.var,) and not call.numbers


def test_wrong_names_are_said() -> None:
    assert {"numpy", "openblas"} <= set(backend_names())
    with pytest.raises(GraphError, match="no backend 'nunpy'") as error:
        backend("nunpy")
    assert "numpy" in str(error.value)
    with pytest.raises(GraphError, match="no backend"):
        tg.compile(tg.trace(lambda x: x + 1, X), backends=["nothing at all"])
    with pytest.raises(GraphError, match=r"named mine.…, got 'other.exp'"):
        register_backend("mine", [("other.exp", is_op("exp"))], lambda g, a: None)
    with pytest.raises(ValueError, match="Invalid pattern"):
        register_backend("mine", ["exp"], lambda g, a: None)


def test_dims_that_are_no_extent_of_its_tensors_become_numbers() -> None:
    B, C = tg.dim("B"), tg.dim("C")

    def f(x, y, z):
        rows = tg.broadcast_to(x, (y.shape[0], z.shape[0] + 1, 4))
        return tg.exp(tg.sum(rows, axis=(0, 1))), y

    g = tg.trace(f, tg.spec((4,), "float32"), tg.spec((B,), "float32"), tg.spec((C,), "float32"))
    chain = is_op("exp")(is_op("sum")(is_op("broadcast_to")(wildcard())))
    register_backend("mine", [("mine.rows", chain)], reference.codegen)
    made = offload(g, ["mine"])
    tg.verify(made)
    calls = [node for node in made.nodes if isinstance(node, KernelCall)]
    assert [[v.name for v in call.inputs] for call in calls] == [["x"]]
    assert [[str(e) for e in call.numbers] for call in calls] == [["B", "C"]]
    tg.assert_structural_equal(tg.parse(str(made)), made)
    plain, exe = tg.compile(g), tg.compile(g, backends=["mine"])
    x = np.linspace(-0.1, 0.1, 4, dtype="float32")
    for rows, columns in ((2, 3), (0, 1), (5, 0)):
        given = x, np.zeros(rows, "float32"), np.zeros(columns, "float32")
        np.testing.assert_allclose(exe(*given)[0], np.exp(x * rows * (columns + 1)), rtol=1e-5)
        np.testing.assert_allclose(exe(*given)[0], plain(*given)[0], rtol=1e-5)


def test_a_backend_is_a_step_of_the_pipeline_and_runs_where_its_class_is_admitted() -> None:
    def codegen(graph, attrs):
        return parse("""
def absolute(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
    for i in range(4):
        y[i] = T.call_extern("float32", "fabsf", x[i])
""")

    g = tg.trace(lambda x: tg.abs(x) + 1, X)
    x = np.array([-1, 2, -3, 4], "float32")
    for stated, numerics, runs in (("exact", "exact", True), ("default", "exact", False), ("default", "default", True)):
        tg.register_backend("mine", [("mine.abs", is_op("abs")(wildcard()))], codegen, numerics=stated)
        exe = tg.compile(g, options=tg.Options(numerics=numerics, backends=("mine",), validate=True))
        assert ("absolute" in exe.kernels) is runs and exe(x).tolist() == [2, 3, 4, 5]
        after = exe.graph_after
        assert list(after)[list(after).index("Offload") + 1] == "Expand" and exe.graph is g
        assert any(isinstance(n, KernelCall) for n in after["Offload"].nodes) is runs
    with pytest.raises(KeyError, match="BOLD"):
        tg.register_backend("mine", [], codegen, numerics="bold")
