"""Simplify: the analyzer over statements, with what loops, conditions and asserts say in scope."""

from __future__ import annotations

from typing import Any

from tirlower.analysis.purity import side_effect
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import BufferLoad, Call, Expr, FloatImm, IntImm, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Visitor, post_order_visit
from tirlower.ir.op import Purity
from tirlower.ir.stmt import (
    AllocBuffer,
    AttrStmt,
    Bind,
    Block,
    BufferStore,
    DeclBuffer,
    Evaluate,
    IfThenElse,
    Seq,
    Stmt,
    seq,
)
from tirlower.ir.structural import structural_equal
from tirlower.transforms.analyzed import AnalyzedMutator, stated_fact, without_likely
from tirlower.transforms.base import FuncPass
from tirlower.transforms.context import PassContext

__all__ = ["Simplify"]


class _UsedInDefinitions(Visitor):
    """Variables that a buffer's declaration or an attribute names: their bindings must stay."""

    def __init__(self) -> None:
        self.found: set[Var] = set()

    def _buffer(self, buffer: Buffer) -> None:
        post_order_visit(buffer, lambda op: self.found.add(op) if isinstance(op, Var) else None)

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        self._buffer(op.buffer)

    def visit_DeclBuffer(self, op: DeclBuffer) -> None:
        self._buffer(op.buffer)

    def visit_Block(self, op: Block) -> None:
        for match in op.match_buffers:
            self._buffer(match.buffer)
        self.generic(op)

    def visit_AttrStmt(self, op: AttrStmt) -> None:
        if isinstance(op.node, Var):
            self.found.add(op.node)
        self.generic(op)

    def visit_buffer(self, buffer: Buffer) -> None:
        """An undeclared view is defined at its use."""
        self._buffer(buffer)

    def visit_expr(self, root: Expr) -> None:
        if not root.is_leaf or isinstance(root, BufferLoad):
            super().visit_expr(root)


class _Simplifier(AnalyzedMutator):
    def __init__(self, keep: set[Var], options: dict[str, Any]) -> None:
        super().__init__()
        self.keep = keep
        self.options = options

    def visit_expr(self, root: Any) -> Any:
        return self.analyzer.simplify(root) if not isinstance(root, (IntImm, FloatImm)) else root

    def visit_Seq(self, op: Seq) -> Stmt:
        # A binding of a pure integer is inlined: the analyzer knows its value from here on.
        done: list[Stmt] = []
        facts = []
        for stmt in op.stmts:
            if isinstance(stmt, Bind):
                value = self.visit(stmt.value)
                if self._inlines(stmt.var, value):
                    self.analyzer.bind(stmt.var, value, allow_override=True)
                    continue
                stmt = stmt.with_(value=value)
            else:
                stmt = self.visit(stmt)
            done.append(stmt)
            fact = stated_fact(stmt)
            if fact is not None:
                scope = self.holding(fact)
                scope.__enter__()
                facts.append(scope)
        for scope in reversed(facts):
            scope.__exit__(None, None, None)
        if len(done) == len(op.stmts) and all(a is b for a, b in zip(done, op.stmts, strict=True)):
            return op
        return seq(*done) if len(done) != 1 else done[0]

    def _inlines(self, var: Var, value: Expr) -> bool:
        if var in self.keep:
            return False
        if isinstance(value, (IntImm, FloatImm, Var)):
            return True
        return value.dtype.is_integral and not value.dtype.is_vector and side_effect(value) is Purity.PURE

    def visit_IfThenElse(self, op: IfThenElse) -> Stmt:
        condition = self.visit(op.condition)
        known = without_likely(condition)
        if isinstance(known, IntImm):
            if known.value:
                return self.visit(op.then_case)
            return self.visit(op.else_case) if op.else_case is not None else seq()
        return self.branches(op, condition)

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        op = self.generic(op)
        value = op.value
        if (
            isinstance(value, BufferLoad)
            and value.buffer is op.buffer
            and value.predicate is op.predicate
            and all(structural_equal(a, b) for a, b in zip(value.indices, op.indices, strict=True))
            and all(side_effect(i) <= Purity.READS for i in op.indices)
        ):
            return seq()
        return op

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        # The operands of a statement-level call are simplified, the call itself stays.
        value = op.value
        if isinstance(value, Call) and value.dtype.code == "void":
            return op.with_(value=value.map_children(self.visit))
        return self.generic(op)


class Simplify(FuncPass):
    """Every expression is simplified under the facts of its place.

    Loop ranges, conditions of branches, asserts and assumes are known inside their scope; a branch whose condition is
    decided is taken; bindings of pure integers are inlined; storing what was just loaded from the same place is
    dropped. Options: ``transitively_prove_inequalities`` chains comparisons; ``convert_boolean_to_and_of_ors`` and
    ``apply_constraints_to_boolean_branches`` choose the form of conditions; ``propagate_knowns_to_prove_conditional``
    and ``propagate_knowns_to_simplify_expressions`` follow values through buffers.
    """

    name = "tir.Simplify"
    options = {
        "transitively_prove_inequalities": False,
        "propagate_knowns_to_prove_conditional": False,
        "propagate_knowns_to_simplify_expressions": False,
        "convert_boolean_to_and_of_ors": False,
        "apply_constraints_to_boolean_branches": False,
    }

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Simplify a function's body."""
        used = _UsedInDefinitions()
        used.visit(func.body)
        options = {key: self.option(key, ctx) for key in self.options}
        return func.with_body(_Simplifier(used.found, options).visit(func.body))
