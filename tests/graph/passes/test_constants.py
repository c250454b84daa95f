"""Constants given by name, and computed while compiling."""

import numpy as np
import pytest

import tirlower as tl
import tirlower.graph as tg
from tests.graph.passes.checking import check_graph
from tirlower.graph.core.numerics import Numerics
from tirlower.graph.passes.constants import BindConstants, FoldConstants

UNBOUND = """@tg.graph
def f(x: tg.Tensor((4,), "float32")):
    w = tg.constant("float32", (4,), "5f3ac19e")
    z = tg.constant("float32", (4,), 1.0)
    y: tg.Tensor((4,), "float32") = tg.add(x, w)
    u: tg.Tensor((4,), "float32") = tg.add(y, z)
    return u
"""
ONES = np.ones(4, "float32")


def test_a_bound_constant_has_its_contents():
    graph = tg.parse(UNBOUND)
    w = np.arange(4, dtype="float32")
    bound = BindConstants(constants={"w": w})(graph)
    np.testing.assert_array_equal(tg.interpret(bound, ONES), w + 2)
    np.testing.assert_array_equal(tg.compile(bound)(ONES), w + 2)
    assert BindConstants(constants={})(graph) is graph
    assert BindConstants({"w": w})(graph).nodes[0].results[0].name == "w"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"z": ONES}, "the constant 'z' is bound already"),
        ({"x": ONES}, "'x' is an input of f"),
        ({"y": ONES}, "'y' is no constant: it is computed"),
        ({"v": ONES}, "f has no constant 'v'"),
        ({"w": np.ones(4)}, "the constant 'w' is of float32, got float64"),
        ({"w": np.ones(5, "float32")}, r"the constant 'w' has the shape \(4,\), got \(5,\)"),
        ({"w": np.array(["a"] * 4)}, "tensors hold numbers"),
    ],
)
def test_what_cannot_be_bound(given, said):
    with pytest.raises(tg.GraphError, match=said):
        BindConstants(constants=given)(tg.parse(UNBOUND))
    bound = BindConstants(constants={"w": ONES * 3})(tg.parse(UNBOUND))
    with pytest.raises(tg.GraphError, match="is bound already"):
        BindConstants(constants={"w": ONES})(bound)


def test_constants_are_folded_through_views_and_macros():
    w = np.arange(12, dtype="float32").reshape(3, 4)
    probabilities = tg.GraphBuilder()
    x = probabilities.param("x", (4, 3), "float32")
    folded = probabilities.op("softmax", probabilities.op("transpose", probabilities.op("multiply", w, 2.0)))
    graph = probabilities.finish(probabilities.op("add", x, folded))
    after = check_graph(FoldConstants(), graph, numerics=Numerics.DEFAULT)
    assert [op.name for op in after.ops] == ["add"] and len(after.nodes) == 2
    assert not FoldConstants().kept(graph)


def test_no_bit_changes_under_exact():
    w = np.arange(1, 5, dtype="float32")
    b = tg.GraphBuilder()
    x = b.param("x", (4,), "float32")
    graph = b.finish([b.op("add", x, b.op(name, w)) for name in ("sqrt", "exp", "sum")])
    with tl.PassContext(config={"graph.numerics": "exact"}):
        names = [op.name for op in FoldConstants()(graph).ops]
        kept = FoldConstants().kept(graph)
    assert names == ["add", "exp", "add", "sum", "add"]
    assert [one.operation for one in kept] == ["exp", "sum"] and "no bit may change" in kept[0].reason
    assert [op.name for op in FoldConstants()(graph).ops] == ["add"] * 3


def test_a_model_does_not_grow_by_folding():
    w = np.arange(256, dtype="float32")
    b = tg.GraphBuilder()
    x = b.param("x", (256, 256), "float32")
    column = b.op("reshape", w, shape=(256, 1))
    big = b.op("add", b.const(w), column)  # 256 KB of 1 KB, which stays in use
    graph = b.finish([b.op("add", x, big), b.op("add", x, b.const(w))])
    assert [op.name for op in FoldConstants()(graph).ops] == ["add", "add", "add"]
    (kept,) = FoldConstants().kept(graph)
    assert "would grow by" in kept.reason
    assert [op.name for op in FoldConstants(growth=300.0)(graph).ops] == ["add", "add"]
    with tl.PassContext(config={"graph.FoldConstants": {"growth": 300.0}}):
        assert len(FoldConstants()(graph).ops) == 2


