"""Scalar arguments of every dtype, through both entries, against NumPy's and struct's conversions."""

from __future__ import annotations

import math
import struct

import ml_dtypes
import numpy as np
import pytest

from tirlower.call.scalars import returned_value, scalar_bits
from tirlower.call.signature import ScalarParam, Signature
from tirlower.diagnostics import ArgumentTypeError, ArgumentValueError
from tirlower.ir.dtype import DataType

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "int7", "uint33", "int4", "uint1"]


def one(dtype: str) -> Signature:
    return Signature("f", (ScalarParam("x", dtype),))


def limits(dtype: str) -> tuple[int, int, int]:
    signed, bits = dtype[0] == "i", int(dtype.lstrip("uint"))
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1, bits) if signed else (0, (1 << bits) - 1, bits)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_in_range_arrive_and_others_are_refused(probe, dtype):
    call = probe(one(dtype))
    low, high, bits = limits(dtype)
    for value in {low, high, 0, 1 if high else 0, low // 2, high // 2}:
        call(value)
        assert call.given == [value % (1 << bits)], value
    runs = call.runs
    for value in (low - 1, high + 1, -(1 << 64), 1 << 64, 1 << 200):
        with pytest.raises(ArgumentValueError) as caught:
            call(value)
        text = str(caught.value)
        assert f"argument `x` of `f`: expected {dtype} from {low} to {high}, got" in text
    for value in (1.0, "1", None, 1j, [1], np.float32(1), np.ones(1)):
        with pytest.raises(ArgumentTypeError, match=f"argument `x` of `f`: expected {dtype}, got"):
            call(value)
    assert call.runs == runs


@pytest.mark.parametrize("dtype", [d for d in INTEGERS if hasattr(np, d)])
@pytest.mark.parametrize("given", [d for d in INTEGERS if hasattr(np, d)])
def test_numpy_integers_of_any_width_are_taken_by_value(probe, dtype, given):
    call = probe(one(dtype))
    low, high, bits = limits(dtype)
    for value in (np.iinfo(given).min, np.iinfo(given).max, 5):
        scalar = getattr(np, given)(value)
        if low <= int(value) <= high:
            call(scalar)
            assert call.given == [int(value) % (1 << bits)]
            call(np.array(scalar))
        else:
            with pytest.raises(ArgumentValueError, match="argument `x`"):
                call(scalar)


def test_booleans(probe):
    call = probe(one("bool"))
    for value, bit in ((True, 1), (False, 0), (np.True_, 1), (np.False_, 0), (1, 1), (0, 0), (np.array(True), 1)):
        call(value)
        assert call.given == [bit]
    for value in (2, -1):
        with pytest.raises(
            ArgumentValueError, match=f"argument `x` of `f`: expected bool, got int {value}|got {value}"
        ):
            call(value)
    for value in (1.0, None, "True"):
        with pytest.raises(ArgumentTypeError, match="argument `x` of `f`: expected bool"):
            call(value)


FLOATS = {
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}


def bits_of(cls: type, value: float) -> int:
    with np.errstate(all="ignore"):
        return int.from_bytes(np.array(value, np.float64).astype(cls).tobytes(), "little")


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_are_rounded_to_nearest(probe, dtype):
    cls = FLOATS[dtype]
    call = probe(one(dtype))
    for value in (0.0, -0.0, 1.0, -1.5, 0.1, 1 / 3, 1e-5, 7, -3, 240.0, 1e-40, 5e-324):
        call(value)
        assert call.given == [bits_of(cls, value)], value
    for value in (
        np.float32(0.3),
        np.float64(0.3),
        np.float16(0.3),
        ml_dtypes.bfloat16(0.3),
        np.int8(-3),
        np.array(2.5),
    ):
        call(value)
        assert call.given == [bits_of(cls, float(value))], value
    call(math.nan)
    assert math.isnan(returned_value(dtype, call.given[0]))


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16", "float8_e5m2"])
def test_a_float_may_not_overflow_but_infinity_passes(probe, dtype):
    call = probe(one(dtype))
    for value in (math.inf, -math.inf):
        call(value)
        assert returned_value(dtype, call.given[0]) == value
    for value in (1e39, -1e300, 10**60, 10**400):
        with pytest.raises(ArgumentValueError, match=f"expected a number in the range of {dtype}"):
            call(value)
    assert call.runs == 2


@pytest.mark.parametrize(
    ("dtype", "inside", "outside"),
    [("float4_e2m1fn", 6.99, 7.0), ("float6_e2m3fn", 7.74, 7.75), ("float6_e3m2fn", 29.9, 30.0)],
)
def test_a_float_without_infinity_takes_what_rounds_to_its_greatest_value_and_no_more(probe, dtype, inside, outside):
    call = probe(one(dtype))
    most = DataType(dtype).max_value
    for value in (inside, -inside, most, -most):
        call(value)
        assert returned_value(dtype, call.given[0]) == math.copysign(most, value)
    for value in (outside, -outside, 1e300, math.inf, -math.inf, math.nan, 10**400):
        with pytest.raises(ArgumentValueError, match=f"expected a number in the range of {dtype}"):
            call(value)
    call(0.26)
    assert returned_value(dtype, call.given[0]) == float(np.float64(0.26).astype(DataType(dtype).numpy))


def test_the_largest_float32_is_in_range(probe):
    call = probe(one("float32"))
    largest = float(np.finfo(np.float32).max)
    call(largest * (1 + 2**-26))
    assert call.given == [bits_of(np.float32, largest)]
    with pytest.raises(ArgumentValueError):
        call(largest * (1 + 2**-24))


def test_wide_integers_become_floats(probe):
    call = probe(one("float64"))
    for value in (1 << 62, (1 << 63) + 12345, -(1 << 80), (1 << 53) + 1):
        call(value)
        assert call.given == [struct.unpack("<Q", struct.pack("<d", float(value)))[0]]


@pytest.mark.parametrize("value", ["1.0", None, 1j, [1.0], np.ones(2), object()])
def test_what_is_no_number_is_refused(probe, value):
    call = probe(one("float32"))
    with pytest.raises(ArgumentTypeError, match="argument `x` of `f`: expected float32, got"):
        call(value)
    assert call.runs == 0


def test_subclasses_of_numbers_are_taken(probe):
    class MyInt(int): ...

    class MyFloat(float): ...

    call = probe(Signature("f", (ScalarParam("i", "int32"), ScalarParam("x", "float32"))))
    call(MyInt(-2), MyFloat(0.5))
    assert call.given == [0xFFFFFFFE, bits_of(np.float32, 0.5)]
    call(True, True)
    assert call.given == [1, bits_of(np.float32, 1.0)]


def test_handles(probe):
    call = probe(one("handle"))
    call(None)
    assert call.given == [0]
    call(0xFFFF_0000_1234)
    assert call.given == [0xFFFF_0000_1234]
    with pytest.raises(ArgumentTypeError, match="expected handle, got"):
        call("x")
    with pytest.raises(ArgumentValueError, match="expected an address"):
        call(-1)


def test_usual_scalars_never_leave_the_machine_code(fast_probe):
    dtypes = ("int32", "int64", "uint8", "float32", "float64", "bool", "float16")
    call = fast_probe(Signature("f", tuple(ScalarParam(f"x{i}", d) for i, d in enumerate(dtypes))))
    half = np.float16(0.5)
    expected = [0xFFFFFFFF, 7, 255, bits_of(np.float32, 0.25), bits_of(np.float64, 3.0), 1, bits_of(np.float16, 0.5)]
    call(-1, 7, 255, 0.25, 3, True, half)
    assert call.given == expected
    call(np.int32(-1), np.int64(7), np.uint8(255), np.float32(0.25), np.float64(3), np.True_, half)
    assert call.given == expected
    call(np.int64(-1), 7, np.int64(255), np.float64(0.25), 3.0, True, half)
    assert call.given == expected


@pytest.mark.parametrize("dtype", ["int5", "uint16", "int64", "uint64", "bool", "float16", "bfloat16", "float64"])
def test_bits_come_back_as_the_value(dtype):
    values = [0.5, -2.0] if "float" in dtype else [0, 1]
    if dtype.startswith("int"):
        values += [-1, -3]
    for value in values:
        assert returned_value(dtype, scalar_bits(dtype, value)[0]) == value
