"""RemoveNoOp: what does nothing goes away."""

from __future__ import annotations

from typing import Any

from tirlower.analysis.purity import side_effect
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import BufferLoad, Expr, Not, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Visitor, post_order_visit
from tirlower.ir.op import Purity
from tirlower.ir.stmt import (
    AllocBuffer,
    AllocConst,
    AttrStmt,
    Bind,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    Seq,
    Stmt,
    is_no_op,
    seq,
)
from tirlower.ir.structural import structural_equal
from tirlower.transforms.analyzed import AnalyzedMutator, stated_fact
from tirlower.transforms.base import FuncPass
from tirlower.transforms.context import PassContext

__all__ = ["RemoveNoOp"]


def effects_of(*values: Expr) -> Stmt:
    """The evaluations that must stay of values no longer needed: those that write or are opaque."""
    return seq(*[Evaluate(v, span=v.span) for v in values if side_effect(v) > Purity.READS])


class _Uses(Visitor):
    """The variables, buffers and data that a statement mentions."""

    def __init__(self) -> None:
        self.vars: set[Var] = set()
        self.buffers: set[Buffer] = set()

    def visit_Var(self, op: Var) -> None:
        self.vars.add(op)

    def visit_buffer(self, buffer: Buffer) -> None:
        """A use of a buffer uses its data and the variables of its shape."""
        if buffer not in self.buffers:
            self.buffers.add(buffer)
            post_order_visit(buffer, lambda op: self.vars.add(op) if isinstance(op, Var) else None)

    def visit_DeclBuffer(self, op: DeclBuffer) -> None:
        self.vars.add(op.buffer.data)
        for part in (*op.buffer.shape, *op.buffer.strides, op.buffer.elem_offset):
            self.visit(part)

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        for part in (*op.buffer.shape, *op.buffer.strides, op.buffer.elem_offset, op.condition):
            self.visit(part)

    def visit_AttrStmt(self, op: AttrStmt) -> None:
        if isinstance(op.node, Buffer):
            self.visit_buffer(op.node)
        elif isinstance(op.node, Expr):
            self.visit(op.node)
        self.generic(op)


class _Remover(AnalyzedMutator):
    def visit_expr(self, root: Any) -> Any:
        return root

    def visit_Seq(self, op: Seq) -> Stmt:
        done: list[Stmt] = []
        facts = []
        for stmt in op.stmts:
            new = self.visit(stmt)
            if not is_no_op(new):
                done.append(new)
            fact = stated_fact(new)
            if fact is not None:
                scope = self.holding(fact)
                scope.__enter__()
                facts.append(scope)
        for scope in reversed(facts):
            scope.__exit__(None, None, None)
        done = self._without_dead_declarations(done)
        if len(done) == len(op.stmts) and all(a is b for a, b in zip(done, op.stmts, strict=True)):
            return op
        return seq(*done)

    def _without_dead_declarations(self, stmts: list[Stmt]) -> list[Stmt]:
        """Drop the declarations that nothing after them uses, from the back."""
        if not any(isinstance(s, (Bind, AllocBuffer, AllocConst, DeclBuffer)) for s in stmts):
            return stmts
        uses = _Uses()
        kept: list[Stmt] = []
        for stmt in reversed(stmts):
            if isinstance(stmt, Bind) and stmt.var not in uses.vars:
                rest = effects_of(stmt.value)
                if is_no_op(rest):
                    continue
                stmt = rest
            elif (isinstance(stmt, DeclBuffer) and stmt.buffer not in uses.buffers) or (
                isinstance(stmt, (AllocBuffer, AllocConst)) and stmt.buffer.data not in uses.vars
            ):
                continue
            uses.visit(stmt)
            kept.append(stmt)
        kept.reverse()
        return kept

    def visit_For(self, op: For) -> Stmt:
        bound = self.analyzer.const_int_bound(op.extent)
        if bound.max_value <= 0:
            return effects_of(op.min, op.extent)
        made = super().visit_For(op)
        if isinstance(made, For) and is_no_op(made.body):
            return effects_of(made.min, made.extent)
        return made

    def visit_IfThenElse(self, op: IfThenElse) -> Stmt:
        made = super().visit_IfThenElse(op)
        if not isinstance(made, IfThenElse):
            return made
        if is_no_op(made.else_case):
            if is_no_op(made.then_case):
                return effects_of(made.condition)
            return made if made.else_case is None else made.with_(else_case=None)
        if is_no_op(made.then_case):
            return IfThenElse(Not(made.condition), made.else_case or seq(), None, span=made.span)
        return made

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        if op.key == "pragma_debug_skip_region":
            return seq()
        made = self.generic(op)
        return effects_of(made.value) if is_no_op(made.body) else made

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        return seq() if side_effect(op.value) <= Purity.READS else op

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        value = op.value
        same = (
            isinstance(value, BufferLoad)
            and value.buffer is op.buffer
            and value.predicate is op.predicate
            and all(structural_equal(a, b) for a, b in zip(value.indices, op.indices, strict=True))
        )
        return effects_of(*op.indices) if same else op


class RemoveNoOp(FuncPass):
    """Loops that never run or do nothing, empty branches, unused bindings, views and allocations, evaluations without
    effect, and stores of what stands there already are removed; evaluations with an effect stay.

    Options: ``use_dataflow_analysis`` finds stores that are overwritten before they are read;
    ``max_simplification_steps`` bounds its work.
    """

    name = "tir.RemoveNoOp"
    options = {"use_dataflow_analysis": False, "max_simplification_steps": 0}

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Clean a function's body."""
        return func.with_body(_Remover().visit(func.body))
