"""Partitioning: composites that are one match each, under both presets and the six choices."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import tirlower.graph as tg
from tirlower.graph.core.analysis import inner_graphs
from tirlower.graph.core.control import Call
from tirlower.graph.core.effects import Global
from tirlower.graph.core.module import Module
from tirlower.graph.core.nodes import Graph, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.passes.composites import inline_calls
from tirlower.graph.passes.partition import Skipped, conflicts, partition
from tirlower.graph.patterns import (
    DFPattern,
    FusionPattern,
    PatternCheckContext,
    is_const,
    is_op,
    is_tuple,
    is_var,
    pattern_of,
    wildcard,
)
from tirlower.ir import structural_equal

X = tg.spec((4, 4), "float32")
A = np.random.default_rng(0).uniform(0.5, 2, (4, 4)).astype("float32")
W = wildcard


def conv() -> DFPattern:
    return is_op("matmul")(W(), W())


def relu(p: DFPattern) -> DFPattern:
    return is_op("relu")(p)


def calls(graph: Graph) -> list[Call]:
    return [n for n in graph.nodes if isinstance(n, Call)]


def found(graph: Graph) -> list[tuple[str, list[str]]]:
    """Each composite's name and operations, in order."""
    return [(c.graph.attrs["Composite"], [op.name for op in c.graph.ops]) for c in calls(graph)]


