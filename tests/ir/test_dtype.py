"""Data types: names, parts and ranges, against NumPy and ml_dtypes."""

from __future__ import annotations

import copy
import math
import pickle

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tirlower.ir.dtype import MINIFLOATS, VOID, DataType, DataTypeError, PointerType, round_float, wrap_int

NUMPY_NAMES = ["bool", *[f"{s}int{b}" for s in ("", "u") for b in (8, 16, 32, 64)], "float16", "float32", "float64"]
ML_NAMES = ["bfloat16", *MINIFLOATS]


@pytest.mark.parametrize("name", NUMPY_NAMES + ML_NAMES)
def test_numpy_agrees(name):
    t = DataType(name)
    kind = np.dtype(getattr(ml_dtypes, name, None) or name)
    assert t.numpy == kind and t.bytes == kind.itemsize
    assert DataType.from_numpy(kind) is t
    assert t == name and hash(t) == hash(name) and {name: 1}[t] == 1
    if t.is_float:
        assert (t.min_value, t.max_value) == (float(ml_dtypes.finfo(kind).min), float(ml_dtypes.finfo(kind).max))
    elif not t.is_bool:
        assert (t.min_value, t.max_value) == (np.iinfo(kind).min, np.iinfo(kind).max)


@settings(deadline=None)
@given(
    st.sampled_from(["int", "uint"]), st.integers(2, 64), st.integers(1, 64), st.booleans()
)  # fmt: skip
def test_names_and_parts(code, bits, lanes, scalable):
    suffix = f"xvscalex{lanes}" if scalable else f"x{lanes}" if lanes > 1 else ""
    t = DataType(f"{code}{bits}{suffix}")
    assert (t.code, t.bits, t.lanes, t.scalable) == (code, bits, lanes, scalable)
    assert DataType.of(code, bits, lanes, scalable) is t is DataType(str(t))
    assert t.element is DataType(f"{code}{bits}") and t.element.with_lanes(lanes, scalable) is t
    assert t.is_scalar is (lanes == 1 and not scalable) and t.is_vector is not t.is_scalar
    assert t.is_integral and not t.is_float and t.with_bits(8).bits == 8 and t.with_bits(8).lanes == lanes
    low, high = t.min_value, t.max_value
    assert high - low == 2**bits - 1 and (low == 0) is (code == "uint")
    assert np.iinfo(t.numpy).bits >= bits


def test_spellings():
    assert DataType("int1") is DataType("uint1") is DataType("bool") and DataType("uint1x4") is DataType("boolx4")
    assert DataType("") is VOID and DataType("void") is VOID and DataType() is VOID
    assert DataType("float32x1") is DataType("float32")
    assert DataType("bool").bits == 1 and DataType("handle").bits == 64 and DataType("bfloat16x2").bits == 16
    assert DataType("float8_e4m3fnx4").element is DataType("float8_e4m3fn")
    assert DataType("float8_e4m3fn").code == "float8_e4m3fn" and DataType("float8_e4m3").bits == 8
    four, six = DataType("float4_e2m1fnx2"), DataType("float6_e3m2fn")
    assert four.bits == 4 and four.bytes == 1 and four.is_float4 and four.is_float and not four.is_float8
    assert six.bits == 6 and six.bytes == 1 and six.is_float6 and not six.is_float4 and six.is_minifloat
    assert (four.max_value, six.max_value, DataType("float6_e2m3fn").max_value) == (6, 28, 7.5)
    assert four.element.script() == "T.float4_e2m1fn" and DataType("float8_e5m2").is_minifloat
    custom = DataType("custom[posit]16x4")
    assert custom.is_custom and custom.bits == 16 and custom.lanes == 4 and custom.element == "custom[posit]16"
    assert not custom.is_float and not custom.is_integral


@pytest.mark.parametrize(
    "name",
    ["long", "int0", "int65", "int32x", "int32x0", "int32 ", "float8", "float33", "bfloat32", "double", "INT32", "i32",
     "float32xvscale", "custom[]8", "custom[1x]8", "handle64", "float8_e4m3fnz", "float4", "float6", "float4_e2m1", "boolx0"],
)  # fmt: skip
def test_texts_that_are_no_data_type(name):
    with pytest.raises(DataTypeError, match="lane" if name.endswith("x0") else "no data type"):
        DataType(name)


@pytest.mark.parametrize("letter, kind", [("i", "int"), ("u", "uint"), ("f", "float")])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_short_names_of_other_languages_are_told_by_ours(letter: str, kind: str, bits: int) -> None:
    if (letter, bits) != ("f", 8):
        with pytest.raises(DataTypeError, match=f"'{kind}{bits}'"):
            DataType(f"{letter}{bits}")


@pytest.mark.parametrize("name", ["float16", "float32", *ML_NAMES])
def test_a_float_holds_what_rounds_to_a_number_of_its_own(name):
    t = DataType(name)
    most = t.max_value
    assert t.holds(most) and t.holds(0.0) is (name != "float8_e8m0fnu") and not t.holds(most * 1.5)
    assert t.holds(float("inf")) is t.holds(float("nan")) is not (t.is_float4 or t.is_float6)
    if t.bits < 8:
        assert all(t.holds(x) and t.holds(-x) for x in (most, 0.01)) and not t.holds(-most * 1.5)


def test_types_without_a_width_have_32_bits():
    for name in ("int", "uint", "float"):
        assert DataType(name) is DataType(f"{name}32")
        with pytest.raises(DataTypeError):
            DataType(f"{name}x4")


def test_other_values_are_no_data_type():
    for value in (3, None, np.ndarray, np.datetime64, np.integer, ["int32"][:0]):
        with pytest.raises((DataTypeError, TypeError)):
            DataType(value)
    assert DataType(np.float32) is DataType("float32")
    with pytest.raises(DataTypeError):
        DataType("custom[a]8").numpy
    with pytest.raises(DataTypeError):
        DataType("handle").min_value


def test_copies_are_the_same_object():
    for name in ("int32", "float32xvscalex4", "custom[a]8x2", "bool"):
        t = DataType(name)
        assert pickle.loads(pickle.dumps(t)) is t and copy.deepcopy(t) is t


@settings(deadline=None)
@given(st.integers(-(2**70), 2**70), st.sampled_from(["int8", "int32", "int64", "uint8", "uint64", "int5", "uint1"]))
def test_wrap_int(value, dtype):
    t = DataType(dtype)
    got = wrap_int(value, t)
    assert t.min_value <= got <= t.max_value and (got - value) % (1 << t.bits) == 0


@settings(deadline=None)
@given(st.floats())
def test_round_float(value):
    for name in ("float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2"):
        kind = np.dtype(getattr(ml_dtypes, name, None) or name)
        with np.errstate(all="ignore"):
            want = float(np.float64(value).astype(kind))
        got = round_float(value, DataType(name))
        assert got == want or (math.isnan(got) and math.isnan(want)), name


def test_pointer_types_are_values():
    assert PointerType("int8") == PointerType("int8", "global") != PointerType("int8", "local")
    assert hash(PointerType("int8")) == hash(PointerType("int8", ""))
