"""Exact memory-based dependences: which instance must stay before which, and how far apart they are.

Source and sink touch one element, one of them writes it, and the source comes first in the order of the script: flow
(write, read), anti (read, write), output (write, write). Memory-based: a write between them does not hide them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tirlower.ir import PrimFunc
from tirlower.poly.conflicts import Conflicts
from tirlower.poly.constraint_system import SINK, SOURCE, Outcome
from tirlower.poly.digit_test import Sign
from tirlower.poly.execution_order import common_loops, ways_before
from tirlower.poly.extract import extract
from tirlower.poly.forms import single
from tirlower.poly.isl import Solver, isl
from tirlower.poly.scop import Access, Loop, Scop, updates_of_one
from tirlower.poly.to_isl import map_of
from tirlower.poly.verdict import Witness

__all__ = ["Dependence", "dependences"]


@dataclass(frozen=True)
class Dependence:
    """A dependence of ``sink`` on ``source``, in one of the ways in which the source comes first.

    ``kind`` is "flow", "anti" or "output"; ``carrier`` the loop whose iterations it crosses (None: within one
    iteration of all common loops); ``directions`` the sign of the sink's iteration minus the source's, for each common
    loop: "=", "<" (the sink's is later), ">", or "*"; ``distance`` the difference where it is one number.
    ``certain`` is False where it may exist or not; ``reduction`` says that both belong to updates of one reduction.
    """

    kind: str
    source: Access
    sink: Access
    loops: tuple[Loop, ...]
    carrier: Loop | None
    certain: bool
    reduction: bool
    conflicts: Conflicts = field(repr=False)
    outcome: Outcome = field(repr=False)

    @property
    def signs(self) -> dict[Loop, Sign]:
        """How the source's iterations relate to the sink's."""
        signs: dict[Loop, Sign] = {}
        for loop in self.loops:
            if loop is self.carrier:
                signs[loop] = "<"
                break
            signs[loop] = "="
        return signs

    @cached_property
    def relation(self) -> isl.Map:
        """The dependence as an isl Map from source instances to sink instances. Raises ImportError without islpy."""
        a, b = self.source, self.sink
        forms = self.conflicts.forms(a, b) or []
        # No loop is merged: both sides keep columns of their own.
        related = [(single(loop.var), single(loop.var), sign) for loop, sign in self.signs.items()]
        system = self.conflicts.system(a, b, forms, {}, related)
        keys = [*((SOURCE, loop.var) for loop in a.loops), *((SINK, loop.var) for loop in b.loops)]
        return map_of(self.conflicts.scop, system, keys, len(a.loops), (a.statement.name, b.statement.name))

    @cached_property
    def deltas(self) -> isl.Set:
        """The differences sink minus source of the common loops, as an isl Set."""
        kind = isl.dim_type
        count = len(self.loops)
        made = self.relation
        made = made.project_out(kind.in_, count, len(self.source.loops) - count)
        made = made.project_out(kind.out, count, len(self.sink.loops) - count)
        return made.reset_tuple_id(kind.in_).reset_tuple_id(kind.out).deltas()

    @cached_property
    def _ranges(self) -> tuple[tuple[int | None, int | None], ...]:
        found = []
        for n in range(len(self.loops)):
            ends = []
            for value in (self.deltas.dim_min_val(n), self.deltas.dim_max_val(n)):
                ends.append(value.to_python() if value.is_int() else None)
            found.append((ends[0], ends[1]))
        return tuple(found)

    @property
    def directions(self) -> tuple[str, ...]:
        """A sign for each common loop, outermost first (see the class)."""
        return tuple(_direction(low, high) for low, high in self._ranges)

    @property
    def distance(self) -> tuple[int | None, ...]:
        """The difference for each common loop where it is one number, else None."""
        return tuple(low if low == high else None for low, high in self._ranges)

    @property
    def witness(self) -> Witness | None:
        """Two instances, where the dependence is certain."""
        return self.conflicts.witness(self.source, self.sink, self.signs, (), self.outcome) if self.certain else None

    def __str__(self) -> str:
        where = f"carried by {self.carrier.name}" if self.carrier is not None else "within an iteration"
        return f"{self.kind}: {self.source.text} -> {self.sink.text}, {where}" + ("" if self.certain else " (may)")


def _direction(low: int | None, high: int | None) -> str:
    if low == high == 0:
        return "="
    if low is not None and low > 0:
        return "<"
    if high is not None and high < 0:
        return ">"
    return "*"


def dependences(func: PrimFunc | Scop, *, solver: Solver | None = None) -> list[Dependence]:
    """All dependences between accesses of a function, one for each way in which the source comes first.

    Without islpy only those that simple arithmetic rules out are missing; the rest are uncertain.

    >>> from tirlower.script import parse
    >>> found = dependences(parse('''
    ... @T.prim_func
    ... def stencil(A: T.Buffer((9, 9), "int32")):
    ...     for i, j in T.grid(8, 8):
    ...         A[i + 1, j] = A[i, j + 1]
    ... '''))
    >>> [(str(d), d.distance) for d in found]
    [('flow: A[i + 1, j] -> A[i, j + 1], carried by i', (1, -1))]
    """
    scop = extract(func)
    conflicts = Conflicts(scop, solver)
    found: list[Dependence] = []
    for a, b in _pairs(scop, conflicts):
        for first, second in ((a, b), (b, a)) if a is not b else ((a, b),):
            found += between(conflicts, first, second)
    return found


def _pairs(scop: Scop, conflicts: Conflicts) -> Iterator[tuple[Access, Access]]:
    for pair in conflicts.pairs(scop.accesses, {}):
        if pair is None:
            return
        yield pair


def between(conflicts: Conflicts, a: Access, b: Access, fixed: Sequence[Loop] = ()) -> Iterator[Dependence]:
    """The dependences from one access to another, those with the loops ``fixed`` (the outermost) in one iteration."""
    scop = conflicts.scop
    loops = common_loops(a, b)
    home = scop.homes.get(a.data, ())
    # Memory allocated inside a loop is another's in another iteration.
    same = max(len(fixed), sum(1 for x, y in zip(home, loops, strict=False) if x is y))
    outer: dict[Loop, Sign] = dict.fromkeys(loops[:same], "=")
    kind = "output" if a.is_write and b.is_write else "flow" if a.is_write else "anti"
    reduction = updates_of_one(a, b)
    for signs in ways_before(a, b, loops[same:]):
        found = conflicts.ask(a, b, {**outer, **signs})
        if found.status == "empty":
            continue
        carrier = next((loop for loop, sign in signs.items() if sign == "<"), None)
        certain = found.status == "found" and found.exact
        yield Dependence(kind, a, b, loops, carrier, certain, reduction, conflicts, found)
