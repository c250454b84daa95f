"""PlanAndUpdateBufferAllocationLocation: each allocation moves to the lowest common ancestor of its accesses."""

from __future__ import annotations

from tirlower.analysis.lca import detect_buffer_access_lca
from tirlower.diagnostics import TransformError
from tirlower.ir.buffer import Buffer, BufferRegion
from tirlower.ir.expr import Expr, Var, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Mutator, Visitor, post_order_visit
from tirlower.ir.regions import block_access_regions
from tirlower.ir.stmt import AllocBuffer, Bind, Block, For, Seq, Stmt, seq
from tirlower.transforms.base import FuncPass, Stage
from tirlower.transforms.blocks.lower_init import split_head
from tirlower.transforms.context import PassContext

__all__ = ["PlanAndUpdateBufferAllocationLocation"]


class _Collector(Visitor):
    """The allocations at the heads of blocks, in order, and which scope defines each variable."""

    def __init__(self) -> None:
        self.allocations: list[AllocBuffer] = []
        self.path: list[Stmt] = []
        self.defined_in: dict[Var, tuple[Stmt, ...]] = {}

    def _define(self, var: Var) -> None:
        self.defined_in[var] = tuple(self.path)

    def visit_For(self, op: For) -> None:
        self.path.append(op)
        self._define(op.loop_var)
        self.visit(op.body)
        self.path.pop()

    def visit_Block(self, op: Block) -> None:
        self.path.append(op)
        for it in op.iters:
            self._define(it.var)
        head, _ = split_head(op.body)
        self.allocations += [stmt for stmt in head if isinstance(stmt, AllocBuffer)]
        if op.init is not None:
            self.visit(op.init)
        self.visit(op.body)
        self.path.pop()

    def visit_Bind(self, op: Bind) -> None:
        self._define(op.var)

    def visit_expr(self, root: Expr) -> None:
        """Expressions hold no allocation."""


def _needs_scope(buffer: Buffer, defined_in: dict[Var, tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
    """The innermost path that defines a variable of the buffer's shape."""
    deepest: tuple[Stmt, ...] = ()

    def look(op: object) -> None:
        nonlocal deepest
        if isinstance(op, Var):
            path = defined_in.get(op, ())
            if len(path) > len(deepest):
                deepest = path

    for part in (*buffer.shape, *buffer.strides, buffer.elem_offset):
        post_order_visit(part, look)
    return deepest


class _Placer(Mutator):
    def __init__(self, func: PrimFunc) -> None:
        collector = _Collector()
        collector.visit(func.body)
        ancestors = detect_buffer_access_lca(func)
        self.moved: set[AllocBuffer] = set(collector.allocations)
        self.at: dict[Stmt, list[AllocBuffer]] = {}
        self.visible: dict[Var, Buffer] = {buffer.data: buffer for buffer in func.buffers}
        for alloc in collector.allocations:
            buffer = alloc.buffer
            if buffer not in ancestors:
                continue  # never accessed: no memory is needed
            place = ancestors[buffer]
            needed = _needs_scope(buffer, collector.defined_in)
            if needed and place is not None and place in needed[:-1]:
                place = needed[-1]
            if place is None:
                raise TransformError(
                    f"the accesses of buffer {buffer.name!r} have no common loop or block",
                    span=alloc.span,
                    help="put them into one root block",
                )
            self.at.setdefault(place, []).append(alloc)

    def visit_expr(self, root: Expr) -> Expr:
        return root

    def visit_Block(self, op: Block) -> Stmt:
        if op.init is not None:
            raise TransformError(
                f"block {op.name!r} still has an init",
                span=op.span,
                help="run LowerInitBlock before PlanAndUpdateBufferAllocationLocation",
            )
        head, rest = split_head(op.body)
        placed = self.at.get(op, [])
        outside = dict(self.visible)
        for alloc in placed:
            self.visible[alloc.buffer.data] = alloc.buffer
        for match in op.match_buffers:
            self.visible[match.buffer.data] = match.buffer
        body = [self.visit(stmt) for stmt in rest]
        self.visible = outside
        reads, writes = self._outside(op.reads), self._outside(op.writes)
        same = (
            len(placed) == len(head)
            and all(a is b for a, b in zip(placed, head, strict=True))
            and all(a is b for a, b in zip(body, rest, strict=True))
        )
        new_body = op.body if same else _sequence([*placed, *body])
        return op.with_(reads=reads, writes=writes, body=new_body)

    def _outside(self, regions: tuple[BufferRegion, ...]) -> tuple[BufferRegion, ...]:
        """The regions of buffers that exist outside the block."""
        kept = tuple(r for r in regions if r.buffer.data in self.visible)
        return regions if len(kept) == len(regions) else kept

    def visit_For(self, op: For) -> Stmt:
        placed = self.at.get(op)
        if not placed:
            return op.with_(body=self.visit(op.body))
        outside = dict(self.visible)
        for alloc in placed:
            self.visible[alloc.buffer.data] = alloc.buffer
        body = self.visit(op.body)
        self.visible = outside
        opaque = Block("", (), const(True, "bool"), (), (), None, (), {}, _sequence([*placed, body]), span=op.span)
        regions = block_access_regions(opaque, self.visible)
        return op.with_(body=opaque.with_(reads=regions.reads, writes=regions.writes))


def _sequence(stmts: list[Stmt]) -> Stmt:
    return Seq(tuple(stmts)) if len(stmts) > 1 else stmts[0] if stmts else seq()


class PlanAndUpdateBufferAllocationLocation(FuncPass):
    """The allocations of blocks move to the lowest common ancestor of their buffer's accesses.

    The ancestor is a loop or a block. At a block the allocation heads its body; at a loop the body is wrapped in a
    block without iterators that owns it. Loops that carry a buffer's values (a reduction's) stay inside; so do the
    loops over a grid for global buffers. A buffer that nothing accesses is dropped. Needs LowerInitBlock.
    """

    name = "tir.PlanAndUpdateBufferAllocationLocation"
    stage = Stage.BLOCK
    needs = ("tir.LowerInitBlock",)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Move the allocations of a function."""
        return func.with_body(_Placer(func).visit(func.body))
