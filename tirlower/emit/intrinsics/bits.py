"""Operations on bits and fixed-point numbers.

A shift by less than 0 or by the type's width or more has no meaning in the language; here it gives 0 (or the sign).
"""

from __future__ import annotations

from typing import Final

from tirlower.emit.casts import convert
from tirlower.emit.emitter import Emitter, constant
from tirlower.emit.expressions import call_rule
from tirlower.emit.llvm_text import I1, I8, I32, I128, Value, vector
from tirlower.emit.vectors import lanes_of, repeat
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Call, IntImm, is_const_int

__all__: list[str] = []

_BITWISE: Final = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}


def _need_integers(em: Emitter, op: Call) -> None:
    if not op.args[0].dtype.is_integral:
        raise em.error(f"{op.op.name} has no meaning on {op.args[0].dtype!s}: {op}", op, "use T.reinterpret first")


@call_rule(*[f"tir.{name}" for name in _BITWISE])
def _bitwise(em: Emitter, op: Call, args: list[Value]) -> Value:
    _need_integers(em, op)
    return em.b.binary(_BITWISE[op.op.name.removeprefix("tir.")], args[0], args[1])


@call_rule("tir.bitwise_not")
def _not(em: Emitter, op: Call, args: list[Value]) -> Value:
    _need_integers(em, op)
    return em.b.not_(args[0])


@call_rule("tir.shift_left", "tir.shift_right")
def _shift(em: Emitter, op: Call, args: list[Value]) -> Value:
    _need_integers(em, op)
    b, kind = em.b, op.dtype
    value, amount = args[0], convert(em, args[1], op.args[1].dtype, kind)
    left = op.op.name == "tir.shift_left"
    word = "shl" if left else "ashr" if kind.is_int else "lshr"
    low, high = em.facts.value_range(op.args[1])
    if low >= 0 and high < kind.bits:
        return b.binary(word, value, amount)
    t = value.type
    inside = b.icmp("ult", amount, constant(t, kind.bits)) if kind.bits > 1 else b.icmp("eq", amount, constant(t, 0))
    safe = b.select(inside, amount, constant(t, 0))
    beyond = b.ashr(value, constant(t, kind.bits - 1)) if word == "ashr" else constant(t, 0)
    return b.select(inside, b.binary(word, value, safe), beyond)


@call_rule("tir.popcount")
def _popcount(em: Emitter, op: Call, args: list[Value]) -> Value:
    _need_integers(em, op)
    t = args[0].type
    count = em.b.intrinsic("llvm.ctpop", t, [args[0]], [t])
    return convert(em, count, _unsigned(op.args[0].dtype), op.dtype)


@call_rule("tir.clz")
def _clz(em: Emitter, op: Call, args: list[Value]) -> Value:
    _need_integers(em, op)
    kind, value = op.args[0].dtype, args[0]
    if kind.bits < 8:  # a count of up to 7 need not fit the type: count in 8 bits
        wide = em.b.zext(value, value.type.with_scalar(I8))
        count = em.b.intrinsic("llvm.ctlz", wide.type, [wide, Value(I1, "false")], [wide.type])
        count = em.b.sub(count, constant(count.type, 8 - kind.bits))
        return convert(em, count, DataType.of("uint", 8, kind.lanes), op.dtype)
    count = em.b.intrinsic("llvm.ctlz", value.type, [value, Value(I1, "false")], [value.type])
    return convert(em, count, _unsigned(kind), op.dtype)


def _unsigned(kind: DataType) -> DataType:
    return DataType.of("uint", kind.bits, kind.lanes)


@call_rule("tir.large_uint_imm")
def _large(em: Emitter, op: Call, args: list[Value]) -> Value:
    low, high = op.args
    if not isinstance(low, IntImm) or not isinstance(high, IntImm):
        raise em.error(f"large_uint_imm takes constants, got {low} and {high}", op)
    return constant(em.type_of(op.dtype), (high.value & 0xFFFFFFFF) << 32 | (low.value & 0xFFFFFFFF))


