"""TransformMmaBufferLayout: matrices that a warp holds together become the registers of each of its threads."""

from __future__ import annotations

from typing import NoReturn

from tirlower.diagnostics import Span, TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, BufferRegion, Range
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import BufferLoad, Expr, IntImm, Var, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Mutator, Visitor
from tirlower.ir.stmt import AllocBuffer, BufferStore, DeclBuffer, Stmt
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.fact_mutator import FactMutator

__all__ = ["TransformMmaBufferLayout"]

ORIGIN = "tir.TransformMmaBufferLayout"
_TILES = {
    "m16n8k8.matrixA": (32, 8, (4, 2)),
    "m16n8k8.matrixB": (8, 32, (4, 2)),
    "m16n8k8.matrixC": (16, 8, (2, 2)),
}
"""The rows and columns of a tile in a scope, and the registers of a thread that hold it."""
_ACCUMULATOR = "m16n8k8.matrixC"


def _refuse(buffer: Buffer, why: str, help: str, span: Span | None = None) -> NoReturn:
    raise TransformError(
        f"the buffer {buffer.name!r} in {buffer.scope!r} has no layout in registers: {why}",
        origin=ORIGIN,
        span=span,
        help=help,
    )


class _Finder(Visitor):
    """The matrices that are allocated."""

    def __init__(self) -> None:
        self.found: dict[Buffer, Buffer] = {}

    def visit_expr(self, root: Expr) -> None:
        """Expressions allocate nothing."""

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        tile = _TILES.get(op.buffer.scope)
        if tile is not None:
            self.found[op.buffer] = _registers(op.buffer, tile, op.span)


def _registers(buffer: Buffer, tile: tuple[int, int, tuple[int, int]], span: Span | None) -> Buffer:
    rows, columns, each = tile
    if len(buffer.shape) < 2 or buffer.strides:
        _refuse(buffer, "it has fewer than two dimensions, or strides", "allocate a compact matrix", span)
    *outer, height, width = buffer.shape
    if not (isinstance(height, IntImm) and isinstance(width, IntImm)) or height.value % rows or width.value % columns:
        _refuse(
            buffer, f"{height} by {width} is not made of tiles of {rows} by {columns}", "allocate whole tiles", span
        )
    inner = [const(number, height.dtype) for number in (height.value // rows, width.value // columns, *each)]
    return Buffer(
        buffer.name,
        (*outer, *inner),
        buffer.dtype,
        Var(buffer.data.name, PointerType(buffer.dtype, "local")),
        align=buffer.align,
    )


class _Transformer(FactMutator):
    def __init__(self, func: PrimFunc, buffers: dict[Buffer, Buffer]) -> None:
        super().__init__(func)
        self.buffers = buffers
        self.data = {old.data: new.data for old, new in buffers.items()}
        self.at: Span | None = None

    def map_buffer_def(self, buffer: Buffer) -> Buffer:
        return self.buffers.get(buffer, buffer)

    def visit_Var(self, op: Var) -> Var:
        return self.data.get(op, op)

    def visit_DeclBuffer(self, op: DeclBuffer) -> Stmt:
        if op.buffer.data in self.data:
            _refuse(op.buffer, "it is a view of such a matrix", "access the matrix itself", op.span)
        return self.generic(op)

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        self.at = op.span
        op = Mutator.generic(self, op)
        new = self._of(op.buffer)
        return op if new is None else op.with_(buffer=new, indices=self._indices(op.buffer, op.indices, op.span))

    def visit_BufferLoad(self, op: BufferLoad) -> Expr:
        new = self._of(op.buffer)
        return op if new is None else op.with_(buffer=new, indices=self._indices(op.buffer, op.indices, op.span))

    def visit_BufferRegion(self, op: BufferRegion) -> BufferRegion:
        """All of the registers: the rows and columns of a region are spread over threads."""
        new = self._of(op.buffer)
        if new is None:
            return Mutator.generic(self, op)
        outer = op.region[: len(op.region) - 2]
        return op.with_(buffer=new, region=(*outer, *(Range(const(0, e.dtype), e) for e in new.shape[-4:])))

    def _of(self, buffer: Buffer) -> Buffer | None:
        new = self.buffers.get(buffer)
        if new is None and buffer.data in self.data:
            _refuse(buffer, "it is accessed with another shape", "access it as it is allocated", self.at)
        return new

    def _indices(self, buffer: Buffer, indices: tuple[Expr, ...], span: Span | None) -> tuple[Expr, ...]:
        if buffer.scope != _ACCUMULATOR:
            _refuse(buffer, "its elements are accessed by indices", "load it with ptx_ldmatrix", span or self.at)
        *outer, i, j = indices
        simplify = self.analyzer.simplify
        block = build.floordiv(i, 8)
        return (
            *outer,
            simplify(build.floordiv(block, 2)),
            simplify(build.floordiv(j, 8)),
            simplify(build.floormod(block, 2)),
            simplify(build.floormod(build.floormod(j, 8), 2)),
        )


class TransformMmaBufferLayout(FuncPass):
    """Matrices in the scopes ``m16n8k8.matrixA``, ``matrixB`` and ``matrixC`` become registers of each thread.

    A warp holds such a matrix together; what a thread has of it is a ``local`` buffer. One of ``m`` by ``n`` elements
    becomes ``(m // 32, n // 8, 4, 2)`` for A, ``(m // 8, n // 32, 4, 2)`` for B and ``(m // 16, n // 8, 2, 2)`` for C;
    dimensions in front stay. An access to element ``i, j`` of C, which the thread makes that holds it (lane ``i % 8 *
    4 + j % 8 // 2``), becomes one to ``i // 16, j // 8, i // 8 % 2, j % 2``. A and B are filled and read through their
    pointers, whose offsets count registers already.

    Behind the tensorized blocks' lowering, before LowerOpaqueBlock. Raises :class:`TransformError` for a matrix that is
    not made of whole tiles or has strides, and for accesses to it by indices (A, B) or as a view. TIR's leaves the
    regions of blocks as they were, and the indices into A and B, with another number of dimensions.

    >>> from tirlower.script import parse
    >>> print(TransformMmaBufferLayout()(parse('''
    ... @T.prim_func
    ... def f(C: T.Buffer((16, 16), "float32")):
    ...     for tx in T.thread_binding(32, thread="threadIdx.x"):
    ...         c = T.alloc_buffer((16, 16), "float32", scope="m16n8k8.matrixC")
    ...         for r, k, e in T.grid(2, 2, 2):
    ...             c[r * 8 + tx // 4, k * 8 + tx % 4 * 2 + e] = T.float32(1)
    ...         for r, k, e in T.grid(2, 2, 2):
    ...             C[r * 8 + tx // 4, k * 8 + tx % 4 * 2 + e] = c[r * 8 + tx // 4, k * 8 + tx % 4 * 2 + e]
    ... ''')).script())
    @T.prim_func
    def f(C: T.Buffer((16, 16), "float32")):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            c = T.alloc_buffer((1, 2, 2, 2), scope="local")
            for r, k, e in T.grid(2, 2, 2):
                c[0, k, r, e] = T.float32(1)
            for r, k, e in T.grid(2, 2, 2):
                C[r * 8 + tx // 4, k * 8 + tx % 4 * 2 + e] = c[0, k, r, e]
    """

    name = ORIGIN
    stage = Stage.OPAQUE
    breaks = (Fact.FRAGMENT_BUFFERS,)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Reshape the matrices of a function."""
        finder = _Finder()
        finder.visit(func.body)
        if not finder.found:
            return func
        return func.with_body(_Transformer(func, finder.found).visit(func.body))
