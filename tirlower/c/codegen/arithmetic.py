"""Integers and floats in C: sums that wrap, quotients, comparisons, conversions; on values, whatever node asks.

Signed arithmetic that leaves its type is undefined in C: where the ranges of the operands do not exclude it, it is done
on unsigned numbers and converted back.
"""

from __future__ import annotations

from typing import Final

from tirlower.arith.bounds import BINARY
from tirlower.c.codegen.state import FunctionState
from tirlower.c.codegen.values import (
    COMPARE,
    EQUAL,
    PRODUCT,
    SUM,
    UNARY,
    Kind,
    Value,
    float_literal,
    in_range,
    int_literal,
    is_narrow_float,
    kind_of,
    memory_bits,
    type_range,
    value_type,
)
from tirlower.diagnostics import DivisionByZeroError
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import EQ, GE, GT, LE, LT, NE, Add, Div, FloorDiv, FloorMod, Min, Mod, Mul, Sub

__all__ = ["arithmetic", "compare", "convert", "divide", "extremum", "negated", "rounded", "wrapped"]

INDEX: Final = DataType("int64")
_SIGN: Final[dict[type, str]] = {Add: "+", Sub: "-", Mul: "*"}
_COMPARE: Final[dict[type, str]] = {EQ: "==", NE: "!=", LT: "<", LE: "<=", GT: ">", GE: ">="}


def _depth(*values: Value) -> int:
    return 1 + max(value.depth for value in values)


def call(
    state: FunctionState, helper: str, *args: str, kind: Kind, low: int = 0, high: int = 0, depth: int = 1
) -> Value:
    """A call of a function of the runtime (``tir_…``) or of the C library."""
    if helper.startswith("tir_"):
        state.module.need(helper)
    return Value(f"{helper}({', '.join(args)})", kind, low=low, high=high, depth=depth)


def wrapped(state: FunctionState, value: Value, dtype: DataType) -> Value:
    """An integer, right in its lowest bits, as a value of an integer type."""
    low, high = type_range(dtype)
    kind, depth = kind_of(dtype), value.depth + 1
    if low <= value.low and value.high <= high:
        if kind.signed and value.kind.signed and (value.kind is kind or in_range(value.low, value.high, value.kind)):
            return value if not (kind is Kind.I32 and value.kind is Kind.I64) else value.cast(Kind.I32)
        return value.cast(kind)
    if dtype.bits == memory_bits(dtype):
        modular = value if value.kind in (Kind.U32, Kind.U64) and dtype.is_int else None
        return Value(f"({value_type(dtype)}){value.inside(UNARY)}", kind, UNARY, low, high, depth, modular)
    wide = value.cast(Kind.U64)
    if dtype.is_int:
        made = call(state, "tir_sx", wide.text, str(dtype.bits), kind=Kind.I64, low=low, high=high, depth=depth)
        return made.cast(kind)
    mask = (1 << dtype.bits) - 1
    made = Value(f"({wide.inside(UNARY)} & UINT64_C({mask:#x}))", Kind.U64, low=low, high=high, depth=depth)
    return made.cast(kind)


def _exact_range(cls: type, a: Value, b: Value) -> tuple[int, int]:
    low, high = BINARY[cls]((a.low, a.high), (b.low, b.high))
    return int(low), int(high)


def _unchanged(cls: type, a: Value, b: Value) -> Value | None:
    """The operand that is the result, where the other one is neutral; two numbers are one."""
    if a.constant is not None and b.constant is not None:
        low, _ = _exact_range(cls, a, b)
        if a.kind is b.kind is Kind.I32 and in_range(low, low, Kind.I32):
            return int_literal(low, Kind.I32)
    neutral = 1 if cls is Mul else 0
    if b.constant == neutral:
        return a
    return b if a.constant == neutral and cls is not Sub else None


