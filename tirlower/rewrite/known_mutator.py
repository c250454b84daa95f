"""A mutator that knows the contents of buffers: which statements make facts, and where these end."""

from __future__ import annotations

import functools
from contextlib import ExitStack
from dataclasses import replace

from tirlower.analysis.buffer_facts import Effects, Fact, defined, stores_to
from tirlower.analysis.element_facts import path_to
from tirlower.arith import narrow_predicate_expression
from tirlower.ir import build
from tirlower.ir.buffer import Range
from tirlower.ir.expr import Call, Expr, Var, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Kept
from tirlower.ir.node import Node
from tirlower.ir.op import Op
from tirlower.ir.query import mentions
from tirlower.ir.stmt import AllocBuffer, Bind, Block, BufferStore, Evaluate, For, ForKind, IfThenElse, Seq, Stmt, While
from tirlower.rewrite.buffer_contents import MAX_COMPARED, KnownValues, evaluable
from tirlower.rewrite.fact_mutator import FactMutator, without_likely

__all__ = ["KnownMutator"]

_ASSUME = Op.get("tir.assume")


class KnownMutator(FactMutator):
    """A mutator that knows buffer contents at each statement (``self.known``)."""

    def __init__(self, func: PrimFunc, dataflow: bool) -> None:
        super().__init__(func)
        self.known = KnownValues(func, self.analyzer, self.wrapping, dataflow)

    init: Stmt | None = None
    """The init of the block that is being entered."""

    def visit(self, op: Kept) -> Kept:
        """What an init stores is not known in the body, which other instances run without it."""
        if op is not self.init or op is None:
            return super().visit(op)
        before = list(self.known.facts)
        self.init = None
        made = super().visit(op)
        self.known.facts = [f for f in self.known.facts if any(f is g for g in before)]
        return made

    def visit_Seq(self, op: Seq) -> Stmt:
        made = super().visit_Seq(op)
        values = {stmt.var: stmt.value for stmt in op.stmts if isinstance(stmt, Bind)}
        if values:
            self.known.leave_scope(values)
        return made

    def visit_AllocBuffer(self, op: AllocBuffer) -> Stmt:
        return op

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        made: BufferStore = self.generic(op)
        self.known.store(made)
        return made

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        value = op.value
        made: Stmt = op if isinstance(value, Call) and value.op is _ASSUME else self.generic(op)
        self.evaluated(made)
        return made

    def evaluated(self, op: Node) -> None:
        """What is known after an evaluation: what it assumes, or no more what it may write."""
        if isinstance(op, Evaluate) and isinstance(op.value, Call) and op.value.op is _ASSUME:
            self.known.assume(op.value.args[0])
        else:
            self.known.overwrite(op)

    def visit_For(self, op: For) -> Stmt:
        before = self.known.facts
        lasting = self.known.enter_loop(op)
        constant = self._constant_in(op, before) if before and self.known.dataflow else []
        self.known.facts = [*self.known.facts, *constant]
        inside = list(self.known.facts)
        if op.kind is ForKind.VECTORIZED:
            self.known.lanes.append(op.loop_var)
        made = super().visit_For(op)
        if op.kind is ForKind.VECTORIZED:
            self.known.lanes.pop()
        self.known.leave_loop(op, inside)
        self.known.facts = [
            f for f in self.known.facts if not any(f is g for g in inside) or any(f is g for g in lasting)
        ]
        self.known.facts += constant
        return made

    def _constant_in(self, op: For, before: list[Fact]) -> list[Fact]:
        """The facts about what a loop writes that hold in it and after it nevertheless, where each of its stores puts the
        known value there again: a sum to which only zeros are added."""
        effects = Effects()
        effects.visit(op.body)
        known, made = self.known, []
        if effects.anything:
            return []
        for fact in before[-MAX_COMPARED:]:
            data = fact.buffer.data
            if data not in effects.written or any(
                d is not data and known.aliases.may_alias(d, data) for d in effects.written
            ):
                continue
            loops: dict[Var, Range] = {}
            condition = known.kept(fact, stores_to(op.body, data), functools.partial(self._around, op, loops), loops)
            if condition is None or mentions(condition, defined(op.body) - loops.keys()):
                continue
            condition = narrow_predicate_expression(condition, loops) if mentions(condition, loops) else condition
            if not is_const_int(condition, 0) and not mentions(condition, loops):
                made.append(replace(fact, condition=build.logical_and(fact.condition, condition)))
        return made

    def _around(self, op: For, loops: dict[Var, Range], store: BufferStore) -> ExitStack | None:
        """What holds at a store inside a loop, entered; its loops are added to ``loops``."""
        path = path_to(op, store)
        if path is None:
            return None
        scopes = ExitStack()
        for step in path:
            if isinstance(step, For):
                loops[step.loop_var] = Range(step.min, step.extent)
                scopes.enter_context(self.in_loop(step.loop_var, step.min, step.extent))
            else:
                scopes.enter_context(self.holding(step))
        return scopes

    def visit_While(self, op: While) -> Stmt:
        self.known.overwrite(op)
        before = list(self.known.facts)
        made = super().visit_While(op)
        self.known.facts = before
        return made

    def visit_Block(self, op: Block) -> Stmt:
        before = list(self.known.facts)
        self.init = op.init
        made = super().visit_Block(op)
        values = {it.var: it.value for it in op.iters if it.value is not None}
        kept = []
        for fact in self.known.facts:
            if any(fact is old for old in before):
                kept.append(fact)
            elif op.init is None:  # else some instances start with the init, others do not
                outside = fact.substituted(values)
                kept.append(replace(outside, condition=build.logical_and(op.predicate, outside.condition)))
        self.known.facts = kept
        return made

    def branches(self, op: IfThenElse, condition: Expr, fact: Expr | None = None) -> Stmt:
        holding = without_likely(condition if fact is None else fact)
        known = self.known
        before = list(known.facts)
        with self.holding(holding):
            then_case = self.visit(op.then_case)
        after_then, known.facts = known.facts, list(before)
        else_case, after_else = op.else_case, known.facts
        if else_case is not None:
            with self.holding(self.analyzer.rewrite_simplify(build.logical_not(holding))):
                else_case = self.visit(else_case)
            after_else = known.facts
        common = [f for f in after_then if any(f is g for g in after_else)]
        known.facts = list(common)
        for facts, when in ((after_then, holding), (after_else, build.logical_not(holding))):
            known.facts += known.under(when, [f for f in facts if not any(f is g for g in before)])
        return op.with_(condition=condition, then_case=then_case, else_case=else_case)

    def case_split(self, condition: Expr, true: Expr, false: Expr) -> Expr | None:
        """The one of two values that serves for both truth values of a condition, if there is one.

        The value for true serves if it can be evaluated where the condition fails, and is the other value there.
        """
        known, condition = self.known, without_likely(condition)
        for value, other, when in ((true, false, build.logical_not(condition)), (false, true, condition)):
            with self.holding(self.analyzer.rewrite_simplify(when)):
                if evaluable(known, value) and known.equal(known.replaced(value), known.replaced(other)):
                    return value
        return None
