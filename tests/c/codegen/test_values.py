"""Literals, types and ranges of C values."""

from __future__ import annotations

import math

import pytest

from tirlower.c.codegen.values import (
    SUM,
    UNARY,
    Kind,
    Value,
    float_literal,
    in_range,
    int_literal,
    is_narrow_float,
    kind_of,
    memory_type,
    type_range,
    value_type,
)
from tirlower.ir.dtype import DataType


@pytest.mark.parametrize(
    ("dtype", "value", "memory", "kind"),
    [
        ("bool", "bool", "int8_t", Kind.I32),
        ("int8", "int8_t", "int8_t", Kind.I32),
        ("int17", "int32_t", "int32_t", Kind.I32),
        ("int33", "int64_t", "int64_t", Kind.I64),
        ("uint5", "uint8_t", "uint8_t", Kind.I32),
        ("uint16", "uint16_t", "uint16_t", Kind.I32),
        ("uint17", "uint32_t", "uint32_t", Kind.U32),
        ("uint64", "uint64_t", "uint64_t", Kind.U64),
        ("float16", "float", "uint16_t", Kind.F32),
        ("bfloat16", "float", "uint16_t", Kind.F32),
        ("float8_e5m2", "float", "uint8_t", Kind.F32),
        ("float32", "float", "float", Kind.F32),
        ("float64", "double", "double", Kind.F64),
        ("handle", "void *", "void *", Kind.POINTER),
    ],
)
def test_types(dtype, value, memory, kind):
    kind_given = DataType(dtype)
    assert (value_type(kind_given), memory_type(kind_given), kind_of(kind_given)) == (value, memory, kind)
    assert is_narrow_float(kind_given) == (value == "float" and memory != "float")


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (5, Kind.I32, "5"),
        (-5, Kind.I64, "-5"),
        (-(1 << 31), Kind.I32, "INT32_MIN"),
        (1 << 31, Kind.I64, "INT64_C(2147483648)"),
        (-(1 << 63), Kind.I64, "INT64_MIN"),
        (7, Kind.U32, "7u"),
        (7, Kind.U64, "UINT64_C(7)"),
    ],
)
def test_integer_literals(value, kind, text):
    made = int_literal(value, kind)
    assert made.text == text and made.constant == value
    assert made.kind is (Kind.I32 if in_range(value, value, Kind.I32) and kind.signed else kind)


def test_float_literals():
    f32, f64, f16 = (DataType(name) for name in ("float32", "float64", "float16"))
    assert float_literal(1.0, f32).text == "1.0f" and float_literal(0.1, f64).text == "0.1"
    assert float_literal(1e30, f64).text == "1e+30" and float_literal(1e-7, f32).text == "1e-07f"
    assert float_literal(0.1, f16).text == "0.099975586f"  # what a float16 makes of it
    assert float_literal(math.inf, f32).text == "INFINITY" and float_literal(-math.inf, f64).text == "-INFINITY"
    assert float_literal(math.nan, f64).text == "NAN"
    assert float_literal(-0.0, f32).text == "-0.0f" and float_literal(-0.0, f32).rank == UNARY


def test_parentheses_stand_where_an_operator_binds_less():
    value = Value("a + b", Kind.I32, SUM, 0, 9)
    assert value.inside(SUM) == "a + b" and value.inside(SUM + 1) == "(a + b)"
    assert value.cast(Kind.U32).text == "(uint32_t)(a + b)" and value.cast(Kind.I32) is value


def test_ranges():
    assert type_range(DataType("int3")) == (-4, 3) and type_range(DataType("float32")) == (0, 0)
    assert in_range(0, (1 << 32) - 1, Kind.U32) and not in_range(-1, 0, Kind.U64) and not in_range(0, 1 << 63, Kind.I64)
