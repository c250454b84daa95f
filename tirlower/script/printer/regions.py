"""Regions of buffers, and the objects that attributes hold, as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tirlower.ir import build
from tirlower.ir.buffer import BufferRegion, CommReducer, IterVar, Range
from tirlower.ir.cancel import cancelled, linear_difference
from tirlower.ir.digest import expr_deep_equal
from tirlower.ir.dtype import INT32
from tirlower.ir.expr import Expr, IntImm, is_const_int
from tirlower.ir.functor import by_class
from tirlower.ir.index_map import IndexMap
from tirlower.machine.target import Target
from tirlower.script.printer.buffers import BufferPrinter
from tirlower.script.printer.document import CLOSE, Piece, open_mark
from tirlower.script.printer.expressions import Item
from tirlower.script.printer.literals import string_text

__all__ = ["EXACT", "RegionPrinter", "stop_of"]

EXACT = "T.Range("
"""How a range starts whose extent is stated."""


def stop_of(start: Expr, extent: Expr) -> Expr | None:
    """The end of a range that is read back as its extent: without what the two have in common, where there is such; None where there is none."""
    whole = build.add(start, extent)
    for stop in (cancelled(whole), whole):
        if expr_deep_equal(linear_difference(stop, start), extent):
            return stop
    return None


class RegionPrinter(BufferPrinter):
    """A printer that knows ranges and regions too."""

    def exact_range(self, start: Expr, extent: Expr) -> list[Piece]:
        """``T.Range(start, extent=extent)``: nothing of it is simplified."""
        return [EXACT, *self.pieces(start), ", extent=", *self.pieces(extent), ")"]

    def attr_region(self, region: BufferRegion) -> list[Piece]:
        """The region that ``T.match_buffer`` names."""
        return self.region(region)

    def region(self, op: BufferRegion) -> list[Piece]:
        """``A[i, 0:4]``."""
        out: list[Piece] = [open_mark(op)] if self.marks else []
        out += [*self.mark(op.buffer, self.buffer(op.buffer)), "["]
        for i, part in enumerate(op.region):
            out += ([", "] if i else []) + self._range_index(part)
        out.append("()]" if not op.region else "]")
        return [*out, CLOSE] if self.marks else out

    def _range_index(self, part: Range) -> list[Piece]:
        start, extent = part.min, part.extent
        if extent.__class__ is IntImm and is_const_int(extent, 1) and extent.dtype is start.dtype:
            text = self.pieces(start)
        else:
            stop = extent if is_const_int(start, 0) else stop_of(start, extent)
            if stop is not None:
                text = [*self.pieces(start), ":", *self.pieces(stop)]
            else:
                text = self.exact_range(start, extent)
        return [open_mark(part), *text, CLOSE] if self.marks else text

    # Objects in attributes

    def attr_object(self, value: object) -> Sequence[Item]:
        """Ranges, regions, iteration variables and reducers as attribute values."""
        method = _OBJECTS.get(value.__class__)
        return super().attr_object(value) if method is None else method(self, value)

    def _range(self, value: Range) -> list[Piece]:
        return self.exact_range(value.min, value.extent)

    def _region(self, value: BufferRegion) -> list[Piece]:
        ranges: list[Piece] = []
        for part in value.region:
            ranges += ([", "] if ranges else []) + self.exact_range(part.min, part.extent)
        name = self.mark(value.buffer, self.buffer(value.buffer))
        return ["T.BufferRegion(", *name, ", [", *ranges, "])"]

    def _iter_var(self, value: IterVar) -> list[Item]:
        domain = ["None"] if value.dom is None else self.attr_object(value.dom)
        kinds = f", {string_text(value.kind)}, {string_text(value.thread_tag)})"
        return ["T.iter_var(", *self.mark(value.var, self.var(value.var)), ", ", *domain, kinds]

    def _target(self, value: Target) -> list[Item]:
        return ["T.target(", *self.attr(value.export()), ")"]

    def _reducer(self, value: CommReducer) -> list[Item]:
        self.names.push()
        names = [self.names.define(var, var.name) for var in (*value.lhs, *value.rhs)]
        results = self.listed(value.result)
        if len(value.result) != 1:
            results = ["(", *results, ")"]
        self.names.pop()
        return [f"T.comm_reducer(lambda {', '.join(names)}: ", *results, ", [", *self.listed(value.identity), "])"]

    def _index_map(self, value: IndexMap) -> Sequence[Item]:
        kinds = {var.dtype for var in value.initial_indices}
        if len(kinds) > 1:
            return super().attr_object(value)
        self.names.push()
        names = [self.names.define(var, var.name) for var in value.initial_indices]
        results = self.listed(value.final_indices)
        self.names.pop()
        options: list[Item] = []
        if value.inverse_index_map is not None:
            options += [", inverse_index_map=", *self.attr_object(value.inverse_index_map)]
        if kinds - {INT32}:
            options.append(f', index_dtype="{next(iter(kinds))}"')
        return [f"T.index_map(lambda {', '.join(names)}: [", *results, "]", *options, ")"]


_OBJECTS: dict[type, Callable[[RegionPrinter, object], Sequence[Item]]] = by_class(
    {
        Range: RegionPrinter._range,
        BufferRegion: RegionPrinter._region,
        IterVar: RegionPrinter._iter_var,
        CommReducer: RegionPrinter._reducer,
        IndexMap: RegionPrinter._index_map,
        Target: RegionPrinter._target,
    }
)
