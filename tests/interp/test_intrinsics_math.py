from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from tirlower.diagnostics import InterpreterError
from tirlower.interp.intrinsics_math import next_after
from tirlower.ir import BOOL, Call, DataType, Op, Var, const
from tirlower.ir.intrinsics.arithmetic import BINARY_MATH, UNARY_MATH

pytestmark = pytest.mark.by_day

ORACLE = {
    "exp": mpmath.exp, "exp2": lambda x: mpmath.power(2, x), "exp10": lambda x: mpmath.power(10, x),
    "expm1": mpmath.expm1, "log": mpmath.log, "log2": lambda x: mpmath.log(x, 2), "log10": mpmath.log10,
    "log1p": mpmath.log1p, "sqrt": mpmath.sqrt, "rsqrt": lambda x: 1 / mpmath.sqrt(x), "sin": mpmath.sin,
    "cos": mpmath.cos, "tan": mpmath.tan, "asin": mpmath.asin, "acos": mpmath.acos, "atan": mpmath.atan,
    "sinh": mpmath.sinh, "cosh": mpmath.cosh, "tanh": mpmath.tanh, "asinh": mpmath.asinh, "acosh": mpmath.acosh,
    "atanh": mpmath.atanh, "erf": mpmath.erf, "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)), "fabs": abs,
    "floor": mpmath.floor, "ceil": mpmath.ceil, "trunc": lambda x: mpmath.sign(x) * mpmath.floor(abs(x)),
    "round": lambda x: mpmath.sign(x) * mpmath.floor(abs(x) + mpmath.mpf(0.5)), "nearbyint": mpmath.nint,
    "pow": mpmath.power, "atan2": mpmath.atan2, "hypot": mpmath.hypot,
}  # fmt: skip
POSITIVE = {"log", "log2", "log10", "sqrt", "rsqrt"}
UNIT = {"asin", "acos", "atanh"}


def call(name, *args, dtype=None):
    op = Op.get(f"tir.{name}")
    return Call(op, args, dtype or op.infer(args))


