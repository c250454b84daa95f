"""HoistIfThenElse and HoistExpression: what does not change inside a loop is decided and computed outside it."""

from __future__ import annotations

import enum
from typing import Literal

from tirlower.analysis.purity import side_effect
from tirlower.analysis.thread_axes import is_thread_axis
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import And, Call, Div, Expr, FloorDiv, FloorMod, IntImm, Let, Mod, Or, Select, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Mutator, StmtMutator, Visitor
from tirlower.ir.intrinsics.collective import COLLECTIVE
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import each
from tirlower.ir.refresh import refresh_binders
from tirlower.ir.splice import DECLARATIONS, as_scope
from tirlower.ir.stmt import (
    AllocBuffer,
    AllocConst,
    Assert,
    Bind,
    Block,
    For,
    IfThenElse,
    Seq,
    Stmt,
    is_no_op,
    seq,
)
from tirlower.rewrite.base import Fact, FuncPass
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.decide import EqualDecider, SizeBudget
from tirlower.rewrite.fact_mutator import without_likely
from tirlower.rewrite.options import option
from tirlower.transforms.cleanup.remove_no_op import RemoveNoOp
from tirlower.transforms.loops.simplify import Simplify

__all__ = ["HoistExpression", "HoistIfThenElse", "HoistedConditionals", "HoistedLetBindings"]

BUDGET = 500
"""Statements that both branches of hoisted conditions may add to a function (or its own number, if that is more)."""

_ITE = Op.get("tir.if_then_else")


class HoistedConditionals(enum.IntFlag):
    """Which conditions are moved out of loops."""

    Never = 0
    IfElseStmt = 1
    """Conditions of if statements."""
    IfElseExpr = 2
    """Conditions of ``T.if_then_else`` and ``T.Select``."""
    BooleanExpression = 4
    """The operands of ``and`` and ``or``."""
    UsingBlockVar = 8
    """Also conditions on the variables of thread axes, and out of the loops of such axes."""
    All = 15


class HoistedLetBindings(enum.IntFlag):
    """Which bindings are moved out of loops."""

    Never = 0
    RequiredByConditional = 1
    """Those that a moved condition uses."""
    LetStmt = 2
    """Bindings that are statements."""
    LetExpr = 4
    """Bindings inside expressions."""
    All = 7


def _movable(expr: Expr) -> bool:
    """Whether evaluating an expression earlier, and where it was not evaluated at all, is harmless."""
    divisors = (op.b for op in each((Div, Mod, FloorDiv, FloorMod), expr) if op.dtype.is_integral)
    return all(isinstance(b, IntImm) and b.value != 0 for b in divisors) and side_effect(expr) is Purity.PURE


def _variables(expr: Expr) -> list[Var]:
    return list(each(Var, expr))


