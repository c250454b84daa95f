"""Slices, concatenation, padding and ranges against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph.ops.checking import check, floats, integers, refused, run
from tirlower.graph.core.dims import dim
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.ops.interpret import interpret

pytestmark = pytest.mark.by_day

X = floats(3, 4, 5)
FAR = 2**62


@pytest.mark.parametrize("step", [None, 1, 2, 3, -1, -2])
@pytest.mark.parametrize("end", [None, 0, 1, 4, 5, -1, -3, -9, FAR, -FAR])
@pytest.mark.parametrize("start", [None, 0, 2, 5, -1, -4, -9, FAR, -FAR])
def test_slices(start: int | None, end: int | None, step: int | None) -> None:
    want = X[:, :, start:end:step]
    check("slice", want, X, starts=(start,), ends=(end,), axes=(2,), steps=(step or 1,))


def test_slices_of_several_axes() -> None:
    check("slice", X[1:, :2], X, starts=(1, None), ends=(None, 2))
    check("slice", X[:, ::-1, 1:-1], X, starts=(1, None), ends=(-1, None), axes=(-1, 1), steps=(1, -1))
    refused("named twice", "slice", X, starts=(0, 0), ends=(1, 1), axes=(0, -3))
    refused("the step along axis 1", "slice", X, starts=(0,), ends=(1,), axes=(1,), steps=(0,))
    refused("1 starts, 2 ends", "slice", X, starts=(0,), ends=(1, 2))


def test_bounds_may_be_dims() -> None:
    n = dim("N", 2)
    b = GraphBuilder("g", [n])
    x = b.param("x", (n, 4), "float32")
    middle = b.op("slice", x, starts=(n - 2,), ends=(n - 1,), axes=(0,))
    graph = b.finish(middle)
    assert str(graph.results[0].type) == "float32[1, 4]"
    np.testing.assert_array_equal(interpret(graph, X[0].T), X[0].T[3:4])


def test_split() -> None:
    check("split", tuple(np.split(X, 2, 1)), X, dynamic=False, parts=2, axis=1)
    check("split", (X[:1], X[1:]), X, dynamic=False, parts=(1, 2))
    check("split", (X[..., :0], X), X, dynamic=False, parts=(0, 5), axis=-1)
    refused("do not add up", "split", X, parts=(1, 1))
    refused("is not divided by 2", "split", X, parts=2)
    refused("at least one part", "split", X, parts=0)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concatenation(axis: int) -> None:
    parts = [X, X + 1, X[:, :, :], X * 2, X - 3]
    check("concat", np.concatenate(parts, axis), *parts, axis=axis)
    check("stack", np.stack(parts, axis), *parts, axis=axis)


def test_concatenation_of_unlike_parts() -> None:
    parts = [floats(2, n) for n in (3, 0, 1, 7)]
    check("concat", np.concatenate(parts, 1), *parts, axis=1)
    check("concat", np.concatenate(parts[1:2], 1), parts[1], axis=1)
    check("concat", np.concatenate([X, integers(3, 4, 5)]), X, integers(3, 4, 5))
    refused("axis 0 of x.* and x.* differ", "concat", floats(2, 3), floats(4, 3), axis=1)
    refused("xs0 has 3 axes, xs1 has 2", "concat", X, floats(2, 3))
    refused("of no operands", "concat")
    refused("of no operands", "stack")
    refused("axis 1 of xs0 and xs1 differ", "stack", floats(2, 3), floats(2, 4))


def test_many_parts() -> None:
    parts = [floats(2, seed=n) for n in range(700)]
    np.testing.assert_array_equal(run("concat", *parts)[0], np.concatenate(parts))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize(
    "pads", [((1, 2), (0, 0), (3, 1)), ((0, 0), (2, 0), (0, 0)), ((2, 2), (3, 3), (4, 4))], ids=str
)
def test_padding(pads: tuple[tuple[int, int], ...], mode: str) -> None:
    check("pad", np.pad(X, pads, mode=mode), X, pads=pads, mode=mode)  # type: ignore[call-overload]


def test_padding_by_numbers_and_backwards() -> None:
    check("pad", np.pad(X, 1, constant_values=7), X, pads=((1, 1),) * 3, value=7)
    check("pad", np.pad(X[1:], ((0, 0), (0, 2), (0, 0))), X, dynamic=False, pads=((-1, 0), (0, 2), (0, 0)))
    check("pad", X[:, 1:-1], X, dynamic=False, pads=((0, 0), (-1, -1), (0, 0)))
    check("pad", np.pad(X[:0], ((2, 0), (0, 0), (0, 0))), X[:0], pads=((2, 0), (0, 0), (0, 0)))
    refused("pads are given for 1", "pad", X, pads=((1, 1),))
    refused("has the modes", "pad", X, pads=((1, 1),) * 3, mode="odd")


def test_numbers() -> None:
    check("full", np.full((2, 3), 2.5, np.float32), shape=(2, 3), value=2.5)
    check("full", np.full((), True), shape=(), value=True, dtype="bool")
    for start, stop, step in ((0, 10, 3), (10, 0, -3), (5, 5, 1), (5, 0, 1)):
        check("arange", np.arange(start, stop, step), start=start, stop=stop, step=step)
    check("arange", np.arange(0, 1, 0.25, np.float32), start=0, stop=1, step=0.25, dtype="float32")
    check("eye", np.eye(3, dtype=np.float32), rows=3)
    check("eye", np.eye(3, 4, -1, np.int32), rows=3, columns=4, k=-1, dtype="int32")
    refused("the step is 0", "arange", stop=3, step=0)


def test_ranges_of_dims() -> None:
    n = dim("N", 0, 9)
    b = GraphBuilder("g", [n])
    b.param("x", (n,), "float32")
    up, down = b.op("arange", stop=n), b.op("arange", start=n, stop=0, step=-2, dtype="float32")
    graph = b.finish((up, down))
    for size in (0, 1, 5):
        got = interpret(graph, np.zeros(size, np.float32))
        np.testing.assert_array_equal(got[0], np.arange(size))
        np.testing.assert_array_equal(got[1], np.arange(size, 0, -2))
