"""Index arithmetic, which does not overflow: its values are exact, and wrap where they leave the arithmetic.

Loop variables, axes, the symbols of shapes and what is computed from them are indices; scalar parameters, elements and the
results of calls are data (:mod:`tirlower.ir.data`), whose arithmetic wraps in its own type. So ``i * 65536 < n`` compares
the number, as the machine code does, and ``A[0] = i * 65536`` stores its last 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from tirlower.interp.scope import Value
from tirlower.interp.values import UNDEF, integer_wrapper
from tirlower.ir.data import follows_bits
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import (
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CompareOp,
    Expr,
    IntImm,
    Let,
    Ramp,
    Select,
    Var,
)
from tirlower.ir.op import Op

__all__ = ["SHIFTS", "is_exact", "takes_exact", "wrapped"]

_SAME: Final = frozenset((Op.get("tir.likely"), Op.get("tir.ignore_loop_partition")))
_IF: Final = Op.get("tir.if_then_else")
SHIFTS: Final = frozenset((Op.get("tir.shift_left"), Op.get("tir.shift_right")))
_MASK: Final = Op.get("tir.get_active_lane_mask")


def _is_index_type(dtype: DataType) -> bool:
    return dtype.is_int and dtype.bits in (32, 64)


def is_exact(node: Expr, exact: Collection[int], data: Collection[Var]) -> bool:
    """Whether a node is index arithmetic; ``exact`` holds the ids of those of its operands that are, ``data`` the variables
    that are not. Numbers are indices."""
    if not _is_index_type(node.dtype):
        return False
    if node.__class__ is IntImm:
        return True
    if node.__class__ is Var:
        return node not in data
    if node.__class__ is Call:
        if node.op is _IF:
            return id(node.args[1]) in exact and id(node.args[2]) in exact
        return (node.op in _SAME or follows_bits(node)) and id(node.args[0]) in exact
    if node.__class__ is Cast and node.dtype.bits != 64:
        return False
    parts = _PARTS.get(node.__class__)
    return parts is not None and all(id(getattr(node, part)) in exact for part in parts)


_PARTS: Final[dict[type, tuple[str, ...]]] = {
    Select: ("true_value", "false_value"),
    Cast: ("value",),
    Ramp: ("base", "stride"),
    Broadcast: ("value",),
    Let: ("body",),
    **dict.fromkeys(BinaryOp.__subclasses__(), ("a", "b")),
}
"""The operands of other nodes that must be index arithmetic for a node to be some."""


def takes_exact(node: Expr, exact: bool) -> bool:
    """Whether a node, ``exact`` or not, takes indices as the numbers that they are; all others take what their type holds."""
    if exact or isinstance(node, (CompareOp, BufferLoad, Let)):
        return True
    if node.__class__ is Call and node.op is _MASK:
        return True
    return node.__class__ is Cast and node.dtype.is_int and node.dtype.bits == 64


def wrapped(value: Value, dtype: DataType) -> Value:
    """An index as its type holds it."""
    wrap: Callable[[int], int] = integer_wrapper(dtype.element)
    if dtype.is_vector:
        return lambda frame: tuple([lane if lane is UNDEF else wrap(lane) for lane in value(frame)])
    return lambda frame: wrap(value(frame))
