"""Reductions against NumPy: axes, extents of 0 and 1, dtypes, NaN and ties."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.graph.ops.checking import check, floats, integers, refused, run
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.reductions import axes_of

pytestmark = pytest.mark.by_day

AXES = [None, 0, -1, (0, 2), (1, -1), (0, 1, 2)]
SIMPLE = ["sum", "prod", "max", "min", "any", "all"]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("name", [*SIMPLE, "mean", "var", "std"])
def test_axes(name: str, axis: object, keepdims: bool) -> None:
    x = floats(3, 4, 5)
    check(name, getattr(np, name)(x, axis=axis, keepdims=keepdims), x, axis=axis, keepdims=keepdims)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "uint64", "float16", "float64"])
@pytest.mark.parametrize("name", [*SIMPLE, "mean"])
def test_dtypes(name: str, dtype: str) -> None:
    x = integers(4, 6, low=0, high=5, dtype=dtype)
    want = getattr(np, name)(x.astype(np.float64) if name == "mean" else x, axis=1)
    if name == "mean" and dtype == "float16":
        want = want.astype(dtype)
    check(name, want, x, axis=1)


@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (1,)])
@pytest.mark.parametrize("name", [*SIMPLE, "mean", "var"])
def test_extents_of_one(name: str, shape: tuple[int, ...]) -> None:
    x = floats(*shape)
    check(name, getattr(np, name)(x, axis=-1), x, axis=-1)


def test_nothing_is_the_identity() -> None:
    x = np.zeros((0, 3), np.float32)
    for name in ("sum", "prod", "any", "all"):
        check(name, getattr(np, name)(x, axis=0), x, axis=0)
    check("max", np.full(3, -np.inf, np.float32), x, axis=0)
    check("min", np.full(3, np.iinfo(np.int8).max, np.int8), x.astype(np.int8), axis=0)
    check("sum", np.zeros(0, np.float32), x, axis=1)
    refused("has no element along the axes", "argmax", x, axis=0)


def test_no_axes_leave_the_operand() -> None:
    x = floats(3, 4)
    check("sum", x, x, axis=())
    check("l2", np.abs(x), x, axis=())


def test_narrow_floats_are_added_in_float32() -> None:
    x = np.full(4096, 0.1, np.float16)
    check("sum", np.float16(x.astype(np.float32).sum()), x)
    y = x.astype(ml_dtypes.bfloat16)
    check("sum", y.astype(np.float32).sum().astype(ml_dtypes.bfloat16), y)
    check("mean", np.asarray(y.astype(np.float32).mean()).astype(ml_dtypes.bfloat16), y)


@pytest.mark.parametrize("name", ["max", "min"])
def test_a_nan_wins(name: str) -> None:
    for place in range(5):
        x = floats(5)
        x[place] = np.nan
        check(name, np.float32(np.nan), x)
        check(f"arg{name}", np.int64(place), x)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "float16"])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_ties_take_the_first_index(name: str, dtype: str, axis: int | None) -> None:
    x = integers(5, 6, low=0, high=3, dtype=dtype)
    check(name, getattr(np, name)(x, axis=axis), x, axis=axis)
    check(name, getattr(np, name)(x, axis=axis, keepdims=True), x, axis=axis, keepdims=True)


def test_ties_take_the_last_index_where_it_is_said() -> None:
    x = integers(5, 6, low=0, high=3)
    check("argmax", 5 - np.argmax(x[:, ::-1], axis=1), x, axis=1, last=True)
    check("argmin", 5 - np.argmin(x[:, ::-1], axis=1), x, axis=1, last=True)


def test_the_least_value_of_all_is_found_too() -> None:
    check("argmax", np.int64(0), np.full(3, -np.inf, np.float32))
    check("argmin", np.int64(0), np.full(3, 127, np.int8))
    check("max_with_index", (np.int32(7), np.int64(2)), np.array([1, 5, 7, 7], np.int32))


def test_dtype_of_a_sum() -> None:
    x = integers(3, 4, dtype="int8")
    check("sum", x.sum(axis=0, dtype=np.int8), x, axis=0, dtype="int8")
    check("prod", x.prod(axis=0, dtype=np.int32), x, axis=0, dtype="int32")


@pytest.mark.parametrize("axis", [None, 1, (0, 2)], ids=str)
def test_norms_and_logarithms(axis: object) -> None:
    x = floats(3, 4, 5)
    check("l1", np.abs(x).sum(axis=axis), x, axis=axis)
    check("l2", np.sqrt((x * x).sum(axis=axis)), x, axis=axis)
    check("sum_square", (x * x).sum(axis=axis), x, axis=axis)
    check("log_sum", np.log(np.abs(x).sum(axis=axis)), np.abs(x), axis=axis)
    check("logsumexp", np.log(np.exp(x).sum(axis=axis)), x, axis=axis)
    check("var", x.var(axis=axis, ddof=1), x, axis=axis, correction=1)


def test_logsumexp_stays_in_range() -> None:
    check("logsumexp", np.float32(1000 + np.log(2)), np.array([1000, 1000], np.float32))
    check("logsumexp", np.float32(-np.inf), np.array([-np.inf, -np.inf], np.float32))
    check("logsumexp", np.float32(np.inf), np.array([np.inf, 0], np.float32))


def test_axes_of() -> None:
    with pytest.raises(GraphError, match="x has 2 axes, there is no axis 2"):
        axes_of(2, 2, "x")
    with pytest.raises(GraphError, match="an axis is named twice"):
        axes_of((0, -2), 2, "x")
    with pytest.raises(GraphError, match="an axis is an integer"):
        axes_of((0.5,), 2, "x")  # type: ignore[arg-type]
    refused("sum: x has 2 axes, there is no axis 5", "sum", floats(2, 3), axis=5)


def test_a_number_of_dims() -> None:
    assert run("dim_value", value=6, dtype="float32")[0] == np.float32(6)