class _Invariants(Visitor):
    """Inside one loop: the bindings whose value is known outside it, and the first condition that is."""

    def __init__(
        self, conditionals: HoistedConditionals, lets: HoistedLetBindings, loop: For, threads: dict[Var, None]
    ) -> None:
        self.conditionals = conditionals
        self.lets = lets
        self.threads = threads
        self.inside: set[Var] = {loop.loop_var}
        self.bindings: dict[Var, tuple[Expr, HoistedLetBindings]] = {}
        self.conditions: list[Expr] = []
        self.syncs = False
        self.alone = True
        """Whether what is visited is all that an iteration does: nothing else is copied into both branches."""

    def known_outside(self, expr: Expr) -> bool:
        return not any(var in self.inside for var in _variables(expr))

    def binding(self, var: Var, value: Expr, source: HoistedLetBindings) -> None:
        allowed = self.lets & (source | HoistedLetBindings.RequiredByConditional)
        if allowed and not var.dtype.is_handle and _movable(value) and self.known_outside(value):
            self.bindings[var] = (value, source)
        else:
            self.inside.add(var)

    def condition(self, condition: Expr, source: HoistedConditionals) -> None:
        plain = without_likely(condition)
        if not self.alone or not self.conditionals & source or isinstance(plain, IntImm) or not plain.dtype.is_scalar:
            return
        if self.known_outside(condition) and _movable(condition):
            self.conditions.append(condition)

    def chosen(self) -> Expr | None:
        """The first condition that may be moved."""
        for condition in self.conditions:
            uses_threads = any(var in self.threads for var in self.needed([condition], values=True))
            if not uses_threads:
                return condition
            # Threads that part must not meet a barrier, or make a call of their warp, in different branches.
            if self.conditionals & HoistedConditionals.UsingBlockVar and not self.syncs:
                return condition
        return None

    def needed(self, roots: list[Expr], values: bool = False) -> list[Var]:
        """The bindings that expressions use, directly or through others; with ``values`` all variables."""
        found: dict[Var, None] = {}
        stack = [var for root in roots for var in _variables(root)]
        while stack:
            var = stack.pop()
            if var in found:
                continue
            if var in self.bindings:
                found[var] = None
                stack += _variables(self.bindings[var][0])
            elif values:
                found[var] = None
        return list(found)

    def visit_For(self, op: For) -> None:
        self.visit(op.min)
        self.visit(op.extent)
        self.inside.add(op.loop_var)
        self.visit(op.body)

    def visit_Seq(self, op: Seq) -> None:
        alone = self.alone
        work = [stmt for stmt in op.stmts if not isinstance(stmt, (*DECLARATIONS, Assert))]
        for stmt in op.stmts:
            self.alone = alone and len(work) == 1 and stmt is work[0]
            self.visit(stmt)
        self.alone = alone

    def visit_Bind(self, op: Bind) -> None:
        self.visit(op.value)
        self.binding(op.var, op.value, HoistedLetBindings.LetStmt)

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        self._declared(op.buffer)

    def visit_AllocConst(self, op: AllocConst) -> None:
        self._declared(op.buffer)

    def _declared(self, buffer: Buffer) -> None:
        parts = (buffer.data, *buffer.strides, buffer.elem_offset)
        self.inside.update([part for part in parts if isinstance(part, Var)])

    def visit_Block(self, op: Block) -> None:
        """A block sees the loops around it through its iterators: nothing in it is moved."""
        self.syncs = True

    def visit_IfThenElse(self, op: IfThenElse) -> None:
        self.condition(op.condition, HoistedConditionals.IfElseStmt)
        self.generic(op)

    def visit_Select(self, op: Select) -> None:
        self.condition(op.condition, HoistedConditionals.IfElseExpr)

    def visit_And(self, op: And) -> None:
        self.condition(op.a, HoistedConditionals.BooleanExpression)
        self.condition(op.b, HoistedConditionals.BooleanExpression)

    def visit_Or(self, op: Or) -> None:
        self.condition(op.a, HoistedConditionals.BooleanExpression)
        self.condition(op.b, HoistedConditionals.BooleanExpression)

    def visit_Call(self, op: Call) -> None:
        if op.op is _ITE:
            self.condition(op.args[0], HoistedConditionals.IfElseExpr)
        self.syncs = self.syncs or op.op in COLLECTIVE

    def visit_expr(self, root: Expr) -> None:
        for let in _lets(root):
            self.binding(let.var, let.value, HoistedLetBindings.LetExpr)
        super().visit_expr(root)


def _lets(root: Expr) -> list[Let]:
    """The lets inside an expression, each after those in its value and before those in its body."""
    found: list[Let] = []
    seen: set[Expr] = set()
    stack: list[Expr | tuple[Let]] = [root]
    while stack:
        op = stack.pop()
        if isinstance(op, tuple):
            found.append(op[0])
        elif op not in seen and not op.is_leaf:
            seen.add(op)
            stack += [op.body, (op,), op.value] if op.__class__ is Let else reversed(list(op.children()))
    return found


class _Unbinder(Mutator):
    """Removes the bindings that were moved out."""

    def __init__(self, moved: set[Var]) -> None:
        self.moved = moved

    def visit_Let(self, op: Let) -> Expr:
        return op.body if op.var in self.moved else op

    def visit_Seq(self, op: Seq) -> Stmt:
        done = [self.visit(stmt) for stmt in op.stmts]
        if all(a is b for a, b in zip(done, op.stmts, strict=True)):
            return op
        return as_scope(seq(*done))

    def visit_Bind(self, op: Bind) -> Stmt:
        made: Stmt = self.generic(op)
        return seq() if op.var in self.moved else made


class _Hoister(StmtMutator):
    def __init__(self, func: PrimFunc, conditionals: HoistedConditionals, lets: HoistedLetBindings, name: str) -> None:
        self.conditionals = conditionals
        self.lets = lets
        self.budget = SizeBudget(name, func.body, BUDGET)
        self.threads: dict[Var, None] = {}

    def visit_For(self, op: For) -> Stmt:
        made: Stmt
        threads = is_thread_axis(op)
        if threads and not self.conditionals & HoistedConditionals.UsingBlockVar:
            # The shape of a kernel launch stays as it is.
            self.threads[op.loop_var] = None
            made = self.generic(op)
            return made
        found = _Invariants(self.conditionals, self.lets, op, self.threads)
        found.visit(op.body)
        condition = found.chosen()
        if threads:
            self.threads[op.loop_var] = None
        moved = self._moved(found, condition)
        if moved:
            values = [Bind(var, found.bindings[var][0]) for var in found.bindings if var in moved]
            inner = op.with_(body=_Unbinder(moved).visit(op.body))
            values = [bind.with_(value=_Unbinder(moved).visit(bind.value)) for bind in values]
            return Seq((*values, self._decided(inner, condition)))
        return self._decided(op, condition)

    def _moved(self, found: _Invariants, condition: Expr | None) -> set[Var]:
        roots = [value for value, source in found.bindings.values() if self.lets & source]
        moved = {var for var, (_, source) in found.bindings.items() if self.lets & source}
        if condition is not None and self.lets & HoistedLetBindings.RequiredByConditional:
            roots.append(condition)
        return moved.union(found.needed(roots)) if roots else moved

    def _decided(self, op: For, condition: Expr | None) -> Stmt:
        """The loop under a condition and under its negation; or its body visited, if there is none."""
        made: Stmt
        if condition is not None:
            then_case = EqualDecider(condition, True).visit(op)
            else_case = EqualDecider(condition, False).visit(op)
            if is_no_op(else_case) or self.budget.allows(op, else_case, 1):
                other = None if is_no_op(else_case) else refresh_binders(else_case)
                return IfThenElse(
                    condition, as_scope(self.visit(then_case)), None if other is None else as_scope(self.visit(other))
                )
        made = op.with_(body=self.visit(op.body))
        return made


