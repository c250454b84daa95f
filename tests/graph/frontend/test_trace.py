"""Tracing: which arguments become what, what results may be, where nodes come from, and what is refused."""

import threading
from collections import namedtuple

import numpy as np
import pytest

import tirlower.graph as tg
from tirlower.graph import Const, GraphError

B = tg.dim("B", 1, 256)
X = tg.spec((B, 4), "float32")


def ones(*shape, dtype="float32"):
    return np.ones(shape, dtype)


def names_of(values):
    return [v.name for v in values]


def types_of(values):
    return [str(v.type) for v in values]


def constants(graph):
    return [n for n in graph.nodes if isinstance(n, Const)]


def test_specs_become_inputs_and_arrays_constants_under_the_parameters_names():
    def layer(x, w, b, scale=2):
        return (x @ w + b) * scale

    g = tg.trace(layer, X, ones(4, 8), b=ones(8))
    assert g.name == "layer"
    assert (names_of(g.params), types_of(g.params)) == (["x"], ["float32[B, 4]"])
    assert [n.results[0].name for n in constants(g)][:2] == ["w", "b"]
    assert [n.name for n in g.ops] == ["matmul", "add", "multiply"]
    assert types_of(g.results) == ["float32[B, 8]"]
    assert [d.name for d in g.dims] == ["B"]


def test_arrays_of_defaults_and_in_lists_dicts_and_named_tuples():
    Pair = namedtuple("Pair", "w b")

    def net(x, layers, more, *rest, last=ones(4), names=("a", "b"), **kw):
        for w in layers:
            x = x @ w
        x = x * more["gain"] + more["pair"].b
        for r in rest:
            x = x + r
        assert names == ("a", "b")
        return x + last + kw["z"]

    g = tg.trace(
        net,
        X,
        [ones(4, 4), ones(4, 4)],
        {"gain": ones(4), "pair": Pair(ones(4, 4), ones(4))},
        X,
        ones(4),
        z=X,
        flag=True,
    )
    assert names_of(g.params) == ["x", "rest_0", "z"]
    given = [n.results[0].name for n in constants(g)]
    assert given == ["layers_0", "layers_1", "more_gain", "more_pair_0", "more_pair_1", "rest_1", "last"]


def test_an_array_used_twice_is_one_constant():
    w = ones(4)
    g = tg.trace(lambda x, a: x * a + w + w, X, w)
    assert len(constants(g)) == 1


@pytest.mark.parametrize(
    ("function", "structure", "count"),
    [
        (lambda x: x + 1, "one", 1),
        (lambda x: (x + 1,), "tuple", 1),
        (lambda x: [x + 1, x * 2], "tuple", 2),
        (lambda x: {"sum": x + 1, "own": x}, ("sum", "own"), 2),
        (lambda x: x, "one", 1),
        (lambda x: (x, x, ones(3), 2.0), "tuple", 4),
    ],
)
def test_results(function, structure, count):
    g = tg.trace(function, X)
    assert g.structure == structure
    assert len(g.results) == count


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: None, "returned no tensor, but None"),
        (lambda x: 3.0, "returned no tensor, but 3.0"),
        (lambda x: (), r"returned no tensor, but \(\)"),
        (lambda x: {1: x}, "the keys of the results .* are strings, got 1"),
        (lambda x: [x, [x]], "a result .* is a list"),
        (lambda x: [x, "y"], "a result .* is a str"),
    ],
)
def test_results_that_are_refused(function, message):
    with pytest.raises(GraphError, match=message):
        tg.trace(function, X)


def test_origins_are_the_users_statements():
    def helper(v):
        return v * 2

    def model(x):
        y = np.add(x, 1)
        return helper(y)

    first = model.__code__.co_firstlineno
    g = tg.trace(model, X)
    assert [n.origin for n in g.ops] == [
        f"test_trace.py:{first + 1}",
        f"test_trace.py:{helper.__code__.co_firstlineno + 1}",
    ]


def test_errors_say_the_line_and_the_operands():
    def model(x):
        return x @ ones(5, 3)

    with pytest.raises(GraphError) as caught:
        tg.trace(model, X)
    line = model.__code__.co_firstlineno + 1
    assert f"in matmul(x: float32[B, 4], c: float32[5, 3]) at test_trace.py:{line}" in str(caught.value)


def test_a_dim_is_one_object():
    with pytest.raises(GraphError, match="two dims are named 'B'"):
        tg.trace(lambda x, y: x + y, X, tg.spec((tg.dim("B"), 4), "float32"))


def test_expressions_of_dims_need_the_dim_by_itself_somewhere():
    twice = tg.spec((B * 2, 4), "float32")
    g = tg.trace(lambda x, y: (x + 1, y + 1), twice, X)
    assert types_of(g.params) == ["float32[B * 2, 4]", "float32[B, 4]"]
    with pytest.raises(GraphError, match="the dim 'B' stands only inside an expression, in 'x': spec"):
        tg.trace(lambda x: x + 1, twice)