def checked(graph: Graph, patterns: list, compat: str | None = None, **options: object) -> Graph:
    """A graph with composites, of which holds what always does: opened again it computes the same, and is partitioned once."""
    text = str(graph)
    made = partition(graph, patterns, compat, **options)
    assert str(graph) == text
    opened = inline_calls(made)
    tg.verify(made)
    tg.verify(opened)
    arrays = [np.random.default_rng(1).uniform(0.5, 2, p.shape).astype(p.dtype.numpy) for p in graph.params]
    want, got = tg.interpret(graph, *arrays), tg.interpret(opened, *arrays)
    np.testing.assert_equal(tg.interpret(made, *arrays), want)
    for a, b in zip(
        np.atleast_1d(want) if not isinstance(want, tuple) else want,
        np.atleast_1d(got) if not isinstance(got, tuple) else got,
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
    assert partition(made, patterns, compat, **options) is made
    for call in calls(made):
        assert [v.type for v in call.inputs] == [v.type for v in call.graph.params]
        assert [v.type for v in call.results] == [v.type for v in call.graph.results]
        assert call.graph.attrs["Primitive"] is True
        assert len({p.name for p in call.graph.params}) == len(call.graph.params)
    return made


# R1, R3, R4, R5, M1, M7: patterns in order, and the largest match


def dense_relu(x: tg.Tensor, w: tg.Tensor) -> tg.Tensor:
    return tg.exp(tg.relu(x @ w))


def test_the_order_of_patterns_is_their_priority() -> None:
    g = tg.trace(dense_relu, X, X)
    alone, both = ("lib.conv", conv()), ("lib.conv_relu", relu(conv()))
    for compat in ("relax", "relay", None):
        assert found(checked(g, [alone, both], compat)) == [("lib.conv", ["matmul"])]
        assert found(checked(g, [both, alone], compat)) == [("lib.conv_relu", ["matmul", "relu"])]


def test_the_largest_match_takes_the_place_of_those_that_it_contains() -> None:
    g = tg.trace(dense_relu, X, X)
    pattern = [("lib.conv", conv().optional(relu))]
    assert found(checked(g, pattern, "relax")) == [("lib.conv", ["matmul", "relu"])]
    assert found(checked(g, pattern, "relay")) == [("lib.conv", ["matmul", "relu"])]
    assert found(checked(g, pattern, "relax", overlap="first")) == [("lib.conv", ["matmul"])]
    assert found(checked(g, pattern, "relay", scan="forward")) == [("lib.conv", ["matmul"])]


def test_a_later_match_takes_only_groups_that_it_contains_whole() -> None:
    """exp∘exp over a chain of five: the second match shares one node with the first, and does not tear it."""

    def chain(x: tg.Tensor) -> tg.Tensor:
        for _ in range(5):
            x = tg.exp(x)
        return x

    g = tg.trace(chain, X)
    two = [("lib.two", is_op("exp")(is_op("exp")(W())))]
    assert found(checked(g, two)) == [("lib.two", ["exp", "exp"])] * 2
    forward, backward = partition(g, two, scan="forward"), partition(g, two, scan="outputs")
    assert [type(n).__name__ for n in forward.nodes] == ["Call", "Call", "Op"]
    assert [type(n).__name__ for n in backward.nodes] == ["Op", "Call", "Call"]


def test_either_takes_the_first_that_matches() -> None:
    g = tg.trace(dense_relu, X, X)
    arms = relu(W()), relu(conv())
    assert found(checked(g, [("lib.a", arms[0] | arms[1])])) == [("lib.a", ["relu"])]
    assert found(checked(g, [("lib.a", arms[1] | arms[0])])) == [("lib.a", ["matmul", "relu"])]


def test_chains_of_optionals_take_what_is_there() -> None:
    pattern = conv().optional(lambda p: is_op("add")(p, W())).optional(relu)
    for fn, ops in [
        (lambda x, w: x @ w, ["matmul"]),
        (lambda x, w: tg.relu(x @ w), ["matmul", "relu"]),
        (lambda x, w: x @ w + 1, ["matmul", "add"]),
        (lambda x, w: tg.relu(1 + x @ w), ["matmul", "add", "relu"]),
    ]:
        made = checked(tg.trace(fn, X, X), [("lib.dense", pattern)], "relay")
        assert found(made) == [("lib.dense", ops)]
        assert calls(made)[0].graph.attrs["PartitionedFromPattern"] == "_".join(ops)


def test_nothing_to_find_and_no_patterns_give_the_same_object() -> None:
    g = tg.trace(dense_relu, X, X)
    assert partition(g, []) is g and partition(g, [("lib.sin", is_op("sin"))]) is g
    assert partition(g, [("lib.const", is_const()), ("lib.any", W())]) is g  # a group has a node


@pytest.mark.parametrize(
    "given",
    [
        3,
        ("a",),
        ("a", 3),
        (3, is_op("add")),
        ("a", is_op("add"), {"x": 3}),
        ("a", is_op("add"), {}, 3),
        ("a", is_op("add"), None, None, None, None),
    ],
)
def test_what_is_no_fusion_pattern_is_said(given: object) -> None:
    with pytest.raises(ValueError, match="Invalid pattern: "):
        partition(tg.trace(dense_relu, X, X), [given])


# R11, R12, R13, M4, M6: checks, annotations, attributes


def test_a_check_sees_the_match() -> None:
    x, w, bias = W(), W(), W()
    product = is_op("matmul")(x, w)
    biased = is_op("add")(product, bias)
    seen: list[PatternCheckContext] = []

    def check(context: PatternCheckContext) -> bool:
        seen.append(context)
        return context.annotated["w"].shape[-1] == 4

    g = tg.trace(lambda x, w, v: (tg.relu(x @ w), x @ v + 1), X, X, tg.spec((4, 2), "float32"))
    patterns = [("lib.dense", product | biased, {"w": w, "bias": bias, "root": biased}, check)]
    assert found(checked(g, patterns)) == [("lib.dense", ["matmul"])]
    narrow = next(c for c in seen if "bias" in c.annotated)
    assert set(narrow.annotated) == {"w", "bias", "root"} and narrow.matched is narrow.annotated["root"]
    assert narrow.matched_expr is narrow.matched and narrow.annotated_expr is narrow.annotated
    assert [n.name for n in narrow.matched_bindings.values()] == ["matmul", "add"]
    wide = next(c for c in seen if "bias" not in c.annotated)  # the arm that was not taken has no keys
    assert set(wide.annotated) == {"w"}
    assert [n.name for n in wide.var_usages[wide.matched]] == ["relu"]
    assert wide.value_to_bound_var[wide.matched.node] is wide.matched
    assert wide.annotated["w"].dtype == "float32"


def test_another_way_is_tried_where_a_check_refuses() -> None:
    a, b = W(), W()
    pattern = FusionPattern("lib.add", is_op("add")(a, b), {"a": a}, lambda c: c.annotated["a"].name == "y")
    g = tg.trace(lambda x, y: tg.exp(x + y), X, X)
    assert found(checked(g, [pattern])) == [("lib.add", ["add"])]


def test_attributes_stand_beside_the_name() -> None:
    w = W()

    def attrs(annotated: Mapping[str, Value]) -> Mapping[str, object]:
        return {"columns": annotated["w"].shape[1], "kind": "dense"}

    g = tg.trace(dense_relu, X, X)
    made = checked(g, [FusionPattern("lib.dense", is_op("matmul")(W(), w), {"w": w}, None, attrs)])
    graph = calls(made)[0].graph
    assert graph.attrs == {
        "Composite": "lib.dense",
        "Primitive": True,
        "PartitionedFromPattern": "matmul",
        "columns": 4,
        "kind": "dense",
    }
    assert graph.with_attr("more", 1).attrs["more"] == 1


def test_a_pattern_partitions_by_itself() -> None:
    g = tg.trace(dense_relu, X, X)
    made = relu(conv()).partition(g, {"Composite": "mine"})
    assert found(made) == [("mine", ["matmul", "relu"])]
    bare = conv().partition(g)
    assert calls(bare)[0].graph.attrs == {"Primitive": True, "PartitionedFromPattern": "matmul"}
    assert conv().partition(g, check=lambda c: False) is g
    escaping = tg.trace(lambda x, w: (lambda s: (tg.relu(s), s))(x @ w), X, X)
    assert relu(conv()).partition(escaping) is escaping


# R19, M3: values that escape


def escaping(x: tg.Tensor, w: tg.Tensor) -> tuple[tg.Tensor, ...]:
    s = x @ w
    r = tg.relu(s)
    t = tg.tanh(r)
    return tg.exp(s), t


def test_an_interior_value_that_is_used_outside_is_one_more_result_or_no_composite() -> None:
    g = tg.trace(escaping, X, X)
    patterns = [("lib.dense", relu(conv()))]
    made = checked(g, patterns, "relax")
    (call,) = calls(made)
    assert [v.node.name for v in call.graph.results] == ["relu", "matmul"]  # in the order of their first use outside
    assert call.graph.structure == "tuple"
    skipped: list[Skipped] = []
    assert partition(g, patterns, "relay", skipped=skipped) is g
    assert str(skipped[0]).endswith("`matmul` is used outside, by exp at `exp`")
    assert found(checked(g, [("lib.dense", conv().optional(relu))], "relay")) == [("lib.dense", ["matmul"])]


def test_a_result_of_the_graph_escapes_too() -> None:
    g = tg.trace(lambda x, w: (lambda s: (tg.relu(s), s))(x @ w), X, X)
    made = checked(g, [("lib.dense", relu(conv()))])
    assert [v.node.name for v in calls(made)[0].graph.results] == ["relu", "matmul"]
    skipped: list[Skipped] = []
    partition(g, [("lib.dense", relu(conv()))], escape="reject", skipped=skipped)
    assert skipped[0].reason == "`matmul` is used outside, as a result"


# R20: cycles


def test_what_would_need_itself_is_skipped_or_an_error() -> None:
    """add(relu(s), exp(s)): without exp in the group, the path through it leaves and comes back."""

    def around(x: tg.Tensor, w: tg.Tensor) -> tg.Tensor:
        s = x @ w
        return tg.add(tg.relu(s), tg.exp(s))

    g = tg.trace(around, X, X)
    patterns = [("lib.part", is_op("add")(relu(conv()), W()))]
    skipped: list[Skipped] = []
    assert partition(g, patterns, skipped=skipped) is g
    assert "matmul at `matmul` -> exp at `exp` -> add at `add`" in skipped[0].reason
    with pytest.raises(GraphError, match=r"lib.part at `add`: grouping would make a cycle: matmul at .*exp at"):
        partition(g, patterns, "relax")


def test_a_cycle_through_another_group_is_one() -> None:
    """Two groups of two, each of which reads the other: alone each would do."""

    def crossed(x: tg.Tensor, y: tg.Tensor) -> tuple[tg.Tensor, ...]:
        a, b = tg.exp(x), tg.sin(y)
        return tg.relu(b) + a, tg.tanh(a) * b

    g = tg.trace(crossed, X, X)
    one = ("lib.one", is_op("add")(is_op("relu")(W()), is_op("exp")(W())))
    two = ("lib.two", is_op("multiply")(is_op("tanh")(W()), is_op("sin")(W())))
    for patterns, first in [([one, two], "lib.one"), ([two, one], "lib.two")]:
        skipped: list[Skipped] = []
        made = checked(g, patterns, skipped=skipped)
        assert [name for name, _ in found(made)] == [first]
        assert f"through {first}" in skipped[0].reason
        with pytest.raises(GraphError, match="cycle"):
            partition(g, patterns, on_cycle="error")
    assert [n for n, _ in found(checked(g, [one]))] + [n for n, _ in found(checked(g, [two]))] == ["lib.one", "lib.two"]


def test_a_torn_diamond_is_no_match() -> None:
    """M11: two relus of one product in the pattern's diamond are one node here, or the product is not shared."""
    s = conv()
    diamond = [("lib.diamond", is_op("add")(is_op("relu")(s), is_op("exp")(s)))]
    shared = tg.trace(lambda x, w: (lambda p: tg.relu(p) + tg.exp(p))(x @ w), X, X)
    apart = tg.trace(lambda x, w: tg.relu(x @ w) + tg.exp(w @ x), X, X)
    for compat in ("relax", "relay"):
        assert [sorted(ops) for _, ops in found(checked(shared, diamond, compat))] == [["add", "exp", "matmul", "relu"]]
        assert partition(apart, diamond, compat) is apart


# R14, R18, M9, M10: inputs and constants


def test_constants_are_inside_or_inputs() -> None:
    w = A + 1
    g = tg.trace(lambda x: tg.relu(x @ w) * 2.0, X)
    product, marked = is_op("matmul")(W(), W()), is_op("matmul")(W(), is_const())
    for pattern, options, inputs in [
        (product, {}, ["x"]),
        (product, {"bind_constants": False}, ["x", "param_0"]),
        (product, {"constants": "embed", "bind_constants": False}, ["x"]),
        (product, {"constants": "pattern"}, ["x", "param_0"]),
        (marked, {"constants": "pattern"}, ["x"]),
        (product, {"compat": "relay"}, ["x", "param_0"]),
        (marked, {"compat": "relay"}, ["x"]),
    ]:
        made = checked(g, [("lib.matmul", pattern)], **options)
        assert [p.name for p in calls(made)[0].graph.params] == inputs
        assert sum(isinstance(n, tg.Const) for n in made.nodes) == 1 + (len(inputs) - 1)


def test_a_constant_that_others_read_stays_outside_too() -> None:
    w = A + 1
    g = tg.trace(lambda x: (x @ w, tg.exp(w)), X)
    made = checked(g, [("lib.matmul", is_op("matmul")(W(), is_const()))], "relay")
    assert sum(isinstance(n, tg.Const) for n in made.nodes) == 1
    assert sum(isinstance(n, tg.Const) for n in calls(made)[0].graph.nodes) == 1


def test_inputs_are_in_the_order_of_their_first_use_each_once() -> None:
    g = tg.trace(lambda a, b, c: (b @ c) + b + a, X, X, X)
    pattern = is_op("add")(is_op("add")(conv(), W()), W())
    assert [v.name for v in calls(checked(g, [("lib.all", pattern)]))[0].inputs] == ["b", "c", "a"]


def test_groups_of_any_number_give_their_fields_as_inputs() -> None:
    g = tg.trace(lambda a, b, c: tg.relu(tg.concat(a, b, c)), X, X, X)
    made = checked(g, [("lib.cat", is_op("relu")(is_op("concat")(is_tuple(None))))])
    assert [v.name for v in calls(made)[0].inputs] == ["a", "b", "c"]


def test_dims_stay_those_of_the_graph_around() -> None:
    b, c = tg.dim("B", 1, 8), tg.dim("C", 1, 8)
    g = tg.trace(
        lambda x, y: (tg.relu(tg.exp(x)), tg.relu(tg.exp(y))), tg.spec((b, 4), "float32"), tg.spec((c, 4), "float32")
    )
    made = partition(g, [("lib.two", is_op("relu")(is_op("exp")(W())))])
    first, second = calls(made)
    assert [d.name for d in first.graph.dims] == ["B"] and [d.name for d in second.graph.dims] == ["C"]
    assert first.graph.dims[0].var is b.var
    assert first.graph is not second.graph  # equal but for whose dims they have
    reshaped = tg.trace(lambda x: tg.relu(x.reshape(b * 4)), tg.spec((b, 4), "float32"))
    made = partition(reshaped, [("lib.flat", is_op("relu")(is_op("reshape")(W())))])
    assert calls(made)[0].graph.dims == made.dims


# R15, dedup


def test_equal_composites_are_one_graph() -> None:
    g = tg.trace(lambda x, w: tg.relu((tg.relu(x @ w)) @ w) - 1, X, X)
    patterns = [("lib.dense", relu(conv()))]
    first, second = calls(checked(g, patterns))
    assert first.graph is second.graph
    first, second = calls(checked(g, patterns, "relay"))
    assert first.graph is not second.graph and structural_equal(first.graph, second.graph)
    assert first.graph.name != second.graph.name
    other = tg.trace(lambda x, w, v: tg.relu(tg.relu(x @ w) @ v), X, X, tg.spec((4, 2), "float32"))
    first, second = calls(checked(other, patterns))
    assert first.graph is not second.graph  # of other shapes


def test_a_graph_for_a_backend_stands_around_each_composite() -> None:
    g = tg.trace(lambda x, w: tg.relu(tg.relu(x @ w) @ w), X, X)
    made = partition(g, [("lib.dense", relu(conv()))], annotate_codegen=True)
    first, second = calls(made)
    assert first.graph is second.graph
    assert first.graph.attrs["Codegen"] == "lib" and first.graph.attrs["global_symbol"] == first.graph.name
    (inner,) = calls(first.graph)
    assert inner.graph.attrs["Composite"] == "lib.dense" and "Composite" not in first.graph.attrs
    np.testing.assert_array_equal(tg.interpret(inline_calls(made), A, A), tg.interpret(g, A, A))


# R16, R17: modules, graphs inside nodes


def test_only_the_named_graphs_of_a_module_are_partitioned() -> None:
    g, h = tg.trace(dense_relu, X, X), tg.trace(lambda x, w: tg.relu(x @ w) + 1, X, X)
    m = Module({"main": g, "other": h})
    patterns = [("lib.dense", relu(conv()))]
    both = partition(m, patterns)
    assert [bool(calls(one)) for one in both.graphs.values()] == [True, True]
    one = partition(m, patterns, entry_functions=["other"])
    assert one.graphs["main"] is g and calls(one.graphs["other"])
    assert calls(both.graphs["main"])[0].graph is calls(both.graphs["other"])[0].graph
    assert partition(m, []) is m
    with pytest.raises(GraphError, match="no graph 'mian' to partition") as error:
        partition(m, patterns, entry_functions=["mian"])
    assert "main, other" in str(error.value)


def test_graphs_inside_choices_and_loops_are_partitioned() -> None:
    inner = tg.trace(dense_relu, X, X)
    b = tg.GraphBuilder()
    p, x = b.param("p", (), "bool"), b.param("x", (4, 4), "float32")
    (chosen,) = b.if_(p, inner, tg.trace(lambda x, w: x + w, X, X), x, x)
    made = partition(b.finish(chosen), [("lib.dense", relu(conv()))])
    assert [g.attrs["Composite"] for g in inner_graphs(made) if "Composite" in g.attrs] == ["lib.dense"]
    assert tg.passes.ConvertToDataflow(3)(made) is made


def test_what_has_an_effect_is_left_alone() -> None:
    state = Global("s", (4, 4), "float32", tg.ConstantData(A))
    b = tg.GraphBuilder()
    x = b.param("x", (4, 4), "float32")
    loaded = b.load(state)
    b.store(state, x)
    g = b.finish(b.op("relu", loaded))
    skipped: list[Skipped] = []
    load = tg.dpl.is_gv("s")
    assert partition(g, [("lib.load", is_op("relu")(load))], skipped=skipped) is g
    assert "has an effect" in skipped[0].reason
    made = partition(g, [("lib.relu", is_op("relu")(W()))])
    assert [type(n).__name__ for n in made.nodes] == ["Load", "Store", "Call"]


def test_accesses_of_states_keep_their_order_around_groups() -> None:
    """The store stands between the nodes of the group: the load before it still comes first."""
    state = Global("s", (4, 4), "float32", tg.ConstantData(A))
    b = tg.GraphBuilder()
    x = b.param("x", (4, 4), "float32")
    first = b.op("exp", x)
    loaded = b.load(state)
    b.store(state, b.op("add", loaded, x))
    last = b.op("relu", b.op("add", first, loaded))
    made = partition(b.finish(last), [("lib.wide", is_op("relu")(is_op("add")(is_op("exp")(W()), W())))])
    assert [type(n).__name__ for n in made.nodes] == ["Load", "Op", "Store", "Call"]


# The choices


def test_choices_are_checked_and_win_over_the_preset() -> None:
    assert conflicts("relay", {"escape": "tuple"}).escape == "tuple" and conflicts("relay", {}).escape == "reject"
    assert conflicts("relax", {}).on_cycle == "error" and conflicts(None, {}).on_cycle == "skip"
    g = tg.trace(dense_relu, X, X)
    for options, message in [
        ({"compat": "onnx"}, "compat is 'relax', 'relay'"),
        ({"escapes": "tuple"}, "no choice 'escapes'"),
        ({"escape": "maybe"}, "escape is one of 'tuple', 'reject'"),
        ({"dedup": 1}, "dedup is one of True, False"),
    ]:
        with pytest.raises(GraphError, match=message):
            partition(g, [("lib.dense", conv())], **options)


def test_the_passes_are_the_function() -> None:
    g = tg.trace(escaping, X, X)
    patterns = [("lib.dense", relu(conv()))]
    assert found(tg.passes.FuseOpsByPattern(patterns)(g)) == [("lib.dense", ["matmul", "relu"])]
    assert tg.passes.FuseOpsByPattern(patterns, escape="reject")(g) is g
    assert tg.passes.FuseOpsByPattern(patterns, compat="relay")(g) is g
    assert tg.passes.MergeComposite(patterns)(g) is g
    assert found(tg.passes.MergeComposite(patterns, escape="tuple")(g)) == [("lib.dense", ["matmul", "relu"])]
    wide = [("lib.dense", relu(conv()), lambda c: False)]
    assert tg.passes.MergeComposite(wide, escape="tuple")(g) is g
    annotated = tg.passes.FuseOpsByPattern(patterns, True, True)(g)
    assert calls(annotated)[0].graph.attrs["Codegen"] == "lib"


def test_a_program_is_a_pattern() -> None:
    """M2: what a small graph computes, on tensors of any shape."""
    pattern = pattern_of(tg.trace(lambda x, w, b: tg.relu(x @ w + b), X, X, X))
    made = checked(
        tg.trace(lambda x, w: tg.exp(tg.relu(x @ w + 1.0)), X, tg.spec((4, 2), "float32")), [("lib.p", pattern)]
    )
    assert found(made) == [("lib.p", ["matmul", "add", "relu"])]


def test_results_of_several_are_grouped_by_what_is_used() -> None:
    """R21: of a group's results only those that are used outside are given."""
    g = tg.trace(lambda x: (lambda a, b: tg.exp(b) + 1)(*tg.split(tg.sin(x), parts=(2, 2))), X)
    made = checked(g, [("lib.split", is_op("split")(is_op("sin")(is_var())))])
    (call,) = calls(made)
    assert len(call.results) == 1 and call.graph.results[0].index == 1
    both = checked(g, [("lib.half", is_op("exp")(is_op("split")(is_op("sin")(W()))[1]))])
    assert found(both) == [("lib.half", ["sin", "split", "exp"])]


def test_many_matches_in_a_long_graph() -> None:
    b = tg.GraphBuilder()
    value = b.param("x", (4,), "float32")
    for _ in range(2_000):
        value = b.op("relu", b.op("exp", value))
    made = partition(b.finish(value), [("lib.two", is_op("relu")(is_op("exp")(W())))])
    assert len(made.nodes) == 2_000 and len(inner_graphs(made)) == 1
