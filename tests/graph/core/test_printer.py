"""The text of graphs: as the contract shows it, with names that Python admits, and numbers where they mean the same."""

import numpy as np
import pytest

import tirlower.graph as tg
from tests.graph.frontend.oracle import check_text, traced
from tirlower.graph import ConstantData, GraphBuilder, GraphError
from tirlower.graph.core.printer import identifier

B = tg.dim("B", 1, 256)
X = tg.spec((B, 4), "float32")


def body(graph):
    return [line.strip() for line in str(graph).splitlines()[2:]]


def test_a_graph_as_the_contract_shows_it():
    w = np.arange(8, dtype="float32").reshape(4, 2)

    def mlp(x, w1):
        return np.maximum(x @ w1, 0.0)

    g = tg.trace(mlp, X, w)
    digest = ConstantData(w).digest[:8]
    assert (
        str(g)
        == f"""\
@tg.graph
def mlp(x: tg.Tensor(("B", 4), "float32")):
    tg.dims(B=(1, 256))
    w1 = tg.constant("float32", (4, 2), "{digest}")
    matmul: tg.Tensor(("B", 2), "float32") = tg.matmul(x, w1)
    maximum: tg.Tensor(("B", 2), "float32") = tg.maximum(matmul, 0.0)
    return maximum"""
    )


def test_attributes_and_extents():
    g = tg.trace(lambda x: x.reshape(x.shape[0] * 2, -1).sum(axis=1, keepdims=True)[: x.shape[0]], X)
    assert body(g) == [
        "B = tg.dims(B=(1, 256))",
        'reshape: tg.Tensor(("B * 2", 2), "float32") = tg.reshape(x, shape=(B * 2, 2))',
        'sum: tg.Tensor(("B * 2", 1), "float32") = tg.sum(reshape, axis=1, keepdims=True)',
        'slice: tg.Tensor(("B", 1), "float32") = tg.slice(sum, starts=(0,), ends=(B,), axes=(0,), steps=(1,))',
        "return slice",
    ]
    check_text(g)


def test_facts_of_dims():
    dims = [tg.dim("N"), tg.dim("M", 1), tg.dim("K", 0, 64, multiple_of=8), tg.dim("L", 1, 9, hints=(3,))]
    g = tg.trace(lambda x: x * 2, tg.spec(dims, "int8"))
    assert body(g)[0] == "tg.dims(N=(0, None), M=(1, None), K=(0, 64, 8), L=(1, 9, 1, (3,)))"
    check_text(g)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: x + 1, "tg.add(x, 1.0)"),
        (lambda x: 1 - x, "tg.subtract(1.0, x)"),
        (lambda x: x + np.float32(0.1), "tg.add(x, 0.10000000149011612)"),
        (lambda x: x * -np.inf, 'tg.multiply(x, float("-inf"))'),
        (lambda x: x * np.nan, 'tg.multiply(x, float("nan"))'),
        (lambda x: x * -0.0, "tg.multiply(x, -0.0)"),
        (lambda x: np.clip(x, None, 6), "tg.clip(x, None, 6.0)"),
        (lambda x: np.clip(x, 0, 6), "tg.clip(x, 0.0, 6.0)"),
        (lambda x: np.clip(x, 0, None), "tg.clip(x, 0.0)"),
        (lambda x: np.concatenate([x, x]), "tg.concat(x, x)"),
        (lambda x: tg.concat(x), "tg.concat(x)"),
        (lambda x: x + np.float64(1), "tg.add(x, c)"),
        (lambda x: x + np.int64(1), "tg.add(x, c)"),
        (lambda x: np.where(x > 0, 1.0, 2.0), "tg.where(greater, 1.0, 2.0)"),
        (lambda x: np.where(x > 0, np.float32(1), np.float32(2)), "tg.where(greater, c_1, c_2)"),
    ],
)
def test_numbers_stand_in_calls_where_they_mean_the_same(function, wanted):
    g = tg.trace(function, tg.spec((4,), "float32"))
    check_text(g)
    assert body(g)[-2].endswith(f" = {wanted}")


