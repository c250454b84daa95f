"""Effects of expressions, functions and statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tirlower.ir.expr import BufferLoad, Call, Expr
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import pre_order_visit
from tirlower.ir.op import Op, Purity
from tirlower.ir.stmt import AllocBuffer, Assert, BufferStore, Evaluate

__all__ = ["is_pure_function", "side_effect"]

_ADDRESS_OF = Op.get("tir.address_of")


def side_effect(expr: Expr, is_pure: Callable[[Any], bool] | None = None) -> Purity:
    """The most that evaluating an expression may do: nothing, read memory, write it, or anything.

    A load reads; a call does what its operation states; a call of another function may do anything, unless ``is_pure``
    says of it that it only computes.
    """
    worst = Purity.PURE
    seen: set[int] = set()
    left: list[Any] = [expr]
    while left and worst is not Purity.OPAQUE:
        op = left.pop()
        if op.is_leaf or id(op) in seen:
            continue
        seen.add(id(op))
        if op.__class__ is BufferLoad:
            worst = max(worst, Purity.READS)
        elif op.__class__ is Call:
            callee = op.op
            if isinstance(callee, Op):
                worst = max(worst, callee.purity)
            elif is_pure is None or not is_pure(callee):
                worst = Purity.OPAQUE
            if callee is _ADDRESS_OF:
                # The operand names an element; it is not read.
                left += op.args[0].children()
                continue
        left += op.children()
    return worst


def is_pure_function(func: PrimFunc) -> bool:
    """Whether a function only computes: it stores to nothing but its own allocations, and calls nothing impure.

    A prim func with output buffers writes memory of its caller, so it is not pure.
    """
    pure = True
    own: set[Any] = set()

    def look(op: Any) -> bool:
        nonlocal pure
        if isinstance(op, AllocBuffer):
            own.add(op.buffer.data)
        elif isinstance(op, BufferStore):
            pure = pure and op.buffer.data in own
        elif isinstance(op, Assert):
            pure = False
        elif isinstance(op, Call):
            callee = op.op
            returns = callee is Op.get("tir.ret")
            if not returns and (not isinstance(callee, Op) or callee.purity > Purity.READS):
                pure = False
        elif isinstance(op, Evaluate):
            return True
        return pure

    pre_order_visit(func.body, look)
    return pure
