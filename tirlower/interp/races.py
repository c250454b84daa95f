"""Data races: two threads touch one byte without a barrier in between, and at least one of them writes.

Every byte that threads touch remembers its last writer and the readers and atomic updates since, each with its kernel, block and thread and
with the number of barriers that it has passed. Two accesses of a kernel by different threads are ordered if they are of
one block that met at a barrier between them (or of one warp that did), or if all blocks met. Since each thread of a
block passes the same barriers, one run in any order finds the races of all orders.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tirlower.diagnostics import InterpreterError, Label
from tirlower.interp.access import Access
from tirlower.interp.memory import Memory, Pointer, View
from tirlower.interp.scope import Frame, Place, State, Team, Value
from tirlower.interp.values import lane_values
from tirlower.ir.dtype import DataType

__all__ = ["RaceDetector", "WatchedAccess", "touch_atomic"]

_WARP_SIZE = 32
_BLOCKS = ("blockIdx", "clusterIdx", "clusterCtaIdx")


class _Mark(NamedTuple):
    """One access of a byte."""

    kernel: int
    block: tuple[int, ...]
    thread: tuple[int, ...]
    grid: int
    epoch: int
    warp: tuple[int, int]
    atomic: bool
    text: str
    place: Place
    who: str


_Marks = dict[tuple[tuple[int, ...], tuple[int, ...]], _Mark]
"""The accesses of one byte, by block and thread."""


class RaceDetector:
    """Watches the accesses of one run, and counts barriers."""

    def __init__(self) -> None:
        self.kernel = 0
        self._epochs: dict[tuple[int, tuple[int, ...]], int] = {}
        self._grid: dict[tuple[int, tuple[int, ...]], int] = {}
        self._warps: dict[tuple[int, tuple[int, ...], int], int] = {}
        self._writes: dict[tuple[int, int], _Mark] = {}
        self._reads: dict[tuple[int, int], _Marks] = {}
        self._updates: dict[tuple[int, int], _Marks] = {}
        self._kept: dict[int, Memory] = {}

    def begin(self) -> None:
        """A kernel starts or ends: all before is ordered before all after."""
        self.kernel += 1
        self._writes.clear()
        self._reads.clear()
        self._updates.clear()
        self._kept.clear()

    def barrier(self, scope: str, team: Team) -> None:
        """The threads of a team (of one block) meet."""
        seen = set()
        for frame in team:
            state: State = frame[0]
            block = _block(state)
            key: Any = (self.kernel, block)
            table: dict[Any, int] = self._epochs
            if scope == "warp":
                key = (self.kernel, block, state.linear_thread() // _WARP_SIZE)
                table = self._warps
            if key not in seen:
                seen.add(key)
                table[key] = table.get(key, 0) + 1
                if scope == "global":
                    self._grid[key] = self._grid.get(key, 0) + 1

    def _mark(self, frame: Frame, text: str, place: Place, atomic: bool) -> _Mark:
        state: State = frame[0]
        block = _block(state)
        here = (self.kernel, block)
        warp = state.linear_thread() // _WARP_SIZE
        who = ", ".join(f"{tag} = {index}" for tag, index in state.threads.items())
        thread = tuple(index for tag, index in state.threads.items() if not tag.startswith(_BLOCKS))
        return _Mark(
            *here, thread, self._grid.get(here, 0), self._epochs.get(here, 0),
            (warp, self._warps.get((*here, warp), 0)), atomic, text, place, who,
        )  # fmt: skip

    def touch(
        self, frame: Frame, memory: Memory, start: int, size: int, write: bool, text: str, place: Place,
        atomic: bool = False,
    ) -> None:  # fmt: skip
        """Note an access of some bytes. Raises InterpreterError with both accesses where it races with an earlier one."""
        if not frame[0].threads:
            return
        mark = self._mark(frame, text, place, atomic)
        own = (mark.block, mark.thread)
        self._kept[id(memory)] = memory
        for byte in range(start, start + size):
            key = (id(memory), byte)
            last = self._writes.get(key)
            if last is not None and not _ordered(last, mark):
                self._refuse(last, mark, memory, True, write)
            self._against(self._updates.get(key), mark, memory, True, write)
            if write:
                self._against(self._reads.get(key), mark, memory, False, True)
            if atomic:
                self._updates.setdefault(key, {})[own] = mark
            elif write:
                self._writes[key] = mark
                self._reads.pop(key, None)
                self._updates.pop(key, None)
            else:
                self._reads.setdefault(key, {})[own] = mark

    def _against(self, earlier: _Marks | None, mark: _Mark, memory: Memory, wrote: bool, writes: bool) -> None:
        for other in (earlier or {}).values():
            if not _ordered(other, mark):
                self._refuse(other, mark, memory, wrote, writes)

    @staticmethod
    def _refuse(first: _Mark, second: _Mark, memory: Memory, wrote: bool, writes: bool) -> None:
        actions = ["writes" if flag else "reads" for flag in (wrote, writes)]
        raise InterpreterError(
            f"a data race on {memory.name!r}: thread ({first.who}) {actions[0]} {first.text} and thread ({second.who}) "
            f"{actions[1]} {second.text}, with no barrier in between",
            origin="interpret",
            labels=[
                Label(mark.place.span, f"thread ({mark.who}) {action} here", primary=mark is second)
                for mark, action in zip((first, second), actions, strict=True)
                if mark.place.span is not None
            ],
            help="put a barrier between the two accesses, as ThreadSync does, or let one thread do both",
        )


def _block(state: State) -> tuple[int, ...]:
    return tuple(index for tag, index in state.threads.items() if tag.startswith(_BLOCKS))


def _ordered(a: _Mark, b: _Mark) -> bool:
    if (a.block, a.thread) == (b.block, b.thread) or (a.atomic and b.atomic):
        return True
    if a.grid != b.grid:
        return True
    if a.block != b.block:
        return False
    # Work outside of the loops of the threads is done before or behind them.
    if a.epoch != b.epoch or len(a.thread) != len(b.thread):
        return True
    return a.warp[0] == b.warp[0] and a.warp[1] != b.warp[1]


class WatchedAccess(Access):
    """An access that is reported to a race detector."""

    __slots__ = ("detector",)

    detector: RaceDetector

    def load(self, vector: bool) -> Value:
        """The compiled load."""
        plain = super().load(vector)
        positions = self.positions

        def load(frame: Frame) -> Any:
            value = plain(frame)
            view, found = positions(frame)
            self._note(frame, view, found, False)
            return value

        return load

    def store(self, value: Value, vector: bool) -> Callable[[Team], None]:
        """The compiled store."""

        def store(team: Team) -> None:
            pending = [(frame, *self.positions(frame), value(frame)) for frame in team]
            for frame, view, found, lanes in pending:
                self._commit(frame, view, found, lane_values(lanes))
                self._note(frame, view, found, True)

        return store

    def _note(self, frame: Frame, view: View, found: list[int | None], write: bool) -> None:
        for position in found:
            if position is not None:
                pointer = view.pointer(position)
                size = (view.pointer(position + 1).offset - pointer.offset) * view.lanes
                self.detector.touch(frame, view.memory, pointer.offset, size, write, self._text(frame), self.place)


def touch_atomic(detector: RaceDetector | None, frame: Frame, pointer: Pointer, kind: DataType, place: Place) -> None:
    """Note an atomic update through a pointer."""
    if detector is not None:
        size = -(-kind.bits // 8)
        text = f"{pointer.memory.name} (atomically)"
        detector.touch(frame, pointer.memory, pointer.offset, size, True, text, place, True)
