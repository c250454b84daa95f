"""Mathematics and bits in C text: functions of the C library, and operations on the patterns of integers."""

from __future__ import annotations

from typing import Final

from tirlower.c.codegen.arithmetic import arithmetic, call, convert, divide, extremum, negated, rounded, wrapped
from tirlower.c.codegen.expressions import call_rule, chosen, operands
from tirlower.c.codegen.state import FunctionState
from tirlower.c.codegen.values import (
    BIT,
    COMPARE,
    EQUAL,
    UNARY,
    Kind,
    Value,
    float_literal,
    int_literal,
    is_narrow_float,
    kind_of,
    type_range,
)
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Add, Broadcast, Call, Div, FloatImm, IntImm, Max, Mod, Mul
from tirlower.ir.intrinsics.arithmetic import BINARY_MATH, UNARY_MATH

__all__ = ["bitwise", "depth_of", "pattern"]


def depth_of(*values: Value) -> int:
    """The nesting of text made of these."""
    return 1 + max((value.depth for value in values), default=0)


def _unsigned(value: Value) -> Value:
    return value.cast(Kind.U64)


# -- mathematics -----------------------------------------------------------------------------------------------------


def _library(state: FunctionState, name: str, dtype: DataType, *args: Value) -> Value:
    """A function of the C library, in the type's kind."""
    end = "" if dtype.bits == 64 else "f"
    return call(state, f"{name}{end}", *[a.text for a in args], kind=kind_of(dtype), depth=depth_of(*args))


def _float_math(state: FunctionState, name: str, dtype: DataType, args: list[Value]) -> Value:
    one = float_literal(1.0, dtype)
    if name == "exp10":
        # C has none before C23: in double, whose error a float does not show.
        text = f"pow(10.0, {args[0].text})"
        made = Value(text, Kind.F64, depth=depth_of(*args))
        return made if dtype.bits == 64 else made.cast(Kind.F32)
    if name == "rsqrt":
        root = _library(state, "sqrt", dtype, *args)
        return Value(f"{one.text} / {root.text}", kind_of(dtype), COMPARE, depth=depth_of(root))
    if name == "sigmoid":
        made = call(state, "tir_sigmoid", args[0].text, kind=Kind.F64, depth=depth_of(*args))
        return made if dtype.bits == 64 else made.cast(Kind.F32)
    return _library(state, name, dtype, *args)


@call_rule(*[name for name in (*UNARY_MATH, *BINARY_MATH) if name not in ("nextafter", "pow")])
def _math(state: FunctionState, op: Call) -> Value:
    name, dtype, args = op.op.name.removeprefix("tir."), op.dtype.element, operands(state, op.args)
    if dtype.is_float:
        return rounded(state, _float_math(state, name, dtype, args), dtype)
    if dtype.is_integral:
        if name in ("floor", "ceil", "round", "trunc", "nearbyint"):
            return args[0]
        if name == "fabs":
            a = state.spill(args[0], dtype)
            if a.low >= 0:
                return a
            minus = negated(state, dtype, a)
            return chosen(state, Value(f"{a.text} < 0", Kind.I32, COMPARE, 0, 1, 1), dtype, lambda: minus, lambda: a)
        if name == "fmod":
            return divide(state, Mod, dtype, args[0], args[1], op.span)
    raise _no_meaning(state, op)


def _no_meaning(state: FunctionState, op: Call) -> Exception:
    return state.error(f"{op.op.name} has no meaning on {op.dtype!s}: {op}", op, "convert the argument to a float type")


@call_rule("pow")
def _pow(state: FunctionState, op: Call) -> Value:
    dtype, exponent = op.dtype.element, op.args[1]
    constant = exponent.value if isinstance(exponent, Broadcast) else exponent
    power = constant.value if isinstance(constant, FloatImm) else None
    x, y = operands(state, op.args)
    if dtype.is_integral:
        made = call(
            state,
            "tir_power",
            _unsigned(x).text,
            _unsigned(y).text,
            kind=Kind.U64,
            high=(1 << 64) - 1,
            depth=depth_of(x, y),
        )
        return wrapped(state, made, dtype)
    if not dtype.is_float:
        raise _no_meaning(state, op)
    one = float_literal(1.0, dtype)
    x = state.spill(x, dtype)
    if power == 0.0:
        return one
    if power == 1.0:
        return x
    if power == -1.0:
        return divide(state, Div, dtype, one, x)
    if power == 0.5:
        return rounded(state, _library(state, "sqrt", dtype, x), dtype)
    if power in (2.0, 3.0):
        square = arithmetic(state, Mul, dtype, x, x)
        return square if power == 2.0 else arithmetic(state, Mul, dtype, square, x)
    return rounded(state, _library(state, "pow", dtype, x, y), dtype)


