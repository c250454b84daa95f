"""Softmax and normalizations against their formulas."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.graph.ops.checking import check, floats, integers, refused

pytestmark = pytest.mark.by_day

X = floats(2, 6, 4, 5)


def softmax(x: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def standard(x: np.ndarray, axes: tuple[int, ...], epsilon: float) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


@pytest.mark.parametrize("axis", [-1, 0, 1, (1, 2)], ids=str)
def test_softmax(axis: int | tuple[int, ...]) -> None:
    check("softmax", softmax(X, axis), X, axis=axis)
    check("log_softmax", np.log(softmax(X, axis)), X, axis=axis)


def test_softmax_of_extremes() -> None:
    x = np.array([[1000, 1000], [-1000, 0], [-np.inf, 3]], np.float32)
    check("softmax", np.array([[0.5, 0.5], [0, 1], [0, 1]], np.float32), x)
    check("log_softmax", np.array([[-np.log(2), -np.log(2)], [-1000, 0], [-np.inf, 0]], np.float32), x)
    check("softmax", np.ones((3, 1), np.float32), floats(3, 1))
    check("softmax", np.zeros((0, 4), np.float32), floats(0, 4))


@pytest.mark.parametrize("dtype", ["float16", "float64", ml_dtypes.bfloat16])
def test_dtypes(dtype: str) -> None:
    x = X.astype(dtype)
    wide = x.astype(np.float64)
    check("softmax", softmax(wide, -1).astype(dtype), x)
    check("layer_norm", standard(wide, (3,), 1e-5).astype(dtype), x)


def test_hardmax() -> None:
    x = integers(4, 5, low=0, high=3, dtype="float32")
    want = (np.arange(5) == x.argmax(1)[:, None]).astype(np.float32)
    check("hardmax", want, x)
    check("hardmax", (np.arange(4)[:, None] == x.argmax(0)).astype(np.float32), x, axis=0)


def test_batch_norm() -> None:
    scale, bias, mean = (floats(6, seed=n) for n in range(3))
    var = np.abs(floats(6, seed=4))
    c = (slice(None), None, None)
    want = (X - mean[c]) / np.sqrt(var[c] + 1e-3) * scale[c] + bias[c]
    check("batch_norm", want, X, scale, bias, mean, var, epsilon=1e-3, rtol=1e-4)
    check("batch_norm", want[:, :, 0, 0], X[:, :, 0, 0], scale, bias, mean, var, epsilon=1e-3, rtol=1e-4)
    refused("the channels of x and bias differ: 6 and 4", "batch_norm", X, scale, bias[:4], mean, var)
    refused("mean has one axis", "batch_norm", X, scale, bias, X, var)


@pytest.mark.parametrize("axis", [-1, 2, 1])
def test_layer_and_rms_norm(axis: int) -> None:
    axes = tuple(range(axis % 4, 4))
    scale, bias = floats(*X.shape[axis % 4 :], seed=1), floats(*X.shape[axis % 4 :], seed=2)
    check("layer_norm", standard(X, axes, 1e-5) * scale + bias, X, scale, bias, axis=axis)
    check("layer_norm", standard(X, axes, 1e-5) + bias, X, None, bias, axis=axis)
    rms = X / np.sqrt((X * X).mean(axes, keepdims=True) + 1e-6)
    check("rms_norm", rms * scale, X, scale, axis=axis, epsilon=1e-6)
    check("rms_norm", rms, X, axis=axis, epsilon=1e-6)


def test_norms_of_channels() -> None:
    scale, bias = floats(6, seed=1), floats(6, seed=2)
    c = (slice(None), None, None)
    check("instance_norm", standard(X, (2, 3), 1e-3) * scale[c] + bias[c], X, scale, bias, epsilon=1e-3)
    check("instance_norm", standard(X, (2, 3), 1e-5), X)
    grouped = standard(X.reshape(2, 3, 2, 4, 5), (2, 3, 4), 1e-5).reshape(X.shape)
    check("group_norm", grouped * scale[c] + bias[c], X, scale, bias, groups=3, fixed={6})
    check("mean_variance_norm", standard(X, (0, 2, 3), 0), X)
    refused("are not divided by 4 groups", "group_norm", X, groups=4)
    refused("instance_norm takes", "instance_norm", floats(2, 3))


def test_norms_of_neighbours() -> None:
    for size in (1, 2, 3, 5):
        want = np.empty_like(X)
        for c in range(6):
            around = X[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1]
            want[:, c] = X[:, c] / (1.5 + 0.2 / size * (around**2).sum(1)) ** 0.6
        check("lrn", want, X, size=size, alpha=0.2, beta=0.6, bias=1.5)


def test_lp_norm() -> None:
    x = X.copy()
    x[0, :, 0, 0] = 0
    for p in (1, 2):
        size = (np.abs(x) ** p).sum(1, keepdims=True) ** np.float32(1 / p)
        check("lp_norm", np.where(size == 0, 0, x / np.where(size == 0, 1, size)), x, axis=1, p=p)
    refused("the 1-norm or the 2-norm, got p=3", "lp_norm", x, p=3)


def test_integers_are_refused() -> None:
    for name in ("softmax", "log_softmax", "layer_norm", "rms_norm", "lp_norm"):
        refused(f"{name} takes floats, got x0 of int32", name, integers(2, 3))
