"""Calls in C text: mathematics, bits, pointers, atomic operations (of one thread), functions of C and of the module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tirlower.c.codegen.arithmetic import arithmetic, call, convert, divide, extremum, negated, rounded, wrapped
from tirlower.c.codegen.expressions import at_lane, call_rule, chosen, index_of, lane_arithmetic, operands, value_of
from tirlower.c.codegen.memory import address, from_memory, moved
from tirlower.c.codegen.state import HEADER_NAMES, FunctionState
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
    memory_bits,
    memory_type,
    type_range,
    value_type,
)
from tirlower.diagnostics import RuntimeAssertError, nearest_name
from tirlower.emit.errors import escape_template
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Add, Broadcast, BufferLoad, Call, Div, FloatImm, IntImm, Max, Min, Mod, Mul, StringImm
from tirlower.ir.intrinsics.arithmetic import BINARY_MATH, UNARY_MATH
from tirlower.ir.op import GlobalVar

__all__: list[str] = []

DEEPEST_CALLS: Final = 1000
"""C does not say how much stack is left: calls in a circle may nest so deep, and their arrays are on the heap."""

_U64: Final = DataType("uint64")
_I64: Final = DataType("int64")


def _depth(*values: Value) -> int:
    return 1 + max((value.depth for value in values), default=0)


def _bits64(value: Value) -> Value:
    return value.cast(Kind.U64)


# -- mathematics -----------------------------------------------------------------------------------------------------


def _library(state: FunctionState, name: str, dtype: DataType, *args: Value) -> Value:
    """A function of the C library, in the type's kind."""
    end = "" if dtype.bits == 64 else "f"
    return call(state, f"{name}{end}", *[a.text for a in args], kind=kind_of(dtype), depth=_depth(*args))


def _float_math(state: FunctionState, name: str, dtype: DataType, args: list[Value]) -> Value:
    one = float_literal(1.0, dtype)
    if name == "exp10":
        # C has none before C23: in double, whose error a float does not show.
        text = f"pow(10.0, {args[0].text})"
        made = Value(text, Kind.F64, depth=_depth(*args))
        return made if dtype.bits == 64 else made.cast(Kind.F32)
    if name == "rsqrt":
        root = _library(state, "sqrt", dtype, *args)
        return Value(f"{one.text} / {root.text}", kind_of(dtype), COMPARE, depth=_depth(root))
    if name == "sigmoid":
        made = call(state, "tir_sigmoid", args[0].text, kind=Kind.F64, depth=_depth(*args))
        return made if dtype.bits == 64 else made.cast(Kind.F32)
    return _library(state, name, dtype, *args)


@call_rule(*[name for name in (*UNARY_MATH, *BINARY_MATH) if name not in ("nextafter", "pow")])
def _math(state: FunctionState, op: Any) -> Value:
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


def _no_meaning(state: FunctionState, op: Any) -> Exception:
    return state.error(f"{op.op.name} has no meaning on {op.dtype!s}: {op}", op, "convert the argument to a float type")


