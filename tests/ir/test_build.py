"""Operators: typing and folding, against Python and NumPy arithmetic and the rules of the language."""

from __future__ import annotations

import itertools
import math
import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tirlower import ir
from tirlower.diagnostics import TirError
from tirlower.ir import build
from tirlower.ir.dtype import DataType, wrap_int

INTS = ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64", "int4", "uint5"]


def imm(dtype: str, value: float) -> ir.Expr:
    return ir.const(value, DataType(dtype))


def trunc_div(a: int, b: int) -> int:
    """C's division, by way of exact integers."""
    return -(-a // b) if (a < 0) != (b < 0) else a // b


@pytest.mark.parametrize("dtype", INTS)
@settings(deadline=None)
@given(data=st.data())
def test_integer_arithmetic_wraps(dtype, data):
    t = DataType(dtype)
    a, b = (data.draw(st.integers(t.min_value, t.max_value)) for _ in range(2))
    x, y = imm(dtype, a), imm(dtype, b)
    wrapped = lambda v: wrap_int(v, t)
    # Of int32 only what stays in it folds: numbers are indices, whose arithmetic is exact.
    folds = lambda v: dtype != "int32" or t.min_value <= v <= t.max_value
    for fn, got in ((operator.add, x + y), (operator.sub, x - y), (operator.mul, x * y)):
        assert isinstance(got, ir.IntImm) is folds(fn(a, b)) and got.dtype is t
        assert not folds(fn(a, b)) or got.value == wrapped(fn(a, b))
    assert (not folds(-a) or (-x).value == wrapped(-a)) and (~x).value == wrapped(~a)
    assert (x & y).value == a & b and (x | y).value == a | b and (x ^ y).value == a ^ b
    assert build.min_(x, y).value == min(a, b) and build.max_(x, y).value == max(a, b)
    for fn in (operator.lt, operator.le, operator.gt, operator.ge):
        assert fn(x, y).dtype == "bool" and bool(fn(x, y).value) is fn(a, b)
    assert bool(build.eq(x, y).value) is (a == b) and bool(build.ne(x, y).value) is (a != b)
    shift = data.draw(st.integers(0, t.bits - 1))
    assert not folds(a << shift) or (x << shift).value == wrapped(a << shift)
    assert (x >> shift).value == a >> shift
    if b != 0 and folds(a // b):
        assert (x // y).value == wrapped(a // b) and (x % y).value == wrapped(a % b)
        assert build.truncdiv(x, y).value == wrapped(trunc_div(a, b))
        assert build.truncmod(x, y).value == wrapped(a - b * trunc_div(a, b))
        # The identity of each pair.
        assert wrapped(build.truncdiv(x, y).value * b + build.truncmod(x, y).value) == a


def test_division_of_every_small_pair():
    for a, b in itertools.product(range(-7, 8), range(-7, 8)):
        if b == 0:
            for fn in (build.floordiv, build.floormod, build.truncdiv, build.truncmod):
                with pytest.raises(TirError, match="division by zero"):
                    fn(imm("int32", a), imm("int32", b))
            continue
        x, y = imm("int32", a), imm("int32", b)
        assert build.floordiv(x, y).value == math.floor(a / b)
        assert build.truncdiv(x, y).value == math.trunc(a / b)
        assert build.floormod(x, y).value == a - b * math.floor(a / b)
        assert build.truncmod(x, y).value == math.fmod(a, b)
        assert build.ceildiv(x, y).value == (a + b - 1) // b


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
@settings(deadline=None)
@given(a=st.floats(width=16), b=st.floats(width=16))
def test_float_arithmetic_rounds_to_its_dtype(dtype, a, b):
    kind = DataType(dtype).numpy.type
    p, q = kind(a), kind(b)
    x, y = imm(dtype, float(p)), imm(dtype, float(q))
    with np.errstate(all="ignore"):
        pairs = [(x + y, p + q), (x - y, p - q), (x * y, p * q)]
        if q != 0:
            pairs.append((x / y, p / q))
    for got, want in pairs:
        want = float(want)
        assert got.dtype == dtype
        if isinstance(got, ir.FloatImm):
            assert got.value == want or (math.isnan(got.value) and math.isnan(want))


def test_integer_identities():
    x = ir.Var("x")
    zero = ir.IntImm("int32", 0)
    assert x + 0 is x and 0 + x is x and x - 0 is x and x * 1 is x and 1 * x is x and x // 1 is x
    assert (x * 0).value == 0 and (0 * x).value == 0 and (x % 1).value == 0
    assert build.truncdiv(x, 1) is x and build.truncmod(x, 1).value == 0
    assert build.floordiv(zero, x) is zero and build.floormod(zero, x) is zero
    assert x << 0 is x and x >> 0 is x and build.min_(x, x) is x and build.max_(x, x) is x
    # What is not folded.
    assert isinstance(0 - x, ir.Sub) and isinstance(x - x, ir.Sub) and isinstance(x + 1, ir.Add)
    assert isinstance(build.eq(x, x), ir.EQ) and isinstance(x // 2, ir.FloorDiv) and isinstance(x % 2, ir.FloorMod)


def test_float_identities_change_no_bit():
    x = ir.Var("x", "float32")
    assert isinstance(x + 0.0, ir.Add) and isinstance(x * 0.0, ir.Mul) and isinstance(x - 0.0, ir.Sub)
    assert x / 1.0 is x
    neg = -x
    assert isinstance(neg, ir.Mul) and neg.b.value == -1.0
    assert (-imm("float32", 0.0)).value == 0 and math.copysign(1, (-imm("float32", 0.0)).value) == -1
    # Which zero, and NaN: left to run time.
    assert isinstance(build.max_(imm("float32", 0.0), imm("float32", -0.0)), ir.Max)
    assert isinstance(build.min_(imm("float32", math.nan), imm("float32", 1.0)), ir.Min)


def test_constructors_never_fold():
    assert isinstance(ir.Add(1, 2), ir.Add) and isinstance(ir.Mul(ir.Var("x"), 1), ir.Mul)
    assert (
        isinstance(ir.Div(4, 2), ir.Div) and isinstance(ir.And(True, False), ir.And) and isinstance(ir.LT(1, 2), ir.LT)
    )


def test_boolean_units():
    p = ir.LT(ir.Var("x"), 3)
    true, false = ir.as_expr(True), ir.as_expr(False)
    for a, b, want in ((true, p, p), (p, true, p), (false, p, false), (p, false, false)):
        assert build.logical_and(a, b) is want
    for a, b, want in ((true, p, true), (p, true, true), (false, p, p), (p, false, p)):
        assert build.logical_or(a, b) is want
    assert build.logical_not(true).value == 0 and isinstance(build.logical_not(p), ir.Not)
    assert build.all_of().value == 1 and build.any_of().value == 0 and build.all_of(p) is p
    # A number is compared with zero; invert of a bool is a Not.
    assert isinstance(build.logical_and(ir.Var("n"), p).a, ir.NE) and isinstance(~p, ir.Not)


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [
        ("int32", "int64", "int64"), ("int32", "float32", "float32"), ("int64", "float16", "float16"),
        ("int8", "uint8", "uint8"), ("int32", "uint8", "int32"), ("bool", "int32", "int32"),
        ("float32", "float64", "float64"), ("float16", "bfloat16", "float32"), ("float32", "bfloat16", "float32"),
        ("int32", "int32x4", "int32x4"), ("float32", "int32x4", "float32x4"), ("int32x4", "int64x4", "int64x4"),
        ("int32", "int32xvscalex4", "int32xvscalex4"), ("bool", "boolx4", "boolx4"),
    ],
)  # fmt: skip
def test_types_meet(a, b, want):
    x, y = ir.Var("x", a), ir.Var("y", b)
    for p, q in ((x, y), (y, x)):
        got = p * q
        assert got.dtype == want and got.a.dtype == want and got.b.dtype == want


@pytest.mark.parametrize(("a", "b"), [("int32x4", "int32x8"), ("int32x4", "int32xvscalex4"), ("handle", "float32")])
def test_types_that_do_not_meet(a, b):
    with pytest.raises(TirError, match=r"different lanes|no common type"):
        ir.Var("x", a) + ir.Var("y", b)


def test_literals_take_the_type_of_the_other_operand():
    for dtype in (*INTS, "float16", "bfloat16", "float64"):
        got = ir.Var("x", dtype) + 3
        assert got.dtype == dtype and got.b.dtype == dtype
    assert (ir.Var("x", "float64") * 0.1).b.value == 0.1
    assert (ir.Var("x", "int8") + 300).dtype == "int32"
    assert (ir.Var("x") + 2**40).dtype == "int64"
    assert (ir.Var("x") + 1.5).dtype == "float32"
    vector = ir.Var("x", "int32x4") + 3
    assert vector.dtype == "int32x4" and isinstance(vector.b, ir.Broadcast)
    assert (
        build.add(1, 2).dtype == "int32"
        and build.add(2**31, 1).dtype == "int64"
        and build.mul(1.5, 2.0).dtype == "float32"
    )


def test_division_of_integers_by_slash_is_refused():
    x = ir.Var("x")
    with pytest.raises(TirError, match="ambiguous") as caught:
        x / 2
    assert "floordiv" in str(caught.value) and "truncdiv" in str(caught.value)
    assert isinstance(ir.Var("f", "float32") // 2, ir.FloorDiv)
    with pytest.raises(TirError, match="truncdiv takes integers"):
        build.truncdiv(ir.Var("f", "float32"), 2.0)


def test_shifts_stay_inside_the_type():
    x = ir.Var("x", "int8")
    for bad in (-1, 8):
        with pytest.raises(TirError, match="0 to 7"):
            x << bad
    with pytest.raises(TirError, match="takes integers"):
        ir.Var("f", "float32") << 1


def test_casts():
    x = ir.Var("x")
    assert build.cast("int32", x) is x and isinstance(build.cast("int64", x), ir.Cast)
    assert build.cast("int8", imm("int32", 300)).value == 44 and build.cast("uint8", imm("int32", -1)).value == 255
    assert build.cast("bool", imm("int32", 7)).value == 1 and build.cast("float16", imm("int32", 3)).value == 3.0
    assert build.cast("int32", imm("float32", -2.75)).value == -2 and build.cast("bool", imm("float32", 0.5)).value == 1
    assert build.cast("float16", imm("float64", 0.1)).value == float(np.float16(0.1))
    # Values that the type cannot hold are left to run time.
    assert isinstance(build.cast("int8", imm("float32", 1e9)), ir.Cast)
    assert isinstance(build.cast("int32", imm("float32", math.nan)), ir.Cast)
    vector = build.cast("float32x4", x)
    assert isinstance(vector, ir.Broadcast) and vector.dtype == "float32x4" and isinstance(vector.value, ir.Cast)
    assert build.cast("int8x4", ir.Broadcast(imm("int32", 300), 4)).value.value == 44
    assert x.astype("float32").dtype == "float32"
    scalable = ir.Broadcast(x, ir.expr.vscale(4))
    assert build.cast("int64xvscalex4", scalable).dtype == "int64xvscalex4"
    with pytest.raises(TirError, match="lanes"):
        build.cast("int64x4", scalable)


def test_selections():
    x, c = ir.Var("x"), ir.LT(ir.Var("c"), 1)
    assert build.if_then_else(True, x, 1) is x and build.if_then_else(False, x, 1).value == 1
    got = build.if_then_else(c, x, ir.Var("y", "int64"))
    assert got.dtype == "int64" and got.op.name == "tir.if_then_else"
    assert isinstance(build.select(c, x, 0), ir.Select)
    assert build.likely(True).value == 1 and build.likely(c).op.name == "tir.likely"
    with pytest.raises(TirError, match="scalar condition"):
        build.if_then_else(ir.Broadcast(c, 4), 1, 2)


def test_other_helpers():
    x, f = ir.Var("x"), ir.Var("f", "float32")
    assert build.abs_(imm("int8", -128)).value == -128 and isinstance(build.abs_(x), ir.Select)
    assert build.abs_(f).op.name == "tir.fabs" and build.abs_(ir.Var("u", "uint8")).dtype == "uint8"
    assert build.reinterpret("int32", f).dtype == "int32" and build.reinterpret("float32", f) is f
    with pytest.raises(TirError, match="keeps the bits"):
        build.reinterpret("int64", f)
    assert build.min_value("int8").value == -128 and build.max_value("float16").value == 65504.0
    assert build.call("tir.exp", f).dtype == "float32" and build.call("tir.isnan", f).dtype == "bool"
    with pytest.raises(TirError, match="dtype stated"):
        build.call("tir.call_extern", "f")
    with pytest.raises(TirError, match="did you mean"):
        build.call("tir.expp", f)
    assert build.is_positive_const(imm("int32", 1)) and not build.is_positive_const(x)
    assert build.truncmod(f, 2.0).op.name == "tir.fmod"


def test_spans_are_carried():
    span = object()
    x = ir.Var("x")
    for made in (build.add(x, 1, span), build.lt(x, 1, span), build.floordiv(x, 2, span), build.add(1, 2, span)):
        assert made.span is span
