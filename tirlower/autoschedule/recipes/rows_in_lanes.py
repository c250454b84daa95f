"""Sums along rows that are kept in order, a row in each lane: squares of what is read along the rows are transposed in
registers, and each step of the sums is a vector of as many rows. Every sum adds up what it did, in its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tirlower.autoschedule.classify import Nest, extent_of, strides_of
from tirlower.autoschedule.verbs import Verbs
from tirlower.ir.expr import is_const_int
from tirlower.ir.query import each
from tirlower.ir.stmt import AllocBuffer, Bind, For, Seq
from tirlower.machine.processor import Processor
from tirlower.poly import Access, Loop, Statement
from tirlower.schedule.handles import LoopRV

__all__ = ["CYCLES", "ROWS", "RowsInLanes", "in_lanes_here", "in_squares", "rows_in_lanes", "side_by_side"]

ROWS: Final = 16
"""Rows of a square: as many lanes as registers of 512 bits have. Narrower ones win nothing over rows side by side."""

CYCLES: Final = 0.3
"""Of an element: a square of 256 takes 64 exchanges in registers and 16 additions."""

_SQUARES: Final = 2
"""Buffers that are transposed, at most."""


@dataclass(frozen=True)
class RowsInLanes:
    """``along`` is the loop that sums up, ``packed`` are the buffers that are read along it, ``sums`` those summed up into.
    ``part`` says which statement of the loop's body the sum is, where there are others: it has a loop of its own then. ``own``
    are the scalars that each row allocates; ``alone`` says that the rows have no other loops."""

    along: Loop
    packed: tuple[str, ...]
    sums: tuple[str, ...]
    part: int | None
    own: tuple[str, ...]
    alone: bool

    def apply(self, sch: Verbs, rows: LoopRV, along: LoopRV) -> LoopRV:
        """Let 16 rows be summed up in lanes, and what is left of them side by side, if they do nothing else. Returns the loop over
        such groups."""
        count = _number(sch, rows)
        if count is None or count % ROWS:
            rows, rest = sch.peel(rows, beyond=ROWS)
            if self.alone and not self.own and (count is None or count % ROWS > 1):
                sch.unroll_jam(rest, ROWS // 2 if count is None else count % ROWS)
        rows, lanes = sch.split(rows, [None, ROWS])
        for name in self.own:
            sch.expand(name, lanes)
        self.sum_up(sch, lanes, along)
        return rows

    def sum_up(self, sch: Verbs, lanes: LoopRV, along: LoopRV) -> None:
        """Let a loop over 16 rows become lanes."""
        sums = [along]
        length = extent_of(self.along)
        if length is None or length % ROWS:
            sums = sch.peel(along, beyond=ROWS)
        for part, inner, alone in [(one, *_loops_in(sch, one, sums)) for one in sch.fission(lanes)]:
            if inner is None and not alone:
                continue  # what has other loops goes along these
            if inner is not None:
                sch.reorder(inner, part)
                for name in self.sums:
                    sch.stage_mem(inner, name, load=True, store=True)
            if inner is sums[0]:
                squares, steps = sch.split(inner, [None, ROWS])
                for name in self.packed:
                    sch.vectorize(sch.pack(name, squares, _transposed)[-1])
                sch.unroll(steps)
            sch.vectorize(part)


def side_by_side(sch: Verbs, rows: LoopRV, count: int) -> None:
    """Let the rows that are left of a chain go through each stage together, what has loops in it so many rows at a time."""
    if count < 2:
        return
    for stage, alone in [(one, _loops_in(sch, one, ())[1]) for one in sch.fission(rows)]:
        if not alone:
            sch.unroll_jam(stage, count)


def _transposed(*indices: object) -> list[object]:
    return [*indices[:-2], indices[-1], indices[-2]]


def _number(sch: Verbs, loop: LoopRV) -> int | None:
    node = sch.get(loop)
    assert isinstance(node, For)
    value = getattr(node.extent, "value", None)
    return value if isinstance(value, int) else None


def in_lanes_here(processor: Processor) -> bool:
    """Whether registers have a lane for each row of a square."""
    return processor.lanes("float32") == ROWS


def _loops_in(sch: Verbs, part: LoopRV, sums: Sequence[LoopRV]) -> tuple[LoopRV | None, bool]:
    """Which part of the sum stands in a loop over rows, and whether no loop does."""
    node = sch.get(part)
    assert isinstance(node, For)
    inside = {id(one) for one in each(For, node.body)}
    return next((one for one in sums if id(sch.get(one)) in inside), None), not inside


def rows_in_lanes(nest: Nest, depth: int, sums: Sequence[Statement]) -> RowsInLanes | None:
    """How the rows of a nest may be summed up in lanes; None where they may not.

    The sums are all that a loop inside of the rows does, or the one sum there can part from what else it does. What they read
    lies along that loop, of four bytes (and is transposed), along the rows, or is the same for all of these.
    """
    own = [one.buffer for one in each(AllocBuffer, nest.root)]
    if not sums or any(isinstance(one.node, Bind) for one in nest.statements):
        return None
    if any(not is_const_int(extent, 1) for buffer in own for extent in buffer.shape):
        return None
    row, along = nest.loops[depth - 1], sums[0].loops[-1]
    if any(len(one.loops) != depth + 1 or one.loops[-1] is not along for one in sums):
        return None
    if any((extent_of(loop) or ROWS) < ROWS for loop in (row, along)) or along.start.terms or row.start.terms:
        return None
    there = [one for one in nest.statements if one.loops[-1] is along]
    part = None
    if len(there) > len(sums):
        body = along.node.body
        if len(sums) > 1 or not isinstance(body, Seq) or [one.node for one in there] != list(body.stmts):
            return None
        part = there.index(sums[0])
    packed: dict[str, None] = {}
    written: dict[str, None] = {}
    others: dict[str, None] = {}
    for one in nest.statements:
        is_sum = any(one is other for other in sums)
        if len(one.loops) > depth and not is_sum:
            continue
        for access in one.accesses:
            strides = strides_of(access)
            if access.buffer is None or access.guards:
                return None
            if access.is_write:
                mine = access.data in nest.local
                if along in strides or (strides.get(row) != 1 and not mine):
                    return None
                if is_sum:
                    written[access.buffer.name] = None
            elif is_sum and in_squares(access, row, along):
                packed[access.buffer.name] = None
            elif strides.get(row, 0) not in (0, 1):
                return None
            elif is_sum:
                others[access.buffer.name] = None
    if not 0 < len(packed) <= _SQUARES or (written | others).keys() & packed.keys():
        return None
    alone = part is None and all(one in sums for one in nest.statements if len(one.loops) > depth)
    return RowsInLanes(along, tuple(packed), tuple(written), part, tuple(one.name for one in own), alone)


def in_squares(access: Access, row: Loop, along: Loop) -> bool:
    """Whether an access goes along the last dimension of a buffer in each of its rows, by elements of four bytes."""
    buffer, indices = access.buffer, access.indices or ()
    if buffer is None or len(indices) < 2 or buffer.dtype.bits != 32 or buffer.dtype.lanes != 1 or buffer.strides:
        return False
    loops = [form.terms for form in indices[-2:]]
    others = [dim for form in indices[:-2] for dim in form.terms]
    return loops == [{row.var: 1}, {along.var: 1}] and row.var not in others and along.var not in others