@call_rule("pow")
def _pow(state: FunctionState, op: Any) -> Value:
    dtype, exponent = op.dtype.element, op.args[1]
    constant = exponent.value if isinstance(exponent, Broadcast) else exponent
    power = constant.value if isinstance(constant, FloatImm) else None
    x, y = operands(state, op.args)
    if dtype.is_integral:
        made = call(
            state, "tir_power", _bits64(x).text, _bits64(y).text, kind=Kind.U64, high=(1 << 64) - 1, depth=_depth(x, y)
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
def _fma(state: FunctionState, op: Any) -> Value:
    dtype, args = op.dtype.element, operands(state, op.args)
    if dtype.is_integral:
        return arithmetic(state, Add, dtype, arithmetic(state, Mul, dtype, args[0], args[1]), args[2])
    if not dtype.is_float:
        raise _no_meaning(state, op)
    if is_narrow_float(dtype):
        made = call(state, "tir_odd_fma", *[a.text for a in args], kind=Kind.F64, depth=_depth(*args))
        return rounded(state, made, dtype)
    return _library(state, "fma", dtype, *args)


@call_rule("ldexp")
def _ldexp(state: FunctionState, op: Any) -> Value:
    dtype, (x, power) = op.dtype.element, operands(state, op.args)
    if not dtype.is_float:
        raise _no_meaning(state, op)
    power = convert(state, power, op.args[1].dtype, DataType("int32"))
    if is_narrow_float(dtype):
        made = Value(f"ldexp({x.text}, {power.text})", Kind.F64, depth=_depth(x, power))
        return rounded(state, made, dtype)
    return _library(state, "ldexp", dtype, x, power)


@call_rule("nextafter")
def _next_after(state: FunctionState, op: Any) -> Value:
    dtype, args = op.dtype.element, operands(state, op.args)
    if not dtype.is_float or dtype == "float8_e8m0fnu":
        raise _no_meaning(state, op)
    if not is_narrow_float(dtype):
        return _library(state, "nextafter", dtype, *args)
    form = state.module.need(f"tir_{dtype}_format")
    return call(state, "tir_next", *[a.text for a in args], f"&{form}", kind=Kind.F32, depth=_depth(*args))


@call_rule("isnan", "isinf", "isfinite")
def _classify(state: FunctionState, op: Any) -> Value:
    (x,), short = operands(state, op.args), op.op.short
    if not op.args[0].dtype.is_float:
        return int_literal(int(short == "isfinite"), Kind.I32)
    return Value(f"{short}({x.text}) != 0", Kind.I32, EQUAL, 0, 1, _depth(x))


# -- bits ------------------------------------------------------------------------------------------------------------


def _need_integers(state: FunctionState, op: Any) -> DataType:
    dtype = op.args[0].dtype.element
    if not dtype.is_integral:
        raise state.error(f"{op.op.name} has no meaning on {dtype!s}: {op}", op, "use T.reinterpret first")
    return dtype


_BITWISE: Final = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}


@call_rule(*_BITWISE)
def _bitwise(state: FunctionState, op: Any) -> Value:
    dtype = _need_integers(state, op)
    a, b = operands(state, op.args)
    return _bits(_BITWISE[op.op.short], dtype, a, b)


def _bits(sign: str, dtype: DataType, a: Value, b: Value) -> Value:
    low, high = type_range(dtype)
    if sign == "&":
        ends = [v.high for v in (a, b) if v.low >= 0]
        low, high = (0, min(ends)) if ends else (low, high)
    elif a.low >= 0 and b.low >= 0:
        low, high = 0, (1 << max(a.high, b.high).bit_length()) - 1
    kind = a.kind if a.kind is b.kind else Kind.I64
    return Value(f"{a.inside(UNARY)} {sign} {b.inside(UNARY)}", kind, BIT, low, high, _depth(a, b))


@call_rule("bitwise_not")
def _not(state: FunctionState, op: Any) -> Value:
    dtype = _need_integers(state, op)
    (a,) = operands(state, op.args)
    if dtype.is_int:
        return Value(f"~{a.inside(UNARY)}", a.kind, UNARY, *type_range(dtype), _depth(a))
    mask = int_literal(type_range(dtype)[1], kind_of(dtype))
    return _bits("^", dtype, a, mask)


