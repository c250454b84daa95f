"""ManifestSharedMemoryLocalStage: marked copies into shared memory go through registers."""

from __future__ import annotations

from typing import NoReturn

from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, BufferRegion, Range
from tirlower.ir.expr import BufferLoad, Expr, IntImm, Var, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator, Visitor
from tirlower.ir.refresh import refresh_binders
from tirlower.ir.stmt import AllocBuffer, Block, BufferStore, For, ForKind, Seq, Stmt
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.loop_nests import nest, nested

__all__ = ["ManifestSharedMemoryLocalStage"]

ORIGIN = "tir.ManifestSharedMemoryLocalStage"
LOCAL_STAGE = "tir.manifest_shared_memory_local_stage"
"""Block annotation: the block's store into shared memory is to pass through registers."""
_RELAXED = (ForKind.SERIAL, ForKind.VECTORIZED, ForKind.UNROLLED)


def _is_marked(op: Block) -> bool:
    value = op.annotations.get(LOCAL_STAGE)
    return value is not None and getattr(value, "value", value) not in (0, False)


def _refuse(op: Block, why: str, help: str, loop: For | None = None) -> NoReturn:
    raise TransformError(
        f"the block {op.name!r} gets no local stage: {why}",
        origin=ORIGIN,
        span=op.span if loop is None else loop.span,
        help=help,
    )


class _Reads(Visitor):
    """The data variables that an expression reads."""

    def __init__(self) -> None:
        self.found: set[Var] = set()

    def visit_buffer(self, buffer: Buffer) -> None:
        self.found.add(buffer.data)


class _Stager(StmtMutator):
    """Puts a loop nest that fills registers in front of each nest around a marked block."""

    def visit_For(self, op: For) -> Stmt:
        return self._alone(op)

    def visit_Block(self, op: Block) -> Stmt:
        return self._alone(op)

    def _alone(self, op: For | Block) -> Stmt:
        """A statement that stands in no sequence."""
        staged = self._staged(op)
        return self.generic(op) if staged is None else Seq(staged)

    def visit_Seq(self, op: Seq) -> Stmt:
        done: list[Stmt] = []
        allocs: list[AllocBuffer] = []
        heads = 0
        for stmt in op.stmts:
            staged = self._staged(stmt)
            if staged is None:
                done.append(self.visit(stmt))
            else:
                allocs.append(staged[0])
                done += staged[1:]
            if isinstance(stmt, AllocBuffer) and heads == len(done) - 1:
                heads += 1
        if not allocs and all(a is b for a, b in zip(done, op.stmts, strict=True)):
            return op
        # With the other allocations, so that a pipeline of this sequence makes versions of it.
        return op.with_(stmts=(*done[:heads], *allocs, *done[heads:]))

    def _staged(self, stmt: Stmt) -> tuple[AllocBuffer, Stmt, Stmt] | None:
        """The registers, the nest that fills them, and the nest that stores them; None around no marked block."""
        loops, body = nested(stmt, lambda loop: loop.kind is not ForKind.THREAD_BINDING)
        if not isinstance(body, Block) or not _is_marked(body):
            return None
        return self._split(loops, body)

    def _split(self, loops: list[For], block: Block) -> tuple[AllocBuffer, Stmt, Stmt]:
        store = block.body
        if block.iters or block.init is not None or block.match_buffers:
            _refuse(
                block, "it has iterators, an init or matched buffers", "run LowerInitBlock and ConvertBlocksToOpaque"
            )
        if not isinstance(store, BufferStore):
            _refuse(block, f"its body is no store, but a {type(store).__name__}", "mark the innermost block of a copy")
        target = store.buffer
        if target.scope not in ("shared", "shared.dyn"):
            _refuse(block, f"it writes {target.name!r} in {target.scope!r} memory", "mark copies into shared memory")
        reads = _Reads()
        reads.visit(store.value)
        if target.data in reads.found:
            _refuse(block, f"it reads {target.name!r}, which it writes", "mark a block that copies from another buffer")
        variables = {loop.loop_var for loop in loops}
        for loop in loops:
            if loop.kind not in _RELAXED:
                kind = f"the loop {loop.loop_var.name!r} around it is {loop.kind.value}"
                _refuse(block, kind, "copy in serial, unrolled or vectorized loops", loop)
            if not isinstance(loop.extent, IntImm):
                size = f"the extent of the loop {loop.loop_var.name!r} around it is no constant: {loop.extent}"
                _refuse(block, size, "registers need a constant size; guard the copy with a predicate", loop)
        shape: list[Expr] = [loop.extent for loop in loops]
        indices: list[Expr] = [build.sub(loop.loop_var, loop.min) for loop in loops]
        if not variables:
            shape, indices = [const(1)], [const(0)]
        # An empty loop needs no memory, but a buffer has some.
        shape = [extent if getattr(extent, "value", 1) > 0 else const(1, extent.dtype) for extent in shape]
        local = Buffer(f"{target.name}_local", tuple(shape), target.dtype, scope="local")
        where = BufferRegion(local, tuple(Range(index, const(1, index.dtype)) for index in indices))
        kept = {key: value for key, value in block.annotations.items() if key != LOCAL_STAGE}
        fill = Block(
            f"{block.name}_local" if block.name else "", (), block.predicate, block.reads, (where,), None, (), {},
            BufferStore(local, store.value, tuple(indices), store.predicate, span=store.span), span=block.span,
        )  # fmt: skip
        load = BufferLoad(local, tuple(indices), store.predicate)
        rest = block.with_(reads=(where,), annotations=kept, body=store.with_(value=load))
        return AllocBuffer(local), refresh_binders(nest(loops, fill)), nest(loops, rest)


