"""The accesses of statements: which elements of which memory, seen through views, matched regions and pointers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tirlower import ir
from tirlower.arith.intervals import EVERYTHING, INF
from tirlower.ir import Buffer, BufferLoad, BufferStore, Call, Expr, MatchBufferRegion, Op, Var
from tirlower.poly.conditions import Condition, at_least, negate
from tirlower.poly.expressions import buffer_forms
from tirlower.poly.extract_calls import CallEffects
from tirlower.poly.forms import Form, constant, single
from tirlower.poly.layouts import Layout, layout_of
from tirlower.poly.pointers import pointed_at
from tirlower.poly.scop import Access, Statement

if TYPE_CHECKING:
    from tirlower.poly.extract import _Extractor

__all__ = ["Accesses"]

_IF_THEN_ELSE = Op.get("tir.if_then_else")
_ACCESS_PTR = Op.get("tir.tvm_access_ptr")
_NOTHING = constant(0)


class Accesses:
    """Records what statements access, for an extractor, and where buffers and pointers lie in their memory."""

    def __init__(self, extractor: _Extractor) -> None:
        self.conv, self.space, self.pointers = extractor.conv, extractor.space, extractor.pointers
        self.shifts: dict[Var, Form] = {}
        """By how many bytes data variables point into the memory of their root."""
        self.layouts: dict[Buffer, Layout] = {}
        self.shapes: dict[Buffer, tuple[Form, ...]] = {}
        self.matched: dict[Buffer, tuple[Buffer, list[Form]]] = {}
        """What buffers that name a region are of, and where it begins."""
        self.calls = CallEffects(extractor)

    # Buffers and pointers

    def match(self, match: MatchBufferRegion) -> None:
        """A buffer that names a region: its subscripts count from the region's start."""
        target, region = match.buffer, match.source
        source = region.buffer
        mins = [self.conv.lin(part.min) for part in region.region]
        if source in self.matched:
            outer, starts = self.matched[source]
            lead = len(starts) - len(mins)
            mins = [*starts[:lead], *[a + b for a, b in zip(starts[lead:], mins, strict=True)]]
            source = outer
        self.matched[target] = (source, mins)
        _, strides, offset = buffer_forms(self.conv, source)
        lead = len(mins) - len(target.shape)
        extents = [self.conv.lin(part.extent) for part in region.region[len(region.region) - len(target.shape) :]]
        start = offset
        for low, stride in zip(mins, strides, strict=True):
            start = start + self.space.multiply(low, stride)
        named = [*zip(target.shape, extents, strict=True), *zip(target.strides, strides[lead:], strict=False)]
        for part, value in [*named, (target.elem_offset, start)]:
            if isinstance(part, Var) and part not in self.space.ranges:
                self.conv.values[part] = value
        if target.data is not source.data:
            start = start - self.conv.lin(target.elem_offset)
            size = source.dtype.bytes * source.dtype.lanes
            self.shifts[target.data] = self.memory(source.data)[1] + start.scaled(size)

    def bind(self, var: Var, value: Expr) -> None:
        """A variable stands for a value from here on; what is seen through a pointer is its memory."""
        if value.dtype.is_handle:
            self.calls.pointers[var] = value
            self.shifts[var] = self.shift_of(var, value)
        self.conv.bind(var, value)

    def memory(self, data: Var) -> tuple[Var, Form]:
        """The memory that a data variable points into, and by how many bytes from its start."""
        return self.pointers.root(data), self.shifts.get(data, _NOTHING)

    def shift_of(self, var: Var, value: Expr) -> Form:
        """How many bytes a pointer's value points into the memory of its root."""
        if self.pointers.root(var) is var:  # of unknown value, which may be another in each iteration
            return self.space.opaque(None, var.name, frozenset(self.conv.loops), EVERYTHING)
        end, size, start = pointed_at(value), 1, constant(0)
        if isinstance(end, BufferLoad):
            _, strides, start = buffer_forms(self.conv, end.buffer)
            for index, stride in zip(end.indices, strides, strict=True):
                start = start + self.space.multiply(self.conv.lin(index), stride)
            size, end = end.buffer.dtype.bytes * end.buffer.dtype.lanes, end.buffer.data
        access = _access_ptr(value)
        if access is not None:
            kind, start = access.args[0].dtype, self.conv.lin(access.args[2])
            size = kind.bytes * kind.lanes
        assert isinstance(end, Var)  # else the pointer would be a root
        return self.memory(end)[1] + start.scaled(size)

    def layout(self, buffer: Buffer) -> Layout:
        """The layout of a buffer at this place."""
        found = self.layouts.get(buffer)
        if found is None:
            found = layout_of(self.conv, buffer, self.memory(buffer.data)[1])
            if found.fixed:
                self.layouts[buffer] = found
        return found

    # Accesses

    def extents(self, buffer: Buffer) -> tuple[Form, ...]:
        """The shape of a buffer as forms."""
        found = self.shapes.get(buffer)
        if found is None:
            # One form for all accesses: by what is known wherever the buffer is.
            facts, self.conv.facts, guards, self.conv.guards = self.conv.facts, tuple, self.conv.guards, ()
            found = self.shapes[buffer] = tuple(self.conv.lin(extent) for extent in buffer.shape)
            self.conv.facts, self.conv.guards = facts, guards
        return found

    def read(self, statement: Statement, root: Expr) -> None:
        """The loads and calls of an expression; the arms of an ``if_then_else`` are guarded by its condition."""
        if root.is_leaf and root.__class__ is not BufferLoad:
            return
        outer = self.conv.guards
        stack: list[tuple[Expr, tuple[Condition, ...]]] = [(root, ())]
        seen: set[tuple[int, int]] = set()
        kept: list[tuple[Condition, ...]] = []  # conditions whose ids stand in `seen`
        while stack:
            op, guards = stack.pop()
            if op.is_leaf and op.__class__ is not BufferLoad:
                continue
            key = (id(op), id(guards))
            if key in seen:
                continue
            seen.add(key)
            self.conv.guards = guards
            if op.__class__ is BufferLoad:
                self.add(statement, op, op.buffer, op.indices, False, guards, op.predicate)
            elif op.__class__ is Call:
                if op.op is _IF_THEN_ELSE:
                    condition = self.conv.condition(op.args[0])
                    arms = ((*guards, condition), (*guards, negate(condition)))
                    kept += arms
                    stack += [(op.args[2], arms[1]), (op.args[1], arms[0]), (op.args[0], guards)]
                    continue
                stack += [(arg, guards) for arg in reversed(self.calls.visit(statement, op, guards))]
                continue
            elif op.__class__ in (ir.And, ir.Or) and op.dtype.is_scalar:
                first = self.conv.condition(op.a)
                second = (*guards, first if op.__class__ is ir.And else negate(first))
                kept.append(second)
                stack += [(op.b, second), (op.a, guards)]
                continue
            elif op.__class__ is ir.Let:
                self.bind(op.var, op.value)
            stack += [(child, guards) for child in reversed(list(op.children()))]
        self.conv.guards = outer

    def add(
        self,
        statement: Statement,
        node: Expr | BufferStore,
        buffer: Buffer,
        indices: Sequence[Expr],
        is_write: bool,
        guards: tuple[Condition, ...],
        predicate: Expr | None = None,
    ) -> Access:
        """Record an access of a buffer."""
        conv = self.conv
        if indices and (indices[-1].dtype.is_vector or indices[-1].dtype.scalable):
            kind = indices[-1].dtype
            conv.lane = self.space.lane(kind.lanes)
            if kind.scalable:
                self.space.ranges[conv.lane] = (0, INF)
                factor = self.space.opaque(("vscale",), "vscale", frozenset(), (1, INF), None)
                guards = (*guards, at_least((factor.scaled(kind.lanes) - single(conv.lane)).shifted(-1)))
        forms = tuple(conv.lin(index) for index in indices)
        if predicate is not None:
            guards = (*guards, conv.condition(predicate))
        conv.lane = None
        conditions = (*statement.conditions, *guards) if guards else statement.conditions
        made = Access(statement, node, buffer, self.pointers.root(buffer.data), forms, is_write, conditions, True)
        made.extents = self.extents(buffer)
        found = self.matched.get(buffer)
        if found is not None:
            source, mins = found
            lead = len(mins) - len(forms)
            made.site = (source, (*mins[:lead], *[m + f for m, f in zip(mins[lead:], forms, strict=True)]))
            buffer = source
        made.layout = self.layout(buffer)
        statement.accesses.append(made)
        return made


def _access_ptr(value: Expr) -> Call | None:
    """The ``tvm_access_ptr`` that a pointer's value is."""
    while isinstance(value, Call) and value.op is not _ACCESS_PTR and value.args and value.args[0].dtype.is_handle:
        value = value.args[0]
    return value if isinstance(value, Call) and value.op is _ACCESS_PTR else None