def test_room_is_shared_by_all_that_is_folded():
    b = tg.GraphBuilder()
    w = b.const(np.arange(128, dtype="float32"))
    rows = [b.op("add", b.op("reshape", w, shape=(128, 1)), b.op("multiply", w, float(n))) for n in range(8)]
    x = b.param("x", (128, 128), "float32")
    graph = b.finish([b.op("add", x, r) for r in rows])
    after = FoldConstants()(graph)
    held = sum(n.data.nbytes for n in after.nodes if isinstance(n, tg.Const))
    assert held < 2 * 64 * 1024 + 8192 and len(after.ops) > 8


def test_one_that_fails_keeps_the_others():
    b = tg.GraphBuilder()
    b.origin = "model.py:3"
    bad = b.op("gather", np.arange(4, dtype="float32"), np.array([9]), axis=0)
    b.origin = ""
    good = b.op("add", np.arange(1, dtype="float32"), np.ones(1, "float32"))
    x = b.param("x", (1,), "float32")
    graph = b.finish([b.op("add", x, bad), b.op("add", x, good)])
    after = FoldConstants()(graph)
    assert [op.name for op in after.ops] == ["gather", "add", "add"]
    (kept,) = FoldConstants().kept(graph)
    assert kept.operation == "gather" and kept.origin == "model.py:3" and "index 9" in kept.reason


def test_dims_and_missing_contents_are_reasons():
    B = tg.dim("B")
    b = tg.GraphBuilder(dims=[B])
    x = b.param("x", (B,), "float32")
    graph = b.finish(b.op("add", x, b.op("broadcast_to", np.ones(1, "float32"), shape=(B,))))
    (kept,) = FoldConstants().kept(graph)
    assert "has dims" in kept.reason and FoldConstants()(graph) is graph
    text = tg.parse(UNBOUND.replace("tg.add(x, w)", "tg.add(z, w)"))
    assert [one.reason for one in FoldConstants().kept(text)] == ["the contents of 'w' are not here"]


def test_a_splat_takes_no_memory_and_nan_and_zeros_keep_their_signs():
    b = tg.GraphBuilder()
    x = b.param("x", (8,), "float32")
    values = [0.0, -0.0, np.nan, np.inf, -1.5]
    several = [b.op("negative", b.op("broadcast_to", np.float32(v), shape=(8,))) for v in values]
    graph = b.finish([b.op("add", x, v) for v in several] + several)
    after = check_graph(FoldConstants(), graph)
    held = [n.data for n in after.nodes if isinstance(n, tg.Const)]
    assert len(held) == 5
    np.testing.assert_array_equal(np.signbit([d.numpy()[0] for d in held[:2]]), [True, False])
    assert sum(d.nbytes for d in held) <= 32  # all but the NaN are one number


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "bfloat16", "float64"])
def test_every_dtype_is_folded_to_its_bits(dtype):
    kind = tl.ir.DataType(dtype).numpy
    b = tg.GraphBuilder()
    x = b.param("x", (2, 3), dtype)
    w = np.arange(6).reshape(3, 2).astype(kind)
    graph = b.finish(b.op("where", b.op("equal", x, b.op("transpose", w)), x, b.op("transpose", w)))
    assert [op.name for op in check_graph(FoldConstants(), graph).ops] == ["equal", "where"]


def test_the_option_of_compile_reaches_the_pass():
    w = np.arange(256, dtype="float32")

    b = tg.GraphBuilder()
    x, c = b.param("x", (256, 256), "float32"), b.const(w)
    big = b.op("add", b.op("reshape", c, shape=(256, 1)), c)
    graph = b.finish([b.op("add", x, big), b.op("multiply", x, c)])
    few = tg.compile(graph)
    more = tg.compile(graph, options=tg.Options(constant_growth=300))
    assert len(more.kernels) < len(few.kernels)
    x = np.ones((256, 256), "float32")
    for a, b in zip(few(x), more(x), strict=True):
        np.testing.assert_array_equal(a, b)
