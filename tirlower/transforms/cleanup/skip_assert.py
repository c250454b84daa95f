"""SkipAssert: asserts go away."""

from __future__ import annotations

from tirlower.ir.expr import StringImm
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator
from tirlower.ir.splice import as_scope
from tirlower.ir.stmt import Assert, Block, Seq, Stmt, seq
from tirlower.rewrite.base import FuncPass
from tirlower.rewrite.context import PassContext
from tirlower.transforms.cleanup.remove_no_op import effects_of

__all__ = ["SkipAssert"]


class _Skipper(StmtMutator):
    def __init__(self, keep_guards: bool) -> None:
        self.keep_guards = keep_guards

    def visit_Block(self, op: Block) -> Stmt:
        # Only statements change: the parts of a block that hold expressions stay.
        return op.with_(init=None if op.init is None else self.visit(op.init), body=self.visit(op.body))

    def visit_Assert(self, op: Assert) -> Stmt:
        # A guard's message has the class of its error and values; one of the program is a text.
        if self.keep_guards and not isinstance(op.message, StringImm):
            return op
        return effects_of(op.condition)

    def visit_Seq(self, op: Seq) -> Stmt:
        done = [self.visit(stmt) for stmt in op.stmts]
        if all(a is b for a, b in zip(done, op.stmts, strict=True)):
            return op
        return as_scope(seq(*done))


class SkipAssert(FuncPass):
    """Asserts are removed; what their conditions do besides being tested stays.

    A function then no longer stops where an assert would have failed, and later passes no longer know what the
    assert said: Simplify stands before this pass. ``keep_guards`` keeps those that passes and checks have put in front
    of accesses (an IndexError where they fail). Needs nothing, raises nothing.

    >>> from tirlower.script import parse
    >>> print(SkipAssert()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((4,), "int32"), n: T.int32):
    ...     assert n <= 4, "n is at most 4"
    ...     for i in range(n):
    ...         A[i] = i
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((4,), "int32"), n: T.int32):
        for i in range(n):
            A[i] = i
    """

    name = "tir.SkipAssert"
    keep_guards: bool = False

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Remove the asserts of a function."""
        return func.with_body(_Skipper(self.keep_guards).visit(func.body))
