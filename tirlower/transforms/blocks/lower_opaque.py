"""LowerOpaqueBlock: blocks go away; what they stated becomes conditions, allocations and attributes."""

from __future__ import annotations

from tirlower.analysis.purity import side_effect
from tirlower.diagnostics import TransformError
from tirlower.ir.annotations import BUFFER_DIM_ALIGN, numbers_of
from tirlower.ir.expr import Expr, StringImm, Var, as_expr, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Substituter, Visitor
from tirlower.ir.op import Purity
from tirlower.ir.splice import as_scope, jumps_out, loop_inside, split_head
from tirlower.ir.stmt import AllocBuffer, AttrStmt, Block, For, ForKind, IfThenElse, Seq, Stmt, seq
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.double_buffer_marks import DOUBLE_BUFFER_SCOPE, doubled_buffer

__all__ = ["LowerOpaqueBlock"]

IRREGULAR = "irregular_loop_mark"
"""Loop annotation of schedules; it says nothing about the lowered loop."""


class _Alignments(Visitor):
    """The alignment annotations of each buffer, by its data variable."""

    def __init__(self) -> None:
        self.found: dict[Var, list[tuple[int, ...]]] = {}

    def visit_expr(self, root: Expr) -> None:
        """Expressions hold no blocks."""

    def visit_Block(self, op: Block) -> None:
        for position, *rest in numbers_of(op.annotations, BUFFER_DIM_ALIGN):
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
        self.pragmatic: set[Var] = set()
        """The variables of loops that attributes around them are about."""

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        loop = loop_inside(op)
        if loop is not None and op.key.startswith("pragma_"):
            self.pragmatic.add(loop.loop_var)
        return self.generic(op)

    def visit_expr(self, root: Expr) -> Expr:
        """Without a dropped loop around there is nothing to replace."""
        return super().visit_expr(root) if self.vmap else root

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
        inner = [self.visit(stmt) for stmt in rest]
        body = as_scope(seq(*inner))
        pragmas = [key for key in sorted(op.annotations, reverse=True) if key.startswith("pragma_")]
        if not is_const_int(predicate, 1):
            body = IfThenElse(predicate, body, span=op.span)
        for key in pragmas:
            body = AttrStmt(0, key, _attr_expr(op.annotations[key], f"block {op.name!r}", op), body, span=op.span)
        doubled = doubled_buffer(op)
        if doubled is not None:
            body = AttrStmt(doubled.data, DOUBLE_BUFFER_SCOPE, const(1), body, span=op.span)
        if not allocations:
            return body
        plain = is_const_int(predicate, 1) and not pragmas and doubled is None
        return Seq((*allocations, *inner)) if plain else Seq((*allocations, body))

    def _allocation(self, stmt: Stmt) -> Stmt:
        made = self.generic(stmt)
        assert isinstance(made, AllocBuffer)
        aligned = self.alignments.get(made.buffer.data)
        if aligned:
            made = made.with_(annotations={**made.annotations, BUFFER_DIM_ALIGN: tuple(aligned)})
        return made

    def visit_For(self, op: For) -> Stmt:
        low, extent = self.visit(op.min), self.visit(op.extent)
        notes = {key: self.map_attr(value) for key, value in op.annotations.items() if key != IRREGULAR}
        pragmas = [key for key in sorted(notes, reverse=True) if key.startswith("pragma_")]
        kept = {key: value for key, value in notes.items() if key not in pragmas}
        # A start that reads memory is read once: in the place of the variable it could be another one.
        once = is_const_int(extent, 1) and side_effect(low) is Purity.PURE
        known = once and not notes and op.loop_var not in self.pragmatic
        if known:
            self.vmap[op.loop_var] = low
        # A thread loop stays a launch of one thread; of another loop a break would leave the loop around instead.
        if not known or op.kind is ForKind.THREAD_BINDING or jumps_out(op.body):
            changed = len(kept) != len(op.annotations) or any(op.annotations[k] is not v for k, v in kept.items())
            made: Stmt = op.with_(
                min=low, extent=extent, annotations=kept if changed else op.annotations, body=self.visit(op.body)
            )
        else:
            made = as_scope(self.visit(op.body))
        if known:
            del self.vmap[op.loop_var]
        for key in pragmas:
            value = _attr_expr(notes[key], f"loop {op.loop_var.name!r}", op)
            # About the loop inside, but not by its variable: what later passes make of the loop may have none.
            made = AttrStmt(0, key, value, made, span=op.span)
        return made


def _attr_expr(value: object, owner: str, op: Block | For) -> Expr:
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, (Expr, int, float)):
        return as_expr(value)
    raise TransformError(
        f"the value of a pragma is a number, a string or an expression, got {value!r}",
        span=op.span,
        help=f"change the annotation of {owner}",
    )


class LowerOpaqueBlock(FuncPass):
    """Blocks go away: their predicates become ``if``, their allocations plain statements, their pragmas attributes.

    In loops of extent one without annotations the variable is replaced by its value; but for thread loops they are
    dropped. Annotations ``pragma_…`` of other loops become attributes around them, in the order of their names (TIR's name
    the loop's variable, which later passes may replace). Other annotations of blocks are dropped, but for ``buffer_dim_align``, which moves to the allocation, and
    ``double_buffer_scope``, the position of the written buffer that the block's new attribute of that name is about.
    Needs ConvertBlocksToOpaque, LowerInitBlock and LowerMatchBuffer; raises :class:`TransformError` otherwise.

    >>> from tirlower.script import parse
    >>> print(LowerOpaqueBlock()(parse('''
    ... @T.prim_func
    ... def fill(A: T.Buffer((13,), "int32")):
    ...     for i, j, k in T.grid(4, 4, 1):
    ...         with T.block():
    ...             T.where(i * 4 + j < 13)
    ...             T.reads()
    ...             T.writes(A[i * 4 + j])
    ...             B = T.alloc_buffer((1,), "int32")
    ...             B[0] = i + k
    ...             A[i * 4 + j] = B[0]
    ... ''')).script())
    @T.prim_func
    def fill(A: T.Buffer((13,), "int32")):
        for i, j in T.grid(4, 4):
            B = T.alloc_buffer((1,), "int32")
            if i * 4 + j < 13:
                B[0] = i
                A[i * 4 + j] = B[0]
    """

    name = "tir.LowerOpaqueBlock"
    stage = Stage.OPAQUE
    needs = ("tir.ConvertBlocksToOpaque", "tir.LowerMatchBuffer")
    breaks = (Fact.BLOCKS,)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Lower every block of a function."""
        alignments = _Alignments()
        alignments.visit(func.body)
        return func.with_body(_Lowerer(alignments.found).visit(func.body))