def _hoist(
    func: PrimFunc, conditionals: HoistedConditionals, lets: HoistedLetBindings, ctx: PassContext, name: str
) -> PrimFunc:
    made = func.with_body(_Hoister(func, conditionals, lets, name).visit(func.body))
    return RemoveNoOp().under(ctx).transform(Simplify().under(ctx).transform(made, ctx), ctx)


class HoistExpression(FuncPass):
    """Conditions and bindings that a loop does not change are moved out of it, the loop copied into both branches.

    A condition goes out of the outermost loop whose variables (and what is bound inside it) it does not use; there the
    loop stands under it and, where that does anything, under its negation, with every equal condition decided. It
    stays below a loop that does something beside it, which would run in both branches (declarations and asserts may).
    Only what is pure, reads no memory and cannot fault is moved: a condition may be asked where it was not asked
    before. The shape of nested thread loops stays, unless conditions on threads are asked for (``UsingBlockVar``),
    which are moved around no barrier. Copies may add as many statements as the function has (at least 500); then the
    loop is left, and a warning names it. Simplify and RemoveNoOp clean up.

    ``hoisted_conditionals`` and ``hoisted_let_bindings`` say what is moved, as :class:`HoistedConditionals` and
    :class:`HoistedLetBindings` or their numbers. Needs no blocks (it looks into none). Raises
    :class:`TransformError` for flags that do not exist. The idea is loop unswitching (Allen and Cocke, 1972).

    >>> from tirlower.script import parse
    >>> print(HoistExpression()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((16, 16), "int32"), n: T.int32):
    ...     for i in range(16):
    ...         for j in range(16):
    ...             if i < n:
    ...                 A[i, j] = T.if_then_else(n > 8, j, 0)
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((16, 16), "int32"), n: T.int32):
        if 8 < n:
            for i in range(16):
                if i < n:
                    for j in range(16):
                        A[i, j] = j
        else:
            for i in range(16):
                if i < n:
                    for j in range(16):
                        A[i, j] = 0
    """

    name = "tir.HoistExpression"
    hoisted_conditionals: HoistedConditionals = (
        HoistedConditionals.IfElseStmt | HoistedConditionals.IfElseExpr | HoistedConditionals.BooleanExpression
    )
    hoisted_let_bindings: HoistedLetBindings = HoistedLetBindings.All

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Move invariant conditions and bindings out of the loops of a function."""
        return _hoist(func, self.hoisted_conditionals, self.hoisted_let_bindings, ctx, "HoistExpression")


class HoistIfThenElse(FuncPass):
    """If statements whose condition a loop does not change are moved out of it; nothing else is moved.

    ``support_block_scope_hoisting`` (of the context, under ``tir.HoistIfThenElse``; TIR spells it
    ``support_block_scope_hosting``) moves conditions on thread axes too, and others out of their loops; ``HoistIfThenElse("basic")`` ignores the configuration. What may be moved, and at what cost, is as in
    :class:`HoistExpression`. Needs no blocks. Raises :class:`TransformError` for another variant.

    >>> from tirlower.script import parse
    >>> print(HoistIfThenElse()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((16, 16), "int32"), n: T.int32):
    ...     for i in range(16):
    ...         for j in range(16):
    ...             if i < n:
    ...                 A[i, j] = j
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((16, 16), "int32"), n: T.int32):
        for i in range(16):
            if i < n:
                for j in range(16):
                    A[i, j] = j
    """

    name = "tir.HoistIfThenElse"
    needs = (Fact.DIVISIONS, Fact.PLAIN_EXPRESSIONS, Fact.UNMARKED, Fact.UNORDERED)
    breaks = (Fact.LANES, Fact.SINGLE_STATEMENTS)
    variant: Literal["basic"] | None = option(default=None, kw_only=False)
    support_block_scope_hoisting: bool = False
    support_block_scope_hosting: bool = option(default=False, about="the same, as TIR spells it")

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Move invariant ifs out of the loops of a function."""
        conditionals = HoistedConditionals.IfElseStmt
        hoisting = self.support_block_scope_hoisting or self.support_block_scope_hosting
        if self.variant is None and hoisting:
            conditionals |= HoistedConditionals.UsingBlockVar
        return _hoist(func, conditionals, HoistedLetBindings.Never, ctx, "HoistIfThenElse")
