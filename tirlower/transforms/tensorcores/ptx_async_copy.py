"""InjectPTXAsyncCopy: asynchronous copies from global to shared memory become cp.async instructions."""

from __future__ import annotations

from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.annotations import ASYNC_COMMIT, ASYNC_SCOPE, ASYNC_WAIT, ASYNC_WAIT_COUNT
from tirlower.ir.dtype import INT32
from tirlower.ir.expr import Call, IntImm, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator
from tirlower.ir.op import Op
from tirlower.ir.query import each
from tirlower.ir.splice import as_scope
from tirlower.ir.stmt import AttrStmt, BufferStore, Evaluate, For, ForKind, Seq, Stmt
from tirlower.machine.target import Target
from tirlower.rewrite.async_copies import CopyFinder
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.fact_mutator import FactMutator

__all__ = ["InjectPTXAsyncCopy"]

ORIGIN = "tir.InjectPTXAsyncCopy"
_CP_ASYNC = Op.get("tir.ptx_cp_async")


def _copies_already(kernel: Stmt) -> bool:
    """Whether a kernel has cp.async instructions that were written by hand."""
    return any(call.op is _CP_ASYNC for call in each(Call, kernel))


class _Waits(FactMutator, StmtMutator):
    """Puts the calls in place of the attributes of a kernel; without any instruction, drops the attributes."""

    def __init__(self, func: PrimFunc, copies: dict[Stmt, tuple[Stmt, ...]], instructions: bool) -> None:
        super().__init__(func)
        self.copies = copies
        self.instructions = instructions

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        made = self.copies.get(op)
        if made is None:
            return op
        return made[0] if len(made) == 1 else Seq(made)

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        if op.key == ASYNC_SCOPE:
            return as_scope(self.visit(op.body))
        if op.key == ASYNC_COMMIT:
            body = as_scope(self.visit(op.body))
            if not self.instructions:
                return body
            return Seq((*_stmts(body), Evaluate(build.call("tir.ptx_commit_group"), span=op.span)))
        if op.key != ASYNC_WAIT:
            return self.generic(op)
        inner = op.body
        if not isinstance(inner, AttrStmt) or inner.key != ASYNC_WAIT_COUNT:
            raise TransformError(
                f"a wait for the asynchronous queue {op.value} does not say for how many groups",
                origin=ORIGIN,
                span=op.span,
                help=f"put the attribute {ASYNC_WAIT_COUNT!r} inside {ASYNC_WAIT!r}",
            )
        body = as_scope(self.visit(inner.body))
        if not self.instructions:
            return body
        wait = Evaluate(build.call("tir.ptx_wait_group", self._count(inner)), span=op.span)
        return Seq((wait, *_stmts(body)))

    def _count(self, op: AttrStmt) -> IntImm:
        """How many groups may be in flight, as a constant: to wait for more of them than is needed is always right."""
        count = self.analyzer.simplify(op.value)
        least = count.value if isinstance(count, IntImm) else self.analyzer.const_int_bound(count).min_value
        made = const(max(least, 0), INT32)
        assert isinstance(made, IntImm)
        return made


def _stmts(body: Stmt) -> tuple[Stmt, ...]:
    """The statements to put into a Seq with others; one with declarations stays a scope of its own."""
    plain = isinstance(body, Seq) and as_scope(body) is body and not _declares(body)
    return body.stmts if plain and isinstance(body, Seq) else (body,)


def _declares(body: Seq) -> bool:
    return any(as_scope(stmt) is not stmt for stmt in body.stmts)


class _Kernels(StmtMutator):
    """Each outermost loop over threads on its own."""

    def __init__(self, func: PrimFunc) -> None:
        self.func = func

    def visit_For(self, op: For) -> Stmt:
        if op.kind is not ForKind.THREAD_BINDING:
            return self.generic(op)
        finder = CopyFinder(self.func)
        finder.visit(op)
        if not finder.asynchronous:
            return op
        return _Waits(self.func, finder.made, bool(finder.made) or _copies_already(op)).visit(op)


class InjectPTXAsyncCopy(FuncPass):
    """Asynchronous copies from global to shared memory become ``cp.async`` instructions.

    Inside the attribute ``async_scope`` of a kernel, a store to shared memory of a value loaded from global memory
    becomes ``T.ptx_cp_async``: of a scalar or of contiguous lanes, of the same type; also under ``T.if_then_else``
    with zero for the other case, whose condition becomes the predicate. An instruction copies 4, 8 or 16 bytes, the
    most to which both addresses are known to be aligned; a longer vector becomes several. ``async_commit_queue_scope``
    becomes ``T.ptx_commit_group`` behind its body, and ``async_wait_queue_scope`` with ``async_wait_inflight_count``
    becomes ``T.ptx_wait_group`` in front of its body. The count is a constant (where it is not, the least that it can
    be); a thread has one queue, so a wait for one of several queues may wait for more than it needs.

    A copy stays a load and a store where it is no such copy, where its alignment is not known (rows of a symbolic
    length, elements of 2 bytes), and where instructions without an order could be told from statements in order:
    another statement of the scope uses its target or writes its source, or two copies may write one element. A kernel
    in which no copy is left for the instruction loses the attributes: its copies are complete when they are made.

    Functions for a target that is no GPU, and code outside loops over threads, are left as they are. Needs
    FlattenBuffer and VectorizeLoop, and ThreadSync, which puts the barriers behind the waits; stands before
    MergeSharedMemoryAllocations. Raises :class:`TransformError` for a wait without its count. TIR's checks neither
    alignment nor other uses, takes one vector of 4, 8 or 16 bytes, and leaves the attributes to code generation, which
    refuses a second queue and a count that is no constant.

    >>> from tirlower.script import parse
    >>> print(InjectPTXAsyncCopy()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((128,), "float16"), B: T.Buffer((128,), "float16")):
    ...     for tx in T.thread_binding(16, thread="threadIdx.x"):
    ...         s = T.alloc_buffer((128,), "float16", scope="shared")
    ...         with T.attr(0, "async_commit_queue_scope", 0):
    ...             with T.attr(0, "async_scope", 1):
    ...                 s[tx * 8:tx * 8 + 8] = A[tx * 8:tx * 8 + 8]
    ...         with T.attr(0, "async_wait_queue_scope", 0):
    ...             with T.attr(0, "async_wait_inflight_count", 0):
    ...                 T.tvm_storage_sync("shared")
    ...                 B[tx * 8:tx * 8 + 8] = s[120 - tx * 8:120 - tx * 8 + 8]
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((128,), "float16"), B: T.Buffer((128,), "float16")):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            s = T.alloc_buffer((128,), "float16", scope="shared")
            T.ptx_cp_async("float16", s.data, tx * 8, A.data, tx * 8, 16)
            T.ptx_commit_group("void")
            T.ptx_wait_group("void", 0)
            T.tvm_storage_sync("shared")
            B[tx * 8:tx * 8 + 8] = s[120 - tx * 8:120 - tx * 8 + 8]
    """

    name = ORIGIN
    stage = Stage.FLAT_1D
    breaks = (Fact.MARKED_COPIES,)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Rewrite the asynchronous copies of a function's kernels."""
        bound = func.attrs.get("target")
        if bound is not None and not Target(bound).is_gpu:
            return func
        return func.with_body(_Kernels(func).visit(func.body))
