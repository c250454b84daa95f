"""Moved elements against NumPy's views."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph.ops.checking import check, floats, integers, refused
from tirlower.graph.core.dims import dim
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.ops.interpret import interpret

pytestmark = pytest.mark.by_day

X = floats(3, 4, 5)
B = dim("B", 1, 64)


@pytest.mark.parametrize(
    "shape",
    [(60,), (4, 15), (3, -1), (-1, 5), (12, 5), (5, 12), (2, 2, 3, 5), (1, 3, 1, 4, 5, 1), (2, 15, 2), (3, 2, 2, 5)],
    ids=str,
)
def test_reshape(shape: tuple[int, ...]) -> None:
    check("reshape", X.reshape(shape), X, dynamic=False, shape=shape)


@pytest.mark.parametrize(
    ("have", "want"), [((0, 3), (3, 0)), ((0, 3), (0, 5, 2)), ((), (1, 1)), ((1,), ()), ((4,), (-1,))]
)
def test_reshape_of_little(have: tuple[int, ...], want: tuple[int, ...]) -> None:
    x = floats(*have)
    check("reshape", np.reshape(x, want), np.asarray(x, np.float32), shape=want)


@pytest.mark.parametrize(
    ("shape", "static", "text"),
    [
        ((B, -1), (3, 20), "B, 20"),
        ((-1, 5), (12, 5), "B * 4, 5"),
        ((B * 4, 5), (12, 5), "B * 4, 5"),
        ((2, B, -1), (2, 3, 10), "2, B, 10"),
        ((-1,), (60,), "B * 20"),
        ((-1, B), (20, 3), "20, B"),
        ((5, B, 4), (5, 3, 4), "5, B, 4"),
    ],
    ids=str,
)
def test_reshape_with_a_dim(shape: object, static: tuple[int, ...], text: str) -> None:
    b = GraphBuilder("g", [B])
    x = b.param("x", (B, 4, 5), "float32")
    graph = b.finish(b.op("reshape", x, shape=shape))
    assert str(graph.results[0].type) == f"float32[{text}]"
    assert not graph.assumed
    np.testing.assert_array_equal(interpret(graph, X), X.reshape(static))


def test_a_reshape_back_is_the_operand() -> None:
    b = GraphBuilder("g", [B])
    x = b.param("x", (B, 4, 5), "float32")
    flat = b.op("reshape", x, shape=(-1, 5))
    np.testing.assert_array_equal(interpret(b.finish(b.op("reshape", flat, shape=(B, 4, 5))), X), X)


def test_reshape_is_refused_where_elements_are_lost() -> None:
    refused("changes the number of elements", "reshape", X, shape=(7, 8))
    refused("60 elements are not divided by 7", "reshape", X, shape=(7, -1))
    refused("one extent at most is -1", "reshape", X, shape=(-1, -1))
    refused("an extent is at least 0", "reshape", X, shape=(-2, 5))


def test_transpose() -> None:
    check("transpose", X.T, X)
    check("transpose", X.transpose(1, 0, 2), X, axes=(1, 0, -1))
    check("transpose", np.float32(2), np.float32(2), axes=())
    refused("does not name each axis", "transpose", X, axes=(0, 0, 1))
    refused("x has 3 axes, there is no axis 3", "transpose", X, axes=(0, 1, 3))


def test_unit_axes() -> None:
    one = floats(1, 3, 1)
    check("squeeze", one[0, :, 0], one)
    check("squeeze", one[0], one, axis=0)
    check("squeeze", one[0, :, 0], one, axis=(0, -1))
    check("expand_dims", X[None, ..., None], X, axis=(0, -1))
    check("expand_dims", X[:, None], X, axis=1)
    refused("axis 1 of x has not the extent 1", "squeeze", one, axis=1)


def test_broadcasting() -> None:
    check("broadcast_to", np.broadcast_to(X[:, :1], (2, 3, 4, 5)), X[:, :1], dynamic=False, shape=(2, 3, 4, 5))
    check("expand", np.broadcast_to(X, (2, 3, 4, 5)), X, shape=(2, 1, 1, 1))
    refused("is not broadcast to", "broadcast_to", X, shape=(3, 4, 1))
    refused("cannot be broadcast", "broadcast_to", X, shape=(3, 4, 6))


@pytest.mark.parametrize("axis", [None, 0, (0, 2), -1], ids=str)
def test_flip(axis: object) -> None:
    check("flip", np.flip(X, axis), X, axis=axis)


def test_roll() -> None:
    check("roll", np.roll(X, 2, 1), X, shift=2, axis=1)
    check("roll", np.roll(X, (7, -2), (0, 2)), X, shift=(7, -2), axis=(0, 2))
    check("roll", np.roll(X, 3, 0), X, shift=(1, 2), axis=(0, 0))
    refused("roll along no axis", "roll", X, shift=1)
    refused("2 axes and 1 shifts", "roll", X, shift=(1,), axis=(0, 1))


def test_repetition() -> None:
    check("tile", np.tile(X, (2, 1, 3)), X, repeats=(2, 1, 3))
    check("tile", np.tile(X, (2, 1, 1, 1)), X, repeats=(2, 1, 1, 1))
    check("tile", np.tile(X, 2), X, repeats=2)
    check("tile", np.tile(X, (0, 1, 1)), X, repeats=(0, 1, 1))
    check("repeat", np.repeat(X, 3, 1), X, repeats=3, axis=1)
    check("repeat", np.repeat(X, 0, 1), X, repeats=0, axis=1)
    refused("repeats is at least 0", "repeat", X, repeats=-1, axis=0)


@pytest.mark.parametrize("k", [-2, 0, 1])
def test_triangles(k: int) -> None:
    check("trilu", np.triu(X, k), X, k=k)
    check("trilu", np.tril(X, k), X, k=k, upper=False)
    refused("takes matrices", "trilu", floats(3))


def test_channels_and_pixels() -> None:
    x = integers(2, 8, 3, 4)
    deep = x.reshape(2, 2, 2, 2, 3, 4).transpose(0, 3, 4, 1, 5, 2).reshape(2, 2, 6, 8)
    check("depth_to_space", deep, x, dynamic=False, block=2)
    inner = x.reshape(2, 2, 2, 2, 3, 4).transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 6, 8)
    check("depth_to_space", inner, x, dynamic=False, block=2, mode="CRD")
    check("space_to_depth", x, deep, dynamic=False, block=2)
    refused("not divided by 9", "depth_to_space", x, block=3)
    refused("has the modes DCR and CRD", "depth_to_space", x, block=2, mode="ABC")
