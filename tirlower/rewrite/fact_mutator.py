"""A mutator that carries an analyzer: what loops, conditions, bindings and asserts say holds inside them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tirlower.analysis.purity import side_effect
from tirlower.arith import Analyzer
from tirlower.ir import build
from tirlower.ir.buffer import Range
from tirlower.ir.expr import And, Call, Expr, IntImm, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Mutator, substitute
from tirlower.ir.node import Node
from tirlower.ir.op import Op, Purity
from tirlower.ir.stmt import Assert, Bind, Block, Evaluate, For, ForKind, IfThenElse, Seq, Stmt, While
from tirlower.rewrite.scalar_overflow import analyzer_of

__all__ = ["FactMutator", "know_shapes"]


class FactMutator(Mutator):
    """Statement rewriting under the facts of the program.

    Inside a loop its variable is bound to its range, inside a branch the condition holds, after an assert or a
    ``T.assume`` the rest of the Seq has the fact. Subclasses override ``visit_expr`` or the statement handlers and
    call ``super()``'s for the context.
    """

    def __init__(self, func: PrimFunc | None = None) -> None:
        self.analyzer, self.wrapping = analyzer_of(func)
        if func is not None:
            know_shapes(self.analyzer, func)

    @contextmanager
    def holding(self, condition: Expr) -> Iterator[None]:
        """The facts of a condition hold inside: those of its conjuncts that read no memory, which may change, and do
        not wrap.
        """
        with ExitStack() as facts:
            for conjunct in conjuncts(condition):
                if is_const_int(conjunct) or side_effect(conjunct) is not Purity.PURE:
                    continue
                if not self.wrapping.overflows(conjunct):
                    facts.enter_context(self.analyzer.constraint_scope(conjunct))
            yield

    def visit_For(self, op: For) -> Stmt:
        low, extent = self.visit(op.min), self.visit(op.extent)
        with self.in_loop(op.loop_var, low, extent):
            body = self.visit(op.body)
        if op.kind is ForKind.THREAD_BINDING:
            # The next loop over the axis may have the same variable, and be asked about before it is entered.
            self.analyzer.forget(op.loop_var)
        return op.with_(min=low, extent=extent, body=body)

    @contextmanager
    def in_loop(self, var: Var, low: Expr, extent: Expr) -> Iterator[None]:
        """Inside a loop its variable lies in its range. That the range is not empty is a fact only there. Bounds that read memory are
        taken once, and another load may find another one: they say nothing."""
        if not (side_effect(low) is side_effect(extent) is Purity.PURE):
            with self.analyzer.constraint_scope(const(True, "bool")):
                self.analyzer.forget(var)
                with self.holding(build.ge(var, low)):
                    yield
            return
        runs = build.gt(extent, const(0, extent.dtype))
        if is_const_int(runs, 1):
            self.analyzer.bind(var, Range(low, extent), allow_override=True)
            yield
            return
        # A scope of its own, whether the fact can be used or not: an empty range proves anything.
        with self.analyzer.constraint_scope(const(True, "bool")), self.holding(runs):
            self.analyzer.bind(var, Range(low, extent), allow_override=True)
            yield

    def moves(self, index: Expr, var: Var) -> Expr:
        """By how much an index is greater where a variable is greater by one."""
        after = substitute(index, {var: build.add(var, const(1, var.dtype))})
        return self.analyzer.simplify(build.sub(after, index))

    def visit_Block(self, op: Block) -> Stmt:
        predicate = self.visit(op.predicate)
        with self.analyzer.constraint_scope(const(True, "bool")):
            # That the domains are not empty is a fact only inside.
            for it in op.iters:
                self.analyzer.bind(it.var, it.domain, allow_override=True)
            with self.holding(predicate):
                # The predicate is a fact for the rest of the block, not for itself.
                rest = self.generic(op.with_(predicate=const(True, "bool")))
        parts = {name: getattr(rest, name) for name in op.child_names if name != "predicate"}
        return op.with_(predicate=predicate, **parts)

    def visit_IfThenElse(self, op: IfThenElse) -> Stmt:
        return self.branches(op, self.visit(op.condition))

    def branches(self, op: IfThenElse, condition: Expr, fact: Expr | None = None) -> Stmt:
        """Both cases under a new condition, which holds in them (or ``fact`` does); marks of ``likely`` are removed."""
        fact = without_likely(condition if fact is None else fact)
        with self.holding(fact):
            then_case = self.visit(op.then_case)
        else_case = op.else_case
        if else_case is not None:
            with self.holding(self.analyzer.rewrite_simplify(build.logical_not(fact))), ExitStack() as stated:
                if isinstance(fact, And) and not self.wrapping.overflows(fact):
                    stated.enter_context(self.analyzer.constraint_scope(const(True, "bool")))
                    self.analyzer.facts.deny(fact)
                else_case = self.visit(else_case)
        return op.with_(condition=condition, then_case=then_case, else_case=else_case)

    def visit_While(self, op: While) -> Stmt:
        condition = self.visit(op.condition)
        # The condition holds at the start of an iteration only: it may read what the body writes, so it is no fact.
        return op.with_(condition=condition, body=self.visit(op.body))

    def visit_Seq(self, op: Seq) -> Stmt:
        with ExitStack() as facts:
            done = []
            for stmt in op.stmts:
                new = self.visit(stmt)
                done.append(new)
                self.note_binding(new)
                fact = stated_fact(new)
                if fact is not None:
                    facts.enter_context(self.holding(fact))
            changed = any(a is not b for a, b in zip(done, op.stmts, strict=True))
            return op.with_(stmts=tuple(done)) if changed else op

    def note_binding(self, stmt: Node) -> None:
        """Remember that a variable is bound to what wraps."""
        if isinstance(stmt, Bind) and not stmt.var.dtype.is_handle:
            self.wrapping.note(stmt.var, stmt.value)


def know_shapes(analyzer: Analyzer, func: PrimFunc) -> None:
    """The extents of a function's parameter buffers are not negative: a call is refused otherwise."""
    for buffer in func.buffers:
        for extent in buffer.shape:
            if not isinstance(extent, IntImm):
                analyzer.enter_constraint(build.ge(extent, const(0, extent.dtype)))


def without_likely(condition: Expr) -> Expr:
    """A condition without the outer marks of ``T.likely``."""
    while isinstance(condition, Call) and condition.op is Op.get("tir.likely"):
        condition = condition.args[0]
    return condition


def conjuncts(condition: Expr) -> list[Expr]:
    """The terms of a conjunction, left to right, marks of ``T.likely`` removed."""
    found: list[Expr] = []
    stack = [condition]
    while stack:
        term = without_likely(stack.pop())
        if isinstance(term, And):
            stack += [term.b, term.a]
        else:
            found.append(term)
    return found


def stated_fact(stmt: Node) -> Expr | None:
    """What an assert or ``T.assume`` states for the statements after it."""
    if isinstance(stmt, Assert):
        return stmt.condition
    if isinstance(stmt, Evaluate) and isinstance(stmt.value, Call) and stmt.value.op is Op.get("tir.assume"):
        return stmt.value.args[0]
    return None
