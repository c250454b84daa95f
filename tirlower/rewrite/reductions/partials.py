"""The memory of partial results: how large it is, how a loop's body is turned to it, how it is filled and combined."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from tirlower.analysis.buffer_facts import defined
from tirlower.analysis.undefined import undefined_vars
from tirlower.arith import Analyzer, ConstIntBound
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, BufferRegion, Range
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import BufferLoad, Expr, IntImm, Var, const, is_const_int
from tirlower.ir.functor import Mutator
from tirlower.ir.regions import block_access_regions
from tirlower.ir.splice import as_scope, split_head
from tirlower.ir.stmt import AllocBuffer, Block, BufferStore, For, ForKind, IfThenElse, Seq, Stmt, seq
from tirlower.rewrite.reductions.init import InitNest, finished, ranged
from tirlower.rewrite.reductions.updates import Accumulator, refuse

__all__ = ["ChunkPartials", "Dim", "LanePartials", "Part", "Redirect", "accumulated_region", "partial_bytes"]

CACHE_LINE = 64
"""Bytes to which the partial results of the chunks are padded, so that no two threads write to one line."""
OWN_COPY = 4096
"""Bytes up to which a chunk accumulates into memory of its own."""


@dataclass(frozen=True)
class Dim:
    """The part of a dimension that is accumulated into: where it starts, how long it is, and how long at most."""

    base: Expr
    extent: Expr
    size: int

    @property
    def single(self) -> bool:
        """Whether it is one index, for which partial results need no dimension."""
        return self.size == 1


def partial_bytes(acc: Accumulator, dims: Iterable[Dim]) -> int:
    """The bytes of one partial result."""
    return math.prod(dim.size for dim in dims) * acc.buffer.dtype.bytes * acc.buffer.dtype.lanes


def accumulated_region(acc: Accumulator, loop: For, analyzer: Analyzer) -> list[Dim]:
    """The box that a loop accumulates into, in terms of what is known before the loop.

    Raises :class:`LegalityError` where a dimension has no constant upper bound.
    """
    block = Block("", (), const(True, "bool"), (), (), None, (), {}, loop)
    region = next(r for r in block_access_regions(block).writes if r.buffer is acc.buffer)
    own = defined(loop)
    dims = []
    for part, shape in zip(region.region, acc.buffer.shape, strict=True):
        low, extent = analyzer.simplify(part.min), analyzer.simplify(part.extent)
        whole = isinstance(extent, IntImm) and isinstance(shape, IntImm) and extent.value > shape.value
        if whole or not _known_before((low, extent), own):
            low, extent = const(0, shape.dtype), shape
        size = analyzer.const_int_bound(extent).max_value
        if size >= min(ConstIntBound.POS_INF, extent.dtype.max_value):
            refuse(
                loop,
                f"how much of {acc.buffer.name!r} each partial result needs is not known: {extent} has no upper bound",
                f"state one before the loop: T.assume({extent} <= 4096); or update {acc.buffer.name!r} by atomic "
                "operations, or keep the loop serial",
            )
        dims.append(Dim(low, extent, max(size, 1)))
    return dims


def _known_before(exprs: Iterable[Expr], own: set[Var]) -> bool:
    """Whether expressions are free of what a loop defines, and of memory, which it may change."""
    stack: list[Expr] = list(exprs)
    while stack:
        op = stack.pop()
        if op in own or isinstance(op, BufferLoad):
            return False
        stack += op.children()
    return True


def flat_offset(offsets: Sequence[Expr], dims: Sequence[Dim]) -> Expr:
    """The row-major position of an element within a partial result; 0 for a single one."""
    total: Expr | None = None
    for offset, dim in zip(offsets, [d for d in dims if not d.single], strict=True):
        total = offset if total is None else build.add(build.mul(total, dim.size), offset)
    return const(0) if total is None else total


def over(dims: Sequence[Dim], make: Callable[[list[Var]], Stmt]) -> Stmt:
    """``make(offsets)`` for each element of a region, in loops over the dimensions that have several."""
    several = [dim for dim in dims if not dim.single]
    loop_vars = [Var(f"r{n}" if n else "r", dim.extent.dtype) for n, dim in enumerate(several)]
    stmt = make(loop_vars)
    for var, dim in zip(reversed(loop_vars), reversed(several), strict=True):
        stmt = For(var, const(0, var.dtype), dim.extent, ForKind.SERIAL, None, {}, stmt)
    return stmt


def combine_into(acc: Accumulator, dims: Sequence[Dim], offsets: Sequence[Var], part: Expr, analyzer: Analyzer) -> Stmt:
    """Combine a partial result's element into the accumulator, where the accumulator has such an element."""
    remaining = iter(offsets)
    indices: list[Expr] = []
    inside: Expr = const(True, "bool")
    with ExitStack() as ranges:
        for dim, shape in zip(dims, acc.buffer.shape, strict=True):
            index = dim.base
            if not dim.single:
                offset = next(remaining)
                ranges.enter_context(ranged(analyzer, offset, const(0, offset.dtype), dim.extent))
                index = analyzer.simplify(build.add(index, offset))
            for condition in (build.ge(index, const(0, index.dtype)), build.lt(index, shape)):
                if not analyzer.can_prove(condition):
                    inside = build.logical_and(inside, condition)
            indices.append(index)
    old = BufferLoad(acc.buffer, tuple(indices))
    stmt: Stmt = BufferStore(acc.buffer, acc.combine(old, part), tuple(indices))
    return stmt if is_const_int(inside, 1) else IfThenElse(inside, stmt)


