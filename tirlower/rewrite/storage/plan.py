"""Which allocations share memory: a linear scan over live ranges, and what it saves.

Ranges are taken in the order in which they begin. Memory whose range has ended goes back to a free list; a new range
takes a free piece of its place and storage scope that is at most sixteen times larger, else the largest smaller one,
which grows. An operation that reads an element of a buffer that ends with it and writes the same element of one that
begins with it may work in place.

After TIR's StorageRewrite; the injectivity that makes working in place right is checked here and not there.
"""

from __future__ import annotations

import bisect
import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import BufferLoad, IntImm, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.query import each
from tirlower.ir.stmt import Stmt
from tirlower.rewrite.storage.in_place import works_in_place
from tirlower.rewrite.storage.liveness import Allocation, Liveness

__all__ = ["Entry", "StoragePlan", "StorageReport", "constant_bytes", "element_bytes", "plan_storage"]

MATCH_RANGE = 16
"""By which factor a reused piece of memory may differ in size."""
SMALL_BITS = 32
"""Buffers up to this size become registers, so they do not share."""


def element_bytes(kind: DataType) -> int:
    """The bytes of an element in memory, its lanes included."""
    return math.ceil(kind.element.bits / 8) * kind.lanes


@dataclass(eq=False)
class Entry:
    """Memory, and the allocations that use it one after another."""

    members: list[Allocation] = field(default_factory=list)
    bytes: int | None = None
    """The size where it is constant."""

    @property
    def first(self) -> Allocation:
        """The allocation whose variable names the memory."""
        return self.members[0]


@dataclass(frozen=True)
class StorageReport:
    """Bytes of constant-size allocations: ``before`` and ``after`` sharing, and the most that is live at one time
    (``lower_bound``: no plan needs less); how many allocations there are, and how many have symbolic sizes."""

    before: int
    after: int
    lower_bound: int
    allocations_before: int
    allocations_after: int
    symbolic: int

    def __str__(self) -> str:
        symbolic = f", {self.symbolic} of symbolic size" if self.symbolic else ""
        return (
            f"{self.allocations_before} allocations of {self.before} bytes became {self.allocations_after} of "
            f"{self.after} bytes; {self.lower_bound} bytes are live at one time{symbolic}"
        )


@dataclass(eq=False)
class StoragePlan:
    """The entries of a function in the order of their first use; allocations that nothing uses; for each one that ends
    in place the one that takes its memory over; and the report."""

    entries: list[Entry]
    unused: list[Allocation]
    in_place: dict[Allocation, Allocation]
    report: StorageReport


class _Pool:
    """Free memory of one place and storage scope."""

    def __init__(self) -> None:
        self.sized: list[tuple[int, int, Entry]] = []
        self.symbolic: list[Entry] = []
        self.count = 0

    def give(self, entry: Entry) -> None:
        if entry.bytes is None:
            self.symbolic.append(entry)
        else:
            self.count += 1
            bisect.insort(self.sized, (entry.bytes, self.count, entry), key=lambda item: item[:2])

    def take(self, size: int | None, kind: DataType, exact: bool) -> Entry | None:
        """A free entry for a buffer of a size and dtype."""
        if size is None:
            for position, entry in enumerate(self.symbolic):
                if entry.first.op.buffer.dtype.element is kind.element:
                    return self.symbolic.pop(position)
            return None
        sizes = self.sized
        middle = bisect.bisect_left(sizes, size, key=lambda item: item[0])
        # First what is large enough, from the smallest on; then what has to grow, from the largest down.
        for position in range(middle, len(sizes)):
            if sizes[position][0] > size * MATCH_RANGE:
                break
            if self._fits(position, kind, exact):
                return sizes.pop(position)[2]
        for position in range(middle - 1, -1, -1):
            if sizes[position][0] * MATCH_RANGE < size:
                break
            if self._fits(position, kind, exact):
                return sizes.pop(position)[2]
        return None

    def _fits(self, position: int, kind: DataType, exact: bool) -> bool:
        return not exact or self.sized[position][2].first.op.buffer.dtype is kind


def constant_bytes(buffer: Buffer) -> int | None:
    """The bytes that an allocation of a buffer takes; None where they are not constant."""
    parts = (*buffer.shape, *buffer.strides, buffer.elem_offset)
    if not all(isinstance(part, IntImm) for part in parts):
        return None
    extents = [e.value for e in buffer.shape if isinstance(e, IntImm)]
    count = math.prod(extents)
    if buffer.strides and count:
        strides = [s.value for s in buffer.strides if isinstance(s, IntImm)]
        reach = 1 + sum((e - 1) * s for e, s in zip(extents, strides, strict=True))
        count = max(reach, extents[0] * strides[0])
    offset = buffer.elem_offset.value if isinstance(buffer.elem_offset, IntImm) else 0
    return (count + offset) * element_bytes(buffer.dtype)


def _shares(allocation: Allocation, size: int | None) -> bool:
    """Whether a buffer may share memory by its storage scope, form and size."""
    buffer = allocation.op.buffer
    if allocation.place is None or allocation.op.annotations or buffer.dtype.is_handle:
        return False
    physical = len(buffer.axis_separators) + 1
    rank, _, tag = buffer.scope.partition(".")
    if physical > 1 or rank == "wmma" or rank.startswith("m16n8k8"):
        return False
    if not tag and (rank not in ("global", "shared") or (size is not None and size * 8 <= SMALL_BITS)):
        return False
    return not buffer.strides or size is not None


