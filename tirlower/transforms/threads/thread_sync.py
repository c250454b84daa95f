"""ThreadSync: barriers between accesses of different threads that depend on each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from tirlower.analysis.barriers import BarrierPlanner, is_barrier
from tirlower.analysis.device_calls import DeviceCalls, ordered_by_object
from tirlower.analysis.thread_conflicts import Meetings
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.annotations import ASYNC_WAIT, ASYNC_WAIT_COUNT
from tirlower.ir.dtype import INT32
from tirlower.ir.expr import BufferLoad, Expr, StringImm, Var, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator
from tirlower.ir.node import Node
from tirlower.ir.op import Op
from tirlower.ir.query import each, has, nodes
from tirlower.ir.stmt import AllocBuffer, AttrStmt, BufferStore, Evaluate, For, ForKind, Seq, Stmt
from tirlower.machine.target import Target
from tirlower.poly import Access, extract
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.options import option

__all__ = ["ThreadSync", "has_thread_loops"]

_FEW_STORES = 8
"""So many stores of one buffer, without a load, are asked about pair by pair; more are taken for the parts of a result."""
_KINIT = Op.get("tir.tvm_global_barrier_kinit")


def has_thread_loops(func: PrimFunc) -> bool:
    """Whether a function has loops over thread axes of a block."""
    return any(loop.kind is ForKind.THREAD_BINDING for loop in each(For, func.body))


def _touched(func: PrimFunc, scope: str) -> set[Var]:
    """The data variables of buffers of a storage scope that a function allocates or accesses."""
    used = (op.buffer for op in each((AllocBuffer, BufferStore, BufferLoad), func.body))
    return {buffer.data for buffer in (*func.buffers, *used) if buffer.scope == scope}


def _handed_on_in_global_memory(func: PrimFunc) -> set[Var]:
    """The data variables of global memory through which threads of a kernel may hand each other values.

    Those that a kernel both loads and stores, or stores in a few statements.
    """
    loads: set[Var] = set()
    stores: dict[Var, int] = {}
    for op in each((BufferStore, BufferLoad), func.body):
        if op.buffer.scope in ("", "global"):
            if op.__class__ is BufferStore:
                stores[op.buffer.data] = stores.get(op.buffer.data, 0) + 1
            else:
                loads.add(op.buffer.data)
    return {data for data, count in stores.items() if data in loads or 1 < count <= _FEW_STORES}


def _is_scattered(access: Access) -> bool:
    """Whether an access of global memory stands at an index that is loaded."""
    buffer, node = access.buffer, access.node
    indices = node.indices if isinstance(node, (BufferStore, BufferLoad)) else ()
    return buffer is not None and buffer.scope in ("", "global") and has(BufferLoad, *indices)


class _AfterWaits(StmtMutator):
    """A barrier behind each wait for asynchronous copies: what a thread has waited for, the others may then read."""

    def __init__(self, scope: str) -> None:
        self.scope = scope

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        if op.key != ASYNC_WAIT or not isinstance(op.body, AttrStmt) or op.body.key != ASYNC_WAIT_COUNT:
            return self.generic(op)
        count = op.body
        body = self.visit(count.body)
        first = body.stmts[0] if isinstance(body, Seq) and body.stmts else body
        if not is_barrier(first, self.scope):
            body = Seq((_sync(self.scope), *(body.stmts if isinstance(body, Seq) else (body,))))
        return op.with_(body=count.with_(body=body))


def _sync(scope: str, *more: Expr) -> Stmt:
    return Evaluate(build.call("tir.tvm_storage_sync", StringImm(scope), *more))


class _GridBarrier(StmtMutator):
    """Barriers of all blocks: their arguments by kernel, and what prepares them.

    A kernel with such barriers begins with ``tvm_global_barrier_kinit``, and its buffers that are handed on through
    them are volatile.
    """

    def __init__(self, written: set[Var], read: set[Var]) -> None:
        self.handed_on = sorted(written & read, key=lambda var: var.name)

    def visit_For(self, op: For) -> Stmt:
        if op.kind is not ForKind.THREAD_BINDING:
            return self.generic(op)
        axes: dict[str, For] = {}
        if not any(map(_is_placeholder, nodes(op))):
            return op
        for loop in each(For, op):
            if loop.kind is ForKind.THREAD_BINDING:
                axes.setdefault(str(loop.thread_tag), loop)
        lead: Expr = const(True, "bool")
        blocks: Expr = const(1, INT32)
        for tag, loop in axes.items():
            if tag.startswith("threadIdx"):
                lead = build.logical_and(lead, build.eq(loop.loop_var, loop.min))
            elif tag.startswith("blockIdx"):
                blocks = build.mul(blocks, build.cast(INT32, loop.extent))
        body = _Filler(lead, blocks).visit(op.body)
        for data in self.handed_on:
            body = AttrStmt(data, "volatile_scope", const(1, INT32), body)
        kinit = Evaluate(build.call("tir.tvm_global_barrier_kinit"))
        stmts = body.stmts if isinstance(body, Seq) else (body,)
        if stmts and isinstance(stmts[0], Evaluate) and getattr(stmts[0].value, "op", None) is _KINIT:
            return op.with_(body=body)
        return op.with_(body=Seq((kinit, *stmts)))


def _is_placeholder(node: Node) -> bool:
    return isinstance(node, Evaluate) and is_barrier(node, "global") and len(node.value.args) == 1  # type: ignore[attr-defined]


class _Filler(StmtMutator):
    def __init__(self, lead: Expr, blocks: Expr) -> None:
        self.arguments = (lead, blocks)

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        return _sync("global", *self.arguments) if _is_placeholder(op) else op


class ThreadSync(FuncPass):
    """Barriers are put between accesses of different threads that depend on each other.

    ``storage_scope`` is ``shared``, ``shared.dyn``, ``warp`` or ``global``: the memory whose accesses are ordered. Two
    accesses need a barrier between them where threads that share the memory may touch one element, and one of them
    writes: a thread that reads back what it wrote itself needs none. Loops count with the dependences that they carry,
    from any iteration to later ones; barriers that are there already count too, those of warps (``ptx_syncwarp``) between
    threads of one warp. Barriers stand as late as possible and
    there are as few of them as can be in each sequence and loop body; what cannot be decided gets one.

    A barrier is ``tvm_storage_sync(storage_scope)``; for ``global`` it is one of all blocks, ``(scope, whether this is the first
    thread of a block, number of blocks)``, in a kernel that begins with ``tvm_global_barrier_kinit`` and in which buffers that are
    written and read are volatile (``volatile_scope``). For ``shared``, a barrier follows each wait for
    asynchronous copies (``async_wait_queue_scope``). What ``ptx_cp_async`` wrote is handed on behind ``ptx_wait_group``: a
    barrier in front of the wait does not count. The writes of bulk copies are left to their barrier objects, whose waits
    also stand for barriers where threads of a block go ways of their own. Races within one statement, which no barrier
    can order, are left as they are, as are buffers whose accesses are all atomic.

    ``with_global`` (for ``shared``) orders global memory among the threads of a block too: what a kernel keeps there
    between two of its thread loops. The barrier is the same. Where none can stand, accesses at loaded indices, for which the
    loop's author vouched, are taken to be the thread's own.

    Stands behind LowerOpaqueBlock, before LowerThreadAllreduce. Raises :class:`TransformError` for a barrier that is
    needed inside a condition or loop which the threads of a block may pass differently.

    >>> from tirlower.script import parse
    >>> print(ThreadSync("shared")(parse('''
    ... @T.prim_func
    ... def reverse(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    ...     for tx in T.thread_binding(32, thread="threadIdx.x"):
    ...         s = T.alloc_buffer((32,), "float32", scope="shared")
    ...         s[tx] = A[tx]
    ...         s[tx] = s[tx] + 1.0
    ...         B[tx] = s[31 - tx]
    ... ''')).script())
    @T.prim_func
    def reverse(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            s = T.alloc_buffer((32,), scope="shared")
            s[tx] = A[tx]
            s[tx] = s[tx] + T.float32(1)
            T.tvm_storage_sync("shared")
            B[tx] = s[31 - tx]
    """

    name = "tir.ThreadSync"
    stage = Stage.FLAT
    needs = ("tir.LowerOpaqueBlock", Fact.WHOLE_PROGRAM, Fact.MARKED_COPIES)
    breaks = (Fact.UNORDERED,)
    storage_scope: Literal["shared", "shared.dyn", "warp", "global"] | None = option(default=None, kw_only=False)
    with_global: bool = False

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Put the barriers of one scope into a function."""
        scope = self.storage_scope
        if scope is None:
            raise TransformError(
                f"ThreadSync is given no storage_scope: {self.declared['storage_scope'].takes}",
                help='for example ThreadSync("shared")',
            )
        if not has_thread_loops(func):
            return func
        if scope == "shared":
            func = func.with_body(_AfterWaits(scope).visit(func.body))
        touched = _touched(func, scope)
        if scope == "shared" and self.with_global:
            touched |= _handed_on_in_global_memory(func)
        if not touched:
            return func
        calls = DeviceCalls(func.body)
        stated = func.with_body(calls.body)
        scop = extract(stated)
        size = _warp_size(func)
        meetings = Meetings(
            scop, stated, across=scope == "global", warp=size if scope == "warp" else None, warp_size=size
        )

        def wanted(access: Access) -> bool:
            return access.data in touched and not ordered_by_object(access)

        def planned(own: Callable[[Access], bool] | None = None) -> tuple[Stmt, int]:
            planner = BarrierPlanner(
                stated, scop, meetings, scope, wanted, lambda: _sync(scope), calls.copies, calls.waits, own
            )
            return planner.run(stated.body), planner.count

        try:
            body, count = planned()
        except TransformError:
            # Which elements loaded indices name is known to who vouched for the loop: where no barrier can stand, the
            # threads are taken to keep to elements of their own.
            if not any(wanted(access) and _is_scattered(access) for access in scop.accesses):
                raise
            body, count = planned(_is_scattered)
        if not count:
            return func
        body = calls.restored(body)
        if scope == "global":
            written = {access.data for access in scop.accesses if access.is_write and wanted(access)}
            read = {access.data for access in scop.accesses if not access.is_write and wanted(access)}
            body = _GridBarrier(written, read).visit(body)
        return func.with_body(body)


def _warp_size(func: PrimFunc) -> int:
    bound = func.attrs.get("target") or Target.current()
    return int(Target(bound).get("thread_warp_size", 32)) if bound is not None else 32
