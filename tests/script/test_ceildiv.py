"""``T.ceildiv`` is the ceiling of the quotient, whatever the signs, the types and the sizes."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tirlower.script import parse

KINDS = ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"]


def edges(dtype: str) -> list[int]:
    """Small numbers, and those next to the ends of the type."""
    info = np.iinfo(dtype)
    near = [0, 1, 2, 3, 7, 16, info.max // 2, info.max - 2, info.max - 1, info.max]
    return sorted({*near, *(x for n in near for x in (-n, -n - 1) if x >= info.min)})


def ceiling(a: int, b: int, dtype: str) -> int:
    """The exact ceiling; the least number divided by -1 wraps."""
    exact = -(-a // b)
    return exact if exact <= np.iinfo(dtype).max else int(np.iinfo(dtype).min)


def program(dtype: str, count: int, divisor: int | None = None):
    by = "B[i]" if divisor is None else f"T.{dtype}({divisor})"
    arrays = ", ".join(f'{name}: T.Buffer(({count},), "{dtype}")' for name in "ABC")
    return parse(
        f"@T.prim_func\ndef f({arrays}):\n    for i in range({count}):\n        C[i] = T.ceildiv(A[i], {by})\n"
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_every_pair_of_eight_bits(dtype):
    info = np.iinfo(dtype)
    pairs = [(a, b) for a in range(info.min, info.max + 1) for b in range(info.min, info.max + 1) if b]
    a, b = (np.array(column, dtype) for column in zip(*pairs, strict=True))
    found = np.zeros_like(a)
    tl.build(program(dtype, a.size))(a, b, found)
    np.testing.assert_array_equal(found, [ceiling(x, y, dtype) for x, y in pairs])


@pytest.mark.parametrize("dtype", KINDS)
def test_ends_of_each_type(dtype):
    pairs = [(a, b) for a in edges(dtype) for b in edges(dtype) if b]
    a, b = (np.array(column, dtype) for column in zip(*pairs, strict=True))
    want = [ceiling(x, y, dtype) for x, y in pairs]
    func, native, interpreted = program(dtype, a.size), np.zeros_like(a), np.zeros_like(a)
    tl.build(func)(a, b, native)
    tl.interpret(func, a, b, interpreted)
    np.testing.assert_array_equal(native, want)
    np.testing.assert_array_equal(interpreted, want)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("divisor", [1, 3, 16, 100, -1, -3, -100, 127, -128])
def test_constant_divisors(dtype, divisor):
    if divisor < np.iinfo(dtype).min:
        pytest.skip("no number of the type")
    a = np.array(edges(dtype), dtype)
    want = [ceiling(x, divisor, dtype) for x in a.tolist()]
    func, native, interpreted = program(dtype, a.size, divisor), np.zeros_like(a), np.zeros_like(a)
    tl.build(func)(a, a, native)
    tl.interpret(func, a, a, interpreted)
    np.testing.assert_array_equal(native, want)
    np.testing.assert_array_equal(interpreted, want)


def test_parameters_and_constants():
    func = parse("@T.prim_func\ndef f(a: T.int32, b: T.int32) -> T.int32:\n    return T.ceildiv(a, b)\n")
    for a in (-(2**31), -7, 0, 7, 2**31 - 1):
        for b in (-(2**31), -2, 2, 3, 2**31 - 1):
            assert tl.build(func)(a, b) == tl.interpret(func, a, b) == -(-a // b), (a, b)
    text = parse("@T.prim_func\ndef f() -> T.int32:\n    return T.ceildiv(7, -2) + T.ceildiv(-7, -2) * 10\n").script()
    assert "37" in text


@pytest.mark.parametrize(("modulus", "kept"), [(65, True), (66, False)])
def test_the_sum_is_written_only_where_it_stays_in_its_type(modulus, kept):
    func = parse(
        "@T.prim_func\ndef f(A: T.Buffer((256,), 'int8'), C: T.Buffer((256,), 'int8')):\n"
        f"    for i in range(256):\n        C[i] = T.ceildiv(A[i] % T.int8({modulus}), T.int8(63))\n"
    )
    assert ("+ T.int8(63) - T.int8(1)" in func.script()) == kept
    a, found = np.arange(-128, 128).astype("int8"), np.zeros(256, "int8")
    tl.build(func)(a, found)
    np.testing.assert_array_equal(found, [-(-(int(x) % modulus) // 63) for x in a])


def test_by_zero_raises():
    func = parse("@T.prim_func\ndef f(a: T.int32, b: T.int32) -> T.int32:\n    return T.ceildiv(a, b)\n")
    with pytest.raises(ZeroDivisionError):
        tl.build(func)(1, 0)


def test_floats_round_up():
    func = parse("@T.prim_func\ndef f(a: T.float64, b: T.float64) -> T.float64:\n    return T.ceildiv(a, b)\n")
    assert [tl.build(func)(a, b) for a, b in ((7.0, 2.0), (7.0, -2.0), (-7.0, -2.0), (0.5, 0.25))] == [4, -3, 4, 2]
