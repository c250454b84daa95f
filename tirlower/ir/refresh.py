"""Fresh binders: a copied statement gets variables and buffers of its own."""

from __future__ import annotations

from typing import Any

from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import Var
from tirlower.ir.functor import Substituter
from tirlower.ir.stmt import AllocBuffer, AllocConst, For, ForKind, Stmt

__all__ = ["copy_var", "refresh_binders"]


def copy_var(var: Var, name: str | None = None) -> Var:
    """A new variable of the same type."""
    return Var(var.name if name is None else name, var.type, var.nonneg, span=var.span)


class _Refresher(Substituter):
    """Every definition inside is replaced by a new one; what is free stays."""

    def __init__(self) -> None:
        super().__init__({})

    def map_var_def(self, var: Var) -> Var:
        known = self.vmap.get(var)
        if known is None:
            known = copy_var(var)
            self.vmap[var] = known
            # A buffer seen before its shape or data was renamed would be stale.
            self.buffers.clear()
        return known  # type: ignore[return-value]

    def map_buffer_def(self, buffer: Buffer) -> Buffer:
        known = self.buffers.get(buffer)
        if known is None:
            # A definition is always a new object, also when none of its parts changed.
            changed = self.map_buffer(buffer)
            known = changed if changed is not buffer else Buffer(*[getattr(buffer, f.name) for f in buffer.fields])
            self.buffers[buffer] = known
        return known

    def visit_AllocBuffer(self, op: AllocBuffer) -> Stmt:
        self.map_var_def(op.buffer.data)
        return self.generic(op)

    def visit_AllocConst(self, op: AllocConst) -> Stmt:
        self.map_var_def(op.buffer.data)
        return self.generic(op)

    def visit_For(self, op: For) -> Stmt:
        if op.kind is ForKind.THREAD_BINDING and not (op.thread_tag or "").startswith("vthread"):
            # The loops of one thread axis share their variable.
            return op.map_children(self.visit)
        return self.generic(op)


def refresh_binders(stmt: Any) -> Any:
    """A copy of a statement (or expression) in which every variable and buffer defined inside is new.

    A pass that places a body twice refreshes the copies, so that each definition stays unique. The variables of
    thread loops are shared by all loops of their axis and stay.
    """
    return _Refresher().visit(stmt)