def inputs(name: str, dtype: str) -> list[float]:
    rng = np.random.default_rng(7)
    values = rng.standard_normal(12) * 3
    if name in POSITIVE:
        values = abs(values) + 0.01
    if name in UNIT:
        values = values / 20
    if name == "acosh":
        values = abs(values) + 1.1
    if name == "log1p":
        values = abs(values) - 0.5
    return [float(v) for v in values.astype(DataType(dtype).numpy)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", UNARY_MATH)
def test_unary_functions_against_mpmath(name, dtype, evaluate):
    ulp = {"float64": 2.0**-50, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]
    for x in inputs(name, dtype):
        p = Var("x", dtype)
        with mpmath.workprec(120):
            want = ORACLE[name](mpmath.mpf(x))
            got = evaluate(call(name, p), {p: x})
            assert abs(got - want) <= abs(want) * ulp * 1.0001 + mpmath.mpf(2) ** -149, x


@pytest.mark.parametrize("name", BINARY_MATH)
def test_binary_functions(name, evaluate):
    rng = np.random.default_rng(8)
    for x, y in rng.standard_normal((20, 2)).astype(np.float32).tolist():
        if name == "pow":
            x = abs(x)
        p, q = Var("x", "float32"), Var("y", "float32")
        got = evaluate(call(name, p, q), {p: x, q: y})
        if name in ORACLE:
            want = ORACLE[name](mpmath.mpf(x), mpmath.mpf(y))
            assert abs(got - want) <= abs(want) * 2.0**-24 * 1.0001
        elif name == "nextafter":
            assert got == float(np.nextafter(np.float32(x), np.float32(y)))
        else:
            assert got == float({"fmod": np.fmod, "copysign": np.copysign}[name](np.float32(x), np.float32(y)))


def test_special_values(evaluate):
    f = lambda v: const(v, "float32")
    assert evaluate(call("exp", f(1000.0))) == math.inf
    assert evaluate(call("exp", f(-math.inf))) == 0.0
    assert evaluate(call("log", f(0.0))) == -math.inf
    assert math.isnan(evaluate(call("log", f(-1.0)))) and math.isnan(evaluate(call("sqrt", f(-1.0))))
    assert evaluate(call("sigmoid", f(-1000.0))) == 0.0 and evaluate(call("sigmoid", f(1000.0))) == 1.0
    assert math.copysign(1, evaluate(call("round", f(-0.25)))) == -1
    assert evaluate(call("round", f(2.5))) == 3.0 and evaluate(call("nearbyint", f(2.5))) == 2.0
    assert evaluate(call("round", f(8388609.0))) == 8388609.0
    assert evaluate(call("floor", f(math.inf))) == math.inf and math.isnan(evaluate(call("ceil", f(math.nan))))
    assert evaluate(call("rsqrt", f(0.0))) == math.inf
    assert evaluate(call("pow", f(-2.0), f(3.0))) == -8.0 and math.isnan(evaluate(call("pow", f(-2.0), f(0.5))))
    assert evaluate(call("fma", f(2.0**12 + 1), f(2.0**12 + 1), f(-(2.0**24)))) == 2.0**13 + 1


def test_a_power_that_is_not_constant_is_c_s_and_one_of_a_half_is_a_root(evaluate):
    half = Var("y", "float32")
    for x, power, root in ((-0.0, 0.0, -0.0), (-math.inf, math.inf, math.nan), (4.0, 2.0, 2.0)):
        base = const(x, "float32")
        got = evaluate(call("pow", base, half), {half: 0.5}), evaluate(call("pow", base, const(0.5, "float32")))
        assert got[0] == power and math.copysign(1, got[0]) == 1
        assert (got[1] == root and math.copysign(1, got[1]) == math.copysign(1, root)) or (
            root != root and got[1] != got[1]
        )


def test_ldexp(evaluate):
    assert evaluate(call("ldexp", const(0.75, "float32"), const(3, "int32"))) == 6.0
    assert evaluate(call("ldexp", const(1.0, "float32"), const(200, "int32"))) == math.inf
    assert evaluate(call("ldexp", const(1.5, "float32"), const(-149, "int32"))) == 2.0**-148


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16", "float8_e5m2"])
def test_next_after_walks_the_codes(dtype):
    kind = DataType(dtype)
    width = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[kind.bits]
    codes = np.array([1, 2, 3, 0x38, 0x39, 0x3A], width)
    values = [float(v) for v in codes.view(kind.numpy)]
    for a, b in ((0, 1), (1, 2), (3, 4), (4, 5)):
        assert next_after(values[a], math.inf, kind) == values[b]
        assert next_after(values[b], 0.0, kind) == values[a]
        assert next_after(-values[b], 0.0, kind) == -values[a]
    assert next_after(0.0, 1.0, kind) == values[0] and next_after(0.0, -1.0, kind) == -values[0]
    assert next_after(1.0, 1.0, kind) == 1.0 and math.isnan(next_after(math.nan, 1.0, kind))


def test_classification(evaluate):
    for value in (1.0, math.inf, -math.inf, math.nan):
        arg = const(value, "float32")
        assert evaluate(call("isnan", arg)) == math.isnan(value)
        assert evaluate(call("isinf", arg)) == math.isinf(value)
        assert evaluate(call("isfinite", arg)) == math.isfinite(value)


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int8", "uint8", "int32", "uint64"])
def test_bit_operations_against_python(dtype, evaluate):
    kind = DataType(dtype)
    rng = np.random.default_rng(9)
    low, high = int(kind.min_value), int(kind.max_value)
    mask = 2**kind.bits - 1
    for _ in range(12):
        a, b = (int(v) for v in rng.integers(low, high, 2, dtype=kind.numpy, endpoint=True))
        p, q = Var("a", kind), Var("b", kind)
        for name, fn in {"bitwise_and": int.__and__, "bitwise_or": int.__or__, "bitwise_xor": int.__xor__}.items():
            assert evaluate(call(name, p, q), {p: a, q: b}) == fn(a, b)
        assert evaluate(call("bitwise_not", p), {p: a}) & mask == ~a & mask
        assert evaluate(call("popcount", p), {p: a}) & mask == bin(a & mask).count("1")
        assert (
            evaluate(call("clz", p), {p: a})
            == len(format(a & mask, f"0{kind.bits}b")) - len(bin(a & mask)) + 2 - ((a & mask) == 0) * -1
        )


def test_bool_bits(evaluate):
    for a in (False, True):
        for b in (False, True):
            args = (const(a, BOOL), const(b, BOOL))
            assert evaluate(call("bitwise_and", *args)) == (a and b)
            assert evaluate(call("bitwise_xor", *args)) == (a != b)


def test_fixed_point_multiplication(evaluate):
    i = lambda v: const(v, "int32")
    for x, y, s in ((100, 1 << 30, 1), (-77, 1518500250, 3), (1 << 20, 1 << 30, -2), (5, 1 << 30, 0)):
        exact = x * y * 2.0 ** (-31 - s)
        assert evaluate(call("q_multiply_shift", i(x), i(y), i(31), i(s))) == math.floor(exact + 0.5)
    exact = math.floor(100 * (1 << 30) * 2.0 ** (3 - 31 - 2) + 0.5)
    args = (i(100), i(1 << 30), i(3), i(2), i(31), const(True, BOOL), const(True, BOOL))
    assert evaluate(call("q_multiply_shift_per_axis", *args)) == exact


def test_integer_forms(evaluate):
    assert evaluate(call("pow", const(3, "int32"), const(5, "int32"))) == 243
    assert evaluate(call("pow", const(-3, "int8"), const(5, "int8"))) == (-243 + 128) % 256 - 128
    assert evaluate(call("large_uint_imm", const(5, "int64"), const(2, "int64"), dtype="uint64")) == 2 * 2**32 + 5
    a, b = const(0x01FF0203, "int32"), const(0x04050607, "int32")
    assert evaluate(call("dp4a", a, b, const(10, "int32"))) == 10 + 3 * 7 + 2 * 6 + -1 * 5 + 1 * 4


def test_a_function_without_meaning_on_a_type(evaluate):
    with pytest.raises(InterpreterError, match="no meaning on int32"):
        evaluate(call("exp", const(1, "int32")))
