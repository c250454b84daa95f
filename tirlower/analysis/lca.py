"""Lowest common ancestors of the accesses to each buffer, among loops and blocks."""

from __future__ import annotations

from tirlower.analysis.arguments import the_function
from tirlower.ir.buffer import Buffer, IterKind
from tirlower.ir.expr import BufferLoad, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Visitor
from tirlower.ir.query import each
from tirlower.ir.stmt import (
    AllocBuffer,
    AllocConst,
    AttrStmt,
    Block,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    Stmt,
)

__all__ = ["detect_buffer_access_lca"]


class _Scope:
    """A loop or block on the path from the root, with its parent and depth."""

    __slots__ = ("depth", "parent", "stmt")

    def __init__(self, parent: _Scope | None, stmt: Stmt | None) -> None:
        self.parent = parent
        self.stmt = stmt
        self.depth: int = 0 if parent is None else parent.depth + 1


def _meet(a: _Scope | None, b: _Scope) -> _Scope:
    if a is None:
        return b
    while a is not b:
        if a.depth > b.depth:
            assert a.parent is not None
            a = a.parent
        else:
            assert b.parent is not None
            b = b.parent
    return a


class _Detector(Visitor):
    def __init__(self, func: PrimFunc) -> None:
        self.root = _Scope(None, None)
        self.scope = self.root
        self.lca: dict[Buffer, _Scope] = {}
        self.owner: dict[Var, list[Buffer]] = {}
        self.source: dict[Buffer, Buffer] = {}
        self.loop_scope: dict[Var, _Scope] = {}
        self.grid: list[_Scope] = []
        for buffer in func.buffers:
            self.own(buffer)

    def own(self, buffer: Buffer) -> None:
        self.owner.setdefault(buffer.data, []).append(buffer)

    def touch(self, buffer: Buffer, scope: _Scope) -> None:
        """An access in a scope; one through a matched region or a view counts for the source too."""
        seen: Buffer | None = buffer
        while seen is not None:
            self.lca[seen] = _meet(self.lca.get(seen), scope)
            seen = self.source.get(seen)

    def visit_For(self, op: For) -> None:
        """Enter a loop: its bounds are evaluated outside it."""
        self.visit(op.min)
        self.visit(op.extent)
        outer = self.scope
        self.scope = _Scope(outer, op)
        self.loop_scope[op.loop_var] = self.scope
        if op.kind is ForKind.THREAD_BINDING and (op.thread_tag or "").startswith("blockIdx"):
            self.grid.append(self.scope)
        self.visit(op.body)
        self.scope = outer

    def visit_AttrStmt(self, op: AttrStmt) -> None:
        """A data variable or buffer that an attribute names is used there."""
        if isinstance(op.node, Buffer):
            self.touch(op.node, self.scope)
        elif isinstance(op.node, Var):
            self.opaque(op.node)
        self.generic(op)

    def visit_Block(self, op: Block) -> None:
        """Enter a block: bindings and predicate belong outside; values carried by non-spatial iterators keep the
        written buffers above the loops that carry them."""
        for it in op.iters:
            self.visit(it.domain.min)
            self.visit(it.domain.extent)
            if it.value is not None:
                self.visit(it.value)
        self.visit(op.predicate)
        outer = self.scope
        self.scope = _Scope(outer, op)
        for match in op.match_buffers:
            self.source[match.buffer] = match.source.buffer
            self.own(match.buffer)
            self.touch(match.source.buffer, self.scope)
            self.visit(match.source)
        carrying = self._carrying_scope(op)
        private = self._carrying_scope(op, threads=False)
        if op.init is not None:
            self._declare_head(op)
            self.visit(op.init)
        self.visit(op.body)
        for region in op.writes or ():
            home = private if region.buffer.scope == "local" else carrying
            if home is not None:
                self.touch(region.buffer, home)
        self._touch_ordered_reads(op)
        self.scope = outer

    def _touch_ordered_reads(self, op: Block) -> None:
        """A region read at a scan or opaque iterator may hold what an earlier iteration of its loop wrote."""
        ordered: dict[Var, _Scope] = {}
        for it in op.iters:
            if it.kind in (IterKind.SPATIAL, IterKind.REDUCE) or it.value is None:
                continue
            loops = [self.loop_scope[var] for var in each(Var, it.value) if var in self.loop_scope]
            parents = [loop.parent for loop in loops if loop.parent is not None]
            if parents:
                ordered[it.var] = min(parents, key=lambda scope: scope.depth)
        for region in (op.reads or ()) if ordered else ():
            for part in region.region:
                for var in (*each(Var, part.min), *each(Var, part.extent)):
                    if var in ordered:
                        self.touch(region.buffer, ordered[var])

    def _declare_head(self, op: Block) -> None:
        for buffer in op.alloc_buffers:
            self.own(buffer)

    def _carrying_scope(self, op: Block, threads: bool = True) -> _Scope | None:
        """The scope around the outermost loop that a reduction (or other ordered) iterator is bound to.

        Loops over threads count as others do, unless ``threads`` is False: the memory of one thread they do not carry.
        """
        highest: _Scope | None = None
        for it in op.iters:
            if it.kind is IterKind.SPATIAL or it.value is None:
                continue
            for var in each(Var, it.value):
                loop = self.loop_scope.get(var)
                if loop is not None and not threads and _is_thread_loop(loop.stmt):
                    continue
                if loop is not None and (highest is None or loop.depth <= highest.depth):
                    highest = loop.parent
        return highest

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        """The shape of an allocation is evaluated where it stands."""
        self.own(op.buffer)
        self.generic(op)

    def visit_AllocConst(self, op: AllocConst) -> None:
        """A constant is a buffer like any other."""
        self.own(op.buffer)

    def visit_DeclBuffer(self, op: DeclBuffer) -> None:
        """A view belongs to the buffers of its data, and names that data where it stands."""
        for other in self.owner.get(op.buffer.data, []):
            if other is not op.buffer:
                self.source.setdefault(op.buffer, other)
                self.touch(other, self.scope)
                break
        self.own(op.buffer)

    def visit_BufferLoad(self, op: BufferLoad) -> None:
        """A read."""
        self.touch(op.buffer, self.scope)

    def visit_BufferStore(self, op: BufferStore) -> None:
        """A write."""
        self.touch(op.buffer, self.scope)
        self.generic(op)

    def visit_Var(self, op: Var) -> None:
        """A data variable outside an access: an opaque use of all its buffers."""
        self.opaque(op)

    def opaque(self, var: Var) -> None:
        for buffer in self.owner.get(var, ()):
            self.touch(buffer, self.scope)

    def result(self) -> dict[Buffer, Stmt | None]:
        for buffer, scope in self.lca.items():
            if buffer.scope == "global":
                for grid in self.grid:
                    scope = _meet(scope, grid)
            self.lca[buffer] = scope
        return {buffer: scope.stmt for buffer, scope in self.lca.items()}


def _is_thread_loop(stmt: Stmt | None) -> bool:
    return (
        isinstance(stmt, For) and stmt.kind is ForKind.THREAD_BINDING and str(stmt.thread_tag).startswith("threadIdx")
    )


def detect_buffer_access_lca(func: PrimFunc) -> dict[Buffer, Stmt | None]:
    """For each accessed buffer, the innermost loop or block around all its accesses; None where only the function is.

    A buffer written by a block whose reduction (or other non-spatial) iterators are bound to loops has its ancestor
    outside those loops, which carry its values; a global buffer has it no deeper than the outermost loop over a grid of
    thread blocks.
    Accesses through a matched region, a view or the bare data variable count, and so does the declaration of a view.
    """
    detector = _Detector(the_function(func, "detect_buffer_access_lca"))
    detector.visit(func.body)
    return detector.result()