def arithmetic(state: FunctionState, cls: type, dtype: DataType, a: Value, b: Value) -> Value:
    """A sum, difference or product."""
    sign, rank = _SIGN[cls], PRODUCT if cls is Mul else SUM
    if dtype.is_float:
        text = f"{a.inside(rank)} {sign} {b.inside(rank + 1)}"
        return rounded(state, Value(text, kind_of(dtype), rank, depth=_depth(a, b)), dtype)
    same = _unchanged(cls, a, b)
    if same is not None:
        return wrapped(state, same, dtype)
    low, high = _exact_range(cls, a, b)
    least, most = type_range(dtype)
    kind = kind_of(dtype)
    fits = least <= low and high <= most
    if fits or (kind is Kind.I32 and in_range(low, high, Kind.I32)):
        if kind.signed and not in_range(low, high, Kind.I32) and Kind.I64 not in (a.kind, b.kind):
            a = a.cast(Kind.I64)
        made = a.kind if a.kind is b.kind else Kind.I64 if kind.signed else kind
    else:
        made = Kind.U32 if dtype.bits <= 32 else Kind.U64
        if dtype.bits != memory_bits(dtype):
            made = Kind.U64
        if not (a.kind is made and b.kind is made):
            a, b = a.cast(made), b.cast(made)
    text = f"{a.inside(rank)} {sign} {b.inside(rank + 1)}"
    return wrapped(state, Value(text, made, rank, low, high, _depth(a, b)), dtype)


def negated(state: FunctionState, dtype: DataType, a: Value) -> Value:
    """Zero less a value."""
    zero = float_literal(0.0, dtype) if dtype.is_float else int_literal(0, kind_of(dtype))
    return arithmetic(state, Sub, dtype, zero, a)


def rounded(state: FunctionState, value: Value, dtype: DataType) -> Value:
    """A float, computed in the type's kind or exactly, rounded to the type."""
    if is_narrow_float(dtype):
        return call(state, f"tir_{dtype.element}", value.text, kind=Kind.F32, depth=value.depth + 1)
    return value


