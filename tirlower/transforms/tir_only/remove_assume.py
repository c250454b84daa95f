"""RemoveAssume: what was stated with T.assume goes away once it has been used."""

from __future__ import annotations

from tirlower.ir.expr import Call
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator
from tirlower.ir.op import Op
from tirlower.ir.splice import as_scope
from tirlower.ir.stmt import Block, Evaluate, Seq, Stmt, seq
from tirlower.rewrite.base import FuncPass
from tirlower.rewrite.context import PassContext
from tirlower.transforms.cleanup.remove_no_op import RemoveNoOp, effects_of

__all__ = ["RemoveAssume"]

_ASSUME = Op.get("tir.assume")


class _AssumeRemover(StmtMutator):
    def visit_Block(self, op: Block) -> Stmt:
        return op.with_(init=None if op.init is None else self.visit(op.init), body=self.visit(op.body))

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        value = op.value
        return effects_of(*value.args) if isinstance(value, Call) and value.op is _ASSUME else op

    def visit_Seq(self, op: Seq) -> Stmt:
        done = [self.visit(stmt) for stmt in op.stmts]
        if all(a is b for a, b in zip(done, op.stmts, strict=True)):
            return op
        return as_scope(seq(*done))


class RemoveAssume(FuncPass):
    """The facts stated with ``T.assume`` are removed, and what their removal leaves without effect (RemoveNoOp).

    Stands after the passes that use assumptions: UseAssumeToReduceBranches, ReduceBranchingThroughOvercompute and
    Simplify. An effect of the condition itself stays. Needs nothing, raises nothing; RemoveNoOp's options apply.

    >>> from tirlower.script import parse
    >>> print(RemoveAssume()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    ...     for i in range(16):
    ...         T.evaluate(T.assume(i < 14 or A[i] == 0))
    ...     for i in range(16):
    ...         B[i] = A[i]
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        for i in range(16):
            B[i] = A[i]
    """

    name = "tir.RemoveAssume"

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Remove the assumptions of a function."""
        return RemoveNoOp().under(ctx).transform(func.with_body(_AssumeRemover().visit(func.body)), ctx)
