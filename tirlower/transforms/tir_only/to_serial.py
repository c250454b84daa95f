"""ConvertForLoopsToSerial: parallel loops become serial ones."""

from __future__ import annotations

from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator
from tirlower.ir.stmt import Block, For, ForKind, Stmt
from tirlower.rewrite.base import FuncPass
from tirlower.rewrite.context import PassContext

__all__ = ["ConvertForLoopsToSerial"]


class _ToSerial(StmtMutator):
    def visit_Block(self, op: Block) -> Stmt:
        return op.with_(init=None if op.init is None else self.visit(op.init), body=self.visit(op.body))

    def visit_For(self, op: For) -> Stmt:
        kind = ForKind.SERIAL if op.kind is ForKind.PARALLEL else op.kind
        return op.with_(kind=kind, body=self.visit(op.body))


class ConvertForLoopsToSerial(FuncPass):
    """Parallel loops become serial loops with the same range and annotations, at every depth.

    Vectorized, unrolled and thread loops stay. For targets without threads, and to see what a race would look like
    without one. Needs nothing, raises nothing.

    >>> from tirlower.script import parse
    >>> print(ConvertForLoopsToSerial()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((4, 8), "int32")):
    ...     for i in T.parallel(4):
    ...         for j in T.vectorized(8):
    ...             A[i, j] = i
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((4, 8), "int32")):
        for i in range(4):
            for j in T.vectorized(8):
                A[i, j] = i
    """

    name = "tir.ConvertForLoopsToSerial"

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Make the parallel loops of a function serial."""
        return func.with_body(_ToSerial().visit(func.body))
