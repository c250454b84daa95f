"""Copies that the threads of a block share: neighbouring threads copy neighbouring vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tirlower.ir import build
from tirlower.ir.buffer import Buffer, Range
from tirlower.ir.expr import BufferLoad, Expr, IntImm, Var, const, is_const_int
from tirlower.ir.functor import Visitor, substitute
from tirlower.ir.refresh import refresh_binders
from tirlower.ir.stmt import AllocBuffer, Block, BufferStore, For, ForKind, IfThenElse, Seq, Stmt
from tirlower.rewrite.auto_copy.form import LOCAL_STAGE, Axis, Copy, Order, is_no, linear, refuse
from tirlower.rewrite.auto_copy.padding import Conflicts

__all__ = ["ThreadCopies"]

_MEMORIES = ("global", "shared")


class ThreadCopies:
    """Lowers copies between memories that the threads of a block share; ``conflicts`` counts those of shared memory."""

    def __init__(self, order: Order, conflicts: Conflicts) -> None:
        self.order = order
        self.analyzer = order.analyzer
        self.conflicts = conflicts

    def can_share(self, copy: Copy, axes: Sequence[Axis]) -> bool:
        """Whether threads may share the iterations: both sides are memory they share, each element is written once."""
        buffers = (copy.store.buffer, copy.load.buffer)
        return (
            math.prod(axis.extent for axis in axes) > 1
            and all(buffer.scope.split(".")[0] in _MEMORIES for buffer in buffers)
            and copy.store.predicate is None
            and copy.load.predicate is None
            and bool(copy.loops)
            and self.order.independent(copy.loops)
            and self._distinct(copy)
            and all(index.dtype.is_scalar for index in (*copy.store.indices, *copy.load.indices))
            and all(other.buffer.scope.split(".")[0] in _MEMORIES for other in copy.operands())
        )

    def _distinct(self, copy: Copy) -> bool:
        """Whether the iterations write different elements."""
        if self.order.axes(copy.loops, copy.store.indices) is not None:
            return True
        place = copy.store.buffer.offset_of(copy.store.indices)
        spans: list[tuple[int, int]] = []
        for loop in copy.loops:
            step = self._step(loop, place)
            if step is None or not isinstance(loop.extent, IntImm):
                return False
            spans.append((abs(step), max(loop.extent.value, 1)))
        covered = 1
        for step, extent in sorted(spans):
            if step < covered and extent > 1:
                return False
            covered += step * (extent - 1)
        return True

    def _step(self, loop: For, place: Expr) -> int | None:
        """The constant step of an address with a loop, by what is known inside it."""
        self.analyzer.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
        step = self.order.moved(loop.loop_var, self.analyzer.simplify(place))
        return step.value if isinstance(step, IntImm) else None

    def lower(self, op: Block, copy: Copy, axes: Sequence[Axis], lanes: int) -> Stmt:
        """The share of each thread: vectors in turn, through registers where the block asks for it."""
        loops = self._coalesced(copy)
        lanes = self._vector(copy, loops[-1], lanes)
        number, threads = linear(axes)
        dtype = loops[-1].loop_var.dtype
        parts = [loop.extent for loop in loops]
        parts[-1] = self.analyzer.simplify(build.floordiv(parts[-1], const(lanes, parts[-1].dtype)))
        units: Expr = const(1, dtype)
        for part in parts:
            units = build.mul(units, build.cast(dtype, part))
        units = self.analyzer.simplify(units)
        turns = self.analyzer.simplify(build.ceildiv(units, const(threads, dtype)))
        turn, lane = Var("turn", dtype), Var("lane", dtype)
        self.analyzer.bind(turn, Range(const(0, dtype), turns))
        self.analyzer.bind(lane, Range(const(0, dtype), const(lanes, dtype)))
        first: Expr = const(0, dtype) if is_const_int(turns, 1) else turn
        unit = self.analyzer.simplify(build.add(build.mul(first, threads), build.cast(dtype, number)))
        whole = self.analyzer.can_prove(build.lt(unit, units))
        values: dict[Var, Expr] = {}
        rest = unit
        for at in range(len(loops) - 1, -1, -1):
            part, loop = build.cast(dtype, parts[at]), loops[at]
            index = rest if at == 0 else build.floormod(rest, part)
            rest = build.floordiv(rest, part)
            if at == len(loops) - 1:
                index = build.add(build.mul(index, lanes), lane if lanes > 1 else const(0, dtype))
            values[loop.loop_var] = self.analyzer.simplify(build.add(loop.min, build.cast(loop.min.dtype, index)))
        store, load = substitute(copy.store, values), substitute(copy.load, values)
        assert isinstance(store, BufferStore) and isinstance(load, BufferLoad)
        own = Copy(
            [],
            [substitute(condition, values) for condition in copy.conditions],
            self._simple(store),
            load,
        )
        for side, moved in ((copy.store, own.store), (copy.load, own.load)):
            if self.order.axes(copy.loops, side.indices) is None:
                self.conflicts.keep(side.buffer)
            first_lane = {turn: const(0, dtype), lane: const(0, dtype)}
            self.conflicts.note(side.buffer, [substitute(i, first_lane) for i in moved.indices], lanes, axes)

        def share(body: Stmt) -> Stmt:
            for condition in reversed(own.conditions):
                body = IfThenElse(condition, body)
            if lanes > 1:
                body = For(lane, const(0, dtype), const(lanes, dtype), ForKind.VECTORIZED, None, {}, body)
            if not whole:
                body = IfThenElse(build.lt(unit, units), body)
            if is_const_int(turns, 1):
                return body
            return For(turn, const(0, dtype), turns, ForKind.SERIAL, None, {}, body)

        staged = op.annotations.get(LOCAL_STAGE)
        if staged is None or is_no(staged) or not copy.store.buffer.scope.startswith("shared"):
            return share(own.store)
        if not isinstance(turns, IntImm):
            refuse(op, f"it is staged in registers, but its size is no constant: {units}", "take local_stage off")
        self._check_conditions(op, own)
        shape = (const(max(turns.value, 1), dtype), const(lanes, dtype))
        local = Buffer(f"{copy.store.buffer.name}_local", shape, copy.store.buffer.dtype, scope="local")
        indices = (first, lane if lanes > 1 else const(0, dtype))
        fill = share(BufferStore(local, own.store.value, indices, span=op.span))
        return Seq(
            (AllocBuffer(local), refresh_binders(fill), share(own.store.with_(value=BufferLoad(local, indices))))
        )

    def _simple(self, store: BufferStore) -> BufferStore:
        return store.with_(indices=tuple(self.analyzer.simplify(index) for index in store.indices))

    def _check_conditions(self, op: Block, copy: Copy) -> None:
        """They are evaluated again after the loads: nothing that the copy writes may decide them."""
        reads = _Reads()
        for part in (*copy.conditions, *copy.store.indices):
            reads.visit(part)
        if copy.store.buffer.data in reads.found:
            refuse(op, f"a condition reads {copy.store.buffer.name!r}, which it writes", "take local_stage off")

    def _coalesced(self, copy: Copy) -> list[For]:
        """The loops as the elements lie in global memory; of shared memory on both sides, in the destination."""
        for side in (copy.store, copy.load):
            if side.buffer.scope == "global":
                axes = self.order.axes(copy.loops, side.indices)
                if axes is not None:
                    return [loop for _, loop in sorted(zip(axes, copy.loops, strict=True), key=lambda pair: pair[0])]
                return copy.loops
        axes = self.order.axes(copy.loops, copy.store.indices)
        if axes is None:
            return copy.loops
        return [loop for _, loop in sorted(zip(axes, copy.loops, strict=True), key=lambda pair: pair[0])]

    def _vector(self, copy: Copy, inner: For, lanes: int) -> int:
        """The lanes of a vector: a divisor of the innermost extent, 1 where the elements do not lie side by side."""
        var = inner.loop_var
        places = (copy.store.buffer.offset_of(copy.store.indices), copy.load.buffer.offset_of(copy.load.indices))
        if any(self._step(inner, place) != 1 for place in places):
            return 1
        known = self.analyzer.modular_set(inner.extent)
        common = math.gcd(known.coeff, known.base, lanes)
        # Vectors that begin where others do: at multiples of their size.
        for place in places:
            start = self.analyzer.modular_set(self.analyzer.simplify(substitute(place, {var: inner.min})))
            if start.coeff or start.base:
                common = math.gcd(common, start.coeff, start.base) or 1
        return common & -common


class _Reads(Visitor):
    def __init__(self) -> None:
        self.found: set[Var] = set()

    def visit_buffer(self, buffer: Buffer) -> None:
        self.found.add(buffer.data)
