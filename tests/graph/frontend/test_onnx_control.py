"""Choices and loops by data: what is collected, what is nested, dims, and what is refused; onnxruntime judges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models are read by the onnx package (extra `graph`)")
ort = pytest.importorskip("onnxruntime", reason="onnxruntime runs the models, as an independent judge")

import onnx  # noqa: E402

import tirlower.graph as tg  # noqa: E402
from tirlower.graph.core.control import If, While  # noqa: E402
from tirlower.graph.ops.interpret import interpret  # noqa: E402


def model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]>\n' + text)


def judged(made: onnx.ModelProto, feeds: Sequence[np.ndarray]) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [i.name for i in made.graph.input]
    return [np.asarray(r) for r in session.run(None, dict(zip(names, feeds, strict=True)))]


def same(graph: tg.Graph, made: onnx.ModelProto, *feeds: np.ndarray) -> None:
    """The reference and machine code, optimised and not, give what onnxruntime gives."""
    want = judged(made, feeds)
    for results in (
        interpret(graph, *feeds),
        tg.compile(graph)(*feeds),
        tg.compile(graph, options=tg.Options(optimize=False))(*feeds),
    ):
        several = results if isinstance(results, tuple) else (results,)
        assert len(several) >= len(want)
        for got, expected in zip(several, want, strict=False):
            assert isinstance(got, np.ndarray)
            assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def kinds(graph: tg.Graph) -> list[type]:
    return [type(n) for n in graph.nodes if isinstance(n, (If, While))]


X = np.random.default_rng(0).standard_normal((4, 3)).astype("float32")

COLLECTING = """
collecting (int64 n, float[R, 3] x) => (float[3] last, float[T, 3] rows) {
    yes = Constant<value = bool {1}>()
    zero = Constant<value = float[3] {0, 0, 0}>()
    last, rows = Loop(n, yes, zero) <body = b (int64 i, bool c, float[3] s) => (bool d, float[3] t, float[3] row) {
        d = Identity(c)
        at = Gather<axis = 0>(x, i)
        t = Add(s, at)
        row = Mul(t, t)
    }>
}"""


def test_what_a_loop_collects_has_room_for_a_stated_number_of_rows() -> None:
    made = model(COLLECTING)
    with pytest.raises(tg.GraphError, match=r"'rows', a result of Loop, depends on data[\s\S]*bounds=\{'rows': n\}"):
        tg.from_onnx(made)
    graph = tg.from_onnx(made, bounds={"rows": 4}, dims={"R": 4})
    assert kinds(graph) == [While]
    exe = tg.compile(graph)
    for trips in (0, 1, 3, 4):
        last, rows = judged(made, [np.array(trips), X])
        for results in (interpret(graph, np.array(trips), X), exe(np.array(trips), X)):
            assert int(results[2]) == trips
            np.testing.assert_allclose(results[0], last, rtol=1e-6)
            np.testing.assert_allclose(results[1][:trips], rows, rtol=1e-6)
            assert not results[1][trips:].any()


def test_the_number_of_rows_that_were_collected_is_told_where_there_is_room_for_fewer() -> None:
    graph = tg.from_onnx(model(COLLECTING), bounds={"rows": 2}, dims={"R": 4})
    last, rows, count = tg.compile(graph)(np.array(4), X)
    want = judged(model(COLLECTING), [np.array(4), X])
    np.testing.assert_allclose(last, want[0], rtol=1e-6)
    np.testing.assert_allclose(rows, want[1][:2], rtol=1e-6)
    assert int(count) == 4


TRIPS_OF_A_SHAPE = """
by_rows (float[R, 3] x) => (float[3] last, float[R, 3] rows) {
    shape = Shape<start = 0, end = 1>(x)
    axes = Constant<value = int64[1] {0}>()
    n = Squeeze(shape, axes)
    yes = Constant<value = bool {1}>()
    zero = Constant<value = float[3] {0, 0, 0}>()
    last, rows = Loop(n, yes, zero) <body = b (int64 i, bool c, float[3] s) => (bool d, float[3] t, float[3] row) {
        d = Identity(c)
        at = Gather<axis = 0>(x, i)
        t = Add(s, at)
        row = Identity(t)
    }>
}"""


def test_a_loop_over_a_dynamic_axis_collects_a_row_for_each() -> None:
    made = model(TRIPS_OF_A_SHAPE)
    graph = tg.from_onnx(made, dims={"R": tg.dim("R")})
    assert kinds(graph) == [While]
    assert [str(r.type) for r in graph.results] == ["float32[3]", "float32[R, 3]"]
    for rows in (0, 1, 4, 7):
        same(graph, made, np.resize(X, (rows, 3)).astype("float32"))
    with pytest.raises(tg.GraphError, match="'rows', which is no tensor of the model"):
        tg.from_onnx(made, bounds={"rows": 3})


def test_many_known_trips_stay_a_loop() -> None:
    made = model("""
