"""LowerAsyncDMA: asynchronous copies of contiguous memory become calls of a DMA engine."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.arith import detect_linear_equation
from tirlower.ir import build
from tirlower.ir.annotations import ASYNC_COMMIT, ASYNC_SCOPE, ASYNC_WAIT, ASYNC_WAIT_COUNT
from tirlower.ir.dtype import INT32
from tirlower.ir.expr import BufferLoad, Expr, IntImm, Ramp, Var, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator
from tirlower.ir.query import mentions
from tirlower.ir.splice import as_scope
from tirlower.ir.stmt import AttrStmt, BufferStore, Evaluate, For, ForKind, IfThenElse, Seq, Stmt
from tirlower.rewrite.base import FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.fact_mutator import FactMutator

__all__ = ["LowerAsyncDMA"]

_KINDS = (ForKind.SERIAL, ForKind.UNROLLED, ForKind.PARALLEL, ForKind.VECTORIZED)


def _queue(op: AttrStmt) -> int | None:
    return op.value.value if isinstance(op.value, IntImm) else None


class _Finder(FactMutator, StmtMutator):
    """Finds the copies of each asynchronous group (rewriting nothing)."""

    def __init__(self, func: PrimFunc, bypass: bool) -> None:
        super().__init__(func)
        self.bypass = bypass
        self.queue: int | None = None
        self.copies: dict[Stmt, Stmt] = {}
        self.in_group = 0
        self.groups: dict[AttrStmt, int] = {}
        self.whole: dict[int, bool] = {}
        """Each queue, and whether every group of it has a copy."""

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        queue = _queue(op) if op.key == ASYNC_COMMIT else None
        inner = op.body
        if queue is None or self.queue is not None:
            return self.generic(op)
        if isinstance(inner, AttrStmt) and inner.key == ASYNC_SCOPE:
            self.queue, self.in_group = queue, 0
            self.visit(inner.body)
            self.groups[op] = self.in_group
            self.queue = None
        self.whole[queue] = self.whole.get(queue, True) and self.groups.get(op, 0) > 0
        return op

    def visit_For(self, op: For) -> Stmt:
        copy = self._copy(op) if self.queue is not None else None
        if copy is None:
            return super().visit_For(op)
        self.copies[op] = copy
        self.in_group += 1
        return op

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        """A store of a vector is a copy too."""
        if self.queue is not None and op.value.dtype.is_vector:
            copy = self._copy(op)
            if copy is not None:
                self.copies[op] = copy
                self.in_group += 1
        return op

    def _copy(self, op: Stmt) -> Stmt | None:
        """The call for loops that copy a contiguous run of elements in any order, or None for anything else."""
        loops: list[For] = []
        body: object = op
        while isinstance(body, (For, Seq)):
            if isinstance(body, For):
                if body.kind not in _KINDS:
                    return None
                loops.append(body)
                body = body.body
            elif len(body.stmts) == 1:
                body = body.stmts[0]
            else:
                return None
        if not isinstance(body, BufferStore) or not isinstance(body.value, BufferLoad):
            return None
        load = body.value
        source, target = load.buffer, body.buffer
        plain = body.predicate is None and load.predicate is None and source.data is not target.data
        plain = plain and source.dtype is target.dtype and not (source.strides or target.strides)
        if not plain or len(load.indices) != 1 or len(body.indices) != 1:
            return None
        lanes, into, start = 1, body.indices[0], load.indices[0]
        if isinstance(into, Ramp) and isinstance(start, Ramp):
            ones = (into.stride, start.stride)
            if not all(isinstance(one, IntImm) and one.value == 1 for one in ones) or not isinstance(into.lanes, int):
                return None
            lanes, into, start = into.lanes, into.base, start.base
        if not (into.dtype.is_scalar and start.dtype.is_scalar and into.dtype is start.dtype):
            return None
        with_loops = self._contiguous(loops, lanes, into, start)
        if with_loops is None:
            return None
        count, into, start, runs = with_loops
        size = build.mul(count, const(target.dtype.bytes * target.dtype.lanes, count.dtype))
        call = build.call(
            "tir.dma_copy",
            const(self.queue or 0, INT32),
            build.call("tir.address_of", BufferLoad(target, (into,))),
            build.call("tir.address_of", BufferLoad(source, (start,))),
            self.analyzer.simplify(size),
            const(int(self.bypass), INT32),
        )
        made: Stmt = Evaluate(call, span=op.span)
        return made if runs is None else IfThenElse(runs, made, None)

    def _contiguous(
        self, loops: Sequence[For], lanes: int, into: Expr, start: Expr
    ) -> tuple[Expr, Expr, Expr, Expr | None] | None:
        """Elements copied, where from and to, and when there are any (None: always); None where there are gaps."""
        variables: list[Var] = [loop.loop_var for loop in loops]
        there = detect_linear_equation(into, variables, self.analyzer)
        here = detect_linear_equation(start, variables, self.analyzer)
        if not there or not here:
            return None
        dtype = into.dtype
        waiting = []
        runs: Expr | None = None
        for loop, a, b in zip(loops, there, here, strict=False):
            # Bounds that depend on an outer loop make no box.
            if mentions(loop.extent, variables) or mentions(loop.min, variables):
                return None
            one = self.analyzer.can_prove_equal(loop.extent, const(1, loop.extent.dtype))
            if not one and not self.analyzer.can_prove_equal(a, b):
                return None
            if not one:
                waiting.append((loop, a))
            some = build.gt(loop.extent, const(0, loop.extent.dtype))
            if not self.analyzer.can_prove(some):
                runs = some if runs is None else build.logical_and(runs, some)
        count: Expr = const(lanes, dtype)
        while waiting:
            found = next((pair for pair in waiting if self.analyzer.can_prove_equal(pair[1], count)), None)
            if found is None:
                return None
            waiting.remove(found)
            count = build.mul(count, build.cast(dtype, found[0].extent))
        ends = []
        for parts in (there, here):
            base = parts[-1]
            for loop, factor in zip(loops, parts, strict=False):
                base = build.add(base, build.mul(factor, build.cast(dtype, loop.min)))
            ends.append(self.analyzer.simplify(base))
        return count, ends[0], ends[1], runs


class _Lowerer(StmtMutator):
    """Puts the calls in place: of copies, of groups, and of waits for them."""

    def __init__(self, found: _Finder) -> None:
        self.found = found

    def _copies(self, queue: int | None) -> bool:
        return queue is not None and self.found.whole.get(queue, False)

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        queue = _queue(op)
        if op.key == ASYNC_WAIT and self._copies(queue):
            inner = op.body
            if isinstance(inner, AttrStmt) and inner.key == ASYNC_WAIT_COUNT:
                wait = build.call("tir.dma_wait", const(queue or 0, INT32), build.cast(INT32, inner.value))
                return Seq((Evaluate(wait, span=op.span), as_scope(self.visit(inner.body))))
        if op.key == ASYNC_COMMIT and self._copies(queue) and op in self.found.groups:
            assert isinstance(op.body, AttrStmt)
            body = as_scope(_Copies(self.found).visit(op.body.body))
            if isinstance(self.found.copies.get(op.body.body), Evaluate):
                return body  # one copy is a group by itself
            number = const(queue or 0, INT32)
            first = Evaluate(build.call("tir.dma_start_group", number), span=op.span)
            return Seq((first, body, Evaluate(build.call("tir.dma_end_group", number), span=op.span)))
        return self.generic(op)


class _Copies(_Lowerer):
    """Inside a group."""

    def visit_For(self, op: For) -> Stmt:
        return self.found.copies.get(op) or self.generic(op)

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        return self.found.copies.get(op, op)


class LowerAsyncDMA(FuncPass):
    """Asynchronous copies of contiguous memory become calls of a DMA engine.

    In a region ``async_commit_queue_scope`` around an ``async_scope``, as InjectSoftwarePipeline makes them, each loop nest
    (or vector store) that copies a contiguous run of elements between two allocations becomes ``dma_copy(queue, destination,
    source, bytes, bypass cache)``, guarded by its extents where they may be 0. A region that is not exactly one copy
    stands between ``dma_start_group`` and ``dma_end_group``, so that waits count regions. A region ``async_wait_queue_scope`` with its ``async_wait_inflight_count`` becomes
    ``dma_wait(queue, groups that may be in flight)`` in front of its body. Any other statement of such a region runs in order
    on the processor; a queue in which some region has no copy at all stays as it is.

    The configuration ``tir.experimental_dma_bypass_cache`` (or ``tir.dma_bypass_cache``) sets the last argument. On flat
    buffers, after InjectSoftwarePipeline and FlattenBuffer; raises nothing. As TIR's, which takes only loops without
    vectors, and counts a copy in a loop as one. On hosts without an engine the interpreter and the code generator copy at once.

    >>> from tirlower.script import parse
    >>> print(LowerAsyncDMA()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    ...     for k in range(4):
    ...         with T.attr(0, "async_commit_queue_scope", 0):
    ...             with T.attr(0, "async_scope", 1):
    ...                 for i in range(16):
    ...                     B[k * 16 + i] = A[k * 16 + i]
    ...         with T.attr(0, "async_wait_queue_scope", 0):
    ...             with T.attr(0, "async_wait_inflight_count", 0):
    ...                 B[k * 16] = B[k * 16] + T.float32(1)
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for k in range(4):
            T.dma_copy(0, T.address_of(B[k * 16]), T.address_of(A[k * 16]), 64, 0)
            T.dma_wait(0, 0)
            B[k * 16] = B[k * 16] + T.float32(1)
    """

    name = "tir.LowerAsyncDMA"
    stage = Stage.FLAT_1D

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Rewrite the copies of a function."""
        bypass = any(ctx.option(f"tir.{key}", False) for key in ("experimental_dma_bypass_cache", "dma_bypass_cache"))
        found = _Finder(func, bypass)
        found.visit(func.body)
        if not found.copies:
            return func
        return func.with_body(_Lowerer(found).visit(func.body))