def test_what_cannot_be_proved_of_extents_is_left_to_the_call():
    other = tg.spec((tg.dim("N", 1), 4), "float32")
    g = tg.trace(lambda x, y: x + y + (x * y), X, other)
    assert [(str(a), str(b)) for a, b in g.assumed] == [("B", "N")]
    with pytest.raises(GraphError, match="axis -2 has extents: B and 300"):
        tg.trace(lambda x: x + ones(300, 4), X)


def test_arguments_that_do_not_fit():
    with pytest.raises(GraphError, match="missing a required argument: 'y'"):
        tg.trace(lambda x, y: x, X)
    with pytest.raises(GraphError, match="takes a function and its arguments, got 3"):
        tg.trace(3, X)
    with pytest.raises(GraphError, match="got an array of complex128"):
        tg.trace(lambda x, w: x, X, np.ones(3, complex))
    for dtype in ("float33", "complex64", "float32x4", object, "handle"):
        with pytest.raises(GraphError, match="is no dtype of a tensor"):
            tg.spec((3,), dtype)
    with pytest.raises(GraphError, match="an extent is at least 0, got -1"):
        tg.spec((-1,), "float32")


def test_a_tensor_of_an_ended_trace():
    kept = []
    tg.trace(lambda x: kept.append(x) or x + 1, X)
    with pytest.raises(
        GraphError, match=r"add at test_trace.py:\d+ uses a tensor of the trace of 'main' at test_trace.py:\d+"
    ):
        kept[0] + 1
    with pytest.raises(GraphError, match="mixes tensors of two traces"):
        tg.trace(lambda x: x + kept[0], X)
    with pytest.raises(GraphError, match="which has ended"):
        tg.trace(lambda x: kept[0], X)


def test_a_tensor_of_the_trace_around():
    def outer(x):
        tg.trace(lambda y: y + x, X)
        return x

    with pytest.raises(GraphError, match=r"mixes tensors of two traces: .*'main' \(traced at .*'outer' \(traced at"):
        tg.trace(outer, X)
    with pytest.raises(GraphError, match="of another trace: of 'around'"):

        def around(x):
            return tg.trace(lambda y: x, X)

        tg.trace(around, X)


def test_a_trace_inside_another_stands_alone():
    def outer(x):
        inner = tg.trace(lambda y: y * 2, X)
        assert len(inner.ops) == 1
        return x + 1

    assert [n.name for n in tg.trace(outer, X).ops] == ["add"]


def test_another_thread_is_refused():
    caught = []

    def model(x):
        def work():
            try:
                x + 1
            except GraphError as error:
                caught.append(str(error))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return x * 2

    assert len(tg.trace(model, X).ops) == 1
    assert "runs in another thread than the trace of 'model'" in caught[0]


def test_two_threads_trace_at_once():
    made = {}

    def work(n):
        made[n] = tg.trace(lambda x: x + n * x, X)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [len(made[n].ops) for n in range(4)] == [2] * 4


def test_a_function_with_annotations_is_a_graph_at_once():
    @tg.graph
    def scaled(x: tg.Tensor((B, 4), "float32"), y: tg.Tensor((4,), "float32"), by=3):
        return x * y * by

    assert names_of(scaled.params) == ["x", "y"]
    assert scaled.name == "scaled"
    with pytest.raises(GraphError, match="the parameter 'y' of 'lacking' does not say its type"):

        @tg.graph
        def lacking(x: tg.Tensor((4,), "float32"), y):
            return x


def test_dims_may_be_named_by_text_and_stated_inside():
    @tg.graph
    def named(x: tg.Tensor(("N", "M * 2"), "float32"), y: tg.Tensor(("M",), "float32")):
        dims = tg.dims(M=(1, 8), N=(2, None, 2, (4, 6)))
        assert [d.name for d in dims] == ["M", "N"]
        return x + 1, y + 1

    assert [d.facts for d in named.dims] == ["1 <= M <= 8", "2 <= N, a multiple of 2"]
    assert named.dims[1].hints == (4, 6)
    with pytest.raises(GraphError, match=r"tg.dims at .* stands in a function that is traced, and nowhere else"):
        tg.dims(B=(1, 2))
    with pytest.raises(GraphError, match="the shape of 'x' has 'N N', which is no expression of dims"):
        tg.trace(lambda x: x, tg.spec(("N N",), "float32"))


def test_a_spec_is_no_tensor_of_a_graph():
    with pytest.raises(GraphError, match=r"spec\(\(4,\), 'float32'\) at .* says what an argument is"):
        tg.trace(lambda x: x + tg.Tensor((4,), "float32"), X)


def test_names_that_python_keeps_for_itself():
    g = tg.trace(lambda **kw: kw["lambda"] + kw["a b"], **{"lambda": X, "a b": X})
    assert g.name == "main"
    assert all(v.name.isidentifier() for v in g.params)


@pytest.mark.parametrize(("said", "noted"), [("wrong", True), ("wrong at test_trace.py:7", False)])
def test_a_place_is_told_once(said, noted):
    def model(x):
        raise GraphError(said)

    with pytest.raises(GraphError) as info:
        tg.trace(model, X)
    assert any("at test_trace.py:" in note for note in info.value.notes) == noted
