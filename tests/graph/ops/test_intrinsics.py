"""Nodes and intrinsics on arrays against Python's numbers."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from tirlower.graph.ops.intrinsics import computed
from tirlower.interp.intrinsics_math import FLOAT_FUNCTIONS
from tirlower.ir.intrinsics.arithmetic import BINARY_MATH, UNARY_MATH

pytestmark = pytest.mark.by_day


@pytest.mark.parametrize("name", [n for n in UNARY_MATH if n not in ("exp10", "round")])
def test_functions_of_one_number(name: str) -> None:
    x = np.array([0.25, 0.5, -0.75, 0.0, 1.0, 2.5, -3.5, math.inf, math.nan])
    with np.errstate(all="ignore"):
        got = computed(f"tir.{name}", [x])
        want = [float(FLOAT_FUNCTIONS[name](v)) for v in x.tolist()]
    assert got is not None
    np.testing.assert_allclose(got, want, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("name", [n for n in BINARY_MATH if n != "nextafter"])
def test_functions_of_two_numbers(name: str) -> None:
    x, y = np.array([0.25, 2.5, 3.0, -2.0]), np.array([2.0, 1.5, -1.0, 3.0])
    got = computed(f"tir.{name}", [x, y])
    assert got is not None
    np.testing.assert_allclose(got, [float(FLOAT_FUNCTIONS[name](a, b)) for a, b in zip(x, y, strict=True)], rtol=1e-15)


def test_division_of_integers_truncates() -> None:
    a, b = np.array([7, -7, 7, -7, 5], np.int32), np.array([2, 2, -2, -2, 0], np.int32)
    with np.errstate(all="ignore"):
        assert computed("Div", [a, b])[:4].tolist() == [3, -3, -3, 3]  # type: ignore[index]
        assert computed("Mod", [a, b])[:4].tolist() == [1, -1, 1, -1]  # type: ignore[index]
        assert computed("FloorDiv", [a, b])[:4].tolist() == [3, -4, -4, 3]  # type: ignore[index]


def test_extremes_are_the_numbers() -> None:
    a, b = np.array([math.nan, 1.0]), np.array([2.0, math.nan])
    assert computed("Max", [a, b]).tolist() == computed("Min", [a, b]).tolist() == [2.0, 1.0]  # type: ignore[union-attr]


def test_narrow_floats_are_computed_in_float32() -> None:
    x = np.array([0.1, 1.7, 3.3], ml_dtypes.bfloat16)
    got = computed("tir.exp", [x])
    assert got is not None and got.dtype == x.dtype
    np.testing.assert_array_equal(got, np.exp(x.astype(np.float32)).astype(x.dtype))


def test_what_is_not_known_is_none() -> None:
    assert computed("tir.call_extern", [np.zeros(2)]) is None
    assert computed("tir.exp", [np.zeros(2)] * 3) is None