@call_rule("shift_left", "shift_right")
def _shift(state: FunctionState, op: Any) -> Value:
    """By less than 0, or the type's width and more, all bits go out."""
    dtype = _need_integers(state, op)
    a, by = operands(state, op.args)
    by = convert(state, by, op.args[1].dtype, dtype)
    bits = dtype.bits
    inside = by.low >= 0 and by.high < bits
    if op.op.short == "shift_left":
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
            state, Value(f"{a.inside(UNARY)} >> {by.inside(UNARY)}", a.kind, BIT, 0, high, _depth(a, by)), dtype
        )
    if dtype.is_int:
        made = call(
            state,
            "tir_sar",
            a.text,
            _bits64(by).text,
            str(bits),
            kind=Kind.I64,
            low=a.low,
            high=max(a.high, 0),
            depth=_depth(a, by),
        )
        low, high = min(a.low, 0), max(a.high, 0)
        made = Value(made.text, Kind.I64, made.rank, low, high, made.depth)
        return wrapped(state, made, dtype)
    made = call(state, "tir_shr", a.text, _bits64(by).text, str(bits), kind=Kind.U64, high=a.high, depth=_depth(a, by))
    return wrapped(state, made, dtype)


def _shl(state: FunctionState, dtype: DataType, a: Value, by: Value) -> Value:
    args = (_bits64(a).text, _bits64(by).text, str(dtype.bits))
    made = call(state, "tir_shl", *args, kind=Kind.U64, high=(1 << 64) - 1, depth=_depth(a, by))
    return wrapped(state, made, dtype)


def _pattern(state: FunctionState, value: Value, dtype: DataType) -> Value:
    """The bits of an integer of a type, without those of its sign beyond them."""
    unsigned = DataType.of("uint", max(dtype.bits, 1))
    return wrapped(state, value, unsigned).cast(Kind.U64)


@call_rule("popcount")
def _popcount(state: FunctionState, op: Any) -> Value:
    dtype = _need_integers(state, op)
    (a,) = operands(state, op.args)
    bits = _pattern(state, a, dtype)
    made = call(state, "tir_popcount", bits.text, kind=Kind.I32, high=dtype.bits, depth=_depth(bits))
    return wrapped(state, made, op.dtype.element)


@call_rule("clz")
def _clz(state: FunctionState, op: Any) -> Value:
    dtype = _need_integers(state, op)
    (a,) = operands(state, op.args)
    bits = _pattern(state, a, dtype)
    made = call(state, "tir_clz", bits.text, str(dtype.bits), kind=Kind.I32, high=dtype.bits, depth=_depth(bits))
    return wrapped(state, made, op.dtype.element)


@call_rule("large_uint_imm")
def _large(state: FunctionState, op: Any) -> Value:
    low, high = op.args
    if not isinstance(low, IntImm) or not isinstance(high, IntImm):
        raise state.error(f"large_uint_imm takes constants, got {low} and {high}", op)
    number = (high.value & 0xFFFFFFFF) << 32 | (low.value & 0xFFFFFFFF)
    return wrapped(state, int_literal(number, Kind.U64), op.dtype.element)


@call_rule("q_multiply_shift")
def _q_multiply_shift(state: FunctionState, op: Any) -> Value:
    x, y, q, s = operands(state, op.args)
    kind = op.args[3].dtype.element
    s = state.spill(s, kind)
    zero = int_literal(0, kind_of(kind))
    left = extremum(state, Max, kind, negated(state, kind, s), zero)
    right = arithmetic(state, Add, kind, q, extremum(state, Max, kind, s, zero))
    return _fixed_point(state, op, x, y, left, right)


@call_rule("q_multiply_shift_per_axis")
def _q_multiply_shift_per_axis(state: FunctionState, op: Any) -> Value:
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
    made = call(state, "tir_fixed_point", *args, kind=Kind.U64, high=(1 << 64) - 1, depth=_depth(x, y, left, right))
    return wrapped(state, made, op.dtype.element)


# -- bit patterns ----------------------------------------------------------------------------------------------------


