"""The functions between layers against formulas of NumPy in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from tests.graph.ops.checking import check, floats, integers, refused

pytestmark = pytest.mark.by_day

Reference = Callable[[np.ndarray], np.ndarray]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0, x)


def normal(x: np.ndarray) -> np.ndarray:
    return np.vectorize(lambda v: 0.5 * (1 + math.erf(v / math.sqrt(2))), otypes=[np.float64])(x)


CASES: list[tuple[str, dict[str, object], Reference]] = [
    ("relu", {}, lambda x: np.maximum(x, 0)),
    ("leaky_relu", {"alpha": 0.3}, lambda x: np.where(x < 0, 0.3 * x, x)),
    ("elu", {"alpha": 1.5}, lambda x: np.where(x < 0, 1.5 * (np.exp(x) - 1), x)),
    ("selu", {}, lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(x) - 1))),
    ("celu", {"alpha": 2.0}, lambda x: np.maximum(0, x) + np.minimum(0, 2 * (np.exp(x / 2) - 1))),
    ("softplus", {}, softplus),
    ("softsign", {}, lambda x: x / (1 + np.abs(x))),
    ("hard_sigmoid", {"alpha": 0.25, "beta": 0.4}, lambda x: np.clip(0.25 * x + 0.4, 0, 1)),
    ("hard_swish", {}, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    ("swish", {"alpha": 1.7}, lambda x: x * sigmoid(1.7 * x)),
    ("silu", {}, lambda x: x * sigmoid(x)),
    ("mish", {}, lambda x: x * np.tanh(softplus(x))),
    ("gelu", {}, lambda x: x * normal(x)),
    (
        "gelu",
        {"approximate": "tanh"},
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    ("shrink", {"lambd": 0.7, "bias": 0.2}, lambda x: np.where(x < -0.7, x + 0.2, np.where(x > 0.7, x - 0.2, 0))),
    ("thresholded_relu", {"alpha": 0.6}, lambda x: np.where(x > 0.6, x, 0)),
]


@pytest.mark.parametrize("shape", [(3, 5), (1,), (0, 4), ()])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0])
def test_formula(case: tuple[str, dict[str, object], Reference], shape: tuple[int, ...]) -> None:
    name, attrs, reference = case
    x = floats(*shape) * 3
    check(name, reference(x.astype(np.float64)).astype(np.float32), np.asarray(x, np.float32), **attrs)


@pytest.mark.parametrize("dtype", ["float16", "float64", ml_dtypes.bfloat16])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0])
def test_dtypes(case: tuple[str, dict[str, object], Reference], dtype: str) -> None:
    name, attrs, reference = case
    x = (floats(6, 4) * 2).astype(dtype)
    want = reference(x.astype(np.float64)).astype(dtype)
    near = 1e-6 if want.dtype == np.float64 else None  # constants such as alpha are of the operand's dtype
    check(name, want, x, rtol=near, **attrs)


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "elu", "softplus", "hard_sigmoid", "gelu", "mish", "silu"])
def test_a_nan_stays(name: str) -> None:
    check(name, np.array([np.nan], np.float32), np.array([np.nan], np.float32))


def test_softplus_of_large_numbers() -> None:
    check("softplus", np.array([1000, 0], np.float32), np.array([1000, -1000], np.float32))


def test_relu_of_integers() -> None:
    x = integers(3, 4)
    check("relu", np.maximum(x, 0), x)


def test_prelu() -> None:
    x, slope = floats(2, 3, 4), floats(3, 1, seed=1)
    check("prelu", np.where(x < 0, x * slope, x), x, slope)
    refused("a slope of shape", "prelu", slope, x)


def test_refusals() -> None:
    refused("elu takes floats, got x of int32", "elu", integers(3))
    refused("approximated by", "gelu", floats(3), approximate="erf")
