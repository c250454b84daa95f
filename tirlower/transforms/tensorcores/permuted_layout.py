"""InjectPermutedLayout: shared memory of marked blocks is swizzled, so that columns are read without bank conflicts."""

from __future__ import annotations

from typing import NoReturn

from tirlower.diagnostics import Span, TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, BufferRegion, Range
from tirlower.ir.digest import expr_deep_equal
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Ramp, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Visitor
from tirlower.ir.op import Op
from tirlower.ir.stmt import AllocBuffer, Block, BufferStore, Stmt
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.fact_mutator import FactMutator

__all__ = ["InjectPermutedLayout"]

ORIGIN = "tir.InjectPermutedLayout"
PERMUTED = "permuted_layout"
"""Block annotation: the shared memory that the block accesses has the permuted layout."""
CHUNK = 8
"""The neighbouring elements that stay together: 16 bytes of a 16-bit type, one row of a matrix of ldmatrix."""

_ACCESS_PTR = Op.get("tir.tvm_access_ptr")
_POINTERS = {"tir.ptx_ldmatrix": 5, "tir.ptx_stmatrix": 3, "tir.ptx_cp_async": 0}
"""Operations whose access is a run of bytes within a chunk, and where the pointer stands; its offset follows."""


def _is_marked(op: Block) -> bool:
    """Whether a block is annotated: with a number but 0, or, as older programs are, with a string but the empty one."""
    value = op.annotations.get(PERMUTED)
    value = getattr(value, "value", value)
    if value is None or isinstance(value, (int, str)):
        return bool(value)
    raise TransformError(
        f"the annotation {PERMUTED!r} of block {op.name!r} is a number or a string, got {value!r}",
        origin=ORIGIN,
        span=op.span,
        help="annotate the block with 1",
    )


def _pointer_data(op: Call) -> Var | None:
    """The data variable behind the shared-memory operand of an operation on chunks."""
    at = _POINTERS.get(op.op.name) if isinstance(op.op, Op) else None
    if at is None or len(op.args) <= at + 1:
        return None
    pointer = op.args[at]
    if isinstance(pointer, Call) and pointer.op is _ACCESS_PTR:
        pointer = pointer.args[1]
    return pointer if isinstance(pointer, Var) else None


class _Finder(Visitor):
    """Which shared buffers marked blocks access, and how all of them are accessed elsewhere."""

    def __init__(self) -> None:
        self.buffers: dict[Var, Buffer] = {}
        self.permuted: dict[Var, Buffer] = {}
        self.outside: dict[Var, Span | None] = {}
        self.passed: dict[Var, tuple[str, Span | None]] = {}
        self.views: dict[Var, Buffer] = {}
        self.marks = 0
        self.at: Span | None = None

    def visit_Block(self, op: Block) -> None:
        marked = _is_marked(op)
        self.marks += marked
        self.generic(op)
        self.marks -= marked

    def visit_BufferRegion(self, op: BufferRegion) -> None:
        """Regions follow the accesses."""

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        if op.buffer.scope in ("shared", "shared.dyn") and len(op.buffer.shape) >= 2:
            self.buffers[op.buffer.data] = op.buffer

    def visit_BufferStore(self, op: BufferStore) -> None:
        self.at = op.span
        self.generic(op)

    def visit_buffer(self, buffer: Buffer) -> None:
        self._use(buffer.data)
        if buffer.data in self.buffers and buffer is not self.buffers[buffer.data]:
            self.views.setdefault(buffer.data, buffer)

    def _use(self, data: Var) -> None:
        own = self.buffers.get(data)
        if own is not None and self.marks:
            self.permuted[data] = own
        elif own is not None:
            self.outside.setdefault(data, self.at)

    def visit_Call(self, op: Call) -> bool | None:
        self.at = op.span or self.at
        chunk = _pointer_data(op)
        for arg in op.args:
            data = arg.args[1] if isinstance(arg, Call) and arg.op is _ACCESS_PTR else arg
            if isinstance(data, Var) and data in self.buffers and op.op is not _ACCESS_PTR:
                self._use(data)
                if data is not chunk and self.marks:
                    self.passed.setdefault(data, (op.op.name if isinstance(op.op, Op) else str(op.op), self.at))
        if op.op is Op.get("tir.address_of") and isinstance(op.args[0], BufferLoad) and self.marks:
            self.passed.setdefault(op.args[0].buffer.data, (op.op.name, self.at))
        return None


