"""Each node, modifier and property of the language: what it matches, and what it does not; chains of one operation are in
tests/graph/patterns/test_chains.py."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tirlower.graph as tg
from tirlower.graph.core.nodes import Graph, TensorType, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.patterns import (
    DFPattern,
    dominates,
    is_const,
    is_dfv,
    is_expr,
    is_op,
    is_shape,
    is_tuple,
    is_tuple_get_item,
    is_var,
    wildcard,
)
from tirlower.ir.dtype import DataType

TEXT = """
@tg.graph
def main(x: tg.Tensor(("B", 4), "float32"), y: tg.Tensor(("B", 4), "float32"), w: tg.Tensor((4, 4), "float32")):
    tg.dims(B=(1, 64))
    five = tg.constant("float32", (4,), 5.0)
    table = tg.constant("float32", (2, 4), "{digest}")
    whole = tg.constant("int32", (4,), 3)
    nan = tg.constant("float32", (), float("nan"))
    add = tg.add(x, y)
    same = tg.add(x, x)
    twice = tg.add(add, add)
    relu = tg.relu(add)
    exp = tg.exp(relu)
    sub = tg.subtract(x, y)
    scaled = tg.multiply(x, five)
    product = tg.matmul(x, w)
    biased = tg.add(product, five)
    cat = tg.concat(x, y, w, axis=0)
    pair = tg.concat(x, y, axis=1)
    soft = tg.softmax(x, axis=1)
    rows = tg.softmax(x, axis=0)
    low = tg.clip(x, 0.0)
    both = tg.clip(x, 0.0, 1.0)
    flat = tg.reshape(w, shape=(2, 8))
    back = tg.reshape(flat, shape=(4, 4))
    a, b = tg.split(pair, parts=(4, 4), axis=1)
    swapped = tg.concat(b, a, axis=1)
    joined = tg.concat(a, b, axis=1)
    ints = tg.cast(x, dtype="int32")
    total = tg.sum(exp, axis=1)
    return twice, same, exp, sub, scaled, biased, cat, swapped, joined, soft, rows, low, both, back, ints, total, nan, whole, table
