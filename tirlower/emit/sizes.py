"""Sizes in 64 bits: a sum or product that leaves its type fails the call, it does not wrap.

Machine code computes an index exactly as long as 64 bits hold it; a size that somebody else acts on, such as the grid of a
launch, must be the number that the program states, or none.
"""

from __future__ import annotations

from typing import Final

from tirlower.call.errors import escape_template
from tirlower.emit.emitter import Emitter
from tirlower.emit.expressions import INDEX, index_of
from tirlower.emit.llvm_text import I1, I64, Block, Value, struct
from tirlower.ir.dtype import INT64, DataType
from tirlower.ir.expr import (
    Add,
    BinaryOp,
    Call,
    Cast,
    Expr,
    Mul,
    Select,
    Sub,
    is_const_int,
)
from tirlower.ir.op import GlobalVar, Op

__all__ = ["size_of"]

_RING: Final[dict[type, str]] = {Add: "sadd", Sub: "ssub", Mul: "smul"}

_IF: Final = Op.get("tir.if_then_else")
_BITS: Final[dict[Op | GlobalVar, str]] = {
    Op.get("tir.shift_right"): "ashr",
    Op.get("tir.bitwise_and"): "and",
    Op.get("tir.bitwise_or"): "or",
    Op.get("tir.bitwise_xor"): "xor",
}


def size_of(em: Emitter, expr: Expr) -> Value:
    """A size as an i64, after failing with OverflowError where a sum or product in it leaves its type."""
    dtype = expr.dtype
    if is_const_int(expr) or not (dtype.is_int and dtype.is_scalar):
        return index_of(em, expr)
    if expr.__class__ in _RING:
        return _fitting(em, expr, _chain(em, expr))
    if expr.__class__ is Cast and expr.value.dtype.is_int and expr.value.dtype.bits <= dtype.bits:
        return size_of(em, expr.value)
    if isinstance(expr, BinaryOp):
        return INDEX[expr.__class__](em, expr, size_of(em, expr.a), size_of(em, expr.b))
    if expr.__class__ is Select:
        return _chosen(em, expr.condition, expr.true_value, expr.false_value)
    if expr.__class__ is Call:
        if expr.op is _IF:
            return _chosen(em, *expr.args)
        if expr.op in _BITS:
            first, second = (size_of(em, arg) for arg in expr.args)
            return em.b.binary(_BITS[expr.op], first, second)
    return index_of(em, expr)


def _chain(em: Emitter, expr: Expr) -> Value:
    """A sum or product in 64 bits: those on the way to it need not fit its type."""
    if not isinstance(expr, (Add, Sub, Mul)):
        return size_of(em, expr)
    values = [_chain(em, expr.a), _chain(em, expr.b)]
    pair = em.b.intrinsic(f"llvm.{_RING[expr.__class__]}.with.overflow", struct(I64, I1), values, [I64])
    if _leaves(em, expr, INT64):
        code = em.state.errors.code(OverflowError, escape_template(f"{expr} does not fit int64"))
        em.fail_if(em.b.extract_value(pair, 1), code)
    return em.b.extract_value(pair, 0)


def _fitting(em: Emitter, expr: Expr, value: Value) -> Value:
    dtype = expr.dtype
    if dtype.bits < 64 and _leaves(em, expr, dtype):
        least, most = int(dtype.min_value), int(dtype.max_value)
        outside = em.b.icmp("ugt", em.b.sub(value, em.b.i64(least)), em.b.i64(most - least))
        code = em.state.errors.code(OverflowError, escape_template(f"{expr} = ") + "{0}" + f" does not fit {dtype}")
        em.fail_if(outside, code, [value])
    return value


def _leaves(em: Emitter, expr: Expr, kind: DataType) -> bool:
    fact = em.facts.of(expr)
    return fact.low < int(kind.min_value) or fact.high > int(kind.max_value)


def _chosen(em: Emitter, condition: Expr, *arms: Expr) -> Value:
    """One of two sizes: what is wrong with the other does not matter."""
    cond = em.value(condition)
    ends: list[tuple[Value, Block]] = []
    blocks, after = (em.new_block("size"), em.new_block("other")), em.new_block("chosen")
    em.b.cond_br(cond, *blocks)
    for block, arm in zip(blocks, arms, strict=True):
        em.enter(block)
        ends.append((size_of(em, arm), em.b.block))
        em.b.br(after)
    em.enter(after)
    return em.b.phi(I64, "size", ends)
