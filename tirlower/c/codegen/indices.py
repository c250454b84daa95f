"""Which integers are indices, whose arithmetic is exact in 64 bits, and which are data, whose arithmetic wraps."""

from __future__ import annotations

from typing import Final, TypeGuard

from tirlower.c.codegen.arithmetic import INDEX
from tirlower.c.codegen.state import FunctionState
from tirlower.ir import build
from tirlower.ir.data import chosen_of, follows_bits, gives_data
from tirlower.ir.expr import Call, Expr, Select, Var
from tirlower.ir.op import Op

__all__ = ["IF", "composes", "is_data", "is_narrow", "widened"]

IF: Final = Op.get("tir.if_then_else")


def is_narrow(op: Expr) -> bool:
    """Whether a number, or a vector's lanes, are signed integers of 32 bits."""
    return op.dtype.is_int and op.dtype.bits == 32


def is_data(state: FunctionState, op: Expr) -> bool:
    """Whether an integer depends on what the program is given, so that its arithmetic wraps."""
    stack: list[Expr] = [op]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node in state.data if node.__class__ is Var else gives_data(node):
            return True
        if not node.is_leaf:
            stack += chosen_of(node) or node.children()
    return False


def composes(op: Expr) -> TypeGuard[Select | Call]:
    """Whether an expression gives an index of indices other than by arithmetic: a choice, or an operation on bits."""
    return op.__class__ is Select or (isinstance(op, Call) and (op.op is IF or follows_bits(op)))


def widened(op: Select | Call) -> Expr:
    """A choice, or an operation on bits, of the same operands in 64 bits."""
    if isinstance(op, Select):
        return Select(op.condition, _in_words(op.true_value), _in_words(op.false_value))
    kept = op.args[:1] if op.op is IF else ()
    return Call(op.op, (*kept, *map(_in_words, op.args[len(kept) :])), INDEX.with_lanes(op.dtype.lanes))


def _in_words(op: Expr) -> Expr:
    return build.cast(INDEX.with_lanes(op.dtype.lanes), op)
