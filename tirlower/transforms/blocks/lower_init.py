"""LowerInitBlock: a block's ``init`` becomes a condition at the head of its body."""

from __future__ import annotations

from tirlower.ir import build
from tirlower.ir.buffer import IterKind
from tirlower.ir.expr import EQ, And, Expr
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator
from tirlower.ir.splice import as_scope, split_head
from tirlower.ir.stmt import Block, IfThenElse, Stmt, seq
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext

__all__ = ["LowerInitBlock"]


class _Lowerer(StmtMutator):
    def visit_Block(self, op: Block) -> Stmt:
        op = self.generic(op)
        if op.init is None:
            return op
        starts: list[Expr] = [
            EQ(it.var, build.cast(it.var.dtype, it.domain.min)) for it in op.iters if it.kind is IterKind.REDUCE
        ]
        init = as_scope(op.init)
        if starts:
            condition = starts[0]
            for start in starts[1:]:
                condition = And(condition, start)
            init = IfThenElse(condition, init, span=init.span)
        head, rest = split_head(op.body)
        return op.with_(init=None, body=seq(*head, init, *rest))


class LowerInitBlock(FuncPass):
    """A block's init statement becomes ``if`` all reduction iterators are at their start.

    The condition is on the block's iterators, at the least values of their domains; without reduction iterators the
    init runs unconditionally. It stands after the allocations that head the body. Needs nothing, raises nothing.

    >>> from tirlower.script import parse
    >>> print(LowerInitBlock()(parse('''
    ... @T.prim_func
    ... def total(A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "float32")):
    ...     for k in range(8):
    ...         with T.block("B"):
    ...             vk = T.axis.reduce(8, k)
    ...             with T.init():
    ...                 B[0] = T.float32(0)
    ...             B[0] = B[0] + A[vk]
    ... ''')).script())
    @T.prim_func
    def total(A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "float32")):
        for k in range(8):
            with T.block("B"):
                vk = T.axis.reduce(8, k)
                T.reads(A[vk])
                T.writes(B[0])
                if vk == 0:
                    B[0] = T.float32(0)
                B[0] = B[0] + A[vk]
    """

    name = "tir.LowerInitBlock"
    stage = Stage.BLOCK
    breaks = (Fact.INITS,)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Lower every init of a function."""
        return func.with_body(_Lowerer().visit(func.body))
