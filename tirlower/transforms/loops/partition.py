"""LoopPartition: a loop is cut where its conditions change, and the middle part runs without them."""

from __future__ import annotations

import itertools

from tirlower.analysis.condition_ranges import Interval, Solver
from tirlower.analysis.purity import side_effect
from tirlower.arith import Analyzer
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.expr import And, Call, Expr, IntImm, Let, Select, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Mutator, StmtMutator, Visitor, substitute
from tirlower.ir.intrinsics.collective import COLLECTIVE
from tirlower.ir.node import Node
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import mentions
from tirlower.ir.refresh import copy_var, refresh_binders
from tirlower.ir.splice import as_scope, jumps_out, loop_inside, still_about
from tirlower.ir.stmt import AttrStmt, Bind, For, ForKind, IfThenElse, Stmt, is_no_op, seq
from tirlower.rewrite.base import Fact, FuncPass
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.decide import Decider, SizeBudget
from tirlower.rewrite.fact_mutator import FactMutator
from tirlower.rewrite.loop_nests import bounds_once

__all__ = ["LoopPartition"]

HINT = "pragma_loop_partition_hint"
BUDGET = 500
"""Statements that cutting the loops of one function may add, or the number it has if that is more; then a loop is left
whole rather than cut."""
MAX_CUTS = 2
"""How often a loop is cut, and its parts again by other conditions: each cut may make three parts of one."""
MAX_CONSTANT_CUTS = 16
"""The same for loops of constant extents, whose parts shrink."""

_LIKELY = Op.get("tir.likely")
_IGNORE = Op.get("tir.ignore_loop_partition")
_ITE = Op.get("tir.if_then_else")
_ALLREDUCE = Op.get("tir.tvm_thread_allreduce")
CUTS = "cuts"
"""On a condition inside a part: the numbers of the cuts that were made by it."""
MARKED = "marked"
"""Beside it: whether the program marked the condition ``likely``, for every loop, or it belongs to hinted ones only."""
BRANCH = 0
"""The number of the cut that is a branch of threads: the loops over other axes take no other one for its conditions."""


class _Needed(Visitor):
    """Whether a function has marks at all."""

    def __init__(self) -> None:
        self.found = False

    def visit_Call(self, op: Call) -> None:
        self.found = self.found or op.op is _LIKELY

    def visit_For(self, op: For) -> None:
        self.found = self.found or HINT in op.annotations
        self.generic(op)

    def visit_AttrStmt(self, op: AttrStmt) -> None:
        self.found = self.found or op.key == HINT
        self.generic(op)


class _Conditions(Visitor):
    """The conditions inside a loop that depend on its variable: for which of its values each holds, and fails.

    Marked ones (``likely``), in a hinted loop all conditions of ifs and selections. A condition that stands in two
    places must hold in both. ``frozen`` are those by which the loop was cut already.
    """

    def __init__(self, analyzer: Analyzer, loop: For, hinted: bool, cuts: frozenset[int]) -> None:
        self.solver = Solver(analyzer, loop.loop_var)
        self.hinted = hinted
        self.threads = loop.kind is ForKind.THREAD_BINDING
        self.cuts = cuts
        self.values: dict[Var, Expr] = {}
        self.true: dict[Expr, Interval | None] = {}
        self.false: dict[Expr, Interval | None] = {}
        self.frozen: set[Expr] = set()
        self.allreduce = self.barrier = False

    def note(self, condition: Expr) -> None:
        inner: Expr = condition
        if condition.__class__ is Call and condition.op is _IGNORE:
            cuts = condition.annotations.get(CUTS)
            if not isinstance(cuts, tuple) or not (self.hinted or condition.annotations[MARKED]):
                return  # one that the program wants to keep, or of another loop
            if not self.cuts.isdisjoint(cuts) or (self.threads and BRANCH in cuts):
                self.frozen.add(condition)
            inner = condition.args[0]
        solved = substitute(inner, self.values) if self.values else inner
        for table, solve in ((self.true, self.solver.holds), (self.false, self.solver.fails)):
            found = solve(solved)
            if condition in table:
                known = table[condition]
                found = None if known is None or found is None else self._common(known, found)
            table[condition] = found
        if inner.__class__ is And and self.true[condition] is None:
            # What cannot be solved as a whole may be so in part.
            self.note(inner.a)
            self.note(inner.b)

    def _common(self, a: Interval, b: Interval) -> Interval:
        return self.solver.pick(build.max_, a[0], b[0]), self.solver.pick(build.min_, a[1], b[1])

    def visit_For(self, op: For) -> None:
        self.visit(op.min)
        self.visit(op.extent)
        low, extent = (substitute(e, self.values) if self.values else e for e in (op.min, op.extent))
        self.solver.enter_loop(op.loop_var, low, extent)
        self.visit(op.body)
        self.solver.leave_loop(op.loop_var)

    def visit_Bind(self, op: Bind) -> None:
        self.visit(op.value)
        self.solver.inside.add(op.var)
        if op.var.dtype.is_int and side_effect(op.value) is Purity.PURE:
            self.values[op.var] = substitute(op.value, self.values) if self.values else op.value

    def visit_Let(self, op: Let) -> None:
        self.solver.inside.add(op.var)

    def visit_IfThenElse(self, op: IfThenElse) -> None:
        if self.hinted:
            self.note(op.condition)
        self.generic(op)

    def visit_Select(self, op: Select) -> None:
        if self.hinted and op.condition.dtype.is_scalar:
            self.note(op.condition)

    def visit_Call(self, op: Call) -> None:
        if op.op is _LIKELY or op.op is _IGNORE:
            if op.dtype.is_bool and op.dtype.is_scalar:
                self.note(op)
        elif op.op is _ITE and self.hinted and op.args[0].dtype.is_scalar:
            self.note(op.args[0])
        elif op.op is _ALLREDUCE:
            self.allreduce = True
        elif op.op in COLLECTIVE:
            self.barrier = True


