"""CompactBufferAllocation: allocations shrink to what is accessed of them."""

from __future__ import annotations

from tirlower.analysis.compaction_check import verify_compaction
from tirlower.ir import build
from tirlower.ir.annotations import BUFFER_DIM_ALIGN, numbers_of
from tirlower.ir.buffer import Buffer, BufferRegion, Range
from tirlower.ir.cancel import expr_key
from tirlower.ir.expr import BufferLoad, Expr, IntImm, Var, const, is_const_int
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.functor import Visitor
from tirlower.ir.query import each
from tirlower.ir.stmt import AllocBuffer, AttrStmt, Block, BufferStore, For, ForKind, Stmt
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.fact_mutator import FactMutator
from tirlower.rewrite.options import option
from tirlower.rewrite.touched_regions import Region, accessed_regions

__all__ = ["CompactBufferAllocation"]

Alignment = dict[int, tuple[int, int]]


class _Alignments(Visitor):
    """The factor and offset that schedules ask for of each axis's stride."""

    def __init__(self) -> None:
        self.found: dict[Buffer, Alignment] = {}

    def visit_Block(self, op: Block) -> None:
        for position, axis, factor, offset in numbers_of(op.annotations, BUFFER_DIM_ALIGN):
            if 0 <= position < len(op.writes):
                self.found.setdefault(op.writes[position].buffer, {})[axis] = (factor, offset)
        self.generic(op)

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        for _, axis, factor, offset in numbers_of(op.annotations, BUFFER_DIM_ALIGN):
            self.found.setdefault(op.buffer, {})[axis] = (factor, offset)

    def visit_expr(self, root: Expr) -> None:
        """Expressions hold no annotations of buffers."""


class _Lanes(Visitor):
    """The lanes of the vectorized loops that go along the rows of each array of a thread's own."""

    def __init__(self) -> None:
        self.found: dict[Buffer, int] = {}
        self.around: dict[Var, int] = {}

    def visit_For(self, op: For) -> None:
        if op.kind is ForKind.VECTORIZED and isinstance(op.extent, IntImm):
            self.around[op.loop_var] = op.extent.value
        self.generic(op)
        self.around.pop(op.loop_var, None)

    def _access(self, op: BufferLoad | BufferStore) -> None:
        if self.around and op.buffer.scope == "local" and op.indices:
            along = op.indices[_row_axis(op.buffer)]
            lanes = [self.around[var] for var in each(Var, along) if var in self.around]
            self.found[op.buffer] = max([*lanes, self.found.get(op.buffer, 0)])
        self.generic(op)

    visit_BufferLoad = visit_BufferStore = _access


