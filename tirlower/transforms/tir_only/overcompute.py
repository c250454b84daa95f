"""ReduceBranchingThroughOvercompute: a branch goes where doing its work always does no harm."""

from __future__ import annotations

from contextlib import ExitStack

from tirlower.analysis.access_summary import Access
from tirlower.analysis.aliasing import same_place
from tirlower.analysis.purity import side_effect
from tirlower.arith import IntervalSet
from tirlower.ir import build
from tirlower.ir.expr import Add, BufferLoad, Expr, Sub, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator
from tirlower.ir.node import Node
from tirlower.ir.op import Purity
from tirlower.ir.splice import as_scope
from tirlower.ir.stmt import BufferStore, Evaluate, For, ForKind, IfThenElse, Seq, Stmt, is_no_op, seq
from tirlower.ir.structural import structural_equal
from tirlower.rewrite.base import FuncPass
from tirlower.rewrite.buffer_contents import KnownValues, evaluable, in_bounds
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.dead_store import BackwardMutator
from tirlower.rewrite.fact_mutator import FactMutator, without_likely
from tirlower.rewrite.known_mutator import KnownMutator
from tirlower.rewrite.loop_nests import nested

__all__ = ["ReduceBranchingThroughOvercompute"]


class _Restated(FactMutator):
    """A statement as it reads with known elements put in, under the facts in force."""

    def __init__(self, known: KnownValues) -> None:
        super().__init__()
        self.analyzer = known.analyzer
        self.known = known

    def visit_expr(self, root: Expr) -> Expr:
        return self.known.replaced(root)


def _stores(stmt: Node) -> list[BufferStore] | None:
    """The stores that a statement consists of, in loops perhaps; None where it does anything else."""
    if isinstance(stmt, BufferStore):
        return [stmt] if stmt.predicate is None else None
    if isinstance(stmt, Seq):
        found: list[BufferStore] = []
        for child in stmt.stmts:
            inner = _stores(child)
            if inner is None:
                return None
            found += inner
        return found
    if isinstance(stmt, For):
        return _stores(stmt.body) if max(side_effect(stmt.min), side_effect(stmt.extent)) is Purity.PURE else None
    if isinstance(stmt, Evaluate):
        return [] if is_no_op(stmt) else None
    return None


def _work(stmt: Stmt) -> Stmt:
    """A statement without the evaluations in it that do nothing."""
    return seq(*[_work(child) for child in stmt.stmts if not is_no_op(child)]) if isinstance(stmt, Seq) else stmt


class _Reducer(KnownMutator, StmtMutator):
    """Forward: work that changes nothing, or the same as the other branch, where the condition fails."""

    def __init__(self, func: PrimFunc, dataflow: bool) -> None:
        super().__init__(func, dataflow)
        self.parallel = 0

    def visit_For(self, op: For) -> Stmt:
        self.parallel += op.kind is not ForKind.SERIAL
        made = super().visit_For(op)
        self.parallel -= op.kind is not ForKind.SERIAL
        return made

    def visit_IfThenElse(self, op: IfThenElse) -> Stmt:
        always = self._always(op)
        if always is None:
            before = list(self.known.facts)
            made = self.branches(op, op.condition)
            if made is op or not isinstance(made, IfThenElse):
                return made
            # What has lost its branches may do without this one.
            after, self.known.facts = self.known.facts, before
            always = self._always(made)
            if always is None:
                self.known.facts = after
                return made
        return self.visit(as_scope(always))

    def _always(self, op: IfThenElse) -> Stmt | None:
        """The case that may run whatever the condition."""
        condition = without_likely(op.condition)
        if side_effect(condition) > Purity.READS:
            return None
        cases = [(op.then_case, op.else_case, build.logical_not(condition))]
        if op.else_case is not None:
            cases.append((op.else_case, op.then_case, condition))
        for case, other, when in cases:
            stores = _stores(case)
            if stores is None or (is_no_op(case) and not is_no_op(other)):
                continue
            with self.holding(self.analyzer.rewrite_simplify(when)), ExitStack() as loops:
                self._enter_loops(case, loops)
                if self._harmless(case, stores, other):
                    return case
        return None

    def _harmless(self, case: Stmt, stores: list[BufferStore], other: Stmt | None) -> bool:
        """Whether a case can run where the condition is against it, and then does what the other case does."""
        if not all(in_bounds(self.analyzer, s) and evaluable(self.known, s.value, *s.indices) for s in stores):
            return False
        if other is None or is_no_op(other):
            return len(stores) == 1 and self._changes_nothing(stores[0])
        case, other = _work(case), _work(other)
        facts = self.known.facts
        if isinstance(case, BufferStore) and isinstance(other, BufferStore):
            if self._equal(case, other):
                return True
        else:
            # A later statement of a case may read what an earlier one wrote.
            self.known.overwrite(case)
            self.known.overwrite(other)
        restated = _Restated(self.known)
        same = structural_equal(restated.visit(case), restated.visit(other))
        self.known.facts = facts
        return same

    def _equal(self, a: BufferStore, b: BufferStore) -> bool:
        """Whether two stores certainly put the same value in the same place."""
        if a.buffer is not b.buffer or a.predicate is not None or b.predicate is not None:
            return False
        pairs = [*zip(a.indices, b.indices, strict=True), (self.known.replaced(a.value), self.known.replaced(b.value))]
        return all(self.known.equal(x, y) for x, y in pairs)

    def _enter_loops(self, stmt: Node, scopes: ExitStack) -> None:
        """The loops inside a case: the variables are in their ranges while the scopes last."""
        if isinstance(stmt, For):
            scopes.enter_context(self.in_loop(stmt.loop_var, stmt.min, stmt.extent))
            self._enter_loops(stmt.body, scopes)
        elif isinstance(stmt, Seq):
            for child in stmt.stmts:
                self._enter_loops(child, scopes)

    def _changes_nothing(self, op: BufferStore) -> bool:
        here = BufferLoad(op.buffer, op.indices)
        value = self.known.replaced(op.value)
        known = self.known.value(here)
        if known is not None and self.known.equal(value, known):
            return True
        if self.parallel:
            return False  # storing what was read could undo what another iteration stores
        if isinstance(value, BufferLoad):
            return same_place(op, value)
        return op.value.dtype.is_integral and (self.known.equal(value, here) or self._adds_nothing(op, value))

    def _adds_nothing(self, op: BufferStore, value: Expr) -> bool:
        """Whether a value is the element plus what certainly is 0: sums cancel though they wrap."""
        terms: list[tuple[bool, Expr]] = [(True, value)]
        rest: Expr = const(0, value.dtype)
        elements = 0
        while terms:
            plus, term = terms.pop()
            if isinstance(term, (Add, Sub)):
                terms += [(plus, term.a), (plus if isinstance(term, Add) else not plus, term.b)]
            elif isinstance(term, BufferLoad) and same_place(op, term):
                elements += 1 if plus else -1
            else:
                rest = (build.add if plus else build.sub)(rest, term)
        return elements == 1 and self.known.equal(rest, const(0, value.dtype))


