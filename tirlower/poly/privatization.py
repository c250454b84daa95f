"""Whose memory a buffer is: allocated inside a loop, each iteration has its own.

What a block allocates belongs to the smallest region around its accesses, whatever block states it: allocations move
there when they are planned. Such a buffer is private to a loop if nothing outside the loop uses it, and every read in
an iteration is of an element that the same iteration has certainly written before.
"""

from __future__ import annotations

from tirlower.ir import Var
from tirlower.poly.boxes import Boxes, NotThis, Positions, Touched
from tirlower.poly.conflicts import Conflicts
from tirlower.poly.constraint_system import BOTH, SINK, System, TooManyCases
from tirlower.poly.cover import covered
from tirlower.poly.digit_test import Sign
from tirlower.poly.execution_order import common_loops, ways_before
from tirlower.poly.isl import Solver, available, default_solver
from tirlower.poly.scop import Access, Loop, Scop

__all__ = ["covered_within", "is_private"]


def is_private(scop: Scop, data: Var, loop: Loop, solver: Solver | None = None) -> bool | None:
    """Whether each iteration of a loop has memory of its own for a data variable; None where that is not known."""
    home = scop.homes.get(data)
    if home is None:
        return False
    if loop in home:
        return True
    if data not in scop.planned:
        return False
    if scop.pointers.any_wild and scop.pointers.reachable(data):
        return None
    accesses = [access for access in scop.accesses if access.data is data]
    if any(loop not in access.loops for access in accesses):
        return False
    reads = [access for access in accesses if not access.is_write]
    writes = [access for access in accesses if access.is_write]
    found = [covered_within(scop, read, writes, loop, solver or default_solver()) for read in reads]
    return False if False in found else None if None in found else True


def covered_within(scop: Scop, read: Access, writes: list[Access], loop: Loop, solver: Solver) -> bool | None:
    """Whether a read sees only what was written before it in the same iteration of ``loop``; None if not known."""
    if read.indices is None:
        return None
    if any(_plainly_covers(write, read, loop) for write in writes if scop.exact(write)):
        return True
    if any(_box_covers(scop, write, read, loop) for write in writes if scop.exact(write)):
        return True
    if not available():
        return None
    dims = [*_parameters(scop), *(each.var for each in read.loops), *_lanes(scop, read)]
    exact = [write for write in writes if scop.exact(write)]
    before = [system for write in exact for system in _written_before(scop, write, read, loop)]
    others = [(system, [(system.side_of(dim, SINK), dim) for dim in dims]) for system in before]
    try:
        found = covered(_instances(scop, read), [(BOTH, dim) for dim in dims], others, solver)
    except TooManyCases:
        return None
    return found if found or (scop.exact(read) and len(exact) == len(writes)) else None


def _plainly_covers(write: Access, read: Access, loop: Loop) -> bool:
    """Whether a write of the same element stands before the read in the same innermost loops and under no guard that
    the read is not under."""
    if (write.order, write.phase) >= (read.order, read.phase) or loop not in write.loops:
        return False
    if write.loops != read.loops[: len(write.loops)]:
        return False
    same = [a.key for a in write.coordinates] == [b.key for b in read.coordinates]
    return same and all(any(c is d for d in read.conditions) for c in write.conditions)


def _box_covers(scop: Scop, write: Access, read: Access, loop: Loop) -> bool:
    """Whether the box that a write fills is certainly all that a read sees, and is filled before: in each iteration of the loops in
    common by an earlier statement, or in the first iteration of the loops that do not matter by one in front in the same loops."""
    common = common_loops(write, read)
    same = write.buffer is read.buffer and len(write.coordinates) == len(read.coordinates)
    if (
        loop not in common
        or not same
        or write.site is not None
        or read.site is not None
        or _lanes(scop, write)
        or write.layout is not read.layout
    ):
        return False
    place = Positions(common)
    alike = [a.key for a in write.coordinates] == [b.key for b in read.coordinates]
    ways = [(common, False)] if place.of(write) < place.of(read) else []
    if alike and write.loops == read.loops and write.order < read.order:
        ways.append((common[: common.index(loop) + 1], True))
    return any(_fills(scop, write, read, around, starts) for around, starts in ways)


def _fills(scop: Scop, write: Access, read: Access, around: tuple[Loop, ...], starts: bool) -> bool:
    """Whether a write, in the first iteration of the loops that do not matter or not, is of all that a read sees in an iteration of
    the loops around."""
    boxes = Boxes(scop)
    try:
        box = boxes.box(Touched(write, write.coordinates, ()), around, starts)
        held = all(any(c is d for d in read.conditions) for c in box.left)
        return held and boxes.covers(box, Touched(read, read.coordinates, ()))
    except (NotThis, TooManyCases):
        return False


def _parameters(scop: Scop) -> list[Var]:
    return [var for var in scop.space.ranges if var not in scop.space.iterated]


def _lanes(scop: Scop, access: Access) -> list[Var]:
    return [dim for lin in access.coordinates for dim in lin.terms if isinstance(dim, Var) and dim in scop.space.lanes]


def _instances(scop: Scop, read: Access) -> System:
    system = System(scop.space, frozenset(scop.space.iterated))
    for condition in (*scop.context, *read.conditions, *(c for each in read.loops for c in each.conditions)):
        system.add(condition, BOTH)
    return system


def _written_before(scop: Scop, write: Access, read: Access, loop: Loop) -> list[System]:
    """The instances of a write (source) and the read (sink) with one element, in order, in one iteration."""
    conflicts = Conflicts(scop)
    forms = conflicts.forms(write, read)
    common = common_loops(write, read)
    if forms is None or loop not in common:
        return []
    depth = common.index(loop) + 1
    outer: dict[Loop, Sign] = dict.fromkeys(common[:depth], "=")
    return [
        conflicts.system(write, read, forms, {**outer, **signs}, ())
        for signs in ways_before(write, read, common[depth:])
    ]
