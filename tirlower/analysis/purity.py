"""Effects of expressions, functions and statements."""

from __future__ import annotations

from collections.abc import Callable

from tirlower.analysis.arguments import the_function
from tirlower.diagnostics import WellFormedError
from tirlower.ir.expr import BufferLoad, Call, Expr
from tirlower.ir.func import PrimFunc
from tirlower.ir.op import GlobalVar, Op, Purity
from tirlower.ir.query import each, has
from tirlower.ir.stmt import AllocBuffer, Assert, BufferStore

__all__ = ["assert_pure_function", "is_pure_function", "side_effect"]

_ADDRESS_OF = Op.get("tir.address_of")


def side_effect(expr: Expr, is_pure: Callable[[GlobalVar], bool] | None = None) -> Purity:
    """The most that evaluating an expression may do: nothing, read memory, write it, or anything.

    A load reads; a call does what its operation states; a call of another function may do anything, unless ``is_pure``
    says of it that it only computes.
    """
    worst = Purity.PURE
    seen: set[int] = set()
    left: list[Expr] = [expr]
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
    the_function(func, "is_pure_function")
    own = {op.buffer.data for op in each(AllocBuffer, func.body)}
    allowed = (Op.get("tir.ret"),)
    return (
        not has(Assert, func.body)
        and all(store.buffer.data in own for store in each(BufferStore, func.body))
        and all(
            call.op in allowed or (isinstance(call.op, Op) and call.op.purity <= Purity.READS)
            for call in each(Call, func.body)
        )
    )


def assert_pure_function(func: PrimFunc) -> None:
    """Raise :class:`WellFormedError` unless a function only computes (see :func:`is_pure_function`).

    >>> from tirlower.ir import Evaluate
    >>> assert_pure_function(PrimFunc((), {}, None, {}, Evaluate(0)))
    """
    if not is_pure_function(func):
        raise WellFormedError(
            f"function {func.name!r} is not pure",
            span=func.span,
            help="it stores to memory of its caller, asserts something, or calls what may do more than compute",
        )
