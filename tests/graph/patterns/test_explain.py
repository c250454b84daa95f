"""Near misses: each is explained by the mismatch to which the best attempt came, which is the deepest one."""

from __future__ import annotations

import pytest

import tirlower.graph as tg
from tirlower.graph.core.nodes import Graph
from tirlower.graph.patterns import (
    DFPattern,
    FunctionPattern,
    dominates,
    explain,
    is_const,
    is_dfv,
    is_op,
    is_shape,
    is_tuple,
    is_var,
    wildcard,
)

TEXT = """
@tg.graph
def main(x: tg.Tensor((1, 3, 8, 8), "float32"), w: tg.Tensor((3, 3, 1, 1), "float32"), y: tg.Tensor((4, 4), "float32")):
    half = tg.constant("float32", (4, 4), 0.5)
    conv = tg.conv(x, w)
    biased = tg.add(conv, x)
    relu = tg.relu(biased)
    e = tg.exp(y)
    s = tg.subtract(e, y)
    m = tg.multiply(s, half)
    soft = tg.softmax(m, axis=1)
    mm = tg.matmul(soft, y)
    left, right = tg.split(mm, parts=(2, 2), axis=0)
    cat = tg.concat(right, left, axis=0)
    r = tg.reshape(cat, shape=(2, 8))
    i = tg.cast(r, dtype="int32")
    low = tg.clip(y, 0.0)
    out = tg.add(tg_e, mm)
    return relu, i, out, low
""".replace("tg_e", "e")


@pytest.fixture(scope="module")
def g() -> Graph:
    return tg.parse(TEXT)


W = wildcard
ONE = wildcard()
CONV = is_op("conv")(W(), W())

NEAR: list[tuple[DFPattern, str, str]] = [
    (is_op("add"), "relu", "wanted add, found relu at `relu`"),
    (is_op("relu")(CONV), "relu", "operand 0 of relu: wanted conv, found add at `biased`"),
    (is_op("relu")(is_op("add")(CONV, is_const())), "relu", "operand 1 of add: wanted a constant, found the input `x`"),
    (
        is_op("relu")(is_op("add")(is_op("conv")(is_var("w"), W()), W())),
        "relu",
        "operand 0 of conv: wanted the input `w`, found the input `x`",
    ),
    (
        is_op("relu")(is_op("add")(W(), is_op("conv")(W(), is_op("exp")))),  # conv stands in the other operand
        "relu",
        "operand 1 of conv: wanted exp, found the input `w`",
    ),
    (is_op("subtract")(is_var(), W()), "s", "operand 0 of subtract: wanted an input, found exp at `e`"),
    (
        is_op("subtract")(W(), is_dfv()),
        "s",
        "operand 1 of subtract: wanted the result of an operation, found the input `y`",
    ),
    (is_op("multiply")(W(), 2.0), "m", "operand 1 of multiply: wanted the constant 2.0, found a constant at `half`"),
    (
        is_op("softmax")(is_op("multiply")(is_op("add"), W())),
        "soft",
        "operand 0 of multiply: wanted add, found subtract at `s`",
    ),
    (
        is_op("softmax")(W()).has_attr({"axis": 0}),
        "soft",
        "wanted attributes {'axis': 0}, found axis=1 (softmax at `soft`)",
    ),
    (
        is_op("matmul")(is_op("softmax")(W()).has_attr({"axis": 0}), W()),
        "mm",
        "wanted attributes {'axis': 0}, found axis=1 (softmax at `soft`)",
    ),
    (is_op("exp").has_attr({"base": 2}), "e", "wanted attributes {'base': 2}, found exp at `e` without 'base'"),
    (W().has_attr({"axis": 1}), "y", "wanted attributes {'axis': 1}, found the input `y`"),
    (is_op("matmul")(W(), W().has_dtype("float64")), "mm", "wanted dtype float64, found float32[4, 4] (the input `y`)"),
    (W().has_shape((8, 4)), "y", "wanted shape [8, 4], found float32[4, 4] (the input `y`)"),
    (W().has_rank(3), "conv", "wanted rank 3, found float32[1, 3, 8, 8] (conv at `conv`)"),
    (is_op("exp").where(lambda v: False, "a lucky day"), "e", "wanted a lucky day, found exp at `e`"),
    (is_op("exp")(W(), W()), "e", "wanted exp on 2 operands, found 1 at `e`"),
    (is_op("softmax")(is_op("multiply")(W())), "soft", "wanted multiply on 1 operands, found 2 at `m`"),
    (is_op("clip")(W(), W(), W()), "low", "wanted clip on 3 operands, found 2 at `low`"),
    (
        is_op("concat")(is_tuple([W(), W(), W()])),
        "cat",
        "operand 0 of concat: wanted 3 values, found 2 values (right, left)",
    ),
    (
        is_op("concat")(is_tuple([is_op("split")[0], W()])),
        "cat",
        "operand 0 of concat: wanted result 0 of split, found result 1 of split at `left`",
    ),
    (is_op("concat")(is_op("split")), "cat", "operand 0 of concat: wanted split, found 2 values (right, left)"),
    (is_op("split")(is_op("exp"))[0], "left", "operand 0 of split: wanted exp, found matmul at `mm`"),
    (is_op("reshape")(W(), is_shape((8, 2))), "r", "wanted reshape of another shape or graph, found reshape at `r`"),
    (is_op("cast")(~is_op("reshape")), "i", "operand 0 of cast: wanted no reshape, found reshape at `r`"),
    (is_op("relu") | is_op("exp"), "s", "wanted relu or exp, found subtract at `s`"),
    (
        is_op("exp") | is_op("relu")(is_op("add")(CONV, is_op("exp"))),  # the second arm comes further
        "relu",
        "operand 1 of add: wanted exp, found the input `x`",
    ),
    (
        is_op("subtract")(is_op("exp")(ONE), is_op("exp")(ONE)),
        "s",
        "operand 1 of subtract: wanted exp, found the input `y`",
    ),
    (
        is_op("subtract")(is_op("exp")(W()) & ONE, ONE),
        "s",
        "one pattern stands for two values: anything is exp at `e` and the input `y`",
    ),
    (dominates(CONV, is_op("exp"), is_op("relu")), "relu", "wanted relu below conv, found relu at `relu`"),
    (
        is_op("matmul")(W().same_shape_as(ONE), W()) & is_op("matmul")(W(), ONE).same_shape_as(CONV) & CONV,
        "mm",
        "wanted conv, found matmul at `mm`",
    ),
]