class ManifestSharedMemoryLocalStage(FuncPass):
    """Marked copies into shared memory go through registers, filled in a loop nest of their own in front.

    A block annotated ``tir.manifest_shared_memory_local_stage`` stores one element into shared memory. The value goes
    to a buffer in ``local`` memory, with one element for each iteration of the loops around the block (up to the
    nearest sequence, condition, thread loop or block), in a copy of these loops; the block then stores the element of
    that buffer. So the loads from global memory and the stores to shared memory are statements apart, to which
    InjectSoftwarePipeline can give different stages. The block's predicate holds for both, and its annotation is gone.

    Needs ConvertBlocksToOpaque; stands before InjectSoftwarePipeline. Raises :class:`TransformError` for a marked
    block with iterators or whose body is no store, that writes other than shared memory or what it reads, and inside a
    parallel loop or one whose extent is no constant. TIR's drops the predicate for the loads, ignores where a loop
    starts, and refuses unrolled loops and allocations that are not in the block around the loops.

    >>> from tirlower.script import parse
    >>> print(ManifestSharedMemoryLocalStage()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    ...     for tx in T.thread_binding(16, thread="threadIdx.x"):
    ...         s = T.alloc_buffer((64,), "float32", scope="shared")
    ...         for i in range(4):
    ...             with T.block("copy"):
    ...                 T.reads(A[i * 16 + tx])
    ...                 T.writes(s[i * 16 + tx])
    ...                 T.block_attr({"tir.manifest_shared_memory_local_stage": 1})
    ...                 s[i * 16 + tx] = A[i * 16 + tx]
    ...         T.tvm_storage_sync("shared")
    ...         for i in range(4):
    ...             B[i * 16 + tx] = s[63 - i * 16 - tx]
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            s = T.alloc_buffer((64,), scope="shared")
            s_local = T.alloc_buffer((4,), scope="local")
            for i in range(4):
                with T.block("copy_local"):
                    T.reads(A[i * 16 + tx])
                    T.writes(s_local[i])
                    s_local[i] = A[i * 16 + tx]
            for i in range(4):
                with T.block("copy"):
                    T.reads(s_local[i])
                    T.writes(s[i * 16 + tx])
                    s[i * 16 + tx] = s_local[i]
            T.tvm_storage_sync("shared")
            for i in range(4):
                B[i * 16 + tx] = s[63 - i * 16 - tx]
    """

    name = ORIGIN
    stage = Stage.OPAQUE
    needs = (Fact.WHOLE_BUFFERS,)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Add the local stages of a function's marked blocks."""
        return func.with_body(_Stager().visit(func.body))