class _Permuter(FactMutator):
    """Rewrites the accesses of the permuted buffers, all of which stand in marked blocks."""

    def __init__(self, func: PrimFunc, permuted: dict[Var, Buffer]) -> None:
        super().__init__(func)
        self.permuted = permuted

    def visit_Block(self, op: Block) -> Stmt:
        if _is_marked(op):
            op = op.with_(annotations={key: value for key, value in op.annotations.items() if key != PERMUTED})
        return super().visit_Block(op)

    def visit_BufferRegion(self, op: BufferRegion) -> BufferRegion:
        """A row keeps its elements, in another order."""
        if op.buffer.data not in self.permuted:
            return op
        size = op.buffer.shape[-1]
        return op.with_(region=(*op.region[:-1], Range(const(0, size.dtype), size)))

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        op = self.generic(op)
        if op.buffer.data not in self.permuted:
            return op
        return op.with_(indices=self._indices(op.buffer, op.indices))

    def visit_BufferLoad(self, op: BufferLoad) -> Expr:
        if op.buffer.data not in self.permuted:
            return op
        return op.with_(indices=self._indices(op.buffer, op.indices))

    def visit_Call(self, op: Call) -> Expr:
        data = _pointer_data(op)
        if data is None or data not in self.permuted:
            return op
        name = op.op.name
        at = _POINTERS[name]
        pointer, offset = op.args[at], op.args[at + 1]
        buffer = self.permuted[data]
        element = buffer.dtype.bits // 8 * buffer.dtype.lanes
        size: int | None = 16
        if op.op is Op.get("tir.ptx_cp_async"):
            size = op.args[4].value if isinstance(op.args[4], IntImm) else None
        if size is None or size % element or CHUNK % (size // element):
            self._refuse(buffer, f"{name} accesses {size} bytes, more than {CHUNK} elements of it", op.span)
        if isinstance(pointer, Call):
            if pointer.args[0].dtype != buffer.dtype:
                self._refuse(buffer, f"a pointer to it has the type {pointer.args[0].dtype}", op.span)
            start = build.add(pointer.args[2], build.cast(pointer.args[2].dtype, offset))
            start = self._offset(buffer, start, size // element, op)
            # A chunk goes wherever its row does: the pointer is to this run alone.
            run = const(size // element, pointer.args[3].dtype)
            pointer = pointer.with_(args=(*pointer.args[:2], start, run, *pointer.args[4:]))
            offset = const(0, offset.dtype)
        else:
            kind = data.type
            if not isinstance(kind, PointerType) or kind.element != buffer.dtype:
                self._refuse(buffer, "its data has another type", op.span)
            offset = self._offset(buffer, offset, size // element, op)
        return op.with_(args=(*op.args[:at], pointer, offset, *op.args[at + 2 :]))

    def _offset(self, buffer: Buffer, offset: Expr, run: int, op: Call) -> Expr:
        """Where a run of elements behind the buffer's pointer is, once permuted."""
        if not _is_compact(buffer) or not is_const_int(buffer.elem_offset, 0):
            self._refuse(buffer, "it has strides or an offset, but is accessed through a pointer", op.span)
        known = self.analyzer.modular_set(offset)
        if known.coeff % run or known.base % run:
            self._refuse(buffer, f"the offset {offset} is not known to be a multiple of {run}", op.span)
        size = const(_row_size(buffer), offset.dtype)
        row, column = build.floordiv(offset, size), build.floormod(offset, size)
        rows = buffer.shape[-2]
        within = row
        if len(buffer.shape) > 2 and not (isinstance(rows, IntImm) and rows.value % 8 == 0):
            within = build.floormod(row, build.cast(row.dtype, rows))
        moved = self._permuted(within, column, _row_size(buffer))
        return self.analyzer.simplify(build.add(build.mul(row, size), moved))

    def _indices(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        row, column = indices[-2:]
        size = _row_size(buffer)
        if isinstance(column, Ramp) and is_const_int(column.stride, 1) and row.dtype.is_scalar:
            known = self.analyzer.modular_set(column.base)
            lanes = column.lanes
            if isinstance(lanes, int) and CHUNK % lanes == known.coeff % lanes == known.base % lanes == 0:
                return (*indices[:-1], column.with_(base=self._permuted(row, column.base, size)))
        return (*indices[:-1], self._permuted(row, column, size))

    def _permuted(self, row: Expr, column: Expr, size: int) -> Expr:
        """The column of an element, by the number of its row: chunks trade places with others of their 8 (or 4)."""
        by = build.floormod(row, 8)
        if size % 64:
            by = build.floordiv(by, 2)
        by = self.analyzer.simplify(by)
        chunk = self.analyzer.simplify(build.floordiv(column, CHUNK))
        inside = self.analyzer.simplify(build.floormod(column, CHUNK))
        if by.dtype != chunk.dtype:
            by = build.cast(chunk.dtype, by)
        return self.analyzer.simplify(build.add(build.mul(build.bitwise_xor(chunk, by), CHUNK), inside))

    def _refuse(self, buffer: Buffer, why: str, span: Span | None) -> NoReturn:
        _refuse(buffer, why, span, "align the access to its chunk, or take the annotation off the blocks")


def _is_compact(buffer: Buffer) -> bool:
    """Whether the strides of a buffer, if it states them, are those that it has without."""
    step: Expr = const(1)
    for extent, stride in zip(reversed(buffer.shape), reversed(buffer.strides), strict=False):
        if not expr_deep_equal(build.cast("int64", stride), build.cast("int64", step)):
            return False
        step = build.mul(build.cast("int64", step), build.cast("int64", extent))
    return True


def _row_size(buffer: Buffer) -> int:
    size = buffer.shape[-1]
    assert isinstance(size, IntImm)
    return size.value


def _refuse(buffer: Buffer, why: str, span: Span | None, help: str) -> NoReturn:
    raise TransformError(
        f"the buffer {buffer.name!r} cannot have a permuted layout: {why}", origin=ORIGIN, span=span, help=help
    )


def _check(found: _Finder) -> None:
    for data, buffer in found.permuted.items():
        size, rows = buffer.shape[-1], buffer.shape[-2]
        shape = ", ".join(map(str, buffer.shape))
        if not isinstance(size, IntImm) or size.value % 32:
            _refuse(
                buffer, f"its last dimension is no multiple of 32: ({shape})", None, "pad its rows, or do not mark it"
            )
        if size.value % 64 and not (isinstance(rows, IntImm) and rows.value % 2 == 0):
            why = f"its rows are no multiple of 64 elements and not even in number: ({shape})"
            _refuse(buffer, why, None, "pad its rows to 64 elements")
        if data in found.outside:
            why = f"it is also accessed outside the blocks marked with {PERMUTED!r}"
            _refuse(buffer, why, found.outside[data], "mark every block that accesses it")
        if data in found.passed:
            name, span = found.passed[data]
            _refuse(buffer, f"its pointer goes to {name}, which takes plain rows", span, "access it by its indices")
        if data in found.views:
            why = f"it is accessed as {found.views[data].name!r}, of another form"
            _refuse(buffer, why, None, "run LowerMatchBuffer, or access the buffer itself")


class InjectPermutedLayout(FuncPass):
    """The shared memory that marked blocks access is swizzled: chunks of 8 elements trade places, by their row.

    In blocks annotated ``permuted_layout`` (1, or a string that is not empty), the column of each access to a shared
    buffer of two or more dimensions becomes ``(column // 8 ^ row % 8) * 8 + column % 8`` where rows are a multiple of
    64 elements, and ``(column // 8 ^ row % 8 // 2) * 8 + column % 8`` where they are one of 32. So the chunks of 16
    bytes at one place of 8 rows, which ``ldmatrix`` reads at a time, lie in different banks. Stores, loads, and the
    shared-memory operands of ``ptx_ldmatrix``, ``ptx_stmatrix`` and ``ptx_cp_async`` (a pointer with an offset, or
    ``access_ptr``) are rewritten; the regions of blocks get whole rows, and the annotation is gone.

    Stands before InjectSoftwarePipeline, behind LowerMatchBuffer. Raises :class:`TransformError` for a buffer with
    other rows (or an odd number of rows of 32), which other blocks access too, whose pointer goes to another operation
    (TIR's rewrites that of ``mma_store``, which then stores to wrong places), that is accessed as a view, and for a
    pointer that is not known to lie in one chunk. TIR's checks only the rows.

    >>> from tirlower.script import parse
    >>> print(InjectPermutedLayout()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((64, 64), "float16"), B: T.Buffer((64, 64), "float16")):
    ...     for tx in T.thread_binding(64, thread="threadIdx.x"):
    ...         s = T.alloc_buffer((64, 64), "float16", scope="shared")
    ...         with T.block("copy"):
    ...             T.reads(A[tx, 0:64])
    ...             T.writes(s[tx, 0:64])
    ...             T.block_attr({"permuted_layout": 1})
    ...             for k in range(8):
    ...                 for v in T.vectorized(8):
    ...                     s[tx, k * 8 + v] = A[tx, k * 8 + v]
    ...         T.tvm_storage_sync("shared")
    ...         with T.block("use"):
    ...             T.reads(s[0:64, tx])
    ...             T.writes(B[tx, 0:64])
    ...             T.block_attr({"permuted_layout": 1})
    ...             for k in range(64):
    ...                 B[tx, k] = s[k, tx]
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((64, 64), "float16"), B: T.Buffer((64, 64), "float16")):
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            s = T.alloc_buffer((64, 64), "float16", scope="shared")
            with T.block("copy"):
                T.reads(A[tx, 0:64])
                T.writes(s[tx, 0:64])
                for k in range(8):
                    for v in T.vectorized(8):
                        s[tx, T.bitwise_xor(k, tx % 8) * 8 + v] = A[tx, k * 8 + v]
            T.tvm_storage_sync("shared")
            with T.block("use"):
                T.reads(s[0:64, 0:64])
                T.writes(B[tx, 0:64])
                for k in range(64):
                    B[tx, k] = s[k, T.bitwise_xor(tx // 8, k % 8) * 8 + tx % 8]
    """

    name = ORIGIN
    stage = Stage.OPAQUE
    needs = (Fact.ONE_STAGE,)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Permute the shared buffers of a function's marked blocks."""
        found = _Finder()
        found.visit(func.body)
        _check(found)
        return func.with_body(_Permuter(func, found.permuted).visit(func.body))
