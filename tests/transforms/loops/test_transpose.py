from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check
from tirlower.script import parse
from tirlower.transforms import TransposeTiles

PARAMS = 'A: T.Buffer((1024,), "int32"), B: T.Buffer((1024,), "int32"), n: T.int32'


def tile(body: str, count: int = 4, loop: str = "range({count})", flat: bool = True) -> tl.PrimFunc:
    """A function of two arrays apart, which does something for each element of a tile."""
    outer = loop.format(count=count)
    text = f"for i in {outer}:\n        for j in T.vectorized({count}):\n            {body}"
    return parse(f'@T.prim_func\ndef f({PARAMS}):\n    T.func_attr({{"tir.noalias": {flat}}})\n    {text}\n')


@pytest.mark.parametrize("count", [2, 4, 8, 16])
@pytest.mark.parametrize("loop", ["range({count})", "T.unroll({count})", "range(3, {count} + 3)"])
@pytest.mark.parametrize(
    "body",
    [
        "B[j * 32 + i] = A[i * 32 + j]",
        "B[i * 32 + j + 5] = A[j * 32 + i + 7]",
        "B[i * 17 + j] = A[j * 3 + i]",
        "B[j * 20 + i + n] = A[i + j]",
        "B[600 - j * 32 + i] = A[i * 16 + j]",
    ],
)
def test_tiles_go_through_registers(body: str, loop: str, count: int) -> None:
    func = tile(body, count, loop)
    after = check(TransposeTiles(), func)
    assert after.script().count("T.Shuffle") == count * (count.bit_length() - 1)
    assert "for " not in after.script()


def test_several_tiles_in_a_loop() -> None:
    func = parse(f"""
@T.prim_func
def f({PARAMS}):
    T.func_attr({{"tir.noalias": True}})
    for i in range(1, 25):
        for j in T.vectorized(8):
            B[j * 32 + i] = A[i * 40 + j]
""")
    after = check(TransposeTiles(), func).script()
    assert "range(3)" in after and after.count("T.Shuffle") == 24


@pytest.mark.parametrize(
    "body",
    [
        "B[j * 15 + i] = A[i * 32 + j]",  # columns too near
        "B[j * n + i] = A[i * 32 + j]",
        "B[i * 32 + j] = A[i * 32 + j]",  # no exchange
        "B[j * 32 + i] = A[j * 32 + i]",
        "B[j * 32 + i] = A[i * 32 + j * 2]",
        "B[j * 32 + i] = A[i * 32 + j] + 1",
        "B[j * 32 + i] = B[i * 32 + j]",
        "B[j * 32 + i] = A[A[i] + j]",
        "B[j * 32 + i * i] = A[i * 32 + j]",
    ],
)
def test_what_stays(body: str) -> None:
    func = tile(body)
    assert TransposeTiles()(func).script() == func.script()


def test_arrays_that_may_meet_stay() -> None:
    func = tile("B[j * 32 + i] = A[i * 32 + j]", flat=False)
    assert "Shuffle" not in TransposeTiles()(func).script()


@pytest.mark.parametrize(
    ("count", "loop"), [(3, "range(3)"), (32, "range(32)"), (4, "range(6)"), (4, "range(0)"), (4, "range(n)")]
)
def test_other_sizes_stay(count: int, loop: str) -> None:
    assert "Shuffle" not in TransposeTiles()(tile("B[j * 32 + i] = A[i * 32 + j]", count, loop)).script()


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "uint8", "bool"]
)
@pytest.mark.parametrize("count", [4, 16])
@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64", "c"])
def test_every_type_is_transposed(dtype: str, count: int, target: str) -> None:
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((64, 48), "{dtype}"), B: T.Buffer((48, 64), "{dtype}")):
    for r, c in T.grid({64 // count}, {48 // count}):
        for i in range({count}):
            for j in T.vectorized({count}):
                B[c * {count} + j, r * {count} + i] = A[r * {count} + i, c * {count} + j]
""")
    words = np.random.default_rng(0).integers(0, 2, (64, 48)) * 7 + np.arange(48) % 5
    numpy = func.buffers[0].dtype.numpy
    a = words.astype(numpy)
    b = np.zeros((48, 64), numpy)
    kernel = tl.build(func, target, schedule="none")  # type: ignore[arg-type]
    kernel(a, b)
    assert (b == a.T).all()