def _to_bits(state: FunctionState, value: Value, dtype: DataType) -> Value:
    """The bits of a scalar as an unsigned number."""
    if dtype.is_integral:
        return _pattern(state, value, dtype)
    if dtype.is_handle:
        return convert(state, value, dtype, _U64)
    if is_narrow_float(dtype) and value.raw:
        high = (1 << dtype.bits) - 1
        return Value(value.raw, Kind.I32, low=0, high=high, depth=value.depth).cast(Kind.U64)
    name = {64: "tir_bits_f64", 32: "tir_bits_f32"}.get(dtype.bits, f"tir_{dtype}_bits")
    name = f"tir_{dtype}_bits" if is_narrow_float(dtype) else name
    made = call(state, name, value.text, kind=Kind.U32, high=(1 << dtype.bits) - 1, depth=_depth(value))
    return Value(made.text, Kind.U64 if dtype.bits == 64 else Kind.U32, made.rank, 0, made.high, made.depth).cast(
        Kind.U64
    )


def _of_bits(state: FunctionState, bits: Value, dtype: DataType) -> Value:
    if dtype.is_integral:
        return wrapped(state, bits, dtype)
    if dtype.is_handle:
        return convert(state, bits, _U64, dtype)
    name = f"tir_{dtype}_of" if is_narrow_float(dtype) else "tir_of_bits_f64" if dtype.bits == 64 else "tir_of_bits_f32"
    if dtype.bits < 64:
        bits = wrapped(state, bits, DataType.of("uint", memory_bits(dtype)))
    return call(state, name, bits.text, kind=kind_of(dtype), depth=_depth(bits))


@call_rule("reinterpret")
def _reinterpret(state: FunctionState, op: Any) -> Value:
    source, target = op.args[0].dtype, op.dtype
    have, want = source.bits * source.lanes, target.bits * target.lanes
    if have != want:
        raise state.error(
            f"cannot reinterpret {source!s} ({have} bits) as {target!s} ({want} bits)",
            op,
            "the two types must have as many bits; convert with T.Cast to change the width",
        )
    one, lane = op.args[0], state.lane if target.is_vector else int_literal(0, Kind.I32)
    assert lane is not None

    def part(at: Value) -> Value:
        value = at_lane(state, at, one) if source.is_vector else value_of(state, one)
        return _to_bits(state, value, source.element)

    if source.lanes == target.lanes:
        return _of_bits(state, part(lane), target.element)
    if source.bits > target.bits:
        several = source.bits // target.bits
        whole = part(lane_arithmetic(state, Div, lane, several))
        by = lane_arithmetic(state, Mod, lane, several)
        shift = arithmetic(state, Mul, _I64, by, int_literal(target.bits, Kind.I32))
        made = Value(f"{whole.inside(UNARY)} >> {shift.inside(UNARY)}", Kind.U64, BIT, 0, whole.high, _depth(whole))
        return _of_bits(state, made, target.element)
    several = target.bits // source.bits
    assert lane.constant is not None
    parts = [part(int_literal(lane.constant * several + i, Kind.I32)) for i in range(several)]
    text = " | ".join(f"{p.inside(UNARY)} << {i * source.bits}" if i else p.inside(UNARY) for i, p in enumerate(parts))
    text = " | ".join(f"({word})" for word in text.split(" | "))
    return _of_bits(state, Value(text, Kind.U64, BIT, 0, (1 << target.bits) - 1, _depth(*parts)), target.element)


@call_rule("vectorlow", "vectorhigh")
def _half(state: FunctionState, op: Any) -> Value:
    (one,) = op.args
    if not one.dtype.is_vector:
        return value_of(state, one)
    lane = state.lane if op.dtype.is_vector else int_literal(0, Kind.I32)
    assert lane is not None
    half = one.dtype.lanes // 2
    return at_lane(state, lane if op.op.short == "vectorlow" else lane_arithmetic(state, Add, lane, half), one)


@call_rule("vectorcombine")
def _combine(state: FunctionState, op: Any) -> Value:
    first, second = op.args
    assert state.lane is not None and state.lane.constant is not None
    at = state.lane.constant
    one, at = (first, at) if at < first.dtype.lanes else (second, at - first.dtype.lanes)
    return at_lane(state, int_literal(at, Kind.I32), one) if one.dtype.is_vector else value_of(state, one)


