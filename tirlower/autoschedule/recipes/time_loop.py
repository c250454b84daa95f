"""Sweeps over arrays again and again (Jacobi steps, smoothing, waves): all steps follow each other through the arrays at once.

The sweeps of a step are run in step with each other, each some rows behind the one before it, and so are the steps: when
the first one comes to a row, the last one is but some rows behind, and these stay in the second cache. Every element is
computed from the values that it was computed from, so that each bit is the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from tirlower.autoschedule.classify import Nest, extent_of
from tirlower.autoschedule.model import written_seconds
from tirlower.autoschedule.recipe import Facts, Handles, Plan, Recipe, Refusal
from tirlower.autoschedule.traffic import bytes_of
from tirlower.autoschedule.verbs import Verbs
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import IntImm
from tirlower.ir.query import each
from tirlower.ir.stmt import AllocBuffer, For, Seq, Stmt
from tirlower.machine.processor import Processor
from tirlower.poly import Access, Loop, Statement

__all__ = ["TIME_LOOP", "TimeLoop", "TimeLoopPlan"]

PART: Final = 0.75
"""The part of the second cache that the rows of all steps may take."""

LARGE: Final = 8
"""Arrays of up to so many times the second cache are swept as they are written: of twice its size that was a fifth faster, of
four to six times about as fast."""

LEFT: Final = 0.5
"""What is left of the time of sweeps that wait for memory: ten steps of 4096² floats take 37 ms, one by one 85."""


@dataclass(frozen=True, eq=False)
class _Facts(Facts):
    """The loop over steps, the rows of each sweep, how many rows each is behind the first one, and each step behind the one
    before it; the arrays that are swept."""

    time: Loop
    rows: tuple[Loop, ...]
    behind: tuple[int, ...]
    skew: int
    arrays: tuple[Buffer, ...]


@dataclass(frozen=True)
class TimeLoopPlan(Plan):
    """Steps that go through the arrays at once (0: all)."""

    together: int = 0


@dataclass(frozen=True)
class TimeLoop(Recipe[_Facts, TimeLoopPlan]):
    """A loop over steps, each of which is sweeps along the same rows."""

    name: ClassVar[str] = "time loop"

    def matches(self, nests: Sequence[Nest]) -> _Facts | Refusal:
        """The first nest, where its outermost loop repeats sweeps."""
        nest = nests[0]
        body = nest.root.body
        sweeps: tuple[Stmt, ...] = body.stmts if isinstance(body, Seq) else (body,)
        if any(True for _ in each(AllocBuffer, nest.root)):
            return Refusal("it has memory of its own")
        rows = tuple(loop for loop in nest.loops[1:] if loop.outer == (nest.loops[0],))
        if not rows or len(rows) != len(sweeps) or any(a.node is not b for a, b in zip(rows, sweeps, strict=True)):
            return Refusal("its outermost loop does not stand around sweeps along rows alone")
        statements = [tuple(one for one in nest.statements if row in one.loops) for row in rows]
        if any(len(one) != 1 or len(one[0].loops) < 3 for one in statements):
            return Refusal("a sweep is not one statement along rows")
        ends = [(row.node.min, row.node.extent) for row in rows if isinstance(row.node, For)]
        if any(not all(isinstance(x, IntImm) for x in end) for end in ends):
            return Refusal("the rows of its sweeps are no numbers")
        if len({(a.value, b.value) for a, b in ends if isinstance(a, IntImm) and isinstance(b, IntImm)}) != 1:
            return Refusal("its sweeps are not along the same rows")
        time = nest.loops[0]
        if any(time.var in form.terms for access in nest.accesses() for form in access.indices or ()):
            return Refusal(f"what is touched moves with `{time.name}`")
        places = [_places(one, row) for (one,), row in zip(statements, rows, strict=True)]
        written = {access.data for access in nest.accesses() if access.is_write}
        clashes: list[tuple[int, int, int]] = []  # the sweeps a and b, and by how many rows b reaches beyond a
        for a, mine in enumerate(places):
            for b, others in enumerate(places):
                for x, place in mine.items():
                    for y, other in others.items():
                        if x.data is y.data and x.data in written and (x.is_write or y.is_write):
                            if place is None or other is None or place[0] != other[0]:
                                return Refusal(f"{x.text} is not at a row of its own for each row of the sweep")
                            clashes.append((a, b, other[1] - place[1]))
        behind: list[int] = []
        for at in range(len(rows)):
            behind.append(max([0, *(behind[a] + by for a, b, by in clashes if b == at and a < at)]))
        skew = max([0, *(by + behind[a] - behind[b] for a, b, by in clashes)])
        if not skew:
            return Refusal("no step needs what the one before it computed")
        arrays = {access.buffer: None for access in nest.accesses() if access.buffer is not None}
        return _Facts((nest,), time, rows, tuple(behind), skew, tuple(arrays))

    def plan(self, facts: _Facts, processor: Processor) -> TimeLoopPlan | Refusal:
        """As many steps as the second cache has rows for, where the arrays do not fit into it as they are."""
        sizes = [bytes_of(buffer) for buffer in facts.arrays]
        whole = sum(size or 0 for size in sizes)
        if None in sizes:
            return Refusal("the sizes of its arrays are no numbers")
        if whole <= LARGE * processor.l2:
            return Refusal("what it sweeps is at hand in the caches")
        steps, rows = extent_of(facts.time), extent_of(facts.rows[0]) or 1
        row = whole // rows
        room = int(processor.l2 * PART) // max(1, row) - max(facts.behind) - facts.skew
        most = room // facts.skew
        if most < 2 or (steps is not None and steps < 2):
            return Refusal(f"the second cache has no room for {facts.skew} rows of {row} bytes a step")
        together = 0 if steps is not None and steps <= most else most
        [nest] = facts.nests
        rule = f"each step {facts.skew} rows behind the one before it; {together or steps} steps in the second cache"
        return TimeLoopPlan(written_seconds(nest, processor) * LEFT, rule, together)

    def apply(self, sch: Verbs, facts: _Facts, plan: TimeLoopPlan, loops: Handles) -> None:
        """The sweeps of a step in step, then the steps."""
        time, row = loops[facts.time], loops[facts.rows[0]]
        for other, by in zip(facts.rows[1:], facts.behind[1:], strict=True):
            row = sch.fuse_siblings(row, loops[other], shift=by)
        if plan.together:
            _, time = sch.split(time, [None, plan.together])
        sch.skew(time, row, facts.skew)
        sch.reorder(row, time)


def _places(statement: Statement, row: Loop) -> Mapping[Access, tuple[int, int] | None]:
    """Of each access the subscript that is a row of a sweep, and how far from it; None where none is."""
    found: dict[Access, tuple[int, int] | None] = {}
    for access in statement.accesses:
        at = [(dim, form) for dim, form in enumerate(access.indices or ()) if row.var in form.terms]
        plain = len(at) == 1 and at[0][1].terms == {row.var: 1}
        found[access] = (at[0][0], at[0][1].const) if plain else None
    return found


TIME_LOOP: Final = TimeLoop()
