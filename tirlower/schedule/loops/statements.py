"""``reorder_stmts``: two statements of one sequence change places."""

from __future__ import annotations

from dataclasses import dataclass

from tirlower.diagnostics import BadArgument
from tirlower.ir.query import each
from tirlower.ir.stmt import DECLARATIONS, Seq, Stmt
from tirlower.poly import Scop
from tirlower.poly.forms import constant
from tirlower.poly.order_kept import Coordinate
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.handles import Handle
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.places import declares_for
from tirlower.schedule.positions import loop_around, order_verdict, place_in, scop_in
from tirlower.schedule.sites import Change, Edit, Site
from tirlower.schedule.step import Step

__all__ = ["REORDER_STMTS", "Placed", "placed"]


@dataclass
class Placed:
    """A statement of a sequence: the place of the sequence, the sequence, and its number."""

    site: Site
    node: Seq
    number: int

    @property
    def stmt(self) -> Stmt:
        """The statement."""
        return self.node.stmts[self.number]


def placed(step: Step, handle: Handle) -> Placed:
    """Where a statement stands in its sequence; it is the loops around it as far as these hold nothing else. Refused where it
    stands alone."""
    site = step.removal(step.site(handle))
    if len(site.steps) >= 2 and isinstance(site.steps[-1], int):
        parent = Site(site.func, site.steps[:-2])
        node = step.chain(parent)[-1]
        if isinstance(node, Seq):
            return Placed(parent, node, site.steps[-1])
    step.refuse(f"`{handle.name}` stands in no sequence of statements")


def first_order(scop: Scop, stmt: Stmt) -> int | None:
    """The place in the text at which a statement begins; None for one that neither loops nor touches memory."""
    inside = {id(one) for one in each(Stmt, stmt)}
    places = [loop.order for loop in scop.loops if id(loop.node) in inside]
    places += [one.order for one in scop.statements if id(one.node) in inside]
    return min(places, default=None)


def _pair(step: Step) -> tuple[Placed, Placed]:
    one, two = (placed(step, step.handle(name)) for name in ("a", "b"))
    if one.site != two.site:
        step.refuse("the statements do not stand in one sequence", two.stmt)
    if one.number == two.number:
        raise BadArgument("a statement changes places with another one")
    return (one, two) if one.number < two.number else (two, one)


def _swapped(one: Placed, two: Placed) -> Stmt:
    stmts = [*one.node.stmts]
    stmts[one.number], stmts[two.number] = two.stmt, one.stmt
    return one.node.with_(stmts=tuple(stmts))


def _check(step: Step) -> Verdict:
    one, two = _pair(step)
    for stmt in (one.stmt, two.stmt):
        if isinstance(stmt, DECLARATIONS):
            step.refuse("a declaration stays in front of what uses it", stmt)
    for stmt in one.node.stmts[one.number + 1 : two.number]:
        if declares_for(step.facts, stmt, two.stmt):
            step.refuse("what the second one uses is declared between the two", stmt)
    around = loop_around(step, one.site)
    scop = scop_in(step, one.site, around)
    places = [first_order(scop, stmt) for stmt in (one.stmt, two.stmt)]
    head = place_in(step, scop, around)
    if None in places:
        return PROVED if places == [None, None] else _alone(step, one, two)
    positions: dict[Stmt, list[Coordinate]] = {}
    for stmt, place in zip((one.stmt, two.stmt), places[::-1], strict=True):
        assert place is not None
        positions[stmt] = [*head, constant(place)]
    return order_verdict(step, one.site, positions, around, _swapped(one, two))


def _alone(step: Step, one: Placed, two: Placed) -> Verdict:
    step.refuse("one of the statements touches no memory and does no loop: what it states is not known", two.stmt)


def _rewrite(step: Step) -> Change:
    one, two = _pair(step)
    steps = one.site / ("stmts",)
    return Change((Edit(steps / (one.number,), two.stmt), Edit(steps / (two.number,), one.stmt)))


REORDER_STMTS = Kind(
    "ReorderStmts",
    "reorder_stmts",
    (Slot("a", Takes.STAGE), Slot("b", Takes.STAGE)),
    _rewrite,
    """Let two statements of one sequence change places: blocks, loops, or what writes a buffer, given by its name. Legal where
    neither they nor what stands between them needs the order.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    ...     for i in range(4):
    ...         A[i] = 1
    ...     for i in range(4):
    ...         B[i] = 2
    ... '''))
    >>> sch.reorder_stmts("A", "B")
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(4):
            B[i] = 2
        for i in range(4):
            A[i] = 1
    """,
    check=_check,
    tvm=False,
)
