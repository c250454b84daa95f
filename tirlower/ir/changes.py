"""Which expressions keep their value while a program runs."""

from __future__ import annotations

from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import BufferLoad, Call, Expr
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import each

__all__ = ["changing_part", "may_change"]


def may_change(expr: Expr) -> bool:
    """Whether an expression may have another value after a store or a call."""
    return any(
        isinstance(op, BufferLoad) or not isinstance(op.op, Op) or op.op.purity is not Purity.PURE
        for op in each((BufferLoad, Call), expr)
    )


def changing_part(buffer: Buffer) -> Expr | None:
    """An extent, stride or offset of a buffer that may change while the buffer lives, if there is one."""
    parts = (*buffer.shape, *buffer.strides, buffer.elem_offset)
    return next((part for part in parts if isinstance(part, Expr) and may_change(part)), None)
