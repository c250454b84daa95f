"""The memory of a vectorized loop: allocations with a part for each lane."""

from __future__ import annotations

from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import (
    BufferLoad,
    Call,
    Expr,
    Var,
)
from tirlower.ir.functor import Mutator
from tirlower.ir.op import Op
from tirlower.ir.stmt import BufferStore, DeclBuffer, Stmt
from tirlower.rewrite.vectors.masks import Scalarize

__all__ = ["LaneAllocation"]


class LaneAllocation(Mutator):
    """Gives each lane its own part of an allocation: element ``i`` of lane ``l`` stands at ``i * lanes + l``.

    Raises :class:`Scalarize` where the address is taken, or a view has a layout or type of its own.
    """

    def __init__(self, old: Buffer, var: Var, extent: Expr) -> None:
        self.old, self.var, self.extent = old, var, extent
        if not old.is_compact:
            raise Scalarize(f"the allocation {old.name!r} has strides or an offset")
        data = Var(old.data.name, old.data.type, span=old.data.span)
        self.new = self._longer(old, data)
        self.views: dict[Buffer, Buffer] = {old: self.new}

    def _longer(self, buffer: Buffer, data: Var) -> Buffer:
        if not buffer.shape:
            return buffer.with_(shape=(self.extent,), data=data)
        last = buffer.shape[-1]
        return buffer.with_(shape=(*buffer.shape[:-1], build.mul(last, build.cast(last.dtype, self.extent))), data=data)

    def _buffer(self, buffer: Buffer) -> Buffer | None:
        if buffer.data is not self.old.data:
            return None
        made = self.views.get(buffer)
        if made is None:
            if not buffer.is_compact or buffer.dtype is not self.old.dtype:
                raise Scalarize(f"the view {buffer.name!r} of an allocation has a layout or type of its own")
            made = self.views[buffer] = self._longer(buffer, self.new.data)
        return made

    def _indices(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        if not indices:
            return (self.var,)
        last = indices[-1]
        element = last.dtype.element
        lanes, lane = build.cast(element, self.extent), build.cast(element, self.var)
        return (*indices[:-1], build.add(build.mul(last, lanes), lane))

    def visit_BufferLoad(self, op: BufferLoad) -> Expr:
        new = self._buffer(op.buffer)
        return op if new is None else op.with_(buffer=new, indices=self._indices(op.indices))

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        op = self.generic(op)
        new = self._buffer(op.buffer)
        return op if new is None else op.with_(buffer=new, indices=self._indices(op.indices))

    def visit_DeclBuffer(self, op: DeclBuffer) -> Stmt:
        new = self._buffer(op.buffer)
        return op if new is None else op.with_(buffer=new)

    def visit_Var(self, op: Var) -> Expr:
        if op is self.old.data:
            raise Scalarize(f"the address of the allocation {self.old.name!r} is taken")
        return op

    def visit_Call(self, op: Call) -> Expr:
        element = op.args[0] if op.op is Op.get("tir.address_of") else None
        if isinstance(element, BufferLoad) and element.buffer.data is self.new.data:
            raise Scalarize(f"the address of the allocation {self.old.name!r} is taken")
        return op