"""
TABLE = np.arange(8, dtype="float32").reshape(2, 4)


@pytest.fixture(scope="module")
def g() -> Graph:
    data = tg.ConstantData(TABLE)
    return tg.parse(TEXT.replace("{digest}", data.digest[:8]), constants={data.digest: data})


def value(graph: Graph, name: str) -> Value:
    """The value of a name."""
    every = (*graph.params, *(v for n in graph.nodes for v in n.results))
    return next(v for v in every if v.name == name)


X = wildcard()
RELU = is_op("relu")(wildcard())
SHARED = wildcard()

CASES: list[tuple[str, DFPattern, list[str], list[str]]] = [
    ("wildcard", wildcard(), ["x", "five", "relu", "a"], []),
    ("is_var", is_var(), ["x", "w"], ["five", "add"]),
    ("is_var(name)", is_var("x"), ["x"], ["y", "add"]),
    ("is_const", is_const(), ["five", "table", "nan"], ["x", "add"]),
    ("is_const(number)", is_const(5.0), ["five"], ["table", "whole", "x", "nan"]),
    ("is_const(integer)", is_const(3), ["whole"], ["five"]),
    ("is_const(no integer)", is_const(3.5), [], ["whole"]),
    ("is_const(nan)", is_const(float("nan")), ["nan"], ["five"]),
    ("is_const(array)", is_const(TABLE), ["table"], ["five", "whole"]),
    ("is_const(other array)", is_const(TABLE + 1), [], ["table"]),
    ("is_const(other dtype)", is_const(TABLE.astype("float64")), [], ["table"]),
    ("is_dfv", is_dfv(), ["add", "a"], ["x", "five"]),
    ("is_op", is_op("add"), ["add", "same", "biased"], ["sub", "x"]),
    ("is_op on any", is_op("add")(None), ["add", "twice"], ["sub"]),
    ("operands", is_op("relu")(is_op("add")(wildcard(), wildcard())), ["relu"], ["exp", "add"]),
    ("too few operands", is_op("add")(wildcard()), [], ["add"]),
    ("too many operands", is_op("relu")(wildcard(), wildcard()), [], ["relu"]),
    ("other operands beyond", is_op("add")(is_var("x"), varg_default_wildcard=True), ["add", "same"], ["biased"]),
    ("commutative", is_op("add")(is_const(), is_op("matmul")(X, wildcard())), ["biased"], ["add"]),
    ("not commutative", is_op("subtract")(is_var("y"), is_var("x")), [], ["sub"]),
    ("in order", is_op("subtract")(is_var("x"), is_var("y")), ["sub"], []),
    ("a number", is_op("multiply")(wildcard(), 5.0), ["scaled"], ["add"]),
    ("another number", is_op("multiply")(wildcard(), 4.0), [], ["scaled"]),
    ("one object, one value", is_op("add")(SHARED, SHARED), ["same", "twice"], ["add", "biased"]),
    ("two objects, one value", is_op("add")(wildcard(), wildcard()), ["same", "add"], []),
    ("left out", is_op("clip")(wildcard(), wildcard(), None), ["low"], ["both"]),
    ("left out behind", is_op("clip")(wildcard(), wildcard()), ["low"], ["both"]),
    ("given", is_op("clip")(wildcard(), wildcard(), wildcard()), ["both"], ["low"]),
    ("any operation", wildcard()(is_var("x")), ["low", "soft"][1:], ["exp", "add", "both"]),
    ("is_tuple", is_op("concat")(is_tuple([is_var("x"), is_var("y")])), ["pair"], ["cat", "swapped"]),
    ("is_tuple, other order", is_op("concat")(is_tuple([is_var("y"), is_var("x")])), [], ["pair"]),
    ("unordered", is_op("concat")(is_tuple([is_var("y"), is_var("x")], unordered=True)), ["pair"], ["cat", "joined"]),
    (
        "unordered of three",
        is_op("concat")(is_tuple([is_var("w"), is_var("y"), wildcard()], unordered=True)),
        ["cat"],
        ["pair"],
    ),
    (
        "unordered without a way",
        is_op("concat")(is_tuple([is_var("w"), is_var("w"), wildcard()], unordered=True)),
        [],
        ["cat"],
    ),
    ("any tuple", is_op("concat")(is_tuple(None)), ["pair", "cat"], ["add"]),
    ("a wildcard for a tuple", is_op("concat")(wildcard()), ["pair", "cat"], []),
    ("one by one", is_op("concat")(is_var("x"), wildcard()), ["pair"], ["cat", "swapped"]),
    ("one by one and others", is_op("concat")(is_var("x"), varg_default_wildcard=True), ["cat", "pair"], ["joined"]),
    ("a result", is_op("split")(wildcard())[1], ["b"], ["a", "pair"]),
    ("a result of any number", is_tuple_get_item(is_op("split")(wildcard())), ["a", "b"], ["pair"]),
    ("the first of one", is_op("relu")(wildcard())[0], ["relu"], ["exp"]),
    ("the second of one", is_op("relu")(wildcard())[1], [], ["relu"]),
    ("all results", is_op("concat")(is_op("split")(wildcard())), ["joined"], ["swapped", "pair"]),
    ("is_shape as argument", is_op("reshape")(wildcard(), is_shape([2, 8])), ["flat"], ["back"]),
    ("is_shape", is_shape([4, 4]), ["w", "back"], ["flat", "x"]),
    ("|", is_op("relu")(wildcard()) | is_op("exp")(wildcard()), ["relu", "exp"], ["add"]),
    ("| of operations", (is_op("relu") | is_op("exp"))(is_op("relu")(wildcard())), ["exp"], ["relu"]),
    ("&", is_op("add") & wildcard().has_dtype("float32"), ["add"], ["sub", "ints"]),
    ("& of two operations", is_op("add") & is_op("relu"), [], ["add", "relu"]),
    ("~", ~is_op("add"), ["relu", "x"], ["add", "twice"]),
    ("~ in an operand", is_op("add")(~is_var(), ~is_var()), ["twice", "biased"], ["add", "same"]),
    ("~~", ~~is_op("add"), ["add"], ["relu"]),
    ("optional", is_op("add")(wildcard(), wildcard()).optional(lambda p: is_op("relu")(p)), ["add", "relu"], ["exp"]),
    ("has_attr", is_op("softmax")(wildcard()).has_attr({"axis": 1}), ["soft"], ["rows"]),
    ("has_attr of a wildcard", wildcard().has_attr({"axis": 0}), ["rows", "cat"], ["soft", "x", "relu"]),
    ("has_attr, unknown", wildcard().has_attr({"nothing": 0}), [], ["rows", "x", "five"]),
    ("has_attr, a tuple", wildcard().has_attr({"shape": [2, 8]}), ["flat"], ["back"]),
    ("has_dtype", wildcard().has_dtype("int32"), ["ints", "whole"], ["x"]),
    ("has_shape", wildcard().has_shape((4, 4)), ["w", "back"], ["flat", "x"]),
    ("has_shape of any extent", wildcard().has_shape((None, 4)), ["x", "w", "table"], ["flat", "five"]),
    ("has_rank", wildcard().has_rank(1), ["five", "total"], ["x", "nan"]),
    ("has_ty", wildcard().has_ty(TensorType((4,), DataType("int32"))), ["whole"], ["five", "ints"]),
    ("where", wildcard().where(lambda v: v.name.startswith("s")), ["sub", "soft"], ["x"]),
    ("same_shape_as", is_op("matmul")(X, wildcard().same_shape_as(is_op("reshape"))), ["product"], ["add"]),
    ("same_shape_as a part", is_op("add")(SHARED.same_shape_as(X), X), ["add", "same"], ["biased"]),
]


@pytest.mark.parametrize(("pattern", "good", "bad"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_what_matches_and_what_does_not(g: Graph, pattern: DFPattern, good: list[str], bad: list[str]) -> None:
    for name in good:
        assert pattern.match(value(g, name), g) is not None, (name, pattern.explain(value(g, name), g))
    for name in bad:
        assert pattern.match(value(g, name), g) is None, name
        assert pattern.explain(value(g, name), g) != "it matches"


def test_a_copy_matches_the_same_and_stands_for_itself(g: Graph) -> None:
    for _, pattern, good, bad in CASES:
        copy = pattern.dup()
        for name in good:
            found = copy.match(value(g, name), g)
            assert found is not None and copy in found and pattern not in found
        assert all(copy.match(value(g, name), g) is None for name in bad)


def test_a_copy_keeps_what_is_shared() -> None:
    x = wildcard()
    copy = is_op("add")(x, x).dup()
    first, second = copy.parts
    assert first is second and first is not x


def test_is_expr_matches_the_object(g: Graph) -> None:
    assert is_expr(value(g, "relu")).match(value(g, "relu")) is not None
    assert is_expr(value(g, "relu")).match(value(g, "add")) is None
    with pytest.raises(GraphError, match="no value of a graph"):
        is_expr(3)  # type: ignore[arg-type]


def test_a_symbolic_shape_is_compared_by_what_is_known_of_its_dims() -> None:
    b = tg.dim("B", 8, 8)
    g = tg.trace(lambda x: x + x, tg.spec((b, 4), "float32"))
    pattern = wildcard().has_shape((8, 4))
    assert pattern.match(g.params[0], g) is not None  # 8 <= B <= 8
    assert pattern.match(g.params[0]) is None
    other = tg.trace(lambda x: x + x, tg.spec((tg.dim("B", 1, 8), 4), "float32"))
    assert pattern.match(other.params[0], other) is None
    assert wildcard().has_shape((b, 4)).match(g.params[0]) is not None
    assert wildcard().has_shape((b * 2, 4)).match(g.params[0], g) is None


def test_constants_whose_arrays_are_not_here_are_known_by_their_digests() -> None:
    array = np.arange(4, dtype="float32")
    g = tg.trace(lambda x: x + array, tg.spec((4,), "float32"))
    bare = tg.parse(str(g))
    constant = next(n for n in bare.nodes if isinstance(n, tg.Const)).results[0]
    assert is_const().match(constant) and is_const(array).match(constant)
    assert not is_const(array + 1).match(constant) and not is_const(1.0).match(constant)


def test_an_empty_constant_is_no_number() -> None:
    g = tg.trace(lambda x: tg.concat(x, np.zeros((0,), "float32")), tg.spec((4,), "float32"))
    constant = next(n for n in g.nodes if isinstance(n, tg.Const)).results[0]
    assert is_const().match(constant) and is_const(np.zeros((0,), "float32")).match(constant)
    assert not is_const(0.0).match(constant)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: is_op("matmull"), "matmul"),
        (lambda: is_op("add")("x", wildcard()), "no pattern"),
        (lambda: is_op("add")(wildcard(), wildcard())(wildcard()), "has operands already"),
        (lambda: (is_op("add") | wildcard().has_rank(2))(wildcard()), "takes no operands"),
        (lambda: is_op("reshape")(wildcard(), is_shape([2]), is_shape([2])), "two shapes"),
        (lambda: is_tuple([wildcard(), "x"]), "no pattern"),
        (lambda: is_shape([-1]), "at least 0"),
        (lambda: wildcard() ^ wildcard(), "belongs to a context"),
    ],
)
def test_what_is_no_pattern_is_said(make: Callable[[], object], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        make()


def test_a_pattern_is_no_sequence() -> None:
    with pytest.raises(TypeError, match="no end"):
        list(wildcard())


# The diamond: conv, two arms of unary operations, and the add that joins them


DIAMOND = """
@tg.graph
def main(x: tg.Tensor((1, 3, 8, 8), "float32"), w: tg.Tensor((3, 3, 1, 1), "float32")):
    half = tg.constant("float32", (), 0.5)
    conv = tg.conv(x, w)
    other = tg.conv(x, w)
    r1 = tg.relu(conv)
    r2 = tg.relu(r1)
    e = tg.exp(conv)
    t = tg.tanh(conv)
    ro = tg.relu(other)
    good = tg.add(r2, e)
    direct = tg.add(r1, conv)
    through = tg.add(r1, t)
    two = tg.add(r1, ro)
    inp = tg.add(r1, x)
    half_added = tg.add(r1, half)
    none = tg.add(x, x)
    return good, direct, through, two, inp, half_added, none
