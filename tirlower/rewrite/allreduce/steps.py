"""The statements of a reduction over threads: by warp shuffles, or as a tree in shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.ir import build
from tirlower.ir.buffer import Buffer, CommReducer, decl_buffer
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import BufferLoad, Expr, StringImm, Var, const, is_const_int
from tirlower.ir.functor import substitute
from tirlower.ir.query import reads_data
from tirlower.ir.stmt import AllocBuffer, BufferStore, Evaluate, IfThenElse, Seq, Stmt
from tirlower.machine.target import Target
from tirlower.rewrite.allreduce.plan import Team, warps_reduce

__all__ = ["Reduction"]

MASKLESS = ("metal",)
"""Kinds of targets whose shuffles take no mask: all lanes of a warp take part, and the argument is 0."""


class Reduction:
    """The statements of one reduction, in order: :meth:`run` makes them.

    Each thread of ``team`` brings ``values``, and gets the results of ``reducer`` in ``targets``. ``repeats`` says that
    the statements stand in a loop; ``movable``, that the results may be in memory of all threads: ``moved`` then has the
    new buffer for the data variable of each, and the index at which it is read.
    """

    def __init__(
        self,
        target: Target,
        warp: int,
        reducer: CommReducer,
        team: Team,
        values: Sequence[Expr],
        targets: Sequence[BufferLoad],
        repeats: bool,
        movable: bool,
    ) -> None:
        self.target = target
        self.warp = warp
        self.reducer = reducer
        self.team = team
        self.values = values
        self.targets = targets
        self.repeats = repeats
        self.movable = movable
        self.moved: dict[Var, tuple[Buffer, Expr]] = {}
        self.group = team.group if team.groups > 1 else const(0)
        self.stmts: list[Stmt] = []
        self.mask: Buffer | None = None

    def run(self) -> list[Stmt]:
        """The reduction by the rules for the target."""
        types = [value.dtype for value in self.values]
        if self.team.extent == 1:
            self.finish(self.values)
        elif warps_reduce(self.target, self.team, types):
            self.by_shuffles(types)
        else:
            self.by_tree(types)
        return self.stmts

    def finish(self, results: Sequence[Expr]) -> None:
        """Store the results where they are wanted; all are computed before the first is stored."""
        if len(results) > 1 and self.team.extent == 1:
            held = [self.allocate(f"red_buf{n}", value.dtype, 1, "local") for n, value in enumerate(results)]
            for buffer, value in zip(held, results, strict=True):
                self.stmts.append(BufferStore(buffer, value, (const(0),)))
            results = [BufferLoad(buffer, (const(0),)) for buffer in held]
        for target, value in zip(self.targets, results, strict=True):
            if not (isinstance(value, BufferLoad) and value.buffer is target.buffer):
                self.stmts.append(BufferStore(target.buffer, value, target.indices))

    def held(self, types: Sequence[DataType]) -> list[Buffer]:
        """What each thread has of the results so far: where they are wanted, if a thread has that for itself."""
        data = [target.buffer.data for target in self.targets]
        if len(set(data)) == len(data) and all(_is_own(t, dtype) for t, dtype in zip(self.targets, types, strict=True)):
            for at, value in enumerate(self.values):
                if any(reads_data(value, other) for other in data[:at]):
                    break
            else:
                return [target.buffer for target in self.targets]
        return [self.allocate(f"red_buf{n}", dtype, 1, "local") for n, dtype in enumerate(types)]

    def allocate(self, name: str, dtype: DataType, size: int, scope: str) -> Buffer:
        buffer = decl_buffer((size,), dtype, name, scope=scope)
        self.stmts.append(AllocBuffer(buffer))
        return buffer

    def combine(self, left: Sequence[Expr], right: Sequence[Expr]) -> list[Expr]:
        """The results of the reducer."""
        table = dict(zip((*self.reducer.lhs, *self.reducer.rhs), (*left, *right), strict=True))
        return [substitute(result, table) for result in self.reducer.result]

    def sync(self, scope: str) -> None:
        self.stmts.append(Evaluate(build.call("tir.tvm_storage_sync", StringImm(scope))))

    # Warps

    def by_shuffles(self, types: Sequence[DataType]) -> None:
        """Within each warp; then, where a group has several, over their results."""
        team, warp = self.team, self.warp
        if team.extent > warp and self.movable:
            self.in_two_stages(types)
            return
        held = self.held(types)
        self.mask, other = self.registers(types)
        if team.extent <= warp:
            self.fill(held, self.values)
            self.note_lanes()
            self.within_warp(held, other, team.extent, team.index)
            self.finish(self.broadcast(held, build.mul(const(team.extent), self.group)))
            return
        # Each warp reduces the results of all for itself, so that every thread has them in its own memory.
        warps = team.extent // warp
        lane = build.floormod(team.index, const(warp))
        staging = [self.allocate("red_buf_staging", dtype, warps * team.groups, "shared") for dtype in types]
        self.fill(held, self.values)
        self.note_lanes()
        self.within_warp(held, other, warp, lane)
        if self.repeats:
            self.sync("shared")  # the results of the last time have been read
        first = build.mul(self.group, const(warps))
        self.stage(held, staging, lane, first)
        inside = build.lt(lane, const(warps))
        self.fill(
            held,
            [
                build.if_then_else(inside, BufferLoad(buffer, (build.add(first, lane),)), identity)
                for buffer, identity in zip(staging, self.identities(types), strict=True)
            ],
        )
        self.within_warp(held, other, _power_of_two(warps), lane)
        self.finish(self.broadcast(held, const(0)))

    def note_lanes(self) -> None:
        """Which lanes take part from here on."""
        if self.mask is not None:
            self.fill([self.mask], [build.call("tir.tvm_warp_activemask")])

    def registers(self, types: Sequence[DataType]) -> tuple[Buffer | None, list[Buffer]]:
        """Those of shuffles: the mask, where the target has one, and what comes from other lanes."""
        masked = self.target.kind not in MASKLESS
        mask = self.allocate("mask", DataType("uint32"), 1, "local") if masked else None
        return mask, [self.allocate(f"t{n}", dtype, 1, "local") for n, dtype in reversed([*enumerate(types)])][::-1]

    def stage(self, held: Sequence[Buffer], staging: Sequence[Buffer], lane: Expr, first: Expr) -> None:
        """The result of each warp goes into shared memory."""
        place = build.add(first, build.floordiv(self.team.index, const(self.warp)))
        stores: list[Stmt] = [
            BufferStore(buffer, BufferLoad(mine, (const(0),)), (place,))
            for buffer, mine in zip(staging, held, strict=True)
        ]
        self.stmts.append(IfThenElse(build.eq(lane, const(0)), _as_one(stores), None))
        self.sync("shared")

    def in_two_stages(self, types: Sequence[DataType]) -> None:
        """Each warp, then the first lanes of the group; the results are in shared memory.

        In the second stage, what the other lanes hold is whatever their registers do; it reaches no result.
        """
        team, warp, warps = self.team, self.warp, self.team.extent // self.warp
        self.moved = {
            target.buffer.data: (decl_buffer((team.groups,), dtype, "red_result", scope="shared"), self.group)
            for target, dtype in zip(self.targets, types, strict=True)
        }
        sets = []
        for _ in range(2):
            held = [self.allocate(f"red_buf{n}", dtype, 1, "local") for n, dtype in reversed([*enumerate(types)])][::-1]
            sets.append((held, *self.registers(types)))
        staging = [self.allocate("red_buf_staging", dtype, warps * team.groups, "shared") for dtype in types[::-1]][
            ::-1
        ]
        lane, first = build.floormod(team.index, const(warp)), build.mul(self.group, const(warps))
        held, self.mask, other = sets[1]
        self.fill(held, self.values)
        self.note_lanes()
        self.within_warp(held, other, warp, lane)
        self.stage(held, staging, lane, first)
        held, self.mask, other = sets[0]
        place = build.add(first, team.index)
        loads: list[Stmt] = [
            BufferStore(mine, BufferLoad(buffer, (place,)), (const(0),))
            for mine, buffer in zip(held, staging, strict=True)
        ]
        self.stmts.append(IfThenElse(build.lt(team.index, const(warps)), _as_one(loads), None))
        self.note_lanes()
        self.within_warp(held, other, warps, team.index, present=True)
        stores: list[Stmt] = [
            BufferStore(buffer, BufferLoad(mine, (const(0),)), (index,))
            for mine, (buffer, index) in zip(held, self.moved.values(), strict=True)
        ]
        self.stmts.append(IfThenElse(build.eq(team.index, const(0)), _as_one(stores), None))
        self.sync("shared")

    def identities(self, types: Sequence[DataType]) -> list[Expr]:
        return [build.cast(dtype, value) for dtype, value in zip(types, self.reducer.identity, strict=True)]

    def fill(self, buffers: Sequence[Buffer], values: Sequence[Expr]) -> None:
        self.stmts += [BufferStore(buffer, value, (const(0),)) for buffer, value in zip(buffers, values, strict=True)]

    def shuffle(self, name: str, buffer: Buffer, where: Expr, width: int) -> Expr:
        mask = const(0) if self.mask is None else BufferLoad(self.mask, (const(0),))
        return build.call(
            f"tir.{name}", mask, BufferLoad(buffer, (const(0),)), where, const(width), const(self.warp),
        )  # fmt: skip

    @property
    def full(self) -> bool:
        """Whether all warps of the block are full, so that every lane takes part."""
        return self.team.extent * self.team.groups % self.warp == 0

    def within_warp(
        self, held: Sequence[Buffer], other: Sequence[Buffer], extent: int, index: Expr, present: bool = False
    ) -> None:
        """The first lane of each ``extent`` ones gets what they hold together; ``present`` says that all others are there."""
        offset = _power_of_two(extent) // 2
        ragged = _power_of_two(extent) != extent and not present
        while offset:
            for mine, its in zip(held, other, strict=True):
                if ragged:
                    # Lanes without a partner look at themselves: beyond the last one there is no thread.
                    there = build.add(index, const(offset))
                    where = build.if_then_else(build.lt(there, const(extent)), there, index)
                    value = self.shuffle("tvm_warp_shuffle", mine, where, self.warp)
                else:
                    width = self.warp if self.full else min(extent, self.warp)
                    value = self.shuffle("tvm_warp_shuffle_down", mine, const(offset), width)
                self.stmts.append(BufferStore(its, value, (const(0),)))
            results = self.combine(
                [BufferLoad(b, (const(0),)) for b in held], [BufferLoad(b, (const(0),)) for b in other]
            )
            stores = self.stored(held, results)
            if ragged or offset * 2 > extent:
                fits = build.lt(build.add(index, const(offset)), const(extent))
                self.stmts.append(IfThenElse(fits, _as_one(stores), None))
            else:
                self.stmts += stores
            offset //= 2

    def stored(self, held: Sequence[Buffer], results: Sequence[Expr]) -> list[Stmt]:
        """Stores of the results; where a later one reads what an earlier one changes, all are computed first."""
        data = [buffer.data for buffer in held]
        if not any(reads_data(result, other) for at, result in enumerate(results) for other in data[:at]):
            return [BufferStore(mine, result, (const(0),)) for mine, result in zip(held, results, strict=True)]
        new = [decl_buffer((1,), result.dtype, f"new{n}", scope="local") for n, result in enumerate(results)]
        stmts: list[Stmt] = [AllocBuffer(buffer) for buffer in new]
        stmts += [BufferStore(buffer, result, (const(0),)) for buffer, result in zip(new, results, strict=True)]
        stmts += [BufferStore(mine, BufferLoad(b, (const(0),)), (const(0),)) for mine, b in zip(held, new, strict=True)]
        return [Seq(tuple(stmts))]

    def broadcast(self, held: Sequence[Buffer], lane: Expr) -> list[Expr]:
        for buffer in held:
            self.stmts.append(
                BufferStore(buffer, self.shuffle("tvm_warp_shuffle", buffer, lane, self.warp), (const(0),))
            )
        return [BufferLoad(buffer, (const(0),)) for buffer in held]

    # Shared memory

    def by_tree(self, types: Sequence[DataType]) -> None:
        """Halves are added to halves, with a barrier between the steps."""
        team = self.team
        size = team.extent * team.groups
        first = build.mul(self.group, const(team.extent))
        mine = build.add(first, team.index)
        if self.movable:
            held = [decl_buffer((size,), t, f"red_buf{n}", scope="shared") for n, t in enumerate(types)]
            self.moved = {t.buffer.data: (buffer, first) for t, buffer in zip(self.targets, held, strict=True)}
        else:
            held = [self.allocate(f"red_buf{n}", dtype, size, "shared") for n, dtype in enumerate(types)]
        if self.movable or self.repeats:
            self.sync("shared")  # the result of the last time has been read
        self.stmts += [BufferStore(buffer, v, (mine,)) for buffer, v in zip(held, self.values, strict=True)]
        self.sync("shared")
        half = _power_of_two(team.extent) // 2
        if half * 2 > team.extent:
            self.step(held, mine, half, build.lt(team.index, const(team.extent - half)))
            self.sync("shared")
            half //= 2
        # The threads of a group that are left are lanes of one warp where its first thread is a warp's first.
        aligned = team.contiguous and (team.groups == 1 or team.extent % self.warp == 0)
        while half:
            self.step(held, mine, half, build.lt(team.index, const(half)))
            # Barriers of a warp stand outside of the condition, so that all of its lanes come by (TIR has them inside).
            self.sync("warp" if aligned and half > 1 and half * 2 <= self.warp else "shared")
            half //= 2
        if not self.movable:
            self.finish([BufferLoad(buffer, (first,)) for buffer in held])

    def step(self, held: Sequence[Buffer], mine: Expr, half: int, condition: Expr) -> None:
        """One half is added to the other."""
        there = build.add(mine, const(half))
        results = self.combine([BufferLoad(b, (mine,)) for b in held], [BufferLoad(b, (there,)) for b in held])
        stmts: list[Stmt] = []
        if len(results) > 1:
            new = [decl_buffer((1,), result.dtype, f"new{n}", scope="local") for n, result in enumerate(results)]
            stmts += [AllocBuffer(buffer) for buffer in new]
            stmts += [BufferStore(buffer, result, (const(0),)) for buffer, result in zip(new, results, strict=True)]
            results = [BufferLoad(buffer, (const(0),)) for buffer in new]
        stmts += [BufferStore(buffer, result, (mine,)) for buffer, result in zip(held, results, strict=True)]
        self.stmts.append(IfThenElse(condition, _as_one(stmts), None))


def _is_own(target: BufferLoad, dtype: DataType) -> bool:
    """Whether a result is a variable of the thread."""
    buffer = target.buffer
    return (
        buffer.scope == "local"
        and buffer.dtype is dtype
        and len(buffer.shape) == 1
        and is_const_int(buffer.shape[0], 1)
        and is_const_int(target.indices[0], 0)
        and is_const_int(buffer.elem_offset, 0)
    )


def _as_one(stmts: Sequence[Stmt]) -> Stmt:
    """Statements as one."""
    return stmts[0] if len(stmts) == 1 else Seq(tuple(stmts))


def _power_of_two(value: int) -> int:
    """The least power of two that is not less."""
    return 1 << (value - 1).bit_length()
