"""LowerOpaqueBlock: blocks go away; what they stated becomes conditions, allocations and attributes."""

from __future__ import annotations

from typing import Any

from tirlower.diagnostics import TransformError
from tirlower.ir.expr import Expr, IntImm, StringImm, Var, as_expr, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Substituter, Visitor
from tirlower.ir.stmt import AllocBuffer, AttrStmt, Block, For, ForKind, IfThenElse, Seq, Stmt, seq
from tirlower.transforms.base import FuncPass, Stage
from tirlower.transforms.blocks.lower_init import split_head
from tirlower.transforms.context import PassContext

__all__ = ["LowerOpaqueBlock"]

BUFFER_DIM_ALIGN = "buffer_dim_align"
"""Block annotation: tuples (index of the written buffer, axis, factor, offset) that pad strides."""


class _Alignments(Visitor):
    """The alignment annotations of each buffer, by its data variable."""

    def __init__(self) -> None:
        self.found: dict[Var, list[tuple[int, ...]]] = {}

    def visit_Block(self, op: Block) -> None:
        for entry in op.annotations.get(BUFFER_DIM_ALIGN, ()):
            position, *rest = (int(x.value if isinstance(x, IntImm) else x) for x in entry)
            if not 0 <= position < len(op.writes):
                raise TransformError(
                    f"{BUFFER_DIM_ALIGN} of block {op.name!r} names written buffer {position}, it writes {len(op.writes)}",
                    span=op.span,
                )
            self.found.setdefault(op.writes[position].buffer.data, []).append((-1, *rest))
        self.generic(op)


class _Lowerer(Substituter):
    def __init__(self, alignments: dict[Var, list[tuple[int, ...]]]) -> None:
        super().__init__({})
        self.alignments = alignments

    def visit_Block(self, op: Block) -> Stmt:
        if op.iters:
            raise TransformError(
                f"block {op.name!r} has iterators",
                span=op.span,
                help="run ConvertBlocksToOpaque before LowerOpaqueBlock",
            )
        if op.init is not None:
            raise TransformError(f"block {op.name!r} has an init", span=op.span, help="run LowerInitBlock first")
        if op.match_buffers:
            raise TransformError(
                f"block {op.name!r} matches buffer {op.match_buffers[0].buffer.name!r}",
                span=op.span,
                help="run LowerMatchBuffer before LowerOpaqueBlock",
            )
        predicate = self.visit(op.predicate)
        head, rest = split_head(op.body)
        allocations = [self._allocation(stmt) for stmt in head]
        body = seq(*[self.visit(stmt) for stmt in rest])
        if not is_const_int(predicate, 1):
            body = IfThenElse(predicate, body, span=op.span)
        for key in sorted(op.annotations, reverse=True):
            if key.startswith("pragma_"):
                body = AttrStmt(0, key, _attr_expr(op.annotations[key]), body, span=op.span)
        return Seq((*allocations, body)) if allocations else body

    def _allocation(self, stmt: Stmt) -> Stmt:
        made: AllocBuffer = self.generic(stmt)
        aligned = self.alignments.get(made.buffer.data)
        if aligned:
            made = made.with_(annotations={**made.annotations, BUFFER_DIM_ALIGN: tuple(aligned)})
        return made

    def visit_For(self, op: For) -> Stmt:
        low, extent = self.visit(op.min), self.visit(op.extent)
        unit = is_const_int(extent, 1) and not op.annotations and op.kind is not ForKind.THREAD_BINDING
        if not unit:
            return op.with_(min=low, extent=extent, body=self.visit(op.body))
        self.vmap[op.loop_var] = low
        # Buffers made under this binding must not leak to another loop that reuses them.
        outer, self.buffers = self.buffers, dict(self.buffers)
        body: Stmt = self.visit(op.body)
        self.buffers = outer
        return body


def _attr_expr(value: Any) -> Expr:
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, (Expr, int, float)):
        return as_expr(value)
    raise TransformError(f"the value of a pragma is a number, a string or an expression, got {value!r}")


class LowerOpaqueBlock(FuncPass):
    """Blocks go away: their predicates become ``if``, their allocations plain statements, their pragmas attributes.

    Loops of extent one without annotations are dropped, their variable replaced by its value; thread loops stay.
    Other annotations of blocks are dropped, but for ``buffer_dim_align``, which moves to the allocation.
    Needs ConvertBlocksToOpaque, LowerInitBlock and LowerMatchBuffer; raises :class:`TransformError` otherwise.
    """

    name = "tir.LowerOpaqueBlock"
    stage = Stage.OPAQUE
    needs = ("tir.ConvertBlocksToOpaque", "tir.LowerMatchBuffer")

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Lower every block of a function."""
        alignments = _Alignments()
        alignments.visit(func.body)
        return func.with_body(_Lowerer(alignments.found).visit(func.body))
