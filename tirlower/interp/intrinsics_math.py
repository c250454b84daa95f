"""Mathematical functions and bit operations.

Functions are computed in float64 by NumPy (``erf`` by libm) and rounded to the type: for types of 32 bits and fewer
the result is correctly rounded but for rare near-ties, for float64 it is NumPy's. Infinities and NaNs follow IEEE.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from tirlower.diagnostics import InterpreterError
from tirlower.interp.expressions import ExpressionCompiler, intrinsic, lifted
from tirlower.interp.scope import Value
from tirlower.interp.values import (
    Datum,
    Fault,
    Function,
    bits_of,
    from_bits,
    fused_multiply_add,
    integer_wrapper,
    rounder,
    shift,
    true_divide,
)
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Broadcast, Call, FloatImm
from tirlower.ir.intrinsics.arithmetic import BINARY_MATH, UNARY_MATH

__all__ = ["FLOAT_FUNCTIONS", "float_function", "next_after"]


def _whole(fn: Callable[[float], float]) -> Callable[[float], float]:
    """A rounding function that keeps infinities, NaNs and the sign of zero."""
    return lambda x: math.copysign(float(fn(x)), x) if math.isfinite(x) else x


def _half_away(x: float) -> float:
    whole = math.trunc(x)
    return whole + math.copysign(1.0, x) if abs(x - whole) >= 0.5 else whole


def _sigmoid(x: float) -> float:
    if x >= 0.0:
        return 1.0 / (1.0 + float(np.exp(-x)))
    grown = float(np.exp(x))
    return grown / (1.0 + grown)  # a NaN comes here and stays


def _power(x: float, y: float) -> float:
    """C's power. NumPy's takes a root for an exponent of 0.5, which differs of -0.0 and of minus infinity."""
    if y == 0.5 and (x == 0.0 or x == -math.inf):
        return abs(x)
    return float(np.power(x, y))


def _ldexp(x: float, power: float) -> float:
    try:
        return math.ldexp(x, int(power))
    except OverflowError:
        return math.copysign(math.inf, x)


FLOAT_FUNCTIONS: dict[str, Function] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: np.power(10.0, x),
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: true_divide(1.0, float(np.sqrt(x))),
    "cbrt": np.cbrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": math.erf,
    "erfc": math.erfc,
    "sigmoid": _sigmoid,
    "fabs": abs,
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "trunc": _whole(math.trunc),
    "round": _whole(_half_away),
    "nearbyint": _whole(round),
    "pow": _power,
    "atan2": np.arctan2,
    "fmod": np.fmod,
    "copysign": math.copysign,
    "hypot": np.hypot,
    "ldexp": _ldexp,
    "fmin": np.fmin,
    "fmax": np.fmax,
}
"""Functions of Python floats by name, in float64."""


@functools.cache
def float_function(name: str, dtype: DataType) -> Function:
    """A mathematical function on the scalars of a float type, rounded to it."""
    if name == "nextafter":
        return lambda x, y: next_after(x, y, dtype.element)
    if name == "fma":
        return lambda a, b, c: fused_multiply_add(a, b, c, dtype)
    compute, fix = FLOAT_FUNCTIONS[name], rounder(dtype.element)
    return lambda *args: fix(float(compute(*args)))


def next_after(x: float, y: float, dtype: DataType) -> float:
    """The next value of a float type from ``x`` toward ``y``."""
    if x != x or y != y:
        return math.nan
    if x == y:
        return y
    if x == 0.0:
        return math.copysign(float(from_bits(1, dtype, 1)), y)
    step = 1 if (y > x) == (x > 0) else -1
    return float(from_bits(bits_of(x, dtype) + step, dtype, 1))


def _integer_power(dtype: DataType) -> Callable[[int, int], int]:
    wrap = integer_wrapper(dtype.element)

    def power(x: int, y: int) -> int:
        if y < 0:
            raise Fault(f"a negative power of an integer: {x} to the {y}")
        return int(wrap(pow(x, y, 1 << dtype.bits)))

    return power


_POWERS: dict[float | None, Callable[[float, Callable[[float], float]], float]] = {
    0.0: lambda x, fix: 1.0,
    1.0: lambda x, fix: x,
    2.0: lambda x, fix: fix(x * x),
    3.0: lambda x, fix: fix(fix(x * x) * x),
    -1.0: lambda x, fix: fix(true_divide(1.0, x)),
    0.5: lambda x, fix: fix(float(np.sqrt(x))),
}
"""Powers with a constant exponent that are operations of their own, as NumPy has them; each is rounded."""


def _constant_exponent(call: Call) -> float | None:
    value = call.args[1].value if isinstance(call.args[1], Broadcast) else call.args[1]
    return float(value.value) if isinstance(value, FloatImm) else None


@intrinsic(*[f"tir.{name}" for name in (*UNARY_MATH, *BINARY_MATH)], "tir.ldexp", "tir.fma")
def _math(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    name, kind = call.op.name.removeprefix("tir."), call.dtype
    if kind.is_float:
        exponent = _constant_exponent(call) if name == "pow" else None
        if exponent in _POWERS:
            fix = rounder(kind.element)
            return lifted(lambda x, _: _POWERS[exponent](float(x), fix), args, kind.is_vector)
        return lifted(float_function(name, kind), args, kind.is_vector)
    if kind.is_integral:
        wrap = integer_wrapper(kind.element)
        exact: dict[str, Function] = {
            "pow": _integer_power(kind),
            "fabs": lambda x: wrap(abs(x)),
            "fma": lambda a, b, c: wrap(a * b + c),
            "fmod": lambda a, b: int(math.fmod(a, b)) if b else _zero_modulus(a),
        }
        if name in ("floor", "ceil", "round", "trunc", "nearbyint"):
            return args[0]
        if name in exact:
            return lifted(exact[name], args, kind.is_vector)
    raise InterpreterError(f"{call.op.name} has no meaning on {kind!s}", origin="interpret", span=call.span)


def _zero_modulus(a: int) -> int:
    raise Fault(f"division by zero: fmod({a}, 0)")


@intrinsic("tir.isnan", "tir.isinf", "tir.isfinite")
def _classify(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    fn = {"tir.isnan": math.isnan, "tir.isinf": math.isinf, "tir.isfinite": math.isfinite}[call.op.name]
    return lifted(fn, args, call.dtype.is_vector)


@intrinsic("tir.bitwise_and", "tir.bitwise_or", "tir.bitwise_xor", "tir.bitwise_not")
def _bitwise(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    wrap = integer_wrapper(call.dtype.element)
    table: dict[str, Function] = {
        "tir.bitwise_and": lambda a, b: a & b,
        "tir.bitwise_or": lambda a, b: a | b,
        "tir.bitwise_xor": lambda a, b: a ^ b,
        "tir.bitwise_not": lambda a: wrap(~int(a)),
    }
    return lifted(table[call.op.name], args, call.dtype.is_vector)


@intrinsic("tir.shift_left", "tir.shift_right")
def _shift(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    return lifted(shift(call.op.name, call.dtype), args, call.dtype.is_vector)


@intrinsic("tir.popcount", "tir.clz")
def _count(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    dtype = call.args[0].dtype
    mask = (1 << dtype.bits) - 1
    if call.op.name == "tir.popcount":
        wrap = integer_wrapper(call.dtype.element)
        return lifted(lambda x: wrap((int(x) & mask).bit_count()), args, dtype.is_vector)
    return lifted(lambda x: dtype.bits - (int(x) & mask).bit_length(), args, dtype.is_vector)


def _fixed_point(x: int, y: int, left: int, right: int) -> int:
    """``x * 2**left * y`` shifted right with halves rounded up."""
    if right < 0 or left < 0:
        raise Fault(f"a fixed-point product is shifted by at least 0 bits, got {left} left and {right} right")
    product = (x << left) * y
    return (product + (1 << (right - 1)) >> right) if right else product


@intrinsic("tir.q_multiply_shift")
def _q_multiply_shift(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    wrap = integer_wrapper(call.dtype.element)
    return lifted(lambda x, y, q, s: wrap(_fixed_point(x, y, max(-s, 0), q + max(s, 0))), args, call.dtype.is_vector)


@intrinsic("tir.q_multiply_shift_per_axis")
def _q_multiply_shift_per_axis(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    wrap = integer_wrapper(call.dtype.element)
    return lifted(
        lambda x, y, ls, rs, q, has_ls, has_rs: wrap(
            _fixed_point(x, y, ls if has_ls else 0, q + (rs if has_rs else 0))
        ),
        args,
        call.dtype.is_vector,
    )


@intrinsic("tir.large_uint_imm")
def _large_uint_imm(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    return lifted(lambda low, high: (high & 0xFFFFFFFF) << 32 | (low & 0xFFFFFFFF), args, False)


@intrinsic("tir.dp4a")
def _dp4a(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    wrap = integer_wrapper(call.dtype)
    a_kind, b_kind = call.args[0].dtype, call.args[1].dtype

    def quarters(value: Datum, kind: DataType) -> tuple[int, ...]:
        if kind.is_vector:
            return tuple(value)
        byte = DataType("uint8x4" if kind.is_uint else "int8x4")
        return tuple(from_bits(bits_of(value, kind), byte, 4))

    def dot(a: Datum, b: Datum, c: int) -> int:
        pairs = zip(quarters(a, a_kind), quarters(b, b_kind), strict=True)
        return int(wrap(c + sum(x * y for x, y in pairs)))

    return lifted(dot, args, False)