def test_there_are_enough_of_them() -> None:
    assert len(NEAR) >= 30


@pytest.mark.parametrize(("pattern", "name", "text"), NEAR, ids=[n[2] for n in NEAR])
def test_a_near_miss_is_named(g: Graph, pattern: DFPattern, name: str, text: str) -> None:
    value = next(v for v in (*g.params, *(v for n in g.nodes for v in n.results)) if v.name == name)
    assert pattern.match(value, g) is None
    assert pattern.explain(value, g) == text


def test_what_matches_needs_no_explanation(g: Graph) -> None:
    assert explain(is_op("relu"), g.results[0]) == "it matches"


def test_shapes_that_differ_are_said() -> None:
    h = tg.trace(lambda x, y: tg.matmul(x, y), tg.spec((2, 3), "float32"), tg.spec((3, 4), "float32"))
    x, y = wildcard(), wildcard()
    pattern = is_op("matmul")(x.same_shape_as(y), y)
    assert pattern.explain(h.results[0]) == "all parts fit matmul at `matmul`, but not their shapes together"


def test_calls_are_named_by_their_graphs() -> None:
    inner = tg.trace(lambda x: tg.exp(x), tg.spec((4,), "float32"))
    b = tg.GraphBuilder()
    (called,) = b.call(inner, b.param("x", (4,), "float32"))
    b.finish(called)
    p = wildcard()
    pattern = FunctionPattern([p], is_op("sin")(p))(wildcard())
    assert pattern.explain(called) == "in the graph of a call of a graph: wanted sin, found exp at `exp`"
    assert FunctionPattern([p], is_op("exp")(p))(is_var("x")).match(called)
    assert not FunctionPattern([p, p], is_op("exp")(p)).match(called)