many (float[3] x) => (float[3] y) {
    n = Constant<value = int64 {20000}>()
    y = Loop(n, , x) <body = b (int64 i, bool c, float[3] s) => (bool d, float[3] t) {
        d = Identity(c)
        half = Constant<value_float = 0.5>()
        one = Constant<value_float = 1.0>()
        down = Mul(s, half)
        t = Add(down, one)
    }>
}""")
    graph = tg.from_onnx(made)
    assert kinds(graph) == [While]
    assert len(graph.nodes) < 20
    np.testing.assert_allclose(tg.compile(graph)(X[0]), judged(made, [X[0]])[0], rtol=1e-6)


NESTED = """
nested (int64 n, float[N] x, float limit) => (float[N] y, int64 k) {
    yes = Constant<value = bool {1}>()
    none = Constant<value = int64 {0}>()
    y, k = Loop(n, yes, x, none) <body = outer (int64 i, bool c, float[N] s, int64 a) => (bool d, float[N] t, int64 z) {
        size = ReduceSum<keepdims = 0>(s)
        big = Greater(size, limit)
        t = If(big) <
            then_branch = shrink () => (float[N] p) {
                p, steps = Loop(, yes, s, none) <body = inner (int64 j, bool e, float[N] u, int64 m)
                        => (bool f, float[N] v, int64 l) {
                    half = Constant<value_float = 0.5>()
                    one = Constant<value = int64 {1}>()
                    v = Mul(u, half)
                    l = Add(m, one)
                    rest = ReduceSum<keepdims = 0>(v)
                    f = Greater(rest, limit)
                }>
            },
            else_branch = grow () => (float[N] q) { q = Add(s, x) }
        >
        one_more = Constant<value = int64 {1}>()
        z = Add(a, one_more)
        d = Less(z, n)
    }>
}"""


def test_choices_in_loops_in_choices_under_a_dynamic_dim() -> None:
    made = model(NESTED)
    graph = tg.from_onnx(made, dims={"N": tg.dim("N", 1, 64)})
    assert kinds(graph) == [While]
    for n, trips, limit in ((3, 5, 4.0), (1, 9, 1.0), (7, 1, 1.0), (5, 0, 1.0)):
        x = np.linspace(0.5, 2, n).astype("float32")
        same(graph, made, np.array(trips), x, np.array(limit, "float32"))
    assert tg.parse(str(graph)) is not None
    assert str(tg.parse(str(graph))) == str(graph)


def test_large_weights_are_read_from_the_graph_around() -> None:
    """A loop's body does not get a copy of them; small constants stay known inside."""
    made = model("""
weighted (int64 n, float[1, 40] x) => (float[1, 40] y) {
    yes = Constant<value = bool {1}>()
    y = Loop(n, yes, x) <body = b (int64 i, bool c, float[1, 40] s) => (bool d, float[1, 40] t) {
        d = Identity(c)
        p = MatMul(s, w)
        t = Reshape(p, shape)
    }>
}""")
    rng = np.random.default_rng(1)
    for name, array in (("w", rng.uniform(-0.3, 0.3, (40, 40)).astype("float32")), ("shape", np.array([1, 40]))):
        made.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    graph = tg.from_onnx(made)
    loop = next(n for n in graph.nodes if isinstance(n, While))
    assert "float32[40, 40]" in [str(p.type) for p in loop.body.params]
    same(graph, made, np.array(3), rng.standard_normal((1, 40)).astype("float32"))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (
            """f (bool c, float[3] x) => (float[K] y) {
                y = If(c) <
                    then_branch = a () => (float[3] p) { p = Neg(x) },
                    else_branch = b () => (float[6] q) { q = Concat<axis = 0>(x, x) }
                >
            }""",
            r"two types: float32\[3\] and float32\[6\]",
        ),
        (
            """f (int64 n, float[3] x) => (float[K] y) {
                yes = Constant<value = bool {1}>()
                y = Loop(n, yes, x) <body = b (int64 i, bool c, float[K] s) => (bool d, float[L] t) {
                    d = Identity(c)
                    t = Concat<axis = 0>(s, x)
                }>
            }""",
            r"which a loop carries, changes[\s\S]*carry a tensor of the greatest shape",
        ),
        (
            """f (bool first, float[3] x) => (float[3] y) {
                y = Loop( , first, x) <body = b (int64 i, bool c, float[3] s) => (bool d, float[3] t) {
                    d = Identity(c)
                    t = Neg(s)
                }>
            }""",
            "never ends once it runs",
        ),
        (
            """f (bool[2] c, float[3] x) => (float[3] y) {
                y = If(c) <
                    then_branch = a () => (float[3] p) { p = Neg(x) },
                    else_branch = b () => (float[3] q) { q = Abs(x) }
                >
            }""",
            "is one element, got bool",
        ),
    ],
)
def test_what_cannot_be_is_refused(text: str, match: str) -> None:
    with pytest.raises(tg.GraphError, match=match):
        tg.from_onnx(model(text))