class Redirect(Mutator):
    """Turns the accesses of accumulators to their partial results.

    ``targets`` maps an accumulator's data variable to the buffer of partial results and a function from the offsets
    within the region to the indices there.
    """

    def __init__(
        self,
        targets: Mapping[Var, tuple[Buffer, Sequence[Dim], Callable[[Sequence[Expr]], tuple[Expr, ...]]]],
        analyzer: Analyzer,
    ) -> None:
        self.targets = targets
        self.analyzer = analyzer

    def _indices(self, buffer: Buffer, indices: Sequence[Expr]) -> tuple[Buffer, tuple[Expr, ...]]:
        part, dims, place = self.targets[buffer.data]
        offsets = [
            self.analyzer.simplify(build.sub(index, dim.base))
            for index, dim in zip(indices, dims, strict=True)
            if not dim.single
        ]
        return part, place(offsets)

    def visit_BufferLoad(self, op: BufferLoad) -> Expr:
        if op.buffer.data not in self.targets:
            return op
        part, indices = self._indices(op.buffer, op.indices)
        return op.with_(buffer=part, indices=indices)

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        op = self.generic(op)
        if op.buffer.data not in self.targets:
            return op
        part, indices = self._indices(op.buffer, op.indices)
        return op.with_(buffer=part, indices=indices)

    def visit_BufferRegion(self, op: BufferRegion) -> BufferRegion:
        op = self.generic(op)
        if op.buffer.data not in self.targets:
            return op
        part = self.targets[op.buffer.data][0]
        return BufferRegion(part, tuple(Range(const(0, extent.dtype), extent) for extent in part.shape))


@dataclass(frozen=True)
class Part:
    """An accumulator, the region of it that a loop accumulates into, and the buffer of partial results."""

    acc: Accumulator
    dims: tuple[Dim, ...]
    buffer: Buffer


