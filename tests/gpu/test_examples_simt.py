"""The SIMT examples: simulated as they are written and as they are lowered, against NumPy in float64."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import tirlower as tl
from examples.gpu import (
    copy,
    histogram,
    layer_norm,
    matmul_f32,
    prefix_sum,
    reduction,
    softmax,
    stencil,
    transpose,
    vector_add,
)
from tirlower.ir import PrimFunc

TARGET = "nvptx -arch=sm_80"


class Case(NamedTuple):
    """An example at a small size: its function, arguments (the last one is the result), and what that should be."""

    func: PrimFunc
    args: list[np.ndarray]
    expected: np.ndarray
    rtol: float = 0.0
    atol: float = 0.0
    written: bool = True
    """Whether it runs as it is written; reductions of blocks over threads are lowered first."""


def _floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


def _add(make: Callable[[int], PrimFunc]) -> Case:
    a, b = _floats(1300), _floats(1300)[::-1].copy()
    return Case(make(1300), [a, b, np.zeros_like(a)], a + b)


def _transpose() -> Case:
    a = _floats(64, 128)
    return Case(transpose.transpose(64, 128), [a, np.zeros((128, 64), np.float32)], a.T)


def _copy() -> Case:
    a = _floats(1300)
    return Case(copy.copy(1300, threads=128), [a, np.zeros_like(a)], a)


def _matmul() -> Case:
    a, b = _floats(32, 24), _floats(24, 32)
    func = matmul_f32.matmul(32, 32, 24, BM=16, BN=32, BK=8, TM=4, TN=4)
    return Case(func, [a, b, np.zeros((32, 32), np.float32)], a.astype(np.float64) @ b, 1e-5, 1e-5)


def _wide_matmul() -> Case:
    a, b = _floats(32, 8), _floats(8, 64)
    func = matmul_f32.matmul(32, 64, 8, BM=32, BN=64, BK=4, TM=8, TN=8)
    return Case(func, [a, b, np.zeros((32, 64), np.float32)], a.astype(np.float64) @ b, 1e-5, 1e-5)


def _softmax() -> Case:
    x = _floats(2, 512) * 20
    return Case(softmax.softmax(2, 512, threads=64), [x, np.zeros_like(x)], softmax.reference(x), 1e-5, 1e-30)


def _softmax_blocks() -> Case:
    x = _floats(2, 192) * 20
    func = softmax.softmax_blocks(2, 192, threads=64)
    return Case(func, [x, np.zeros_like(x)], softmax.reference(x), 1e-5, 1e-30, written=False)


def _layer_norm() -> Case:
    x, g, b = _floats(2, 256) * 3 + 5, _floats(256), _floats(256)[::-1].copy()
    func = layer_norm.layer_norm(2, 256, threads=64)
    return Case(func, [x, g, b, np.zeros_like(x)], layer_norm.reference(x, g, b), 2e-5, 2e-5)


def _reduction() -> Case:
    a = _floats(1900)
    func = reduction.reduction(1900, blocks=3, threads=64)
    return Case(func, [a, np.zeros(1, np.float32)], a.astype(np.float64).sum(keepdims=True), 1e-5, 1e-4)


def _prefix_sum() -> Case:
    a = np.random.default_rng(0).integers(-1000, 1000, 5 * 64 * 8).astype(np.int32)
    return Case(prefix_sum.prefix_sum(a.size, threads=64, items=8), [a, np.zeros_like(a)], np.cumsum(a))


def _many_tiles() -> Case:
    a = (
        np.random.default_rng(1).integers(-9, 9, 40 * 32 * 4).astype(np.int32)
    )  # more tiles than a step of the scan has threads
    return Case(prefix_sum.prefix_sum(a.size, threads=32, items=4), [a, np.zeros_like(a)], np.cumsum(a))


def _histogram() -> Case:
    data = np.random.default_rng(0).integers(0, 256, 1600).astype(np.uint8)
    data[:400] = 7  # many threads count into one bin
    func = histogram.histogram(1600, blocks=2, threads=64)
    return Case(func, [data, np.zeros(256, np.int32)], np.bincount(data, minlength=256))


def _stencil() -> Case:
    a = _floats(32, 64)
    return Case(stencil.jacobi(32, 64, TH=16, TW=32), [a, np.zeros_like(a)], stencil.reference(a), 1e-6, 1e-6)


CASES: dict[str, Callable[[], Case]] = {
    "vector_add": lambda: _add(vector_add.vector_add),
    "vector_add_blocks": lambda: _add(vector_add.vector_add_blocks),
    "copy": _copy,
    "transpose": _transpose,
    "matmul": _matmul,
    "matmul of one step": _wide_matmul,
    "softmax": _softmax,
    "softmax_blocks": _softmax_blocks,
    "layer_norm": _layer_norm,
    "reduction": _reduction,
    "prefix_sum": _prefix_sum,
    "prefix_sum of many tiles": _many_tiles,
    "histogram": _histogram,
    "stencil": _stencil,
}


def simulated(case: Case, program: Any, seed: int | None) -> None:
    args = [arg.copy() for arg in case.args]
    tl.simulate(program, *args, seed=seed)
    np.testing.assert_allclose(args[-1], case.expected, rtol=case.rtol, atol=case.atol)
    for arg, before in zip(args[:-1], case.args[:-1], strict=True):
        np.testing.assert_array_equal(arg, before)


@pytest.mark.parametrize("name", [name for name, make in CASES.items() if make().written])
@pytest.mark.by_day
def test_as_it_is_written(name: str) -> None:
    case = CASES[name]()
    simulated(case, case.func, None)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.by_day
def test_as_it_is_lowered(name: str) -> None:
    case = CASES[name]()
    simulated(case, tl.lower(case.func, target=TARGET), 1)


@pytest.mark.parametrize(
    "name",
    ["transpose", "matmul of one step", "softmax", "layer_norm", "reduction", "prefix_sum of many tiles", "stencil"],
)
def test_its_own_barriers_are_enough_and_needed(name: str) -> None:
    """ThreadSync finds nothing to add to what is written, and the simulator a race without a barrier of its."""
    case = CASES[name]()
    assert tl.transforms.ThreadSync("shared")(case.func) is case.func
    lines = case.func.script().splitlines()
    for at in [at for at, line in enumerate(lines) if "tvm_storage_sync" in line]:
        with pytest.raises(tl.InterpreterError, match="data race"):
            simulated(case, tl.script.parse("\n".join(lines[:at] + lines[at + 1 :])), None)


@pytest.mark.parametrize(
    "name",
    [
        "copy",
        "vector_add",
        "transpose",
        "matmul_f32",
        "softmax",
        "layer_norm",
        "reduction",
        "prefix_sum",
        "histogram",
        "stencil",
    ],
)
@pytest.mark.by_day
def test_main(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    importlib.import_module(f"examples.gpu.{name}").main()
    assert "agrees with NumPy" in capsys.readouterr().out


def test_sizes_that_do_not_fit() -> None:
    makers: list[Callable[[], PrimFunc]] = [
        lambda: vector_add.vector_add(6),
        lambda: vector_add.vector_add_blocks(7),
        lambda: copy.copy(6),
        lambda: transpose.transpose(64, 96),
        lambda: transpose.transpose(64, 64, threads=100),
        lambda: matmul_f32.matmul(128, 100, 8),
        lambda: matmul_f32.matmul(128, 128, 8, TM=6),
        lambda: softmax.softmax(2, 100),
        lambda: softmax.softmax_blocks(2, 100),
        lambda: layer_norm.layer_norm(2, 100),
        lambda: reduction.reduction(7),
        lambda: prefix_sum.prefix_sum(100),
        lambda: histogram.histogram(100),
        lambda: stencil.jacobi(100, 64),
    ]
    for make in makers:
        with pytest.raises(ValueError, match=r"multiple|divide"):
            make()