@call_rule("get_active_lane_mask")
def _active_lanes(state: FunctionState, op: Any) -> Value:
    # Lane i where base + i < limit: as i < limit - base, which unsigned arithmetic has whatever the two are.
    base, limit = (state.spill(index_of(state, arg)) for arg in op.args)
    lane = state.lane if op.dtype.is_vector else int_literal(0, Kind.I32)
    assert lane is not None
    text = f"{base.text} < {limit.text} && (uint64_t){lane.text} < (uint64_t){limit.inside(UNARY)} - (uint64_t){base.inside(UNARY)}"
    return Value(f"({text})", Kind.I32, low=0, high=1, depth=1)


@call_rule("dp4a")
def _dp4a(state: FunctionState, op: Any) -> Value:
    first, second, start = op.args

    def quarter(arg: Any, at: int) -> Value:
        kind = arg.dtype
        if kind.bits * kind.lanes != 32 or not kind.is_integral:
            raise state.error(f"dp4a takes four bytes, as int8x4 or in 32 bits; got {kind!s}", op)
        if kind.is_vector:
            return at_lane(state, int_literal(at, Kind.I32), arg)
        bits = _pattern(state, value_of(state, arg), kind)
        byte = DataType("uint8" if kind.is_uint else "int8")
        shifted = Value(f"{bits.inside(UNARY)} >> {8 * at}", Kind.U64, BIT, 0, bits.high, _depth(bits))
        return wrapped(state, shifted, byte)

    total, int32 = value_of(state, start), DataType("int32")
    for at in range(4):
        product = arithmetic(state, Mul, int32, quarter(first, at), quarter(second, at))
        total = arithmetic(state, Add, op.dtype, total, convert(state, product, int32, op.dtype))
    return total


# -- facts and marks -------------------------------------------------------------------------------------------------


@call_rule("assume")
def _assume(state: FunctionState, op: Any) -> Value:
    if state.module.check_assumptions:
        fact = value_of(state, op.args[0])
        text = escape_template(f"the assumption does not hold: {op.args[0]}")
        state.fail_if(f"!{fact.inside(UNARY)}", RuntimeAssertError, text, (), op.span)
    return int_literal(1, Kind.I32)


@call_rule(
    "undef",
    "type_annotation",
    "dma_wait",
    "dma_start_group",
    "dma_end_group",
    "tvm_global_barrier_kinit",
    "prefetch",
)
def _nothing(state: FunctionState, op: Any) -> Value:
    dtype = op.dtype.element
    if dtype.is_float:
        return float_literal(0.0, dtype)
    if dtype.is_handle:
        return Value("NULL", Kind.POINTER)
    return int_literal(0, kind_of(dtype) if dtype.is_integral else Kind.I32)


# -- pointers --------------------------------------------------------------------------------------------------------


@call_rule("address_of")
def _address_of(state: FunctionState, op: Any) -> Value:
    (element,) = op.args
    if not isinstance(element, BufferLoad):
        raise state.error(f"T.address_of takes an element of a buffer, got {element}", op)
    return address(state, element.buffer, element.indices)


@call_rule("tvm_access_ptr")
def _access_ptr(state: FunctionState, op: Any) -> Value:
    kind, data, offset = op.args[0].dtype, value_of(state, op.args[1]), index_of(state, op.args[2])
    place = arithmetic(state, Mul, _I64, offset, int_literal(kind.lanes, Kind.I32))
    return moved(state, data, memory_type(kind), place)


@call_rule("isnullptr")
def _is_null(state: FunctionState, op: Any) -> Value:
    (pointer,) = operands(state, op.args)
    return Value(f"{pointer.inside(UNARY)} == NULL", Kind.I32, EQUAL, 0, 1, _depth(pointer))


