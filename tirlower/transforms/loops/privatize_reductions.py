"""PrivatizeReductions: parallel and vectorized loops get partial results for the reductions that they carry.

Each lane of a vectorized loop, and each of a fixed number of contiguous chunks of a parallel one, accumulates into
memory of its own that starts at the operation's identity; the partial results are combined by halves, or in the order of
chunks. The result thus depends on the program alone, not on threads; for floats it is a reassociated sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from tirlower import poly
from tirlower.diagnostics import Label, LegalityError
from tirlower.ir import build
from tirlower.ir.annotations import REDUCTION, UNCHECKED
from tirlower.ir.buffer import Buffer, Range
from tirlower.ir.expr import Expr, IntImm, Var, const
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.functor import Kept
from tirlower.ir.query import statements
from tirlower.ir.splice import as_scope, jumps_out, returns
from tirlower.ir.stmt import AllocBuffer, AllocConst, Bind, BufferStore, DeclBuffer, For, ForKind, Seq, Stmt
from tirlower.rewrite.base import Fact, ModulePass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.fact_mutator import FactMutator, stated_fact
from tirlower.rewrite.options import option
from tirlower.rewrite.reductions.init import InitNest, finished, init_nest, opaque_blocks
from tirlower.rewrite.reductions.interleaved import chains_of, interleaved
from tirlower.rewrite.reductions.partials import (
    ChunkPartials,
    Dim,
    LanePartials,
    Part,
    Redirect,
    accumulated_region,
    partial_bytes,
)
from tirlower.rewrite.reductions.updates import ORIGIN, Accumulator, find_accumulators, mentions, refuse

__all__ = ["PrivatizeReductions"]


@dataclass(frozen=True)
class _Plan:
    """The data variables of the accumulators whose reduction a loop carries; None for at most one iteration."""

    data: tuple[Var, ...] | None


def _annotated(func: PrimFunc) -> list[For]:
    loops = (op for op in statements(func.body) if isinstance(op, For) and op.annotations.get(REDUCTION))
    return [loop for loop in loops if loop.kind in (ForKind.PARALLEL, ForKind.VECTORIZED)]


def _plan(loop: For, scop: poly.Scop, checked: bool) -> _Plan:
    """What a loop carries. Raises :class:`LegalityError` where it carries something else, or nothing."""
    if isinstance(loop.extent, IntImm) and loop.extent.value <= 1:
        return _Plan(None)
    carried: dict[Var, None] = {}
    for place in (each for each in scop.loops if each.node is loop):
        if checked and UNCHECKED not in loop.annotations:
            ask = poly.is_parallel if loop.kind is ForKind.PARALLEL else poly.is_vectorizable
            verdict = ask(scop, place, reductions=True)
            if not verdict.proved:
                what = f"the {loop.kind.value} loop {loop.loop_var.name!r} carries more than reductions"
                raise verdict.error(what, ORIGIN)
        carried.update(dict.fromkeys(r.buffer.data for r in poly.carried_reductions(scop, place)))
    if not carried and any(_keeps_its_element(statement, loop) for statement in scop.statements):
        return _Plan(None)  # no two iterations ever run
    if not carried:
        raise LegalityError(
            f"the {loop.kind.value} loop {loop.loop_var.name!r} is annotated {REDUCTION!r}, but carries no reduction",
            origin=ORIGIN,
            labels=[Label(loop.span, "annotated here")] if loop.span is not None else [],
            help="remove the annotation: its iterations update no element in common",
        )
    return _Plan(tuple(carried))


def _keeps_its_element(statement: poly.Statement, loop: For) -> bool:
    """Whether a statement is an update of an element that is the same in each iteration of a loop."""
    node = statement.node
    return (
        statement.reduction is not None
        and isinstance(node, BufferStore)
        and any(place.node is loop for place in statement.loops)
        and not any(mentions(index, loop.loop_var) for index in node.indices)
    )


class _Privatizer(FactMutator):
    """Rewrites the annotated loops of a function, outer ones first.

    ``pending`` are the partial results of vectorized loops within the statement at hand, which may live around a
    larger statement; who visits a statement by :meth:`visit` gets them settled around it.
    """

    def __init__(self, func: PrimFunc, plans: dict[Var, _Plan], max_chunks: int, max_bytes: int) -> None:
        super().__init__(func)
        self.plans = plans
        self.max_chunks = max_chunks
        self.max_bytes = max_bytes
        self.moved: dict[Var, Var] = {}
        self.pending: list[LanePartials] = []

    # -- where partial results live ----------------------------------------------------------------------------------

    def gather(self, op: Stmt) -> tuple[Stmt, list[LanePartials]]:
        """A rewritten statement, and the partial results that are still to be settled around it."""
        saved, self.pending = self.pending, []
        new = super().visit(op)
        left, self.pending = self.pending, saved
        return new, left

    def visit(self, op: Kept) -> Kept:
        if isinstance(op, Expr):
            return op
        if not isinstance(op, Stmt):
            return super().visit(op)
        return self.settle(*self.gather(op))

    def settle(self, stmt: Stmt, partials: Sequence[LanePartials]) -> Stmt:
        """A statement with partial results around it."""
        for partial in partials:
            stmt = partial.around(stmt, self.analyzer)
        return stmt

    def visit_Seq(self, op: Seq) -> Stmt:
        with ExitStack() as facts:
            done: list[Stmt] = []
            left: list[tuple[int, LanePartials]] = []
            for at, stmt in enumerate(op.stmts):
                new, partials = self.gather(stmt)
                done.append(new)
                left += [(at, partial) for partial in partials]
                self.note_binding(new)
                fact = stated_fact(new)
                if fact is not None:
                    facts.enter_context(self.holding(fact))
            if left:
                bound = any(returns(stmt) for stmt in done)
                leaves = [not bound and self._leaves_seq(partial, at, done) for at, partial in left]
                for (at, partial), leave in zip(left, _agreed([partial for _, partial in left], leaves), strict=True):
                    if leave:
                        self.pending.append(partial)
                    else:
                        done[at] = partial.around(done[at], self.analyzer)
            changed = any(a is not b for a, b in zip(done, op.stmts, strict=True))
            return op.with_(stmts=tuple(done)) if changed else op

    @staticmethod
    def _leaves_seq(partial: LanePartials, at: int, done: Sequence[Stmt]) -> bool:
        """Whether what stands beside a statement leaves its accumulators and what sets them alone."""
        declared = {var for stmt in done[:at] for var in _declares(stmt)}
        if declared & partial.needs or any(mentions(stmt, data) for stmt in done for data in partial.data):
            return False
        reads = partial.init.reads if partial.init is not None else ()
        return not any(mentions(stmt, data) for stmt in done[:at] for data in reads)

    def visit_For(self, op: For) -> Stmt:
        plan = self.plans.get(op.loop_var)
        if plan is not None and _is_annotated(op):
            if plan.data is None:
                return self.visit_For(op.with_(annotations=_without(op)))
            data = [self.moved.get(var, var) for var in plan.data]
            return self.parallel(op, data) if op.kind is ForKind.PARALLEL else self.vectorized(op, data)
        if op.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
            return super().visit_For(op)
        with self.in_loop(op.loop_var, op.min, op.extent):
            body, left = self.gather(op.body)
        # Outside of the loop it is no fact that it runs at all.
        outside = [None if returns(body) else partial.past(op, self.analyzer) for partial in left]
        leaves = [moved is not None and not any(mentions(body, data) for data in moved.data) for moved in outside]
        stay: list[LanePartials] = []
        leaving: list[LanePartials] = []
        for partial, moved, leave in zip(left, outside, _agreed(left, leaves), strict=True):
            if leave and moved is not None:
                leaving.append(moved)
            else:
                stay.append(partial)
        chains = 1 if stay else chains_of(op, body, leaving)
        if chains > 1:
            several, leaving = interleaved(op, body, leaving, chains, self.analyzer)
        self.pending += leaving
        if chains > 1:
            return several
        if stay:
            with self.in_loop(op.loop_var, op.min, op.extent):
                body = self.settle(body, stay)
        return op.with_(body=body)

    # -- loops ---------------------------------------------------------------------------------------------------------

    def prepare(self, op: For, data: list[Var]) -> tuple[For, list[Accumulator], InitNest | None]:
        """The loop with opaque blocks, its accumulators, and what sets them before it."""
        if jumps_out(op.body) or returns(op.body):
            refuse(op, "an iteration may leave it early", "compute a flag and test it after the loop")
        init = init_nest(op, data, self.analyzer)
        opaque = op.with_(annotations=_without(op), body=opaque_blocks(op.body, data))
        return opaque, find_accumulators(opaque, data), init

    def region(self, acc: Accumulator, op: For, copies: int) -> tuple[Dim, ...]:
        """What a partial result holds. Raises :class:`LegalityError` where that is too much."""
        dims = tuple(accumulated_region(acc, op, self.analyzer))
        size = partial_bytes(acc, dims)
        if size > self.max_bytes:
            name = acc.buffer.name
            refuse(
                op,
                f"each of {copies} partial results of {name!r} takes {size} bytes, more than {self.max_bytes}",
                f"update {name!r} by atomic operations, accumulate into a part of it at a time, "
                f'or raise the limit: PassContext(config={{"{ORIGIN}": {{"max_partial_bytes": {size}}}}})',
            )
        return dims

    def vectorized(self, op: For, data: list[Var]) -> Stmt:
        """Lanes accumulate side by side, in the last dimension of the partial results."""
        if not isinstance(op.extent, IntImm):
            refuse(
                op,
                f"its extent {op.extent} is not a constant",
                "split the loop by a constant and vectorize the inner part",
            )
        lanes = op.extent.value
        with self.in_loop(op.loop_var, op.min, op.extent):
            op = op.with_(body=self.visit(op.body))
        op, accs, init = self.prepare(op, data)
        lane = self.analyzer.simplify(build.sub(op.loop_var, op.min))
        parts = []
        for acc in accs:
            dims = self.region(acc, op, lanes)
            shape = (*(const(dim.size) for dim in dims if not dim.single), const(lanes))
            parts.append(Part(acc, dims, Buffer(f"{acc.buffer.name}_lanes", shape, acc.buffer.dtype, scope="local")))
        targets = {part.acc.buffer.data: (part.buffer, part.dims, lambda offsets: (*offsets, lane)) for part in parts}
        self.pending.append(LanePartials(tuple(parts), lanes, op.loop_var.dtype, init))
        return op.with_(body=Redirect(targets, self.analyzer).visit(op.body))

    def parallel(self, op: For, data: list[Var]) -> Stmt:
        """Chunks of iterations accumulate each into a row of the partial results."""
        op, accs, init = self.prepare(op, data)
        dtype = op.loop_var.dtype
        most = min(op.extent.value, self.max_chunks) if isinstance(op.extent, IntImm) else self.max_chunks
        name = op.loop_var.name
        chunk = Var(f"{name}_chunk", dtype)
        before: list[Stmt] = []
        # At least one chunk, if an empty one: the chunk size is a quotient by their number.
        wanted = build.max_(build.min_(op.extent, const(most, dtype)), const(1, dtype))
        count = self._named(before, f"{name}_chunks", wanted, Range(const(1, dtype), const(most, dtype)))
        size = self._named(before, f"{name}_size", build.floordiv(op.extent, count))
        rest = self._named(
            before, f"{name}_rest", build.floormod(op.extent, count), Range(const(0, dtype), const(most, dtype))
        )
        parts = [ChunkPartials(acc, self.region(acc, op, most), most, chunk) for acc in accs]
        targets = {part.acc.buffer.data: (part.target, part.dims, part.place) for part in parts}
        body = Redirect(targets, self.analyzer).visit(op.body)
        saved = dict(self.moved)
        for old in [*self.moved, *targets]:
            new = self.moved.get(old, old)
            if new in targets:
                self.moved[old] = targets[new][0].data
        with self.in_loop(chunk, const(0, dtype), count):
            first = build.add(build.mul(chunk, size), build.min_(chunk, rest))
            longer = build.select(build.lt(chunk, rest), const(1, dtype), const(0, dtype))
            start = self.analyzer.simplify(build.add(op.min, first))
            extent = self.analyzer.simplify(build.add(size, longer))
            run = self.visit(For(op.loop_var, start, extent, ForKind.SERIAL, None, {}, body, span=op.span))
        self.moved = saved  # what comes behind the loop accumulates into the memory that it names
        task = Seq(
            (
                *(AllocBuffer(part.own) for part in parts if part.own is not None),
                *(part.fill() for part in parts),
                as_scope(run),
                *(part.publish(part.own) for part in parts if part.own is not None),
            )
        )
        loop = For(chunk, const(0, dtype), count, ForKind.PARALLEL, None, op.annotations, task, span=op.span)
        return Seq(
            (
                *before,
                *(AllocBuffer(part.rows) for part in parts),
                *([] if init is None else [finished(init, self.analyzer)]),
                loop,
                *(part.combine(count, self.analyzer) for part in parts),
            )
        )

    def _named(self, before: list[Stmt], name: str, value: Expr, known: Range | None = None) -> Expr:
        """A value by a name, of which a range is known, where it is no constant."""
        value = self.analyzer.simplify(value)
        if isinstance(value, IntImm):
            return value
        var = Var(name, value.dtype)
        if known is not None:
            self.analyzer.bind(var, known)
        before.append(Bind(var, value))
        return var


def _agreed(units: Sequence[LanePartials], leaves: Sequence[bool]) -> list[bool]:
    """Which partial results leave: those of one accumulator all do or none does, so that they are combined at one place."""
    agreed = list(leaves)
    changed = True
    while changed:
        changed = False
        for i, unit in enumerate(units):
            for j, other in enumerate(units[:i]):
                if not (unit.data & other.data) or not (agreed[i] or agreed[j]):
                    continue
                if not (agreed[i] and agreed[j] and unit.mixes_with(other)):
                    agreed[i] = agreed[j] = False
                    changed = True
    return agreed


def _declares(stmt: Stmt) -> tuple[Var, ...]:
    if isinstance(stmt, Bind):
        return (stmt.var,)
    if isinstance(stmt, (AllocBuffer, AllocConst, DeclBuffer)):
        return (stmt.buffer.data,)
    return ()


def _is_annotated(loop: For) -> bool:
    return loop.kind in (ForKind.PARALLEL, ForKind.VECTORIZED) and bool(loop.annotations.get(REDUCTION))


def _without(loop: For) -> dict[str, object]:
    return {key: value for key, value in loop.annotations.items() if key != REDUCTION}


class PrivatizeReductions(ModulePass):
    """Reductions of the parallel and vectorized loops annotated ``tir.reduction`` get private partial results.

    Each lane of a vectorized loop, and each of up to ``max_chunks`` contiguous chunks of a parallel loop, accumulates
    from the operation's identity; lanes are combined by halves and chunks in order, which depends on the extent alone
    and not on the number of threads. Integers give the same bits as the serial loop; float sums and
    products are reassociated. The lanes' partial results live around the serial loops over the vectorized one where
    nothing else touches the accumulator; of floats, a short serial loop directly around has four chains of them, one for
    each of four iterations. A block's init moves ahead of the loop.

    Sums, products, minima, maxima, logical and bitwise operations are known, on single elements and on regions of up
    to ``max_partial_bytes``. Raises :class:`LegalityError` for a loop that carries something else, or no reduction; for
    an accumulator that is read in the loop or too large; for a vectorized loop whose extent is not constant.
    The annotation is ours, not TIR's. Needs nothing, and runs best first, while blocks have their inits.

    >>> from tirlower.script import parse
    >>> print(PrivatizeReductions()(parse('''
    ... @T.prim_func
    ... def total(A: T.Buffer((64,), "float32"), S: T.Buffer((1,), "float32")):
    ...     for i in range(16):
    ...         for l in T.vectorized(4, annotations={"tir.reduction": True}):
    ...             S[0] = S[0] + A[i * 4 + l]
    ... ''')).script())
    @T.prim_func
    def total(A: T.Buffer((64,), "float32"), S: T.Buffer((1,), "float32")):
        S_lanes = T.alloc_buffer((16,), scope="local")
        for lane in T.vectorized(16):
            S_lanes[lane] = T.float32(-0.0)
        for i in range(4):
            for chain in T.unroll(4):
                for l in T.vectorized(4):
                    S_lanes[chain * 4 + l] = S_lanes[chain * 4 + l] + A[(i * 4 + chain) * 4 + l]
        for lane in T.vectorized(8):
            S_lanes[lane] = S_lanes[lane] + S_lanes[lane + 8]
        for lane in T.vectorized(4):
            S_lanes[lane] = S_lanes[lane] + S_lanes[lane + 4]
        for lane in T.vectorized(2):
            S_lanes[lane] = S_lanes[lane] + S_lanes[lane + 2]
        S_lanes[0] = S_lanes[0] + S_lanes[1]
        S[0] = S[0] + S_lanes[0]
    """

    name = ORIGIN
    stage = Stage.ANY
    needs = (Fact.INITS,)
    max_chunks: int = option(default=64, least=1)
    max_partial_bytes: int = 1 << 18

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Rewrite the annotated loops of every function."""
        return mod.map_functions(lambda func: self._rewrite(func, mod, ctx))

    def _rewrite(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        loops = _annotated(func)
        if not loops:
            return func
        scop = poly.extract(func, mod)
        checked = ctx.option("tir.legality") != "off"
        plans = {loop.loop_var: _plan(loop, scop, checked) for loop in loops}
        worker = _Privatizer(func, plans, self.max_chunks, self.max_partial_bytes)
        return func.with_body(worker.visit(func.body))
