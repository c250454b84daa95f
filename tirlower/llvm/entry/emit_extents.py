"""Extents in machine code: symbols, and compound expressions of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tirlower.call.extents import Compound
from tirlower.emit.llvm_text import I1, I64, Builder, Value, const, int_type, struct
from tirlower.ir.dtype import INT64, DataType, wrap_int
from tirlower.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    Var,
)
from tirlower.ir.op import GlobalVar, Op

__all__ = ["emit_compound"]

_IF: Final = Op.get("tir.if_then_else")
_LIKELY: Final = Op.get("tir.likely")
_NOT: Final = Op.get("tir.bitwise_not")
_SHIFTS: Final[dict[Op | GlobalVar, str]] = {Op.get("tir.shift_left"): "shl", Op.get("tir.shift_right"): "ashr"}
_COMPARE: Final = {EQ: "eq", NE: "ne", LT: "slt", LE: "sle", GT: "sgt", GE: "sge"}
_BITWISE: Final[dict[Op | GlobalVar, str]] = {Op.get(f"tir.bitwise_{word}"): word for word in ("and", "or", "xor")}
_EXACT: Final[dict[type, str]] = {Add: "add", Sub: "sub", Mul: "mul"}
_SIMPLE: Final = {**_EXACT, And: "and", Or: "or"}
_EXTREMES: Final[dict[type, str]] = {Min: "llvm.smin", Max: "llvm.smax"}


def emit_compound(b: Builder, extent: Compound, env: Mapping[str, Value]) -> Value:
    """Append the code of a compound extent; ``env`` has the symbols in their dtypes' LLVM types.

    All in 64 bits; each node's value is an i64 (a bool is 0 or 1), wrapped to its own width. Nothing traps. Where a sum,
    difference or product leaves its type, or something is divided by zero or shifted too far, the least int64 comes out:
    no extent of an array, so that the call goes to Python, which raises.
    """
    done: dict[int, Value] = {}
    over: Value | None = None
    for node in extent.evaluator.nodes:
        cls = node.__class__
        if isinstance(node, Var):
            value = env[extent.variables[node]]
            made = value if value.type is I64 else (b.sext if node.dtype.is_int else b.zext)(value, I64)
        elif isinstance(node, IntImm):
            made = const(I64, wrap_int(node.value, INT64))
        else:
            args = [done[id(child)] for child in node.children()]
            if cls in _EXACT and node.dtype.is_int:
                pair = b.intrinsic(f"llvm.s{_EXACT[cls]}.with.overflow", struct(I64, I1), args, [I64])
                exact, left = b.extract_value(pair, 0), b.extract_value(pair, 1)
                made = _wrapped(b, exact, node.dtype)
                if made is not exact:
                    left = b.or_(left, b.icmp("ne", made, exact))
                over = left if over is None else b.or_(over, left)
            else:
                made = _wrapped(b, _combine(b, node, args), node.dtype)
                undefined = _undefined(b, node, args)
                if undefined is not None:
                    over = undefined if over is None else b.or_(over, undefined)
        done[id(node)] = made
    result = done[id(extent.expr)]
    return result if over is None else b.select(over, const(I64, -(1 << 63)), result)


def _undefined(b: Builder, node: Expr, args: list[Value]) -> Value | None:
    """Whether an operation has no value: the quotient by zero, the shift by more bits than there are."""
    if isinstance(node, (Div, Mod, FloorDiv, FloorMod)) and not (isinstance(node.b, IntImm) and node.b.value):
        return b.icmp("eq", args[1], const(I64, 0))
    if node.__class__ is Call and node.op in _SHIFTS:
        amount, bits = node.args[1], node.dtype.bits
        if not (isinstance(amount, IntImm) and 0 <= amount.value < bits):
            return b.icmp("uge", args[1], const(I64, bits))
    return None


def _wrapped(b: Builder, value: Value, kind: DataType) -> Value:
    if kind.bits >= 64 or kind.is_bool:
        return value
    t = int_type(kind.bits)
    return (b.sext if kind.is_int else b.zext)(b.trunc(value, t), I64)


def _combine(b: Builder, node: Expr, args: list[Value]) -> Value:
    cls = node.__class__
    if cls is Cast:
        return b.zext(b.icmp("ne", args[0], const(I64, 0)), I64) if node.dtype.is_bool else args[0]
    if cls in _COMPARE:
        return b.zext(b.icmp(_COMPARE[cls], args[0], args[1]), I64)
    if cls is Not:
        return b.xor(args[0], const(I64, 1))
    if cls is Select or (node.__class__ is Call and node.op is _IF):
        return b.select(b.trunc(args[0], I1), args[1], args[2])
    if node.__class__ is Call:
        if node.op is _LIKELY:
            return args[0]
        if node.op is _NOT:
            return b.xor(args[0], const(I64, -1))
        if node.op in _SHIFTS:
            return b.binary(_SHIFTS[node.op], args[0], b.and_(args[1], const(I64, 63)))
        return b.binary(_BITWISE[node.op], args[0], args[1])
    simple = _SIMPLE.get(cls)
    if simple is not None:
        return b.binary(simple, args[0], args[1])
    extreme = _EXTREMES.get(cls)
    if extreme is not None:
        return b.intrinsic(extreme, I64, args, [I64])
    return _divided(b, cls, *args)


def _divided(b: Builder, cls: type, x: Value, y: Value) -> Value:
    """A quotient or remainder."""
    zero = const(I64, 0)
    # By 0 any value will do, and by -1 the least integer would trap: both divide by 1 (and are negated by -1).
    minus = b.icmp("eq", y, const(I64, -1))
    safe = b.select(b.or_(minus, b.icmp("eq", y, zero)), const(I64, 1), y)
    rest = b.srem(x, safe)
    if cls is Mod:
        return rest
    quotient = b.sdiv(x, safe)
    off = b.and_(b.icmp("ne", rest, zero), b.icmp("slt", b.xor(rest, safe), zero))
    if cls is FloorMod:
        return b.select(off, b.add(rest, safe), rest)
    if cls is FloorDiv:
        quotient = b.sub(quotient, b.zext(off, I64))
    return b.select(minus, b.neg(x), quotient)
