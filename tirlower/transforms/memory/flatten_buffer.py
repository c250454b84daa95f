"""FlattenBuffer: multi-dimensional accesses become accesses of flat buffers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np

from tirlower.analysis.data_analyzer import DataAnalyzer
from tirlower.arith import Analyzer, detect_iter_map, normalize_iter_map_to_expr
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, BufferRegion, Range, pointer_dtype
from tirlower.ir.cancel import expr_key
from tirlower.ir.dtype import BOOL, INT64, Array, DataType
from tirlower.ir.expr import BufferLoad, Call, Cast, Expr, FloorMod, IntImm, Let, Var, const, is_const_int
from tirlower.ir.failure_message import failure
from tirlower.ir.func import PrimFunc
from tirlower.ir.op import Op
from tirlower.ir.query import each
from tirlower.ir.splice import split_head
from tirlower.ir.stmt import (
    AllocBuffer,
    AllocConst,
    Assert,
    AttrStmt,
    Bind,
    Block,
    BufferStore,
    DeclBuffer,
    Evaluate,
    Seq,
    Stmt,
    seq,
)
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.fact_mutator import FactMutator

__all__ = ["FlattenBuffer", "flattened_buffer"]


def _groups(buffer: Buffer) -> list[list[int]]:
    """The dimensions of each flat axis, as the axis separators split them."""
    groups: list[list[int]] = [[]]
    for axis in range(len(buffer.shape)):
        for _ in range(buffer.axis_separators.count(axis)):
            groups.append([])
        groups[-1].append(axis)
    return groups


def _is_flat(buffer: Buffer, analyzer: Analyzer) -> bool:
    """Whether a buffer is as flat as it can be.

    A view that starts before its data (see :func:`_lowest`) keeps that offset: no index of it is negative.
    """
    if len(_groups(buffer)) != len(buffer.shape) or buffer.strides or pointer_dtype(buffer.dtype) is not buffer.dtype:
        return False
    return is_const_int(buffer.elem_offset, 0) or analyzer.const_int_bound(buffer.elem_offset).max_value <= 0


def _widened(buffer: Buffer, analyzer: Analyzer) -> Buffer:
    """A buffer whose layout is data, with it in int64: positions by it wrap in the type of the subscripts, and then the
    sum of a position and of where the buffer starts is not where the element is."""
    parts = *buffer.shape[1:], *buffer.strides, buffer.elem_offset
    if not isinstance(analyzer, DataAnalyzer) or not any(map(analyzer.wrapping.is_data, parts)):
        return buffer
    return buffer.with_(
        shape=tuple(build.cast(INT64, extent) for extent in buffer.shape),
        strides=tuple(build.cast(INT64, stride) for stride in buffer.strides),
        elem_offset=build.cast(INT64, buffer.elem_offset),
    )


def _lowest(buffer: Buffer, analyzer: Analyzer) -> Expr:
    """The position of the element with the least address, where it may lie before the data pointer; else 0.

    A reversed array's data pointer is that of its last element, and strides of unknown sign may be negative.
    """
    dtype = buffer.elem_offset.dtype
    fixed: Expr = buffer.elem_offset
    unknown: Expr = const(0, dtype)
    for extent, stride in zip(buffer.shape, buffer.strides, strict=False):
        bound = analyzer.const_int_bound(stride)
        if bound.min_value >= 0:
            continue
        reach = build.mul(build.sub(extent, 1), stride)
        if bound.max_value <= 0:
            fixed = build.add(fixed, reach)
        else:
            unknown = build.add(unknown, build.min_(reach, const(0, reach.dtype)))
    fixed = analyzer.simplify(fixed)
    below = fixed if isinstance(fixed, IntImm) and fixed.value < 0 else const(0, dtype)
    return analyzer.simplify(build.add(below, build.cast(dtype, unknown)))


def _extent(buffer: Buffer, group: list[int], analyzer: Analyzer, lowest: Expr | None) -> Expr:
    """The elements that a group of dimensions spans."""
    size: Expr = const(1, buffer.shape[0].dtype if buffer.shape else "int32")
    if not buffer.strides:
        extents = [buffer.shape[axis] for axis in group]
        known = [extent.value for extent in extents if isinstance(extent, IntImm)]
        if len(known) == len(extents):
            return _constant_extent(buffer, known, size.dtype)
        for extent in extents:
            size = build.mul(size, extent)
        return size
    reach = size
    for axis in group:
        extent, stride = buffer.shape[axis], buffer.strides[axis]
        span = build.mul(build.sub(extent, 1), stride)
        if analyzer.const_int_bound(stride).min_value < 0:
            span = build.max_(span, const(0, span.dtype))
        reach = build.add(reach, span)
    if lowest is not None and not is_const_int(lowest, 0):
        return build.sub(reach, build.cast(reach.dtype, lowest))
    if group:
        # The outermost stride times its extent, padding included, where that covers the group.
        padded = build.mul(buffer.shape[group[0]], buffer.strides[group[0]])
        if analyzer.can_prove(build.ge(padded, reach)):
            return padded
    return reach


def _constant_extent(buffer: Buffer, extents: list[int], kind: DataType) -> Expr:
    """The product of extents in their type, or in int64 where that is too narrow."""
    count = math.prod(extents)
    if count > INT64.max_value:
        raise TransformError(
            f"buffer {buffer.name!r} has {' * '.join(map(str, extents))} elements, more than int64 counts",
            origin="tir.FlattenBuffer",
            help="use smaller extents",
        )
    return const(count, kind if count <= kind.max_value else INT64)


def _fits(value: Expr, kind: DataType) -> bool:
    if isinstance(value, IntImm):
        return bool(kind.min_value <= value.value <= kind.max_value)
    return value.dtype.bits <= kind.bits


def flattened_buffer(buffer: Buffer, analyzer: Analyzer, allocated: bool = False) -> Buffer:
    """The flat form of a buffer: one axis for each group of dimensions, no strides and no offset, bool as int8.

    The same object when it is flat already. A buffer that may reach before its data pointer (negative strides, unless
    it is ``allocated``) keeps the distance as its element offset, so that no index is negative.
    """
    if _is_flat(buffer, analyzer):
        return buffer
    buffer = _widened(buffer, analyzer)
    groups = _groups(buffer)
    lowest = None if allocated or len(groups) > 1 else _lowest(buffer, analyzer)
    shape = [_extent(buffer, group, analyzer, lowest) for group in groups]
    if len(groups) == 1:
        dtype = shape[0].dtype
        if allocated and not _fits(buffer.elem_offset, dtype):
            dtype = buffer.elem_offset.dtype  # a size that is cut is too small
        shape[0] = build.add(build.cast(dtype, shape[0]), build.cast(dtype, buffer.elem_offset))
    return buffer.with_(
        shape=tuple(analyzer.canonical_simplify(size) for size in shape),
        dtype=pointer_dtype(buffer.dtype),
        strides=(),
        elem_offset=const(0, buffer.elem_offset.dtype) if lowest is None else lowest,
        axis_separators=tuple(range(1, len(groups))),
    )


class _Flattener(FactMutator):
    def __init__(self, func: PrimFunc) -> None:
        super().__init__(func)
        # A buffer is one wherever it is used, so its layout may not know the conditions around its first use.
        self.layouts = FactMutator(func).analyzer
        if isinstance(self.layouts, DataAnalyzer):
            self.layouts.wrapping.data = self.wrapping.data  # and what is bound to data on the way
        self.remap: dict[Buffer, Buffer] = {}
        self.loops: dict[Var, Range] = {}
        self.simplified: dict[object, Expr] = {}
        """Indices by symbolic strides in the loops and conditions around."""
        self.func = func
        self.known: set[Var] = {*func.params, *(buffer.data for buffer in func.buffers)}

    @contextmanager
    def in_loop(self, var: Var, low: Expr, extent: Expr) -> Iterator[None]:
        """Inside a loop its variable is an iterator of the indices."""
        before = self.loops.get(var)  # the loops of a thread axis share theirs
        self.loops[var] = Range(low, extent)
        self.simplified.clear()
        with super().in_loop(var, low, extent):
            yield
        self.simplified.clear()
        del self.loops[var]
        if before is not None:
            self.loops[var] = before

    @contextmanager
    def holding(self, condition: Expr) -> Iterator[None]:
        """The facts of a condition hold inside."""
        self.simplified.clear()
        with super().holding(condition):
            yield
        self.simplified.clear()

    def flat(self, buffer: Buffer, allocated: bool = False) -> Buffer:
        known = self.remap.get(buffer)
        if known is None:
            if allocated:
                self.known.add(buffer.data)
            elif buffer.data not in self.known and not _bound_in_expression(self.func, buffer.data):
                raise TransformError(
                    f"buffer {buffer.name!r} is used before its definition",
                    span=buffer.data.span,
                    help="allocate it, or declare it on data that is in scope",
                )
            known = flattened_buffer(buffer, self.layouts, allocated)
            self.remap[buffer] = known
        return known

    def indices(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The flat indices of an access, simplified under the loops around."""
        flat = self.flat(buffer)
        if flat is buffer:
            return indices
        layout = _widened(buffer, self.layouts)
        if layout is not buffer:
            buffer = layout
            kinds = [INT64.with_lanes(index.dtype.lanes, index.dtype.scalable) for index in indices]
            indices = tuple(map(build.cast, kinds, indices))
        made: list[Expr] = []
        for group, extent in zip(_groups(buffer), flat.shape, strict=True):
            # Elements that only int64 counts have positions of int64.
            wide = buffer.shape and extent.dtype.bits > buffer.shape[0].dtype.bits
            # A subscript that is data wraps in its type, its place in the buffer does not.
            wide = wide or self._is_wide_data(extent, indices)
            offset: Expr = const(0, INT64 if wide else indices[0].dtype.element if indices else "int32")
            fused = None if wide or buffer.strides or len(group) < 2 else self._fused(buffer, group, indices)
            if fused is not None:
                made.append(fused)
                continue
            for axis in group:
                if buffer.strides:
                    offset = build.add(offset, build.mul(indices[axis], buffer.strides[axis]))
                else:
                    offset = build.add(build.mul(offset, buffer.shape[axis]), indices[axis])
            made.append(offset)
        if len(made) == 1:
            made[0] = build.sub(build.add(made[0], buffer.elem_offset), flat.elem_offset)
        elif not is_const_int(buffer.elem_offset, 0):
            raise TransformError(
                f"buffer {buffer.name!r} has an element offset and axis separators, which do not go together",
                help="drop one of them: an offset names one flat axis",
            )
        return tuple(self._simplified(index, buffer) for index in made)

    def _is_wide_data(self, extent: Expr, indices: tuple[Expr, ...]) -> bool:
        if len(indices) < 2 or not isinstance(self.analyzer, DataAnalyzer) or isinstance(extent, IntImm):
            return False
        narrow = all(index.dtype.is_scalar and index.dtype.bits == 32 for index in indices)
        return narrow and any(self.wrapping.is_data(index) for index in indices)

    def _fused(self, buffer: Buffer, group: list[int], indices: tuple[Expr, ...]) -> Expr | None:
        """What the indices of a group of symbolic extents are the digits of, where they are those of one number."""
        number, last = indices[group[-1]], buffer.shape[group[-1]]
        if number.__class__ is not FloorMod or isinstance(last, IntImm):
            return None
        while isinstance(number, FloorMod):
            number = number.a
        below: Expr = const(1, last.dtype)
        for axis in reversed(group):
            digits = [build.floordiv(number, below)]
            if axis != group[0]:
                whole = build.mul(buffer.shape[axis], below)
                digits = [
                    build.floormod(digits[0], buffer.shape[axis]),
                    build.floordiv(build.floormod(number, whole), below),
                ]
                below = whole
            have, *forms = [expr_key(self.analyzer.simplify(expr)) for expr in (indices[axis], *digits)]
            if have not in forms:
                return None
        return number

    def _simplified(self, index: Expr, buffer: Buffer) -> Expr:
        """An index simplified; one by symbolic strides as a sum of its loops' variables by these, as TIR has it."""
        inner = buffer.shape[1:]
        if len(inner) < 2 or not index.dtype.is_scalar or all(isinstance(e, IntImm) for e in inner):
            return self.analyzer.simplify(index)
        key = buffer, expr_key(index)
        if key not in self.simplified:
            self.simplified[key] = self._by_strides(index, buffer)
        return self.simplified[key]

    def _by_strides(self, index: Expr, buffer: Buffer) -> Expr:
        # Where an element is accessed, no extent is 0.
        with ExitStack() as facts:
            for extent in buffer.shape:
                if not isinstance(extent, IntImm):
                    facts.enter_context(self.analyzer.constraint_scope(build.gt(extent, const(0, extent.dtype))))
            found = detect_iter_map([index], self.loops, analyzer=self.analyzer)
            if found.indices and is_const_int(found.padding_predicate, 0):
                return normalize_iter_map_to_expr(found.indices[0], self.analyzer)
        return self.analyzer.simplify(index)

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

    def visit_Bind(self, op: Bind) -> Stmt:
        self.known.add(op.var)
        return self.generic(op)

    def visit_AllocBuffer(self, op: AllocBuffer) -> Stmt:
        op = self.generic(op)
        made = op.with_(buffer=self.flat(op.buffer, allocated=True))
        inside = self._starts_inside(op.buffer)
        if inside is None:
            return made
        layout = *op.buffer.strides, op.buffer.elem_offset
        text = f"allocated buffer {op.buffer.name!r} has a negative stride or element offset: "
        text += ", ".join(f"{{{at}}}" for at in range(len(layout)))
        if not is_const_int(op.condition, 1):
            inside = build.logical_or(build.logical_not(op.condition), inside)
        return Seq((Assert(inside, failure("MemoryError", text, *layout), span=op.span), made))

    def _starts_inside(self, buffer: Buffer) -> Expr | None:
        """That no element of an allocated buffer stands in front of its memory; None where that is certain."""
        open_ends: list[Expr] = []
        for what, end in (*(("stride", s) for s in buffer.strides), ("element offset", buffer.elem_offset)):
            if isinstance(end, IntImm) and end.value < 0:
                raise TransformError(
                    f"allocated buffer {buffer.name!r} has a negative {what}: {end.value}",
                    span=buffer.data.span,
                    origin="tir.FlattenBuffer",
                    help="reverse the subscripts instead: no element stands in front of the memory",
                )
            holds = build.ge(end, const(0, end.dtype))
            if not self.analyzer.can_prove(holds):
                open_ends.append(holds)
        return build.all_of(*open_ends) if open_ends else None

    def visit_AllocConst(self, op: AllocConst) -> Stmt:
        flat = self.flat(op.buffer, allocated=True)
        if flat is op.buffer:
            return op
        return op.with_(buffer=flat, data=_flat_data(op, flat))

    def visit_DeclBuffer(self, op: DeclBuffer) -> Stmt:
        # A layout is computed where it is declared: code has it in the accesses, a division by zero here.
        parts = *op.buffer.shape, *op.buffer.strides, op.buffer.elem_offset
        fails = [Evaluate(part, span=op.span) for part in parts if self.wrapping.may_fail(part)]
        return seq(*fails, op.with_(buffer=self.flat(op.buffer)))

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        op = self.generic(op)
        return op.with_(node=self.flat(op.node)) if isinstance(op.node, Buffer) else op

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        op = self.generic(op)
        flat = self.flat(op.buffer)
        if flat is op.buffer:
            return op
        value = op.value
        if value.dtype.is_bool and not flat.dtype.is_bool:
            value = build.cast(flat.dtype.element.with_lanes(value.dtype.lanes, value.dtype.scalable), value)
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
        if op.dtype.is_bool and not flat.dtype.is_bool:
            return Cast(BOOL.with_lanes(op.dtype.lanes, op.dtype.scalable), made, span=op.span)
        return made


