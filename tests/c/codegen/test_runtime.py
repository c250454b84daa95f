"""The functions of the runtime, each beside what Python, NumPy or ml_dtypes computes."""

from __future__ import annotations

import ctypes
import math
import re
from functools import cache

import ml_dtypes
import numpy as np
import pytest

from tests.c.batch import needs_compiler
from tirlower.c.codegen.runtime import HEAD, HELPERS, runtime_text
from tirlower.c.compile import compile_text
from tirlower.c.library import Library
from tirlower.emit.types import FLOAT_FORMATS
from tirlower.ir.dtype import DataType

FORMATS = ("float16", *FLOAT_FORMATS, "float8_e8m0fnu")


@cache
def library() -> ctypes.CDLL:
    """All functions, as symbols."""
    text = HEAD + re.sub(r"^static (inline )?(?!const)", "", runtime_text(HELPERS), flags=re.MULTILINE)
    loaded = Library(compile_text(text, ("-O1", "-Wall", "-Wextra", "-pedantic", "-Werror")))
    found: ctypes.CDLL = loaded._loaded
    found.keep = loaded
    return found


def function(name: str, result: type, *arguments: type):
    found = getattr(library(), name)
    found.restype, found.argtypes = result, arguments
    return found


def test_a_text_holds_what_its_functions_call_and_no_more():
    text = runtime_text({"tir_odd_i64", *HELPERS["tir_odd_i64"].needs})
    assert text.index("tir_odd_u64(") < text.index("tir_odd_i64(") and "tir_sx" not in text
    for name, helper in HELPERS.items():
        assert name in helper.needs
        before = list(HELPERS)[: list(HELPERS).index(name)]
        others = [other for other in helper.needs if HELPERS[other] is not helper]
        assert set(others) <= set(before), f"{name} stands in front of what it calls"