"""


@pytest.mark.parametrize(
    ("name", "parent"),
    [
        ("good", "conv"),
        ("direct", "conv"),
        ("half_added", "conv"),
        ("through", None),  # tanh is not on the path
        ("two", None),  # two parents
        ("inp", None),  # a way to an input beside the parent
        ("none", None),
    ],
)
def test_a_dominator_has_one_parent_and_only_the_path_between(name: str, parent: str | None) -> None:
    g = tg.parse(DIAMOND)
    conv = is_op("conv")(wildcard(), wildcard())
    pattern = dominates(conv, (is_op("relu") | is_op("exp"))(wildcard()), is_op("add")(wildcard(), wildcard()))
    found = pattern.match(value(g, name))
    assert (found and found[conv].name) == parent
    if found and name == "good":
        assert [n.results[0].name for n in found.nodes] == ["conv", "r1", "r2", "e", "good"]
        assert [v.name for v in found.inputs] == ["x", "w"]


def test_a_dominator_whose_parent_may_be_on_the_path_takes_each_in_turn() -> None:
    g = tg.trace(lambda x: tg.relu(tg.relu(tg.relu(x))), tg.spec((4,), "float32"))
    relu = is_op("relu")(wildcard())
    pattern = dominates(relu, is_op("relu")(wildcard()), is_op("relu")(wildcard()))
    assert [found[relu].name for found in pattern.matches(g.results[0])] == ["relu_1", "relu"]
    above = dominates(is_op("relu")(is_var()), is_op("relu"), is_op("relu")(wildcard()))
    assert above.match(g.results[0]) is not None
