"""Index arithmetic, which does not overflow: its values are exact, and wrap where they leave the arithmetic.

Loop variables, axes, the symbols of shapes and what is computed from them are indices; scalar parameters, elements, the
results of calls and what a float is converted to are data (:mod:`tirlower.ir.data`), whose arithmetic wraps in its own type. So ``i * 65536 < n`` compares
the number, as the machine code does, and ``A[0] = i * 65536`` stores its last 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from tirlower.interp.scope import Value
from tirlower.interp.values import UNDEF, integer_wrapper
from tirlower.ir.data import SAME, chosen_of, follows_bits, gives_data
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import (
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CompareOp,
    Expr,
    Let,
    Ramp,
    Select,
    Var,
)
from tirlower.ir.op import Op

__all__ = ["SHIFTS", "is_exact", "takes_exact", "wrapped"]

_IF: Final = Op.get("tir.if_then_else")
SHIFTS: Final = frozenset((Op.get("tir.shift_left"), Op.get("tir.shift_right")))
_MASK: Final = Op.get("tir.get_active_lane_mask")


def is_exact(node: Expr, exact: Collection[int], data: Collection[Var]) -> bool:
    """Whether a node is made of no data; ``exact`` holds the ids of those of its operands that are made of none, ``data``
    the variables that are data. Numbers are none."""
    if node.__class__ is Var:
        return node not in data
    if gives_data(node):
        return False
    if node.__class__ is Let:
        return id(node.body) in exact
    return node.is_leaf or all(id(operand) in exact for operand in chosen_of(node) or node.children())


def takes_exact(node: Expr, exact: bool) -> bool:
    """Whether a node, made of no data where ``exact``, takes indices as the numbers that they are; all others take what
    their type holds."""
    if isinstance(node, (CompareOp, BufferLoad, Let)):
        return True
    if node.__class__ is Call:
        follows = node.op is _IF or node.op in SAME or follows_bits(node)
        return node.op is _MASK or (exact and follows)
    if node.__class__ is Cast:
        return node.dtype.is_int and node.dtype.bits == 64
    return exact and isinstance(node, (BinaryOp, Select, Ramp, Broadcast))


def wrapped(value: Value, dtype: DataType) -> Value:
    """An index as its type holds it."""
    wrap: Callable[[int], int] = integer_wrapper(dtype.element)
    if dtype.is_vector:
        return lambda frame: tuple([lane if lane is UNDEF else wrap(lane) for lane in value(frame)])
    return lambda frame: wrap(value(frame))