class _Planner:
    def __init__(self, reuse: bool, exact: bool, apart: bool) -> None:
        self.reuse = reuse
        self.apart = apart
        self.exact = exact
        self.pools: dict[object, _Pool] = {}
        self.entries: list[Entry] = []
        # A heap of what is in use, by when it ends; and by the statement that ends it.
        self.ending: list[tuple[int, int, Allocation, Entry]] = []
        self.by_last: dict[int, list[tuple[Allocation, Entry]]] = {}
        self.taken_over: dict[Allocation, Allocation] = {}

    def plan(self, order: Sequence[Allocation]) -> None:
        for number, allocation in enumerate(order):
            self._release(allocation.start)
            size = constant_bytes(allocation.op.buffer)
            entry = self._in_place(allocation, size)
            if entry is None and self.reuse and self._may_share(allocation, size):
                entry = self._pool(allocation).take(size, allocation.op.buffer.dtype, self.exact)
            if entry is None:
                entry = Entry(bytes=size)
                self.entries.append(entry)
            elif size is not None and entry.bytes is not None:
                entry.bytes = max(entry.bytes, size)
            entry.members.append(allocation)
            heapq.heappush(self.ending, (allocation.stop, number, allocation, entry))
            if allocation.last is not None:
                self.by_last.setdefault(id(allocation.last), []).append((allocation, entry))

    def _pool(self, allocation: Allocation) -> _Pool:
        return self.pools.setdefault((allocation.place, allocation.op.buffer.scope), _Pool())

    def _may_share(self, allocation: Allocation, size: int | None) -> bool:
        if self.apart and allocation.op.buffer.scope.startswith("shared"):
            return False
        return _shares(allocation, size)

    def _release(self, time: int) -> None:
        """Memory whose range ended before a time is free."""
        while self.ending and self.ending[0][0] < time:
            _, _, allocation, entry = heapq.heappop(self.ending)
            if allocation not in self.taken_over and self._may_share(allocation, constant_bytes(allocation.op.buffer)):
                self._pool(allocation).give(entry)

    def _in_place(self, allocation: Allocation, size: int | None) -> Entry | None:
        """The memory of a buffer that ends with the statement that begins this one, where the statement allows it."""
        buffer, stmt = allocation.op.buffer, allocation.first
        if stmt is None or allocation.place is None or allocation.op.annotations or buffer.dtype.is_handle:
            return None
        ended = self.by_last.get(id(stmt), [])
        for source, entry in _as_touched(stmt, ended) if len(ended) > 1 else ended:
            other = source.op.buffer
            if (
                source not in self.taken_over
                and source.place is allocation.place
                and not source.op.annotations
                and other.scope == buffer.scope
                and entry.first.op.buffer.dtype.element is buffer.dtype.element
                and entry.bytes == size
                and works_in_place(stmt, allocation.data, source.data)
            ):
                self.taken_over[source] = allocation
                return entry
        return None


def _as_touched(stmt: Stmt, ended: list[tuple[Allocation, Entry]]) -> list[tuple[Allocation, Entry]]:
    """What ends with a statement in the order in which the statement touches it."""
    seen: dict[Var, int] = {}
    for load in each(BufferLoad, stmt):
        seen.setdefault(load.buffer.data, len(seen))
    return sorted(ended, key=lambda item: seen.get(item[0].data, len(seen)))


def plan_storage(func: PrimFunc, reuse: bool = True, exact: bool = False, apart: bool = False) -> StoragePlan:
    """The plan for a function. Without ``reuse`` only operations in place share; ``exact`` wants equal dtypes.

    ``apart``: buffers that threads share do not share memory with one another.
    """
    liveness = Liveness(func)
    planner = _Planner(reuse, exact, apart)
    planner.plan(liveness.order)
    everything = list(liveness.found.values())
    unused = [a for a in everything if a.touches is None]
    return StoragePlan(planner.entries, unused, planner.taken_over, _report(everything, planner))


def _report(everything: Sequence[Allocation], planner: _Planner) -> StorageReport:
    sizes = {a: constant_bytes(a.op.buffer) for a in everything}
    changes: list[tuple[int, int]] = []
    taking = set(planner.taken_over.values())
    for allocation, size in sizes.items():
        if size is None or allocation.touches is None:
            continue
        heir = planner.taken_over.get(allocation)
        # Where one takes the other's memory over, only one of the two is there at a time.
        begin = 2 * allocation.start + (1 if allocation in taking else 0)
        end = 2 * allocation.stop + 1 if heir is None else 2 * heir.start
        changes += [(begin, size), (end, -size)]
    live = most = 0
    for _, change in sorted(changes):
        live += change
        most = max(most, live)
    return StorageReport(
        before=sum(size or 0 for size in sizes.values()),
        after=sum(entry.bytes or 0 for entry in planner.entries),
        lower_bound=most,
        allocations_before=len(everything),
        allocations_after=len(planner.entries),
        symbolic=sum(size is None for size in sizes.values()),
    )
