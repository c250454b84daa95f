"""Several copies of a flat buffer, one after another: accesses are moved to one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from tirlower.diagnostics import Span, TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import Broadcast, BufferLoad, Call, Expr, IntImm, Ramp, Var, const, is_const_int
from tirlower.ir.functor import Mutator
from tirlower.ir.op import Op
from tirlower.ir.stmt import BufferStore, DeclBuffer, Stmt

__all__ = ["CopiedBuffer", "CopyAccesses", "is_flat"]

_ACCESS_PTR = Op.get("tir.tvm_access_ptr")


def is_flat(buffer: Buffer) -> bool:
    """Whether a buffer has one dimension without strides."""
    return len(buffer.shape) == 1 and not buffer.strides and not buffer.axis_separators


@dataclass(eq=False)
class CopiedBuffer:
    """A flat buffer of which there are ``count`` copies, ``shape[0]`` elements apart.

    ``enlarged`` is the buffer with room for all of them, behind the same data variable.
    """

    buffer: Buffer
    count: int
    enlarged: Buffer = field(init=False)

    def __post_init__(self) -> None:
        """Make the enlarged buffer: one object, wherever it is used."""
        size = build.mul(self.stride, const(self.count, self.stride.dtype))
        self.enlarged = self.buffer.with_(shape=(size,))

    @property
    def stride(self) -> Expr:
        """The elements of one copy."""
        return self.buffer.shape[0]


class CopyAccesses(Mutator):
    """Moves every access of the copied buffers to the copy that ``which`` names.

    ``copied`` is by data variable. Buffers of the same data are views: they must be flat and of the same element type.
    Raises :class:`TransformError` (from ``origin``) for another view, and for a pointer that is passed on other than by
    ``access_ptr`` or ``address_of``.
    """

    def __init__(self, copied: Mapping[Var, CopiedBuffer], which: Callable[[Var], Expr], origin: str) -> None:
        self.copied = copied
        self.which = which
        self.origin = origin
        self.made: dict[Buffer, Buffer] = {}
        self.at: Span | None = None

    def map_buffer(self, buffer: Buffer) -> Buffer:
        """The buffer with room for the copies."""
        copied = self.copied.get(buffer.data)
        if copied is None:
            return buffer
        known = self.made.get(buffer)
        if known is None:
            known = self.made[buffer] = self._enlarged(buffer, copied)
        return known

    def _enlarged(self, buffer: Buffer, copied: CopiedBuffer) -> Buffer:
        if buffer is copied.buffer:
            return copied.enlarged
        if not is_flat(buffer) or buffer.dtype is not copied.buffer.dtype:
            self._refuse(copied.buffer, f"its view {buffer.name!r} has another form or element type")
        extent = buffer.shape[0]
        more = build.mul(copied.stride, const(copied.count - 1, copied.stride.dtype))
        return buffer.with_(shape=(build.add(extent, build.cast(extent.dtype, more)),))

    def map_buffer_def(self, buffer: Buffer) -> Buffer:
        """Allocations are left to the pass: it may move them."""
        return buffer

    def offset(self, data: Var, kind: Expr) -> Expr:
        """Where the copy at hand begins, in the index type of an expression."""
        stride = self.copied[data].stride
        number = build.cast(stride.dtype, self.which(data))
        return build.cast(kind.dtype.element, build.mul(number, stride))

    def _moved(self, data: Var, index: Expr) -> Expr:
        by = self.offset(data, index)
        if isinstance(index, Ramp):
            return index.with_(base=build.add(by, index.base))
        if index.dtype.is_vector:
            return build.add(Broadcast(by, index.dtype.lanes), index)
        return build.add(by, index)

    def visit_BufferLoad(self, op: BufferLoad) -> Expr:
        # The buffer is the enlarged one already.
        if op.buffer.data not in self.copied:
            return op
        return op.with_(indices=(self._moved(op.buffer.data, op.indices[0]),))

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        before, self.at = self.at, op.span
        op = self.generic(op)
        self.at = before
        if op.buffer.data not in self.copied:
            return op
        return op.with_(indices=(self._moved(op.buffer.data, op.indices[0]),))

    def visit_DeclBuffer(self, op: DeclBuffer) -> Stmt:
        return op.with_(buffer=self.map_buffer(op.buffer)) if op.buffer.data in self.copied else op

    def enter_Call(self, op: Call) -> Expr | None:
        data = op.args[1] if op.op is _ACCESS_PTR else None
        if not isinstance(data, Var) or data not in self.copied:
            return None
        kind, _, offset, extent, mask = op.args
        by = self.offset(data, offset)
        # The offset counts elements of the pointer's type, which may be vectors.
        have, wanted = self.copied[data].buffer.dtype, kind.dtype
        if have.lanes != wanted.lanes:
            stride = self.copied[data].stride
            if not isinstance(stride, IntImm) or stride.value * have.lanes % wanted.lanes:
                self._refuse(self.copied[data].buffer, f"a pointer to {wanted} does not divide its copies")
            by = build.floordiv(build.mul(by, have.lanes), wanted.lanes)
        moved = self.visit_expr(offset) if is_const_int(by, 0) else build.add(by, self.visit_expr(offset))
        return op.with_(args=(kind, data, moved, self.visit_expr(extent), mask))

    def visit_Var(self, op: Var) -> Var:
        if isinstance(op.type, PointerType) and op in self.copied:
            self._refuse(self.copied[op].buffer, "its pointer is passed on")
        return op

    def _refuse(self, buffer: Buffer, why: str) -> NoReturn:
        raise TransformError(
            f"there are to be several copies of the buffer {buffer.name!r}, but {why}",
            origin=self.origin,
            span=self.at,
            help="access it by its indices, with access_ptr or with address_of",
        )