@call_rule("tir.q_multiply_shift")
def _q_multiply_shift(em: Emitter, op: Call, args: list[Value]) -> Value:
    """``x * y`` shifted right by ``q + s`` (left by ``-s`` first), halves rounded up."""
    x, y, q, s = args
    s_expr = op.args[3]
    b, t = em.b, s.type
    zero = constant(t, 0)
    negative = b.icmp("slt", s, zero)
    left = b.select(negative, b.neg(s), zero)
    right = b.add(q, b.select(negative, zero, s))
    if em.facts.value_range(s_expr)[0] >= 0:
        return _fixed_point(em, op, x, y, None, right)
    return _fixed_point(em, op, x, y, left, right)


@call_rule("tir.q_multiply_shift_per_axis")
def _q_multiply_shift_per_axis(em: Emitter, op: Call, args: list[Value]) -> Value:
    x, y, left, right, q, has_left, has_right = args
    b = em.b
    kinds = [arg.dtype for arg in op.args]
    taken_left, taken_right = (
        convert(em, flag, kind, DataType("bool").with_lanes(kind.lanes))
        for flag, kind in ((has_left, kinds[5]), (has_right, kinds[6]))
    )
    zero = constant(left.type, 0)
    shift = b.add(q, b.select(taken_right, right, constant(right.type, 0)))
    if is_const_int(op.args[5], 0):
        return _fixed_point(em, op, x, y, None, shift)
    return _fixed_point(em, op, x, y, b.select(taken_left, left, zero), shift)


def _fixed_point(em: Emitter, op: Call, x: Value, y: Value, left: Value | None, right: Value) -> Value:
    """``(x << left) * y >> right``, rounded, exact in 128 bits where a left shift or the type asks for them."""
    b, kind, t = em.b, op.dtype, x.type
    narrow = left is None and kind.bits <= 32
    scalar = em.type_of(DataType("int64")) if narrow else I128
    wide = t.with_scalar(scalar)

    def widen(value: Value, signed: bool = True) -> Value:
        if t.is_vector and not value.type.is_vector:
            value = repeat(em, value, t.lanes)
        return b.sext(value, wide) if signed else b.zext(value, wide)

    product = widen(x, kind.is_int)
    if left is not None:
        product = b.shl(product, widen(left))
    product = b.mul(product, widen(y, op.args[1].dtype.is_int))
    amount = widen(right)
    one, zero = constant(wide, 1), constant(wide, 0)
    some = b.icmp("sgt", amount, zero)
    half = b.shl(one, b.select(some, b.sub(amount, one), zero))
    rounded = b.ashr(b.add(product, b.select(some, half, zero)), b.select(some, amount, zero))
    return b.trunc(rounded, t)


@call_rule("tir.dp4a")
def _dp4a(em: Emitter, op: Call, args: list[Value]) -> Value:
    """``c`` plus the products of four signed or unsigned bytes."""
    b, kinds = em.b, [arg.dtype for arg in op.args]
    result = em.type_of(op.dtype)

    def quarters(value: Value, kind: DataType) -> Value:
        if kind.bits * kind.lanes != 32 or not kind.is_integral:
            raise em.error(f"dp4a takes four bytes, as int8x4 or in 32 bits; got {kind!s}", op)
        return b.bitcast(value, vector(I8, 4))

    wide = vector(I32, 4)
    parts = []
    for value, kind in zip(args[:2], kinds[:2], strict=True):
        four = quarters(value, kind)
        parts.append(b.zext(four, wide) if kind.is_uint else b.sext(four, wide))
    total = args[2]
    for product in lanes_of(em, b.mul(parts[0], parts[1])):
        total = b.add(total, convert(em, product, DataType("int32"), op.dtype))
    assert total.type == result
    return total