class _Compactor(FactMutator):
    def __init__(self, func: PrimFunc, regions: dict[Buffer, Region]) -> None:
        super().__init__(func)
        alignments = _Alignments()
        alignments.visit(func.body)
        self.layouts = FactMutator(func).analyzer
        self.made: dict[Buffer, Buffer] = {}
        self.starts: dict[Buffer, tuple[Expr, ...]] = {}
        for buffer in {**regions, **alignments.found}:
            region = regions.get(buffer) or tuple((const(0, e.dtype), e) for e in buffer.shape)
            made = self._compact(buffer, region, alignments.found.get(buffer))
            if made is not buffer:
                self.made[buffer] = made
                self.starts[buffer] = tuple(start for start, _ in region)

    def _compact(self, buffer: Buffer, region: Region, alignment: Alignment | None) -> Buffer:
        shape = tuple(
            old if expr_key(old) == expr_key(new) else new for old, (_, new) in zip(buffer.shape, region, strict=True)
        )
        made = buffer
        if any(a is not b for a, b in zip(shape, buffer.shape, strict=True)) or any(
            not is_const_int(start, 0) for start, _ in region
        ):
            made = buffer.with_(shape=shape)
        if alignment and not buffer.strides:
            made = made.with_(strides=self._strides(shape, alignment))
        return made

    def _strides(self, shape: tuple[Expr, ...], alignment: Alignment) -> tuple[Expr, ...]:
        """Row-major strides, padded so that each aligned one is its offset modulo its factor."""
        strides: list[Expr] = []
        stride: Expr = const(1, shape[0].dtype)
        for axis in reversed(range(len(shape))):
            factor, offset = alignment.get(axis, (0, 0))
            if factor:
                gap = build.sub(const(factor + offset, stride.dtype), build.floormod(stride, factor))
                stride = self.layouts.simplify(build.add(stride, build.floormod(gap, factor)))
            strides.insert(0, stride)
            stride = self.layouts.simplify(build.mul(stride, shape[axis]))
        return tuple(strides)

    def shifted(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        moved = []
        for index, start in zip(indices, self.starts[buffer], strict=True):
            moved.append(index if is_const_int(start, 0) else self.analyzer.simplify(build.sub(index, start)))
        return tuple(moved)

    def visit_AllocBuffer(self, op: AllocBuffer) -> Stmt:
        op = self.generic(op)
        return op.with_(buffer=self.made.get(op.buffer, op.buffer))

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        op = self.generic(op)
        return op.with_(node=self.made[op.node]) if isinstance(op.node, Buffer) and op.node in self.made else op

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        op = self.generic(op)
        made = self.made.get(op.buffer)
        return op if made is None else op.with_(buffer=made, indices=self.shifted(op.buffer, op.indices))

    def visit_BufferLoad(self, op: BufferLoad) -> Expr:
        made = self.made.get(op.buffer)
        return op if made is None else op.with_(buffer=made, indices=self.shifted(op.buffer, op.indices))

    def visit_BufferRegion(self, op: BufferRegion) -> BufferRegion:
        """A declared region moves along with the accesses that it bounds; one that was larger stays as large."""
        op = self.generic(op)
        made = self.made.get(op.buffer)
        if made is None:
            return op
        starts = self.shifted(op.buffer, tuple(part.min for part in op.region))
        ranges = tuple(Range(start, part.extent) for start, part in zip(starts, op.region, strict=True))
        return BufferRegion(made, ranges, span=op.span)


class CompactBufferAllocation(FuncPass):
    """Allocated buffers shrink to the region that is accessed of them, and their accesses shift to its start.

    The region is the box around all accesses in the allocation's scope, the loops inside it relaxed; loops over
    threads around it are relaxed too where the buffer's storage scope is shared by them. It is exact where indices,
    loop bounds and conditions are linear; divisions are followed as iteration maps, else as intervals. Predicates of
    blocks, ``if``, ``if_then_else`` and asserts narrow it. An extent that depends on a loop around the allocation
    becomes its greatest value. A buffer that is used through a view, a pointer or the address of an element keeps its
    shape; a matched region is an access. Where a block's annotations ``explicit_read_region`` or
    ``explicit_write_region`` list positions of its regions, these count in place of what its body accesses of their
    buffers. ``buffer_dim_align`` annotations give the new shape padded strides; strides
    that are stated stay.

    Option ``is_strict`` (default True): no dimension grows. Otherwise a dimension is as large as what is accessed,
    also beyond the old shape or below index 0.

    Option ``keep_padding`` (default False): rows of shared memory that are declared longer than what is accessed of
    them, by less than the 128 bytes in which banks repeat, stay as long: that is how threads of a column get banks of
    their own.

    Option ``keep_lanes`` (default False): rows of a thread's own memory along which a vectorized loop goes stay as long as that, where
    a condition leaves out its last lanes: then all lanes are inside, and the row is a register.

    Needs ConvertBlocksToOpaque where there are blocks. Raises :class:`TransformError` for blocks with iterators and
    for an allocation that nothing accesses. In validate mode every access is enumerated and checked to lie inside.
    After TIR's pass of the name; exactness by elimination of linear inequalities (see ``extremes``).

    >>> from tirlower.script import parse
    >>> print(CompactBufferAllocation()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    ...     for i in range(16):
    ...         B = T.alloc_buffer((16, 16), "float32")
    ...         for j in range(8):
    ...             B[i, j + 4] = A[i, j]
    ...         for j in range(8):
    ...             C[i, j] = B[i, j + 4] * T.float32(2)
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        for i in range(16):
            B = T.alloc_buffer((1, 8))
            for j in range(8):
                B[0, j] = A[i, j]
            for j in range(8):
                C[i, j] = B[0, j] * T.float32(2)
    """

    name = "tir.CompactBufferAllocation"
    stage = Stage.OPAQUE
    breaks = (Fact.WHOLE_BUFFERS,)
    is_strict: bool = option(default=True, kw_only=False)
    keep_padding: bool = False
    keep_lanes: bool = False

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Compact the allocations of a function."""
        regions = accessed_regions(func, self.is_strict)
        if self.keep_padding:
            regions = {buffer: _padded(buffer, region) for buffer, region in regions.items()}
        if self.keep_lanes:
            lanes = _Lanes()
            lanes.visit(func.body)
            regions = {buffer: _with_lanes(buffer, region, lanes.found) for buffer, region in regions.items()}
        worker = _Compactor(func, regions)
        return func.with_body(worker.visit(func.body)) if worker.made else func

    def certify(self, before: IRModule, after: IRModule, ctx: PassContext) -> None:
        """Every access must lie inside its compacted buffer."""
        super().certify(before, after, ctx)
        for name, func in before.items():
            verify_compaction(func, after[name])


def _row_axis(buffer: Buffer) -> int:
    """The dimension along which the rows of a buffer go: the last one, but for those of one element."""
    return next((at for at in reversed(range(len(buffer.shape))) if not is_const_int(buffer.shape[at], 1)), 0)


def _with_lanes(buffer: Buffer, region: Region, lanes: dict[Buffer, int]) -> Region:
    """A region whose rows are as long as vectors along them are, as far as the buffer is."""
    if not region:
        return region
    axis = _row_axis(buffer)
    first, extent = region[axis]
    declared, wanted = buffer.shape[axis], lanes.get(buffer, 0)
    if not (is_const_int(first, 0) and isinstance(declared, IntImm)):
        return region
    kept = min(declared.value, wanted)
    longer = kept > extent.value if isinstance(extent, IntImm) else kept == declared.value
    return (*region[:axis], (first, const(kept, extent.dtype)), *region[axis + 1 :]) if longer else region


_BANKS = 128
"""The bytes after which the banks of shared memory repeat."""


def _padded(buffer: Buffer, region: Region) -> Region:
    """A region whose last dimension keeps the padding that the buffer declares."""
    if not buffer.scope.startswith("shared") or len(buffer.shape) < 2 or not region:
        return region
    first, extent = region[-1]
    declared = buffer.shape[-1]
    if not (is_const_int(first, 0) and isinstance(extent, IntImm) and isinstance(declared, IntImm)):
        return region
    lost = (declared.value - extent.value) * buffer.dtype.bits * buffer.dtype.lanes // 8
    return (*region[:-1], (first, declared)) if 0 < lost < _BANKS and extent.value > 1 else region
