"""Conditions taken apart and negated; and which of them depend on variables alone."""

from __future__ import annotations

from tirlower import ir
from tirlower.ir import Call, Expr, IntImm
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import each

__all__ = ["conjuncts", "is_pure", "negated"]

_LIKELY = Op.get("tir.likely")
_OPPOSITE: dict[type[ir.CompareOp], type[ir.CompareOp]] = {ir.LT: ir.LE, ir.LE: ir.LT, ir.GT: ir.GE, ir.GE: ir.GT}


def conjuncts(condition: Expr) -> list[Expr]:
    """The conditions whose conjunction is ``condition``, left to right; ``likely`` marks are dropped."""
    parts: list[Expr] = []
    stack = [condition]
    while stack:
        op = stack.pop()
        if op.__class__ is ir.And:
            stack += (op.b, op.a)
        elif op.__class__ is Call and op.op is _LIKELY:
            stack.append(op.args[0])
        elif op.__class__ is ir.Not and op.a.__class__ is ir.Or:
            stack += (negated(op.a.b), negated(op.a.a))
        else:
            parts.append(op)
    return parts


def negated(condition: Expr) -> Expr:
    """The negation of a condition, with comparisons of integers turned round."""
    if condition.__class__ is ir.Not:
        return condition.a
    if condition.__class__ is ir.EQ or condition.__class__ is ir.NE:
        return (ir.NE if condition.__class__ is ir.EQ else ir.EQ)(condition.a, condition.b)
    if condition.__class__ in _OPPOSITE and condition.a.dtype.is_integral:
        return _OPPOSITE[condition.__class__](condition.b, condition.a)
    if condition.__class__ is IntImm:
        return IntImm(condition.dtype, 1 - condition.value)
    return ir.Not(condition)


def is_pure(expr: Expr) -> bool:
    """Whether an expression depends on its variables alone: no memory, no effects."""
    return not any(
        isinstance(op, ir.BufferLoad) or not isinstance(op.op, Op) or op.op.purity > Purity.PURE
        for op in each((ir.BufferLoad, Call), expr)
    )
