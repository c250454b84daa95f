"""Reading the text of graphs, and what its errors point at."""

import numpy as np
import pytest

import tirlower.graph as tg
from tests.graph.frontend.oracle import check_text, described, run, store_of, traced
from tirlower.graph import Const, GraphError

HEAD = '@tg.graph\ndef f(x: tg.Tensor(("B", 4), "float32")):\n'


def read(*lines, head=HEAD):
    return tg.parse(head + "".join(f"    {line}\n" for line in lines))


def test_a_text_written_by_hand():
    g = read("tg.dims(B=(1, 256, 4))", "y = tg.multiply(x, 2.0)", "z = tg.sum(y, axis=1)", "return z, y")
    assert [str(v.type) for v in g.results] == ["float32[B]", "float32[B, 4]"]
    assert [v.name for v in g.results] == ["z", "y"]
    assert g.dims[0].facts == "1 <= B <= 256, a multiple of 4"
    x = np.arange(16, dtype="float32").reshape(4, 4)
    np.testing.assert_array_equal(run(g, x)[0], (x * 2).sum(1))
    check_text(g)


def test_names_of_the_text_are_kept():
    g = read("c = tg.add(x, 1.0)", "c_1 = tg.add(c, 2.0)", "add = tg.add(c_1, c)", "return add")
    assert [n.results[0].name for n in g.ops] == ["c", "c_1", "add"]
    check_text(g)


def test_dims_without_stated_facts():
    g = read("return x")
    assert [d.facts for d in g.dims] == ["0 <= B"]


def test_attributes_may_name_dims():
    g = read(
        "B = tg.dims(B=(2, 8))",
        "y = tg.reshape(x, shape=(B * 2, 2))",
        'z = tg.slice(y, starts=(0,), ends=(tg.extent("min(B, 4)"),))',
        "return z",
    )
    assert [str(v.type) for v in g.results] == ["float32[min(B, 4), 2]"]
    check_text(g)


def test_constants_come_from_a_store_or_stay_abstract():
    w = np.random.default_rng(0).random((4, 2)).astype("float32")
    g = traced(lambda x: x @ w, np.ones((3, 4), "float32"))
    abstract = tg.parse(str(g))
    (const,) = (n for n in abstract.nodes if isinstance(n, Const))
    assert const.data.is_abstract
    assert described(abstract) == described(g)
    with pytest.raises(GraphError, match="are not here"):
        run(abstract, np.ones((3, 4), "float32"))
    whole = tg.parse(str(g), constants=store_of(g))
    np.testing.assert_array_equal(run(whole, np.ones((3, 4), "float32"))[0], np.ones((3, 4), "float32") @ w)
    (digest,) = store_of(g)
    assert tg.parse(str(g), constants={digest: w}).nodes[0].data == const.data
    with pytest.raises(GraphError, match="that is given is another one"):
        tg.parse(str(g), constants={digest: w + 1})
    with pytest.raises(GraphError, match="that is given is another one"):
        tg.parse(str(g), constants={digest: w[0]})


def test_abstract_constants_are_compared_by_what_is_known():
    a = tg.ConstantData(np.arange(3))
    assert tg.ConstantData.abstract(a.digest[:8], (3,), "int64") == a
    assert hash(tg.ConstantData.abstract(a.digest[:8], (3,), "int64")) == hash(a)
    assert tg.ConstantData.abstract("0" * 8, (3,), "int64") != a
    assert tg.ConstantData.abstract(a.digest[:8], (3,), "int32") != a


