"""NumPy's functions of order on symbolic tensors give what NumPy gives on arrays; what is not bounded is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tirlower.graph as tg
from tests.graph.ops.checking import floats, integers
from tirlower.graph.ops.interpret import interpret

X, Y = floats(4, 5), integers(4, 5, low=0, high=4)

SAME: dict[str, Callable[[np.ndarray, np.ndarray], object]] = {
    "sort": lambda x, y: np.sort(x),
    "sort of an axis": lambda x, y: np.sort(y, axis=0, kind="stable"),
    "sort of all": lambda x, y: np.sort(x, axis=None),
    "argsort": lambda x, y: np.argsort(x, 0),
    "argsort of all": lambda x, y: np.argsort(x, axis=None),
    "argsort, a method": lambda x, y: x.argsort(axis=-2),
    "cumsum": lambda x, y: np.cumsum(y, axis=1),
    "cumsum of all": lambda x, y: np.cumsum(y),
    "cumsum in a dtype": lambda x, y: np.cumsum(y, 0, dtype=np.float32),
    "cumsum, a method": lambda x, y: y.cumsum(),
    "cumprod": lambda x, y: np.cumprod(y, axis=0),
    "cumprod, a method": lambda x, y: y.cumprod(-1),
    "accumulate": lambda x, y: np.add.accumulate(y, axis=1),
    "accumulate of products": lambda x, y: np.multiply.accumulate(y),
    "compress by a list": lambda x, y: np.compress([True, False, True, False], x, axis=0),
    "compress of all": lambda x, y: np.compress(np.array([False, True, True]), x),
    "compress, a method": lambda x, y: x.compress([0, 1, 1], axis=-1),
    "rank": lambda x, y: np.argsort(np.argsort(x)),
}


@pytest.mark.parametrize("name", SAME)
@pytest.mark.by_day
def test_a_function_gives_what_it_gives_on_arrays(name: str) -> None:
    function = SAME[name]
    want = np.asarray(function(X, Y))
    A, B = tg.dim("A", 4, 9), tg.dim("B", 5, 9)
    for shape in ((4, 5), (A, B)):
        graph = tg.trace(function, tg.spec(shape, "float32"), tg.spec(shape, Y.dtype))
        assert str(tg.parse(str(graph))) == str(graph)
        for got in (interpret(graph, X, Y), tg.compile(graph)(X, Y)):
            assert isinstance(got, np.ndarray)
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-6)


def test_what_is_found_has_room_and_a_count() -> None:
    def found(x: np.ndarray, y: np.ndarray) -> object:
        where = tg.nonzero(y > 1, size=20)
        flat = tg.xp.flatnonzero(y > 1, size=20)
        kept = x.compress(y[:, 0] > 0, axis=0, size=4)
        values = tg.xp.unique(y, return_counts=True, return_inverse=True, size=6)
        return (*where, *flat, *kept, *values)

    graph = tg.trace(found, tg.spec((4, 5), "float32"), tg.spec((4, 5), Y.dtype))
    for made in (interpret(graph, X, Y), tg.compile(graph)(X, Y), tuple(map(np.asarray, _on_arrays()))):
        where, n, flat, m, kept, rows, values, inverse, counts, different = made
        np.testing.assert_array_equal(where[:, : int(n)], np.array(np.nonzero(Y > 1)))
        np.testing.assert_array_equal(flat[: int(m)], np.flatnonzero(Y > 1))
        assert (flat[int(m) :] == -1).all()
        np.testing.assert_array_equal(kept[: int(rows)], X[Y[:, 0] > 0])
        theirs = np.unique(Y, return_inverse=True, return_counts=True)
        np.testing.assert_array_equal(values[: int(different)], theirs[0])
        np.testing.assert_array_equal(inverse, theirs[1].reshape(Y.shape))
        np.testing.assert_array_equal(counts[: int(different)], theirs[2])


def _on_arrays() -> tuple[object, ...]:
    return (
        *tg.nonzero(Y > 1, size=20),
        *tg.xp.flatnonzero(Y > 1, size=20),
        *tg.xp.compress(Y[:, 0] > 0, X, 0, size=4),
        *tg.xp.unique(Y, return_counts=True, return_inverse=True, size=6),
    )


def test_the_array_apis_words() -> None:
    x = np.float32([[2, np.nan, 1], [3, 3, -1]])
    graph = tg.trace(
        lambda x: (tg.xp.sort(x, descending=True), tg.xp.argsort(x, descending=True)), tg.spec((2, 3), "float32")
    )
    values, places = interpret(graph, x)
    np.testing.assert_array_equal(values, np.float32([[np.nan, 2, 1], [3, 3, -1]]))
    assert places.tolist() == [[1, 0, 2], [0, 1, 2]]
    assert tg.xp.argsort(x, descending=True).tolist() == places.tolist()
    running = tg.trace(lambda x: tg.xp.cumulative_sum(x, axis=1), tg.spec((2, 3), "int8"))
    assert interpret(running, np.ones((2, 3), "int8")).tolist() == [[1, 2, 3], [1, 2, 3]]


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (np.nonzero, r"nonzero at .*test_ordering.py.* only when the graph runs[\s\S]*size=n"),
        (np.flatnonzero, "flatnonzero .* only when the graph runs"),
        (np.unique, "unique .* only when the graph runs"),
        (lambda x: np.compress(x[0] > 0, x, axis=1), "compress .* only when the graph runs"),
        (lambda x: np.compress([0, 0, 0, 1], x, axis=1), "holds for element 3, and the axis has 3"),
        (lambda x: x.nonzero(), r"nonzero[\s\S]*size=n"),
        (lambda x: np.sort(x, order="a"), "order="),
        (lambda x: np.sort(x, kind="bogo"), "kind='bogo'"),
        (lambda x: np.unique(x, axis=0), "axis="),
        (lambda x: np.sort(x, axis=2), "no axis 2"),
        (lambda x: tg.xp.nonzero(x, size=-1), "at least 0"),
    ],
)
def test_what_cannot_be_said_is_refused(function: Callable[[object], object], match: str) -> None:
    with pytest.raises(tg.GraphError, match=match):
        tg.trace(function, tg.spec((2, 3), "float32"))


def test_a_known_condition_of_a_dynamic_axis_wants_to_fit() -> None:
    for least in (1, 3):
        spec = tg.spec((tg.dim("N", least, 9),), "float32")
        if least < 3:
            with pytest.raises(tg.GraphError, match="holds for element 2"):
                tg.trace(lambda x: np.compress([1, 0, 1], x), spec)
        else:
            tg.trace(lambda x: np.compress([1, 0, 1], x), spec)
