"""InjectRollingBuffer: a marked buffer keeps what successive iterations share, in circular order."""

from __future__ import annotations

from tirlower.analysis.rolling_accesses import ORIGIN, ROLLING_BUFFER_SCOPE, is_rolling_mark
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, BufferRegion, Range
from tirlower.ir.expr import BufferLoad, Expr, Var, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Mutator
from tirlower.ir.stmt import AllocBuffer, AttrStmt, Block, BufferStore, For, IfThenElse, Seq, Stmt, seq
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.rolling_plan import Plan, Planner
from tirlower.rewrite.scalar_overflow import analyzer_of

__all__ = ["InjectRollingBuffer"]


class _Roller(Mutator):
    """Applies the plans."""

    def __init__(self, func: PrimFunc, plans: dict[Var, Plan]) -> None:
        self.plans = plans
        self.hoisted: dict[For, list[Plan]] = {}
        self.open: list[Plan] = []
        for plan in plans.values():
            self.hoisted.setdefault(plan.loop, []).append(plan)
        self.analyzer, _ = analyzer_of(func)

    def map_buffer(self, buffer: Buffer) -> Buffer:
        plan = self.plans.get(buffer.data)
        return buffer if plan is None else plan.new

    def map_attr(self, value: object) -> object:
        return self.map_buffer(value) if isinstance(value, Buffer) else value

    def _rolled(self, plan: Plan, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        made = list(indices)
        index = made[plan.axis]
        made[plan.axis] = build.floormod(index, const(plan.extent, index.dtype))
        return tuple(made)

    def visit_BufferLoad(self, op: BufferLoad) -> Expr:
        plan = self.plans.get(op.buffer.data)
        return op if plan is None else op.with_(indices=self._rolled(plan, op.indices))

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        plan = self.plans.get(op.buffer.data)
        made: BufferStore = self.generic(op)
        if plan is None:
            return made
        done: Stmt = made.with_(indices=self._rolled(plan, made.indices))
        for guard in reversed(plan.guards):
            loop = guard.loop
            first = build.lt(loop.loop_var, build.add(loop.min, const(1, loop.min.dtype)))
            place = self.analyzer.simplify(build.sub(op.indices[guard.axis], guard.base))
            fresh = build.ge(place, const(guard.overlap, place.dtype))
            done = IfThenElse(build.likely(build.logical_or(first, fresh)), done, span=op.span)
        return done

    def visit_BufferRegion(self, op: BufferRegion) -> BufferRegion:
        plan = self.plans.get(op.buffer.data)
        made: BufferRegion = self.generic(op)
        if plan is None:
            return made
        parts = list(made.region)
        parts[plan.axis] = Range.from_extent(plan.new.shape[plan.axis])
        return made.with_(region=tuple(parts))

    def visit_For(self, op: For) -> Stmt:
        plans = self.hoisted.get(op, [])
        self.open += plans
        made: Stmt = self.generic(op)
        del self.open[len(self.open) - len(plans) :]
        if not plans:
            return made
        return Seq((*[plan.alloc.op.with_(buffer=plan.new) for plan in plans], made))

    def visit_Seq(self, op: Seq) -> Stmt:
        made = [self.visit(stmt) for stmt in op.stmts if not self._moves(stmt)]
        if len(made) == len(op.stmts) and all(a is b for a, b in zip(made, op.stmts, strict=True)):
            return op
        return Seq(tuple(made))

    def _moves(self, stmt: Stmt) -> bool:
        return isinstance(stmt, AllocBuffer) and stmt.buffer.data in self.plans

    def visit_AllocBuffer(self, op: AllocBuffer) -> Stmt:
        return seq() if self._moves(op) else self.generic(op)

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        return self.visit(op.body) if is_rolling_mark(op) else self.generic(op)

    def visit_Block(self, op: Block) -> Stmt:
        crossing = [plan for plan in self.open if op in plan.alloc.path]
        made: Block = self.generic(op)
        notes = {key: value for key, value in made.annotations.items() if key != ROLLING_BUFFER_SCOPE}
        if len(notes) != len(made.annotations):
            made = made.with_(annotations=notes)
        whole = tuple(BufferRegion(p.new, tuple(Range.from_extent(e) for e in p.new.shape)) for p in crossing)
        return made.with_(reads=(*made.reads, *whole), writes=(*made.writes, *whole)) if whole else made


class InjectRollingBuffer(FuncPass):
    """A buffer marked ``rolling_buffer_scope`` keeps in circular order what successive iterations of a loop share.

    The mark is ``T.attr(B.data, "rolling_buffer_scope", True)`` (or ``B``) around the allocation or the statements that
    fill ``B``, or a block's annotation of that name, the position of the written buffer. ``B`` is allocated in loops, and
    accessed by the coordinates of the whole (before its allocation is compacted): the box that an iteration touches
    then moves with the loops' variables. The outermost serial loop that moves it along one axis by less than its extent is
    rolled over: the allocation moves in front of it, the axis shrinks to the box's extent, its indices are taken modulo
    that, and a store is left out unless it is the loop's first iteration or the element lies beyond the overlap:
    ``if likely(i < 1 or index - start >= overlap)``. Overlaps along other axes with inner loops guard the stores as well.

    Works on multi-dimensional buffers, without blocks or in blocks without iterators: after
    PlanAndUpdateBufferAllocationLocation and ConvertBlocksToOpaque, before CompactBufferAllocation and FlattenBuffer.
    Raises :class:`TransformError` where no loop has an overlap; and where leaving a store out might change a value: what
    is stored depends on more than its place, on memory that the loop changes, or on other elements of the buffer; where
    the pointer is used; and where the loop may be left early.

    >>> from tirlower.script import parse
    >>> print(InjectRollingBuffer()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((12, 8), "float32"), C: T.Buffer((10, 8), "float32")):
    ...     for i in range(10):
    ...         B = T.alloc_buffer((12, 8), "float32")
    ...         with T.attr(B.data, "rolling_buffer_scope", True):
    ...             for k, j in T.grid(3, 8):
    ...                 B[i + k, j] = A[i + k, j] * T.float32(2)
    ...         for j in range(8):
    ...             C[i, j] = B[i, j] + B[i + 1, j] + B[i + 2, j]
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((12, 8), "float32"), C: T.Buffer((10, 8), "float32")):
        B = T.alloc_buffer((3, 8))
        for i in range(10):
            for k, j in T.grid(3, 8):
                if T.likely(i < 1 or k >= 2):
                    B[(i + k) % 3, j] = A[i + k, j] * T.float32(2)
            for j in range(8):
                C[i, j] = B[i % 3, j] + B[(i + 1) % 3, j] + B[(i + 2) % 3, j]
    """

    name = ORIGIN
    stage = Stage.OPAQUE
    needs = (Fact.WHOLE_BUFFERS,)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Roll the marked buffers of a function."""
        plans = Planner(func).plans()
        return func.with_body(_Roller(func, plans).visit(func.body)) if plans else func