def _bound_in_expression(func: PrimFunc, data: Var) -> bool:
    """Whether a let of an expression defines a pointer."""
    return any(let.var is data for let in each(Let, func.body))


def _flat_data(op: AllocConst, flat: Buffer) -> Array:
    """The elements of a constant in the layout of its flat buffer."""
    data = op.data.astype(flat.dtype.element.numpy) if op.buffer.dtype.is_bool else op.data
    shape = tuple(e.value for e in flat.shape if isinstance(e, IntImm))
    if not op.buffer.strides and is_const_int(op.buffer.elem_offset, 0):
        return data.reshape(shape)
    parts = (*op.buffer.strides, op.buffer.elem_offset)
    if len(shape) != 1 or not all(isinstance(part, IntImm) for part in parts):
        raise TransformError(f"the layout of the constant {op.buffer.name!r} is not known", span=op.span)
    extents = [e.value for e in op.buffer.shape if isinstance(e, IntImm)]
    strides = [s.value for s in op.buffer.strides if isinstance(s, IntImm)]
    if not strides:
        strides = [int(np.prod(extents[axis + 1 :], dtype=np.int64)) for axis in range(len(extents))]
    made = np.zeros(shape, data.dtype)
    offset = op.buffer.elem_offset
    start = (offset.value if isinstance(offset, IntImm) else 0) * data.itemsize
    view = np.ndarray(tuple(extents), data.dtype, made, start, [s * data.itemsize for s in strides])
    view[...] = data.reshape(tuple(extents))
    return made


