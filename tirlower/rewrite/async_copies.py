"""Which stores of an asynchronous scope an instruction can make that has no order among others of its kind."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tirlower.analysis.purity import side_effect
from tirlower.analysis.vthread_dependence import uses_of
from tirlower.ir import build
from tirlower.ir.annotations import ASYNC_COMMIT, ASYNC_SCOPE, ASYNC_WAIT
from tirlower.ir.buffer import Buffer, Range
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import Broadcast, BufferLoad, Call, Expr, FloatImm, IntImm, Ramp, Select, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import substitute
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import each
from tirlower.ir.refresh import copy_var
from tirlower.ir.stmt import AttrStmt, Bind, BufferStore, Evaluate, For, ForKind, Seq, Stmt, While
from tirlower.rewrite.fact_mutator import FactMutator

__all__ = ["CopyFinder"]

_COMMIT_GROUP, _WAIT_GROUP = Op.get("tir.ptx_commit_group"), Op.get("tir.ptx_wait_group")
_SIZES = (16, 8, 4)
_MOST_PIECES = 16
_MOST_COPIES = 64
"""The copies to one buffer in one scope that are compared with each other."""


@dataclass(eq=False)
class _Copy:
    """A store as instructions: where it writes (first element, elements), what it reads, and the loops around it."""

    store: BufferStore
    made: tuple[Stmt, ...]
    source: Var
    start: Expr
    lanes: int
    loops: tuple[For, ...]


class CopyFinder(FactMutator):
    """Finds the copies of a kernel (rewriting nothing): ``made`` has the instructions of each store that becomes some.

    ``asynchronous`` says whether there are attributes of asynchronous copies at all.
    """

    def __init__(self, func: PrimFunc) -> None:
        super().__init__(func)
        self.made: dict[Stmt, tuple[Stmt, ...]] = {}
        self.asynchronous = False
        self._inside = False
        self._loops: list[For] = []
        self._copies: dict[Var, list[_Copy]] = {}
        self._read: set[Var] = set()
        self._written: set[Var] = set()
        self._bound: dict[Var, Expr] = {}

    def visit_Bind(self, op: Bind) -> Stmt:
        """What an index is computed from may have been bound before."""
        if op.var.dtype.is_int and op.var.dtype.is_scalar and side_effect(op.value) is Purity.PURE:
            self._bound[op.var] = substitute(op.value, self._bound)
        return self.generic(op)

    def visit_expr(self, root: Expr) -> Expr:
        """Expressions hold no stores; what those of a scope use is noted."""
        if self._inside:
            self._note(root)
        return root

    def _note(self, op: Expr | Stmt) -> None:
        """What is read, written, or handed on."""
        uses = uses_of(op)
        self._read |= uses.loaded | uses.pointers
        self._written |= uses.pointers | {store.buffer.data for store in each(BufferStore, op)}

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        """A scope: its copies are chosen once all of it was seen."""
        self.asynchronous = self.asynchronous or op.key in (ASYNC_SCOPE, ASYNC_COMMIT, ASYNC_WAIT)
        if op.key != ASYNC_SCOPE or self._inside:
            return self.generic(op)
        self._inside, self._loops, self._copies, self._read, self._written = True, [], {}, set(), set()
        stmts = op.body.stmts if isinstance(op.body, Seq) else (op.body,)
        end = _waited(stmts)
        for stmt in stmts[:end]:
            self.visit(stmt)
        self._inside = False
        for stmt in stmts[end:]:
            self.visit(stmt)
        for data, copies in self._copies.items():
            if data in self._read | self._written or not self._apart(copies):
                continue
            if all(copy.source not in self._written for copy in copies):
                self.made.update((copy.store, copy.made) for copy in copies)
        return op

    def visit_For(self, op: For) -> Stmt:
        """Loops inside a scope are noted."""
        if not self._inside:
            return super().visit_For(op)
        self._loops.append(op)
        super().visit_For(op)
        self._loops.pop()
        return op

    def visit_While(self, op: While) -> Stmt:
        """A loop whose iterations cannot be told apart: what it copies stays."""
        if self._inside:
            self._note(op)
        return op if self._inside else super().visit_While(op)

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        """A copy, or another use of what it touches."""
        if not self._inside:
            return op
        copy = self._copy(op)
        if copy is None:
            self._note(op)
        else:
            self._copies.setdefault(op.buffer.data, []).append(copy)
        return op

    # One copy

    def _copy(self, op: BufferStore) -> _Copy | None:
        guard, value = _guarded_load(op.value)
        if value is None or op.predicate is not None or value.predicate is not None:
            return None
        target, source = op.buffer, value.buffer
        plain = target.scope in ("shared", "shared.dyn") and source.scope == "global" and target.dtype is source.dtype
        plain = plain and len(op.indices) == len(value.indices) == 1 and not (target.strides or source.strides)
        if not plain or target.dtype.bits % 8:
            return None
        into, out_of = (self._run(substitute(index, self._bound)) for index in (op.indices[0], value.indices[0]))
        if into is None or out_of is None or into[1] != out_of[1]:
            return None
        lanes = into[1]
        unit = target.dtype.bits // 8 * target.dtype.lanes
        starts = [self._offset(target, into[0], unit), self._offset(source, out_of[0], unit)]
        for size in _SIZES:
            count, rest = divmod(lanes * unit, size)
            if rest or count > _MOST_PIECES:
                continue
            if not (self._aligned(target, into[0], unit, size) and self._aligned(source, out_of[0], unit, size)):
                continue
            made = self._instructions(op, source, starts, guard, size, count)
            if made is None or not self._distinct(into[0], lanes):
                return None
            # What the guard and the indices read is read when the instruction is issued.
            for part in (guard, into[0], out_of[0]):
                if part is not None:
                    self._note(part)
            return _Copy(op, made, source.data, into[0], lanes, tuple(self._loops))
        return None

    def _run(self, index: Expr) -> tuple[Expr, int] | None:
        """The first of neighbouring elements and how many there are."""
        if index.dtype.is_scalar:
            return index, 1
        if not isinstance(index, Ramp):
            index = self.analyzer.simplify(index)
        if isinstance(index, Ramp) and is_const_int(index.stride, 1) and isinstance(index.lanes, int):
            return index.base, index.lanes
        return None

    def _offset(self, buffer: Buffer, index: Expr, unit: int) -> tuple[Expr, int] | None:
        """An index as an offset in elements of the pointer, and their bytes; None where it is between two."""
        kind = buffer.data.type
        if not isinstance(kind, PointerType) or kind.element.bits % 8 or not kind.element.bits:
            return None
        step = kind.element.bits // 8 * kind.element.lanes
        offset = index if is_const_int(buffer.elem_offset, 0) else _plus(index, buffer.elem_offset)
        if unit % step == 0:
            return build.mul(offset, const(unit // step, offset.dtype)), step
        if step % unit or not self._divides(offset, step // unit):
            return None
        return self.analyzer.simplify(build.floordiv(offset, const(step // unit, offset.dtype))), step

    def _divides(self, index: Expr, number: int) -> bool:
        known = self.analyzer.modular_set(index)
        return known.coeff % number == 0 and known.base % number == 0

    def _aligned(self, buffer: Buffer, index: Expr, unit: int, size: int) -> bool:
        """Whether an element's address is known to be a multiple of ``size`` bytes."""
        if buffer.align % size:
            return False
        number = size // math.gcd(size, unit)
        if buffer.offset_factor % number and not self._divides(buffer.elem_offset, number):
            return False
        return self._divides(index, number)

    def _instructions(
        self,
        op: BufferStore,
        source: Buffer,
        starts: list[tuple[Expr, int] | None],
        guard: Expr | None,
        size: int,
        count: int,
    ) -> tuple[Stmt, ...] | None:
        known = [start for start in starts if start is not None]
        if len(known) < len(starts) or any(size % step for _, step in known):
            return None
        made = []
        for piece in range(count):
            into, out_of = (_plus(start, piece * (size // step)) for start, step in known)
            args = [op.buffer.data, into, source.data, out_of, const(size)]
            if guard is not None:
                args.append(guard)
            made.append(Evaluate(build.call("tir.ptx_cp_async", *args, dtype=op.buffer.dtype.element), span=op.span))
        return tuple(made)

    # Copies that write different elements

    def _elsewhere(self, start: Expr, loops: Iterable[For], first: For | None) -> Expr:
        """A first element at another iteration: the next one of ``first``, any of the other loops."""
        others: dict[Var, Expr] = {}
        for loop in loops:
            if loop is first:
                others[loop.loop_var] = build.add(loop.loop_var, const(1, loop.loop_var.dtype))
                continue
            var = copy_var(loop.loop_var)
            self.analyzer.bind(var, Range(substitute(loop.min, others), substitute(loop.extent, others)))
            others[loop.loop_var] = var
        return substitute(start, others)

    def _gap(self, a: Expr, b: Expr, lanes: int) -> bool:
        """Whether ``b`` is always at least so many elements behind ``a``, or always before it."""
        bound = self.analyzer.const_int_bound(self.analyzer.simplify(build.sub(b, a)))
        return bound.min_value >= lanes or bound.max_value <= -lanes

    def _distinct(self, start: Expr, lanes: int) -> bool:
        """Whether each iteration of the loops of the scope writes elements of its own: they go one way."""
        for at, loop in enumerate(self._loops):
            if is_const_int(loop.extent, 1):
                continue
            if loop.kind is ForKind.THREAD_BINDING:
                return False
            if not self._gap(start, self._elsewhere(start, self._loops[at:], loop), lanes):
                return False
        return True

    def _apart(self, copies: list[_Copy]) -> bool:
        """Whether different copies to a buffer write different elements."""
        if len(copies) > _MOST_COPIES:
            return False
        for at, one in enumerate(copies):
            for other in copies[at + 1 :]:
                same = one.store.buffer.dtype is other.store.buffer.dtype
                moved = self._elsewhere(other.start, other.loops, None)
                if not same or not self._gap(one.start, moved, max(one.lanes, other.lanes)):
                    return False
        return True


def _waited(stmts: Sequence[Stmt]) -> int:
    """Where, among the statements of a scope, all that was copied has been waited for: behind it is as outside."""
    committed = False
    for at, stmt in enumerate(stmts):
        call = stmt.value if isinstance(stmt, Evaluate) else None
        if isinstance(call, Call):
            if committed and call.op is _WAIT_GROUP and is_const_int(call.args[-1], 0):
                return at
            committed = committed or call.op is _COMMIT_GROUP
    return len(stmts)


def _plus(a: Expr, b: Expr | int) -> Expr:
    more = build.cast(a.dtype, b) if isinstance(b, Expr) else const(b, a.dtype)
    return a if is_const_int(more, 0) else build.add(a, more)


def _guarded_load(value: Expr) -> tuple[Expr | None, BufferLoad | None]:
    """A load and the condition under which it is made, zero being the value otherwise; no load for any other value."""
    guard: Expr | None = None
    while True:
        if isinstance(value, Call) and value.op is Op.get("tir.if_then_else"):
            condition, value, other = value.args
        elif isinstance(value, Select):
            condition, other, value = value.condition, value.false_value, value.true_value
        else:
            break
        if condition.dtype.is_vector or not _is_zero(other):
            return None, None
        guard = condition if guard is None else build.logical_and(guard, condition)
    return guard, value if isinstance(value, BufferLoad) else None


def _is_zero(value: Expr) -> bool:
    """Whether all bits of a constant are 0 (those of -0.0 are not)."""
    if isinstance(value, Broadcast):
        value = value.value
    if isinstance(value, FloatImm):
        return float(value.value) == 0.0 and math.copysign(1.0, float(value.value)) > 0
    return isinstance(value, IntImm) and value.value == 0