class _Freezer(Mutator):
    """Marks conditions by which a loop was cut: they may be decided in a part, but cut it no more."""

    def __init__(self, conditions: set[Expr], cut: int) -> None:
        self.conditions = conditions
        self.cut = cut

    def enter_Expr(self, op: Node) -> Expr | None:
        if op not in self.conditions:
            return None
        cuts: tuple[int, ...] = (self.cut,)
        inner = op
        marked = False
        if isinstance(op, Call) and op.op in (_LIKELY, _IGNORE):
            inner = op.args[0]
            before = op.annotations.get(CUTS)
            if isinstance(before, tuple):
                cuts += before
            marked = op.op is _LIKELY or bool(op.annotations.get(MARKED))
        return Call(_IGNORE, (inner,), inner.dtype, annotations={CUTS: cuts, MARKED: marked}, span=op.span)


class _Cleaner(Mutator):
    """Removes the marks that are left."""

    def visit_Call(self, op: Call) -> Expr:
        return op.args[0] if op.op is _LIKELY or op.op is _IGNORE else op

    def visit_For(self, op: For) -> Stmt:
        op = self.generic(op)
        if HINT not in op.annotations:
            return op
        return op.with_(annotations={key: value for key, value in op.annotations.items() if key != HINT})

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        return self.visit(op.body) if op.key == HINT else self.generic(op)


