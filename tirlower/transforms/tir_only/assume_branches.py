"""UseAssumeToReduceBranches: a choice whose arms agree where the condition fails needs no condition."""

from __future__ import annotations

from tirlower.analysis.purity import side_effect
from tirlower.ir.expr import Call, Expr, Select
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Visitor
from tirlower.ir.op import Op, Purity
from tirlower.rewrite.base import FuncPass
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.known_mutator import KnownMutator

__all__ = ["UseAssumeToReduceBranches"]

_ASSUME = Op.get("tir.assume")
_ITE = Op.get("tir.if_then_else")


class _Assumes(Visitor):
    def __init__(self) -> None:
        self.found = False

    def visit_Call(self, op: Call) -> None:
        self.found = self.found or op.op is _ASSUME


class _Reducer(KnownMutator):
    def visit_Call(self, op: Call) -> Expr:
        if op.op is _ITE and op.args[0].dtype.is_scalar:
            return self._chosen(op, *op.args)
        return op

    def visit_Select(self, op: Select) -> Expr:
        return self._chosen(op, op.condition, op.true_value, op.false_value) if op.condition.dtype.is_scalar else op

    def _chosen(self, op: Expr, condition: Expr, true: Expr, false: Expr) -> Expr:
        if side_effect(condition) > Purity.READS or not self.known.facts:
            return op
        found = self.case_split(condition, true, false)
        return op if found is None else found


class UseAssumeToReduceBranches(FuncPass):
    """``T.if_then_else(inside, f(A[i]), pad)`` becomes ``f(A[i])`` where assumptions make both the same.

    An assumption ``T.assume(inside(i) or A[i] == 0)`` states the contents of padding. A choice (``if_then_else`` or
    ``Select``) whose arm for true, with the known elements put in for their loads, is the other arm wherever the
    condition fails, is replaced by that arm, computed everywhere (and likewise the other way round). The arm must
    be computable everywhere: its loads stay inside their buffers, and it does not divide by zero. What is known of a
    buffer lasts until something may write to it; parameter buffers may overlap unless the function says
    ``tir.noalias``. Assumptions in blocks hold for the loops that their iterators are bound to. A float assumed
    equal to 0 is taken as +0.

    A function without assumptions comes back as it is. Stands before the loops are vectorized, which branches prevent,
    and before RemoveAssume. Raises nothing.

    >>> from tirlower.script import parse
    >>> print(UseAssumeToReduceBranches()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    ...     for i in range(16):
    ...         T.evaluate(T.assume(i < 14 or A[i] == 0))
    ...     for i in range(16):
    ...         B[i] = T.if_then_else(i < 14, A[i] * 2, 0)
    ... ''').with_attr("tir.noalias", True)).script())
    @T.prim_func
    def f(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        T.func_attr({"tir.noalias": True})
        for i in range(16):
            T.assume(i < 14 or A[i] == 0)
        for i in range(16):
            B[i] = A[i] * 2
    """

    name = "tir.UseAssumeToReduceBranches"

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Replace the choices of a function that assumptions decide."""
        assumes = _Assumes()
        assumes.visit(func.body)
        return func.with_body(_Reducer(func, dataflow=True).visit(func.body)) if assumes.found else func
