"""Copies that go on by themselves, as the analysis of dependences between threads sees them.

A copy only comes behind what others did before; what it wrote is handed on where a thread waits for its groups. So a wait
is replaced, for the analysis, by a call that writes what copies may have written (or reads what stores from shared
memory may have read), and afterwards put back. What a barrier object orders, such as the writes of bulk copies, is left
to it.
"""

from __future__ import annotations

from tirlower.ir import build
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import Call, Expr, StringImm, Var, const
from tirlower.ir.functor import StmtMutator, pre_order_visit
from tirlower.ir.node import Node
from tirlower.ir.op import Op
from tirlower.ir.stmt import Evaluate, Stmt
from tirlower.poly import Access

__all__ = ["DeviceCalls", "is_object_wait", "ordered_by_object"]

_READ, _WRITE = 1, 2

_CP_ASYNC = Op.get("tir.ptx_cp_async")
_WAIT_GROUP = Op.get("tir.ptx_wait_group")
_BULK_COPIES = (Op.get("tir.ptx_cp_async_bulk"), Op.get("tir.ptx_cp_async_bulk_tensor"))
_BULK_STORE = Op.get("tir.ptx_cp_async_bulk_tensor_store")
_BULK_WAIT = Op.get("tir.ptx_bulk_wait_group")
_OBJECT_WAIT = Op.get("tir.ptx_wait_barrier")


def is_object_wait(stmt: Stmt) -> bool:
    """Whether a statement waits for a barrier object (mbarrier)."""
    return isinstance(stmt, Evaluate) and isinstance(stmt.value, Call) and stmt.value.op is _OBJECT_WAIT


def ordered_by_object(access: Access) -> bool:
    """Whether an access is a bulk copy's write, whose end a barrier object tells."""
    return access.is_write and isinstance(access.node, Call) and access.node.op in _BULK_COPIES


def _anywhere(data: Var, mask: int) -> Expr:
    """A pointer to all elements."""
    element = data.type.element if isinstance(data.type, PointerType) else data.dtype
    kind = build.call("tir.type_annotation", dtype=element)
    size = const(1 << 40, "int64")
    return build.call("tir.tvm_access_ptr", kind, data, const(0, "int64"), size, const(mask, "int32"))


class DeviceCalls(StmtMutator):
    """A function's body for the analysis (``body``), and how to come back from it.

    ``copies`` are statements whose writes go on, ``waits`` those that stand for waits in ``body``.
    """

    def __init__(self, body: Stmt) -> None:
        self.copies: set[Stmt] = set()
        self.waits: set[Stmt] = set()
        self._old: dict[Stmt, Stmt] = {}
        self._written: dict[Var, None] = {}
        self._read: dict[Var, None] = {}
        pre_order_visit(body, self._look)
        self.body = self.visit(body) if self._written or self._read else body

    def _look(self, op: Node) -> None:
        if op.__class__ is Call and op.op is _CP_ASYNC and isinstance(op.args[0], Var):
            self._written[op.args[0]] = None
        elif op.__class__ is Call and op.op is _BULK_STORE and isinstance(op.args[1], Var):
            self._read[op.args[1]] = None

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        """A wait with what it hands on, or the statement itself."""
        call = op.value
        if not isinstance(call, Call):
            return op
        if call.op is _CP_ASYNC:
            self.copies.add(op)
        if call.op is not _WAIT_GROUP and call.op is not _BULK_WAIT:
            return op
        data, mask = (self._written, _WRITE) if call.op is _WAIT_GROUP else (self._read, _READ)
        pointers = [_anywhere(each, mask) for each in data]
        wait = op.with_(value=build.call("tir.call_extern", StringImm("wait"), *pointers, dtype="int32"))
        self._old[wait] = op
        self.waits.add(wait)
        return wait

    def restored(self, body: Stmt) -> Stmt:
        """A body with the waits put back."""
        return _Restorer(self._old).visit(body) if self._old else body


class _Restorer(StmtMutator):
    def __init__(self, old: dict[Stmt, Stmt]) -> None:
        self.old = old

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        return self.old.get(op, op)