def test_the_number_of_what_is_found_inside_a_loop_is_no_result() -> None:
    made = model("""
f (int64 n, float[3] x) => (float[3] y) {
    yes = Constant<value = bool {1}>()
    y = Loop(n, yes, x) <body = b (int64 i, bool c, float[3] s) => (bool d, float[3] t) {
        d = Identity(c)
        found = NonZero(s)
        first = ReduceSum<keepdims = 0>(found)
        more = Cast<to = 1>(first)
        t = Add(s, more)
    }>
}""")
    with pytest.raises(tg.GraphError, match=r"bounds=\{'found': n\}"):
        tg.from_onnx(made)
    with pytest.raises(tg.GraphError, match="runs several times, or by a condition"):
        tg.from_onnx(made, bounds={"found": 3})


def test_loops_in_loops_are_unrolled_as_far_as_that_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    made = model("""
nested (float[3] x) => (float[3] y, float[12, 3] rows) {
    n = Constant<value_int = 12>()
    y, rows = Loop(n, , x) <body = outer (int64 i, bool c, float[3] s) => (bool d, float[3] t, float[3] row) {
        d = Identity(c)
        h = Constant<value_float = 0.5>()
        t = Loop(n, , s) <body = inner (int64 j, bool e, float[3] u) => (bool f, float[3] v) {
            f = Identity(e)
            w = Mul(u, h)
            v = Add(w, x)
        }>
        row = Sub(t, s)
    }>
}""")
    graph = tg.from_onnx(made)
    assert kinds(graph) == []
    same(graph, made, X[0])
    monkeypatch.setattr("tirlower.graph.frontend.onnx_ops.control._MOST_NODES", 100)
    kept = tg.from_onnx(made)
    assert kinds(kept) == [While]  # the inner one has 36 nodes
    same(kept, made, X[0])
