"""A buffer takes the place of another one wherever the function names it."""

from __future__ import annotations

from collections.abc import Callable

from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import BufferLoad, Expr
from tirlower.ir.functor import Kept, Substituter
from tirlower.ir.stmt import BufferStore, Stmt
from tirlower.schedule.edits import edits_between
from tirlower.schedule.sites import Change, Forward, Site
from tirlower.schedule.step import Step
from tirlower.schedule.uses import UsesOf

__all__ = ["instead"]


class _Instead(Substituter):
    """Replaces a buffer; what is loaded and stored goes through functions. What does not name it is not looked into."""

    def __init__(
        self,
        old: Buffer,
        new: Buffer,
        loaded: Callable[[Expr], Expr],
        stored: Callable[[Expr], Expr],
        uses: UsesOf,
    ) -> None:
        super().__init__({old.data: new.data}, {old: new})
        self.uses = uses
        self.old = old
        self.new = new
        self.loaded = loaded
        self.stored = stored

    def visit(self, op: Kept) -> Kept:
        """A node that names the buffer, or an expression."""
        if isinstance(op, Stmt) and self.old.data not in self.uses(op).named:
            return op
        return super().visit(op)

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
    made = _Instead(old, new, loaded, stored, step.facts.uses).visit(body)
    forward = Forward()
    forward.like(body, made)
    return Change(edits_between(Site(site.func, ("body",)), body, made), forward, (), exactness, {old: new})