@dataclass(frozen=True)
class LanePartials:
    """The partial results of a vectorized loop's lanes (their last dimension), alive around a statement.

    ``kind`` is the dtype of the loop variable, ``init`` what sets the accumulators before.
    """

    parts: tuple[Part, ...]
    lanes: int
    kind: DataType
    init: InitNest | None

    @property
    def data(self) -> set[Var]:
        """The accumulators' data variables."""
        return {part.acc.buffer.data for part in self.parts}

    @property
    def needs(self) -> set[Var]:
        """The variables that must be in scope around it."""
        found: set[Var] = set()
        for part in self.parts:
            found.update((part.acc.buffer.data, *undefined_vars(part.acc.buffer)))
            for dim in part.dims:
                found.update((*undefined_vars(dim.base), *undefined_vars(dim.extent)))
        if self.init is not None:
            found.update(undefined_vars(self.init.stmt))
        return found

    def past(self, loop: For, analyzer: Analyzer) -> LanePartials | None:
        """The same around a serial loop, or None where that would change what the accumulators see."""
        moved = self
        if self.init is not None:
            init = self.init.past(loop, analyzer) if self.init.counts(loop.loop_var) else None
            if init is None:
                return None
            moved = replace(self, init=init)
        return None if loop.loop_var in moved.needs else moved

    def mixes_with(self, other: LanePartials) -> bool:
        """Whether both may be combined into the same accumulators, one after the other, at the end."""
        ops = {part.acc.buffer.data: part.acc.op for part in self.parts}
        same = all(ops.get(part.acc.buffer.data, part.acc.op) == part.acc.op for part in other.parts)
        return same and self.init is None and other.init is None

    def fill(self, part: Part) -> Stmt:
        """Every lane's elements become the identity."""
        return over(
            part.dims, lambda at: self._lanes(self.lanes, lambda lane: self._set(part, at, lane, part.acc.identity))
        )

    def combine(self, part: Part, analyzer: Analyzer) -> Stmt:
        """The lanes into the accumulator: by halves, the upper onto the lower, then the one that is left."""

        def element(at: list[Var]) -> Stmt:
            steps: list[Stmt] = []
            count = self.lanes
            while count > 1:
                half = -(-count // 2)
                steps.append(self._lanes(count - half, lambda lane, half=half: self._fold(part, at, lane, half)))  # type: ignore[misc]
                count = half
            left = BufferLoad(part.buffer, (*at, const(0, self.kind)))
            return seq(*steps, combine_into(part.acc, part.dims, at, left, analyzer))

        return over(part.dims, element)

    def _lanes(self, count: int, body: Callable[[Expr], Stmt]) -> Stmt:
        if count == 1:
            return body(const(0, self.kind))
        lane = Var("lane", self.kind)
        return For(lane, const(0, self.kind), const(count, self.kind), ForKind.VECTORIZED, None, {}, body(lane))

    def _set(self, part: Part, at: Sequence[Expr], lane: Expr, value: Expr) -> Stmt:
        return BufferStore(part.buffer, value, (*at, lane))

    def _fold(self, part: Part, at: Sequence[Expr], lane: Expr, half: int) -> Stmt:
        """A lane with the one that stands ``half`` of them behind it."""
        low, high = (BufferLoad(part.buffer, (*at, index)) for index in (lane, build.add(lane, half)))
        return self._set(part, at, lane, part.acc.combine(low, high))

    def around(self, stmt: Stmt, analyzer: Analyzer) -> Stmt:
        """A statement with the partial results allocated and filled before it, and combined after it.

        Allocations that head the statement stay there: those of a block's body are in scope in its init too.
        """
        head, rest = split_head(stmt)
        return Seq(
            (
                *head,
                *(AllocBuffer(part.buffer) for part in self.parts),
                *([] if self.init is None else [finished(self.init, analyzer)]),
                *(self.fill(part) for part in self.parts),
                as_scope(seq(*rest)),
                *(self.combine(part, analyzer) for part in self.parts),
            )
        )


class ChunkPartials:
    """The partial result of one accumulator for each chunk of a parallel loop: a row of whole cache lines.

    A small one is accumulated in a buffer of the chunk's own, which is copied to its row at the end: LLVM may keep
    that in registers, as nothing else can reach it.
    """

    def __init__(self, acc: Accumulator, dims: tuple[Dim, ...], chunks: int, chunk: Var) -> None:
        self.acc = acc
        self.dims = dims
        self.chunk = chunk
        name, kind = acc.buffer.name, acc.buffer.dtype
        element = kind.bytes * kind.lanes
        size = partial_bytes(acc, dims)
        padded = -(-size // CACHE_LINE) * CACHE_LINE
        self.row = -(-padded // element)
        # One dimension: of two, the padding would be compacted away.
        self.rows = Buffer(f"{name}_chunks", (const(chunks * self.row),), kind)
        self.own: Buffer | None = None
        if size <= OWN_COPY:
            shape = tuple(const(dim.size) for dim in dims if not dim.single)
            self.own = Buffer(f"{name}_chunk", shape or (const(1),), kind, scope="local")

    @property
    def target(self) -> Buffer:
        """What a chunk accumulates into."""
        return self.rows if self.own is None else self.own

    def at(self, chunk: Var, offsets: Sequence[Expr]) -> tuple[Expr, ...]:
        """Where the element of a chunk's row is."""
        return (build.add(build.mul(chunk, self.row), flat_offset(offsets, self.dims)),)

    def place(self, offsets: Sequence[Expr]) -> tuple[Expr, ...]:
        """The indices there of an element of the region."""
        if self.own is None:
            return self.at(self.chunk, offsets)
        return tuple(offsets) or (const(0),)

    def fill(self) -> Stmt:
        """The chunk's elements become the identity."""
        return over(self.dims, lambda at: BufferStore(self.target, self.acc.identity, self.place(at)))

    def publish(self, own: Buffer) -> Stmt:
        """Copy the chunk's own elements to its row."""

        def element(at: list[Var]) -> Stmt:
            return BufferStore(self.rows, BufferLoad(own, self.place(at)), self.at(self.chunk, at))

        return over(self.dims, element)

    def combine(self, count: Expr, analyzer: Analyzer) -> Stmt:
        """The chunks in order into the accumulator."""
        chunk = Var(self.chunk.name, self.chunk.dtype)

        def element(at: list[Var]) -> Stmt:
            row = BufferLoad(self.rows, self.at(chunk, at))
            return combine_into(self.acc, self.dims, at, row, analyzer)

        return For(chunk, const(0, chunk.dtype), count, ForKind.SERIAL, None, {}, over(self.dims, element))