def divide(state: FunctionState, cls: type, dtype: DataType, a: Value, b: Value, span: object = None) -> Value:
    """A quotient or remainder, of integers or floats; a divisor of zero fails the call."""
    if dtype.is_float:
        return _divide_floats(state, cls, dtype, a, b)
    if b.low <= 0 <= b.high:
        b = state.spill(b, dtype)
        lanes = state.lane is not None
        a = a if lanes else state.spill(a, dtype)
        text = "division by zero" if lanes else "division by zero: {0} divided by 0"
        shown = [] if lanes else [(a, dtype)]
        state.fail_if(
            f"{b.text} == 0",
            DivisionByZeroError,
            f"{text} in `{state.name}`",
            shown,
            span or state.span,  # type: ignore[arg-type]
        )
    least, most = type_range(dtype)
    quotient = cls in (Div, FloorDiv)
    if a.low >= 0 and b.low >= 0:
        sign = "/" if quotient else "%"
        text = f"{a.inside(PRODUCT)} {sign} {b.inside(PRODUCT + 1)}"
        low, high = (
            (a.low // max(b.high, 1), a.high // max(b.low, 1)) if quotient else (0, min(a.high, max(b.high, 1) - 1))
        )
        kind = a.kind if a.kind is b.kind else Kind.I64 if kind_of(dtype).signed else kind_of(dtype)
        return wrapped(state, Value(text, kind, PRODUCT, low, high, _depth(a, b)), dtype)
    width = 32 if dtype.bits <= 32 else 64
    name = f"tir_{'floor' if cls in (FloorDiv, FloorMod) else 'trunc'}{'div' if quotient else 'mod'}_i{width}"
    if quotient:
        most = max(abs(least), abs(most)) if b.low <= -1 <= b.high and a.low <= least else most
        low, high = least, most
    else:
        reach = max(abs(b.low), abs(b.high), 1) - 1
        low, high = (0, reach) if cls is FloorMod and b.low > 0 else (-reach, reach)
    kind = Kind.I32 if width == 32 else Kind.I64
    if not in_range(low, high, kind):
        low, high = type_range(DataType(f"int{width}"))  # the function has wrapped it
    return wrapped(state, call(state, name, a.text, b.text, kind=kind, low=low, high=high, depth=_depth(a, b)), dtype)


def _divide_floats(state: FunctionState, cls: type, dtype: DataType, a: Value, b: Value) -> Value:
    end = "" if dtype.bits == 64 else "f"
    kind = kind_of(dtype)
    if cls is Mod:
        return call(state, f"fmod{end}", a.text, b.text, kind=kind, depth=_depth(a, b))
    if cls is not Div:
        helper = f"tir_floor{'div' if cls is FloorDiv else 'mod'}{end}"
        return rounded(state, call(state, helper, a.text, b.text, kind=kind, depth=_depth(a, b)), dtype)
    text = f"{a.inside(PRODUCT)} / {b.inside(PRODUCT + 1)}"
    return rounded(state, Value(text, kind, PRODUCT, depth=_depth(a, b)), dtype)


def extremum(state: FunctionState, cls: type, dtype: DataType, a: Value, b: Value) -> Value:
    """The smaller or the greater of two; of a NaN and a number, the number."""
    least = cls is Min
    if dtype.is_float:
        name = "tir_fmin" if least else "tir_fmax"
        made = call(state, name, a.text, b.text, kind=Kind.F64, depth=_depth(a, b))
        return made if dtype.bits == 64 else made.cast(Kind.F32)
    kind = a.kind if a.kind is b.kind else Kind.I64 if kind_of(dtype).signed else kind_of(dtype)
    a, b = (v if v.is_name else state.spill(v) for v in (a, b))
    choose = min if least else max
    text = f"({a.text} {'<' if least else '>'} {b.text} ? {a.text} : {b.text})"
    return Value(text, kind, low=choose(a.low, b.low), high=choose(a.high, b.high), depth=1)


def compare(cls: type, a: Value, b: Value) -> Value:
    """A comparison; with a NaN, only NE is true."""
    rank = EQUAL if cls in (EQ, NE) else COMPARE
    text = f"{a.inside(SUM)} {_COMPARE[cls]} {b.inside(SUM)}"
    return Value(text, Kind.I32, rank, 0, 1, _depth(a, b))


def convert(state: FunctionState, value: Value, source: DataType, target: DataType) -> Value:
    """A value of one type as another."""
    source, target = source.element, target.element
    if source is target:
        return value
    depth = value.depth + 1
    if target.is_bool:
        zero = "NULL" if source.is_handle else "0.0f" if source.is_float else "0"
        return Value(f"{value.inside(SUM)} != {zero}", Kind.I32, EQUAL, 0, 1, depth)
    if target.is_integral and source.is_float:
        low, high = type_range(target)
        if target.is_int:
            ends = [int_literal(end, Kind.I64).text for end in (low, high)]
            made = call(state, "tir_to_int", value.text, *ends, kind=Kind.I64, low=low, high=high, depth=depth)
        else:
            end = f"UINT64_C({high})"
            made = call(state, "tir_to_uint", value.text, end, kind=Kind.U64, low=low, high=high, depth=depth)
        return made.cast(kind_of(target))
    if target.is_integral and source.is_integral:
        return wrapped(state, value, target)
    if target.is_integral and source.is_handle:
        wide = Value(
            f"(uint64_t)(uintptr_t){value.inside(UNARY)}", Kind.U64, UNARY, *type_range(DataType("uint64")), depth
        )
        return wrapped(state, wide, target)
    if target.is_float and source.is_float:
        if is_narrow_float(target):
            return rounded(state, value, target)
        return value.cast(kind_of(target))
    if target.is_float and source.is_integral:
        if not is_narrow_float(target):
            return Value(f"({kind_of(target).value}){value.inside(UNARY)}", kind_of(target), UNARY, depth=depth)
        if source.bits > 53:
            name = "tir_odd_i64" if source.is_int else "tir_odd_u64"
            value = call(state, name, value.text, kind=Kind.F64, depth=depth)
        return rounded(state, value, target)
    if target.is_handle and source.is_handle:
        return value
    if target.is_handle and source.is_integral:
        return Value(f"(void *)(uintptr_t){value.inside(UNARY)}", Kind.POINTER, UNARY, depth=depth)
    raise state.error(f"there is no conversion from {source!s} to {target!s}")