@pytest.mark.parametrize(
    ("lines", "message", "marked"),
    [
        (["y = tg.ad(x, 1.0)", "return y"], "there is no operation 'ad'", "tg.ad"),
        (["y = tg.add(x, z)", "return y"], "there is no value 'z' before this line", "z"),
        (["yes = tg.add(x, x)", "return yess"], "did you mean 'yes'", "yess"),
        (["y = tg.sum(x, axs=1)", "return y"], "did you mean 'axis'", "tg.sum(x, axs=1)"),
        (["y = tg.add(x)", "return y"], "add lacks its operand 'b'", "tg.add(x)"),
        (["y = tg.add(x, 'a')", "return y"], "an operand is a value or a number", "'a'"),
        (["y = x", "return y"], "a value is made by an operation of tg", "x"),
        (["y = np.add(x, x)", "return y"], "a value is made by an operation of tg", "np.add(x, x)"),
        (["x = tg.add(x, x)", "return x"], "'x' is made twice", "x"),
        (["y, z = tg.add(x, x)", "return y"], "add has 1 results, got 2 names", "tg.add(x, x)"),
        (
            ["y = tg.split(x, parts=2, axis=1)", "return y"],
            "split has 2 results, got 1 names",
            "tg.split(x, parts=2, axis=1)",
        ),
        (
            ['y: tg.Tensor(("B", 5), "float32") = tg.add(x, x)', "return y"],
            r"'y' is stated as float32\[B, 5\]",
            'tg.Tensor(("B", 5), "float32")',
        ),
        (
            ['y: tg.Tensor(("B", 4), "float64") = tg.add(x, x)', "return y"],
            "'y' is stated as float64",
            'tg.Tensor(("B", 4), "float64")',
        ),
        (["y: int = tg.add(x, x)", "return y"], "this is no type of a tensor", "int"),
        (
            ['y = tg.constant("float32", (2,), "xyz")', "return y"],
            "said by a number or by eight digits",
            'tg.constant("float32", (2,), "xyz")',
        ),
        (['y = tg.constant("int8", (), 300)', "return y"], "300 is no value of int8", 'tg.constant("int8", (), 300)'),
        (['y = tg.constant("float3", (), 3)', "return y"], "is no dtype of a tensor", '"float3"'),
        (["y = tg.reshape(x, shape=(C, 4))", "return y"], "no dim is named 'C'", "C"),
        (["y = tg.sum(x, axis=open('f'))", "return y"], "here stands", "open('f')"),
        (["y = tg.sum(x, axis={})", "return y"], "this is no number, text or tuple", "{}"),
        (["y = tg.transpose(x, axes=(0,))", "return y"], "transpose", "tg.transpose(x, axes=(0,))"),
        (["tg.dims(B=(4, 1))", "return x"], "it is stated between 4 and 1", "(4, 1)"),
        (["tg.dims(B=(1.5, 4))", "return x"], "these are no facts of the dim 'B'", "(1.5, 4)"),
        (["tg.assume('B', 'B +')", "return x"], "which is no expression of dims", "'B +'"),
        (["for i in x: pass", "return x"], "a line of a graph is an assignment", "for i in x: pass"),
        (["import os", "return x"], "a line of a graph is an assignment", "import os"),
        (["return x", "return x"], "nothing stands behind the return", "return x"),
        (["return {1: x}"], "the keys of results are texts", "{1: x}"),
        (["return"], "the return has no results", "return"),
        (["return tg.add(x, x)"], "this is a name of a value", "tg.add(x, x)"),
    ],
)
def test_errors_point_at_what_is_wrong(lines, message, marked):
    with pytest.raises(GraphError, match=message) as caught:
        read(*lines)
    span = next(label.span for label in caught.value.labels if label.span is not None)
    assert span.text == marked


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "one function under @tg.graph, got 0 statements"),
        ("x = 1", "one function under @tg.graph"),
        ("def f(x):\n    return x", "does not stand under @tg.graph"),
        ("@tg.graph\ndef f(x):\n    return x", "a parameter says its type"),
        ('@tg.graph\ndef f(x: tg.Tensor((4,), "float32") = 3):\n    return x', "without defaults"),
        ('@tg.graph\ndef f(x: tg.Tensor((4,), "float32")):\n    pass', "a line of a graph"),
        ('@tg.graph\ndef f(x: tg.Tensor((4,), "float32")):\n    y = tg.add(x, x)', "returns nothing"),
        ('@tg.graph\ndef f(x: tg.Tensor((-4,), "float32")):\n    return x', "an extent is a number or the text"),
        ('@tg.graph\ndef f(x: tg.Tensor(4, "float32")):\n    return x', "a shape is a tuple"),
        ("@tg.graph\ndef f(x:", "was never closed|invalid syntax"),
        ("\0", "null|source code"),
    ],
)
def test_texts_that_are_no_graph(text, message):
    with pytest.raises(GraphError, match=message):
        tg.parse(text)


def test_places_in_texts_with_other_letters():
    with pytest.raises(GraphError) as caught:
        read("ä = tg.add(x, y)", "return ä")
    assert "ä = tg.add(x, y)" in str(caught.value)
    span = next(label.span for label in caught.value.labels if label.span)
    assert span.text == "y"


def test_a_long_text():
    lines = ["v0 = tg.add(x, 1.0)", *(f"v{n + 1} = tg.add(v{n}, 1.0)" for n in range(2000)), "return v2000"]
    g = read(*lines)
    assert len(g.ops) == 2001
    assert str(tg.parse(str(g))) == str(g)