@call_rule("fma")
def _fma(state: FunctionState, op: Call) -> Value:
    dtype, args = op.dtype.element, operands(state, op.args)
    if dtype.is_integral:
        return arithmetic(state, Add, dtype, arithmetic(state, Mul, dtype, args[0], args[1]), args[2])
    if not dtype.is_float:
        raise _no_meaning(state, op)
    if is_narrow_float(dtype):
        made = call(state, "tir_odd_fma", *[a.text for a in args], kind=Kind.F64, depth=depth_of(*args))
        return rounded(state, made, dtype)
    return _library(state, "fma", dtype, *args)


@call_rule("ldexp")
def _ldexp(state: FunctionState, op: Call) -> Value:
    dtype, (x, power) = op.dtype.element, operands(state, op.args)
    if not dtype.is_float:
        raise _no_meaning(state, op)
    power = convert(state, power, op.args[1].dtype, DataType("int32"))
    if is_narrow_float(dtype):
        made = Value(f"ldexp({x.text}, {power.text})", Kind.F64, depth=depth_of(x, power))
        return rounded(state, made, dtype)
    return _library(state, "ldexp", dtype, x, power)


@call_rule("nextafter")
def _next_after(state: FunctionState, op: Call) -> Value:
    dtype, args = op.dtype.element, operands(state, op.args)
    if not dtype.is_float or dtype == "float8_e8m0fnu":
        raise _no_meaning(state, op)
    if not is_narrow_float(dtype):
        return _library(state, "nextafter", dtype, *args)
    form = state.module.need(f"tir_{dtype}_format")
    return call(state, "tir_next", *[a.text for a in args], f"&{form}", kind=Kind.F32, depth=depth_of(*args))


@call_rule("isnan", "isinf", "isfinite")
def _classify(state: FunctionState, op: Call) -> Value:
    (x,), short = operands(state, op.args), op.op.name.removeprefix("tir.")
    if not op.args[0].dtype.is_float:
        return int_literal(int(short == "isfinite"), Kind.I32)
    return Value(f"{short}({x.text}) != 0", Kind.I32, EQUAL, 0, 1, depth_of(x))


# -- bits ------------------------------------------------------------------------------------------------------------


def _need_integers(state: FunctionState, op: Call) -> DataType:
    dtype = op.args[0].dtype.element
    if not dtype.is_integral:
        raise state.error(f"{op.op.name} has no meaning on {dtype!s}: {op}", op, "use T.reinterpret first")
    return dtype


_BITWISE: Final = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}


@call_rule(*_BITWISE)
def _bitwise(state: FunctionState, op: Call) -> Value:
    dtype = _need_integers(state, op)
    a, b = operands(state, op.args)
    return bitwise(_BITWISE[op.op.name.removeprefix("tir.")], dtype, a, b)


def bitwise(sign: str, dtype: DataType, a: Value, b: Value) -> Value:
    """A bitwise operation on integers of a type."""
    low, high = type_range(dtype)
    if sign == "&":
        ends = [v.high for v in (a, b) if v.low >= 0]
        low, high = (0, min(ends)) if ends else (low, high)
    elif a.low >= 0 and b.low >= 0:
        low, high = 0, (1 << max(a.high, b.high).bit_length()) - 1
    kind = a.kind if a.kind is b.kind else Kind.I64
    return Value(f"{a.inside(UNARY)} {sign} {b.inside(UNARY)}", kind, BIT, low, high, depth_of(a, b))


@call_rule("bitwise_not")
def _not(state: FunctionState, op: Call) -> Value:
    dtype = _need_integers(state, op)
    (a,) = operands(state, op.args)
    if dtype.is_int:
        return Value(f"~{a.inside(UNARY)}", a.kind, UNARY, *type_range(dtype), depth_of(a))
    mask = int_literal(type_range(dtype)[1], kind_of(dtype))
    return bitwise("^", dtype, a, mask)


