"""StorageRewrite: allocations move out of loops, and share memory where they are not in use at the same time."""

from __future__ import annotations

from tirlower.ir import build
from tirlower.ir.buffer import Buffer, pointer_dtype
from tirlower.ir.cancel import expr_key
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import Expr, Var, const
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.functor import Substituter
from tirlower.ir.query import statements
from tirlower.ir.splice import as_scope
from tirlower.ir.stmt import AllocBuffer, AttrStmt, Bind, DeclBuffer, For, Seq, Stmt, seq
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.storage.check import verify_storage
from tirlower.rewrite.storage.liveness import Frame
from tirlower.rewrite.storage.plan import Entry, StoragePlan, StorageReport, element_bytes, plan_storage
from tirlower.rewrite.storage.tagged import is_special, merge_tagged
from tirlower.transforms.memory.pointer_type import rewrite_pointer_types

__all__ = ["StorageReport", "StorageRewrite", "storage_report"]

_DROPPED = seq()


class _Rewriter(Substituter):
    """Puts a plan into effect: memory at the places of the plan, views of it where buffers were allocated."""

    def __init__(self, func: PrimFunc, plan: StoragePlan) -> None:
        super().__init__({})
        self.func = func
        # What stands where an allocation stood: the allocation, a view, or nothing (moved, or never used).
        self.instead: dict[AllocBuffer, Stmt] = {a.op: _DROPPED for a in plan.unused}
        self.heads: dict[object, list[Stmt]] = {}
        self.unused = {a.data for a in plan.unused}
        # Memory is allocated in the order in which it is first touched.
        for entry in sorted(plan.entries, key=lambda e: min(member.touched for member in e.members)):
            self._place(entry)

    def _place(self, entry: Entry) -> None:
        place = entry.first.place
        if place is None:
            return
        memory = self._memory(entry)
        for member in entry.members:
            if member.op is memory:
                self.instead[member.op] = _DROPPED
            else:
                if member.data is not memory.buffer.data:
                    self.vmap[member.data] = memory.buffer.data
                self.instead[member.op] = DeclBuffer(self.map_buffer(member.op.buffer), span=member.op.span)
        self.heads.setdefault(place.stmt if isinstance(place, Frame) else place, []).append(memory)

    @staticmethod
    def _memory(entry: Entry) -> AllocBuffer:
        """The allocation that all members fit in: the first one where they are alike, else elements in a row."""
        first = entry.first.op
        buffers = [member.op.buffer for member in entry.members]
        align = max(buffer.align for buffer in buffers)
        if all(_alike(buffer, first.buffer) for buffer in buffers):
            return first if first.buffer.align == align else first.with_(buffer=first.buffer.with_(align=align))
        kind = max((buffer.dtype for buffer in buffers), key=lambda dtype: dtype.lanes)
        if kind.lanes == first.buffer.dtype.lanes:
            kind = first.buffer.dtype
        data = first.buffer.data
        if data.type != PointerType(pointer_dtype(kind), first.buffer.scope):
            data = Var(data.name, PointerType(pointer_dtype(kind), first.buffer.scope), span=data.span)
        size: Expr
        if entry.bytes is not None:
            size = const(-(-entry.bytes // element_bytes(kind)), "int32" if entry.bytes < 2**31 else "int64")
        else:
            # Of one element type; a vector's lanes are counted.
            size = _elements(buffers[0], kind.lanes)
            for buffer in buffers[1:]:
                size = build.max_(size, _elements(buffer, kind.lanes))
        if len(first.buffer.shape) == 1 and not first.buffer.strides and kind is first.buffer.dtype:
            if expr_key(first.buffer.shape[0]) == expr_key(size) and first.buffer.align == align:
                return first
        buffer = Buffer(first.buffer.name, (size,), kind, data, align=align)
        return AllocBuffer(buffer, first.condition, first.annotations, span=first.span)

    # Statements

    def rewrite(self) -> Stmt:
        """The function's new body."""
        return self._headed(self.func, self.visit(self.func.body), self.func.body)

    def _headed(self, owner: object, body: Stmt, old: Stmt) -> Stmt:
        """A body with the memory allocated at its head; the same object when that is how it was."""
        head = self.heads.get(owner)
        if not head:
            return body
        # A body that declares nothing itself may join the sequence; so may one whose declarations end with it.
        rest = list(body.stmts) if isinstance(body, Seq) else [body]
        made = (*head, *[stmt for stmt in rest if stmt is not _DROPPED])
        return _kept(old, made)

    def visit_AllocBuffer(self, op: AllocBuffer) -> Stmt:
        instead = self.instead.get(op)
        if instead is not None:
            return instead
        return op.map_children(self.visit)

    def visit_DeclBuffer(self, op: DeclBuffer) -> Stmt:
        if op.buffer.data in self.unused:
            return _DROPPED
        return op.with_(buffer=self.map_buffer(op.buffer))

    def visit_Seq(self, op: Seq) -> Stmt:
        done: list[Stmt] = []
        for stmt in op.stmts:
            new = self.visit(stmt)
            if new is not _DROPPED:
                done.append(new)
            if isinstance(stmt, Bind):
                done += self.heads.get(stmt, ())
        return _kept(op, tuple(done))

    def visit_For(self, op: For) -> Stmt:
        if op not in self.heads:
            return self.generic(op)
        body = self._headed(op, self.visit(op.body), op.body)
        return op.with_(min=self.visit(op.min), extent=self.visit(op.extent), body=body)

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        if op not in self.heads:
            return self.generic(op)
        body = self._headed(op, self.visit(op.body), op.body)
        return op.with_(node=self.map_attr(op.node), value=self.visit(op.value), body=body)


def _kept(old: Stmt, stmts: tuple[Stmt, ...]) -> Stmt:
    """A sequence of statements; the old statement when it is made of the same."""
    before = old.stmts if isinstance(old, Seq) else (old,)
    if len(before) == len(stmts) and all(a is b for a, b in zip(before, stmts, strict=True)):
        return old
    return as_scope(stmts[0]) if len(stmts) == 1 else Seq(stmts, span=old.span)


def _alike(a: Buffer, b: Buffer) -> bool:
    if a is b:
        return True
    return a.dtype is b.dtype and not a.strides and not b.strides and _key(a) == _key(b)


def _key(buffer: Buffer) -> object:
    return [tuple(map(expr_key, buffer.shape)), expr_key(buffer.elem_offset), buffer.axis_separators]


def _elements(buffer: Buffer, lanes: int) -> Expr:
    total: Expr = const(buffer.dtype.lanes, buffer.shape[0].dtype if buffer.shape else "int32")
    for extent in buffer.shape:
        total = build.mul(total, extent)
    return total if lanes == 1 else build.ceildiv(total, lanes)


def storage_report(func: PrimFunc) -> StorageReport:
    """What StorageRewrite would save on a function: bytes before and after, and the most that is live at one time.

    >>> from tirlower.script import parse
    >>> print(storage_report(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((8,), "float32")):
    ...     B = T.alloc_buffer((8,), "float32")
    ...     C = T.alloc_buffer((8,), "float32")
    ...     for i in range(8):
    ...         B[i] = A[7 - i]
    ...     for i in range(8):
    ...         C[i] = B[7 - i]
    ...     for i in range(8):
    ...         A[i] = C[i]
    ... ''')))
    2 allocations of 64 bytes became 2 of 64 bytes; 64 bytes are live at one time
    """
    return plan_storage(func).report


class StorageRewrite(FuncPass):
    """Allocations move to the outermost place where their extents are known, and share memory by liveness.

    Memory never leaves a loop whose iterations run side by side (parallel, vectorized, threads) or an attribute's
    region, but for a pragma's. Buffers whose uses do not overlap in time share memory of one storage scope: of any
    element type for constant sizes within a factor of sixteen, of one element type for symbolic ones. ``B[i] =
    f(A[i])`` works in place where ``A`` is not used again. Buffers of up to 32 bits, in local or warp memory or
    tensor-core fragments do not share, nor do conditional ones and those with annotations; a buffer whose pointer is
    kept (in a variable, a structure, an asynchronous copy) is in use until its scope ends. What shares becomes a view
    (``T.decl_buffer``) of the first one's memory; an allocation that nothing uses is dropped. The allocations of a memory
    with a tag of its own (``local.l0a``) become one, parts of it one behind the other. Allocations that are
    always accessed as vectors then get the vector element type, as PointerValueTypeRewrite does it.

    Where extents could be negative, their memory leaves only loops that surely run. With the configuration
    ``tir.merge_static_smem`` only operations in place share. ``reports`` has, by function, the bytes before, after and
    live at one time, of the last run of this object; :func:`storage_report` gives them without rewriting.

    Option ``keep_shared_apart`` (default False): buffers that threads share keep memory of their own: what reuses
    another's memory needs a barrier ahead of it.

    Needs LowerOpaqueBlock; raises :class:`TransformError` for a block, and for a tagged memory that is too small. In validate mode the result is simulated: no
    buffer is read after another one was written into its memory. After TIR's pass of the name (linear-scan register
    allocation, Poletto and Sarkar 1999).

    >>> from tirlower.script import parse
    >>> print(StorageRewrite()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((8,), "float32")):
    ...     B = T.alloc_buffer((8,), "float32")
    ...     C = T.alloc_buffer((8,), "float32")
    ...     for i in range(8):
    ...         B[i] = A[i] * T.float32(2)
    ...     for i in range(8):
    ...         C[i] = B[i] + T.float32(1)
    ...     for i in range(8):
    ...         A[i] = C[i]
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,))
        C = T.decl_buffer((8,), data=B.data)
        for i in range(8):
            B[i] = A[i] * T.float32(2)
        for i in range(8):
            C[i] = B[i] + T.float32(1)
        for i in range(8):
            A[i] = C[i]
    """

    name = "tir.StorageRewrite"
    stage = Stage.FLAT
    needs = (Fact.UNORDERED,)
    breaks = (Fact.LANES, Fact.OWN_STORAGE, Fact.SINGLE_STATEMENTS)
    keep_shared_apart: bool = False

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.reports: dict[str, StorageReport] = {}

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Rewrite the allocations of a function."""
        plan = plan_storage(
            func,
            reuse=not ctx.option("tir.merge_static_smem", False),
            apart=self.keep_shared_apart,
        )
        self.reports[func.name] = plan.report
        if not plan.entries and not plan.unused:
            return func
        made = _shared(func, plan)
        tagged = sum(is_special(entry.first.op.buffer.scope) for entry in plan.entries)
        return merge_tagged(made) if tagged > 1 else made

    def certify(self, before: IRModule, after: IRModule, ctx: PassContext) -> None:
        """No two values that live at once may share memory."""
        super().certify(before, after, ctx)
        for name, func in before.items():
            made = after[name]
            if made is not func and any(
                isinstance(op, AllocBuffer) and is_special(op.buffer.scope) for op in statements(made.body)
            ):
                # Parts of one memory lie one behind the other: what is checked is how buffers came to be parts.
                reuse = not ctx.option("tir.merge_static_smem", False)
                made = _shared(func, plan_storage(func, reuse=reuse, apart=self.keep_shared_apart))
            verify_storage(func, made)


def _shared(func: PrimFunc, plan: StoragePlan) -> PrimFunc:
    """A function whose allocations follow a plan."""
    made = func.with_body(_Rewriter(func, plan).rewrite())
    return rewrite_pointer_types(made, params=False, shuffles=False)
