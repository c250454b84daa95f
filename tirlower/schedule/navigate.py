"""``navigate``: from a statement to what stands around, inside, or beside it, in the program as it is now."""

from __future__ import annotations

from tirlower.diagnostics import BadArgument
from tirlower.ir.func import PrimFunc
from tirlower.ir.path import Path
from tirlower.ir.stmt import AllocBuffer, Block, For, Seq, Stmt
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.sites import Change, Gap, Site, Steps
from tirlower.schedule.step import Step

__all__ = ["NAVIGATE", "WAYS"]

WAYS = ("parent", "body", "next", "prev", "before", "after")
"""Where one may go: the loop or block around, the statements inside, the statements behind and in front, the gaps there."""


def _navigate(step: Step) -> Change:
    to = step["to"]
    if to not in WAYS:
        raise BadArgument(f"to= is one of {', '.join(map(repr, WAYS))}, got {to!r}")
    site = step.site(step.handle("stmt"))
    if to == "body":
        return Change(outputs=tuple(_inside(step, site)))
    if not site.steps:
        return Change()  # around and beside a function there is nothing
    if to == "parent":
        around = [place for place, stmt in step.way(site) if isinstance(stmt, (For, Block))]
        return Change(outputs=tuple(around[-1:]))
    if to in ("before", "after"):
        return Change(outputs=(Gap(site, str(to)),))
    number = site.steps[-1]
    if not isinstance(number, int):
        return Change()  # it stands alone
    seq = Site(site.func, site.steps[:-2])
    beside = [place for place in _statements(step, seq) if place.steps[-1] != number]
    later = [place for place in beside if int(str(place.steps[-1])) > number]
    earlier = [place for place in beside if place not in later]
    return Change(outputs=tuple(later[:1] if to == "next" else earlier[-1:]))


def _inside(step: Step, site: Site) -> list[Site]:
    """The statements in a loop, block or function, those of a sequence one by one."""
    stmt: Stmt | PrimFunc = step.func(site) if not site.steps else _at(step, site)
    body: Steps = ("body",)
    if not isinstance(getattr(stmt, "body", None), Stmt):
        return []
    inner = site / body
    if not isinstance(_at(step, inner), Seq):
        return [inner] if _is_one(_at(step, inner)) else []
    return _statements(step, inner)


def _statements(step: Step, seq: Site) -> list[Site]:
    """The statements of a sequence that do something."""
    found = _at(step, seq)
    assert isinstance(found, Seq)
    return [seq / ("stmts", at) for at, stmt in enumerate(found.stmts) if _is_one(stmt)]


def _is_one(stmt: Stmt) -> bool:
    return not isinstance(stmt, AllocBuffer)


def _at(step: Step, site: Site) -> Stmt:
    found = Path(site.steps).chain(step.func(site))[-1]
    assert isinstance(found, Stmt)
    return found


NAVIGATE = Kind(
    "Navigate",
    "navigate",
    (Slot("stmt", Takes.STATEMENT), Slot("to", Takes.STRING, attr=True)),
    _navigate,
    """The handles of what stands around or beside a loop, block or statement: ``to`` is "parent" (the loop or block around it),
    "body" (the statements in it), "next" and "prev" (the statements beside it in its sequence), "before" and "after" (the gaps
    there, which go with the statement). An empty list where there is nothing.

    Handles have these as properties: ``loop.parent``, ``loop.body``, ``stmt.next``, ``stmt.before`` …

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    ...     for i in range(4):
    ...         A[i] = 1
    ...         B[i] = A[i]
    ... '''))
    >>> i = sch.loop("i")
    >>> first, second = i.body
    >>> first.next, second.parent, i.parent, second.before, [buffer.name for buffer in second.reads]
    (StmtRV('B'), LoopRV('i'), None, GapRV('before_B'), ['A'])
    >>> sch.fission(i, at=second.before)
    [LoopRV('i'), LoopRV('i')]
    """,
    returns="many",
    pure=True,
    tvm=False,
)
