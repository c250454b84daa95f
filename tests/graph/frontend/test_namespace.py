"""tg.xp, tg.nn and the functions of all operations: derived from the registry, on tensors and on arrays."""

import inspect
import subprocess
import sys

import numpy as np
import pytest

import tirlower.graph as tg
from tests.graph.frontend.oracle import run, traced
from tirlower.graph import GraphError
from tirlower.graph.ops.registry import definition, names

X = np.linspace(-3, 3, 24, dtype="float32").reshape(4, 6)


def test_each_operation_is_a_function_of_tg_with_its_signature():
    for name in names():
        function = getattr(tg, name)
        assert callable(function), name
        assert function.__doc__.startswith(definition(name).signature), name


def test_nn_has_what_numpy_lacks():
    assert {"relu", "softmax", "gelu", "layer_norm", "conv", "max_pool", "attention", "one_hot"} <= set(dir(tg.nn))
    assert not set(dir(tg.nn)) & {"add", "exp", "sum", "matmul"}
    assert set(dir(tg.xp)) >= {"add", "concat", "float32", "pi", "permute_dims", "astype", "zeros", "newaxis"}
    for space in (tg.nn, tg.xp, tg):
        for name in dir(space):
            assert hasattr(space, name), name
    assert tg.xp.pi == np.pi
    assert tg.xp.float32 == np.float32


def test_unknown_names_say_the_nearest():
    with pytest.raises(AttributeError, match="has no 'softmx': did you mean 'softmax'"):
        tg.nn.softmx
    with pytest.raises(AttributeError, match="has no 'maximun': did you mean 'maximum'"):
        tg.xp.maximun
    with pytest.raises(AttributeError, match="has no attribute 'softmx': did you mean 'softmax'"):
        tg.softmx
    assert not hasattr(tg, "__wrapped__")


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_on_arrays_functions_compute_with_the_reference():
    np.testing.assert_allclose(tg.nn.softmax(X, -1), softmax(X), rtol=1e-6)
    np.testing.assert_allclose(tg.nn.softmax(X), tg.softmax(X, axis=-1))
    np.testing.assert_array_equal(tg.nn.relu(X), np.maximum(X, 0))
    np.testing.assert_array_equal(tg.maximum(X, 0), np.maximum(X, 0))
    assert tg.maximum(X, 0).dtype == np.float32
    np.testing.assert_array_equal(tg.where([True, False], 1.0, 2.0), [1, 2])
    parts = tg.split(X, parts=2, axis=1)
    assert [p.shape for p in parts] == [(4, 3), (4, 3)]
    assert tg.add(1, 2) == 3
    with pytest.raises(GraphError, match="tensors hold numbers and bools, got an array of <U1"):
        tg.nn.relu(np.array(["a"]))
    with pytest.raises(GraphError, match=r"in matmul.* at test_namespace.py:"):
        tg.matmul(X, X)


def test_a_function_with_nn_is_its_own_oracle():
    w = np.ones((6, 3), "float32")

    def model(x):
        return tg.nn.softmax(tg.nn.gelu(x) @ w, axis=0)

    np.testing.assert_allclose(run(traced(model, X, dynamic=True), X)[0], model(X), rtol=1e-5)


def test_arrays_in_a_trace_are_computed_at_once():
    g = traced(lambda x: x + tg.nn.relu(X), X)
    assert [n.name for n in g.ops] == ["add"]


def test_registered_names_mean_the_operation_itself():
    g = traced(lambda x: tg.concat(x, x, axis=1)[:, 0] + tg.sum(x, axis=(1,)) + tg.gather(x, np.array(0), axis=1), X)
    assert [n.name for n in g.ops] == ["concat", "slice", "squeeze", "sum", "add", "gather", "add"]


def test_wrong_calls_show_the_signature():
    for function, message in [
        (lambda x: tg.sum(x, axs=1), "did you mean 'axis'"),
        (lambda x: tg.nn.softmax(), r"lacks its operand 'x'[^$]*softmax\(x, \*, axis=-1\)"),
        (lambda x: tg.relu(x, x), "got too many arguments"),
    ]:
        with pytest.raises(GraphError, match=message):
            traced(function, X)


def test_importing_tg_is_cheap():
    code = "import tirlower, numpy, sys; a = set(sys.modules); import tirlower.graph; print(len(set(sys.modules) - a))"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(made.stdout) == 1


def test_signatures_can_be_asked_for():
    assert inspect.isfunction(tg.softmax)
    assert tg.softmax.__name__ == "softmax"
