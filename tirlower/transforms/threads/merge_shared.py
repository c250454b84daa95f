"""MergeSharedMemoryAllocations: the shared memory of a kernel as one allocation, parts of it reused when they are free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

from tirlower.analysis.barriers import BarrierPlanner
from tirlower.analysis.thread_conflicts import Meetings
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.annotations import ASYNC_SCOPE
from tirlower.ir.buffer import Buffer, decl_buffer
from tirlower.ir.digest import expr_deep_equal
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Broadcast, BufferLoad, Call, Expr, IntImm, Ramp, StringImm, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Mutator, StmtMutator, Visitor
from tirlower.ir.node import Node
from tirlower.ir.op import Op
from tirlower.ir.query import each, has, mentions, nodes, statements
from tirlower.ir.stmt import (
    AllocBuffer,
    AttrStmt,
    Bind,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    Seq,
    Stmt,
    While,
)
from tirlower.poly import Access, extract
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext

__all__ = ["MergeSharedMemoryAllocations"]

_ACCESS_PTR = Op.get("tir.tvm_access_ptr")
# Instructions that read or write shared memory after they were issued, and what waits for all of them: with the
# argument 0, or at the barrier that the instruction names.
_IN_FLIGHT = {
    Op.get("tir.ptx_cp_async"): Op.get("tir.ptx_wait_group"),
    Op.get("tir.ptx_cp_async_bulk"): Op.get("tir.ptx_wait_barrier"),
    Op.get("tir.ptx_cp_async_bulk_tensor"): Op.get("tir.ptx_wait_barrier"),
    Op.get("tir.ptx_cp_async_bulk_tensor_store"): Op.get("tir.ptx_bulk_wait_group"),
    Op.get("tir.ptx_wgmma"): Op.get("tir.ptx_wgmma_wait_group"),
}
_WAITS = frozenset(_IN_FLIGHT.values())
_BARRIER_AT = {Op.get("tir.ptx_cp_async_bulk"): 5, Op.get("tir.ptx_cp_async_bulk_tensor"): 4}
_LEAST_ALIGNMENT = 16
_ACCESSES = (BufferLoad, BufferStore, DeclBuffer)
_NAMES = {"shared.dyn": "buf_dyn_shmem", "shared": "buf_shmem"}


@dataclass(eq=False)
class _Part:
    """An allocation: its size (in bytes, or None where it is not constant), when it is in use, and its place."""

    op: AllocBuffer
    depth: int
    begin: int
    end: int
    size: int | None
    used: bool = False
    offset: Expr = field(default_factory=lambda: const(0))

    @property
    def data(self) -> Var:
        return self.op.buffer.data

    @property
    def element(self) -> int:
        return _element_bytes(self.op.buffer)

    @property
    def start(self) -> int:
        """Where it begins, in bytes; what shares memory has a constant place."""
        assert isinstance(self.offset, IntImm)
        return self.offset.value

    @property
    def alignment(self) -> int:
        return max(_LEAST_ALIGNMENT, self.element, self.op.buffer.align)

    def meets(self, other: _Part) -> bool:
        """Whether both are in use at a time."""
        return self.begin <= other.end and other.begin <= self.end


def _element_bytes(buffer: Buffer) -> int:
    return -(-buffer.dtype.bits // 8) * buffer.dtype.lanes


def _elements(buffer: Buffer) -> Expr:
    """The elements of memory that a buffer takes."""
    if buffer.strides:
        last: Expr = const(1, buffer.shape[0].dtype)
        for extent, stride in zip(buffer.shape, buffer.strides, strict=True):
            last = build.add(last, build.mul(build.sub(extent, 1), stride))
    else:
        last = const(1, buffer.shape[0].dtype) if buffer.shape else const(1)
        for extent in buffer.shape:
            last = build.mul(last, extent)
    return build.add(last, buffer.elem_offset)


@dataclass(frozen=True, eq=False)
class _Flight:
    """An asynchronous instruction, and the loops and branches that it stands in."""

    call: Call
    op: Op
    path: tuple[int, ...]

    def lands(self, wait: Call, path: tuple[int, ...]) -> bool:
        """Whether it is certainly over behind a wait that comes later in the text.

        The wait must run whenever the instruction does: it stands in no loop or branch that the instruction does not.
        """
        if wait.op is not _IN_FLIGHT[self.op] or self.path[: len(path)] != path:
            return False
        barrier = _BARRIER_AT.get(self.op)
        if barrier is not None:
            return expr_deep_equal(wait.args[0], self.call.args[barrier])
        return is_const_int(wait.args[0], 0)


class _Lives(Visitor):
    """The allocations of a scope in a kernel, and when they are in use.

    Loops and branches in which an allocation from outside is used count as a whole: another iteration, or other
    threads in the other branch, may use it at the same time.
    """

    def __init__(self, scope: str) -> None:
        self.scope = scope
        self.parts: dict[Var, _Part] = {}
        self.time = 0
        self.units: list[tuple[int, set[Var]]] = []
        self.bound: set[Var] = set()
        self.path: tuple[int, ...] = ()
        self.flights: dict[Var, list[_Flight]] = {}
        self.landed: set[Var] = set()

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        self.time += 1
        self.generic(op)
        buffer = op.buffer
        if buffer.scope != self.scope or not is_const_int(op.condition, 1):
            return
        count = _elements(buffer)
        size = count.value * _element_bytes(buffer) if isinstance(count, IntImm) else None
        if size is None and (has((BufferLoad, Call), count) or mentions(count, self.bound)):
            return  # its size is not known where the kernel begins
        self.parts[buffer.data] = _Part(op, len(self.units), self.time, self.time, size)

    def unit(self, op: Node) -> None:
        self.time += 1
        self.units.append((self.time, set()))
        self.path = (*self.path, self.time)
        self.generic(op)
        self.time += 1
        self.path = self.path[:-1]
        _, used = self.units.pop()
        for data in used:
            part = self.parts[data]
            part.end = max(part.end, self.time)

    def visit_For(self, op: For) -> None:
        self.bound.add(op.loop_var)
        if op.kind is ForKind.THREAD_BINDING:
            self.generic(op)
        else:
            self.unit(op)

    def visit_While(self, op: While) -> None:
        self.unit(op)

    def visit_IfThenElse(self, op: IfThenElse) -> None:
        self.unit(op)

    def visit_AttrStmt(self, op: AttrStmt) -> None:
        if op.key == ASYNC_SCOPE:
            # What is copied asynchronously is written some time later.
            for node in nodes(op.body):
                if node.__class__ in (BufferStore, BufferLoad):
                    self.escape(node.buffer.data)
        self.generic(op)

    def visit_Bind(self, op: Bind) -> None:
        self.time += 1
        self.bound.add(op.var)
        if op.value.dtype.is_handle:
            for node in nodes(op.value):
                if isinstance(node, Var):
                    self.escape(node)
                elif isinstance(node, BufferLoad):
                    self.escape(node.buffer.data)
        self.generic(op)

    def visit_BufferStore(self, op: BufferStore) -> None:
        self.time += 1
        self.generic(op)
        self.touch(op.buffer.data)

    def visit_Evaluate(self, op: Evaluate) -> None:
        self.time += 1
        self.generic(op)
        if isinstance(op.value, Call):
            self.asynchronous(op.value)

    def asynchronous(self, call: Call) -> None:
        """Note what is in flight from here, or has landed."""
        if isinstance(call.op, Op) and call.op in _IN_FLIGHT:
            names = set(each(Var, *call.args))
            for data in names & self.parts.keys():
                self.flights.setdefault(data, []).append(_Flight(call, call.op, self.path))
                self.landed.discard(data)
        elif call.op in _WAITS:
            for data, flights in list(self.flights.items()):
                flights[:] = [flight for flight in flights if not flight.lands(call, self.path)]
                if not flights:
                    del self.flights[data]
                    self.landed.add(data)

    def end_of_flights(self) -> None:
        """What may still be in flight at the end, or landed and was not touched afterwards, keeps its memory.

        A barrier orders only what threads do themselves: it is the access behind the wait that others wait for.
        """
        for data in (*self.flights, *self.landed):
            self.parts[data].end = 1 << 60

    def visit_BufferLoad(self, op: BufferLoad) -> None:
        self.touch(op.buffer.data)

    def visit_Var(self, op: Var) -> None:
        self.touch(op)

    def touch(self, data: Var) -> None:
        part = self.parts.get(data)
        if part is None:
            return
        self.landed.discard(data)
        begin = self.time
        if len(self.units) > part.depth:
            begin, used = self.units[part.depth]
            used.add(data)
        part.begin = min(part.begin, begin) if part.used else begin
        part.end = max(part.end, self.time)
        part.used = True

    def escape(self, data: Var) -> None:
        """In use from here to the end of the kernel, and before where it is in a loop."""
        self.touch(data)
        part = self.parts.get(data)
        if part is not None:
            part.begin, part.end, part.used = 0, 1 << 60, True


def _place(parts: Sequence[_Part], reuse: bool) -> tuple[Expr, list[tuple[_Part, _Part]]]:
    """Give every part its offset: the largest first, each at the lowest place that is free while it is in use.

    Sizes that are not constant come last and are not shared. Returns the bytes in all, and the pairs that share some.
    """
    placed: list[tuple[int, int, _Part]] = []
    total = 0
    for part in sorted((p for p in parts if p.size is not None), key=lambda p: -(p.size or 0)):
        size = part.size or 0
        at = 0
        for start, stop, other in sorted(placed, key=lambda entry: entry[0]):
            if (reuse and not part.meets(other)) or stop <= at:
                continue
            if start >= at + size:
                break
            at = _round_up(stop, part.alignment)
        part.offset = const(at)
        placed.append((at, at + size, part))
        total = max(total, at + size)
    shared = [(a[2], b[2]) for a, b in combinations(placed, 2) if a[0] < b[1] and b[0] < a[1]]
    whole: Expr = const(total)
    for part in parts:
        if part.size is None:
            step = const(part.alignment)
            part.offset = build.mul(build.floordiv(build.add(whole, const(part.alignment - 1)), step), step)
            count = build.cast("int32", _elements(part.op.buffer))
            whole = build.add(part.offset, build.mul(count, const(part.element)))
    return whole, shared


def _round_up(value: int, to: int) -> int:
    return -(-value // to) * to


class _Rewriter(Mutator):
    """Moves accesses to their part of the merged memory, and drops the allocations."""

    folds = True

    def __init__(self, parts: dict[Var, _Part], merged: Buffer) -> None:
        self.parts = parts
        self.merged = merged
        self.views: dict[Buffer, Buffer] = {}
        self.flat: dict[Buffer, _Part] = {}

    def shift(self, part: _Part, size: int) -> Expr:
        """Where a part begins, in elements of ``size`` bytes."""
        return build.floordiv(part.offset, const(size))

    def map_buffer(self, buffer: Buffer) -> Buffer:
        part = self.parts.get(buffer.data)
        if part is None:
            return super().map_buffer(buffer)
        found = self.views.get(buffer)
        if found is None:
            size = _element_bytes(buffer)
            if _is_flat(buffer):
                extent = build.floordiv(self.merged.shape[0], const(size))
                found = buffer.with_(shape=(extent,), data=self.merged.data)
                self.flat[found] = part
            else:
                offset = build.add(buffer.elem_offset, build.cast(buffer.elem_offset.dtype, self.shift(part, size)))
                found = buffer.with_(data=self.merged.data, elem_offset=offset)
            self.views[buffer] = found
        return found

    def moved(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The indices into a view of the merged memory; those of a flat buffer count from its part."""
        part = self.flat.get(buffer)
        if part is None:
            return indices
        (index,) = indices
        by = build.cast(index.dtype.element, self.shift(part, _element_bytes(buffer)))
        if isinstance(index, Ramp):
            return (index.with_(base=build.add(index.base, by)),)
        return (build.add(index, Broadcast(by, index.dtype.lanes) if index.dtype.is_vector else by),)

    def visit_BufferLoad(self, op: BufferLoad) -> Expr:
        # The buffer is the view already.
        return op.with_(indices=self.moved(op.buffer, op.indices)) if op.buffer in self.flat else op

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        new = self.generic(op)
        return new.with_(indices=self.moved(new.buffer, new.indices)) if new.buffer in self.flat else new

    def enter_Call(self, op: Call) -> Expr | None:
        data = op.args[1] if op.op is _ACCESS_PTR else None
        part = self.parts.get(data) if isinstance(data, Var) else None
        if part is None:
            return self.pairs(op)
        kind, _, offset, extent, mask = op.args
        by = self.shift(part, -(-kind.dtype.bits // 8) * kind.dtype.lanes)
        moved = build.add(self.visit_expr(offset), build.cast(offset.dtype, by))
        return op.with_(args=(kind, self.merged.data, moved, self.visit_expr(extent), mask))

    def pairs(self, op: Call) -> Expr | None:
        """A device operation that names memory by a data variable and an offset in its elements: here those are bytes."""
        if not (isinstance(op.op, Op) and op.op.name.startswith("tir.ptx_")):
            return None
        if not any(isinstance(arg, Var) and arg in self.parts for arg in op.args):
            return None
        args = [arg if isinstance(arg, Var) and arg in self.parts else self.visit_expr(arg) for arg in op.args]
        for at, data in enumerate(op.args):
            part = self.parts.get(data) if isinstance(data, Var) else None
            if part is None:
                continue
            args[at] = self.merged.data
            offset = args[at + 1]
            size, kind = _element_bytes(part.op.buffer), offset.dtype
            place = build.add(build.cast(kind, self.shift(part, size)), offset)
            args[at + 1] = build.mul(place, const(size, kind))
        return op.with_(args=tuple(args))

    def map_attr(self, value: object) -> object:
        """Marks of an allocation are marks of all."""
        return self.merged.data if isinstance(value, Var) and value in self.parts else value

    def visit_Var(self, op: Var) -> Expr:
        """A pointer that is passed on as such: to the first byte of the part."""
        part = self.parts.get(op)
        if part is None:
            return op
        return build.call("tir.address_of", BufferLoad(self.merged, (part.offset,)))

    def visit_AllocBuffer(self, op: AllocBuffer) -> Stmt:
        return Evaluate(const(0)) if op.buffer.data in self.parts else self.generic(op)

    def visit_Seq(self, op: Seq) -> Stmt:
        kept = [s for s in op.stmts if not (isinstance(s, AllocBuffer) and s.buffer.data in self.parts)]
        done = [self.visit(stmt) for stmt in kept]
        if len(done) == len(op.stmts) and all(a is b for a, b in zip(done, op.stmts, strict=True)):
            return op
        return op.with_(stmts=tuple(done))


def _is_flat(buffer: Buffer) -> bool:
    return len(buffer.shape) == 1 and not buffer.strides and is_const_int(buffer.elem_offset, 0)


def _uses(stmt: Stmt, buffer: Buffer) -> bool:
    """Whether a statement mentions the memory of a buffer."""
    return mentions(stmt, (buffer.data,)) or any(op.buffer.data is buffer.data for op in each(_ACCESSES, stmt))


def _into_kernel(stmt: Stmt, alloc: AllocBuffer) -> Stmt | None:
    """A statement with an allocation moved to the head of the kernel in it, where that is all that uses it."""
    if isinstance(stmt, For) and stmt.kind is ForKind.THREAD_BINDING:
        if mentions(alloc, {stmt.loop_var}):
            return None
        body = stmt.body.stmts if isinstance(stmt.body, Seq) else (stmt.body,)
        return stmt.with_(body=Seq((alloc, *body)))
    if (
        isinstance(stmt, AttrStmt)
        and not mentions(stmt.value, (alloc.buffer.data,))
        and stmt.node is not alloc.buffer.data
    ):
        inner = _into_kernel(stmt.body, alloc)
        return None if inner is None else stmt.with_(body=inner)
    if isinstance(stmt, Seq):
        users = [at for at, child in enumerate(stmt.stmts) if _uses(child, alloc.buffer)]
        moved = _into_kernel(stmt.stmts[users[0]], alloc) if len(users) == 1 else None
        return (
            None if moved is None else stmt.with_(stmts=(*stmt.stmts[: users[0]], moved, *stmt.stmts[users[0] + 1 :]))
        )
    return None


class _Kernels(StmtMutator):
    def __init__(self, func: PrimFunc, scope: str) -> None:
        self.func = func
        self.scope = scope

    def visit_Seq(self, op: Seq) -> Stmt:
        """Allocations in front of a kernel that alone uses them are the kernel's."""
        outside = [s for s in op.stmts if isinstance(s, AllocBuffer) and s.buffer.scope == self.scope]
        stmts = list(op.stmts)
        for alloc in reversed(outside):
            users = [at for at, stmt in enumerate(stmts) if stmt is not alloc and _uses(stmt, alloc.buffer)]
            moved = _into_kernel(stmts[users[0]], alloc) if len(users) == 1 else None
            if moved is not None:
                stmts[users[0]] = moved
                stmts.remove(alloc)
        if all(self._allocated(stmt) < 2 for stmt in stmts if stmt not in op.stmts):
            stmts = list(op.stmts)  # a kernel with one allocation is left alone
        made = self.generic(op if len(stmts) == len(op.stmts) else op.with_(stmts=tuple(stmts)))
        assert isinstance(made, Seq)
        return made.stmts[0] if len(stmts) == 1 < len(op.stmts) else made

    def _allocated(self, stmt: Stmt) -> int:
        return sum(isinstance(op, AllocBuffer) and op.buffer.scope == self.scope for op in statements(stmt))

    def visit_For(self, op: For) -> Stmt:
        if op.kind is not ForKind.THREAD_BINDING:
            return self.generic(op)
        lives = _Lives(self.scope)
        lives.visit(op)
        lives.end_of_flights()
        parts = list(lives.parts.values())
        if len(parts) < 2:
            return op
        total, shared = _place(parts, True)
        kernel: Stmt = op
        if shared:
            try:
                kernel = self._ordered(op, shared)
            except TransformError:
                # A barrier would be needed where not all threads come by.
                total, _ = _place(parts, False)
        merged = decl_buffer((total,), DataType("uint8"), _NAMES[self.scope], scope=self.scope)
        made = _Rewriter(lives.parts, merged).visit(kernel)
        assert isinstance(made, For)
        body = made.body.stmts if isinstance(made.body, Seq) else (made.body,)
        alloc = AllocBuffer(merged)
        return made.with_(body=Seq((alloc, *body)))

    def _ordered(self, kernel: For, shared: list[tuple[_Part, _Part]]) -> Stmt:
        """The kernel with barriers between uses of parts that share memory."""
        func = self.func.with_body(kernel)
        scop = extract(func)
        pairs = [(a.data, b.data) for a, b in shared]
        mine = {data for pair in pairs for data in pair}
        # What each thread stores to an element of its own, and another buffer has at the same place, is still its own.
        places = {part.data: (part.element, part.start) for part in {part for pair in shared for part in pair}}
        alike = [pair for pair in pairs if places[pair[0]] == places[pair[1]]]
        meetings = Meetings(scop, func, overlaps=pairs, alike=alike)

        def wanted(access: Access) -> bool:
            return access.data in mine

        def sync() -> Stmt:
            return Evaluate(build.call("tir.tvm_storage_sync", StringImm(self.scope)))

        return BarrierPlanner(func, scop, meetings, self.scope, wanted, sync).run(kernel)


class MergeSharedMemoryAllocations(FuncPass):
    """The shared memory of each kernel becomes one allocation, in which what is not in use at a time shares bytes.

    Dynamic shared memory (``shared.dyn``) becomes ``buf_dyn_shmem``, bytes at the start of the kernel; with the
    configuration ``tir.merge_static_smem`` static shared memory becomes ``buf_shmem`` likewise. A kernel with one
    allocation is left alone. Accesses are moved by the offset of their part; parts are aligned to 16 bytes, or to their
    element where that is more. Sizes that are not constant are placed behind the others and shared with nothing, and stay out
    where they depend on what the kernel computes, as do conditional allocations. Allocations in front of a kernel that alone
    uses them are taken into it.

    An allocation is in use from its first access to its last; a loop or branch with an access of an outer allocation
    counts as a whole. What an asynchronous instruction reads or writes is in use until it has been waited for and
    touched again, else to the end. Where bytes change their owner, and no barrier stands between the uses already, one is put,
    unless each thread has the same bytes of both to itself (TIR leaves that to chance); where it cannot stand, under a condition that threads pass differently, nothing is shared.

    Stands behind SplitHostDevice and ThreadSync.

    >>> from tirlower.script import parse
    >>> print(MergeSharedMemoryAllocations()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((8,), "float32")):
    ...     for tx in T.thread_binding(8, thread="threadIdx.x"):
    ...         a = T.alloc_buffer((8,), "float32", scope="shared.dyn")
    ...         b = T.alloc_buffer((16,), "float16", scope="shared.dyn")
    ...         a[tx] = A[tx]
    ...         b[tx] = T.Cast("float16", a[tx])
    ...         A[tx] = T.Cast("float32", b[tx])
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((8,), "float32")):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            buf_dyn_shmem = T.alloc_buffer((64,), "uint8", scope="shared.dyn")
            a = T.Buffer((16,), "float32", data=buf_dyn_shmem.data)
            b = T.Buffer((32,), "float16", data=buf_dyn_shmem.data)
            a[tx] = A[tx]
            b[tx + 16] = T.Cast("float16", a[tx])
            A[tx] = T.Cast("float32", b[tx + 16])
    """

    name = "tir.MergeSharedMemoryAllocations"
    stage = Stage.FLAT_1D
    needs = ("tir.FlattenBuffer", "tir.ThreadSync", Fact.LAUNCHES_OPEN)
    breaks = (Fact.OWN_STORAGE,)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Merge the allocations of each kernel of a function."""
        body = _Kernels(func, "shared.dyn").visit(func.body)
        func = func.with_body(body)
        if ctx.option("tir.merge_static_smem", False):
            func = func.with_body(_Kernels(func, "shared").visit(func.body))
        return func