def test_a_number_that_two_use_or_that_stands_elsewhere_is_a_constant():
    b = GraphBuilder("shared")
    x = b.param("x", (4,), "float32")
    one = b.const(ConstantData.splat(1.0, (), "float32"), "one")
    two = b.const(ConstantData.splat(2.0, (), "float32"), "two")
    y = b.op("add", x, one)
    z = b.op("multiply", y, one)
    g = b.finish(b.op("add", z, two))
    assert body(g)[:3] == [
        'one = tg.constant("float32", (), 1.0)',
        'two = tg.constant("float32", (), 2.0)',
        'add: tg.Tensor((4,), "float32") = tg.add(x, one)',
    ]
    check_text(g)


def test_the_order_of_constants_is_kept():
    b = GraphBuilder("order")
    c = b.param("c", (4,), "bool")
    second = b.const(ConstantData.splat(2.0, (), "float64"))
    first = b.const(ConstantData.splat(1.0, (), "float64"))
    check_text(b.finish(b.op("where", c, first, second)))


def test_a_nan_with_other_bits_is_told_by_its_digest():
    odd = np.array(0x7FC00001, "uint32").view("float32")
    g = tg.trace(lambda x: x + odd, tg.spec((2,), "float32"))
    assert body(g)[0] == f'c = tg.constant("float32", (), "{ConstantData(odd).digest[:8]}")'
    check_text(g)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "bfloat16", "float64"])
def test_splats(dtype):
    b = GraphBuilder()
    x = b.param("x", (2, 3), dtype)
    y = b.const(ConstantData.splat(1, (2, 3), dtype), "ones")
    g = b.finish(b.op("equal", x, y))
    number = "True" if dtype == "bool" else "1" if "int" in dtype else "1.0"
    assert body(g)[0] == f'ones = tg.constant("{dtype}", (2, 3), {number})'
    check_text(g)


def test_names_are_unique_identifiers():
    b = GraphBuilder("class")
    n = tg.dim("x")
    b.env.add(n)
    x = b.param("lambda", (n, 2), "float32")
    y = b.param("tg", (2,), "float32")
    z = b.op("add", x, y)
    w = b.op("add", z, y)
    b.env.add(tg.dim("add"))
    g = b.finish((w, z))
    text = str(g)
    assert text.splitlines()[1].startswith("def class_1(lambda_1: ")
    assert "tg_1: tg.Tensor" in text
    assert "add_1_1: " in text
    check_text(g)


def test_structures_of_results():
    for function, wanted in [
        (lambda x: x + 1, "return add"),
        (lambda x: (x + 1,), "return add,"),
        (lambda x: (x, x), "return x, x"),
        (lambda x: {"a b": x, 'c"': x}, 'return {"a b": x, "c\\"": x}'),
    ]:
        g = traced(function, np.ones(3))
        assert body(g)[-1] == wanted
        check_text(g)


def test_several_results_and_attributes_of_the_graph():
    g = traced(lambda x: np.split(x, 2), np.ones((4, 2), "float32")).with_attr(
        {"Composite": "a.b", "level": (1, 2.5, None)}
    )
    assert body(g) == [
        'tg.attributes(Composite="a.b", level=(1, 2.5, None))',
        'split: tg.Tensor((2, 2), "float32")',
        'split_1: tg.Tensor((2, 2), "float32")',
        "split, split_1 = tg.split(x, parts=2)",
        "return split, split_1",
    ]
    check_text(g)
    with pytest.raises(GraphError, match="the attribute 'odd' has no text"):
        str(g.with_attr("odd", object()))


def test_what_is_assumed_is_stated():
    g = tg.trace(lambda x, y: x + y, X, tg.spec((tg.dim("N", 1), 4), "float32"))
    assert body(g)[1] == 'tg.assume("B", "N")'
    check_text(g)


def test_two_graphs_of_one_function_have_the_same_text():
    def model(x):
        return tg.nn.softmax(x @ np.ones((4, 4), "float32") + 1)

    assert str(tg.trace(model, X)) == str(tg.trace(model, X))


@pytest.mark.parametrize(
    ("hint", "taken", "name"),
    [("x", [], "x"), ("x", ["x"], "x_1"), ("x", ["x", "x_1"], "x_2"), ("for", [], "for_1"), ("None", ["None_1"], "None_2"),
     ("", [], "v"), ("1a", [], "v_1a"), ("a.b", ["a_b"], "a_b_1")],
)  # fmt: skip
def test_identifiers(hint, taken, name):
    assert identifier(hint, taken) == name