class FlattenBuffer(FuncPass):
    """Multi-dimensional buffers become one-dimensional (or one axis for each group of ``axis_separators``).

    Indices become offsets by the shape or the strides, plus the element offset, and are simplified under the loops
    and conditions around; bool buffers are stored as int8, loads and stores converted. A parameter buffer keeps its
    shape in the signature; if the body uses it, the body starts with a flat view of its data. A view whose strides may
    be negative starts at its lowest element.

    Needs LowerMatchBuffer, and in a pipeline stands after LowerOpaqueBlock. Raises :class:`TransformError` for a
    matched region that is left, for a buffer whose data is not defined before its use, and for an element offset together with axis separators.

    >>> from tirlower.script import parse
    >>> print(FlattenBuffer()(parse('''
    ... @T.prim_func
    ... def scale(A: T.Buffer((4, 8), "float32")):
    ...     for i, j in T.grid(4, 8):
    ...         A[i, j] = A[i, j] * T.float32(2)
    ... ''')).script())
    @T.prim_func
    def scale(A: T.Buffer((4, 8), "float32")):
        A_1 = T.decl_buffer((32,), data=A.data)
        for i, j in T.grid(4, 8):
            A_1[i * 8 + j] = A_1[i * 8 + j] * T.float32(2)
    """

    name = "tir.FlattenBuffer"
    stage = Stage.FLAT
    needs = ("tir.LowerMatchBuffer", Fact.VECTOR_LOOPS)
    breaks = (Fact.WHOLE_BUFFERS,)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Flatten every buffer of a function."""
        worker = _Flattener(func)
        body = worker.visit(func.body)
        used = [(buffer, worker.remap.get(buffer, buffer)) for buffer in func.buffers]
        views: list[Stmt] = [DeclBuffer(flat) for buffer, flat in used if flat is not buffer]
        return func.with_body(_with_views(body, views) if views else body)


def _with_views(body: Stmt, views: list[Stmt]) -> Stmt:
    """A body with declarations at its head: inside the root block, where there is one."""
    if not isinstance(body, Block):
        return Seq((*views, *(body.stmts if isinstance(body, Seq) else (body,))))
    if body.reads or body.writes:
        # Its regions name the views, so they stand in a root block around it.
        return Block("root", (), const(True, "bool"), (), (), None, (), {}, Seq((*views, body)))
    head, rest = split_head(body.body)
    return body.with_(body=Seq((*head, *views, *rest)))
