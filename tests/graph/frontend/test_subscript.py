"""Indexing gives what NumPy's gives."""

import numpy as np
import pytest

import tirlower.graph as tg
from tests.graph.frontend.oracle import check, run, traced
from tirlower.graph import GraphError

X = np.arange(6 * 5 * 4, dtype="float32").reshape(6, 5, 4)
new = np.newaxis


@pytest.mark.parametrize(
    "index",
    [
        np.s_[0],
        np.s_[-1],
        np.s_[2, 1],
        np.s_[2, -1, 3],
        np.s_[...],
        np.s_[:],
        np.s_[1:],
        np.s_[:-1],
        np.s_[-2:],
        np.s_[1:4, 2:, ::2],
        np.s_[..., 0],
        np.s_[..., 1:3],
        np.s_[0, ..., -1],
        np.s_[::-1],
        np.s_[::-2, ::-1, ::-3],
        np.s_[:, 3:0:-1],
        np.s_[:, 3::-2],
        np.s_[:, :-3:-1],
        np.s_[:, 10:, :2],
        np.s_[:, 3:1],
        np.s_[4:1:-1],
        np.s_[2:100],
        np.s_[-100:3],
        np.s_[new],
        np.s_[:, new],
        np.s_[..., new],
        np.s_[new, ..., new, 0],
        np.s_[0, new, :, 1:2, new],
        np.s_[[0, 2, 1]],
        np.s_[:, [0, -1]],
        np.s_[..., [3, 0]],
        np.s_[:, np.array([[0, 1], [2, -1]])],
        np.s_[:, np.array(2)],
        np.s_[1:, [0, 1], ::-1],
        np.s_[0, [0, 1]],
        np.s_[[0, 1], 0],
        np.s_[:, [0, 1], new],
        np.s_[new, :, np.array([[0, 1]]), new],
        np.s_[:, [0, 1, 2], [3, 0, -1]],
        np.s_[:, np.array([[0], [1]]), [3, 0]],
        np.s_[:, np.int64(1), np.uint8(2)],
        np.s_[[]],
        np.s_[np.arange(6) % 2 == 0],
        np.s_[:, [True, False, True, True, False]],
        np.s_[:, 1, np.array([False] * 4)],
    ],
    ids=str,
)
def test_indices(index):
    check(lambda x: x[index], X)


def test_every_slice_of_a_small_axis():
    bounds = [None, -7, -5, -4, -1, 0, 1, 3, 4, 5, 8]
    slices = [slice(a, b, s) for a in bounds for b in bounds for s in (None, -3, -2, -1, 2, 3)]
    x = np.arange(5)
    static = run(traced(lambda x: [x[s] for s in slices], x), x)
    dynamic = run(traced(lambda x: [x[s] for s in slices], x, dynamic=True), x)
    for s, a, b in zip(slices, static, dynamic, strict=True):
        np.testing.assert_array_equal(a, x[s], str(s))
        np.testing.assert_array_equal(b, x[s], str(s))


def test_slices_of_the_same_elements_are_written_alike():
    g = traced(lambda x: (x[1:4], x[1:-2], x[-5:4:1]), X)
    first, *others = [n.attrs for n in g.ops]
    assert all(o == first for o in others)
    assert not traced(lambda x: x[:, 0:5, ...], X).ops


def test_dims_in_indices():
    n = tg.dim("N", 2, 64)
    g = tg.trace(
        lambda x: (x[: x.shape[0] // 2], x[x.shape[0] - 1], x[1 - x.shape[0] :], x[n - 2]), tg.spec((n, 3), "int32")
    )
    assert not g.assumed
    x = np.arange(15, dtype="int32").reshape(5, 3)
    for got, want in zip(run(g, x), (x[:2], x[4], x[-4:], x[3]), strict=True):
        np.testing.assert_array_equal(got, want)


def test_an_index_that_may_be_outside_is_left_to_the_call():
    n = tg.dim("N", 1)
    assert tg.trace(lambda x: (x[0], x[-1]), tg.spec((n, 3), "int32")).assumed == ()
    assert len(tg.trace(lambda x: x[3], tg.spec((n, 3), "int32")).assumed) == 1
    with pytest.raises(GraphError, match=r"the index 9 of axis 0 .* is outside"):
        tg.trace(lambda x: x[9], tg.spec((tg.dim("M", 1, 9), 3), "int32"))


def test_a_tensor_as_index():
    at = np.array([[2, 0], [1, -1]])

    def model(x, i):
        return x[i], x[:, i], x[:, i[0, 0]], x[0, :, i]

    check(lambda x, i: (x[i], x[:, i], x[..., i[0, 0]], x[i[0, 1]]), X, at, dynamic=(False,))
    with pytest.raises(GraphError, match=r"apart from other indices[^$]*write|apart from other indices"):
        traced(model, X, at)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (np.s_[6], "the index 6 of axis 0 of x: float32.* is outside: it has 6 elements"),
        (np.s_[0, -6], "the index -6 of axis 1 .* it has 5 elements"),
        (np.s_[:, [0, 7]], "the index 7 of axis 1"),
        (np.s_[0, 0, 0, 0], "has 3 axes, and 4 indices are given"),
        (np.s_[..., 0, ...], "has 2 ellipses"),
        (np.s_["a"], "is an integer, a slice, None, ... or an array of integers, got 'a'"),
        (np.s_[1.5], "got 1.5"),
        (np.s_[::0], "the step of axis 0 .* is a number other than 0"),
        (np.s_[[0.5]], "an array of float64"),
        (X > 1, "is indexed by a mask"),
        (np.s_[np.array([True, False])], r"the mask of axis 0 of x: .* has not one bool for each element: 2 and 6"),
        (np.s_[True], "is indexed by a mask"),
        (np.s_[0, :, [1]], "apart from other indices"),
    ],
)
def test_indices_that_are_refused(index, message):
    with pytest.raises(GraphError, match=message) as found:
        traced(lambda x: x[index], X)
    assert "test_subscript.py:" in str(found.value)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, i: x[x > 1], "keep the shape: tg.where"),
        (lambda x, i: x[: i[0]], "the end of axis 0 .* is a tensor"),
        (lambda x, i: x[x], "is a tensor of float32"),
        (lambda x, i: x[i, i], "has 2 arrays of indices"),
    ],
)
def test_tensors_that_are_refused_in_indices(function, message):
    with pytest.raises(GraphError, match=message):
        traced(function, X, np.array([0, 1]))
