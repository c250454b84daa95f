"""Which of ours stands for a function of NumPy (the functions themselves: test_functions)."""

import numpy as np
import pytest

import tirlower.graph as tg
from tests.graph.frontend.oracle import traced
from tirlower.graph import GraphError
from tirlower.graph.frontend.numpy_protocol import OTHER_NAMES, call, derived, function_named
from tirlower.graph.ops.registry import definition, names

X = np.ones((4, 6), "float32")


def ops(function):
    return [(n.name, n.attrs) for n in traced(function, X).ops]


def test_other_names_lead_to_operations():
    for name, ours in OTHER_NAMES.items():
        if ours in names():
            assert function_named(name) is not None, name
    assert function_named("no_such_function") is None


def test_arguments_go_by_numpys_own_names():
    # Third of np.max is out, third of ours keepdims.
    ((name, attrs),) = ops(lambda x: np.max(x, 1, None, True))
    assert (name, attrs["axis"], attrs["keepdims"]) == ("max", 1, True)
    ((name, attrs),) = ops(lambda x: np.var(x, 1, None, None, 1))
    assert (name, attrs["correction"]) == ("var", 1)


def test_a_dtype_that_an_operation_lacks_converts_before():
    assert [n for n, _ in ops(lambda x: np.mean(x, dtype="float64"))] == ["cast", "mean"]
    assert [n for n, _ in ops(lambda x: np.add(x, 1, dtype="float64"))] == ["cast", "add"]
    assert [n for n, _ in ops(lambda x: np.sum(x, dtype="float64"))] == ["sum"]


def test_derived_functions_show_their_operation():
    function = derived(definition("softmax"))
    assert function.__name__ == "softmax"
    assert function.__doc__.startswith("softmax(x, *, axis=-1)\n")
    assert derived(definition("softmax")) is function


def test_keywords_that_say_nothing_are_admitted():
    assert len(ops(lambda x: np.add(x, 1, casting="same_kind", order="K", subok=True, where=True))) == 1
    assert len(ops(lambda x: np.sum(x, out=None))) == 1


def test_methods_of_universal_functions():
    assert ops(lambda x: np.add.reduce(x))[0][1]["axis"] == 0
    assert ops(lambda x: np.logical_or.reduce(x > 1, axis=1))[1][0] == "any"
    assert [n for n, _ in ops(lambda x: np.subtract.outer(x[:, 0], x[:, 1]))][-1] == "subtract"
    with pytest.raises(GraphError, match=r"np.subtract.reduce at .* is not known"):
        ops(lambda x: np.subtract.reduce(x))


def test_unknown_functions_name_the_place():
    with pytest.raises(GraphError, match=r"np\.fft\.fft at test_numpy_protocol.py:\d+ is not known"):
        ops(lambda x: np.fft.fft(x))
    with pytest.raises(GraphError, match=r"np\.linalg\.inv at"):
        ops(lambda x: np.linalg.inv(x))
    with pytest.raises(GraphError, match=r"np.nothing at .* is not known"):
        call("nothing", (), {})


def test_tensors_are_found_deep_in_arguments():
    assert ops(lambda x: np.concatenate((X, [x][0])))[0][0] == "concat"
    g = tg.trace(lambda i: tg.take(X, i, axis=1), tg.spec((2,), "int64"))
    assert [n.name for n in g.ops] == ["gather"]
    for by_numpy in (lambda i: X[i], lambda i: np.take(X, i)):  # NumPy does not ask indices
        with pytest.raises(GraphError, match=r"write tg.take\(array, tensor, axis=0\)|take elements with tg.take"):
            tg.trace(by_numpy, tg.spec((2,), "int64"))