@call_rule("shift_left", "shift_right")
def _shift(state: FunctionState, op: Call) -> Value:
    """By less than 0, or the type's width and more, all bits go out."""
    dtype = _need_integers(state, op)
    a, by = operands(state, op.args)
    by = convert(state, by, op.args[1].dtype, dtype)
    bits = dtype.bits
    inside = by.low >= 0 and by.high < bits
    if op.op.name == "tir.shift_left":
        if inside and by.constant is not None:
            factor = 1 << by.constant
            return (
                arithmetic(state, Mul, dtype, a, int_literal(factor, kind_of(dtype) if not dtype.is_int else Kind.I32))
                if (not dtype.is_int or factor < 1 << min(31, bits - 1))
                else _shl(state, dtype, a, by)
            )
        return _shl(state, dtype, a, by)
    if inside and a.low >= 0:
        high = a.high >> by.low
        return wrapped(
            state, Value(f"{a.inside(UNARY)} >> {by.inside(UNARY)}", a.kind, BIT, 0, high, depth_of(a, by)), dtype
        )
    if dtype.is_int:
        made = call(
            state,
            "tir_sar",
            a.text,
            _unsigned(by).text,
            str(bits),
            kind=Kind.I64,
            low=a.low,
            high=max(a.high, 0),
            depth=depth_of(a, by),
        )
        low, high = min(a.low, 0), max(a.high, 0)
        made = Value(made.text, Kind.I64, made.rank, low, high, made.depth)
        return wrapped(state, made, dtype)
    made = call(
        state, "tir_shr", a.text, _unsigned(by).text, str(bits), kind=Kind.U64, high=a.high, depth=depth_of(a, by)
    )
    return wrapped(state, made, dtype)


def _shl(state: FunctionState, dtype: DataType, a: Value, by: Value) -> Value:
    args = (_unsigned(a).text, _unsigned(by).text, str(dtype.bits))
    made = call(state, "tir_shl", *args, kind=Kind.U64, high=(1 << 64) - 1, depth=depth_of(a, by))
    return wrapped(state, made, dtype)


def pattern(state: FunctionState, value: Value, dtype: DataType) -> Value:
    """The bits of an integer of a type, without those of its sign beyond them."""
    unsigned = DataType.of("uint", max(dtype.bits, 1))
    return wrapped(state, value, unsigned).cast(Kind.U64)


@call_rule("popcount")
def _popcount(state: FunctionState, op: Call) -> Value:
    dtype = _need_integers(state, op)
    (a,) = operands(state, op.args)
    bits = pattern(state, a, dtype)
    made = call(state, "tir_popcount", bits.text, kind=Kind.I32, high=dtype.bits, depth=depth_of(bits))
    return wrapped(state, made, op.dtype.element)


@call_rule("clz")
def _clz(state: FunctionState, op: Call) -> Value:
    dtype = _need_integers(state, op)
    (a,) = operands(state, op.args)
    bits = pattern(state, a, dtype)
    made = call(state, "tir_clz", bits.text, str(dtype.bits), kind=Kind.I32, high=dtype.bits, depth=depth_of(bits))
    return wrapped(state, made, op.dtype.element)


@call_rule("large_uint_imm")
def _large(state: FunctionState, op: Call) -> Value:
    low, high = op.args
    if not isinstance(low, IntImm) or not isinstance(high, IntImm):
        raise state.error(f"large_uint_imm takes constants, got {low} and {high}", op)
    number = (high.value & 0xFFFFFFFF) << 32 | (low.value & 0xFFFFFFFF)
    return wrapped(state, int_literal(number, Kind.U64), op.dtype.element)


@call_rule("q_multiply_shift")
def _q_multiply_shift(state: FunctionState, op: Call) -> Value:
    x, y, q, s = operands(state, op.args)
    kind = op.args[3].dtype.element
    s = state.spill(s, kind)
    zero = int_literal(0, kind_of(kind))
    left = extremum(state, Max, kind, negated(state, kind, s), zero)
    right = arithmetic(state, Add, kind, q, extremum(state, Max, kind, s, zero))
    return _fixed_point(state, op, x, y, left, right)


@call_rule("q_multiply_shift_per_axis")
def _q_multiply_shift_per_axis(state: FunctionState, op: Call) -> Value:
    x, y, left, right, q, has_left, has_right = operands(state, op.args)
    kinds = [arg.dtype.element for arg in op.args]
    flags = [
        convert(state, flag, kind, DataType("bool")) for flag, kind in ((has_left, kinds[5]), (has_right, kinds[6]))
    ]
    zero = int_literal(0, kind_of(kinds[2]))
    left = chosen(state, flags[0], kinds[2], lambda: left_in, lambda: zero) if (left_in := left) else left
    more = chosen(state, flags[1], kinds[3], lambda: right, lambda: zero)
    return _fixed_point(state, op, x, y, left, arithmetic(state, Add, kinds[4], q, more))


def _fixed_point(state: FunctionState, op: Call, x: Value, y: Value, left: Value, right: Value) -> Value:
    args = (x.text, y.text, left.text, right.text)
    made = call(state, "tir_fixed_point", *args, kind=Kind.U64, high=(1 << 64) - 1, depth=depth_of(x, y, left, right))
    return wrapped(state, made, op.dtype.element)
