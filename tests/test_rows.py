"""The rows of the bench: naive programs that compute what the kernels by hand do, and the table."""

from __future__ import annotations

import numpy as np
import pytest

import bench.by_hand
import tirlower as tl
from bench.by_hand import elementwise, stencil
from bench.by_hand.jacobi import in_numpy
from bench.rows.naive import (
    NAIVE,
    attention,
    batched,
    bias_gelu_residual,
    blur,
    convolution,
    depthwise,
    layer_norm,
    product,
    rms_norm,
    row_sum,
    softmax,
    transpose,
)
from bench.rows.report import Row, report, rows_of, table
from bench.rows.sweeps import histogram, jacobi

X, Y = np.random.default_rng(0).standard_normal((2, 9, 9), dtype=np.float32)


def test_every_row_is_one_by_hand():
    assert set(NAIVE) <= set(bench.by_hand.cases([]))
    assert set(rows_of(["product"])) >= {"product float32 512³", "product int8 1024³"}


@pytest.mark.parametrize("form", ["block", "plain", "local"])
def test_products_are_numpys(form: str):
    out = np.empty((9, 9), np.float32)
    tl.interpret(product(form, 9, 9, 9), X, Y, out)
    np.testing.assert_allclose(out, X @ Y, rtol=1e-5, atol=1e-5)


def test_the_others_are_numpys():
    out = np.empty((1, 9, 9), np.float32)
    tl.interpret(batched("block", 1, 9), X[None], Y[None], out)
    np.testing.assert_allclose(out[0], X @ Y, rtol=1e-5, atol=1e-5)
    out = np.empty((9, 9), np.float32)
    tl.interpret(transpose("plain", 9), X, out)
    assert (out == X.T).all()
    tl.interpret(softmax("block", 9, 9), X, out)
    powers = np.exp(X - X.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out, powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)
    tl.interpret(bias_gelu_residual("plain", 9, 9), X, Y[0], Y, out)
    total = X.astype(np.float64) + Y[0]
    np.testing.assert_allclose(out, total * 0.5 * (1 + elementwise.erf(total / np.sqrt(2))) + Y, atol=1e-5)


@pytest.mark.parametrize("form", ["block", "plain"])
def test_rows_are_numpys(form: str):
    out, sums = np.empty((9, 9), np.float32), np.empty(9, np.float32)
    tl.interpret(softmax(form, 9, 9), X, out)
    powers = np.exp(X - X.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out, powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)
    tl.interpret(row_sum(form, 9, 9), X, sums)
    np.testing.assert_allclose(sums, X.sum(axis=1), atol=1e-5)


def test_norms_and_the_blur_are_numpys():
    out = np.empty((9, 9), np.float32)
    centred = X - X.mean(axis=1, keepdims=True)
    tl.interpret(layer_norm("block", 9, 9), X, Y[0], Y[1], out)
    wanted = centred / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + 1e-5) * Y[0] + Y[1]
    np.testing.assert_allclose(out, wanted, atol=1e-5)
    tl.interpret(rms_norm("block", 9, 9), X, Y[0], out)
    np.testing.assert_allclose(out, X / np.sqrt((X * X).mean(axis=1, keepdims=True) + 1e-5) * Y[0], atol=1e-5)
    small = np.empty((7, 7), np.float32)
    tl.interpret(blur("plain", 7, 7), X, small)
    np.testing.assert_allclose(small, stencil.formula(np, X), atol=1e-5)


def test_attention_is_numpys():
    q, k, v = np.random.default_rng(1).standard_normal((3, 2, 5, 4), dtype=np.float32)
    out = np.empty((2, 5, 4), np.float32)
    tl.interpret(attention("block", 2, 5, 5, 4), q, k, v, out)
    powers = np.exp(q @ k.swapaxes(1, 2) / 2)
    np.testing.assert_allclose(out, powers / powers.sum(axis=2, keepdims=True) @ v, rtol=1e-4, atol=1e-5)


def test_sweeps_are_numpys():
    data, counts = np.random.default_rng(2).integers(0, 256, 70).astype(np.uint8), np.empty(256, np.int32)
    tl.interpret(histogram("plain", 70), data, counts)
    assert (counts == np.bincount(data, minlength=256)).all()
    out = np.empty((9, 9), np.float32)
    tl.interpret(jacobi("plain", 9, 4), X, out)
    np.testing.assert_allclose(out, in_numpy(X, 4), rtol=1e-5, atol=1e-6)


def test_both_forms_of_a_convolution_are_one():
    x, w = X[:5, :5, None], np.ascontiguousarray(Y.ravel()[:18].reshape(3, 3, 1, 2))
    one, other, third = (
        np.empty((3, 3, 2), np.float32),
        np.empty((3, 3, 2), np.float32),
        np.empty((1, 3, 3), np.float32),
    )
    x = np.ascontiguousarray(x)
    tl.interpret(convolution("block", 3, 1, 2), x, w, one)
    tl.interpret(convolution("local", 3, 1, 2), x, w, other)
    assert one.tobytes() == other.tobytes()
    tl.interpret(depthwise("local", 1, 3), np.ascontiguousarray(x[None, :, :, 0]), w[None, :, :, 0, 0].copy(), third)
    np.testing.assert_allclose(third[0], one[:, :, 0], rtol=1e-5)


def test_the_table():
    row: Row = {
        "recipe": "contraction", "exactness": "bitwise equal", "none": 1.0, "auto": 0.01, "hand": 0.02,
        "peers": {"numpy": 0.02, "numba": 0.04}, "build": 0.1,
    }  # fmt: skip
    other: Row = {**row, "recipe": "", "exactness": "equal up to", "auto": 0.08, "peers": {}}
    lines = table({"one": row, "two": other}).splitlines()
    assert "| contraction | 1 s | 10 ms | 20 ms (0.50) | numpy 20 ms (0.50) | 100 ms |" in lines[2]
    assert "| as written, reassociated |" in lines[3] and "| – |" in lines[3]
    assert lines[-1] == "geometric mean of auto / best peer: 0.50; the largest 0.50"
    with pytest.raises(SystemExit, match="no row is named nothing"):
        report(["nothing"])
