"""Extents in machine code: symbols, and compound expressions of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tirlower.call.extents import AND, IF, LIKELY, OR, SHL, SHR, XOR, Compound
from tirlower.emit.llvm_text import I1, I64, Builder, Value, const, int_type, struct
from tirlower.ir.dtype import INT64, DataType
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
    wrap_int,
)

__all__ = ["emit_compound"]

_COMPARE: Final = {EQ: "eq", NE: "ne", LT: "slt", LE: "sle", GT: "sgt", GE: "sge"}
_WORDS: Final = {SHL: "shl", SHR: "ashr", AND: "and", OR: "or", XOR: "xor"}
_EXACT: Final[dict[type, str]] = {Add: "add", Sub: "sub", Mul: "mul"}
_DIVISIONS: Final = frozenset((Div, Mod, FloorDiv, FloorMod))
_SIMPLE: Final = {**_EXACT, And: "and", Or: "or"}
_EXTREMES: Final[dict[type, str]] = {Min: "llvm.smin", Max: "llvm.smax"}


def emit_compound(b: Builder, extent: Compound, env: Mapping[str, Value]) -> Value:
    """Append the code of a compound extent; ``env`` has the symbols in their dtypes' LLVM types.

    All in 64 bits; each node's value is an i64 (a bool is 0 or 1), wrapped to its own width. Nothing traps. Where a sum,
    difference or product leaves its type, or something is divided by zero, the least int64 comes out: no extent of an
    array, so that the call goes to Python, which raises.
    """
    done: dict[int, Value] = {}
    over: Value | None = None
    for node in extent.nodes:
        cls = node.__class__
        if cls is Var:
            value = env[extent.variables[node]]
            made = value if value.type is I64 else (b.sext if node.dtype.is_int else b.zext)(value, I64)
        elif cls is IntImm:
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
                if cls in _DIVISIONS and not (isinstance(node.b, IntImm) and node.b.value):
                    by_zero = b.icmp("eq", args[1], const(I64, 0))
                    over = by_zero if over is None else b.or_(over, by_zero)
        done[id(node)] = made
    result = done[id(extent.expr)]
    return result if over is None else b.select(over, const(I64, -(1 << 63)), result)


def _wrapped(b: Builder, value: Value, kind: DataType) -> Value:
    if kind.bits >= 64 or kind.is_bool:
        return value
    t = int_type(kind.bits)
    return (b.sext if kind.is_int else b.zext)(b.trunc(value, t), I64)


def _combine(b: Builder, node: Any, args: list[Value]) -> Value:
    cls = node.__class__
    if cls is Cast:
        return b.zext(b.icmp("ne", args[0], const(I64, 0)), I64) if node.dtype.is_bool else args[0]
    if cls in _COMPARE:
        return b.zext(b.icmp(_COMPARE[cls], args[0], args[1]), I64)
    if cls is Not:
        return b.xor(args[0], const(I64, 1))
    if cls is Select or (cls is Call and node.op is IF):
        return b.select(b.trunc(args[0], I1), args[1], args[2])
    if cls is Call:
        if node.op is LIKELY:
            return args[0]
        word = _WORDS[node.op]
        amount = b.and_(args[1], const(I64, 63)) if node.op in (SHL, SHR) else args[1]
        return b.binary(word, args[0], amount)
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