@needs_compiler
@pytest.mark.parametrize("bits", [32, 64])
def test_quotients(bits):
    kind = {32: ctypes.c_int32, 64: ctypes.c_int64}[bits]
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    values = [low, low + 1, -7, -6, -2, -1, 0, 1, 2, 6, 7, high - 1, high]

    def wrap(x: int) -> int:
        return (x - low) % (1 << bits) + low

    for a in values:
        for b in values:
            if not b:
                continue
            exact = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            wanted = {"floordiv": a // b, "floormod": a % b, "truncdiv": exact, "truncmod": a - b * exact}
            for name, value in wanted.items():
                got = function(f"tir_{name}_i{bits}", kind, kind, kind)(a, b)
                assert got == wrap(value), (name, a, b)


@needs_compiler
def test_shifts_and_counts():
    u64, i64, c_int, unsigned = ctypes.c_uint64, ctypes.c_int64, ctypes.c_int, ctypes.c_uint
    for by in (0, 1, 7, 31, 32, 63, 64, (1 << 64) - 1):
        for x in (0, 1, 0x80000000, (1 << 64) - 1):
            assert function("tir_shl", u64, u64, u64, unsigned)(x, by, 64) == (x << by if by < 64 else 0) % (1 << 64)
            assert function("tir_shr", u64, u64, u64, unsigned)(x, by, 64) == (x >> by if by < 64 else 0)
        for x in (-(1 << 63), -5, -1, 0, 5, (1 << 63) - 1):
            assert function("tir_sar", i64, i64, u64, unsigned)(x, by, 64) == x >> min(by, 63)
    for bits in (1, 2, 7, 8, 17, 33, 63, 64):
        for x in (0, 1, 5, (1 << bits) - 1, 1 << (bits - 1)):
            x &= (1 << bits) - 1
            signed = x - (1 << bits) if x >> (bits - 1) else x
            assert function("tir_sx", i64, u64, c_int)(x, bits) == signed
            assert function("tir_popcount", c_int, u64)(x) == x.bit_count()
            assert function("tir_clz", c_int, u64, c_int)(x, bits) == bits - x.bit_length()


@needs_compiler
def test_products_and_sums_that_leave_64_bits_are_told():
    i64 = ctypes.c_int64
    values = [-(1 << 63), -(1 << 62), -(1 << 32), -3, -1, 0, 1, 2, 3, 1 << 31, 1 << 62, (1 << 63) - 1]
    out = i64()
    for a in values:
        for b in values:
            for name, exact in (("mul", a * b), ("add", a + b)):
                leaves = function(f"tir_{name}_leaves", ctypes.c_bool, i64, i64, ctypes.c_void_p)(
                    a, b, ctypes.addressof(out)
                )
                assert leaves == (not -(1 << 63) <= exact < 1 << 63), (name, a, b)
                assert leaves or out.value == exact


@needs_compiler
def test_fixed_point_products_are_exact_in_128_bits():
    u64, i64 = ctypes.c_uint64, ctypes.c_int64
    run = function("tir_fixed_point", u64, i64, i64, u64, u64)
    rng = np.random.default_rng(1)
    for _ in range(3000):
        x, y = (int(v) >> int(rng.integers(0, 63)) for v in rng.integers(-(1 << 63), 1 << 63, 2))
        left, right = int(rng.integers(0, 4)), int(rng.integers(0, 90))
        product = ((x * y) << left) % (1 << 128)
        product -= (product >> 127) << 128
        wanted = product + (1 << (right - 1)) >> right if right else product
        if -(1 << 127) <= product + (1 << 90) < 1 << 127:
            assert run(x, y, left, right) == wanted % (1 << 64), (x, y, left, right)


@needs_compiler
def test_floats_become_the_nearest_integer_in_range():
    f64 = ctypes.c_double
    to_int = function("tir_to_int", ctypes.c_int64, f64, ctypes.c_int64, ctypes.c_int64)
    to_uint = function("tir_to_uint", ctypes.c_uint64, f64, ctypes.c_uint64)
    numbers = [0.0, -0.0, 0.9, -0.9, -1.9, 300.5, -300.5, 2.0**31, 2.0**53, 2.0**63, -(2.0**63), 2.0**64, 1e300, -1e300]
    numbers += [np.nextafter(2.0**63, 0.0), np.nextafter(2.0**64, 0.0), float("inf"), -float("inf")]
    for x in numbers:
        whole = int(x) if np.isfinite(x) else (1 << 200 if x > 0 else -(1 << 200))
        for bits in (8, 17, 32, 60, 64):
            low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
            assert to_int(x, low, high) == min(max(whole, low), high), (x, bits)
            assert to_uint(x, (1 << bits) - 1) == min(max(whole, 0), (1 << bits) - 1), (x, bits)
    assert to_int(float("nan"), -5, 5) == 0 and to_uint(float("nan"), 5) == 0


def numpy_kind(name: str) -> np.dtype:
    return DataType(name).numpy


@needs_compiler
@pytest.mark.parametrize("name", FORMATS)
def test_every_pattern_of_a_narrow_float_is_its_number(name):
    kind = numpy_kind(name)
    size = kind.itemsize * 8
    held = {8: ctypes.c_uint8, 16: ctypes.c_uint16}[size]
    decode, encode = (
        function(f"tir_{name}_of", ctypes.c_float, held),
        function(f"tir_{name}_bits", held, ctypes.c_double),
    )
    patterns = np.arange(1 << DataType(name).bits, dtype=f"uint{size}")
    wanted = patterns.view(kind).astype(np.float32)
    got = np.array([decode(int(p)) for p in patterns], np.float32)
    np.testing.assert_array_equal(got, wanted)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(wanted[numbers]))
    back = np.array([encode(float(x)) for x in got], patterns.dtype)
    np.testing.assert_array_equal(back[numbers], patterns[numbers])


