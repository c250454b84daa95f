"""What a block reads and writes: the bounding regions of its accesses.

A region is the box around every access of a buffer, with the loops and lets inside the block relaxed, in terms of the
block's iterators. A nested block contributes its declared regions. Where an index has no bound of a simple form,
the whole dimension is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

from tirlower.ir import build
from tirlower.ir.buffer import Buffer, BufferRegion, MatchBufferRegion, Range
from tirlower.ir.cancel import cancelled, expr_key, linear_difference
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import (
    Add,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mul,
    Ramp,
    Select,
    Sub,
    Var,
    const,
)
from tirlower.ir.functor import Dispatch, substitute
from tirlower.ir.op import Op
from tirlower.ir.stmt import (
    AllocBuffer,
    AllocConst,
    Bind,
    Block,
    BufferStore,
    DeclBuffer,
    For,
    Seq,
    Stmt,
)

__all__ = ["AccessRegions", "block_access_regions", "relax_region"]

Interval = tuple[Expr, Expr]
"""Least and greatest value, both included."""


@dataclass(frozen=True)
class AccessRegions:
    """What a block accesses: regions read, regions written, and buffers used through their data pointer."""

    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    opaque: tuple[Buffer, ...]


def block_access_regions(block: Block, buffers: Mapping[Var, Buffer] | None = None) -> AccessRegions:
    """The regions that the body and init of a block access.

    ``buffers`` maps data variables to the buffers outside the block (for accesses through pointers). If the block
    has an init, the buffers that it writes are left out of the reads. Buffers allocated inside are left out.
    """
    detector = _Detector(buffers or {})
    for match in block.match_buffers:
        detector.matched[match.buffer] = match
        detector.own[match.buffer.data] = match.buffer
    if block.init is not None:
        detector.stmt(block.init)
    detector.stmt(block.body)
    reads = detector.collect(detector.reads)
    writes = detector.collect(detector.writes)
    if block.init is not None:
        written = {id(region.buffer) for region in writes}
        reads = tuple(region for region in reads if id(region.buffer) not in written)
    return AccessRegions(reads, writes, tuple(detector.opaque.values()))


def relax_region(region: BufferRegion, loops: Iterable[tuple[Var, Range]]) -> BufferRegion:
    """The box that a region covers over loops, given outermost first as (variable, range)."""
    relaxer = _Relaxer()
    for var, domain in loops:
        relaxer.enter_loop(var, domain.min, domain.extent)
    return BufferRegion(
        region.buffer,
        tuple(
            _as_range(relaxer.of_range(part), extent)
            for part, extent in zip(region.region, region.buffer.shape, strict=True)
        ),
        span=region.span,
    )


class _Relaxer:
    """Intervals of index expressions, over the loops entered and with the lets substituted."""

    def __init__(self) -> None:
        self.known: dict[Var, Interval | None] = {}

    def enter_loop(self, var: Var, start: Expr, extent: Expr) -> None:
        low = self.interval(start)
        high = self.interval(linear_difference(build.add(start, extent), const(1, start.dtype)))
        self.known[var] = None if low is None or high is None else (low[0], high[1])

    def of_range(self, part: Range) -> Interval | None:
        low = self.interval(part.min)
        high = low if isinstance(part.extent, IntImm) and part.extent.value == 1 else None
        if high is None:
            last = linear_difference(build.add(part.min, part.extent), const(1, part.min.dtype))
            high = self.interval(last)
        return None if low is None or high is None else (low[0], high[1])

    def interval(self, root: Expr) -> Interval | None:
        """The bounds of an index; None where it has none of a simple form."""
        known = self.known
        if root.__class__ is Var:
            return known.get(root, (root, root))
        if root.__class__ is IntImm:
            return (root, root)
        memo: dict[int, Interval | None] = {}
        stack: list[tuple[Expr, bool]] = [(root, False)]
        bound: list[Var] = []
        while stack:
            op, ready = stack.pop()
            if ready:
                if op.__class__ is Let:
                    continue
                memo[id(op)] = self._combine(op, memo)
                continue
            if id(op) in memo:
                continue
            if op.__class__ is Var:
                memo[id(op)] = known.get(op, (op, op))
            elif op.is_leaf:
                memo[id(op)] = (op, op)
            elif isinstance(op, Let):
                # A let in an index is rare: bound by its own walk, then the body takes its place.
                known[op.var] = self.interval(op.value)
                bound.append(op.var)
                memo[id(op)] = self.interval(op.body)
            else:
                stack.append((op, True))
                stack += [(c, False) for c in op.children() if id(c) not in memo]
        for var in bound:
            known.pop(var, None)
        return memo[id(root)]

    def _combine(self, op: Expr, memo: dict[int, Interval | None]) -> Interval | None:
        parts: list[Interval] = []
        fixed = True
        for operand in op.children():
            got = memo[id(operand)]
            if got is None:
                return None
            fixed = fixed and got[0] is operand and got[1] is operand
            parts.append(got)
        if fixed and op.__class__ is not Ramp:
            return (op, op)
        if all(low is high for low, high in parts) and op.__class__ is not Ramp:
            values = iter([low for low, _ in parts])
            point = op.map_children(lambda _: next(values))
            return (point, point)
        rule = _RULES.get(op.__class__)
        return rule(op, parts) if rule is not None else None


def _mul(op: Mul, parts: list[Interval]) -> Interval | None:
    (a_low, a_high), (b_low, b_high) = parts
    if b_low is not b_high:
        a_low, a_high, b_low, b_high = b_low, b_high, a_low, a_high
    if b_low is b_high and isinstance(b_low, IntImm):
        low, high = build.mul(a_low, b_low), build.mul(a_high, b_low)
        return (low, high) if b_low.value >= 0 else (high, low)
    if b_low is b_high and isinstance(b_low, Var) and b_low.nonneg:
        return (build.mul(a_low, b_low), build.mul(a_high, b_low))
    if all(isinstance(e, IntImm) for e in (a_low, a_high, b_low, b_high)):
        corners = [x.value * y.value for x in (a_low, a_high) for y in (b_low, b_high)]  # type: ignore[attr-defined]
        return (const(min(corners), op.dtype), const(max(corners), op.dtype))
    return None


def _floordiv(op: FloorDiv, parts: list[Interval]) -> Interval | None:
    (low, high), (divisor, other) = parts
    if divisor is not other or not isinstance(divisor, IntImm) or divisor.value == 0:
        return None
    first, last = build.floordiv(low, divisor), build.floordiv(high, divisor)
    return (first, last) if divisor.value > 0 else (last, first)


def _floormod(op: FloorMod, parts: list[Interval]) -> Interval | None:
    (low, high), (divisor, other) = parts
    if divisor is not other or not isinstance(divisor, IntImm) or divisor.value <= 0:
        return None
    size = divisor.value
    if isinstance(low, IntImm) and isinstance(high, IntImm) and low.value // size == high.value // size:
        return (const(low.value % size, op.dtype), const(high.value % size, op.dtype))
    return (const(0, op.dtype), const(size - 1, op.dtype))


def _minmax(op: Min | Max, parts: list[Interval]) -> Interval:
    choose = _lesser if isinstance(op, Min) else _greater
    return (choose(parts[0][0], parts[1][0]), choose(parts[0][1], parts[1][1]))


def _union_of(parts: list[Interval]) -> Interval:
    (a_low, a_high), (b_low, b_high) = parts
    return (_lesser(a_low, b_low), _greater(a_high, b_high))


def _cast(op: Cast, parts: list[Interval]) -> Interval | None:
    if not op.dtype.is_integral or not op.value.dtype.is_integral:
        return None
    return (build.cast(op.dtype, parts[0][0]), build.cast(op.dtype, parts[0][1]))


def _ramp(op: Ramp, parts: list[Interval]) -> Interval | None:
    (low, high), (stride, other) = parts
    if stride is not other or not isinstance(stride, IntImm) or not isinstance(op.lanes, int):
        return None
    reach = const((op.lanes - 1) * stride.value, op.base.dtype)
    return (low, build.add(high, reach)) if stride.value >= 0 else (build.add(low, reach), high)


def _call(op: Call, parts: list[Interval]) -> Interval | None:
    if op.op is Op.find("tir.if_then_else"):
        return _union_of(parts[1:])
    if op.op is Op.find("tir.likely"):
        return parts[0]
    return None


_Rule: TypeAlias = "Callable[[Expr, list[Interval]], Interval | None]"
_RULES = cast(  # each takes expressions of its class
    "dict[type, _Rule]",
    {
        Add: lambda op, p: (build.add(p[0][0], p[1][0]), build.add(p[0][1], p[1][1])),
        Sub: lambda op, p: (build.sub(p[0][0], p[1][1]), build.sub(p[0][1], p[1][0])),
        Mul: _mul,
        FloorDiv: _floordiv,
        FloorMod: _floormod,
        Min: _minmax,
        Max: _minmax,
        Select: lambda op, p: _union_of(p[1:]),
        Cast: _cast,
        Ramp: _ramp,
        Broadcast: lambda op, p: p[0],
        Call: _call,
    },
)


def _lesser(a: Expr, b: Expr) -> Expr:
    difference = _constant_gap(a, b)
    return build.min_(a, b) if difference is None else (a if difference <= 0 else b)


def _greater(a: Expr, b: Expr) -> Expr:
    difference = _constant_gap(a, b)
    return build.max_(a, b) if difference is None else (a if difference >= 0 else b)


def _constant_gap(a: Expr, b: Expr) -> int | None:
    if a is b:
        return 0
    a, b = build.match_types(a, b)
    gap = linear_difference(a, b)
    return gap.value if isinstance(gap, IntImm) else None


def _as_range(interval: Interval | None, extent: Expr) -> Range:
    if interval is None:
        return Range.from_extent(extent)
    low, high = interval
    if low is high:
        return Range(low, const(1, low.dtype))
    low, high = build.match_types(low, high)
    return Range(cancelled(low), linear_difference(high, low, plus=1))


_Table = dict[int, tuple[Buffer, list[Interval | None], set[object]]]


class _Detector(Dispatch[Stmt, None]):
    """Walk a block's body and collect, for each buffer, the union of its access intervals."""

    def __init__(self, buffers: Mapping[Var, Buffer]) -> None:
        self.outer = buffers  # shared by all blocks of a function, so never copied
        self.own: dict[Expr, Buffer] = {}
        self.hidden: set[Var] = set()
        self.relaxer = _Relaxer()
        self.matched: dict[Buffer, MatchBufferRegion] = {}
        self.inside: set[int] = set()
        self.views: dict[int, Buffer] = {}
        self.reads: _Table = {}
        self.writes: _Table = {}
        self.opaque: dict[int, Buffer] = {}

    def buffer_of(self, data: Expr) -> Buffer | None:
        """The buffer, not allocated inside, that a data variable belongs to."""
        found = self.own.get(data)
        if found is not None or not isinstance(data, Var) or data in self.hidden:
            return found
        return self.outer.get(data)

    def collect(self, table: _Table) -> tuple[BufferRegion, ...]:
        return tuple(
            BufferRegion(buffer, tuple(_as_range(i, extent) for i, extent in zip(intervals, buffer.shape, strict=True)))
            for buffer, intervals, _ in table.values()
            if id(buffer) not in self.inside
        )

    def stmt(self, op: Stmt) -> None:
        """Visit a statement."""
        self.dispatch(op)

    def on_Seq(self, op: Seq) -> None:
        """Declarations are forgotten at the end."""
        for part in op.stmts:
            self.stmt(part)
        for part in op.stmts:
            if part.__class__ is Bind:
                self.relaxer.known.pop(part.var, None)

    def on_BufferStore(self, op: BufferStore) -> None:
        self.access(self.writes, op.buffer, op.indices)
        for part in (op.value, *op.indices, *(() if op.predicate is None else (op.predicate,))):
            self.expr(part)

    def on_For(self, op: For) -> None:
        self.expr(op.min)
        self.expr(op.extent)
        before = self.relaxer.known.get(op.loop_var)
        self.relaxer.enter_loop(op.loop_var, op.min, op.extent)
        self.stmt(op.body)
        del self.relaxer.known[op.loop_var]
        if before is not None:
            self.relaxer.known[op.loop_var] = before

    def on_Bind(self, op: Bind) -> None:
        named = self.buffer_of(op.value) if isinstance(op.value, Var) else None
        if named is not None:
            self.own[op.var] = named  # another name of its pointer
            return
        self.expr(op.value)
        self.relaxer.known[op.var] = self.relaxer.interval(op.value) if op.value.dtype.is_integral else None

    def on_AllocBuffer(self, op: AllocBuffer | AllocConst) -> None:
        self.inside.add(id(op.buffer))
        self.hidden.add(op.buffer.data)

    on_AllocConst = on_AllocBuffer

    def on_DeclBuffer(self, op: DeclBuffer) -> None:
        base = self.buffer_of(op.buffer.data)
        if base is not None and base is not op.buffer:
            self.views[id(op.buffer)] = base
        else:
            self.inside.add(id(op.buffer))

    def otherwise(self, op: Stmt) -> None:
        """A statement of another class: what is inside it."""
        for child in op.children():
            if isinstance(child, Stmt):
                self.stmt(child)
            elif isinstance(child, Expr):
                self.expr(child)

    def on_Block(self, block: Block) -> None:
        """A nested block counts by its declared regions, its iterators replaced by their bindings."""
        values = {it.var: it.value for it in block.iters if it.value is not None}
        for table, regions in ((self.reads, block.reads), (self.writes, block.writes)):
            for region in regions or ():
                parts = [Range(substitute(r.min, values), substitute(r.extent, values)) for r in region.region]
                self.add(table, region.buffer, [self.relaxer.of_range(part) for part in parts], None)

    def expr(self, root: Expr) -> None:
        """Record the loads and pointer uses of an expression, outermost first."""
        if root.is_leaf and root.__class__ is not Var and root.__class__ is not BufferLoad:
            return
        stack = [root]
        seen: set[int] = set()
        lets: list[Var] = []
        while stack:
            op = stack.pop()
            if id(op) in seen:
                continue
            seen.add(id(op))
            if isinstance(op, BufferLoad):
                self.access(self.reads, op.buffer, op.indices)
            elif isinstance(op, Var):
                buffer = self.buffer_of(op) if isinstance(op.type, PointerType) else None
                while buffer in self.matched:  # of a region: it is its source that the block accesses
                    buffer = self.matched[buffer].source.buffer
                if buffer is not None:
                    self.opaque.setdefault(id(buffer), buffer)
                continue
            elif isinstance(op, Let):
                self.relaxer.known[op.var] = self.relaxer.interval(op.value) if op.value.dtype.is_integral else None
                lets.append(op.var)
            elif isinstance(op, Call) and op.op is Op.find("tir.tvm_access_ptr") and self.pointer(op):
                stack += [op.args[3], op.args[2]]
                continue
            if not op.is_leaf:
                stack += reversed(list(op.children()))
        for var in lets:
            self.relaxer.known.pop(var, None)

    def pointer(self, call: Call) -> bool:
        """An access pointer with a constant mask reads and writes its whole buffer."""
        data, mask = call.args[1], call.args[4]
        buffer = self.buffer_of(data)
        if buffer is None or not isinstance(mask, IntImm):
            return buffer is None and isinstance(mask, IntImm)
        whole: list[Interval | None] = [None] * len(buffer.shape)
        if mask.value & 1:
            self.add(self.reads, buffer, list(whole), None)
        if mask.value & 2:
            self.add(self.writes, buffer, list(whole), None)
        return True

    def access(self, table: _Table, buffer: Buffer, indices: tuple[Expr, ...]) -> None:
        known = table.get(id(buffer))
        key = tuple([expr_key(i) for i in indices]) if not self.relaxer.known else None
        if known is not None and key is not None and key in known[2]:
            return
        self.add(table, buffer, [self.relaxer.interval(i) for i in indices], key)

    def add(self, table: _Table, buffer: Buffer, intervals: list[Interval | None], key: object) -> None:
        if id(buffer) in self.inside:
            return
        view_of = self.views.get(id(buffer))
        if view_of is not None:
            return self.add(table, view_of, [None] * len(view_of.shape), None)
        match = self.matched.get(buffer)
        if match is not None:
            return self.add(table, match.source.buffer, self.through(match, intervals, buffer), None)
        known = table.get(id(buffer))
        if known is None:
            table[id(buffer)] = (buffer, intervals, {key})
            return None
        merged = known[1]
        for axis, interval in enumerate(intervals):
            old = merged[axis]
            merged[axis] = None if old is None or interval is None else _union_of([old, interval])
        known[2].add(key)
        return None

    def through(
        self, match: MatchBufferRegion, intervals: list[Interval | None], buffer: Buffer
    ) -> list[Interval | None]:
        """An access of a matched buffer as one of its source: the trailing dimensions shift by the region's start."""
        source = match.source.region
        lead = len(source) - len(intervals)
        found: list[Interval | None] = []
        for axis, part in enumerate(source):
            if axis < lead:
                found.append(self.relaxer.of_range(part))
                continue
            interval = intervals[axis - lead]
            if interval is None:
                interval = self.relaxer.of_range(Range.from_extent(buffer.shape[axis - lead]))
            start = self.relaxer.interval(part.min)
            if interval is None or start is None:
                found.append(None)
            else:
                low = build.add(start[0], interval[0])
                high = low if interval[0] is interval[1] and start[0] is start[1] else build.add(start[1], interval[1])
                found.append((low, high))
        return found
