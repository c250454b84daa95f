"""RewriteUnsafeSelect: a select evaluates both arms, so one that may fault becomes a choice of one arm."""

from __future__ import annotations

from tirlower.ir.expr import BinaryOp, BufferLoad, Call, Div, Expr, FloorDiv, FloorMod, Let, Mod, Select, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.op import Op, Purity
from tirlower.rewrite.base import FuncPass
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.fact_mutator import FactMutator

__all__ = ["RewriteUnsafeSelect"]

_ITE = Op.get("tir.if_then_else")
_ADDRESS = Op.get("tir.address_of")


class _Rewriter(FactMutator):
    """Rewrites bottom-up; ``unsafe`` remembers for each expression whether evaluating it may fault;
    ``checked`` says that accesses were checked where they are evaluated in vain."""

    def __init__(self, func: PrimFunc, checked: bool) -> None:
        super().__init__(func)
        self.checked = checked
        self.unsafe: dict[Expr, bool] = {}

    def visit_expr(self, root: Expr) -> Expr:
        if root.is_leaf:
            return root
        # What is known of a divisor's sign depends on the place.
        self.unsafe.clear()
        return super().visit_expr(root)

    def visit_Select(self, op: Select) -> Expr:
        if not op.condition.dtype.is_scalar or not (self.may_fault(op.true_value) or self.may_fault(op.false_value)):
            return op
        arms: list[Expr] = [op.true_value, op.false_value]
        bound: list[tuple[Var, Expr]] = []
        for at, arm in enumerate(arms):
            # Code checks divisors: an arm that may divide by zero is evaluated, and ends the call there.
            if self.checked and self.wrapping.may_fail(arm):
                arms[at] = var = Var("arm", arm.dtype)
                bound.append((var, arm))
        made: Expr = Call(_ITE, (op.condition, *arms), op.dtype, span=op.span)
        for var, arm in reversed(bound):
            made = Let(var, arm, made)
        return made

    def may_fault(self, root: Expr) -> bool:
        known = self.unsafe
        stack: list[Expr] = [root]
        while stack:
            op = stack[-1]
            if op in known:
                stack.pop()
                continue
            operands = self._evaluated(op)
            waiting = [c for c in operands if c not in known]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            known[op] = self._faults(op) or any(known[c] for c in operands)
        return known[root]

    @staticmethod
    def _evaluated(op: Expr) -> list[Expr]:
        """The operands that evaluating an expression always evaluates."""
        if op.__class__ is Call:
            if op.op is _ITE:
                return [op.args[0]]
            if op.op is _ADDRESS and isinstance(op.args[0], BufferLoad):
                return list(op.args[0].indices)
        if op.__class__ is Let:
            return [op.value, op.body]
        return [] if op.is_leaf else list(op.children())

    def _faults(self, op: Expr) -> bool:
        kind = op.__class__
        if kind is BufferLoad:
            return True
        if op.__class__ is Call:
            return not isinstance(op.op, Op) or op.op.purity > Purity.PURE
        if isinstance(op, BinaryOp) and kind in (Div, Mod, FloorDiv, FloorMod) and op.dtype.is_integral:
            bound = self.analyzer.const_int_bound(op.b)
            return bound.min_value <= 0 <= bound.max_value
        return False


class RewriteUnsafeSelect(FuncPass):
    """``Select(c, a, b)`` becomes ``T.if_then_else(c, a, b)`` where evaluating ``a`` or ``b`` may fault.

    A select evaluates both arms, whatever the condition. An arm may fault when it loads from a buffer, calls something
    that is not pure, or divides integers by what may be zero (by constants, loop bounds and conditions in scope); the
    arms of an ``if_then_else`` and the element of an ``address_of`` are not evaluated. In a build, an arm that may divide
    by data that is zero is evaluated in front of the choice: it ends the call, chosen or not. A select on a vector condition
    stays: lanes choose one by one there. Needs nothing; stands after the passes that make selects (VectorizeLoop,
    Simplify). Raises nothing.

    >>> from tirlower.script import parse
    >>> print(RewriteUnsafeSelect()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((16,), "int32"), B: T.Buffer((18,), "int32")):
    ...     for i in range(18):
    ...         B[i] = T.Select(i < 16, A[i], 0) + T.Select(i < 4, i, 3)
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((16,), "int32"), B: T.Buffer((18,), "int32")):
        for i in range(18):
            B[i] = T.if_then_else(i < 16, A[i], 0) + T.Select(i < 4, i, 3)
    """

    name = "tir.RewriteUnsafeSelect"

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Rewrite the unsafe selects of a function."""
        checked = ctx.option("tir.legality") != "off" and ctx.option("tir.unproved_bounds") != "trust"
        return func.with_body(_Rewriter(func, checked).visit(func.body))