class _Partitioner(FactMutator, StmtMutator):
    def __init__(self, func: PrimFunc, options: LoopPartition) -> None:
        super().__init__(func)
        self.options = options
        self.budget = SizeBudget("LoopPartition", func.body, BUDGET)
        self.hinted: set[Var] = set()
        # The cuts that made a part, by its variable.
        self.cuts: dict[Var, frozenset[int]] = {}
        self.count = 0

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        loop = loop_inside(op)
        if op.key == HINT and loop is not None and not is_const_int(op.value, 0):
            self.hinted.add(loop.loop_var)
        return still_about(op.with_(value=self.visit(op.value)), self.visit(op.body))

    def visit_For(self, op: For) -> Stmt:
        hinted = bool(op.annotations.get(HINT)) or op.loop_var in self.hinted
        constant = isinstance(op.min, IntImm) and isinstance(op.extent, IntImm)
        wanted = not constant or hinted or self.options.partition_const_loop or op.loop_var in self.cuts
        if (wanted or op.kind is ForKind.THREAD_BINDING) and not jumps_out(op.body):
            named, once = bounds_once(op)
            made = self._loop(once, hinted)
            if not named:
                return made
            if not isinstance(made, For):
                return as_scope(seq(*named, made))
        return super().visit_For(op)

    def _loop(self, op: For, hinted: bool) -> Stmt:
        """A loop cut into parts, its conditions decided where they can be."""
        found = _Conditions(self.analyzer, op, hinted, self.cuts.get(op.loop_var, frozenset()))
        found.visit(op.body)
        if found.allreduce or (found.barrier and op.kind is ForKind.THREAD_BINDING):
            return super().visit_For(op)
        begin, end = op.min, self.analyzer.simplify(build.add(op.min, op.extent))
        decided = [
            {c for c, interval in table.items() if interval is not None and self._covers(interval, begin, end)}
            for table in (found.true, found.false)
        ]
        asked = {c for c in found.true if mentions(c, {op.loop_var})}
        if op.loop_var in self.cuts:
            self._decide_part(op, asked, decided)
        if decided[0] or decided[1]:
            op = op.with_(body=Decider(decided[0], decided[1] - decided[0]).visit(op.body))
            return self._loop(op, hinted)
        constant = isinstance(begin, IntImm) and isinstance(end, IntImm)
        if len(found.cuts) >= (MAX_CONSTANT_CUTS if constant else MAX_CUTS):
            return super().visit_For(op)
        for table, other in ((found.true, found.false), (found.false, found.true)):
            chosen = self._choose(found, table, begin, end)
            if chosen is None:
                continue
            made = self._cut(op, (begin, end), chosen[0], chosen[1], table, other, table is found.true)
            if made is not None:
                return made
        unrolled = self.options.unroll_loop_with_partition_hint_no_interval
        if hinted and unrolled and asked and self.analyzer.can_prove(build.gt(op.extent, 1)):
            return super().visit_For(op.with_(kind=ForKind.UNROLLED, thread_tag=None))
        return super().visit_For(op)

    def _decide_part(self, op: For, conditions: set[Expr], decided: list[set[Expr]]) -> None:
        """Decide the conditions of a part that no interval says, but its range: ``i == 4`` fails below 4."""
        left = conditions - decided[0] - decided[1]
        if not left:
            return
        with self.in_loop(op.loop_var, op.min, op.extent):
            for condition in left:
                inner = condition.args[0] if isinstance(condition, Call) else condition
                if self.analyzer.can_prove(inner):
                    decided[0].add(condition)
                elif self.analyzer.can_prove(build.logical_not(inner)):
                    decided[1].add(condition)

    def _covers(self, interval: Interval, begin: Expr, end: Expr) -> bool:
        low, high = interval
        prove = self.analyzer.can_prove
        return (low is None or prove(build.le(low, begin))) and (
            high is None or prove(build.le(end, build.add(high, 1)))
        )

    def _choose(
        self, found: _Conditions, table: dict[Expr, Interval | None], begin: Expr, end: Expr
    ) -> tuple[Interval, set[Expr]] | None:
        """The values for which as many conditions as possible have one truth value, and these conditions."""
        interval: Interval = (None, None)
        conditions: set[Expr] = set()
        pick = found.solver.pick
        for condition, ends in table.items():
            if ends is None or condition in found.frozen or self._empty(ends, begin, end):
                continue
            both = pick(build.max_, interval[0], ends[0]), pick(build.min_, interval[1], ends[1])
            if conditions and self._empty(both, begin, end):
                continue
            interval = both
            conditions.add(condition)
        return (interval, conditions) if conditions else None

    def _empty(self, interval: Interval, begin: Expr, end: Expr) -> bool:
        low, high = interval
        prove = self.analyzer.can_prove
        return (
            (low is not None and prove(build.ge(low, end)))
            or (high is not None and prove(build.lt(high, begin)))
            or (low is not None and high is not None and prove(build.gt(low, high)))
        )

    def _cuts(self, begin: Expr, end: Expr, interval: Interval) -> tuple[Expr, Expr]:
        """Where the middle part begins and ends: ``begin <= first <= last <= end`` wherever the loop runs at all,
        each relation proved, or made true by a minimum or maximum."""
        prove, simplify = self.analyzer.can_prove, self.analyzer.simplify
        low, high = interval
        first, last = begin, end
        if low is not None and not prove(build.le(low, begin)):
            first = low if prove(build.ge(low, begin)) else simplify(build.max_(low, begin))
            if not prove(build.le(first, end)):
                first = simplify(build.min_(first, end))
        stop = None if high is None else simplify(build.add(high, const(1, high.dtype)))
        if stop is not None and not prove(build.ge(stop, end)):
            last = stop if prove(build.le(stop, end)) else simplify(build.min_(stop, end))
            if not prove(build.ge(last, first)):
                last = simplify(build.max_(last, first))
        return first, last

    def _cut(
        self,
        op: For,
        whole: tuple[Expr, Expr],
        interval: Interval,
        conditions: set[Expr],
        table: dict[Expr, Interval | None],
        other: dict[Expr, Interval | None],
        value: bool,
    ) -> Stmt | None:
        begin, end = whole
        first, last = self._cuts(begin, end, interval)
        if self.analyzer.can_prove(build.le(last, first)):
            return None
        nothing: set[Expr] = set()
        middle = Decider(conditions, nothing) if value else Decider(nothing, conditions)
        if op.kind is ForKind.THREAD_BINDING:
            return self._branch(op, (begin, first, last, end), conditions, middle)
        parts = [(low, high) for low, high in ((begin, first), (first, last), (last, end)) if low is not high]
        extents = [self.analyzer.simplify(build.sub(high, low)) for low, high in parts]
        if op.kind in (ForKind.VECTORIZED, ForKind.UNROLLED) and not all(isinstance(e, IntImm) for e in extents):
            return None  # a constant number of lanes, or of copies, must stay one
        if not self.budget.allows(op, op.body, len(parts) - 1):
            return super().visit_For(op)
        check_cover(op, begin, end, parts, self.analyzer)
        done: list[Stmt] = []
        self.count += 1
        cut = self.count
        for (low, high), extent in zip(parts, extents, strict=True):
            if low is first and high is last:
                body = middle.visit(op.body)
            else:
                # Where this part runs, its values are beyond the interval's own end: most conditions fail there.
                before = low is begin and high is first
                lost = self._lost(other, conditions, interval, before)
                outside = Decider(nothing, lost) if value else Decider(lost, nothing)
                spent = self._spent(table, conditions, interval[0 if before else 1], before)
                body = _Freezer(spent - lost, cut).visit(outside.visit(op.body) if lost else op.body)
            if not is_no_op(body):
                done.append(as_scope(self._part(op, low, extent, body, cut)))
        return seq(*done)

    def _spent(
        self, table: dict[Expr, Interval | None], conditions: set[Expr], edge: Expr | None, before: bool
    ) -> set[Expr]:
        """The conditions that ended the interval on one side; the others may cut the part beyond it again."""
        ended: set[Expr] = set()
        for condition in conditions:
            ends = table[condition]
            end = None if ends is None else ends[0 if before else 1]
            if end is edge or (end is not None and edge is not None and self.analyzer.interner.same(end, edge)):
                ended.add(condition)
        return ended or conditions

    def _lost(
        self, other: dict[Expr, Interval | None], conditions: set[Expr], interval: Interval, before: bool
    ) -> set[Expr]:
        """The conditions that have the other truth value everywhere before (after) the interval."""
        prove = self.analyzer.can_prove
        lost: set[Expr] = set()
        edge = interval[0 if before else 1]
        for condition in conditions:
            ends = other[condition]
            if ends is None or edge is None or ends[0 if before else 1] is not None:
                continue
            limit = ends[1 if before else 0]
            if limit is None or prove(
                build.ge(limit, build.sub(edge, 1)) if before else build.le(limit, build.add(edge, 1))
            ):
                lost.add(condition)
        return lost

    def _part(self, op: For, low: Expr, extent: Expr, body: Stmt, cut: int) -> Stmt:
        """A loop over ``extent`` values from ``low`` on, counted from 0."""
        made: Stmt
        plain = not op.annotations.keys() - {HINT}
        if not self.options.no_unroll_loop_with_extent_one and plain and self.analyzer.can_prove(build.eq(extent, 1)):
            made = self.visit(refresh_binders(body, {op.loop_var: low}))
            return made
        var = copy_var(op.loop_var)
        self.cuts[var] = self.cuts.get(op.loop_var, frozenset()) | {cut}
        if op.loop_var in self.hinted:
            self.hinted.add(var)
        body = refresh_binders(body, {op.loop_var: build.add(var, low)})
        made = self.visit(op.with_(loop_var=var, min=const(0, var.dtype), extent=extent, body=body))
        return made

    def _branch(
        self,
        op: For,
        ends: tuple[Expr, Expr, Expr, Expr],
        conditions: set[Expr],
        decider: Decider,
    ) -> Stmt:
        """Threads are not cut: inside the innermost loop over threads, those of the middle part take a branch."""
        begin, first, last, end = ends
        middle: Expr = const(True, "bool")
        if first is not begin:
            middle = build.logical_and(middle, build.ge(op.loop_var, first))
        if last is not end:
            middle = build.logical_and(middle, build.lt(op.loop_var, last))

        def inside(stmt: Stmt) -> Stmt:
            if isinstance(stmt, For) and stmt.kind is ForKind.THREAD_BINDING:
                return stmt.with_(body=inside(stmt.body))
            if not self.budget.allows(op, op.body, 1):
                return stmt
            free = refresh_binders(decider.visit(stmt))
            return IfThenElse(middle, free, _Freezer(conditions, BRANCH).visit(stmt))

        made = inside(op.body)
        return super().visit_For(op.with_(body=made))