@call_rule("dma_copy")
def _dma_copy(state: FunctionState, op: Any) -> Value:
    _, target, source, size, _ = operands(state, op.args)
    state.line(f"memcpy({target.text}, {source.text}, (size_t){size.inside(UNARY)});")
    return int_literal(0, Kind.I32)


_ATOMIC: Final[dict[str, Callable[[FunctionState, DataType, Value, Value], Value]]] = {
    "add": lambda state, dtype, old, new: arithmetic(state, Add, dtype, old, new),
    "max": lambda state, dtype, old, new: extremum(state, Max, dtype, old, new),
    "min": lambda state, dtype, old, new: extremum(state, Min, dtype, old, new),
    "and": lambda state, dtype, old, new: _bits("&", dtype, old, new),
    "or": lambda state, dtype, old, new: _bits("|", dtype, old, new),
    "xor": lambda state, dtype, old, new: _bits("^", dtype, old, new),
    "exchange": lambda state, dtype, old, new: new,
}


def _at(state: FunctionState, pointer: Value, dtype: DataType) -> tuple[Value, str]:
    ctype = memory_type(dtype)
    end = ctype.replace("_t", "")
    get = state.module.need(f"tir_get_{end}")
    old = state.spill(from_memory(state, f"{get}({pointer.text}, 0)", dtype, 1), dtype, "old")
    return old, end


def _put(state: FunctionState, end: str, pointer: Value, value: Value, dtype: DataType) -> None:
    text = f"{state.module.need(f'tir_{dtype}_bits')}({value.text})" if is_narrow_float(dtype) else value.text
    state.line(f"{state.module.need(f'tir_put_{end}')}({pointer.text}, 0, {text});")


@call_rule(*[f"atomic_{name}" for name in _ATOMIC])
def _atomic(state: FunctionState, op: Any) -> Value:
    dtype = op.args[1].dtype
    if dtype.is_vector or dtype.is_handle:
        raise state.error(f"{op.op.name} takes an address and a scalar, got {dtype!s}", op)
    pointer, value = (state.spill(one) for one in operands(state, op.args[:2]))
    old, end = _at(state, pointer, dtype)
    _put(state, end, pointer, _ATOMIC[op.op.short.removeprefix("atomic_")](state, dtype, old, value), dtype)
    return old


@call_rule("atomic_cas")
def _compare_and_swap(state: FunctionState, op: Any) -> Value:
    dtype = op.args[2].dtype
    pointer, expected, value = (state.spill(one) for one in operands(state, op.args[:3]))
    old, end = _at(state, pointer, dtype)
    a, b = (_to_bits(state, one, dtype) for one in (old, expected))
    with state.block(f"if ({a.inside(EQUAL + 1)} == {b.inside(EQUAL + 1)})"):
        _put(state, end, pointer, value, dtype)
    return old


# -- functions -------------------------------------------------------------------------------------------------------


@call_rule("call_extern", "call_pure_extern")
def _extern(state: FunctionState, op: Any) -> Value:
    named, *rest = op.args
    if not isinstance(named, StringImm):
        raise state.error(f"call_extern takes the name of the function as a string, got {named}", op)
    args = operands(state, rest)
    kinds = [arg.dtype for arg in rest]
    for kind in (*kinds, op.dtype):
        if kind.is_vector or is_narrow_float(kind):
            raise state.error(
                f"C has no type for the {kind!s} that {named.value!r} takes or gives",
                op,
                "pass a pointer, or a float32",
            )
    returns = "void" if op.dtype.code == "void" else value_type(op.dtype)
    params = ", ".join(value_type(kind) for kind in kinds) or "void"
    text = _function(state, named.value, returns, params, op)
    made = f"{text}({', '.join(arg.text for arg in args)})"
    state.effects += 1
    return _result(state, made, op.dtype)


