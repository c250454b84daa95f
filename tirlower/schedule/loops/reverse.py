"""``reverse``: the iterations of a loop from the last to the first."""

from __future__ import annotations

from tirlower.ir import build
from tirlower.ir.expr import Expr
from tirlower.ir.functor import substitute
from tirlower.ir.stmt import For, ForKind
from tirlower.poly.forms import constant, single
from tirlower.poly.verdict import Verdict
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.positions import order_verdict
from tirlower.schedule.sites import Change, Edit, Forward
from tirlower.schedule.step import Step

__all__ = ["REVERSE"]


def _reversed(step: Step, loop: For) -> For:
    """The loop that counts as before, and does for each number what it did for the one as far from the other end."""
    last = build.sub(build.add(loop.min, loop.extent), 1)
    number: Expr = build.add(build.sub(last, loop.loop_var), loop.min)
    simple = step.analyzer(step.site(step.handle("loop"))).simplify(number)
    return loop.with_(body=substitute(loop.body, {loop.loop_var: simple}))


def _check(step: Step) -> Verdict:
    handle = step.handle("loop")
    loop, site = step.loop(handle), step.site(handle)
    if loop.kind is ForKind.THREAD_BINDING:
        step.refuse(f"the loop is bound to {loop.thread_tag}", loop, "reverse it before it is bound")
    made = _reversed(step, loop)
    return order_verdict(step, site, {loop.body: [constant(0) - single(loop.loop_var)]}, site, made)


def _rewrite(step: Step) -> Change:
    handle = step.handle("loop")
    loop = step.loop(handle)
    made, forward = _reversed(step, loop), Forward()
    forward.like(loop, made)
    return Change(Edit(step.site(handle), made), forward)


REVERSE = Kind(
    "Reverse",
    "reverse",
    (Slot("loop", Takes.LOOP),),
    _rewrite,
    """Run the iterations of a loop from the last to the first. Legal where no two of them that meet change their order.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((9,), "int32")):
    ...     for i in range(8):
    ...         A[i] = i
    ... '''))
    >>> sch.reverse("i")
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((9,), "int32")):
        for i in range(8):
            A[7 - i] = 7 - i
    """,
    check=_check,
    tvm=False,
)
