"""Buffers that name memory which another buffer owns: does all of a view lie in it?

The subscripts of an access are compared with the shape of its buffer. A buffer made by ``DeclBuffer`` states a shape of its
own over memory that a parameter or an allocation owns, and can state more than there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import Expr, Var, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import pre_order_visit
from tirlower.ir.stmt import AllocBuffer, AllocConst, DeclBuffer, Stmt
from tirlower.transforms.analyzed import AnalyzedMutator

__all__ = ["View", "find_views"]


@dataclass(frozen=True)
class View:
    """A buffer that may reach outside the memory of the buffer ``owner``: ``elements`` of the view's fit in there."""

    owner: Buffer
    elements: Expr
    reason: str


def find_views(func: PrimFunc) -> tuple[Mapping[Buffer, View], list[Buffer]]:
    """The views of a function that are not proved to lie in their memory, and those of pointers of unknown extent."""
    found = False

    def look(op: Any) -> bool:
        nonlocal found
        found = found or isinstance(op, DeclBuffer)
        return not found and not isinstance(op, Expr)

    pre_order_visit(func.body, look)
    if not found:
        return {}, []
    finder = _Finder(func)
    finder.visit(func.body)
    return finder.open, finder.pointers


def _bytes(buffer: Buffer) -> int:
    return buffer.dtype.bytes * buffer.dtype.lanes


def _span(buffer: Buffer) -> Expr:
    """The elements from the data pointer to the end of the last element, for a buffer that has elements."""
    kind = "int64"
    if buffer.strides:
        span: Expr = const(1, kind)
        for extent, stride in zip(buffer.shape, buffer.strides, strict=True):
            last = build.sub(build.cast(kind, extent), const(1, kind))
            span = build.add(span, build.mul(last, build.cast(kind, stride)))
    else:
        span = const(1, kind)
        for extent in buffer.shape:
            span = build.mul(span, build.cast(kind, extent))
    return build.add(span, build.cast(kind, buffer.elem_offset))


class _Finder(AnalyzedMutator):
    """Compares the views of a function with their memory, under the facts in scope."""

    def __init__(self, func: PrimFunc) -> None:
        super().__init__(func)
        self.owners: dict[Var, Buffer] = {}
        for buffer in func.buffers:
            self.owners.setdefault(buffer.data, buffer)
        self.open: dict[Buffer, View] = {}
        self.pointers: list[Buffer] = []

    def visit_expr(self, root: Any) -> Any:
        return root

    def visit_AllocBuffer(self, op: AllocBuffer) -> Stmt:
        self.owners[op.buffer.data] = op.buffer
        return op

    def visit_AllocConst(self, op: AllocConst) -> Stmt:
        self.owners[op.buffer.data] = op.buffer
        return op

    def visit_DeclBuffer(self, op: DeclBuffer) -> Stmt:
        view = op.buffer
        owner = self.owners.get(view.data)
        if owner is None:
            self.pointers.append(view)
        elif owner is not view and not self._inside(view, owner):
            size = build.mul(_span(owner), const(_bytes(owner), "int64"))
            elements = size if _bytes(view) == 1 else build.floordiv(size, const(_bytes(view), "int64"))
            reason = f"the view {view.name} may reach outside the memory of {owner.name}"
            self.open[view] = View(owner, self.analyzer.simplify(elements), reason)
        return op

    def _inside(self, view: Buffer, owner: Buffer) -> bool:
        need, have = _span(view), _span(owner)
        if _bytes(view) != _bytes(owner):
            need = build.mul(need, const(_bytes(view), "int64"))
            have = build.mul(have, const(_bytes(owner), "int64"))
        zero = const(0, view.elem_offset.dtype)
        starts = self.analyzer.can_prove(build.ge(view.elem_offset, zero))
        return starts and self.analyzer.can_prove(build.le(need, have))