class _Overwritten(BackwardMutator):
    """Backward: work whose results are overwritten, where the condition fails, before anything reads them."""

    def __init__(self, func: PrimFunc) -> None:
        super().__init__(func)
        # Of the contents of memory nothing is known on this way.
        self.nothing = KnownValues(func, self.analyzer, self.wrapping, dataflow=False)

    def rewrite(self, stmt: Stmt) -> Stmt:
        if not isinstance(stmt, (For, IfThenElse)):
            return stmt
        with ExitStack() as scopes:
            return self._without_branch(stmt, stmt, scopes)

    def _without_branch(self, stmt: Stmt, whole: Stmt, scopes: ExitStack) -> Stmt:
        """A nest of loops around one branch, without the branch if nothing needs it."""
        if isinstance(stmt, For):
            scopes.enter_context(self.in_loop(stmt.loop_var, stmt.min, stmt.extent))
            return stmt.with_(body=self._without_branch(stmt.body, whole, scopes))
        if not isinstance(stmt, IfThenElse) or stmt.else_case is not None:
            return stmt
        stores = _stores(stmt.then_case)
        condition = without_likely(stmt.condition)
        if not stores or side_effect(condition) is not Purity.PURE:
            return stmt
        summary = self.summaries.of(whole)
        written = {store.buffer.data for store in stores}
        aliases = self.liveness.aliases
        if summary.opaque or any(aliases.may_alias(w, other) for w in written for other in summary.pointers):
            return stmt
        if any(aliases.may_alias(w, r.buffer.data) for w in written for r in summary.reads):
            return stmt
        scopes.enter_context(self.holding(self.analyzer.rewrite_simplify(build.logical_not(condition))))
        loops, inner = nested(stmt.then_case)
        for loop in loops:
            scopes.enter_context(self.in_loop(loop.loop_var, loop.min, loop.extent))
        if not isinstance(inner, BufferStore) or not in_bounds(self.analyzer, inner):
            return stmt
        box = tuple(self._bounds(i) for i in inner.indices)
        if evaluable(self.nothing, inner.value, *inner.indices) and self.liveness.dead(Access(inner.buffer, box)):
            return as_scope(stmt.then_case)
        return stmt

    def _bounds(self, index: Expr) -> IntervalSet:
        """The numbers that an index is between, under the facts in force."""
        bound = self.analyzer.const_int_bound(self.analyzer.simplify(index))
        dtype = index.dtype
        # Bounds of a sum in between may lie outside its type: such an index is anything.
        if not (dtype.min_value <= bound.min_value and bound.max_value <= dtype.max_value):
            return IntervalSet.everything()
        return IntervalSet(const(bound.min_value, dtype), const(bound.max_value, dtype))


class ReduceBranchingThroughOvercompute(FuncPass):
    """``if cond: work`` becomes ``work`` where doing it when the condition fails changes nothing.

    That is so where each value stored is, given that the condition fails, the one that stands there already (by an
    assumption about the buffer, or because the value adds nothing to it); or where both branches do the same.
    With ``use_dataflow_analysis`` what earlier loops assumed or stored is known too, and work counts as harmless whose
    results are overwritten before they are read. In any case it must be possible to do the work: its accesses stay
    inside their buffers, and nothing faults. Parameter buffers may overlap unless the function says ``tir.noalias``.

    Stands before the loops are vectorized, and before RemoveAssume. Raises nothing.

    >>> from tirlower.script import parse
    >>> print(ReduceBranchingThroughOvercompute()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((16,), "int32"), B: T.Buffer((1,), "int32")):
    ...     for i in range(16):
    ...         T.evaluate(T.assume(i < 14 or A[i] == 0))
    ...         if i < 14:
    ...             A[i] = 0
    ...     for i in range(16):
    ...         if i > 0:
    ...             B[0] = B[0] + i
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((16,), "int32"), B: T.Buffer((1,), "int32")):
        for i in range(16):
            T.assume(i < 14 or A[i] == 0)
            A[i] = 0
        for i in range(16):
            B[0] = B[0] + i
    """

    name = "tir.ReduceBranchingThroughOvercompute"
    use_dataflow_analysis: bool = False

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Remove the branches of a function that its work does not need."""
        dataflow = self.use_dataflow_analysis
        func = func.with_body(_Reducer(func, dataflow).visit(func.body))
        return func.with_body(_Overwritten(func).visit(func.body)) if dataflow else func
