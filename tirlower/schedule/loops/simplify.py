"""``simplify``: what is known around a statement is put in: conditions decided, loops of one iteration gone, shorter indices."""

from __future__ import annotations

from typing import TypeVar, cast

from tirlower.analysis.purity import side_effect
from tirlower.ir.expr import Expr, IntImm, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import substitute
from tirlower.ir.node import Node
from tirlower.ir.op import Purity
from tirlower.ir.query import may_divide_by_zero, nodes
from tirlower.ir.splice import as_scope
from tirlower.ir.stmt import Evaluate, For, ForKind, IfThenElse, Seq, Stmt, is_no_op
from tirlower.rewrite.fact_mutator import FactMutator
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.sites import Change, Edit, Forward
from tirlower.schedule.step import Step

__all__ = ["SIMPLIFY"]

Kept = TypeVar("Kept", bound=Node)


class _Simplifier(FactMutator):
    """Simplifies one statement of a function under what is known where it stands; says what became of those inside."""

    def __init__(self, func: PrimFunc, target: Stmt) -> None:
        super().__init__(func)
        self.target = target
        self.active = False
        self.made: Stmt = target
        self.forward = Forward()
        self.origin: dict[Stmt, Stmt] = {}
        """Of statements that took the place of others before they were simplified."""

    def visit(self, op: Kept) -> Kept:
        if op is self.target and not self.active:
            self.active = True
            self.made = self._noted(self.target)
            self.active = False
            return op
        if not self.active or not isinstance(op, Stmt):
            return cast(Kept, super().visit(op))
        return cast(Kept, self._noted(op))

    def _noted(self, op: Stmt) -> Stmt:
        new = super().visit(op)
        old = self.origin.get(op, op)
        if new is not old:
            self.forward.keep(old, new)
        return new

    def visit_expr(self, root: Expr) -> Expr:
        if not self.active or root.is_leaf:
            return root
        return self.wrapping.simplify(root, self.analyzer.simplify)

    def visit_For(self, op: For) -> Stmt:
        """A loop of one iteration is its body; one that never runs, or does nothing any more, is nothing."""
        if not self.active or op.kind is not ForKind.SERIAL or op.annotations:
            return super().visit_For(op)
        extent = self.visit_expr(op.extent)
        # What a body may write is read for the start of its loop once: in the variable's place it would be read again.
        again = side_effect(op.min) is not Purity.PURE
        if not isinstance(extent, IntImm) or extent.value > 1 or (extent.value == 1 and again):
            kept = super().visit_For(op)
            if not isinstance(kept, For) or not is_no_op(kept.body) or is_no_op(op.body):
                return kept
            if side_effect(extent) is not Purity.PURE or any(may_divide_by_zero(one) for one in nodes(op.min, extent)):
                return kept
            self.forward.end(self.origin.get(op, op))
            return kept.body
        old = self.origin.get(op, op)
        if extent.value < 1:
            made: Stmt = Evaluate(const(0, "int32"))
            self.forward.end(old)
            return made
        body = substitute(op.body, {op.loop_var: op.min})
        self._stands_for(op.body, body)
        made = as_scope(self.visit(body))
        self.forward.end(old, made)
        return made

    def branches(self, op: IfThenElse, condition: Expr, fact: Expr | None = None) -> Stmt:
        """A condition that is known leaves one case."""
        if self.active and isinstance(condition, IntImm):
            case = op.then_case if condition.value else op.else_case
            return Evaluate(const(0, "int32")) if case is None else as_scope(self.visit(case))
        return super().branches(op, condition, fact)

    def _stands_for(self, old: Stmt, new: Stmt) -> None:
        stack = [(old, new)]
        while stack:
            a, b = stack.pop()
            if a is not b:
                self.origin[b] = self.origin.get(a, a)
            mine, theirs = ([s for s in x.children() if isinstance(s, Stmt)] for x in (a, b))
            stack += zip(mine, theirs, strict=True)


def _rewrite(step: Step) -> Change:
    handle = step.handle("where")
    stmt, site = step.stmt(handle), step.site(handle)
    if isinstance(stmt, PrimFunc):
        site = site / ("body",)
        stmt = stmt.body
    assert isinstance(stmt, Stmt)
    worker = _Simplifier(step.func(site), stmt)
    worker.visit(step.func(site).body)
    made = worker.made
    if made is stmt:
        return Change()
    _end_the_lost(step, stmt, made, worker.forward)
    around = step.chain(site)[-2:-1]
    one_of_several = bool(around) and isinstance(around[0], Seq) and len(around[0].stmts) > 1
    return Change(Edit(site, None if one_of_several and is_no_op(made) else made), worker.forward)


def _end_the_lost(step: Step, old: Stmt, new: Stmt, forward: Forward) -> None:
    """What no statement goes on as, in a case that never happens, is no more."""
    there = {stmt for _, stmt in step.facts.inside(new)}
    for _, stmt in step.facts.inside(old):
        if stmt not in forward.ended and forward.after(stmt) not in there:
            forward.end(stmt)


SIMPLIFY = Kind(
    "Simplify",
    "simplify",
    (Slot("where", Takes.LOOP_OR_BLOCK),),
    _rewrite,
    """Put in what is known where a statement stands: indices get shorter, conditions that are known leave one case, plain loops
    of one iteration leave their body, those that are left with nothing go. ``"root"`` is the whole function. Always legal.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8,), "int32")):
    ...     for i in range(8):
    ...         if i < 9:
    ...             A[i // 1 % 8] = i
    ... '''))
    >>> sch.simplify(sch.loop("i"))
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((8,), "int32")):
        for i in range(8):
            A[i] = i
    """,
    tvm=False,
)