@needs_compiler
@pytest.mark.parametrize("name", FORMATS)
def test_numbers_are_rounded_once_to_nearest_even(name):
    kind = numpy_kind(name)
    encode = function(f"tir_{name}_bits", {1: ctypes.c_uint8, 2: ctypes.c_uint16}[kind.itemsize], ctypes.c_double)
    patterns = np.arange(1 << DataType(name).bits, dtype=f"uint{8 * kind.itemsize}")
    with np.errstate(all="ignore"):
        numbers = patterns.view(kind).astype(np.float64)
    numbers = np.unique(numbers[np.isfinite(numbers)])
    numbers = np.concatenate([numbers[:: max(len(numbers) // 600, 1)], numbers[-4:], numbers[:4]])
    numbers = np.unique(numbers)
    between = (numbers[:-1] + numbers[1:]) / 2
    samples = np.concatenate([numbers, between, np.nextafter(between, np.inf), np.nextafter(between, -np.inf)])
    for x in samples:
        neighbours = numpy_kind(name).type(np.float32(x)) if float(np.float32(x)) == x else None
        got = int(encode(float(x)))
        if neighbours is not None:
            # ml_dtypes converts from float32; where the sample is one, it is the judge.
            assert got == int(np.asarray(neighbours).view(patterns.dtype)), (name, x)
            continue
        value = float(patterns[got : got + 1].view(kind).astype(np.float64)[0])
        if name == "float8_e8m0fnu" or not np.isfinite(value):
            continue
        around = [
            float(patterns[p : p + 1].view(kind).astype(np.float64)[0])
            for p in (max(got - 1, 0), min(got + 1, len(patterns) - 1))
        ]
        assert all(not np.isfinite(n) or abs(value - x) <= abs(n - x) for n in around), (name, x, value)


@needs_compiler
@pytest.mark.parametrize("name", ["float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"])
def test_a_float_without_infinity_and_nan_ends_at_its_greatest_value(name):
    encode = function(f"tir_{name}_bits", ctypes.c_uint8, ctypes.c_double)
    most = (1 << (DataType(name).bits - 1)) - 1
    sign = most + 1
    for x, code in ((math.inf, most), (-math.inf, most | sign), (1e300, most), (-1e300, most | sign)):
        assert encode(x) == code
    assert encode(math.nan) == encode(-math.nan) == most


@needs_compiler
def test_big_integers_are_rounded_once():
    from_int, from_uint = (
        function("tir_odd_i64", ctypes.c_double, ctypes.c_int64),
        function("tir_odd_u64", ctypes.c_double, ctypes.c_uint64),
    )
    encode = function("tir_bfloat16_bits", ctypes.c_uint16, ctypes.c_double)
    tie = (1 << 62) + (1 << 54)  # between two bfloat16 numbers
    for x in (tie - 1, tie, tie + 1, -tie - 1, -tie, -tie + 1, (1 << 63) - 1, -(1 << 63), (1 << 53) + 1):
        exact = np.float64(np.longdouble(x))
        near = float(ml_dtypes.bfloat16(float(exact)))
        got = float(np.array([encode(from_int(x))], np.uint16).view(ml_dtypes.bfloat16)[0])
        above, below = tie + 1, tie - 1
        wanted = {above: 2.0**62 + 2.0**55, below: 2.0**62, -above: -(2.0**62) - 2.0**55, -below: -(2.0**62)}.get(
            x, near
        )
        assert got == wanted, x
        if x > 0:
            assert from_uint(x) == from_int(x)


@needs_compiler
def test_of_a_nan_and_a_number_the_number():
    nan = float("nan")
    for name, wanted in (("tir_fmin", 1.0), ("tir_fmax", 2.0)):
        run = function(name, ctypes.c_double, ctypes.c_double, ctypes.c_double)
        assert run(1.0, 2.0) == run(2.0, 1.0) == wanted and run(nan, 2.0) == run(2.0, nan) == 2.0
        assert np.isnan(run(nan, nan))
