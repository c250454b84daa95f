"""ConvertBlocksToOpaque: block iterators are replaced by the values they are bound to."""

from __future__ import annotations

from tirlower.diagnostics import TransformError
from tirlower.ir.expr import Expr, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Substituter
from tirlower.ir.stmt import Block, Stmt
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext

__all__ = ["ConvertBlocksToOpaque"]


class _Converter(Substituter):
    """Substitutes the iterators of the blocks around; a use outside its block is an error."""

    def __init__(self) -> None:
        super().__init__({})
        self.left: set[Var] = set()
        self.early: set[Var] = set()

    def visit_expr(self, root: Expr) -> Expr:
        """Expressions before the first block hold no iterator."""
        return super().visit_expr(root) if self.vmap or self.left or self.early else root

    def visit_Var(self, op: Var) -> Expr:
        """The binding of an iterator in scope."""
        if op in self.left:
            raise TransformError(
                f"the block iterator {op.name!r} is used outside its block",
                span=op.span,
                help="bind it to a loop variable",
            )
        if op in self.early:
            raise TransformError(
                f"the block iterator {op.name!r} is used in a predicate or binding of its own block, which are outside it",
                span=op.span,
                help="write them in terms of the loop variables",
            )
        return self.vmap.get(op, op)

    def visit_Block(self, op: Block) -> Stmt:
        """Bind the iterators, then rewrite everything inside."""
        if op.init is not None:
            raise TransformError(
                f"block {op.name!r} still has an init",
                span=op.span,
                help="run LowerInitBlock before ConvertBlocksToOpaque",
            )
        bound: list[Expr] = []
        for it in op.iters:
            if it.value is None:
                raise TransformError(f"the iterator {it.var.name!r} of block {op.name!r} has no binding", span=op.span)
            bound.append(it.value)
        self.early = {it.var for it in op.iters}
        predicate = self.visit(op.predicate)
        values = [self.visit(value) for value in bound]
        self.early = set()
        for it, value in zip(op.iters, values, strict=True):
            self.vmap[it.var] = value.astype(it.var.dtype)
            self.left.discard(it.var)
        inner = self.generic(op.with_(iters=(), predicate=predicate))
        for it in op.iters:
            del self.vmap[it.var]
            self.left.add(it.var)
        return inner


class ConvertBlocksToOpaque(FuncPass):
    """Block iterators are replaced by their bindings; every block is left without iterators.

    Needs LowerInitBlock. Raises :class:`TransformError` when an iterator has no binding or is used outside its block, as
    its predicate is, and for a block that still has an init.

    >>> from tirlower.script import parse
    >>> print(ConvertBlocksToOpaque()(parse('''
    ... @T.prim_func
    ... def fill(A: T.Buffer((4, 4), "int32")):
    ...     for f in range(16):
    ...         with T.block("A"):
    ...             vi, vj = T.axis.spatial(4, f // 4), T.axis.spatial(4, f % 4)
    ...             A[vi, vj] = vi
    ... ''')).script())
    @T.prim_func
    def fill(A: T.Buffer((4, 4), "int32")):
        for f in range(16):
            with T.block("A"):
                T.reads()
                T.writes(A[f // 4, f % 4])
                A[f // 4, f % 4] = f // 4
    """

    name = "tir.ConvertBlocksToOpaque"
    stage = Stage.BLOCK
    needs = ("tir.LowerInitBlock",)
    breaks = (Fact.ITERATORS,)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Convert every block of a function."""
        return func.with_body(_Converter().visit(func.body))
