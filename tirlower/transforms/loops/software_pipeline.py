"""InjectSoftwarePipeline: the statements of a loop's body, in stages, run for different iterations at one time."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import NoReturn

from tirlower.analysis.pipeline_plan import (
    ASYNC,
    ORDER,
    ORIGIN,
    STAGE,
    PipelineStage,
    check_dependences,
    read_annotations,
    summarize,
    versions_of,
)
from tirlower.analysis.purity import side_effect
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.annotations import ASYNC_COMMIT, ASYNC_SCOPE, ASYNC_WAIT, ASYNC_WAIT_COUNT
from tirlower.ir.buffer import Buffer, BufferRegion, Range
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Mutator, StmtMutator, substitute
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import mentions, statements
from tirlower.ir.refresh import copy_var, refresh_binders
from tirlower.ir.regions import block_access_regions
from tirlower.ir.splice import DECLARATIONS, as_scope, jumps_out
from tirlower.ir.stmt import (
    AllocBuffer,
    AllocConst,
    AttrStmt,
    Bind,
    Block,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    Seq,
    Stmt,
    seq,
)
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.double_buffer_marks import DOUBLE_BUFFER_SCOPE, doubled_buffer
from tirlower.rewrite.fact_mutator import FactMutator
from tirlower.rewrite.loop_nests import bounds_once
from tirlower.rewrite.pipeline_async import Instance, Queues

__all__ = ["InjectSoftwarePipeline"]

_ACCESS_PTR = Op.get("tir.tvm_access_ptr")


class _Versioned(Mutator):
    """Accesses go to the copy of the iteration at hand: a leading index ``(index - min) % versions``."""

    def __init__(self, buffers: dict[Buffer, Buffer], version: Expr, loop: For, whole_regions: bool) -> None:
        self.buffers = buffers
        self.data = {buffer.data: buffer for buffer in buffers}
        self.version = version
        self.loop = loop
        self.whole_regions = whole_regions
        """Whether the regions of blocks name all copies, as TIR has it where stages are skipped or more than two."""

    def at(self, buffer: Buffer) -> Expr:
        return build.floormod(self.version, const_of(self.buffers[buffer].shape[0], self.version))

    def visit_BufferLoad(self, op: BufferLoad) -> Expr:
        new = self.buffers.get(op.buffer)
        return op if new is None else op.with_(buffer=new, indices=(self.at(op.buffer), *op.indices))

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        op = self.generic(op)
        new = self.buffers.get(op.buffer)
        return op if new is None else op.with_(buffer=new, indices=(self.at(op.buffer), *op.indices))

    def visit_BufferRegion(self, op: BufferRegion) -> BufferRegion:
        op = self.generic(op)
        new = self.buffers.get(op.buffer)
        if new is None:
            return op
        at = self.at(op.buffer)
        copies = Range(const(0, at.dtype), const_of(new.shape[0], at))
        return op.with_(
            buffer=new, region=(copies if self.whole_regions else Range(at, const(1, at.dtype)), *op.region)
        )

    def enter_Call(self, op: Call) -> Expr | None:
        if op.op is not _ACCESS_PTR or op.args[1] not in self.data:
            return None
        old = self.data[op.args[1]]
        new = self.buffers[old]
        size: Expr = const(1, self.version.dtype)
        for extent in old.shape:
            size = build.mul(size, extent)
        if old.strides:
            size = new.strides[0]
        kind, _, offset, extent, mask = op.args
        offset = build.add(self.visit_expr(offset), build.mul(self.at(old), size))
        return op.with_(args=(kind, new.data, offset, self.visit_expr(extent), mask))

    def visit_Var(self, op: Var) -> Var:
        if isinstance(op.type, PointerType) and op in self.data:
            self._refuse(self.data[op], "its pointer is passed on")
        return op

    def visit_DeclBuffer(self, op: DeclBuffer) -> Stmt:
        if op.buffer.data in self.data:
            self._refuse(self.data[op.buffer.data], f"{op.buffer.name!r} is a view of it")
        return op

    def _refuse(self, buffer: Buffer, why: str) -> NoReturn:
        raise TransformError(
            f"the buffer {buffer.name!r} of the pipelined loop {self.loop.loop_var.name!r} needs several copies, but {why}",
            origin=ORIGIN,
            span=self.loop.span,
            help="access it by its indices or with access_ptr, or put all its uses into one stage",
        )


def const_of(value: Expr, like: Expr) -> Expr:
    """A constant in the dtype of another expression."""
    assert isinstance(value, IntImm)
    return const(value.value, like.dtype)


class _Undoubled(StmtMutator):
    """Drops the marks of buffers that have their copies."""

    def __init__(self, doubled: set[Buffer]) -> None:
        self.doubled = doubled

    def visit_Block(self, op: Block) -> Stmt:
        made: Block = self.generic(op)
        if doubled_buffer(op) not in self.doubled:
            return made
        return made.with_(annotations={key: v for key, v in made.annotations.items() if key != DOUBLE_BUFFER_SCOPE})


class _Pipeline:
    """One loop: its statements in execution order, its buffers with their copies."""

    def __init__(self, loop: For, owner: _Injector) -> None:
        self.loop = loop
        self.owner = owner
        self.analyzer = owner.analyzer
        self.allocs: list[AllocBuffer | AllocConst] = []
        self.annotations: dict[str, object] = {}
        self.in_blocks = False
        stmts = self._statements()
        doubled = self._doubled(stmts)
        stages, orders, async_stages = read_annotations(loop, len(stmts))
        self.stage_numbers = stages
        self.buffers: dict[Buffer, Buffer] = {}
        with owner.in_loop(loop.loop_var, loop.min, loop.extent):
            made = [
                PipelineStage(
                    stmt, at, stages[at], orders[at], summarize(stmt, self.analyzer), stages[at] in async_stages
                )
                for at, stmt in enumerate(stmts)
            ]
            own = {alloc.buffer for alloc in self.allocs}
            check_dependences(loop, made, own, self.analyzer)
            versions = {}
            for alloc in self.allocs:
                least = 2 if alloc.buffer in doubled else 1
                count = versions[alloc.buffer.data] = max(versions_of(alloc.buffer, made, self.analyzer), least)
                if count > 1:
                    copies = self.buffers[alloc.buffer] = _copies(alloc.buffer, count)
                    owner.data[copies.data] = copies
        if doubled:
            made = [replace(stage, stmt=_Undoubled(doubled).visit(stage.stmt)) for stage in made]
        self.stages = sorted(made, key=lambda stage: stage.order)
        self.depth = max(stages, default=0)
        self.queues = Queues(self.stages, loop, versions)

    def _statements(self) -> list[Stmt]:
        body = self.loop.body
        if isinstance(body, Block):
            if body.iters or not is_const_int(body.predicate, 1) or body.match_buffers or body.init is not None:
                self._refuse(
                    "its block has iterators, a predicate, an init or matched buffers",
                    "run LowerInitBlock, ConvertBlocksToOpaque and LowerMatchBuffer first",
                )
            self.in_blocks = True
            self.annotations = body.annotations
            body = body.body
        if not isinstance(body, Seq):
            self._refuse("its body is not a sequence of statements", "a pipeline needs at least two statements")
        if self.loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
            self._refuse(
                f"its iterations run in no order ({self.loop.kind.value})",
                "pipeline a serial loop inside or outside it",
            )
        if jumps_out(body):
            self._refuse("it is left early", "a pipeline runs all of its iterations")
        return self._flatten(body, {}, inner=False)

    def _doubled(self, stmts: list[Stmt]) -> set[Buffer]:
        """The buffers allocated here that blocks ask to have twice: by their annotation ``double_buffer_scope``."""
        own = {alloc.buffer for alloc in self.allocs}
        marked = (op for stmt in stmts for op in statements(stmt) if isinstance(op, Block))
        return {buffer for op in marked if (buffer := doubled_buffer(op)) in own and buffer is not None}

    def _flatten(self, body: Seq, values: dict[Var, Expr], inner: bool) -> list[Stmt]:
        """The statements, those of plain blocks among them included; bindings are put in for their variables."""
        found: list[Stmt] = []
        for stmt in body.stmts:
            stmt = substitute(stmt, values) if values else stmt
            if isinstance(stmt, (AllocBuffer, AllocConst)):
                self._check_allocation(stmt.buffer)
                self.allocs.append(stmt)
            elif isinstance(stmt, Bind):
                if side_effect(stmt.value) is not Purity.PURE:
                    self._refuse(
                        f"its body binds {stmt.var.name!r} to a value read from memory",
                        "store the value in a buffer, or bind it inside the statement that uses it",
                    )
                values[stmt.var] = stmt.value
            elif isinstance(stmt, DeclBuffer):
                self._refuse(f"its body declares the view {stmt.buffer.name!r}", "declare it outside the loop")
            else:
                self.in_blocks = self.in_blocks or isinstance(stmt, Block)
                group = None if inner else _grouped(stmt)
                found += [stmt] if group is None else self._flatten(group, dict(values), inner=True)
        return found

    def _check_allocation(self, buffer: Buffer) -> None:
        """It moves in front of the loop: its layout may not depend on the iteration."""
        parts = (*buffer.shape, *buffer.strides, buffer.elem_offset)
        if any(mentions(part, (self.loop.loop_var,)) for part in parts):
            self._refuse(f"the size of {buffer.name!r} depends on it", "allocate the largest size needed")

    def _refuse(self, what: str, help: str) -> NoReturn:
        raise TransformError(
            f"the loop {self.loop.loop_var.name!r} cannot be pipelined: {what}",
            origin=ORIGIN,
            span=self.loop.span,
            help=help,
        )

    def emit(self) -> Stmt:
        """Prologue, body and epilogue, with the allocations in front."""
        low, extent = self.loop.min, self.loop.extent
        depth = const(self.depth, low.dtype)
        filled = build.add(low, depth)
        end = build.add(low, extent)
        full = self.analyzer.can_prove(build.ge(extent, depth))
        parts = [
            self._part(low, depth, True, None),
            self._part(filled, build.sub(extent, depth), False, None),
            # A loop shorter than the pipeline ends before it is full: no time comes twice.
            self._part(end, depth, True, None if full else filled),
        ]
        allocs = [a.with_(buffer=self.buffers.get(a.buffer, a.buffer)) for a in self.allocs]
        body = Seq((*allocs, *parts))
        return self._block(body, self.annotations) if self.in_blocks else body

    def _part(self, start: Expr, extent: Expr, ends: bool, not_before: Expr | None) -> Stmt:
        """The times from ``start`` on, ``extent`` of them; ``ends`` are the prologue and epilogue."""
        loop, analyzer = self.loop, self.analyzer
        extent = analyzer.simplify(extent)
        if analyzer.can_prove(build.le(extent, 0)):
            return self._nothing()
        if analyzer.can_prove_equal(extent, 1):
            stmts = self._at(analyzer.simplify(start), None, not_before)
            return self._block(_joined(stmts), {}) if stmts else self._nothing()
        var = copy_var(loop.loop_var)
        # What holds of its range is a fact inside this part only.
        with self.owner.in_loop(var, loop.min, extent):
            stmts = self._at(analyzer.simplify(build.add(var, build.sub(start, loop.min))), var, not_before)
        if not stmts:
            return self._nothing()
        kept = {key: v for key, v in loop.annotations.items() if key not in (STAGE, ORDER, ASYNC)}
        kind = ForKind.UNROLLED if ends and isinstance(extent, IntImm) else loop.kind
        return self._block(
            loop.with_(loop_var=var, extent=extent, kind=kind, annotations=kept, body=_joined(stmts)), {}
        )

    def _nothing(self) -> Stmt:
        return self._block(Evaluate(const(0)), {})

    def _at(self, time: Expr, var: Var | None, not_before: Expr | None) -> list[Stmt]:
        """What runs at one time, in order; ``var`` is the loop around it, if there is one."""
        present: list[Instance] = []
        for instance in self.stages:
            index = self.analyzer.simplify(build.sub(time, instance.stage))
            inside = self._inside(time, index, not_before)
            if not is_const_int(inside, 0):
                present.append(Instance(instance, index, inside))
        self.queues.place_waits(present, var, self.analyzer)
        done: list[Stmt] = []
        for group in self.queues.commit_groups(present):
            bodies = [self._instance(instance) for instance in group]
            if group[0].of.is_async:
                queue = const(group[0].of.stage)
                bodies = [AttrStmt(0, ASYNC_COMMIT, queue, _joined(bodies))]
            done.append(self._guarded(bodies[0], group[0].inside))
        return done

    def _inside(self, time: Expr, index: Expr, not_before: Expr | None) -> Expr:
        """Whether an iteration exists (and this time was not dealt with before)."""
        low = self.loop.min
        # From when the pipeline is full every stage has begun.
        began = build.le(low, index) if not_before is None else build.ge(time, not_before)
        conditions = [began, build.lt(index, build.add(low, self.loop.extent))]
        result: Expr = const(True, "bool")
        for condition in conditions:
            result = build.logical_and(result, self.analyzer.simplify(condition))
        return result

    def _instance(self, instance: Instance) -> Stmt:
        """A statement of one iteration, whether that exists or not; asynchronous ones without the block around them."""
        loop = self.loop
        version = build.sub(loop.loop_var, loop.min)
        stmt = instance.of.stmt
        if self.buffers:
            stmt = _Versioned(self.buffers, version, loop, max(self.stage_numbers) != 1).visit(stmt)
        stmt = refresh_binders(stmt, {loop.loop_var: instance.index})
        block = stmt if isinstance(stmt, Block) and not stmt.iters and is_const_int(stmt.predicate, 1) else None
        if block is not None and (block.init is not None or block.match_buffers):
            block = None
        if not instance.of.is_async and not instance.waits:
            return stmt
        # The attributes stand inside the statement's block, so that its regions and annotations cover them.
        if block is not None and instance.of.is_async and block.annotations:
            block = None
        body = stmt if block is None else block.body
        if instance.of.is_async:
            body = AttrStmt(0, ASYNC_SCOPE, const(1), body)
        for queue, count in reversed(instance.waits):
            body = AttrStmt(0, ASYNC_WAIT_COUNT, count, body)
            body = AttrStmt(0, ASYNC_WAIT, const(queue), body)
        return body if block is None or instance.of.is_async else block.with_(body=body)

    def _guarded(self, stmt: Stmt, inside: Expr) -> Stmt:
        """A statement that runs where its iteration exists."""
        if self.in_blocks:
            made = self._block(stmt, {})
            return made if is_const_int(inside, 1) else made.with_(predicate=inside)
        return stmt if is_const_int(inside, 1) else IfThenElse(inside, stmt, None)

    def _block(self, body: Stmt, annotations: dict[str, object]) -> Stmt:
        """An opaque block, its regions those of its body; the body itself where that is one, or where there are none."""
        if not self.in_blocks:
            return body
        if isinstance(body, Block) and not body.iters and is_const_int(body.predicate, 1) and not annotations:
            return body
        bare = Block("", (), const(True, "bool"), (), (), None, (), annotations, body)
        regions = block_access_regions(bare, self.owner.data)
        return bare.with_(reads=regions.reads, writes=regions.writes)


def _joined(stmts: list[Stmt]) -> Stmt:
    return stmts[0] if len(stmts) == 1 else Seq(tuple(stmts))


def _grouped(stmt: Stmt) -> Seq | None:
    """The statements of a block that only groups them: at least two, declarations apart."""
    if not isinstance(stmt, Block) or stmt.iters or stmt.match_buffers or stmt.init is not None:
        return None
    if not is_const_int(stmt.predicate, 1) or not isinstance(stmt.body, Seq):
        return None
    return stmt.body if sum(not isinstance(child, DECLARATIONS) for child in stmt.body.stmts) > 1 else None


def _copies(buffer: Buffer, count: int) -> Buffer:
    """A buffer with room for several versions of another one."""
    dtype = buffer.shape[0].dtype if buffer.shape else "int32"
    strides: tuple[Expr, ...] = ()
    if buffer.strides:
        # Beyond the last element, whichever dimension has the largest stride.
        spans = [build.mul(stride, extent) for stride, extent in zip(buffer.strides, buffer.shape, strict=True)]
        strides = (reduce(build.max_, spans), *buffer.strides)
    return Buffer(
        buffer.name,
        (const(count, dtype), *buffer.shape),
        buffer.dtype,
        Var(buffer.data.name, buffer.data.type),
        strides,
        buffer.elem_offset,
        buffer.scope,
        buffer.align,
        buffer.offset_factor,
        tuple(separator + 1 for separator in buffer.axis_separators),
        buffer.buffer_type,
    )


class _Injector(FactMutator, StmtMutator):
    def __init__(self, func: PrimFunc) -> None:
        super().__init__(func)
        self.data: dict[Var, Buffer] = {buffer.data: buffer for buffer in func.buffers}

    def visit_AllocBuffer(self, op: AllocBuffer) -> Stmt:
        self.data[op.buffer.data] = op.buffer
        return op

    def visit_For(self, op: For) -> Stmt:
        made = super().visit_For(op)  # inner pipelines first: they become statements of outer ones
        if not isinstance(made, For) or not {STAGE, ORDER} & made.annotations.keys():
            return made
        named, once = bounds_once(made)
        emitted = _Pipeline(once, self).emit()
        return as_scope(seq(*named, emitted)) if named else emitted


class InjectSoftwarePipeline(FuncPass):
    """A loop annotated with stages and an order becomes prologue, body and epilogue of a software pipeline.

    ``software_pipeline_stage`` and ``software_pipeline_order`` have a number for each statement of the body: at time
    ``t`` the statement of stage ``s`` runs for iteration ``t - s``, the statements of one time in the order given. A
    buffer allocated in the body, and written in one stage and used in a later one, gets as many copies as there are
    stages between them plus one, a leading dimension indexed by ``iteration % copies``; one that a block's annotation
    ``double_buffer_scope`` names, by its position among the regions written, at least two. Statements whose stage is in
    ``software_pipeline_async_stages`` stand in ``async_scope`` and ``async_commit_queue_scope``; the statements that
    use what they write wait for their queue (``async_wait_queue_scope``, ``async_wait_inflight_count``).
    Where the first iterations begin, and the last ones end, statements of missing iterations are left out, by predicates
    where the extent is not constant; also a loop shorter than the pipeline runs each statement once per iteration.

    An iteration's use of a queue waits until no commit that it needs is under way; statements at one time share a wait
    until the queue commits again. What an asynchronous stage writes must be used by another statement of the body:
    nothing waits for it after the loop.

    Bodies are a sequence, in an opaque block or not; plain blocks among its statements that hold sequences (those of
    inner pipelines too, which come first) are taken apart, once; bindings that read no memory are put in for their
    variables. Needs LowerInitBlock, ConvertBlocksToOpaque and LowerMatchBuffer; stands before LowerOpaqueBlock. Raises
    :class:`TransformError` where an annotation is missing, of a wrong length or repeats an order, where the body is no
    sequence, binds what it reads, declares a view or a buffer whose size the iteration decides, where a buffer needs
    copies but its bare pointer is used, and where a dependence (within an iteration or between iterations, found by the
    boxes of elements accessed) would be turned round; different buffers are taken not to overlap.

    The source of the idea is software pipelining by modulo scheduling (Lam, 1988) with modulo variable expansion.

    >>> from tirlower.script import parse
    >>> print(InjectSoftwarePipeline()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    ...     for i in T.serial(16, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}):
    ...         B = T.alloc_buffer((1,))
    ...         B[0] = A[i] * T.float32(2)
    ...         C[i] = B[0] + T.float32(1)
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
        B = T.alloc_buffer((2, 1))
        B[0, 0] = A[0] * T.float32(2)
        for i in range(15):
            B[(i + 1) % 2, 0] = A[i + 1] * T.float32(2)
            C[i] = B[i % 2, 0] + T.float32(1)
        C[15] = B[1, 0] + T.float32(1)
    """

    name = "tir.InjectSoftwarePipeline"
    stage = Stage.OPAQUE
    needs = (Fact.FRAGMENT_BUFFERS,)
    breaks = (Fact.ONE_STAGE,)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Pipeline the annotated loops of a function."""
        return func.with_body(_Injector(func).visit(func.body))
