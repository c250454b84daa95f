"""A buffer takes the place of another one wherever the function names it."""

from __future__ import annotations

from collections.abc import Callable

from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import BufferLoad, Expr
from tirlower.ir.functor import Substituter
from tirlower.ir.stmt import BufferStore, Stmt
from tirlower.schedule.sites import Change, Edit, Forward, Site
from tirlower.schedule.step import Step

__all__ = ["instead"]


class _Instead(Substituter):
    """Replaces a buffer; what is loaded and stored goes through functions."""

    def __init__(
        self, old: Buffer, new: Buffer, loaded: Callable[[Expr], Expr], stored: Callable[[Expr], Expr]
    ) -> None:
        super().__init__({old.data: new.data}, {old: new})
        self.old = old
        self.new = new
        self.loaded = loaded
        self.stored = stored

    def map_buffer_def(self, buffer: Buffer) -> Buffer:
        """The new buffer stands where the old one is allocated."""
        return self.new if buffer is self.old else super().map_buffer_def(buffer)

    def visit_BufferLoad(self, op: BufferLoad) -> Expr:
        """What is loaded."""
        return self.loaded(op) if op.buffer is self.new else op

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        """What is stored."""
        if op.buffer is not self.old:
            return self.generic(op)
        indices = tuple(self.visit_expr(index) for index in op.indices)
        predicate = None if op.predicate is None else self.visit_expr(op.predicate)
        return BufferStore(self.new, self.stored(self.visit_expr(op.value)), indices, predicate, span=op.span)


def instead(
    step: Step,
    site: Site,
    old: Buffer,
    new: Buffer,
    loaded: Callable[[Expr], Expr] = lambda value: value,
    stored: Callable[[Expr], Expr] = lambda value: value,
    exactness: str = "bitwise",
) -> Change:
    """The change that puts one buffer in the place of another, all handles kept."""
    body = step.func(site).body
    made = _Instead(old, new, loaded, stored).visit(body)
    forward = Forward()
    forward.like(body, made)
    return Change(Edit(Site(site.func, ("body",)), made), forward, (), exactness, {old: new})
