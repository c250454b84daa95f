"""FlattenBuffer: multi-dimensional accesses become accesses of flat buffers."""

from __future__ import annotations

from tirlower.arith import Analyzer
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, BufferRegion, Range, pointer_dtype
from tirlower.ir.dtype import BOOL
from tirlower.ir.expr import BufferLoad, Call, Cast, Expr, IntImm, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.op import Op
from tirlower.ir.stmt import AllocBuffer, AllocConst, Block, BufferStore, DeclBuffer, Stmt, seq
from tirlower.transforms.analyzed import AnalyzedMutator
from tirlower.transforms.base import FuncPass, Stage
from tirlower.transforms.context import PassContext

__all__ = ["FlattenBuffer", "flattened_buffer"]


def _groups(buffer: Buffer) -> list[list[int]]:
    """The dimensions of each flat axis, as the axis separators split them."""
    groups: list[list[int]] = [[]]
    for axis in range(len(buffer.shape)):
        for _ in range(buffer.axis_separators.count(axis)):
            groups.append([])
        groups[-1].append(axis)
    return groups


def flattened_buffer(buffer: Buffer, analyzer: Analyzer) -> Buffer:
    """The flat form of a buffer: one axis for each group of dimensions, no strides and no offset, bool as int8.

    The same object when it is flat already.
    """
    groups = _groups(buffer)
    stored = pointer_dtype(buffer.dtype)
    if len(groups) == len(buffer.shape) and buffer.is_compact and stored is buffer.dtype:
        return buffer
    shape: list[Expr] = []
    for group in groups:
        if buffer.strides:
            # The outermost stride times its extent covers the group, padding included.
            size = build.mul(buffer.strides[group[0]], buffer.shape[group[0]])
        else:
            size = const(1, buffer.shape[0].dtype if buffer.shape else "int32")
            for axis in group:
                size = build.mul(size, buffer.shape[axis])
        if len(groups) == 1:
            size = build.add(size, buffer.elem_offset)
        shape.append(analyzer.simplify(size))
    return buffer.with_(
        shape=tuple(shape),
        dtype=stored,
        strides=(),
        elem_offset=IntImm(buffer.elem_offset.dtype, 0),
        axis_separators=tuple(range(1, len(groups))),
    )


class _Flattener(AnalyzedMutator):
    def __init__(self) -> None:
        super().__init__()
        self.remap: dict[Buffer, Buffer] = {}

    def flat(self, buffer: Buffer) -> Buffer:
        known = self.remap.get(buffer)
        if known is None:
            known = flattened_buffer(buffer, self.analyzer)
            self.remap[buffer] = known
        return known

    def indices(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The flat indices of an access, simplified under the loops around."""
        if self.flat(buffer) is buffer:
            return indices
        made: list[Expr] = []
        for group in _groups(buffer):
            offset: Expr = const(0, indices[0].dtype.element if indices else "int32")
            for axis in group:
                if buffer.strides:
                    offset = build.add(offset, build.mul(indices[axis], buffer.strides[axis]))
                else:
                    offset = build.add(build.mul(offset, buffer.shape[axis]), indices[axis])
            made.append(offset)
        if len(made) == 1:
            made[0] = build.add(made[0], buffer.elem_offset)
        elif not (isinstance(buffer.elem_offset, IntImm) and buffer.elem_offset.value == 0):
            raise TransformError(
                f"buffer {buffer.name!r} has an element offset and axis separators, which do not go together"
            )
        return tuple(self.analyzer.simplify(index) for index in made)

    def visit_Block(self, op: Block) -> Stmt:
        if op.match_buffers:
            raise TransformError(
                f"block {op.name!r} matches buffer {op.match_buffers[0].buffer.name!r}",
                span=op.span,
                help="run LowerMatchBuffer before FlattenBuffer",
            )
        return super().visit_Block(op)

    def visit_BufferRegion(self, op: BufferRegion) -> BufferRegion:
        op = self.generic(op)
        flat = self.flat(op.buffer)
        if flat is op.buffer:
            return op
        starts = self.indices(op.buffer, tuple(r.min for r in op.region))
        ends = self.indices(op.buffer, tuple(build.sub(build.add(r.min, r.extent), 1) for r in op.region))
        ranges = [
            Range(low, self.analyzer.simplify(build.add(build.sub(high, low), 1)))
            for low, high in zip(starts, ends, strict=True)
        ]
        return BufferRegion(flat, tuple(ranges), span=op.span)

    def visit_AllocBuffer(self, op: AllocBuffer) -> Stmt:
        op = self.generic(op)
        return op.with_(buffer=self.flat(op.buffer))

    def visit_AllocConst(self, op: AllocConst) -> Stmt:
        flat = self.flat(op.buffer)
        return op if flat is op.buffer else op.with_(buffer=flat, data=op.data.reshape(-1))

    def visit_DeclBuffer(self, op: DeclBuffer) -> Stmt:
        return op.with_(buffer=self.flat(op.buffer))

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        op = self.generic(op)
        flat = self.flat(op.buffer)
        if flat is op.buffer:
            return op
        value = op.value
        if value.dtype.is_bool and not flat.dtype.is_bool:
            value = build.cast(flat.dtype.with_lanes(value.dtype.lanes), value)
        return BufferStore(flat, value, self.indices(op.buffer, op.indices), op.predicate, span=op.span)

    def enter_Call(self, op: Call) -> Expr | None:
        """The address of a bool element is the address of its int8, not of a converted value."""
        if op.op is not Op.get("tir.address_of") or not isinstance(op.args[0], BufferLoad):
            return None
        load = op.args[0]
        flat = self.flat(load.buffer)
        inner = tuple(self.visit(index) for index in load.indices)
        if flat is load.buffer and all(a is b for a, b in zip(inner, load.indices, strict=True)):
            return op
        return op.with_(args=(load.with_(buffer=flat, indices=self.indices(load.buffer, inner)),))

    def visit_BufferLoad(self, op: BufferLoad) -> Expr:
        flat = self.flat(op.buffer)
        if flat is op.buffer:
            return op
        made = BufferLoad(flat, self.indices(op.buffer, op.indices), op.predicate, span=op.span)
        if op.buffer.dtype.is_bool and not flat.dtype.is_bool:
            return Cast(BOOL.with_lanes(op.dtype.lanes), made, span=op.span)
        return made


class FlattenBuffer(FuncPass):
    """Multi-dimensional buffers become one-dimensional (or one axis for each group of ``axis_separators``).

    Indices become offsets by the shape or the strides, plus the element offset, and are simplified; bool buffers
    are stored as int8, loads and stores converted. A parameter buffer keeps its shape in the signature, and the body
    starts with a flat view of its data. Needs LowerOpaqueBlock in a pipeline, and LowerMatchBuffer always.
    """

    name = "tir.FlattenBuffer"
    stage = Stage.FLAT
    needs = ("tir.LowerMatchBuffer",)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Flatten every buffer of a function."""
        worker = _Flattener()
        views: list[Stmt] = []
        for buffer in func.buffers:
            flat = worker.flat(buffer)
            if flat is not buffer:
                views.append(DeclBuffer(flat))
        body = worker.visit(func.body)
        if not views:
            return func.with_body(body)
        return func.with_body(seq(*views, body))
