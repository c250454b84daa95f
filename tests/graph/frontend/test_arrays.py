"""Operations on arrays are computed at once, with the dtypes that NumPy has."""

import numpy as np
import pytest

import tirlower.graph as tg
from tirlower.graph import GraphError
from tirlower.graph.frontend.arrays import computed
from tirlower.graph.ops.registry import definition

X = np.arange(6, dtype="float32").reshape(2, 3)


@pytest.mark.parametrize(
    ("operands", "wanted"),
    [
        ([X, X], X + X),
        ([X, 1], X + 1),
        ([1.5, X], 1.5 + X),
        ([X, np.float64(1)], X + np.float64(1)),
        ([X, [1, 2, 3]], X + np.array([1, 2, 3])),
        ([1, 2], np.add(1, 2)),
    ],
)
def test_one_result(operands, wanted):
    made = computed(definition("add"), operands, {})
    assert made.dtype == wanted.dtype
    np.testing.assert_array_equal(made, wanted)


def test_several_results_and_operands_that_are_left_out():
    parts = computed(definition("split"), [X], {"parts": 3, "axis": 1})
    assert [p.tolist() for p in parts] == [[[0], [3]], [[1], [4]], [[2], [5]]]
    np.testing.assert_array_equal(computed(definition("clip"), [X, None, 2.0], {}), X.clip(max=2))


def test_operations_without_operands():
    assert tg.arange(stop=3).tolist() == [0, 1, 2]


def test_errors_name_the_place():
    with pytest.raises(GraphError, match=r"at test_arrays.py:\d+"):
        tg.add(X, np.ones(5))
    with pytest.raises(GraphError, match="tensors hold numbers and bools, got an array of object"):
        tg.add(X, np.array([None]))


def test_arrays_are_not_changed():
    before = X.copy()
    tg.nn.relu(X)
    np.testing.assert_array_equal(X, before)
