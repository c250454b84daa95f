"""The memory of a vectorized loop: allocations with a part for each lane, and accesses under a mask."""

from __future__ import annotations

from typing import Any

from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import LT, And, Broadcast, BufferLoad, Call, Expr, Ramp, Var, is_const_int
from tirlower.ir.functor import Mutator
from tirlower.ir.op import Op, Purity
from tirlower.ir.stmt import BufferStore, DeclBuffer, Evaluate, Stmt
from tirlower.transforms.loops.vectorize_expr import Scalarize

__all__ = ["LaneAllocation", "Masker", "mask_of"]


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


def mask_of(condition: Expr) -> Expr:
    """A vector condition as a mask: ``base + lane < limit`` as the lane mask that targets have, others as they are."""
    while isinstance(condition, Call) and condition.op is Op.get("tir.likely"):
        condition = condition.args[0]
    if isinstance(condition, LT) and isinstance(condition.a, Ramp) and isinstance(condition.b, Broadcast):
        ramp, limit = condition.a, condition.b.value
        if is_const_int(ramp.stride, 1) and limit.dtype.is_scalar:
            return Call(Op.get("tir.get_active_lane_mask"), (ramp.base, limit), condition.dtype, span=condition.span)
    return condition


class Masker(Mutator):
    """Puts a mask on every vector access of a vectorized statement; raises :class:`Scalarize` where it cannot."""

    def __init__(self, mask: Expr) -> None:
        self.mask = mask

    def _merge(self, predicate: Expr | None, index: Expr) -> Expr:
        mask = self.mask
        if index.dtype.lanes != mask.dtype.lanes or index.dtype.scalable != mask.dtype.scalable:
            raise Scalarize("an access under the condition has other lanes than the loop")
        return mask if predicate is None else And(mask, predicate)

    def visit_BufferLoad(self, op: BufferLoad) -> Expr:
        # A load that does not depend on the lanes may be outside its buffer where the condition holds for none.
        if not op.indices or not op.indices[-1].dtype.is_vector:
            raise Scalarize("a scalar load under a condition that differs between lanes")
        return op.with_(predicate=self._merge(op.predicate, op.indices[-1]))

    def visit_Call(self, op: Call) -> Expr:
        if not isinstance(op.op, Op) or op.op.purity >= Purity.WRITES:
            raise Scalarize(f"a call of {op.op.name} under a condition that differs between lanes")
        return op

    def _no_division(self, op: Any) -> Expr:
        if op.dtype.is_integral and not _nonzero(op.b):
            raise Scalarize("a division that may be by zero under a condition that differs between lanes")
        return op

    visit_Div = visit_Mod = visit_FloorDiv = visit_FloorMod = _no_division

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        if not op.indices or not op.indices[-1].dtype.is_vector:
            raise Scalarize("a scalar store under a condition that differs between lanes")
        op = self.generic(op)
        return op.with_(predicate=self._merge(op.predicate, op.indices[-1]))

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        if isinstance(op.value, Call):
            raise Scalarize("a call under a condition that differs between lanes")
        return op

    def visit_For(self, op: Any) -> Stmt:
        raise Scalarize(f"a {type(op).__name__} under a condition that differs between lanes")

    visit_While = visit_IfThenElse = visit_Assert = visit_AttrStmt = visit_AllocBuffer = visit_DeclBuffer = visit_For


def _nonzero(expr: Expr) -> bool:
    return is_const_int(expr) and not is_const_int(expr, 0)