def _function(state: FunctionState, name: str, returns: str, params: str, op: Call) -> str:
    """How an external function is called: by its name, or through the table that the loader fills."""
    pointer = f"({returns} (*)({params}))"
    if not name.isidentifier() or not name.isascii():
        raise state.error(f"the external function {name!r} has no name that C could call", op)
    if name in state.module.registered:
        at = state.module.imports.setdefault(name, len(state.module.imports))
        return f"({pointer}tir_imports[{at}])"
    if name in HEADER_NAMES:
        return f"({pointer}{name})"
    prototype = f"extern {returns} {name}({params});"
    known = state.module.externs.setdefault(name, prototype)
    return name if known == prototype else f"({pointer}{name})"


def _result(state: FunctionState, text: str, dtype: DataType) -> Value:
    """The result of a call with effects, in a constant of its own."""
    if dtype.code == "void":
        state.line(f"{text};")
        return int_literal(0, Kind.I32)
    low, high = type_range(dtype)
    if dtype.is_integral and dtype.bits != memory_bits(dtype) and not dtype.is_bool:
        held = DataType.of("int" if dtype.is_int else "uint", memory_bits(dtype))
        return state.spill(
            wrapped(state, Value(text, kind_of(held), UNARY, *type_range(held), 1), dtype), dtype, "result"
        )
    return state.spill(Value(text, kind_of(dtype), low=low, high=high, depth=1), dtype, "result")


def _write_call(state: FunctionState, callee: Any, texts: list[str]) -> None:
    """A call that passes a failure on; one that may come back to where it starts counts how deep it stands."""
    text = f"{callee.symbol}({', '.join(texts)})"
    if not callee.circular:
        with state.block(f"if ({text} != 0)"):
            state.leave("1")
        return
    depth = state.module.depth_symbol()
    name = escape_template(callee.name)
    state.fail_if(
        f"{depth} == {DEEPEST_CALLS}",
        RecursionError,
        f"the calls of `{name}` nest deeper than {DEEPEST_CALLS}, the most that C text may",
    )
    status = state.fresh("status")
    state.line(f"++{depth};")
    state.line(f"const int32_t {status} = {text};")
    state.line(f"--{depth};")
    with state.block(f"if ({status} != 0)"):
        state.leave("1")


@call_rule(GlobalVar)
def _internal(state: FunctionState, op: Any) -> Value:
    name = op.op.name
    known = state.module.callees
    callee = known.get(name)
    if callee is None:
        near = nearest_name(name, known)
        help = f"did you mean `{near}`?" if near else f"it has: {', '.join(known)}"
        raise state.error(f"there is no function `{name}` in the module", op, help)
    params = callee.func.params
    if len(op.args) != len(params):
        raise state.error(f"`{name}` takes {len(params)} arguments, got {len(op.args)}", op)
    for param, arg in zip(params, op.args, strict=True):
        if param.dtype is not arg.dtype:
            raise state.error(f"argument `{param.name}` of `{name}` is {param.dtype!s}, got {arg.dtype!s}: {arg}", op)
    if callee.symbols:
        raise state.error(
            f"`{name}` finds {len(callee.symbols)} of its symbolic sizes in its buffers, and a call passes bare pointers",
            op,
            f"make the sizes scalar parameters of `{name}`",
        )
    args = operands(state, op.args)
    texts = [f"(void *){a.inside(UNARY)}" if a.kind is Kind.POINTER else a.text for a in args]
    slot = None
    if callee.returns is not None:
        slot = state.fresh("slot")
        state.line(f"uint64_t {slot} = 0;")
        texts = [*texts, "err", f"&{slot}"]
    else:
        texts.append("err")
    _write_call(state, callee, texts)
    if slot is None:
        return int_literal(0, Kind.I32)
    bits = Value(slot, Kind.U64, low=0, high=(1 << 64) - 1)
    return state.spill(_of_bits(state, bits, callee.returns), callee.returns, "result")
