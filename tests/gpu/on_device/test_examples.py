"""The examples on a real GPU, small and at the sizes they are made for, against NumPy in wider types."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from examples.gpu import (
    copy,
    flash_attention,
    histogram,
    layer_norm,
    matmul_bf16,
    matmul_f32,
    matmul_hopper,
    prefix_sum,
    reduction,
    softmax,
    stencil,
    transpose,
    vector_add,
)
from tests.gpu.on_device.device import built, called, needs_a_device, needs_hopper
from tests.gpu.test_examples_simt import CASES
from tests.gpu.test_examples_tensor_cores import BF16, HALF_UNIT, check_product, random_bf16

pytestmark = needs_a_device

RNG = np.random.default_rng(11)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape, dtype=np.float32)


def unwritten(*shape: int) -> np.ndarray[Any, Any]:
    """A result before it is one: an element that is not written stays no number."""
    return np.full(shape, np.nan, np.float32)


@pytest.mark.parametrize("name", CASES)
def test_small(name: str) -> None:
    case = CASES[name]()
    arguments = [argument.copy() for argument in case.args]
    called(built(case.func), arguments)
    np.testing.assert_allclose(arguments[-1], case.expected, rtol=case.rtol, atol=case.atol)
    for argument, before in zip(arguments[:-1], case.args[:-1], strict=True):
        np.testing.assert_array_equal(argument, before)


@pytest.mark.parametrize("n", [4, 1020, 1024, 1028, 10_000_004])
@pytest.mark.parametrize("make", [vector_add.vector_add, vector_add.vector_add_blocks])
def test_vector_add(make: Any, n: int) -> None:
    a, b, c = floats(n), floats(n), unwritten(n)
    called(built(make(n)), [a, b, c])
    np.testing.assert_array_equal(c, a + b)


@pytest.mark.parametrize("n", [4, 4096, 10_000_004])
def test_copy(n: int) -> None:
    a, b = floats(n), unwritten(n)
    called(built(copy.copy(n)), [a, b])
    np.testing.assert_array_equal(b, a)


@pytest.mark.parametrize("shape", [(64, 64), (4096, 64), (1024, 3200)])
def test_transpose(shape: tuple[int, int]) -> None:
    a, b = floats(*shape), unwritten(*shape[::-1])
    called(built(transpose.transpose(*shape)), [a, b])
    np.testing.assert_array_equal(b, a.T)


@pytest.mark.parametrize("shape", [(128, 128, 16), (128, 256, 272), (512, 384, 1024)])
def test_matmul_f32(shape: tuple[int, int, int]) -> None:
    M, N, K = shape
    a, b, c = floats(M, K), floats(K, N), unwritten(M, N)
    called(built(matmul_f32.matmul(M, N, K)), [a, b, c])
    wide = a.astype(np.float64), b.astype(np.float64)
    bound = K * np.finfo(np.float32).eps * (abs(wide[0]) @ abs(wide[1]))
    assert (abs(c - wide[0] @ wide[1]) <= bound).all()


@pytest.mark.parametrize("shape", [(1, 1024), (500, 16384)])
def test_softmax(shape: tuple[int, int]) -> None:
    x, y = floats(*shape) * 20, unwritten(*shape)
    called(built(softmax.softmax(*shape)), [x, y])
    np.testing.assert_allclose(y, softmax.reference(x), rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize("shape", [(1, 1024), (500, 16384)])
def test_layer_norm(shape: tuple[int, int]) -> None:
    x, g, b, y = floats(*shape) * 3 + 5, floats(shape[1]), floats(shape[1]), unwritten(*shape)
    called(built(layer_norm.layer_norm(*shape)), [x, g, b, y])
    np.testing.assert_allclose(y, layer_norm.reference(x, g, b), rtol=3e-5, atol=3e-5)


def test_reduction() -> None:
    a, total = floats(10_000_000), unwritten(1)
    called(built(reduction.reduction(10_000_000)), [a, total])
    np.testing.assert_allclose(total, a.sum(dtype=np.float64, keepdims=True), atol=10_000_000 * 2.0**-24)


def test_prefix_sum() -> None:
    a = RNG.integers(-1000, 1000, 300 * 4096).astype(np.int32)
    b = np.zeros_like(a)
    called(built(prefix_sum.prefix_sum(a.size)), [a, b])
    np.testing.assert_array_equal(b, np.cumsum(a, dtype=np.int32))


def test_histogram() -> None:
    data = RNG.integers(0, 256, 16_000_000).astype(np.uint8)
    data[:5_000_000] = 7
    counts = np.zeros(256, np.int32)
    called(built(histogram.histogram(data.size)), [data, counts])
    np.testing.assert_array_equal(counts, np.bincount(data, minlength=256))


def test_stencil() -> None:
    a, b = floats(1024, 2048), np.zeros((1024, 2048), np.float32)
    called(built(stencil.jacobi(1024, 2048)), [a, b])
    np.testing.assert_allclose(b, stencil.reference(a), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "tile"),
    [
        ((128, 128, 160), {}),
        ((1, 8, 8), {}),
        ((49, 72, 72), {"BM": 32, "BN": 64, "warps": (1, 2)}),
        ((32, 64, 200), {"BM": 32, "BN": 64, "BK": 64, "warps": (2, 2), "stages": 4, "out": "bfloat16"}),
        ((1024, 1024, 1024), {}),
        ((1000, 1000, 1000), {"warps": (2, 4), "out": "bfloat16"}),
    ],
)
def test_matmul_bf16(shape: tuple[int, int, int], tile: dict[str, Any]) -> None:
    M, N, K = shape
    a, b = random_bf16(M + N + K, (M, K), (K, N))
    c = np.full((M, N), np.nan, BF16 if tile.get("out") else np.float32)
    called(built(matmul_bf16.tensor_core_matmul(M, N, K, **tile)), [a, b, c])
    check_product(c, a, b)


@needs_hopper
@pytest.mark.parametrize(
    ("shape", "tile"),
    [
        ((128, 256, 512), {}),
        ((1, 2, 8), {}),
        ((70, 40, 136), {"BM": 64, "BN": 32, "stages": 2, "out": "bfloat16"}),
        ((64, 16, 64), {"BM": 64, "BN": 16}),
        ((1024, 1024, 1024), {}),
        ((1001, 998, 1000), {}),
        # Stored as tiles: whole ones, and partial ones.
        ((1024, 1024, 1024), {"out": "bfloat16"}),
        ((1001, 1000, 1000), {"out": "bfloat16"}),
    ],
)
def test_matmul_hopper(shape: tuple[int, int, int], tile: dict[str, Any]) -> None:
    M, N, K = shape
    a, b = random_bf16(M + N + K, (M, K), (N, K))
    c = np.full((M, N), np.nan, BF16 if tile.get("out") else np.float32)
    called(built(matmul_hopper.hopper_matmul(M, N, K, **tile)), [a, b, c])
    check_product(c, a, b.T)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("heads", "length", "tile"),
    [
        (1, 128, {}),
        (2, 80, {"warps": 2, "BK": 32, "out": "float32"}),
        (1, 1, {}),
        (4, 1000, {}),
    ],
)
def test_flash_attention(heads: int, length: int, tile: dict[str, Any], causal: bool) -> None:
    q, k, v = random_bf16(length, *[(heads, length, flash_attention.D)] * 3)
    k *= BF16(4)
    o = np.full(q.shape, np.nan, tile.get("out", BF16))
    called(built(flash_attention.flash_attention(heads, length, causal=causal, **tile)), [q, k, v, o])
    expected = flash_attention.reference(q, k, v, causal)
    bound = 1.125 * HALF_UNIT * flash_attention.reference(q, k, abs(v), causal)
    if o.dtype == BF16:
        bound += HALF_UNIT * (abs(expected) + bound)
    assert (abs(o.astype(np.float64) - expected) <= bound).all()


@pytest.mark.parametrize(
    "name",
    [
        "copy",
        "flash_attention",
        "histogram",
        "layer_norm",
        "matmul_bf16",
        "matmul_f32",
        "prefix_sum",
        "reduction",
        "softmax",
    ]
    + ["stencil", "transpose", "vector_add", pytest.param("matmul_hopper", marks=needs_hopper)],
)
def test_main(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    importlib.import_module(f"examples.gpu.{name}").main()
    said = capsys.readouterr().out
    assert "agrees with NumPy" in said
    assert "in the simulator" not in said