def check_cover(op: For, begin: Expr, end: Expr, parts: list[tuple[Expr, Expr]], analyzer: Analyzer) -> None:
    """Check that the parts of a loop are disjoint and cover it: each begins where the one before ends, the first and
    last at the loop's own ends, and none certainly runs backward.

    Raises :class:`TransformError`, which would be a mistake of this pass.
    """
    joined = all(a[1] is b[0] for a, b in itertools.pairwise(parts))
    ends = parts[0][0] is begin and parts[-1][1] is end
    backward = any(analyzer.can_prove(build.lt(high, low)) for low, high in parts)
    if not joined or not ends or backward:
        text = ", ".join(f"[{low}, {high})" for low, high in parts)
        raise TransformError(
            f"the parts {text} of loop {op.loop_var.name!r} do not cover [{begin}, {end}) exactly once", span=op.span
        )


class LoopPartition(FuncPass):
    """A loop is cut where conditions on its variable change: before, between and after, the part between without them.

    Conditions are those marked ``T.likely``, and in a loop annotated ``pragma_loop_partition_hint`` (or under such an
    attribute) those of all ifs and selections. Each that is affine in the variable (sums, products and floor divisions
    by constants) is solved for it, variables of inner loops at their worst; where it holds for an interval, it is
    true in the middle part, and the others keep it, or lose it where it never holds in them. The parts are cut again
    by other conditions, and inner loops likewise. The ends are clamped where their order is not proved, so that the
    parts are disjoint and cover the loop for every value of its symbols, which is checked.

    Loops of constant extents are cut only if hinted or with ``partition_const_loop``; parts of extent one lose their
    loop unless ``no_unroll_loop_with_extent_one``; ``unroll_loop_with_partition_hint_no_interval`` marks a hinted loop
    with conditions that cannot cut it for unrolling. A loop over threads gets a branch instead. A loop with a break of its
    own, around an allreduce, or (over threads) around a barrier stays whole, and so does one that would add more than
    500 statements to its function (more to a
    larger one): a warning names it. All marks are gone afterwards.

    Needs buffers in their final form (FlattenBuffer); stands before VectorizeLoop and UnrollLoop. Raises nothing.

    >>> from tirlower.script import parse
    >>> print(LoopPartition()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((64,), "int32"), n: T.int32):
    ...     for i in T.serial(16, annotations={"pragma_loop_partition_hint": 1}):
    ...         for j in range(4):
    ...             if T.likely(i * 4 + j < n):
    ...                 A[i * 4 + j] = j
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((64,), "int32"), n: T.int32):
        for i, j in T.grid(T.max(T.min(n // 4, 16), 0), 4):
            A[i * 4 + j] = j
        for i, j in T.grid(16 - T.max(T.min(n // 4, 16), 0), 4):
            if (i + T.max(T.min(n // 4, 16), 0)) * 4 + j < n:
                A[(i + T.max(T.min(n // 4, 16), 0)) * 4 + j] = j
    """

    name = "tir.LoopPartition"
    needs = (Fact.VECTOR_LOOPS, Fact.DIVISIONS, Fact.PLAIN_EXPRESSIONS, Fact.UNMARKED, Fact.UNORDERED)
    breaks = (Fact.SINGLE_STATEMENTS,)
    partition_const_loop: bool = False
    no_unroll_loop_with_extent_one: bool = False
    unroll_loop_with_partition_hint_no_interval: bool = False

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Cut the loops of a function."""
        needed = _Needed()
        needed.visit(func.body)
        if not needed.found:
            return func
        return func.with_body(_Cleaner().visit(_Partitioner(func, self).visit(func.body)))
