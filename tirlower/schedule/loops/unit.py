"""``add_unit_loop``: a loop of one iteration around a block or a loop."""

from __future__ import annotations

from tirlower.ir.expr import Var, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.stmt import For, ForKind
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.sites import Change, Edit
from tirlower.schedule.step import Step

__all__ = ["ADD_UNIT_LOOP"]


def _check(step: Step) -> Verdict:
    handle = step.handle("block_or_loop")
    if isinstance(step.stmt(handle), PrimFunc) or (len(step.site(handle).steps) <= 1 and handle.what == "block"):
        step.refuse("Cannot add a loop on top of the root block", help="name a block or a loop inside of it")
    return PROVED


def _rewrite(step: Step) -> Change:
    handle = step.handle("block_or_loop")
    stmt = step.stmt(handle)
    assert not isinstance(stmt, PrimFunc)
    loop = For(Var("u"), const(0, "int32"), const(1, "int32"), ForKind.SERIAL, None, {}, stmt)
    return Change(Edit(step.site(handle), loop), outputs=(loop,), relabel={})


ADD_UNIT_LOOP = Kind(
    "AddUnitLoop",
    "add_unit_loop",
    (Slot("block_or_loop", Takes.LOOP_OR_BLOCK),),
    _rewrite,
    """Put a loop ``u`` of one iteration around a block or a loop; always legal. Returns the loop.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4,), "int32")):
    ...     for i in range(4):
    ...         A[i] = 1
    ... '''))
    >>> sch.add_unit_loop(sch.loop("i"))
    LoopRV('u')
    """,
    check=_check,
    returns="one",
)
