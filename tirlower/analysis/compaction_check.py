"""The certificate of CompactBufferAllocation: every access that was inside its buffer still is.

It shares nothing with the analysis that chose the shapes: the accesses of the two programs are paired in order and
their indices evaluated at iterations of the loops around, all of them where they are few, else the corners of the
iteration space.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tirlower.analysis.purity import side_effect
from tirlower.arith import Analyzer
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import BufferLoad, Expr, IntImm, Let, Ramp, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Visitor, substitute
from tirlower.ir.op import Purity
from tirlower.ir.stmt import AllocBuffer, Bind, Block, BufferStore, For, IfThenElse, Seq

__all__ = ["verify_compaction"]

MAX_POINTS = 256
"""How many iterations are tried for one access."""
MAX_ACCESSES = 2000
"""How many accesses of a function are tried; a certificate is for programs of a size that people debug."""


@dataclass(frozen=True)
class _Access:
    buffer: Buffer
    indices: tuple[Expr, ...]
    loops: tuple[For | tuple[Var, Expr], ...]
    guards: tuple[Expr, ...]
    site: BufferLoad | BufferStore


class _Accesses(Visitor):
    """The accesses of allocated buffers, in the order of the program."""

    def __init__(self) -> None:
        self.found: list[_Access] = []
        self.allocated: set[Buffer] = set()
        self.loops: list[For | tuple[Var, Expr]] = []
        self.guards: list[Expr] = []

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        self.allocated.add(op.buffer)

    def visit_Block(self, op: Block) -> None:
        self.guards.append(op.predicate)
        self.visit(op.body)
        self.guards.pop()

    def visit_Seq(self, op: Seq) -> None:
        depth = len(self.loops)
        for stmt in op.stmts:
            self.visit(stmt)
            if isinstance(stmt, Bind) and side_effect(stmt.value) is Purity.PURE:
                self.loops.append((stmt.var, stmt.value))
        del self.loops[depth:]

    def visit_For(self, op: For) -> None:
        self.loops.append(op)
        self.visit(op.body)
        self.loops.pop()

    def visit_IfThenElse(self, op: IfThenElse) -> None:
        self.visit(op.condition)
        self.guards.append(op.condition)
        self.visit(op.then_case)
        self.guards[-1] = build.logical_not(op.condition)
        if op.else_case is not None:
            self.visit(op.else_case)
        self.guards.pop()

    def visit_BufferStore(self, op: BufferStore) -> None:
        self.generic(op)
        self.note(op)

    def visit_BufferLoad(self, op: BufferLoad) -> None:
        self.note(op)

    def visit_Let(self, op: Let) -> None:
        """Its body is under a binding of its own, which ends with it: not followed."""

    def note(self, op: BufferLoad | BufferStore) -> None:
        if op.buffer in self.allocated:
            self.found.append(_Access(op.buffer, op.indices, tuple(self.loops), tuple(self.guards), op))


def _value(expr: Expr, point: dict[Var, Expr]) -> int | None:
    found = Analyzer().simplify(substitute(expr, point))
    return found.value if isinstance(found, IntImm) else None


def _points(loops: Sequence[For | tuple[Var, Expr]]) -> Iterator[dict[Var, Expr]]:
    """Values of the loop variables: every iteration, or the first, second and last of each loop."""

    def walk(position: int, point: dict[Var, Expr], dense: bool) -> Iterator[dict[Var, Expr]]:
        if position == len(loops):
            yield point
            return
        loop = loops[position]
        if not isinstance(loop, For):
            yield from walk(position + 1, {**point, loop[0]: substitute(loop[1], point)}, dense)
            return
        start, extent = _value(loop.min, point), _value(loop.extent, point)
        if start is None or extent is None:
            # A symbolic loop: where it starts.
            yield from walk(position + 1, {**point, loop.loop_var: substitute(loop.min, point)}, dense)
            return
        steps = range(extent) if dense else sorted({0, 1, extent - 1} & set(range(max(extent, 0))))
        for step in steps:
            yield from walk(position + 1, {**point, loop.loop_var: IntImm(loop.min.dtype, start + step)}, dense)

    size = 1
    for loop in loops:
        size *= loop.extent.value if isinstance(loop, For) and isinstance(loop.extent, IntImm) else 1
    yield from itertools.islice(walk(0, {}, size <= MAX_POINTS), MAX_POINTS)


def _lanes(index: Expr) -> tuple[Expr, ...]:
    """The first and the last lane of an index."""
    if isinstance(index, Ramp) and isinstance(index.lanes, int):
        return (index.base, build.add(index.base, build.mul(index.stride, index.lanes - 1)))
    return (index,)


def _outside(access: _Access, point: dict[Var, Expr]) -> tuple[int, int, int] | None:
    """An axis, index and extent where an access is certainly outside its buffer; None where it is not."""
    for axis, (index, extent) in enumerate(zip(access.indices, access.buffer.shape, strict=True)):
        size = _value(extent, point)
        for lane in _lanes(index):
            if lane.dtype.is_vector:
                continue
            at = _value(lane, point)
            if at is not None and (at < 0 or (size is not None and at >= size)):
                return axis, at, -1 if size is None else size
    return None


def verify_compaction(before: PrimFunc, after: PrimFunc) -> None:
    """Raise :class:`TransformError` if an access of ``after`` lies outside its buffer where the same one of ``before``
    lay inside."""
    old, new = _Accesses(), _Accesses()
    old.visit(before.body)
    new.visit(after.body)
    if len(old.found) != len(new.found):
        raise TransformError(
            f"compaction changed the number of accesses of {before.name!r} from {len(old.found)} to {len(new.found)}"
        )
    for first, second in itertools.islice(zip(old.found, new.found, strict=True), MAX_ACCESSES):
        for point in _points(second.loops):
            if any(_value(guard, point) == 0 for guard in second.guards):
                continue
            wrong = _outside(second, point)
            if wrong is None or _outside(first, point) is not None:
                continue
            axis, at, size = wrong
            where = ", ".join(f"{var.name} = {value}" for var, value in point.items())
            raise TransformError(
                f"the compacted buffer {second.buffer.name!r} of shape ({', '.join(map(str, second.buffer.shape))}) is "
                f"accessed at index {at} of dimension {axis}, which has {size} elements",
                span=second.site.span,
                notes=(f"at {where}" if where else "at its only iteration",),
                help="this is a mistake of CompactBufferAllocation: please report the program",
            )
