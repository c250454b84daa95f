"""Calls in C text: bit patterns, facts, pointers, atomic operations (of one thread), functions of C and of the module."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tirlower.c.codegen.arithmetic import arithmetic, call, convert, extremum, wrapped
from tirlower.c.codegen.expressions import at_lane, call_rule, index_of, lane_arithmetic, operands, value_of
from tirlower.c.codegen.mathematics import bitwise, depth_of, pattern
from tirlower.c.codegen.memory import address, from_memory, moved
from tirlower.c.codegen.state import HEADER_NAMES, FunctionState
from tirlower.c.codegen.values import (
    BIT,
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
from tirlower.call.errors import escape_template
from tirlower.diagnostics import RuntimeAssertError, nearest_name
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Add, BufferLoad, Call, Div, Expr, Max, Min, Mod, Mul, StringImm
from tirlower.ir.op import GlobalVar

if TYPE_CHECKING:
    from tirlower.c.codegen.module import Callee

__all__ = ["to_bits"]

DEEPEST_CALLS: Final = 1000
"""C does not say how much stack is left: calls in a circle may nest so deep, and their arrays are on the heap."""

_U64: Final = DataType("uint64")
_I64: Final = DataType("int64")


# -- bit patterns ----------------------------------------------------------------------------------------------------


def to_bits(state: FunctionState, value: Value, dtype: DataType) -> Value:
    """The bits of a scalar as an unsigned number."""
    if dtype.is_integral:
        return pattern(state, value, dtype)
    if dtype.is_handle:
        return convert(state, value, dtype, _U64)
    if is_narrow_float(dtype) and value.raw:
        high = (1 << dtype.bits) - 1
        if dtype.bits < 8:
            return Value(f"{value.raw} & {high}", Kind.I32, BIT, 0, high, value.depth).cast(Kind.U64)
        return Value(value.raw, Kind.I32, low=0, high=high, depth=value.depth).cast(Kind.U64)
    name = {64: "tir_bits_f64", 32: "tir_bits_f32"}.get(dtype.bits, f"tir_{dtype}_bits")
    name = f"tir_{dtype}_bits" if is_narrow_float(dtype) else name
    made = call(state, name, value.text, kind=Kind.U32, high=(1 << dtype.bits) - 1, depth=depth_of(value))
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
    return call(state, name, bits.text, kind=kind_of(dtype), depth=depth_of(bits))


@call_rule("reinterpret")
def _reinterpret(state: FunctionState, op: Call) -> Value:
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
        return to_bits(state, value, source.element)

    if source.lanes == target.lanes:
        return _of_bits(state, part(lane), target.element)
    if source.bits > target.bits:
        several = source.bits // target.bits
        whole = part(lane_arithmetic(state, Div, lane, several))
        by = lane_arithmetic(state, Mod, lane, several)
        shift = arithmetic(state, Mul, _I64, by, int_literal(target.bits, Kind.I32))
        made = Value(f"{whole.inside(UNARY)} >> {shift.inside(UNARY)}", Kind.U64, BIT, 0, whole.high, depth_of(whole))
        return _of_bits(state, made, target.element)
    several = target.bits // source.bits
    assert lane.constant is not None
    parts = [part(int_literal(lane.constant * several + i, Kind.I32)) for i in range(several)]
    text = " | ".join(f"{p.inside(UNARY)} << {i * source.bits}" if i else p.inside(UNARY) for i, p in enumerate(parts))
    text = " | ".join(f"({word})" for word in text.split(" | "))
    return _of_bits(state, Value(text, Kind.U64, BIT, 0, (1 << target.bits) - 1, depth_of(*parts)), target.element)


@call_rule("vectorlow", "vectorhigh")
def _half(state: FunctionState, op: Call) -> Value:
    (one,) = op.args
    if not one.dtype.is_vector:
        return value_of(state, one)
    lane = state.lane if op.dtype.is_vector else int_literal(0, Kind.I32)
    assert lane is not None
    half = one.dtype.lanes // 2
    return at_lane(state, lane if op.op.name == "tir.vectorlow" else lane_arithmetic(state, Add, lane, half), one)


@call_rule("vectorcombine")
def _combine(state: FunctionState, op: Call) -> Value:
    first, second = op.args
    assert state.lane is not None and state.lane.constant is not None
    at = state.lane.constant
    one, at = (first, at) if at < first.dtype.lanes else (second, at - first.dtype.lanes)
    return at_lane(state, int_literal(at, Kind.I32), one) if one.dtype.is_vector else value_of(state, one)


@call_rule("get_active_lane_mask")
def _active_lanes(state: FunctionState, op: Call) -> Value:
    # Lane i where base + i < limit: as i < limit - base, which unsigned arithmetic has whatever the two are.
    base, limit = (state.spill(index_of(state, arg)) for arg in op.args)
    lane = state.lane if op.dtype.is_vector else int_literal(0, Kind.I32)
    assert lane is not None
    text = f"{base.text} < {limit.text} && (uint64_t){lane.text} < (uint64_t){limit.inside(UNARY)} - (uint64_t){base.inside(UNARY)}"
    return Value(f"({text})", Kind.I32, low=0, high=1, depth=1)


@call_rule("dp4a")
def _dp4a(state: FunctionState, op: Call) -> Value:
    first, second, start = op.args

    def quarter(arg: Expr, at: int) -> Value:
        dtype = arg.dtype
        if dtype.bits * dtype.lanes != 32 or not dtype.is_integral:
            raise state.error(f"dp4a takes four bytes, as int8x4 or in 32 bits; got {dtype!s}", op)
        if dtype.is_vector:
            return at_lane(state, int_literal(at, Kind.I32), arg)
        bits = pattern(state, value_of(state, arg), dtype)
        byte = DataType("uint8" if dtype.is_uint else "int8")
        shifted = Value(f"{bits.inside(UNARY)} >> {8 * at}", Kind.U64, BIT, 0, bits.high, depth_of(bits))
        return wrapped(state, shifted, byte)

    total, int32 = value_of(state, start), DataType("int32")
    for at in range(4):
        product = arithmetic(state, Mul, int32, quarter(first, at), quarter(second, at))
        total = arithmetic(state, Add, op.dtype, total, convert(state, product, int32, op.dtype))
    return total


# -- facts and marks -------------------------------------------------------------------------------------------------


@call_rule("assume")
def _assume(state: FunctionState, op: Call) -> Value:
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
)
def _nothing(state: FunctionState, op: Call) -> Value:
    dtype = op.dtype.element
    if dtype.is_float:
        return float_literal(0.0, dtype)
    if dtype.is_handle:
        return Value("NULL", Kind.POINTER)
    return int_literal(0, kind_of(dtype) if dtype.is_integral else Kind.I32)


@call_rule("prefetch")
def _prefetch(state: FunctionState, op: Call) -> Value:
    value_of(state, op.args[0])  # a hint, but what its indices read and divide by is checked
    return int_literal(0, Kind.I32)


# -- pointers --------------------------------------------------------------------------------------------------------


@call_rule("address_of")
def _address_of(state: FunctionState, op: Call) -> Value:
    (element,) = op.args
    if not isinstance(element, BufferLoad):
        raise state.error(f"T.address_of takes an element of a buffer, got {element}", op)
    return address(state, element.buffer, element.indices)


@call_rule("tvm_access_ptr")
def _access_ptr(state: FunctionState, op: Call) -> Value:
    kind, data, offset = op.args[0].dtype, value_of(state, op.args[1]), index_of(state, op.args[2])
    place = arithmetic(state, Mul, _I64, offset, int_literal(kind.lanes, Kind.I32))
    return moved(state, data, memory_type(kind), place)


@call_rule("isnullptr")
def _is_null(state: FunctionState, op: Call) -> Value:
    (pointer,) = operands(state, op.args)
    return Value(f"{pointer.inside(UNARY)} == NULL", Kind.I32, EQUAL, 0, 1, depth_of(pointer))


@call_rule("dma_copy")
def _dma_copy(state: FunctionState, op: Call) -> Value:
    _, target, source, size, _ = operands(state, op.args)
    state.line(f"memcpy({target.text}, {source.text}, (size_t){size.inside(UNARY)});")
    return int_literal(0, Kind.I32)


_ATOMIC: Final[dict[str, Callable[[FunctionState, DataType, Value, Value], Value]]] = {
    "add": lambda state, dtype, old, new: arithmetic(state, Add, dtype, old, new),
    "max": lambda state, dtype, old, new: extremum(state, Max, dtype, old, new),
    "min": lambda state, dtype, old, new: extremum(state, Min, dtype, old, new),
    "and": lambda state, dtype, old, new: bitwise("&", dtype, old, new),
    "or": lambda state, dtype, old, new: bitwise("|", dtype, old, new),
    "xor": lambda state, dtype, old, new: bitwise("^", dtype, old, new),
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
def _atomic(state: FunctionState, op: Call) -> Value:
    dtype = op.args[1].dtype
    if dtype.is_vector or dtype.is_handle:
        raise state.error(f"{op.op.name} takes an address and a scalar, got {dtype!s}", op)
    pointer, value = (state.spill(one) for one in operands(state, op.args[:2]))
    old, end = _at(state, pointer, dtype)
    _put(state, end, pointer, _ATOMIC[op.op.name.removeprefix("tir.atomic_")](state, dtype, old, value), dtype)
    return old


@call_rule("atomic_cas")
def _compare_and_swap(state: FunctionState, op: Call) -> Value:
    dtype = op.args[2].dtype
    pointer, expected, value = (state.spill(one) for one in operands(state, op.args[:3]))
    old, end = _at(state, pointer, dtype)
    a, b = (to_bits(state, one, dtype) for one in (old, expected))
    with state.block(f"if ({a.inside(EQUAL + 1)} == {b.inside(EQUAL + 1)})"):
        _put(state, end, pointer, value, dtype)
    return old


# -- functions -------------------------------------------------------------------------------------------------------


@call_rule("call_extern", "call_pure_extern")
def _extern(state: FunctionState, op: Call) -> Value:
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


def _write_call(state: FunctionState, callee: Callee, texts: list[str]) -> None:
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
def _internal(state: FunctionState, op: Call) -> Value:
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
    if callee.returns is None:
        _write_call(state, callee, [*texts, "err"])
        return int_literal(0, Kind.I32)
    slot = state.fresh("slot")
    state.line(f"uint64_t {slot} = 0;")
    _write_call(state, callee, [*texts, "err", f"&{slot}"])
    bits = Value(slot, Kind.U64, low=0, high=(1 << 64) - 1)
    return state.spill(_of_bits(state, bits, callee.returns), callee.returns, "result")
