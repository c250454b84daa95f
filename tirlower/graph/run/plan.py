"""Where the values of a compiled graph live: a plan that can be looked at, and checked."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heappop, heappush

from tirlower.graph.errors import GraphError
from tirlower.graph.lower.driver import Lowered
from tirlower.graph.ops.evaluate import extent_value
from tirlower.ir import ALLOC_ALIGNMENT, Var

__all__ = ["Placement", "Plan", "check_plan", "plan_of"]


@dataclass(frozen=True)
class Placement:
    """A value in the arena: its bytes, the step that makes it and the last one that reads it."""

    name: str
    offset: int
    size: int
    first: int
    last: int

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.offset + self.size


@dataclass(frozen=True)
class Plan:
    """The places of all values of the arena, in the order in which they are made, and the arena's bytes."""

    placements: tuple[Placement, ...]
    arena: int

    @property
    def without_reuse(self) -> int:
        """The bytes if each value had its own, aligned."""
        return sum(_aligned(one.size) for one in self.placements)

    @property
    def most_live(self) -> int:
        """The most bytes of values that are needed at one time: no arena can be smaller.

        >>> Plan((Placement("a", 0, 64, 0, 1), Placement("b", 64, 64, 1, 2), Placement("c", 0, 64, 2, 3)), 128).most_live
        128
        """
        changes: dict[int, int] = {}
        for one in self.placements:
            changes[one.first] = changes.get(one.first, 0) + one.size
            changes[one.last + 1] = changes.get(one.last + 1, 0) - one.size
        live = most = 0
        for step in sorted(changes):
            live += changes[step]
            most = max(most, live)
        return most

    def verify(self) -> None:
        """No two values that are needed at one time share a byte; each stands aligned inside the arena.

        Raises :class:`GraphError` that names the values.

        >>> Plan((Placement("a", 0, 100, 0, 2), Placement("b", 64, 64, 1, 2)), 128).verify()
        Traceback (most recent call last):
        ...
        tirlower.graph.errors.GraphError: error: 'a' (bytes 0 to 99, steps 0 to 2) and 'b' (bytes 64 to 127, steps 1 to 2) share memory
        """
        for one in self.placements:
            if one.offset % ALLOC_ALIGNMENT or one.offset < 0 or one.end > self.arena:
                raise GraphError(
                    f"{_shown(one)} is not aligned to {ALLOC_ALIGNMENT} bytes, or not in the arena of {self.arena}"
                )
            if one.last < one.first:
                raise GraphError(f"{_shown(one)} is read before it is made")
        # Through the steps: values that are held lie one behind the other, so that a new one can meet its neighbours alone.
        held: list[tuple[int, int, Placement]] = []
        ending: list[tuple[int, int, int]] = []
        for n, one in sorted(enumerate(self.placements), key=lambda p: (p[1].first, p[1].offset)):
            if not one.size:
                continue
            while ending and ending[0][0] < one.first:
                _, offset, number = heappop(ending)
                del held[bisect_left(held, (offset, number), key=lambda h: h[:2])]
            at = bisect_left(held, (one.offset, n), key=lambda h: h[:2])
            for _, _, other in held[max(at - 1, 0) : at + 1]:
                if other.offset < one.end and one.offset < other.end:
                    raise GraphError(f"{_shown(other)} and {_shown(one)} share memory")
            held.insert(at, (one.offset, n, one))
            heappush(ending, (one.last, one.offset, n))

    def __str__(self) -> str:
        """A line for each value."""
        lines = [f"arena of {self.arena} bytes, without reuse {self.without_reuse}, most live at once {self.most_live}"]
        width = max([5, *(len(one.name) for one in self.placements)])
        lines.append(f"{'value':<{width}}      offset        size  steps")
        lines += [f"{p.name:<{width}}  {p.offset:10d}  {p.size:10d}  {p.first} to {p.last}" for p in self.placements]
        return "\n".join(lines)


def plan_of(lowered: Lowered, dims: Mapping[Var, int]) -> Plan:
    """The plan of a graph where its dims have these values; a step is a call of a kernel, or a choice."""
    placements = []
    for value, offset in lowered.storage.offsets.items():
        size = (value.dtype.bits + 7) // 8
        for extent in value.extents:
            size *= extent_value(extent, dims)
        placements.append(Placement(value.name, extent_value(offset, dims), size, *lowered.lifetimes[value]))
    return Plan(tuple(placements), extent_value(lowered.storage.arena, dims))


def check_plan(lowered: Lowered) -> None:
    """Verify the plan where the dims have the values at which they are counted, and where they have their least ones.

    Raises :class:`GraphError` that names the values.
    """
    plan_of(lowered, {one.var: one.typical for one in lowered.graph.dims}).verify()
    if lowered.dims:
        plan_of(lowered, {one.var: one.least for one in lowered.graph.dims}).verify()


def _aligned(size: int) -> int:
    return -(-size // ALLOC_ALIGNMENT) * ALLOC_ALIGNMENT


def _shown(one: Placement) -> str:
    return f"{one.name!r} (bytes {one.offset} to {one.end - 1}, steps {one.first} to {one.last})"
